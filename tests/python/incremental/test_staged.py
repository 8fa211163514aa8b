"""Test models that keep a part of their query in hidden tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from incremental.test_two_runs import other_run, while_running
from incremental.world import Stop, World

MODELS = ("auto_places", "auto_sizes", "auto_sums")
CHOSEN = ("--select", *MODELS)
CHANGE = [
    "update {inputs}.items set val = val + 1, grp = 'b' where id <> 2",
    "insert into {inputs}.events values (77, 99, 1, 'x'), (1, 99, 2, 'x')",
    # a group with a person
    "insert into {inputs}.people select 'b', 'Bob'"
    " where not exists (select 1 from {inputs}.people where grp = 'b')",
]


@pytest.fixture
def world(autos: World) -> World:
    """Return a world whose tables and hidden tables are up to date."""
    world = autos.sound(MODELS)
    if hidden(world) != ALL:
        for statement in CHANGE:
            world.change(statement)
        world.run(*CHOSEN)
        world.check(*MODELS)
    return world


def hidden(world: World) -> list[str]:
    """Return the present hidden tables."""
    found = world.sql("show tables in {schema} like '*__hw_stage_*'")
    return sorted(row["tableName"] for row in found)


def rows_of(world: World, table: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in world.sql(f"select * from {{schema}}.{table}")), key=str)


ALL = [f"{name}__hw_stage_1" for name in MODELS]


@pytest.mark.slow
def test_hidden_tables_are_maintained_and_only_differences_are_written(world: World) -> None:
    assert hidden(world) == ALL
    world.change("insert into {inputs}.items values (90, 'b', 2)")
    answers = world.answers(world.run(*CHOSEN))
    assert {name: answers[name].split(":")[0] for name in MODELS} == {
        "auto_places": "no changes, of 1 changed input rows",
        "auto_sizes": "merge",
        "auto_sums": "merge",
    }
    world.check(*MODELS)
    many = rows_of(world, "auto_sizes__hw_stage_1")
    assert many == sorted(
        map(tuple, world.sql("select grp, count(*) from {inputs}.items group by grp")), key=str
    )
    # only the group of the row was recomputed
    (commit,) = world.sql("describe history {schema}.auto_sizes__hw_stage_1 limit 2")[1:]
    metrics = commit["operationMetrics"]
    # the other rows of its file are copied
    assert int(metrics["numOutputRows"]) - int(metrics["numCopiedRows"]) == 1
    assert world.answers(world.run(*CHOSEN)) == dict.fromkeys(MODELS, "no changes")


@pytest.mark.slow
def test_a_full_refresh_drops_them_and_the_next_run_builds_them(world: World) -> None:
    world.run(*CHOSEN, "--full-refresh")
    assert hidden(world) == []
    world.change("delete from {inputs}.items where id = 1")
    world.change("insert into {inputs}.events values (1, 5, 5, 'x')")
    world.run(*CHOSEN)
    world.check(*MODELS)
    assert hidden(world) == ALL


@pytest.mark.slow
def test_a_change_of_the_sql_leaves_no_hidden_table_that_is_of_no_use(world: World) -> None:
    path = world.folder / "models" / "auto" / "auto_sizes.sql"
    before = path.read_text()
    path.write_text(
        "select grp as n, count(*) as groups from {{ source('inputs', 'items') }} group by 1"
    )
    world._manifest = None
    world.run("--select", "auto_sizes")
    assert hidden(world) == ["auto_places__hw_stage_1", "auto_sums__hw_stage_1"]
    path.write_text(before)
    world._manifest = None
    world.run(*CHOSEN)
    world.check(*MODELS)
    world.right = frozenset()


@pytest.mark.slow
def test_a_table_of_the_name_of_a_hidden_one_is_left_alone(world: World) -> None:
    world.run(*CHOSEN, "--full-refresh")
    world.right = frozenset()
    world.sql("create table {schema}.auto_sizes__hw_stage_1 using delta as select 1 as x")
    world.change("delete from {inputs}.items where id = 2")
    said = world.answers(world.run(*CHOSEN, expect=False))
    assert "[HW_HIDDEN_TABLE]" in said["auto_sizes"]
    assert rows_of(world, "auto_sizes__hw_stage_1") == [(1,)]
    world.sql("drop table {schema}.auto_sizes__hw_stage_1")
    world.run(*CHOSEN)
    world.check(*MODELS)


def of_hidden(sql: str) -> bool:
    return "__hw_stage_" in sql.split(" using ")[0].split(" with (")[0]


def at_hidden_commit(model: str, number: int, sql: str) -> bool:
    """Return whether the statement writes a hidden table."""
    return sql.strip().startswith(("merge into", "insert into")) and of_hidden(sql)


def at_own_note(model: str, number: int, sql: str) -> bool:
    """Return whether the model's table notes its run; its hidden table is ahead by then."""
    return "'headwaters.pending' = '{" in sql and not of_hidden(sql)


def at_own_commit(model: str, number: int, sql: str) -> bool:
    return sql.strip().startswith(("merge into", "insert into")) and not of_hidden(sql)


def at_own_end(model: str, number: int, sql: str) -> bool:
    return "'headwaters.pending' = 'null'" in sql and not of_hidden(sql)


STOPS = (at_hidden_commit, at_own_note, at_own_commit, at_own_end)


@pytest.mark.slow
@pytest.mark.parametrize("stop", STOPS)
def test_a_run_that_is_stopped(world: World, stop: Stop) -> None:
    """Take the change back before the next run, so that hidden tables are ahead in vain."""
    for statement in (
        "update {inputs}.items set val = val + 7",
        "insert into {inputs}.items values (78, 'a', 3)",
        "insert into {inputs}.events values (2, 77, 9, 'z')",
    ):
        world.change(statement)
    assert (
        "stopped by the test"
        in world.answers(world.run(*CHOSEN, stop=stop, expect=False))["auto_sums"]
    )
    for statement in (
        "update {inputs}.items set val = val - 6",
        "delete from {inputs}.items where id = 78",
        "delete from {inputs}.events where moment = 77",
    ):
        world.change(statement)
    world.run(*CHOSEN)
    world.check(*MODELS)


@pytest.mark.slow
@pytest.mark.parametrize("point", STOPS)
def test_of_two_runs_at_once_nothing_is_lost(world: World, point: Stop) -> None:
    world.change("update {inputs}.items set val = val + 1 where id = 3")
    world.change("insert into {inputs}.events values (3, 6, 6, 'x')")
    between = while_running(world, point, lambda model: other_run(world, model))
    world.run(*CHOSEN, "--threads", "1", stop=between, expect=None)
    world.check(*MODELS)
    world.run(*CHOSEN)
    world.check(*MODELS)


def is_statement(wanted: int, model: str, number: int, sql: str) -> bool:
    return number == wanted


@pytest.mark.slow
def test_stopped_before_each_statement(world: World) -> None:
    """Stop before every statement of a run, one after another, with two hidden tables."""
    number = 1
    while True:
        world.change("update {inputs}.items set val = val + 1 where grp = 'b'")
        world.change("insert into {inputs}.items select max(id) + 1, 'b', 1 from {inputs}.items")
        stop = partial(is_statement, number)
        ran = world.run("--select", "auto_sums", stop=stop, expect=None)
        if ran.success:
            break
        world.run(*CHOSEN)
        world.check(*MODELS)
        number += 3
    assert number > 10


PROJECT = """
name: kept
version: 0.1.0
profile: headwaters
models: {kept: {+materialized: incremental, +file_format: delta, +incremental_strategy: auto}}
"""
SOURCE = """
sources:
  - name: inputs
    schema: "{{ target.schema }}_inputs"
    tables: [{name: rows}]
"""
SIZES = """
select n, count(*) as many
from (select grp, count(*) as n from {{ source('inputs', 'rows') }} group by grp) as q
group by n
"""


@pytest.mark.slow
def test_maintenance_knows_hidden_tables_and_explain_tells_them(
    dbt: Callable[..., Any],
    new_project: Callable[..., Path],
    spark: Any,
    schema: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = f"{schema}_inputs.rows"
    folder = new_project(
        {"dbt_project.yml": PROJECT, "models/inputs.yml": SOURCE, "models/sizes.sql": SIZES}
    )
    spark.sql(f"create schema {schema}_inputs")
    spark.sql(
        f"create table {rows} (id int, grp string, val int) using delta"
        " tblproperties ('delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(f"insert into {rows} values (1, 'a', 10), (2, 'b', 20)")

    def run() -> None:
        dbt("run", project_dir=folder, schema=schema)

    def operation(name: str, **arguments: Any) -> str:
        capsys.readouterr()
        dbt(
            "run-operation",
            name,
            "--args",
            json.dumps(arguments),
            project_dir=folder,
            schema=schema,
        )
        return capsys.readouterr().out

    run()
    spark.sql(f"insert into {rows} values (3, 'a', 30)")
    run()
    name = f"{schema}.sizes__hw_stage_1"
    assert f"  hidden table {name} by hw_1, of {schema}_inputs.rows" in operation(
        "explain_refresh", model="sizes"
    )
    assert "maintain: 3 tables, nothing to do" in operation("maintain")
    (folder / "models/sizes.sql").write_text("{{ config(materialized='table') }}" + SIZES)
    run()
    plan = operation("maintain")
    assert (
        f"drop: no table uses this hidden table\n    drop table `{schema}`.`sizes__hw_stage_1`"
        in plan
    )
    done = operation("maintain", dry_run=False, reason="tidy up")
    assert f"{name}: dropped" in done
    assert "maintain: 2 tables, nothing to do" in operation("maintain")
