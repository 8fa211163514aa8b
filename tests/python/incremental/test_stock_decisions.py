"""Test settings and decisions of dbt's own strategies, without Spark."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from headwaters.runs.stock import (
    StockColumn,
    StockTable,
    StockWrite,
    begins_refresh,
    may_fill,
    table_of,
    without_end,
    write_of,
)
from headwaters.runs.stored_types import loss
from headwaters.tables.checks import node_problems
from headwaters.tables.stock_settings import stock_settings

COLUMNS = [StockColumn("id", "int"), StockColumn("amount", "int"), StockColumn("day", "date")]


def config(**settings: Any) -> dict[str, Any]:
    return {
        "materialized": "incremental",
        "incremental_strategy": "merge",
        "unique_key": "id",
    } | settings


def problems(**settings: Any) -> list[str]:
    declared = {**node(), "resource_type": "model", "config": config(**settings)}
    place = "models/orders.sql: orders: "
    return [str(problem).replace(place, "") for problem in node_problems(declared)]


def node(batch: tuple[str, str] | None = None, **settings: Any) -> dict[str, Any]:
    start, end = batch or ("", "")
    return {
        "name": "orders",
        "original_file_path": "models/orders.sql",
        "config": config(**settings),
        "batch": {"event_time_start": start, "event_time_end": end},
    }


def write(
    columns: list[StockColumn], table: StockTable | None = None, **settings: Any
) -> StockWrite:
    return write_of(node(**settings), columns, table or StockTable(COLUMNS))


def refusal(columns: list[StockColumn], table: StockTable | None = None, **settings: Any) -> str:
    place = "orders (models/orders.sql, incremental_strategy: "
    text = str(write(columns, table, **settings).problem)
    assert place in text and "\n" not in text
    return text


@pytest.mark.parametrize(
    "settings",
    [
        {"not_matched_by_source_action": "DELETE"},
        {"not_matched_by_source_action": " Update\n set t.a = 1"},
        {"unique_key": ["id", "`the-day`"], "incremental_predicates": "a or b"},
        {"merge_with_schema_evolution": True, "source_alias": "s", "target_alias": "t"},
        {"unique_key": "", "partition_by": [], "incremental_predicates": "", "source_alias": None},
        {"owner": "us", "unique_id": "id", "batch": 1, "target_table": "x", "delete_after": 3},
        {"materialized": "table", "merge_update_columns": ["a"], "on_gap": "fail"},
    ],
)
def test_what_is_documented_and_what_is_somebody_elses_is_taken(settings: dict[str, Any]) -> None:
    assert problems(**settings) == []


def test_a_layout_that_is_a_mapping_is_refused_in_one_line() -> None:
    found = node_problems(
        {
            "config": {
                "partition_by": {"field": "day", "data_type": "date"},
                "materialized": "table",
            },
            "resource_type": "model",
            "name": "daily",
            "original_file_path": "models/daily.sql",
        }
    )
    assert [str(problem) for problem in found] == [
        "[HW_SETTING] models/daily.sql: daily: partition_by: must be a column, or a list of "
        "columns (given: {'field': 'day', 'data_type': 'date'})"
    ]


def test_names_are_taken_with_the_backticks_of_dbt_spark() -> None:
    settings = stock_settings(config(unique_key="`the-value`", merge_update_columns="a"))
    assert (settings.unique_key, settings.merge_update_columns) == (("the-value",), ("a",))


@pytest.mark.parametrize(
    ("type_of_column", "start", "end"),
    [
        (
            "timestamp",
            "timestamp'2026-03-01 05:00:00.000000+00:00'",
            "timestamp'2026-03-01 06:00:00.000000+00:00'",
        ),
        (
            "timestamp_ntz",
            "timestamp_ntz'2026-03-01 05:00:00.000000'",
            "timestamp_ntz'2026-03-01 06:00:00.000000'",
        ),
        # as dbt filters the inputs by these bounds: the last hour of a day includes its rows
        ("date", "date'2026-03-01'", "date'2026-03-01'"),
    ],
)
def test_a_period_is_that_of_the_batch_in_the_type_of_its_column(
    type_of_column: str, start: str, end: str
) -> None:
    bounds = ("2026-03-01T05:00:00+00:00", "2026-03-01T08:00:00+02:00")
    of_batch = node(bounds, incremental_strategy="microbatch", event_time="`AT`", unique_key=None)
    period = write_of(of_batch, [StockColumn("at", type_of_column)], None).period
    assert period is not None
    assert (period.column, period.start, period.end) == ("at", start, end)


def test_the_first_batch_of_a_full_refresh_replaces_the_table() -> None:
    """In a retry, dbt gives a later batch as the start of the full refresh."""

    def begins(start: str, begin: str = "2026-03-01", **flags: Any) -> bool:
        options = SimpleNamespace(**flags)
        return begins_refresh(node((start, "2026-04-01"), begin=begin), options)

    assert begins("2026-03-01T00:00:00+00:00") and not begins("2026-03-02T00:00:00+00:00")
    assert begins("2026-03-01T00:00:00+00:00", "2026-03-01 05:30:00")
    given = datetime(2026, 3, 2, 5)
    assert begins("2026-03-02T00:00:00+00:00", EVENT_TIME_START=given, SAMPLE=None)
    assert not begins("2026-03-03T00:00:00+00:00", EVENT_TIME_START=given)
    assert begins("2026-03-02T00:00:00+00:00", SAMPLE=SimpleNamespace(start=given))
    assert begins_refresh({**node(), "batch": None}, SimpleNamespace())


def test_an_event_time_that_the_model_does_not_give_is_refused_by_name() -> None:
    settings: dict[str, Any] = {"incremental_strategy": "microbatch", "event_time": "days"}
    assert "has event_time: days, and no such column, did you mean 'day'." in refusal(
        COLUMNS, **settings
    )
    text = [StockColumn("days", "string")]
    assert "[HW_NO_EVENT_TIME]" in refusal(text, **settings)
    assert "has event_time: days, which is of type string." in refusal(text, **settings)


@pytest.mark.parametrize(
    ("held", "fits", "is_cut"),
    [
        ("date", ["date", "string"], ["timestamp", "TIMESTAMP_NTZ"]),
        ("timestamp", ["date", "timestamp_ntz"], []),
        ("int", ["tinyint", "bigint", "decimal(20, 0)", "string"], ["float", "decimal(10,2)"]),
        ("decimal(10,2)", ["int", "decimal(12,2)", "decimal(4,1)"], ["double", "decimal(10,3)"]),
        ("float", ["smallint"], ["int", "double", "decimal(3,1)"]),
        ("double", ["float", "int"], ["bigint", "decimal(3,1)"]),
        ("string", ["varchar(3)", "int", "timestamp"], []),
        ("boolean", ["int", "string"], []),
        ("array<int>", ["array<tinyint>", "string"], ["array<double>"]),
        ("map<string,date>", ["map<string,date>"], ["map<string,timestamp>"]),
        ("struct<a:int>", ["struct<A: bigint>"], ["struct<a:double>"]),
        ("array<struct<a:struct<b:int>>>", [], ["array<struct<a:struct<b:decimal(3,1)>>>"]),
    ],
)
def test_values_are_refused_that_spark_would_store_in_part(
    held: str, fits: list[str], is_cut: list[str]
) -> None:
    assert [given for given in [*fits, *is_cut] if loss(given, held)] == is_cut
    table = StockTable([COLUMNS[0], StockColumn("val", held)])
    for given in is_cut:
        text = refusal([COLUMNS[0], StockColumn("val", given)], table)
        assert f"gives val as {given}, and its table has {held}, which cannot hold all" in text
    assert all(
        write([COLUMNS[0], StockColumn("val", given)], table).problem is None for given in fits
    )


@pytest.mark.parametrize("flag", ["EMPTY", "SAMPLE"])
def test_a_part_of_the_rows_deletes_no_others(flag: str) -> None:
    flags, table = SimpleNamespace(**{flag: True}), StockTable(COLUMNS)
    deleting = node(not_matched_by_source_action="delete")
    text = str(write_of(deleting, COLUMNS, table, flags).problem)
    assert text == (
        "[HW_SNAPSHOT_PART] orders (models/orders.sql, incremental_strategy: merge) has "
        f"not_matched_by_source_action, and --{flag.lower()} leaves out rows of its input: the "
        f"table would lose theirs. Exclude the model, or run it without --{flag.lower()}."
    )
    assert write_of(deleting, COLUMNS, None, flags).problem is None
    assert write_of(deleting, COLUMNS, table, SimpleNamespace()).problem is None
    assert write_of(node(), COLUMNS, table, flags).problem is None


@pytest.mark.parametrize(
    "given", ["struct<b:int,a:int>", "struct<a:int>", "struct<a:int,b:int,c:int>"]
)
def test_structs_with_other_fields_are_refused(given: str) -> None:
    held = "struct<a:int,b:int>"
    table = StockTable([COLUMNS[0], StockColumn("val", held)])
    assert refusal([COLUMNS[0], StockColumn("val", given)], table).endswith(
        f" gives val as {given}, and its table has {held}, which has other fields, or the same "
        f"ones in another order. Select it as {held}, or run the model with --full-refresh."
    )


MAPPED = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}
LESS = COLUMNS[:2]
MORE = [*COLUMNS, StockColumn("note", "string")]
WIDER = [StockColumn("ID", "INT"), StockColumn("Amount", "bigint"), COLUMNS[2]]


def test_columns_are_changed_as_on_schema_change_says() -> None:
    names = ["id", "amount", "day"]
    assert write(MORE) == write(COLUMNS)
    assert write(WIDER).columns == names, "a name in other letters is the same column"
    assert write(WIDER).widened == () and not write(WIDER).evolves
    appended = write(MORE, on_schema_change="append_new_columns")
    assert (appended.columns, appended.evolves) == ([*names, "note"], True)
    narrower = [COLUMNS[0], StockColumn("amount", "smallint"), *MORE[2:]]
    assert write(narrower, on_schema_change="append_new_columns").casts == {"amount": "int"}
    assert not write(narrower[:3]).casts
    less = write(LESS, on_schema_change="append_new_columns")
    assert (less.columns, less.dropped, less.evolves) == (["id", "amount"], (), False)
    mapped = StockTable(COLUMNS, properties=MAPPED)
    synced = write([*LESS, MORE[3]], mapped, on_schema_change="sync_all_columns")
    assert (synced.columns, synced.dropped) == (["id", "amount", "note"], ["day"])
    widened = write(WIDER, mapped, on_schema_change="sync_all_columns")
    assert (widened.widened, widened.dropped) == ([StockColumn("amount", "bigint")], [])
    evolved = write(MORE[1:], merge_with_schema_evolution=True, unique_key="day")
    assert (evolved.columns, evolved.evolves) == (["amount", "day", "note"], True)
    assert write(COLUMNS, on_schema_change="fail").problem is None


@pytest.mark.parametrize(
    ("mode", "columns", "properties", "text"),
    [
        ("ignore", LESS, MAPPED, "does not select day, which its table has"),
        ("fail", LESS, {}, "on_schema_change is fail: missing are day."),
        ("fail", MORE, {}, "on_schema_change is fail: new are note."),
        ("fail", WIDER, {}, "on_schema_change is fail: Amount is bigint and was int."),
        (
            "append_new_columns",
            [*WIDER, MORE[3]],
            MAPPED,
            "gives Amount as bigint, and its table has int: Delta adds no columns",
        ),
        ("sync_all_columns", LESS, {}, "does not select day, and Delta drops columns only from"),
        ("sync_all_columns", WIDER, {}, "delta.enableTypeWidening"),
        (
            "sync_all_columns",
            [COLUMNS[0], StockColumn("amount", "string"), COLUMNS[2]],
            MAPPED,
            "gives amount as string, and its table has int: Delta does not change this type",
        ),
    ],
)
def test_a_change_of_columns_that_cannot_be_made_is_refused(
    mode: str, columns: list[StockColumn], properties: dict[str, str], text: str
) -> None:
    table = StockTable(COLUMNS, properties=properties)
    said = refusal(columns, table, on_schema_change=mode)
    assert said.startswith("[HW_COLUMNS_DIFFER] ") and text in said


def test_a_column_of_the_layout_is_not_dropped() -> None:
    table = StockTable(COLUMNS, partitioned_by=["day"], properties=MAPPED)
    assert "by which its table is laid out" in refusal(
        LESS, table, on_schema_change="sync_all_columns"
    )


def test_columns_that_delta_fills_are_left_to_it() -> None:
    detail: dict[str, Any] = {"partitionColumns": [], "clusteringColumns": [], "properties": {}}
    fields = [{"name": "Day", "metadata": {"delta.generationExpression": "cast(at as date)"}}]
    for known in (fields, None):
        table = table_of([_Dbt(one.name, one.type) for one in COLUMNS], detail, known)
        assert write(LESS, table).columns == ["id", "amount"]
    assert not may_fill({"tableFeatures": ["changeDataFeed"]})
    assert may_fill({"tableFeatures": ["identityColumns"]})


class _Dbt:
    """A column as dbt has it."""

    def __init__(self, name: str, dtype: str) -> None:
        self.name, self.dtype = name, dtype


def test_a_merge_names_only_columns_that_there_are() -> None:
    for setting in ("unique_key", "merge_update_columns", "merge_exclude_columns"):
        named: dict[str, Any] = {setting: ["amounts"]}
        said = refusal(COLUMNS, **named)
        assert f"has {setting}: amounts, and no such column, did you mean 'amount'." in said
        assert write_of(node(**named), COLUMNS, None).problem is not None


def test_the_parts_of_a_merge_are_those_of_its_settings() -> None:
    merge = write(
        COLUMNS,
        unique_key="ID",
        target_alias="t",
        merge_exclude_columns=["DAY"],
        delete_condition="s.amount < 0 -- gone",
        not_matched_condition="s.amount > 1 or s.day is null",
        source_alias="s",
    ).merge
    assert merge is not None
    assert (merge.keys, merge.updates) == (["id"], ["id", "amount"])
    assert merge.inserts == ["id", "amount", "day"]
    assert merge.insert_conditions == [
        "s.amount > 1 or s.day is null",
        "not coalesce(s.amount < 0 -- gone\n, false)",
    ]
    of_target = write(COLUMNS, target_alias="t", delete_condition="T.amount < 0").merge
    assert of_target is not None and of_target.insert_conditions == []
    twice = write(COLUMNS, unique_key=["id", "ID", "day"]).merge
    assert twice is not None and twice.keys == ["id", "day"]
    skipped = write(COLUMNS, skip_matched_step=True, skip_not_matched_step=True).merge
    assert skipped is not None and not skipped.updates and not skipped.inserts


def test_an_overwrite_replaces_declared_partitions_or_the_table() -> None:
    table, days = StockTable(COLUMNS), StockTable(COLUMNS, partitioned_by=["day"])
    overwrite: dict[str, Any] = {"incremental_strategy": "insert_overwrite", "unique_key": None}
    assert write(COLUMNS, table, **overwrite).overwrites == "static"
    assert write(COLUMNS, days, partition_by="`Day`", **overwrite).overwrites == "dynamic"
    assert write(COLUMNS, table, partition_by="", **overwrite).overwrites == "static"
    said = refusal(COLUMNS, table, partition_by="day", **overwrite)
    assert said.startswith("[HW_PARTITIONS_DIFFER] ")
    assert "partitioned by day" in refusal(COLUMNS, days, **overwrite)


@pytest.mark.parametrize(
    ("sql", "query"),
    [
        ("select 1;", "select 1"),
        ("select ';' -- ; of\n;\n -- the end", "select ';'"),
        ("select /*+ broadcast(a) */ 1 /* x */", "select /*+ broadcast(a) */ 1"),
    ],
)
def test_a_query_loses_what_a_subquery_cannot_have_at_its_end(sql: str, query: str) -> None:
    assert without_end(sql) == query
