"""Test change sets that one model hands on to the next: writers, readers and ranges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwaters.runs.change_set_cache import CachedChangeSet, ChangeSetCache, followers, served
from headwaters.tables.commits import Commit, Range, range_of

RUN = "202611260300_0123abcd"
SIGNED = f"headwaters run {RUN}"
CHANGE_SET = CachedChangeSet(RUN, "silver.orders__stage_1", ("_operation", "_replaced"))
NOTED = {"version": 4, "at": 4_000}


def node(name: str, materialized: str, *reads: str, kind: str = "model") -> dict[str, Any]:
    return {
        "unique_id": name,
        "resource_type": kind,
        "config": {"materialized": materialized},
        "depends_on": {"nodes": list(reads)},
    }


GRAPH = {
    "nodes": {
        "a": node("a", "incremental", "m", "other"),
        "b": node("b", "table", "m"),
        "c": node("c", "test", "m", kind="test"),
        "d": node("d", "incremental", "other"),
        "e": node("e", "incremental", "m"),
    }
}


def commit(version: int, operation: str, **further: Any) -> Commit:
    """Return a commit of the engine that runs the tests, made at `version` seconds."""
    engine = "Apache-Spark/4.2.0 Delta-Lake/4.4.0"
    known: dict[str, Any] = {"parameters": {}, "metrics": {}, "engine": engine} | further
    return Commit(version, version * 1_000, operation, **known)


def merge(version: int, predicate: str = f"k = 1 and o <> '{SIGNED}'") -> Commit:
    metrics = {f"numTargetRows{what}": "1" for what in ("Inserted", "Updated", "Deleted")}
    return commit(version, "MERGE", parameters={"predicate": predicate}, metrics=metrics)


def replaced_by_keys(version: int) -> Commit:
    parameters = {"mode": "Overwrite", "replaceOnCond": "true"}
    metrics = {"numOutputRows": "2", "numDeletedRows": "1"}
    return commit(version, "WRITE", parameters=parameters, metrics=metrics, user_metadata=SIGNED)


NOTE = commit(4, "SET TBLPROPERTIES", parameters={"properties": "{}"})
PROPERTIES = commit(7, "SET TBLPROPERTIES", parameters={"properties": "{}"})


@pytest.mark.parametrize(
    ("commits", "found"),
    [
        ([merge(6), NOTE], CHANGE_SET),
        ([PROPERTIES, replaced_by_keys(6), NOTE], CHANGE_SET),
        ([PROPERTIES, commit(6, "OPTIMIZE"), merge(5), NOTE], CHANGE_SET),
        # nothing changed, or other writers changed rows as well
        ([PROPERTIES, NOTE], None),
        ([merge(6, "k = 1 and o <> 'headwaters run 202611260300_ffffffff'"), NOTE], None),
        ([merge(6), merge(5), NOTE], None),
        ([merge(6), merge(5, "k = 1"), NOTE], None),
        ([commit(7, "DELETE", metrics={"numDeletedRows": "1"}), merge(6), NOTE], None),
        ([commit(7, "RESTORE"), merge(6), NOTE], None),
        # the change set has other columns
        ([commit(7, "ADD COLUMNS"), merge(6), NOTE], None),
        ([merge(6), commit(5, "CHANGE COLUMN"), NOTE], None),
        ([merge(6), commit(5, "A NEW OPERATION"), NOTE], None),
    ],
)
def test_a_range_that_is_one_commit_of_the_run_is_read_from_its_change_set(
    commits: list[Commit], found: CachedChangeSet | None
) -> None:
    kept = ChangeSetCache()
    changes = range_of("`silver`.`orders`", NOTED, commits[0].version, commits)
    assert kept.find(changes, "a") is None
    kept.keep("silver.Orders", CHANGE_SET, ["a"])
    kept.keep("silver.customers", CachedChangeSet(RUN, "another", ()), ["a"])
    assert kept.find(changes, "a") == found
    assert kept.find(changes, "through a view") is None


def test_a_later_change_set_takes_the_place_of_one_before() -> None:
    kept = ChangeSetCache()
    kept.keep("silver.orders", CachedChangeSet(RUN, "an older one", ()), ["a"])
    kept.keep("silver.orders", CHANGE_SET, ["a"])
    assert kept.find(range_of("silver.orders", NOTED, 6, [merge(6), NOTE]), "a") == CHANGE_SET


def test_followers_are_the_incremental_models_that_read_a_model() -> None:
    assert followers("m", GRAPH) == ["a", "e"]
    assert followers("b", GRAPH) == []


def test_models_behind_views_and_ephemeral_models_are_followers_once() -> None:
    behind = [
        node("far", "incremental", "over"),
        node("over", "ephemeral", "view", "m"),
        node("view", "view", "m"),
        node("near", "incremental", "view", "over", "m"),
        # a table has its own changes
        node("behind a table", "incremental", "b"),
        node("last", "incremental", "far"),
        node("tested", "test", "view", kind="test"),
    ]
    graph = {"nodes": GRAPH["nodes"] | {one["unique_id"]: one for one in behind}}
    assert followers("m", graph) == ["a", "e", "near", "far"]
    assert followers("view", graph) == ["near", "far"]
    assert served("m", graph, ["m", "view", "far"], KEYED, "rebuild") == ["far"]


KEYED = {"incremental_strategy": "affected_keys", "unique_key": ["k"]}
LINEAR = {"incremental_strategy": "change_feed", "unique_key": "k"}


@pytest.mark.parametrize(
    ("config", "selected", "on_foreign_write", "models"),
    [
        (KEYED, ["m", "e"], "rebuild", ["e"]),
        (LINEAR, ["m", "e", "a", "b"], "fail", ["a", "e"]),
        # no model reads it
        (KEYED, ["m"], "rebuild", []),
        (KEYED, ["m", "b", "c", "d"], "rebuild", []),
        # rows without a key do not pair old with new
        (KEYED | {"unique_key": None}, ["e"], "rebuild", []),
        ({"incremental_strategy": "merge", "unique_key": "k"}, ["e"], "rebuild", []),
        (KEYED | {"derivation": {"stage_of": "silver.orders"}}, ["e"], "rebuild", []),
        # replaced rows are read from the table, or computed as the table must have them
        (KEYED | {"allow_nondeterministic": ["rand"]}, ["e"], "warn", ["e"]),
        (LINEAR | {"allow_nondeterministic": ["rand"]}, ["e"], "rebuild", []),
        (LINEAR | {"on_lookup_change": "ignore"}, ["e"], "rebuild", []),
        (LINEAR | {"on_lookup_change": "rebuild"}, ["e"], "rebuild", ["e"]),
        (LINEAR, ["e"], "warn", []),
    ],
)
def test_who_is_served(
    config: dict[str, Any], selected: list[str], on_foreign_write: str, models: list[str]
) -> None:
    assert served("m", GRAPH, selected, config, on_foreign_write) == models


def test_the_last_reader_releases_a_staging_table() -> None:
    kept = ChangeSetCache()
    kept.keep("silver.orders", CHANGE_SET, ["a", "e"])
    kept.keep("silver.totals", CachedChangeSet(RUN, "totals__stage", ()), ["e"])
    assert kept.released_by("other") == []
    assert kept.released_by("a") == []
    assert kept.released_by("e") == [CHANGE_SET.stage, "totals__stage"]
    assert kept.released_by("e") == []
    assert kept.find(range_of("silver.orders", NOTED, 6, [merge(6), NOTE]), "e") is None


SOURCES = """
sources:
  - name: inputs
    schema: "{{ target.schema }}_inputs"
    tables: [{name: fed}]
"""


def model(sql: str, strategy: str, key: object, **further: object) -> str:
    settings = {"incremental_strategy": strategy, "unique_key": key, **further}
    return f"{{{{ config(materialized='incremental', **{settings}) }}}}\n{sql}"


FED = "source('inputs', 'fed')"
# Models of each strategy that hands on, with their plain SQL.
FIRST: dict[str, tuple[str, str]] = {
    "rows": (
        model(
            f"select id, part as `a.b`, val from {{{{ changes({FED}) }}}}",
            "change_feed",
            ["id", "a.b"],
            cluster_by="val",
        ),
        "select id, part, val from fed",
    ),
    "totals": (
        model(
            "select part, count(*) as n, sum(val) as val"
            f" from {{{{ affected({FED}, key='part') }}}} group by part",
            "affected_keys",
            "part",
        ),
        "select part, count(*), sum(val) from fed group by part",
    ),
    "sums": (
        model(
            "select part, sum(_weight) as n, sum(cast(val as bigint) * _weight) as val"
            f" from {{{{ signed({FED}) }}}} group by part",
            "signed_sum",
            "part",
            derived={"mean": "val / n"},
        ),
        "select part, count(*), sum(val), sum(val) / count(*) from fed group by part",
    ),
    "latest": (
        model(f"select part, id, val from {{{{ changes({FED}) }}}}", "change_feed", "part").replace(
            "'unique_key'", "'latest_by': ['id', 'val'], 'unique_key'"
        ),
        "select part, max((id, val)).id, max((id, val)).val from fed group by part",
    ),
    "ranks": (
        model(
            "select part, total, rank() over (order by total desc, part) as place from ("
            f"select part, sum(val) as total from {{{{ {FED} }}}} group by part)",
            "auto",
            "part",
        ),
        "select part, total, rank() over (order by total desc, part) from ("
        "select part, sum(val) as total from fed group by part)",
    ),
}
COLUMNS = {"rows": "id, `a.b`"}
COPIES = {
    f"copy_of_{name}": model(
        f"select * from {{{{ changes(ref('{name}')) }}}}",
        "change_feed",
        COLUMNS.get(name, "part").replace("`", "").split(", "),
    )
    for name in FIRST
}
# The other ways to read changes.
ADDED_UP = {
    "signed_rows": model(
        "select `a.b`, sum(_weight) as n, sum(cast(val as bigint) * _weight) as val"
        " from {{ signed(ref('rows')) }} group by `a.b`",
        "signed_sum",
        "a.b",
    ),
    "affected_rows": model(
        "select `a.b`, count(*) as n, sum(val) as val"
        " from {{ affected(ref('rows'), key='a.b') }} group by `a.b`",
        "affected_keys",
        "a.b",
    ),
}
# A view and an ephemeral model, and the models behind them.
BETWEEN = {
    "seen_rows": "{{ config(materialized='view') }}\nselect * from {{ ref('rows') }}",
    "inlined_totals": "{{ config(materialized='ephemeral') }}\n"
    "select * from {{ changes(ref('totals')) }}",
}
BEHIND = {
    "behind_rows": model(
        "select * from {{ changes(ref('seen_rows')) }}", "change_feed", ["id", "a.b"]
    ),
    "behind_totals": model("select * from {{ ref('inlined_totals') }}", "change_feed", "part"),
}
STEPS = (
    "insert into {fed} values (1, 'a', 1), (2, 'a', 2), (3, 'b', 3), (4, '', 4), (5, null, 5),"
    " (6, cast(x'ff41' as string), 6), (7, 'd', 7), (8, 'e', 8)",
    # changes of each kind in one commit: a row moves, groups are added and deleted
    "merge into {fed} using (select * from values (1, 10), (3, null), (5, 50), (7, 70), (9, 9)"
    " as v (k, v)) as s on id = k when matched and v is null then delete"
    " when matched then update set val = v, part = if(id = 7, 'a', part)"
    " when not matched then insert (id, part, val) values (k, 'c', v)",
    "delete from {fed} where id in (1, 8)",
)


@pytest.mark.slow
def test_models_read_what_the_run_before_them_changed(
    dbt: Callable[..., Any],
    new_project: Callable[..., Path],
    spark: Any,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fed = f"{schema}_inputs.fed"
    spark.sql(f"create schema {schema}_inputs")
    spark.sql(
        f"create table {fed} (id int, part string, val int) using delta"
        " tblproperties ('delta.enableChangeDataFeed' = 'true')"
    )
    written = {name: sql for name, (sql, _) in FIRST.items()} | COPIES | ADDED_UP | BEHIND
    firsts, followers = list(FIRST), [*COPIES, *ADDED_UP, *BEHIND]
    files = {f"models/{name}.sql": sql for name, sql in written.items()}
    files |= {f"models/{name}.sql": sql for name, sql in BETWEEN.items()}
    folder = new_project({"models/inputs.yml": SOURCES} | files)
    sums = f"select `a.b`, count(*), sum(val) from {schema}.rows group by `a.b`"
    plain = {name: sql.replace("from fed", f"from {fed}") for name, (_, sql) in FIRST.items()}
    plain |= {copy: f"select * from {schema}.{copy[8:]}" for copy in COPIES}
    plain |= dict.fromkeys(ADDED_UP, sums)
    plain |= {name: f"select * from {schema}.{name[7:]}" for name in BEHIND}
    asked: set[tuple[str, bool]] = set()
    find = ChangeSetCache.find

    def noting(kept: ChangeSetCache, changes: Range, reader: str) -> CachedChangeSet | None:
        found = find(kept, changes, reader)
        asked.add((changes.source.rpartition(".")[2].strip("`"), found is not None))
        return found

    monkeypatch.setattr(ChangeSetCache, "find", noting)
    for number, step in enumerate(STEPS):
        spark.sql(step.replace("{fed}", fed))
        asked.clear()
        together = number < 2  # another invocation reads the feed
        for chosen in [firsts + followers] if together else [firsts, followers]:
            dbt("run", "--select", *chosen, "seen_rows", project_dir=folder, schema=schema)
        if number:
            assert asked == {("fed", False)} | {(name, together) for name in firsts}
        differing = {}
        for name in firsts + followers:
            got, want = f"select * from {schema}.{name}", plain[name]
            differing[name] = f"({got} except all ({want})) union all (({want}) except all {got})"
        counts = [f"select '{it}', count(*) from ({rows})" for it, rows in differing.items()]
        found = dict(map(tuple, spark.sql(" union all ".join(counts)).collect()))
        wrong = {name: spark.sql(differing[name]).collect() for name, n in found.items() if n}
        assert (set(found), wrong) == (set(differing), {}), step
        assert spark.sql(f"show tables in {schema} like '*__stage_*'").collect() == []
