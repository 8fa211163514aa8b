"""Test the effects of session settings and SQL functions on a model's rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwaters.analysis import called
from headwaters.platform.spark_version import decides_rows
from headwaters.runs.histories import changes_session
from headwaters.runs.session_fingerprint import changed_settings, definitions

ZONE, ANSI = "spark.sql.session.timeZone", "spark.sql.ansi.enabled"
LEGACY = "spark.sql.legacy.sizeOfNull"
DESCRIBED = {
    "fx.twice": ["Function: spark_catalog.fx.twice", "Create Time: today", "Body: fx.plus(x, x)"],
    "fx.plus": ["Function: spark_catalog.fx.plus", "Owner: ann", "Body: a + b"],
    "local": ["Function: spark_catalog.default.local", "Body: upper(x)"],
    "upper": ["Function: upper", "Usage: upper(str) - …"],
}


def test_names_before_a_bracket_are_calls_but_not_in_texts_and_comments() -> None:
    sql = """
    select FX.Twice (id), `fx`.plus(1, 2), 'fx.text(1)', "fx.double(1)", t.a, -- fx.gone(1)
        sum(case when t.x in (1, 2) then 1 end) /* fx.gone(2) */
    from t
    """
    assert called(sql) == ["`fx`.plus", "fx.twice", "in", "sum"]


def test_functions_of_a_persons_own_are_recorded_with_those_that_they_call() -> None:
    sql = "select fx.twice(id), local(name), upper(name), missing.one(x) from t"
    found = definitions(sql, ["spark_catalog.default.local"], lambda n: DESCRIBED.get(n, []))
    assert found == {
        "fx.plus": "Function: spark_catalog.fx.plus\nBody: a + b",
        "fx.twice": "Function: spark_catalog.fx.twice\nBody: fx.plus(x, x)",
        "local": "Function: spark_catalog.default.local\nBody: upper(x)",
    }


def test_settings_that_differ_are_named_where_both_texts_have_them() -> None:
    def built_by(**settings: str) -> str:
        return f'/* built by ["x", {{}}, {json.dumps({"settings": settings})}] */\nselect 1'

    zones = [built_by(**{ZONE: zone, ANSI: "true"}) for zone in ("UTC", "Asia/Tokyo")]
    assert changed_settings(*zones) == [f"{ZONE} was UTC and is Asia/Tokyo"]
    for older in (zones[1], built_by(**{ANSI: "true"}), "select 1", "*********(redacted)", ""):
        assert changed_settings(older, zones[1]) == []
    legacy = built_by(**{ZONE: "UTC", LEGACY: "true"})
    assert changed_settings(zones[0], legacy) == [f"{LEGACY} was Spark's default and is true"]
    assert changed_settings(legacy, zones[0]) == [f"{LEGACY} was true and is Spark's default"]


@pytest.mark.parametrize(
    ("name", "decides"),
    [
        (ZONE, True),
        (LEGACY, True),
        ("spark.sql.of.a.later.version", True),
        ("spark.sql.parquet.int96RebaseModeInRead", True),
        ("spark.sql.parquet.outputTimestampType", False),
        ("spark.sql.shuffle.partitions", False),
        ("spark.driver.memory", False),
    ],
)
def test_a_setting_may_decide_rows_unless_it_is_known_not_to(name: str, decides: bool) -> None:
    assert decides_rows(name) == decides


@pytest.mark.parametrize(
    ("sql", "changes"),
    [
        ("set spark.sql.ansi.enabled = true", True),
        ("/* dbt */ -- why\n RESET", True),
        ("set time zone 'UTC'", True),
        ("use other", True),
        ("create or replace temporary function twice(x int) returns int return x * 2", True),
        ("drop function twice", True),
        ("select 1 as function", False),
        ("select set from t", False),
        ("insert into t select 1", False),
        ("", False),
    ],
)
def test_statements_that_may_change_the_session(sql: str, changes: bool) -> None:
    assert changes_session(sql) == changes


def test_a_strategy_or_key_that_differs_is_named() -> None:
    def built_by(strategy: str, *keys: str) -> str:
        what = [strategy, [*keys], [], {}, {"settings": {ZONE: "UTC"}}]
        return f"/* built by {json.dumps(what)} */\nselect 1"

    assert changed_settings(built_by("replace"), built_by("affected_keys", "a", "b")) == [
        "its strategy was replace and is affected_keys",
        "unique_key was none and is a, b",
    ]
    assert changed_settings(built_by("replace", "a"), built_by("replace", "a")) == []


PROJECT = """
name: surroundings
version: 0.1.0
profile: headwaters
models:
  surroundings:
    +materialized: incremental
    +file_format: delta
    +incremental_strategy: change_feed
    +unique_key: id
"""
SOURCES = "sources: [{name: inputs, schema: '{{ target.schema }}_inputs', tables: [{name: rows}]}]"
CHANGES = "from {{ changes(source('inputs', 'rows')) }}"
MODELS = {
    "days": f"select id, cast(at as date) as day {CHANGES}",
    "days_by_key": "{{ config(incremental_strategy='affected_keys') }} select id, cast(at as date)"
    " as day from {{ affected(source('inputs', 'rows'), key='id') }}",
    "numbers": f"select id, cast(code as int) as number {CHANGES}",
    "sizes": f"select id, size(cast(null as array<int>)) as size {CHANGES}",
    "periods": "{{ config(incremental_strategy='history') }} select id, cast(at as date) as day,"
    " _image from {{ images(source('inputs', 'rows')) }}",
}


@pytest.mark.slow
def test_a_table_is_rebuilt_in_a_session_that_gives_other_rows(
    dbt: Callable[..., Any],
    new_project: Callable[..., Path],
    spark: Any,
    schema: str,
    set_spark: Callable[[str, str], None],
) -> None:
    rows = f"{schema}_inputs.rows"
    spark.sql(f"create schema {schema}_inputs")
    spark.sql(
        f"create table {rows} (id int, at timestamp, code string) using delta"
        " tblproperties ('delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(
        f"insert into {rows} values (1, timestamp'2026-01-01 03:00:00Z', '7'),"
        " (2, timestamp'2026-01-01 12:00:00Z', 'x')"
    )
    files = {f"models/{name}.sql": sql for name, sql in MODELS.items()}
    folder = new_project(files | {"dbt_project.yml": PROJECT, "models/inputs.yml": SOURCES})

    def run(expect: bool = True) -> dict[str, str]:
        ran = dbt("run", project_dir=folder, schema=schema, expect=expect)
        found = {answer.node.name: answer.message for answer in ran.result.results}
        return {name: found[name] for name in MODELS}

    def table(name: str, columns: str = "*") -> list[tuple[str, ...]]:
        found = spark.sql(f"select {columns} from {schema}.{name} order by id").collect()
        return [tuple(map(str, row)) for row in found]

    def days(name: str) -> list[tuple[str, ...]]:
        return table(name, "id, day")

    run()  # which sets the other settings, such as ANSI
    utc = [("1", "2026-01-01"), ("2", "2026-01-01")]
    assert [days(name) for name in ("days", "days_by_key", "periods")] == [utc] * 3
    assert spark.conf.get(ANSI) == "false"
    assert table("numbers") == [("1", "7"), ("2", "None")]

    # the input is unchanged, and one row depends on the zone
    set_spark(ZONE, "America/New_York")
    said = run()
    why = f"changed settings: {ZONE} was UTC and is America/New_York"
    assert {
        name: re.sub(r" [\d.]+ (Bytes|kB),", "", message) for name, message in said.items()
    } == {
        **dict.fromkeys(MODELS, f"replace: 2 rows, {why}"),
    }
    new_york = [("1", "2025-12-31"), ("2", "2026-01-01")]
    assert [days(name) for name in ("days", "days_by_key", "periods")] == [new_york] * 3
    spark.sql(f"insert into {rows} values (3, timestamp'2026-01-02 03:00:00Z', '8')")
    assert {message.split(":")[0] for message in run().values()} <= {"append", "merge"}
    new_york.append(("3", "2026-01-01"))
    assert [days(name) for name in ("days", "days_by_key", "periods")] == [new_york] * 3

    # a setting that no list names
    set_spark(LEGACY, "false")
    why = f"changed settings: {LEGACY} was Spark's default and is false"
    assert table("sizes") == [(id, "-1") for id in "123"]
    assert run()["sizes"].endswith(f", {why}")
    assert table("sizes") == [(id, "None") for id in "123"]

    # a cast that fails now is an error, and its table is unchanged
    set_spark(ANSI, "true")
    said = run(expect=False)
    assert said["days"].endswith(f", changed settings: {ANSI} was false and is true")
    assert "[CAST_INVALID_INPUT] " in said["numbers"]
    assert table("numbers") == [("1", "7"), ("2", "None"), ("3", "8")]
    spark.sql(f"delete from {rows} where id = 2")
    assert run()["numbers"].startswith("replace: 2 rows")
    assert table("numbers") == [("1", "7"), ("3", "8")]
