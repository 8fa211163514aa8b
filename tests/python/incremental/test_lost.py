"""Test that a run replaces a foreign table only if the replacement loses nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwaters.runs.foreign_tables import is_of_model, lost_table
from headwaters.tables.commits import Commit

BUILT = "CREATE OR REPLACE TABLE AS SELECT"
SPARK = "Apache-Spark/4.2.0 Delta-Lake/4.4.0"


def commit(version: int, operation: str, engine: str = SPARK, **parameters: str) -> Commit:
    """Return a commit that wrote three rows."""
    metrics = {"numOutputRows": "3"}
    return Commit(version, version, operation, parameters, metrics, engine)


def field(name: str, more: Any = None, nullable: bool = True) -> dict[str, Any]:
    """Return a column in the schema of a log, with its metadata."""
    return {"name": name, "nullable": nullable, "metadata": more or {}}


DBT = [commit(1, "WRITE"), commit(0, BUILT)]
HAND = [commit(1, "WRITE"), commit(0, "CREATE TABLE")]


def lost(
    *fields: dict[str, Any],
    commits: list[Commit] = DBT,
    rows: int = 3,
    columns: str = "id name",
    config: dict[str, Any] | None = None,
    checks: tuple[str, ...] = (),
    constraints: tuple[dict[str, Any], ...] = (),
    partitions: tuple[str, ...] = (),
) -> str:
    """Return the losses of a replacement as the message lists them, or an empty text."""
    problem = lost_table(
        table="gold.people",
        node={"name": "people", "config": config or {}, "constraints": constraints},
        config=config or {},
        columns=columns.split(),
        detail={
            "properties": {f"delta.constraints.{name}": "id > 0" for name in checks},
            "partitionColumns": partitions,
            "clusteringColumns": (),
        },
        schema=json.dumps({"fields": fields or [field("ID")]}),
        commits=commits,
        rows=rows,
    )
    if problem is None:
        return ""
    assert problem.code == "HW_FOREIGN_TABLE"
    before, _, after = problem.text.partition(" and lose ")
    assert before == "gold.people was not built by this model, which would replace it"
    return after.partition(". Nothing was changed.")[0]


def test_a_table_that_dbt_spark_built_of_the_model_loses_nothing() -> None:
    assert lost() == ""
    assert lost(field("id"), field("name")) == ""
    assert lost(commits=[commit(2, "MERGE"), commit(2, "OPTIMIZE"), *DBT]) == ""
    assert lost(partitions=("id",), config={"partition_by": "id"}) == ""
    assert lost(commits=HAND, rows=0) == ""


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (field("sk", {"delta.identity.start": 1}), "the identity column sk"),
        (field("id", {"CURRENT_DEFAULT": "1"}), "the default of id"),
        (field("y", {"delta.generationExpression": "year(at)"}), "the generated column y"),
        (field("more"), "the column more"),
        (field("id", nullable=False), "NOT NULL of id"),
    ],
)
def test_what_a_query_cannot_give_a_column_is_lost(one: dict[str, Any], words: str) -> None:
    assert lost(one) == words


def test_checks_and_partitions_that_the_model_declares_are_kept() -> None:
    assert lost(checks=("sold",)) == "the check sold"
    declared = {"type": "check", "name": "sold", "expression": "id > 0"}
    assert lost(checks=("sold",), constraints=(declared,)) == ""
    not_null = {"type": "not_null", "columns": ["id"]}
    assert lost(field("id", nullable=False), constraints=(not_null,)) == ""
    assert lost(partitions=("id", "b")) == "that it is partitioned by id, b"


RESTORED = Commit(3, 3, "RESTORE", {"version": "1"}, {}, SPARK)
ROWS = "3 rows that no run of dbt is known to have written"


@pytest.mark.parametrize(
    ("commits", "words"),
    [
        (HAND, ROWS),
        ([commit(9, "MERGE"), commit(8, "WRITE")], ROWS),  # its log is cut off
        ([commit(0, BUILT, isV1SaveAsTableOverwrite="true")], ROWS),
        ([commit(0, "CREATE TABLE AS SELECT")], ROWS),
        ([commit(2, "STREAMING UPDATE"), *DBT], ROWS),
        ([commit(2, "WRITE", engine="delta-rs:1"), *DBT], ROWS),
        ([commit(3, BUILT), *HAND], ""),
        ([RESTORED, commit(2, "STREAMING UPDATE"), *DBT], ""),
        ([RESTORED, commit(2, BUILT), *HAND], ROWS),
    ],
)
def test_rows_are_those_of_dbt_if_a_query_made_the_table(commits: list[Commit], words: str) -> None:
    assert lost(commits=commits) == words


def test_a_table_of_a_strategy_and_a_clone_are_known_by_their_properties() -> None:
    assert [is_of_model({name: ""}) for name in ("headwaters.sql", "headwaters.clone")] == [
        True
    ] * 2
    assert not is_of_model({"headwaters.declared": "", "delta.appendOnly": "true"})


def test_a_schema_that_the_log_no_longer_has_is_unknown() -> None:
    problem = lost_table(
        table="gold.people",
        node={"name": "people", "config": {}},
        config={},
        columns=["id"],
        detail={"properties": {}, "partitionColumns": (), "clusteringColumns": ()},
        schema=None,
        commits=DBT,
        rows=1,
    )
    assert problem is not None
    assert "and lose columns that its log no longer describes. Nothing" in problem.text


PROJECT = """
name: foreign_tables
version: 0.1.0
profile: headwaters
models:
  foreign_tables:
    +materialized: incremental
    +incremental_strategy: auto
"""
SOURCES = """
sources:
  - name: inputs
    schema: "{{ target.schema }}_inputs"
    tables: [{name: people}]
"""
MODEL = "{{ config(unique_key='id') }}\nselect id, name from {{ source('inputs', 'people') }}"
APPENDED = "{{ config(incremental_strategy=var('way', 'append')) }}\n" + MODEL.partition("\n")[2]


@pytest.mark.slow
def test_a_first_run_replaces_tables_of_dbt_and_refuses_others(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    inputs = f"{schema}_inputs"
    for name in (schema, inputs):
        spark.sql(f"create schema {name}")
    spark.sql(
        f"create table {inputs}.people using delta "
        "tblproperties ('delta.enableChangeDataFeed' = 'true') as select 1 as id, 'Ada' as name"
    )
    spark.sql(
        f"create table {schema}.by_hand (sk bigint generated always as identity, id int, "
        "name string) using delta"
    )
    spark.sql(f"insert into {schema}.by_hand (id, name) values (7, 'Eve')")
    spark.sql(f"create table {schema}.other_format using parquet as select 1 as id, 'Ada' as name")
    names = ("by_hand", "other_format")
    folder = new_project(
        {
            "dbt_project.yml": PROJECT,
            "models/inputs.yml": SOURCES,
            "models/appended.sql": APPENDED,
            **{f"models/{name}.sql": MODEL for name in names},
        }
    )

    def run(*arguments: str) -> dict[str, str]:
        result = dbt("run", *arguments, project_dir=folder, schema=schema, expect=None)
        models = (one for one in result.result.results if one.node.resource_type == "model")
        return {one.node.name: one.message for one in models}

    chosen = ["--select", "appended"]
    run(*chosen)
    run(*chosen)
    assert spark.table(f"{schema}.appended").count() == 2

    said = run("--vars", "{way: auto}")
    assert said["appended"].startswith("replace: 1 rows")
    assert (
        f"[HW_FOREIGN_TABLE] models/by_hand.sql: {schema}.by_hand was not built by this model, "
        "which would replace it and lose the identity column sk, 1 row that no run of dbt is known "
        "to have written. Nothing was changed. `dbt run --full-refresh --select by_hand` replaces "
        f"it, and `dbt run-operation restore --args '{{table: {schema}.by_hand, version: 1, reason:"
        " undo, dry_run: false}` takes that back; or give the model another name, or an alias"
    ).replace("false}`", "false}'`") in said["by_hand"]
    assert f"{schema}.other_format is no Delta table" in said["other_format"]
    left = [tuple(spark.table(f"{schema}.{name}").first()) for name in names]
    assert left == [(1, 7, "Eve"), (1, "Ada")]

    said = run("--full-refresh", "--select", *names)
    assert [said[name].partition(",")[0] for name in names] == ["replace: 1 rows"] * 2
    assert [tuple(spark.table(f"{schema}.{name}").first()) for name in names] == [(1, "Ada")] * 2
    assert set(run("--vars", "{way: auto}").values()) == {"no changes"}
