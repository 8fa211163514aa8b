"""Test that snapshots have the records that dbt documents, for each `hard_deletes`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Dbt = Callable[..., Any]
NewProject = Callable[[dict[str, str]], Path]

RENAMED = {
    "dbt_valid_from": "since",
    "dbt_valid_to": "until",
    "dbt_scd_id": "record",
    "dbt_updated_at": "changed",
    "dbt_is_deleted": "gone",
}
TIMESTAMP = {"strategy": "timestamp", "updated_at": "updated_at"}
CHECK = {"strategy": "check", "check_cols": ["NAME"]}  # in other letters than the column
SNAPSHOTS: dict[str, dict[str, Any]] = {
    "timestamp_ignore": {"hard_deletes": "ignore", **TIMESTAMP},
    "timestamp_invalidate": {"hard_deletes": "invalidate", **TIMESTAMP},
    "check_invalidate": {"hard_deletes": "invalidate", **CHECK},
    "check_new_record": {"hard_deletes": "new_record", **CHECK},
    # a new column changes each row
    "check_all": {"hard_deletes": "ignore", "strategy": "check", "check_cols": "all"},
    "composite": {
        "unique_key": ["id", "part"],
        "hard_deletes": "new_record",
        "dbt_valid_to_current": "timestamp'9999-12-31 00:00:00'",
        "snapshot_meta_column_names": RENAMED,
        **TIMESTAMP,
    },
}
# Each round's rows of the source. The second row is deleted, and returns unchanged while the first
# one changes; then the source gains the column `note` and loses `old`.
FIRST = "(1, 'x', 'Ada', timestamp'2026-01-01'), (2, 'x', 'Bob', timestamp'2026-01-01')"
BEFORE = f"select *, lower(name) as old from values {FIRST} as (id, part, name, updated_at)"
ROUNDS = (
    BEFORE,
    f"{BEFORE} where id = 1",
    f"{BEFORE} where id = 1",
    "select id, part, if(id = 1, 'Eve', name) as name,"
    " if(id = 1, timestamp'2026-02-01', updated_at) as updated_at, upper(name) as note"
    f" from values {FIRST} as (id, part, name, updated_at)",
)
# id, name, old, note, whether the record is open, and whether it records a deletion
CHANGED = [(1, "Ada", "ada", None, False, "False"), (1, "Eve", None, "ADA", True, "False")]
KEPT = [(2, "Bob", "bob", None, True, "False")]
CLOSED = [(2, "Bob", "bob", None, False, "False"), (2, "Bob", None, "BOB", True, "False")]
RECORDED = [CLOSED[0], (2, "Bob", "bob", None, False, "True"), CLOSED[1]]
EXPECTED = {
    "timestamp_ignore": [*CHANGED, *KEPT],
    "timestamp_invalidate": [*CHANGED, *CLOSED],
    "check_invalidate": [*CHANGED, *CLOSED],
    "check_new_record": [*CHANGED, *RECORDED],
    "check_all": [*CHANGED, *CLOSED],
    "composite": [*CHANGED, *RECORDED],
}


@pytest.mark.slow
def test_snapshots_have_the_records_that_dbt_documents(
    dbt: Dbt, new_project: NewProject, spark: Any, schema: str
) -> None:
    spark.sql(f"create schema {schema}_inputs")
    source = f"{schema}_inputs.people"
    declared = [
        {
            "name": name,
            "relation": "source('inputs', 'people')",
            "config": {"unique_key": "id", **config},
        }
        for name, config in SNAPSHOTS.items()
    ]
    sources = [{"name": "inputs", "schema": f"{schema}_inputs", "tables": [{"name": "people"}]}]
    project = new_project(
        {"snapshots/all.yml": json.dumps({"sources": sources, "snapshots": declared})}
    )
    for rows in ROUNDS:
        spark.sql(f"create or replace table {source} using delta as {rows}")
        dbt("snapshot", project_dir=project, schema=schema)
    found = {name: records(spark, f"{schema}.{name}", SNAPSHOTS[name]) for name in SNAPSHOTS}
    assert {name: rows for name, (rows, _) in found.items()} == EXPECTED
    assert {name: columns for name, (_, columns) in found.items()} == {
        name: columns_of(config) for name, config in SNAPSHOTS.items()
    }
    for name, config in SNAPSHOTS.items():
        meta = {column: column for column in RENAMED} | config.get("snapshot_meta_column_names", {})
        table, (since, until, record) = f"{schema}.{name}", list(meta.values())[:3]
        ids = spark.table(table).select(record)
        assert ids.distinct().count() == ids.count(), "two records have one id"
        overlaps = spark.sql(
            f"select * from (select *, lead({since}) over (partition by id order by {since},"
            f" {until} nulls last) as next from {table})"
            f" where {until} < {since} or next < coalesce({until}, timestamp'9999-12-31')"
        )
        assert overlaps.collect() == [], "two records of a row overlap"


AT = "timestamp'2026-01-01'"
# Each snapshot's rows, and the code of the refusal if they cannot be recorded
FIRST_ROWS = {
    "bars": (f"('a|', 'b', 1, {AT}), ('a', '|b', 1, {AT})", None),
    "whole": (f"('a', '', 1, {AT})", None),
    "unknown": (f"('a', '', 1, {AT}), (null, '', 1, {AT})", "HW_SNAPSHOT_ROWS"),
    "repeated": (f"('a', '', 1, {AT}), ('a', '', 2, {AT})", "HW_REPEATED_KEYS"),
    "undated": (f"('a', '', 1, {AT}), ('b', '', 2, null)", "HW_SNAPSHOT_ROWS"),
}


@pytest.mark.slow
def test_rows_that_a_snapshot_cannot_record_are_refused(
    dbt: Dbt, new_project: NewProject, spark: Any, schema: str
) -> None:
    spark.sql(f"create schema {schema}_inputs")
    config = {"unique_key": ["word", "part"], **TIMESTAMP, "hard_deletes": "invalidate"}
    declared = [
        {"name": name, "relation": f"source('inputs', '{name}')", "config": config}
        for name in FIRST_ROWS
    ]
    tables = [{"name": name} for name in FIRST_ROWS]
    sources = [{"name": "inputs", "schema": f"{schema}_inputs", "tables": tables}]
    project = new_project(
        {"snapshots/all.yml": json.dumps({"sources": sources, "snapshots": declared})}
    )

    def run(expect: bool, *arguments: str) -> dict[str, str]:
        ran = dbt(*arguments, project_dir=project, schema=schema, expect=expect)
        return {one.node.name: str(one.message) for one in ran.result.results}

    for name, (rows, _) in FIRST_ROWS.items():
        source = f"values {rows} as (word, part, amount, updated_at)"
        spark.sql(f"create table {schema}_inputs.{name} using delta as select * from {source}")
    said = run(False, "snapshot")
    for name, (_, code) in FIRST_ROWS.items():
        assert code is None or f"[{code}] {name} (snapshots/all.yml): gives" in said[name]
    assert spark.table(f"{schema}.bars").select("dbt_scd_id").distinct().count() == 2
    made = {row["tableName"] for row in spark.sql(f"show tables in {schema}").collect()}
    assert made == {"bars", "whole"}

    # a later value that the table cannot hold, and a run that reads no rows
    before = spark.table(f"{schema}.whole").collect()
    spark.sql(
        f"create or replace table {schema}_inputs.whole using delta as select 'a' as word,"
        " '' as part, 1.5 as amount, timestamp'2026-02-01' as updated_at"
    )
    said = run(False, "snapshot", "--select", "whole")
    assert (
        "[HW_COLUMNS_DIFFER] whole (snapshots/all.yml): gives amount as decimal(2,1)"
        in (said["whole"])
    )
    said = run(False, "build", "--empty", "--select", "bars")
    assert "[HW_SNAPSHOT_PART] bars (snapshots/all.yml): has hard_deletes" in said["bars"]
    assert spark.table(f"{schema}.whole").collect() == before
    assert spark.table(f"{schema}.bars").where("dbt_valid_to is null").count() == 2


@pytest.mark.slow
def test_columns_of_a_snapshot_that_change_in_case(
    dbt: Dbt, new_project: NewProject, spark: Any, schema: str
) -> None:
    spark.sql(f"create schema {schema}_inputs")
    source = f"{schema}_inputs.people"
    columns = {"all_columns": "all", "named": ["NAME"], "wrong": ["nam"]}
    declared = [
        {
            "name": name,
            "relation": "source('inputs', 'people')",
            "config": {"unique_key": "id", "strategy": "check", "check_cols": checked},
        }
        for name, checked in columns.items()
    ]
    sources = [{"name": "inputs", "schema": f"{schema}_inputs", "tables": [{"name": "people"}]}]
    project = new_project(
        {"snapshots/all.yml": json.dumps({"sources": sources, "snapshots": declared})}
    )
    for names in ("id, name", "id, Name"):
        rows = f"select * from values (1, 'Ada'), (2, 'Bob') as ({names})"
        spark.sql(f"create or replace table {source} using delta as {rows}")
        ran = dbt("snapshot", project_dir=project, schema=schema, expect=False)
        said = {one.node.name: str(one.message) for one in ran.result.results if one.message}
        assert "did you mean" in said["wrong"]
        for name in ("all_columns", "named"):
            found = spark.sql(f"select id, name, dbt_valid_to from {schema}.{name} order by id")
            assert [tuple(row) for row in found.collect()] == [(1, "Ada", None), (2, "Bob", None)]


def columns_of(config: dict[str, Any]) -> set[str]:
    """Return the expected columns of a snapshot: the source's and dbt's, without its staging."""
    meta = {name: name for name in RENAMED} | config.get("snapshot_meta_column_names", {})
    if config.get("hard_deletes") != "new_record":
        del meta["dbt_is_deleted"]
    return {"id", "part", "name", "updated_at", "old", "note", *meta.values()}


def records(spark: Any, table: str, config: dict[str, Any]) -> tuple[list[Any], set[str]]:
    """Return the records of a snapshot in order, and the columns of its table."""
    meta = {name: name for name in RENAMED} | config.get("snapshot_meta_column_names", {})
    frame = spark.table(table)
    until, gone = meta["dbt_valid_to"], meta["dbt_is_deleted"]
    deleted = gone if gone in frame.columns else "'False'"
    is_open = f"{until} = {config.get('dbt_valid_to_current')}"
    is_open = is_open if "dbt_valid_to_current" in config else f"{until} is null"
    rows = spark.sql(
        f"select id, name, old, note, {is_open}, {deleted} from {table}"
        f" order by id, {is_open}, {deleted}"
    )
    return [tuple(row) for row in rows.collect()], set(frame.columns)
