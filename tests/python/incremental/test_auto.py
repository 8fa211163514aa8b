"""Test models of plain SQL, with derived strategy, roles of inputs and keys."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from incremental.expected import EXPECTED
from incremental.world import World

MODELS = [name for name in EXPECTED if name.startswith("auto_")]
ITEMS, PEOPLE, EVENTS = (f"auto_inputs.{name}" for name in ("items", "people", "events"))
LOOKUP = {"kind": "lookup"}


def by(**key: str) -> dict[str, Any]:
    return {"kind": "affected", "key": key}


# strategy, unique_key and the inputs of each
DERIVED: dict[str, tuple[str, list[str], dict[str, Any]]] = {
    "auto_rows": ("change_feed", ["id"], {ITEMS: {"kind": "changes"}}),
    "auto_totals": ("affected_keys", ["grp"], {ITEMS: by(grp="grp")}),
    "auto_named": (
        "affected_keys",
        ["id"],
        {ITEMS: by(id="id"), PEOPLE: by(id="id") | {"via": ITEMS, "on": {"grp": "grp"}}},
    ),
    "auto_people": (
        "affected_keys",
        ["name"],
        {PEOPLE: by(name="name"), ITEMS: by(name="name") | {"via": PEOPLE, "on": {"grp": "grp"}}},
    ),
    # two inputs away from the key
    "auto_far": (
        "affected_keys",
        ["name"],
        {
            PEOPLE: by(name="name"),
            ITEMS: by(name="name") | {"via": PEOPLE, "on": {"grp": "grp"}},
            EVENTS: by(name="name") | {"via": ITEMS, "on": {"id": "id"}},
        },
    ),
    "auto_first": ("affected_keys", ["id"], {EVENTS: by(id="id")}),
    "auto_groups": ("affected_keys", ["grp"], {ITEMS: by(grp="grp"), PEOPLE: by(grp="grp")}),
    "auto_most": ("replace", [], {ITEMS: LOOKUP}),
    "auto_shares": ("replace", [], {"auto.auto_totals": LOOKUP}),
    "auto_through_view": ("affected_keys", ["grp", "is_high"], {ITEMS: by(grp="grp")}),
    # traced to the remainder
    "auto_unlisted": (
        "affected_keys",
        ["remainder"],
        {ITEMS: {"kind": "affected"}, PEOPLE: {"kind": "affected"}},
    ),
    "auto_copies": ("change_feed", [], {ITEMS: {"kind": "changes"}}),
    # with hidden tables
    "auto_sizes": ("staged", ["n"], {ITEMS: {"kind": "affected"}}),
    "auto_sums": ("staged", ["total"], {ITEMS: {"kind": "affected"}, PEOPLE: {"kind": "affected"}}),
    "auto_places": ("staged", [], {ITEMS: {"kind": "affected"}, EVENTS: {"kind": "affected"}}),
}


# Each strategy, and models two inputs away; the last three are also those of test_staged.py.
FEW = ["auto_far", "auto_most", "auto_rows", "auto_unlisted"]
FEW += ["auto_places", "auto_sizes", "auto_sums"]
each = pytest.mark.parametrize(
    "models",
    [pytest.param(FEW, id="few"), pytest.param(MODELS, id="all", marks=pytest.mark.slow)],
)


@each
def test_roles_and_keys_are_derived(autos: World, models: list[str]) -> None:
    world = autos.sound(with_view(models))
    found = {}
    for name in models:
        properties = world.sql(f"describe detail {{schema}}.{name}")[0]["properties"]
        noted = json.loads(properties["headwaters.proof"])
        found[name] = noted["strategy"], noted["unique_key"], noted["inputs"]
    assert found == {name: DERIVED[name] for name in models}


OF_PEOPLE = {
    **dict.fromkeys(["auto_far", "auto_named", "auto_people", "auto_sums"], "merge"),
    "auto_groups": "no changes, of 1 changed input rows",
    "auto_unlisted": "append",
}


def with_view(models: list[str]) -> list[str]:
    """Return models, and the view that one of them reads."""
    return [*models, "high_or_low"] if "auto_through_view" in models else models


@each
def test_what_changes_is_followed(autos: World, models: list[str]) -> None:
    world = autos.sound(with_view(models))
    nothing = dict.fromkeys(models, "no changes")
    world.change("delete from {inputs}.people where grp = 'b'")
    assert said(world, models) == nothing | {n: OF_PEOPLE[n] for n in models if n in OF_PEOPLE}
    assert said(world, models) == nothing
    world.check(*with_view(models))


def said(world: World, models: list[str]) -> dict[str, str]:
    answers = world.answers(world.run("--select", *models))
    return {name: answers[name].split(":")[0] for name in models}


PROJECT = """
name: promised
version: 0.1.0
profile: headwaters
models:
  promised:
    +materialized: incremental
    +file_format: delta
    +incremental_strategy: auto
"""
SOURCE = "sources: [{name: inputs, schema: '{{ target.schema }}_inputs', tables: [{name: rows%s}]}]"
TESTED = ", columns: [{name: id, data_tests: [unique, not_null]}]"
NAMED = """
{{ config(incremental_strategy='affected_keys', unique_key='id') }}
select id, grp, val, row_number() over (partition by grp order by id) as place
from {{ affected(source('inputs', 'rows'), key='grp') }}
"""


def test_an_input_that_gets_a_change_data_feed_is_followed(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    rows = f"{schema}_inputs.rows"
    folder = new_project(
        {
            "dbt_project.yml": PROJECT,
            "models/inputs.yml": SOURCE % TESTED,
            "models/plain.sql": "{{ config(whole_below=0) }}\n"
            "select id, val from {{ source('inputs', 'rows') }}",
        }
    )

    def after(statement: str) -> str:
        spark.sql(statement.format(rows=rows))
        [built] = dbt("run", project_dir=folder, schema=schema).result.results
        return str(built.message)

    spark.sql(f"create schema {schema}_inputs")
    spark.sql(f"create table {rows} (id int, val int) using delta")
    assert after("insert into {rows} values (1, 10)").endswith("first run")
    assert "has no change data feed: set delta.enableChangeDataFeed" in after(
        "insert into {rows} values (2, 20)"
    )
    spark.sql(f"alter table {rows} set tblproperties ('delta.enableChangeDataFeed' = 'true')")
    assert after("insert into {rows} values (3, 30)").startswith("replace: 3 rows")
    assert after("insert into {rows} values (4, 40)").startswith("append: 1 inserted")
    left = spark.sql(f"select id, val from {schema}.plain order by id").collect()
    assert [tuple(row) for row in left] == [(1, 10), (2, 20), (3, 30), (4, 40)]


@pytest.mark.slow
def test_a_promise_that_is_taken_back_and_columns_of_another_type_are_noticed(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    rows = f"{schema}_inputs.rows"
    feed = "using delta tblproperties ('delta.enableChangeDataFeed' = 'true')"
    folder = new_project(
        {
            "dbt_project.yml": PROJECT,
            "models/inputs.yml": SOURCE % TESTED,
            "models/plain.sql": "select id, val from {{ source('inputs', 'rows') }}",
            "models/named.sql": NAMED,
        }
    )

    def run(*, expect: bool = True) -> tuple[list[str], str, str, bool]:
        """Run dbt; return its lines, and the noted strategy of `plain`, with or without its SQL."""
        ran = dbt("run", project_dir=folder, schema=schema, expect=expect)
        built = [it for it in ran.result.results if it.node.resource_type == "model"]
        lines = sorted(f"{it.node.name}: {it.message}" for it in built)
        said = [re.match(r"\w+: [\w ]+", line)[0] for line in lines]  # type: ignore[index]  # each matches
        found = spark.sql(f"describe detail {schema}.plain").collect()[0]["properties"]
        noted = json.loads(found["headwaters.proof"])
        return said, noted["strategy"], "\n".join(lines), noted["of"] is not None

    spark.sql(f"create schema {schema}_inputs")
    spark.sql(f"create table {rows} (id int, grp string, val int) {feed}")
    spark.sql(f"insert into {rows} values (1, 'a', 10), (2, 'b', 20)")
    said, strategy, _, is_of_sql = run()
    assert (said, strategy, is_of_sql) == (
        ["named: replace", "plain: replace"],
        "change_feed",
        True,
    )

    (folder / "models/inputs.yml").write_text(SOURCE % "")
    spark.sql(f"insert into {rows} values (3, 'c', 30)")
    said, strategy, lines, is_of_sql = run(expect=False)
    assert (said[1], strategy, is_of_sql) == ("plain: replace", "change_feed", True)
    assert "[HW_NONDETERMINISTIC]" in lines
    left = spark.sql(f"select id from {schema}.named order by id").collect()
    assert [row.id for row in left] == [1, 2]

    (folder / "models/inputs.yml").write_text(SOURCE % TESTED)
    said, strategy, _, is_of_sql = run()
    assert (said, strategy, is_of_sql) == (["named: append", "plain: replace"], "change_feed", True)

    spark.sql(
        f"create or replace table {rows} {feed} as select string(id) as id, grp, val from {rows}"
    )
    for is_noted in (False, True):
        said, strategy, _, is_of_sql = run()
        spark.sql(f"insert into {rows} values ('0{is_noted}', 'a', 1)")
        assert (strategy, is_of_sql) == ("change_feed", is_noted)
        assert said[1] == ("plain: append" if is_noted else "plain: replace")


MEANT = """
select id, val * 2 as more, more + 1 as top from {relation}
"""
KEPT = """
with it as (select * from {{ source('inputs', 'rows') }}) select id, val from it
"""
NAMED_MEANT = """
{{ config(incremental_strategy='change_feed', unique_key='id') }}
""" + MEANT.format(relation="{{ changes(source('inputs', 'rows')) }}")


@pytest.mark.slow
def test_a_column_of_an_input_may_take_a_name_over(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    rows = f"{schema}_inputs.rows"
    folder = new_project(
        {
            "dbt_project.yml": PROJECT,
            "models/inputs.yml": SOURCE % TESTED,
            "models/kept.sql": KEPT,
            "models/named.sql": NAMED_MEANT,
            "models/plain.sql": MEANT.format(relation="{{ source('inputs', 'rows') }}"),
        }
    )

    def run() -> list[str]:
        ran = dbt("run", project_dir=folder, schema=schema)
        built = [it for it in ran.result.results if it.node.resource_type == "model"]
        return sorted(f"{it.node.name}: {it.message}" for it in built)

    def write(columns: str, *values: Any) -> None:
        """Write a batch that adds columns, which its commit does not record."""
        frame = spark.createDataFrame([values], columns)
        frame.write.format("delta").option("mergeSchema", "true").mode("append").saveAsTable(rows)

    spark.sql(f"create schema {schema}_inputs")
    spark.sql(
        f"create table {rows} (id int, grp string, val int) using delta"
        " tblproperties ('delta.enableChangeDataFeed' = 'true')"
    )
    write("id int, grp string, val int", 1, "a", 10)
    assert [line.split(": ")[1] for line in run()] == ["replace"] * 3

    write("id int, grp string, val int, other int", 2, "a", 20, 7)
    assert [line.split(": ")[1] for line in run()] == ["append"] * 3

    write("id int, grp string, val int, other int, More int", 3, "a", 30, 7, 100)
    kept, named, plain = run()
    assert kept.startswith("kept: append: 1 inserted")
    assert named.endswith(", an input has a new column or type, More")
    assert plain.endswith(", an input has a new column or type, More")
    for model in ("named", "plain"):
        found = spark.sql(f"select * from {schema}.{model} order by id").collect()
        assert [tuple(row) for row in found] == [(1, 20, None), (2, 40, None), (3, 60, 101)]

    assert [line.split(": ")[1] for line in run()] == ["no changes"] * 3
    write("id int, grp string, val int, other int, more int", 4, "a", 40, 7, 200)
    assert [line.split(": ")[1] for line in run()] == ["append"] * 3
