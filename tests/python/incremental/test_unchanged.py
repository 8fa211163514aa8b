"""Test that a run does not plan models whose inputs and tables are unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwaters.runs.histories import SECONDS, Histories
from headwaters.runs.no_op_cache import (
    NewestCommit,
    NoOpCache,
    digest_of,
    file_of,
    location_of,
    look_sql,
)
from incremental.world import World

LAKE = "file:/lake/silver.db"
ORDERS, TOTALS = f"{LAKE}/orders", f"{LAKE}/totals"
AT = {"silver.orders": {"version": 5, "at": 500}, "silver.totals": {"version": 2, "at": 200}}


class Tables:
    """Two tables, their places and logs; `asked` lists the statements that ran."""

    def __init__(self) -> None:
        self.places: dict[str, str | None] = {"silver.orders": ORDERS, "silver.totals": TOTALS}
        self.properties = ["catalog.team", "delta.feature.deletionVectors"]
        self.files = {file_of(ORDERS, 5): (5, 50), file_of(TOTALS, 2): (2, 20)}
        self.asked: list[str] = []

    def locate(self, table: str) -> str | None:
        return self.places.get(table)

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        self.asked.append(statement)
        if statement.startswith("show tblproperties"):
            return [(name, "x") for name in self.properties]
        return [
            (file, *found)
            for file, found in self.files.items()
            if file.removeprefix("file:/") in statement
        ]

    def found(self, kept: NoOpCache, model: str = "totals", digest: str = "d") -> bool:
        unchanged = kept.look([model], self.locate, self.ask)
        return kept.is_planned(model, digest, unchanged.get)


@pytest.fixture
def tables() -> Tables:
    return Tables()


@pytest.fixture
def file(tmp_path: Path, tables: Tables) -> Path:
    """Return the file with the note that `totals` had no changes."""
    path = tmp_path / "target" / "unchanged.json"
    first = NoOpCache(path)
    assert not tables.found(first)
    assert tables.asked == []
    first.note("totals", "d", AT)
    first.keep(tables.locate, tables.ask)
    return path


def test_what_one_invocation_keeps_the_next_one_finds_in_one_statement(
    file: Path, tables: Tables
) -> None:
    tables.asked.clear()
    assert tables.found(NoOpCache(file))
    assert tables.asked == [
        "select path, unix_micros(modificationTime) as modified, length from binaryFile."
        "`file:/{lake/silver.db/orders/_delta_log/00000000000000000005.json,"
        "lake/silver.db/orders/_delta_log/00000000000000000006.json,"
        "lake/silver.db/totals/_delta_log/00000000000000000002.json,"
        "lake/silver.db/totals/_delta_log/00000000000000000003.json}`"
    ]


def _next_commit(tables: Tables) -> None:
    tables.files[file_of(ORDERS, 6)] = (6, 50)


def _own_commit(tables: Tables) -> None:
    tables.files[file_of(TOTALS, 3)] = (6, 50)


def _made_anew(tables: Tables) -> None:
    tables.files[file_of(ORDERS, 5)] = (7, 50)


def _other_content(tables: Tables) -> None:
    tables.files[file_of(ORDERS, 5)] = (5, 51)


def _log_is_gone(tables: Tables) -> None:
    del tables.files[file_of(TOTALS, 2)]


def _elsewhere(tables: Tables) -> None:
    tables.places["silver.orders"] = "file:/lake/other"


def _dropped(tables: Tables) -> None:
    tables.places["silver.orders"] = None


@pytest.mark.parametrize(
    "change",
    [
        _next_commit,
        _own_commit,
        _made_anew,
        _other_content,
        _log_is_gone,
        _elsewhere,
        _dropped,
    ],
)
def test_a_table_that_changed_in_any_way_has_its_model_planned(
    file: Path, tables: Tables, change: Callable[[Tables], None]
) -> None:
    change(tables)
    assert not tables.found(NoOpCache(file))


def test_another_digest_and_another_model_are_planned(file: Path, tables: Tables) -> None:
    assert not tables.found(NoOpCache(file), digest="another")
    assert not tables.found(NoOpCache(file), model="another")


def test_a_newer_commit_that_another_model_saw_is_none_that_this_one_has_applied(
    file: Path, tables: Tables
) -> None:
    _next_commit(tables)
    tables.files[file_of(f"{LAKE}/other", 1)] = (1, 10)
    tables.places["silver.other"] = f"{LAKE}/other"
    second = NoOpCache(file)
    second.note(
        "other",
        "d",
        {"silver.orders": {"version": 6, "at": 600}, "silver.other": {"version": 1, "at": 100}},
    )
    second.keep(tables.locate, tables.ask)
    assert tables.found(NoOpCache(file), model="other")
    assert not tables.found(NoOpCache(file))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"tables": {"a.b": {}}}', '{"models": 3}'])
def test_what_cannot_be_read_is_as_good_as_nothing(file: Path, tables: Tables, text: str) -> None:
    file.write_text(text)
    kept = NoOpCache(file)
    assert not tables.found(kept)
    kept.note("totals", "d", AT)
    kept.keep(tables.locate, tables.ask)
    assert tables.found(NoOpCache(file))


def _catalog(tables: Tables) -> None:
    tables.properties.append("delta.feature.catalogManaged")


def _unreadable(tables: Tables) -> None:
    tables.files.clear()


def _nowhere(tables: Tables) -> None:
    tables.places["silver.orders"] = None


@pytest.mark.parametrize("case", [_catalog, _unreadable, _nowhere])
def test_tables_that_cannot_be_told_are_not_kept(
    tmp_path: Path, tables: Tables, case: Callable[[Tables], None]
) -> None:
    case(tables)
    kept = NoOpCache(tmp_path / "unchanged.json")
    kept.note("totals", "d", AT)
    kept.keep(tables.locate, tables.ask)
    assert kept.kept.models == {}


def test_a_place_that_cannot_be_written_keeps_nothing(tmp_path: Path, tables: Tables) -> None:
    (tmp_path / "target").touch()
    kept = NoOpCache(tmp_path / "target" / "unchanged.json")
    kept.note("totals", "d", AT)
    kept.keep(tables.locate, tables.ask)
    assert (tmp_path / "target").read_text() == ""


def test_tables_of_other_catalogs_are_not_kept(tmp_path: Path, tables: Tables) -> None:
    kept = NoOpCache(tmp_path / "unchanged.json")
    kept.note("totals", "d", {"unity.silver.orders": {"version": 5, "at": 500}})
    kept.keep(tables.locate, tables.ask)
    assert not (tmp_path / "unchanged.json").exists()


def test_places_are_those_of_delta_tables_that_no_glob_takes_for_a_pattern() -> None:
    def told(location: str, provider: str = "delta") -> str | None:
        return location_of(f"Type: MANAGED\nProvider: {provider}\nLocation: {location}\nSerde: x")

    for location in (ORDERS, "s3a://lake/silver/orders", "hdfs://name:8020/lake/my orders"):
        assert told(location) == location
    for location in ("/lake/orders", "file:/lake/{a}", "file:/lake/a,b", "file:/lake/`a`"):
        assert told(location) is None
    assert told(ORDERS, "parquet") is None
    assert location_of(None) is None
    assert location_of("Type: VIEW\n") is None


def test_each_root_has_a_pattern_of_its_own() -> None:
    assert look_sql([("s3a://lake/a", 1), ("file:/lake/b", 2), ("s3a://lake/c", 3)]) == (
        "select path, unix_micros(modificationTime) as modified, length from binaryFile."
        "`s3a://lake/{a/_delta_log/00000000000000000001.json,c/_delta_log/00000000000000000003.json}`"
        "\nunion all\n"
        "select path, unix_micros(modificationTime) as modified, length from binaryFile."
        "`file:/{lake/b/_delta_log/00000000000000000002.json}`"
    )


def test_a_digest_is_of_all_that_decides_and_nothing_else() -> None:
    node = {"relation_name": "silver.totals", "config": {"meta": {}}, "columns": {"a": {}}}
    same = digest_of(node | {"created_at": 1, "checksum": {}}, "select 1", {"settings": {}})
    assert same == digest_of(node | {"created_at": 2}, "select 1", {"settings": {}})
    others = [
        digest_of(node, "select 2", {"settings": {}}),
        digest_of(node, "select 1", {"settings": {"spark.sql.ansi.enabled": "true"}}),
        *(
            digest_of(node | {name: "another"}, "select 1", {"settings": {}})
            for name in ("relation_name", "config", "columns", "constraints", "description")
        ),
    ]
    assert len({same, *others}) == len(others) + 1


ANSWER = NewestCommit(location=ORDERS, version=5, at=500, modified=5, length=50)


def test_one_look_serves_an_invocation_for_a_minute() -> None:
    now = [0.0]
    histories = Histories(lambda: now[0])
    looks = []

    def look() -> dict[str, NewestCommit]:
        looks.append(now[0])
        return {"silver.orders": ANSWER}

    histories.begin("a")
    assert histories.unchanged("`silver`.`Orders`", look) == ANSWER
    assert histories.unchanged("silver.totals", look) is None
    now[0] = SECONDS
    assert histories.unchanged("silver.orders", look) == ANSWER
    assert looks == [0]
    now[0] = SECONDS + 1
    histories.unchanged("silver.orders", look)
    histories.begin("b")
    histories.unchanged("silver.orders", look)
    assert looks == [0, SECONDS + 1, SECONDS + 1]


@pytest.mark.parametrize("written", [("silver", "orders"), None])
def test_a_write_ends_what_was_known_also_during_the_look(written: Any) -> None:
    histories = Histories(lambda: 0.0)

    def look() -> dict[str, NewestCommit]:
        return {"silver.orders": ANSWER}

    assert histories.unchanged("silver.orders", look) == ANSWER
    histories.discard(written)
    assert histories.unchanged("silver.orders", look) is None

    def look_while_written() -> dict[str, NewestCommit]:
        histories.discard(written)
        return look()

    histories.begin("another")
    assert histories.unchanged("silver.orders", look_while_written) is None


MODELS = ["linear", "chained_totals", "sums"]


def counts(world: World) -> dict[str, int]:
    return {
        kind: sum(one.lstrip().startswith(kind) for one in _all(world))
        for kind in ("describe history", "show tblproperties", "select path")
    }


def _all(world: World) -> list[str]:
    return [
        re.sub(r"/\*.*?\*/", "", one, flags=re.DOTALL)
        for statements in world.statements.values()
        for one in statements
    ]


GLANCE = {"describe history": 0, "show tblproperties": 0, "select path": 1}
UNCHANGED = dict.fromkeys(MODELS, "no changes")


def run(world: World, *arguments: str) -> dict[str, str]:
    return world.answers(world.run(*arguments))


def settle(world: World) -> None:
    """Run twice without changes: the second run needs one look."""
    for _ in range(2):
        assert run(world) == UNCHANGED
    assert counts(world) == GLANCE
    world.check()


@pytest.mark.slow
def test_a_project_without_changes_costs_one_statement_and_changes_are_seen(
    small_world: World,
) -> None:
    world = small_world
    world.hooks = True  # the end of a run stores its findings
    assert run(world) == UNCHANGED
    assert counts(world)["describe history"] > 0
    settle(world)

    # a commit to an input: its followers are planned, and then their followers
    world.change("update {inputs}.items set val = val + 1 where id = 1")
    world.change("update {inputs}.events set val = val + 1 where id = 1")
    answers = run(world)
    assert all(answer.startswith("merge") for answer in answers.values()), answers
    world.check()
    assert run(world) == UNCHANGED
    settle(world)

    # one model alone checks its own tables
    assert run(world, "--select", "sums") == {"sums": "no changes"}
    assert counts(world) == GLANCE
    assert not any("chained_totals" in one for one in _all(world))

    # a foreign commit to a model's table
    world.change("delete from {schema}.sums")
    assert run(world)["sums"].startswith("replace")
    world.check()
    assert run(world) == UNCHANGED
    settle(world)


@pytest.mark.slow
def test_so_are_properties_and_tables_that_are_others(small_world: World, tmp_path: Path) -> None:
    world = small_world
    world.hooks = True
    run(world)
    settle(world)

    # a property that differs from its declaration
    vectors = "delta.enableDeletionVectors"
    world.change(f"alter table {{schema}}.linear set tblproperties ('{vectors}' = 'false')")
    run(world)
    assert (vectors, "true") in map(tuple, world.sql("show tblproperties {schema}.linear"))
    run(world)
    settle(world)

    # the same name, another table
    elsewhere = tmp_path / "items"
    world.change(
        f"create table {{inputs}}.other using delta location '{elsewhere}' tblproperties"
        " ('delta.enableChangeDataFeed' = 'true')"
        " as select id, grp, val + 1 as val from {inputs}.items"
    )
    world.change("drop table {inputs}.items")
    world.change(f"create table {{inputs}}.items using delta location '{elsewhere}'")
    assert run(world)["linear"].startswith("replace")
    world.check()
    world.change("drop table {inputs}.other")
    run(world)
    settle(world)

    assert all(answer.startswith("replace") for answer in run(world, "--full-refresh").values())
    run(world)
    settle(world)

    plan = json.loads((world.folder / "target" / "headwaters_unchanged.json").read_text())
    assert sorted(plan) == ["models", "tables"]
    assert len(plan["models"]) == len(MODELS)
