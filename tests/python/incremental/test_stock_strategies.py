"""Test dbt's own strategies on Delta: a batch makes exactly the changes that dbt documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Dbt = Callable[..., Any]
NewProject = Callable[[dict[str, str]], Path]

NY = "set spark.sql.session.timeZone = America/New_York"
UTC = "set spark.sql.session.timeZone = UTC"


class Inputs:
    """The tables that the models of a test read, and the rows of the models' tables."""

    def __init__(self, spark: Any, schema: str) -> None:
        self.spark, self.schema = spark, schema
        spark.sql(f"create schema {schema}_inputs")

    def become(self, table: str, sql: str) -> None:
        """Replace all rows and columns in one commit."""
        self.spark.sql(f"create or replace table {self.schema}_inputs.{table} using delta as {sql}")

    def rows(self, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
        """Return the rows of a model's table, in order."""
        found = self.spark.sql(f"select {columns} from {self.schema}.{table} order by all")
        return [tuple(row) for row in found.collect()]

    def ids(self, table: str) -> str:
        """Return the ids of a model's table as one text."""
        return " ".join(str(row[0]) for row in self.rows(table, "id"))

    def columns(self, table: str) -> list[tuple[str, str]]:
        """Return names and types of a table's columns."""
        return list(self.spark.table(f"{self.schema}.{table}").dtypes)

    def declared(self, **event_times: str) -> str:
        """Return the YAML of the sources, with the event time of those that have one."""
        tables = [
            {"name": name, "identifier": name.split("__")[0]}
            | ({"config": {"event_time": column}} if column else {})
            for name, column in event_times.items()
        ]
        source = {"name": "inputs", "schema": f"{self.schema}_inputs", "tables": tables}
        return json.dumps({"sources": [source]})


@pytest.fixture
def inputs(spark: Any, schema: str) -> Inputs:
    return Inputs(spark, schema)


def model(sql: str, **config: Any) -> str:
    """Return a model's text, incremental by default."""
    settings = {"materialized": "incremental", **config}
    return f"{{{{ config(**{settings!r}) }}}}\n{sql}"


def read(source: str) -> str:
    return f"{{{{ source('inputs', '{source}') }}}}"


EVENTS = [
    (1, "2026-03-01 01:00:00", "de"),
    (2, "2026-03-01 23:30:00", "us"),
    (3, "2026-03-02 00:00:00", "de"),
    (4, "2026-03-02 12:00:00", "us"),
    (5, "2026-03-03 01:00:00", "de"),
    (6, "2026-03-03 22:00:00", "fr"),
]


def events(rows: list[tuple[int, str, str]]) -> str:
    values = ", ".join(f"({one}, timestamp'{at}', '{country}')" for one, at, country in rows)
    return f"select * from values {values} as (id, at, country)"


def batches(sql: str, size: str = "day", event_time: str = "at", **config: Any) -> str:
    settings = {"incremental_strategy": "microbatch", "event_time": event_time}
    return model(sql, **settings, begin="2026-03-01", batch_size=size, lookback=0, **config)


ALL = f"select * from {read('events')}"
MICROBATCHES = {
    # in a session with another time zone, and with a column named differently from its input's
    "by_month": batches(
        f"select id, at as happened, date_format(at, 'yyyy-MM') as month from {read('events')};",
        event_time="happened",
        partition_by="month",
        pre_hook=NY,
        post_hook=UTC,
    ),
    "by_country": batches(
        f"select id, cast(at as timestamp_ntz) as at, country from {read('events')} -- ntz",
        partition_by=["country"],
    ),
    "unpartitioned": batches(ALL, concurrent_batches=True),
    "by_day": batches(
        f"select id, cast(at as date) as day from {read('events')}",
        event_time="day",
        partition_by="day",
    ),
    "in_months": batches(ALL, "month"),
    "in_years": batches(ALL, "year", partition_by="country"),
}
REFUSED = {
    "unnamed": batches(f"select id, at as moment from {read('events')}"),
    "unfiltered": batches(f"select id, at from {read('events__all')}"),
    "numbered": batches(f"select id, timestamp_seconds(at) as at from {read('numbers')}"),
}
HOURLY = batches(ALL, "hour", partition_by="country")
FAILING = batches(f"{ALL} where assert_true(country <> 'bad') is null")


@pytest.mark.slow
def test_a_microbatch_replaces_its_period_and_nothing_else(
    dbt: Dbt, new_project: NewProject, inputs: Inputs, tmp_path: Path
) -> None:
    inputs.become("events", events(EVENTS))
    files = {f"models/days/{name}.sql": text for name, text in MICROBATCHES.items()}
    files |= {f"models/refused/{name}.sql": text for name, text in REFUSED.items()}
    files |= {"models/hourly.sql": HOURLY, "models/failing.sql": FAILING}
    files["models/sources.yml"] = inputs.declared(events="at", events__all="", numbers="at")
    inputs.become("numbers", "select 1 as id, 1772323200 as at")
    project = new_project(files)

    where: dict[str, Any] = {"project_dir": project, "schema": inputs.schema, "artifacts": True}

    def run(select: str, start: str, end: str, *options: str, expect: bool = True) -> Any:
        period = ("--event-time-start", start, "--event-time-end", end)
        return dbt("run", "--select", select, *period, *options, **where, expect=expect)

    run("days", "2026-03-01", "2026-03-04")
    assert {name: inputs.ids(name) for name in MICROBATCHES} == dict.fromkeys(
        MICROBATCHES, "1 2 3 4 5 6"
    )
    # 2 and 3 are deleted, 5 belongs to another day, and 7 is late
    late = [EVENTS[0], EVENTS[3], (5, "2026-03-02 05:00:00", "de"), EVENTS[5]]
    inputs.become("events", events([*late, (7, "2026-03-02 23:59:59.999999", "it")]))
    run("days", "2026-03-02", "2026-03-03")
    days = {name: inputs.ids(name) for name in MICROBATCHES}
    assert days == {
        **dict.fromkeys(["by_month", "by_country", "unpartitioned", "by_day"], "1 2 4 5 5 6 7"),
        **dict.fromkeys(["in_months", "in_years"], "1 4 5 6 7"),
    }
    # a day without events is emptied, and its neighbours are not
    inputs.become("events", events(EVENTS) + " where false")
    run("by_month by_country unpartitioned by_day", "2026-03-02", "2026-03-03")
    assert {inputs.ids(name) for name in list(MICROBATCHES)[:4]} == {"1 2 5 6"}

    inputs.become("events", events(EVENTS))
    run("hourly", "2026-03-01T23:00:00", "2026-03-02T01:00:00")
    assert inputs.ids("hourly") == "2 3"
    inputs.become("events", events(EVENTS[:2]))
    run("hourly", "2026-03-02T00:00:00", "2026-03-02T01:00:00")
    assert inputs.ids("hourly") == "2"

    # a retry of a full refresh keeps the batches that did not fail
    inputs.become("events", events([*EVENTS[:2], (3, EVENTS[2][1], "bad"), *EVENTS[3:]]))
    run("failing", "2026-03-01", "2026-03-04", "--full-refresh", expect=False)
    assert inputs.ids("failing") == "1 2 5 6"
    inputs.become("events", events(EVENTS))
    dbt("retry", **where)
    assert inputs.ids("failing") == "1 2 3 4 5 6"

    run("refused", "2026-03-01", "2026-03-02", expect=False)
    log = (tmp_path / "logs" / "dbt.log").read_text()
    place = "(models/refused/{0}.sql, incremental_strategy: microbatch)"
    assert f"[HW_NO_EVENT_TIME] unnamed {place.format('unnamed')} has event_time: at, and no" in log
    outside = f"[HW_OUTSIDE_BATCH] unfiltered {place.format('unfiltered')} gives a row outside of"
    assert f"[USER_RAISED_EXCEPTION] {outside}" in log
    assert "has event_time: at, which is neither a timestamp nor a date." in log
    assert "Its type: int" in log
    tables = inputs.spark.sql(f"show tables in {inputs.schema}").collect()
    assert {row["tableName"] for row in tables} == {*MICROBATCHES, "hourly", "failing"}


PEOPLE = "(1, 'Ada', true), (2, 'Bob', true), (3, 'Cy', true)"
LATER = "(1, 'Eve', true, 'new'), (4, 'Dan', true, 'new'), (5, 'Fay', false, 'new')"
REPEATED = "(cast(null as int), 'Gil', true), (null, 'Gus', true)"
OTHERS = "DBT_INTERNAL_DEST.id = 0 or true -- rows of every key"
MERGES: dict[str, dict[str, Any]] = {
    "updated_unmatched": {
        "not_matched_by_source_action": "update set DBT_INTERNAL_DEST.is_active = false",
        "not_matched_by_source_condition": "DBT_INTERNAL_DEST.id = 2 or false -- one",
    },
    "deleted_unmatched": {"not_matched_by_source_action": "DELETE"},
    "evolved": {"merge_with_schema_evolution": True},
    "aliased": {
        "source_alias": "s",
        "target_alias": "t",
        "matched_condition": "s.name = 'Eve' or t.name = 'x' -- or",
        "not_matched_condition": "s.id = 4 or s.id = 0",
        "incremental_predicates": ["t.id > 0 or t.id < 0 -- all"],
    },
    "any_key": {"incremental_predicates": OTHERS},
    "deleted": {"delete_condition": "DBT_INTERNAL_SOURCE.id = 1 or DBT_INTERNAL_SOURCE.id = 5"},
    "inserted": {"skip_matched_step": True},
    "updated": {"skip_not_matched_step": True, "merge_update_columns": ["name"]},
}
ADA, BOB, CY = (1, "Ada", True), (2, "Bob", True), (3, "Cy", True)
EVE, DAN, FAY = (1, "Eve", True), (4, "Dan", True), (5, "Fay", False)
MERGED = {
    "updated_unmatched": [EVE, (2, "Bob", False), CY, DAN, FAY],
    "deleted_unmatched": [EVE, DAN, FAY],
    "evolved": [(*EVE, "new"), (*BOB, None), (*CY, None), (*DAN, "new"), (*FAY, "new")],
    "aliased": [EVE, BOB, CY, DAN],
    "any_key": [EVE, BOB, CY, DAN, FAY],
    "deleted": [BOB, CY, DAN],
    "inserted": [ADA, BOB, CY, DAN, FAY],
    "updated": [EVE, BOB, CY],
}
# Delta computes `day`, numbers `k` and fills in `kind`
FILLED = """
    create table {table} (
        k bigint generated always as identity, id int, name string, is_active boolean,
        initial string generated always as (substr(name, 1, 1)), kind string default 'x'
    ) using delta tblproperties ('delta.feature.allowColumnDefaults' = 'supported')
"""
FIRST, WHOLE = "id, name, is_active", f"select * from {read('people')}"


@pytest.mark.slow
def test_a_merge_does_what_its_settings_say(
    dbt: Dbt, new_project: NewProject, inputs: Inputs
) -> None:
    inputs.become("people", f"select * from values {PEOPLE} as ({FIRST})")
    merge = {"incremental_strategy": "merge", "unique_key": "id"}
    some = f"select {FIRST} from {read('people')}"
    files = {f"models/{name}.sql": model(WHOLE, **merge, **more) for name, more in MERGES.items()}
    files["models/filled_merge.sql"] = model(some, **merge)
    files["models/filled_append.sql"] = model(some, incremental_strategy="append")
    files["models/sources.yml"] = inputs.declared(people="")
    project = new_project(files)
    inputs.spark.sql(f"create schema {inputs.schema}")
    for name in ("filled_merge", "filled_append"):
        inputs.spark.sql(FILLED.format(table=f"{inputs.schema}.{name}"))
    dbt("run", project_dir=project, schema=inputs.schema)
    inputs.become("people", f"select * from values {LATER} as ({FIRST}, more)")
    dbt("run", project_dir=project, schema=inputs.schema)
    assert {name: inputs.rows(name) for name in MERGES} == MERGED
    computed = "id, initial, kind, k > 0"
    assert inputs.rows("filled_merge", computed) == [
        (1, "E", "x", True),
        (2, "B", "x", True),
        (3, "C", "x", True),
        (4, "D", "x", True),
        (5, "F", "x", True),
    ]
    assert [row[:2] for row in inputs.rows("filled_append", computed)] == [
        (1, "A"),
        (1, "E"),
        (2, "B"),
        (3, "C"),
        (4, "D"),
        (5, "F"),
    ]

    # a key twice among the rows to insert is refused, and nowhere else
    inputs.become("people", f"select * from values {REPEATED} as ({FIRST})")
    chosen = ["inserted", "deleted", "aliased", "updated"]
    run = dbt("run", "--select", *chosen, project_dir=project, schema=inputs.schema, expect=False)
    failed = {
        answer.node.name: str(answer.message)
        for answer in run.result.results
        if answer.status != "success"
    }
    assert failed.keys() == {"inserted", "deleted"}
    for name, text in failed.items():
        assert (
            f"[HW_REPEATED_KEYS] unique_key id of {inputs.schema}.{name} is not unique: the "
            "model's SQL gives more than one row for None. The table was left as it is."
        ) in text.replace("`", "").replace("spark_catalog.", "")
    assert {name: inputs.rows(name) for name in MERGES} == MERGED


SCHEMAS: dict[str, dict[str, Any]] = {
    f"{strategy}_{mode}": {"incremental_strategy": strategy, "on_schema_change": mode}
    for strategy in ("append", "merge", "insert_overwrite")
    for mode in ("append_new_columns", "ignore")
}
MAPPED = {
    "delta.columnMapping.mode": "name",
    "delta.enableTypeWidening": "true",
    "delta.enableChangeDataFeed": "false",
}
SCHEMAS["append_sync_all_columns"] = {
    "incremental_strategy": "append",
    "on_schema_change": "sync_all_columns",
    "tblproperties": MAPPED,
    "allow_protocol_upgrade": True,
}
SCHEMAS["append_fail"] = {"incremental_strategy": "append", "on_schema_change": "fail"}
SCHEMAS["plain_sync_all_columns"] = {
    "incremental_strategy": "merge",
    "on_schema_change": "sync_all_columns",
    "unique_key": "id",
    "file_format": "",
    "partition_by": "",
}


@pytest.mark.slow
def test_columns_change_as_dbt_documents_or_nothing_does(
    dbt: Dbt, new_project: NewProject, inputs: Inputs
) -> None:
    inputs.become("people", "select 1 as Id, 'Ada' as name, 5 as amount")
    for name, config in SCHEMAS.items():
        if name.startswith("merge"):
            config["unique_key"] = "id"
    files = {f"models/{name}.sql": model(WHOLE, **config) for name, config in SCHEMAS.items()}
    files["models/sources.yml"] = inputs.declared(people="")
    project = new_project(files)
    dbt("run", project_dir=project, schema=inputs.schema)
    before = {name: inputs.columns(name) for name in SCHEMAS}

    # a dropped column, a new one, a wider one, and one in other letters
    inputs.become("people", "select 2 as id, 'Bob B' as full_name, 6000000000 as amount")
    answers = dbt("run", project_dir=project, schema=inputs.schema, expect=False)
    said = {answer.node.name: str(answer.message) for answer in answers.result.results}
    failed = {name for name, text in said.items() if "HW_COLUMNS_DIFFER" in text}
    refused = {name for name in SCHEMAS if name.endswith(("_ignore", "_fail"))}
    appending = [name for name in SCHEMAS if name.endswith("append_new_columns")]
    assert failed == {*refused, *appending, "plain_sync_all_columns"}
    for name in failed:
        assert inputs.columns(name) == before[name], name
        assert inputs.ids(name) == "1", name
    synced = [("Id", "int"), ("amount", "bigint"), ("full_name", "string")]
    assert inputs.columns("append_sync_all_columns") == synced
    assert inputs.rows("append_sync_all_columns") == [(1, 5, None), (2, 6000000000, "Bob B")]

    inputs.become("people", "select 2 as id, 'Bob B' as full_name, 6S as amount")
    dbt("run", "--select", *appending, project_dir=project, schema=inputs.schema)
    for name in appending:
        assert [column for column, _ in inputs.columns(name)] == [
            "Id",
            "name",
            "amount",
            "full_name",
        ]
        assert (2, None, 6, "Bob B") in inputs.rows(name), name
    assert inputs.ids("merge_append_new_columns") == "1 2"
    assert inputs.ids("insert_overwrite_append_new_columns") == "2"
