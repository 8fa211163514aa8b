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
CHECK = {"strategy": "check", "check_cols": ["name"]}
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
    ids = {
        name: spark.sql(
            f"select count(*) - count(distinct {'record' if name == 'composite' else 'dbt_scd_id'})"
            f" from {schema}.{name}"
        ).first()[0]
        for name in SNAPSHOTS
    }
    assert set(ids.values()) == {0}, "two records have one id"


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
