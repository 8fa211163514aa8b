"""Test that a change set in the client's memory has the values and the inspection of a stage."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from dbt.adapters.headwaters import client_rows as carrying
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types

from headwaters.runs import client_rows
from headwaters.runs.bounds import Bound, bounds_of, keys_as_sql, listed, within_bounds
from headwaters.runs.client_rows import ClientRows
from incremental.test_bounds import answer

MICROS = pa.timestamp("us", tz="UTC")


def texts(values: list[bytes | None]) -> ClientRows:
    # as Spark's strings, these need not be UTF-8
    table = pa.table({"k": pa.array(values, pa.binary()).view(pa.string())})
    return ClientRows(table, {"k": "string"})


@given(st.lists(st.one_of(st.none(), st.binary(max_size=130)), min_size=1, max_size=5))
def test_bounds_and_keys_of_texts_are_those_that_spark_gives(values: list[bytes | None]) -> None:
    rows, spark = texts(values), answer(values)
    want = bounds_of(spark, ["k"], has_rows=True)
    got = client_rows.bounds_of(rows, ["k"], has_rows=True)
    # Spark's model in test_bounds.py has no whole value if there is none at all
    assert [(*vars(one).values(),) for one in got] == [
        (*(vars(one) | {"is_whole": bool(one.is_whole)}).values(),) for one in want
    ]
    keys = listed(answer([*dict.fromkeys(values)]))  # a stage of keys has each of them once
    assert keys_as_sql(client_rows.key_rows(rows, ["k"]), got) == keys_as_sql(keys, want)
    assert client_rows.distinct(rows, ["k"]) == len(set(values))


def numbers(kind: str, values: list[Any], arrow: Any) -> ClientRows:
    return ClientRows(pa.table({"k": pa.array(values, arrow)}), {"k": kind})


@pytest.mark.parametrize(
    ("rows", "condition"),
    [
        (
            numbers("int", [3, None, 1], pa.int32()),
            "(`k` between 1 and 3 and `k` in (1, 3) or `k` is null)",
        ),
        (
            numbers("bigint", [2**62], pa.int64()),
            f"`k` between {2**62}L and {2**62}L and `k` in ({2**62}L)",
        ),
        (
            numbers(
                "decimal(38,18)",
                [Decimal("0.000000000000000001"), Decimal(-5)],
                pa.decimal128(38, 18),
            ),
            "`k` between cast('-5.000000000000000000' as decimal(38,18)) and "
            "cast('0.000000000000000001' as decimal(38,18))",
        ),
        (
            numbers("date", [datetime.date(1969, 12, 31)], pa.date32()),
            "`k` between cast('1969-12-31' as date) and cast('1969-12-31' as date)",
        ),
        # Parquet's filters misread days before 1583, and Python has none after 9999
        (
            numbers("date", [-719_163, 2_932_897], pa.int32()),
            "true",
        ),
        (
            numbers("timestamp", [-1, 253_402_300_799_999_999], MICROS),
            "`k` between cast('1969-12-31 23:59:59.999999Z' as timestamp) and "
            "cast('9999-12-31 23:59:59.999999Z' as timestamp)",
        ),
        (
            numbers("timestamp_ntz", [0], pa.timestamp("us")),
            "`k` between cast('1970-01-01 00:00:00.000000' as timestamp_ntz) and "
            "cast('1970-01-01 00:00:00.000000' as timestamp_ntz)",
        ),
        (numbers("double", [float("nan")], pa.float64()), "true"),
        (numbers("int", [None], pa.int32()), "(`k` is null)"),
    ],
    ids=lambda value: value.types["k"] if isinstance(value, ClientRows) else "",
)
def test_bounds_of_other_types_are_exact_or_wider(rows: ClientRows, condition: str) -> None:
    assert within_bounds(client_rows.bounds_of(rows, ["k"], 1000)) == condition


def test_only_few_keys_are_listed() -> None:
    rows = numbers("int", [1, 2, 3], pa.int32())
    want = Bound("K", "int", False, False, "1", "3", True, None)
    assert client_rows.bounds_of(rows, ["K"], 2) == [want]


CARRIED = {
    "boolean": "true",
    "tinyint": "-128y",
    "smallint": "-32768s",
    "int": "-2147483648",
    "bigint": "-9223372036854775808",
    "float": "float('-0.0')",
    "double": "double('NaN')",
    "float_nan": "float('NaN')",
    "double_zero": "-0.0d",
    "infinite": "double('-Infinity')",
    "decimal": "cast('99999999999999999999999999999999999999' as decimal(38,0))",
    "fraction": "cast('-0.00000000000000000000000000000000000001' as decimal(38,38))",
    "text": "'\U0001f600 \\u0000 ''\\n'",
    "empty": "''",
    "bytes_as_text": "cast(x'ff41' as string)",
    "binary": "x'00ff'",
    "first_day": "date'0001-01-01'",
    "gap": "date'1582-10-10'",
    "after_9999": "date_from_unix_date(3000000)",
    "before_0001": "date_from_unix_date(-800000)",
    "moment": "timestamp'1883-11-18 12:03:57.123456 America/New_York'",
    "first_moment": "timestamp_micros(-62135596800000001)",
    "last_moment": "timestamp_micros(253402300800000000)",
    "local": "timestamp_ntz'0001-01-01 00:00:00.000001'",
    "list": "array(1.5d, -0.0d, null)",
    "lists": "array(array('a', null), null, array())",
    "row": "named_struct('a-b', 1, 'c', named_struct('d', timestamp'1899-12-31 23:59:59Z'))",
    "rows": "array(named_struct('n', cast(1 as decimal(38,10)), 's', cast(x'fe' as string)), null)",
}
NOT_CARRIED = {
    "map": "map('a', 1)",
    "variant": "parse_json('{}')",
    "months": "interval '1' month",
    "seconds": "interval '1' second",
    "collated": "'a' collate utf8_lcase",
    "nothing": "null",
    "inside": "named_struct('a', array(map(1, 2)))",
}


def test_arrow_carries_every_value_that_a_stage_carries(spark: Any) -> None:
    values = ", ".join(f"{sql} as `{name}`" for name, sql in CARRIED.items())
    nulls = ", ".join(f"if(id = 0, `{name}`, null) as `{name}`" for name in CARRIED)
    query = f"select {nulls} from (select {values}), range(2)"
    spark.sql("create schema if not exists carried")
    spark.sql(f"create table carried.stage using parquet as {query}")
    rows = carrying.collect(spark.sql(query), [])
    assert rows is not None
    carrying.show(spark, "carried__rows", rows)
    shown = ", ".join(
        f"typeof(`{name}`), hex(cast(cast(`{name}` as string) as binary))" for name in CARRIED
    )
    got, want = (
        sorted(map(str, spark.sql(f"select {shown} from {table}").collect()))
        for table in ("global_temp.carried__rows", "carried.stage")
    )
    assert got == want
    # and what Delta gets from each
    for table, name in (("global_temp.carried__rows", "a"), ("carried.stage", "b")):
        spark.sql(f"create table carried.{name} using delta as select * from {table}")
    got, want = (
        sorted(map(str, spark.sql(f"select {shown} from carried.{name}").collect()))
        for name in ("a", "b")
    )
    assert got == want
    spark.catalog.dropGlobalTempView("carried__rows")
    assert spark.sql("show views in global_temp like 'carried__rows'").collect() == []
    spark.sql("drop schema carried cascade")


def test_what_arrow_does_not_carry_takes_a_stage(spark: Any) -> None:
    for name, sql in NOT_CARRIED.items():
        assert carrying.collect(spark.sql(f"select {sql} as `{name}`"), []) is None, name
    # keys that are equal in Spark and not in Python
    for key in ("0.0d", "float(0)", "array(1)", "named_struct('a', 1)"):
        assert carrying.collect(spark.sql(f"select {key} as id, 1 as n"), ["id"]) is None, key
    rows = carrying.collect(spark.sql("select 1 as id, array(0.5d) as n"), ["id"])
    assert rows is not None
    assert rows.types == {"id": "int", "n": "array<double>"}


def test_many_rows_and_long_values_take_a_stage(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrying, "MOST_ROWS", 5)
    few = carrying.collect(spark.sql("select id, 'x' as s from range(5)"), ["id"])
    assert few is not None
    assert few.rows == 5
    assert carrying.collect(spark.sql("select id, 'x' as s from range(6)"), ["id"]) is None
    for wide in (
        "repeat('x', 2001)",
        "named_struct('a', repeat('x', 2001))",
        "array(repeat('x', 2000))",
    ):
        assert carrying.collect(spark.sql(f"select 1 as id, {wide} as s"), ["id"]) is None, wide
    monkeypatch.setattr(carrying, "MOST_BYTES", 10)
    assert carrying.collect(spark.sql("select id from range(5)"), ["id"]) is None


def test_views_of_killed_runs_are_dropped_after_a_day() -> None:
    views = ["gold__a__stage_202611270959_0123abcd", "gold__a__stage_202611271000_0123abcd", "mine"]
    now = datetime.datetime(2026, 11, 28, 10, 0, 30, tzinfo=datetime.UTC)
    assert client_rows.orphaned(views, now) == views[:1]


@pytest.mark.parametrize(
    ("kind", "want"),
    [
        (types.StringType(), ["octet_length(`c`) > 2000"]),
        (types.IntegerType(), []),
        (types.ArrayType(types.IntegerType()), ["octet_length(to_json(`c`)) > 2000"]),
        (
            types.StructType([types.StructField("a`b", types.BinaryType())]),
            ["octet_length(`c`.`a``b`) > 2000"],
        ),
    ],
    ids=["text", "number", "array", "struct"],
)
def test_long_values_never_reach_the_client(kind: types.DataType, want: list[str]) -> None:
    assert client_rows.is_too_long("`c`", kind) == want
