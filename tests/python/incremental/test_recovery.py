"""Test that properties and commits give a table's applied versions and its other writers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwaters.runs.recovery import Applied, Meanwhile, applied_versions, signature, since
from headwaters.tables.commits import Commit

OLD = {"inputs.items": {"version": 4, "at": 40}}
NEW = {"inputs.items": {"version": 6, "at": 60}}
SEEN = {"version": 10, "at": 1000}


def commit(
    number: int, operation: str, metadata: str | None = None, /, **parameters: Any
) -> Commit:
    metrics = {"numOutputRows": "3"} if operation == "WRITE" else {}
    return Commit(number, 100 * number, operation, parameters, metrics, "", metadata)


def append(version: int, run: str | None) -> Commit:
    return commit(version, "WRITE", signature(run) if run else None, mode="Append")


def merge(version: int, run: str | None) -> Commit:
    guard = f" AND NOT (_operation#1 = {signature(run)})" if run else ""
    return commit(version, "MERGE", predicate=f'["((id#1L = id#2L){guard})"]')


def note(version: int, run: str | None) -> Commit:
    pending = json.dumps({"id": run, "seen": SEEN, "inputs": NEW}) if run else "null"
    return commit(version, "SET TBLPROPERTIES", properties={"headwaters.pending": pending})


def replacement(version: int, run: str) -> Commit:
    properties = {"headwaters.run": json.dumps({"id": run})}
    return commit(version, "CREATE OR REPLACE TABLE AS SELECT", properties=json.dumps(properties))


BASE = commit(10, "SET TBLPROPERTIES", properties={"headwaters.pending": "null"})
OPERATION = json.dumps({"operation": "delete_where", "id": "1", "reason": "x", "user": "y"})


def finished(run: str = "a", inputs: dict[str, Any] = NEW) -> dict[str, str]:
    return {
        "headwaters.inputs": json.dumps(inputs),
        "headwaters.run": json.dumps({"id": run, "seen": SEEN}),
        "headwaters.pending": "null",
    }


def interrupted(run: str = "b") -> dict[str, str]:
    return finished("a", OLD) | {
        "headwaters.pending": json.dumps({"id": run, "seen": SEEN, "inputs": NEW})
    }


def test_a_finished_run_and_what_changes_no_rows_leave_what_it_applied() -> None:
    changed = ["OPTIMIZE", "ROW TRACKING BACKFILL", "ROW TRACKING UNBACKFILL"]
    without_rows = [commit(14 + place, operation) for place, operation in enumerate(changed)]
    commits = [*without_rows[::-1], note(13, None), merge(12, "a"), note(11, "a"), BASE]
    assert applied_versions(finished(), commits, complete=False) == Applied(NEW, None, None)


def test_a_replacement_needs_nothing_of_what_was_before_it() -> None:
    properties = finished() | {"headwaters.run": json.dumps({"id": "a"})}
    commits = [commit(31, "ADD CONSTRAINT"), replacement(30, "a"), append(29, None)]
    assert applied_versions(properties, commits, complete=False) == Applied(NEW, None, None)


def test_an_interrupted_run_has_applied_what_it_noted_only_if_its_commit_is_there() -> None:
    before = [note(11, "b"), BASE]
    assert applied_versions(interrupted(), before, False) == Applied(OLD, None, "b")
    for wrote in (append(12, "b"), merge(12, "b")):
        told = applied_versions(interrupted(), [wrote, *before], False)
        assert told == Applied(NEW, None, "b")
        # a run that found an interrupted run names itself as the last one, too
        adopted = interrupted() | {"headwaters.run": json.dumps({"id": "b", "seen": SEEN})}
        assert applied_versions(adopted, [wrote, *before], False) == told


def test_a_change_by_somebody_else_is_not_taken_for_the_runs_own() -> None:
    before = [note(11, "b"), BASE]
    for other in (append(12, None), merge(12, None), append(12, "c"), commit(12, "TRUNCATE")):
        told = applied_versions(interrupted(), [other, *before], False)
        assert told == Applied(OLD, f"{other.operation} of version 12", "b")
        behind = applied_versions(interrupted(), [append(13, "b"), other, *before], False)
        assert behind == Applied(NEW, f"{other.operation} of version 12", "b")


def test_a_column_that_is_dropped_or_renamed_is_a_change_by_somebody_else() -> None:
    for operation in ("DROP COLUMNS", "RENAME COLUMN"):
        commits = [commit(12, operation), BASE]
        told = applied_versions(finished(), commits, complete=False)
        assert told == Applied(NEW, f"{operation} of version 12", None)
        assert since(commits, SEEN, "b").foreign == f"{operation} of version 12"


def test_commits_after_the_last_run_may_have_changed_columns() -> None:
    added, moved = commit(14, "ADD COLUMNS"), commit(15, "CHANGE COLUMN", position="FIRST")
    rest = [note(13, None), commit(12, "ADD COLUMNS"), append(11, "a"), BASE]
    told = applied_versions(finished(), [moved, added, *rest], complete=False)
    assert told == Applied(NEW, None, None, altered=(moved, added))
    # a run that was killed leaves what it added, and the next one compares columns with its SQL
    assert applied_versions(interrupted(), [added, note(11, "b"), BASE], False) == Applied(
        OLD, None, "b"
    )
    replaced = [commit(13, "CHANGE COLUMN"), replacement(12, "a"), BASE]
    told = applied_versions(finished(), replaced, complete=False)
    assert told == Applied(NEW, None, None, altered=(replaced[0],))


def test_a_run_that_noted_its_inputs_after_another_had_finished_has_applied_nothing() -> None:
    properties = interrupted("b") | {"headwaters.inputs": json.dumps(NEW)}
    commits = [note(14, "b"), note(13, None), append(12, "a"), note(11, "a"), BASE]
    assert applied_versions(properties, commits, False) == Applied(NEW, None, "b")


def test_an_operation_of_this_project_is_no_foreign_change() -> None:
    commits = [commit(12, "DELETE", OPERATION), BASE]
    assert applied_versions(finished(), commits, complete=False) == Applied(NEW, None, None)


def test_a_restore_takes_back_the_commits_after_the_version_that_it_names() -> None:
    commits = [
        *(commit(15, "RESTORE", version="12"), append(14, None), append(13, "b")),
        *(append(12, "b"), note(11, "b"), BASE),
    ]
    assert applied_versions(interrupted(), commits, False) == Applied(NEW, None, "b")
    before_the_write = [commit(15, "RESTORE", version="11"), *commits[1:]]
    assert applied_versions(interrupted(), before_the_write, False) == Applied(OLD, None, "b")
    by_time = [commit(15, "RESTORE", timestamp="2026-01-01"), *commits[1:]]
    told = applied_versions(interrupted(), by_time, False)
    assert told is not None and told.foreign == "RESTORE of version 15"


def test_a_run_that_planned_from_a_restored_table_has_nothing_before_the_restore() -> None:
    last = {"id": "b", "seen": {"version": 15, "at": 1500}}
    properties = finished() | {"headwaters.run": json.dumps(last)}
    commits = [
        *(note(18, None), append(17, "b"), note(16, "b"), commit(15, "RESTORE", version="12")),
        *(append(14, None), append(12, "a"), append(11, None), BASE),
    ]
    assert applied_versions(properties, commits, complete=False) == Applied(NEW, None, None)


def test_a_clone_starts_from_what_its_source_had_applied() -> None:
    cloned = [append(1, None), commit(0, "CLONE")]
    told = applied_versions(finished(), cloned, complete=True)
    assert told == Applied(NEW, "WRITE of version 1", None)
    assert applied_versions(finished(), cloned[1:], True) == Applied(NEW, None, None)


def test_commits_that_do_not_reach_back_are_asked_for_again() -> None:
    commits = [commit(99, "OPTIMIZE"), commit(98, "OPTIMIZE")]
    assert applied_versions(finished(), commits, complete=False) is None
    assert applied_versions(finished(), commits, complete=True) == Applied(NEW, None, None)


def test_a_table_that_names_no_run_tells_nothing() -> None:
    unnamed = {"headwaters.inputs": json.dumps(NEW)}
    assert applied_versions(unnamed, [BASE], complete=True) == Applied(None, None, None)
    assert applied_versions({}, [BASE], complete=True) == Applied(None, None, None)


def test_of_two_runs_the_one_that_noted_its_inputs_last_goes_on() -> None:
    commits = [note(12, "b"), note(11, "a"), BASE]
    assert since(commits, SEEN, "b") == Meanwhile(None, ["a"], None)
    assert since(commits, SEEN, "a") == Meanwhile("another run of the model", [], None)
    alone = [commit(12, "OPTIMIZE"), note(11, "a"), BASE]
    assert since(alone, SEEN, "a") == Meanwhile(None, [], None)


def test_rows_of_another_run_make_the_work_of_this_one_void() -> None:
    for wrote in (append(12, "a"), merge(12, "a"), replacement(12, "a")):
        told = since([note(13, "b"), wrote, note(11, "a"), BASE], SEEN, "b")
        assert told.superseded == "another run of the model"
    restored = since([commit(12, "RESTORE", OPERATION, version="3"), BASE], SEEN, "b")
    assert restored.superseded == "RESTORE of version 12"


def test_rows_of_somebody_else_are_told() -> None:
    told = since([append(12, None), note(11, "b"), BASE], SEEN, "b")
    assert told == Meanwhile(None, [], "WRITE of version 12")


PROJECT = """
name: tracked
version: 0.1.0
profile: headwaters
models:
  tracked: {+materialized: incremental, +on_foreign_write: fail}
"""
TRACKED = "{+tblproperties: {delta.enableRowTracking: 'true'}, +allow_protocol_upgrade: true, "
FILES = {
    "dbt_project.yml": PROJECT,
    "models/raw.yml": "sources: [{name: raw, schema: '{{ target.schema }}_raw', tables: "
    "[{name: items}]}]",
    "models/strict.sql": "{{ config(incremental_strategy='change_feed', unique_key='id') }}\n"
    "select id, n * 2 as n from {{ changes(source('raw', 'items')) }}",
    "models/periods.sql": "{{ config(incremental_strategy='history', unique_key='id') }}\n"
    "select id, n, _image from {{ images(source('raw', 'items')) }}",
    "models/totals.sql": "{{ config(incremental_strategy='auto') }}\n"
    "select n % 2 as odd, count(*) as items from {{ source('raw', 'items') }} group by n % 2",
}


@pytest.mark.slow
def test_row_tracking_that_the_project_turns_on_is_no_foreign_write(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    spark.sql(f"create schema {schema}_raw")
    items = f"{schema}_raw.items"
    feed = "tblproperties ('delta.enableChangeDataFeed' = 'true')"
    spark.sql(f"create table {items} using delta {feed} as select 1 as id, 1 as n")
    project = new_project(FILES)

    def run() -> dict[str, str]:
        ran = dbt("run", project_dir=project, schema=schema)
        return {one.node.name: str(one.message).partition(":")[0] for one in ran.result.results}

    run()
    (project / "dbt_project.yml").write_text(PROJECT.replace("{", TRACKED))
    spark.sql(f"alter table {items} set tblproperties ('delta.enableRowTracking' = 'true')")
    spark.sql(f"update {items} set n = 4 where id = 1")
    spark.sql(f"insert into {items} values (2, 2)")
    ways = run()
    assert ways == dict.fromkeys(ways, "merge")
    for name in ways:
        found = spark.sql(f"describe history {schema}.{name}").collect()
        assert "ROW TRACKING BACKFILL" in {row["operation"] for row in found}
    rows = {
        f"select id, n from {schema}.strict": [(1, 8), (2, 4)],
        f"select id, n, is_current from {schema}.periods": [
            (1, 1, False),
            (1, 4, True),
            (2, 2, True),
        ],
        f"select * from {schema}.totals": [(0, 2)],
    }
    for sql, right in rows.items():
        assert sorted(map(tuple, spark.sql(sql).collect())) == right, sql
    assert set(run().values()) == {"no changes"}
