"""Test that every record of a stream reaches bronze or quarantine exactly once."""

from __future__ import annotations

import copy
import csv
import io
import json
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ingestion import (
    ROOT,
    Ingester,
    Node,
    audit,
    bare_project,
    lose_one_and_repeat_another,
    node,
    wait_for,
)
from pyspark.sql import SparkSession

from headwaters.cli import _spread
from headwaters.platform.checkpoint import Checkpoint
from headwaters.platform.errors import WorkError
from headwaters.platform.project import Project
from headwaters.streams.contract import Contract, parse_contract
from headwaters.streams.formats.base import PLACE
from headwaters.streams.formats.texts import wild_numbers
from headwaters.streams.ingestion import guards, run, writer
from headwaters.streams.ingestion import reconcile as audits
from headwaters.streams.ingestion.split import among, with_place
from headwaters.streams.ingestion.status import status
from headwaters.streams.ingestion.stopping import Stopping
from headwaters.streams.ingestion.writer import Writer
from headwaters.streams.sources.base import Balance, Moment
from headwaters.streams.stream import Stream
from headwaters.tables.delta_log import commit_of
from headwaters.tables.delta_tables import TableSnapshot

ORDERS = node(
    {"id": "string", "amount": "decimal(6, 2)", "at": "timestamp", "day": "date"},
    rules={"id": [{"type": "not_null"}], "amount": [{"type": "check", "expression": "amount > 0"}]},
    expressions={"day": "to_date(at)"},
)


def test_each_json_record_is_in_bronze_or_in_quarantine_with_its_reason(
    ingester: Ingester,
) -> None:
    ingester.land(
        "a.jsonl",
        '{"id": "good", "amount": 12.5, "at": "2026-01-02T03:04:05.678Z"}',
        '{"id": "as text", "amount": "7.25"}',
        '{"id": "Td36cdc2e-0000001"}',
        '{"id": "nested {brace}", "extra": {"deep": [1, {"x": 2}]}, "flag": true}',
        '{"id": "null extra", "amount": null, "n": null}',
        "",
        '{"id": "words", "amount": "FIVE HUNDRED"}',
        '{"id": "too large", "amount": 123456.78}',
        '{"id": "no such day", "at": "2026-02-30T00:00:00Z"}',
        '{"id": "check", "amount": -1}',
        '{"amount": 1}',
        '{"id": "cut',
        '["not", "an object"]',
        '{"id": "two"}{"id": "records"}',
        '{"id": "two"}, {"id": "with comma"}',
        '{"id": "junk"} after',
        '{"id": "bracket"}]',
        b'{"id": "\xff\xfe", "amount": "x"}',
    )
    lines = ingester.run(ORDERS)
    assert ingester.rows("orders", "id, amount, at, day, _rescued, _source_file, _batch_id") == [
        ["Td36cdc2e-0000001", None, None, None, None, "landing/orders/a.jsonl", 0],
        ["as text", "7.25", None, None, None, "landing/orders/a.jsonl", 0],
        [
            "good",
            "12.50",
            "2026-01-02 03:04:05.678000",
            "2026-01-02",
            None,
            "landing/orders/a.jsonl",
            0,
        ],
        [
            "nested {brace}",
            None,
            None,
            None,
            '{"extra":"{\\"deep\\":[1,{\\"x\\":2}]}","flag":"true"}',
            "landing/orders/a.jsonl",
            0,
        ],
        ["null extra", None, None, None, '{"n":null}', "landing/orders/a.jsonl", 0],
    ]
    more = "more than one JSON object in a record"
    found = {record: what for *what, record in ingester.quarantine() if "\\xff" not in record}
    assert found.pop('{"id": "two"}, {"id": "with comma"}') == ["malformed", None, more]
    assert found == {
        '["not", "an object"]': [
            "malformed",
            None,
            "is a JSON array, and not one object: send one object a record",
        ],
        '{"amount": 1}': ["not_null", "id", "is null"],
        '{"id": "check", "amount": -1}': ["check", "amount", "breaks amount > 0"],
        '{"id": "cut': ["malformed", None, "is not a JSON object"],
        '{"id": "junk"} after': ["malformed", None, more],
        '{"id": "bracket"}]': ["malformed", None, more],
        '{"id": "no such day", "at": "2026-02-30T00:00:00Z"}': [
            "type",
            "at",
            "'2026-02-30T00:00:00Z' is not a timestamp",
        ],
        '{"id": "too large", "amount": 123456.78}': [
            "type",
            "amount",
            "'123456.78' is not a decimal(6, 2)",
        ],
        '{"id": "two"}{"id": "records"}': ["malformed", None, more],
        '{"id": "words", "amount": "FIVE HUNDRED"}': [
            "type",
            "amount",
            "'FIVE HUNDRED' is not a decimal(6, 2)",
        ],
    }
    assert len(lines) == 1
    assert lines[0].startswith("orders  5 rows, 12 quarantined (malformed 7, type amount 2, ")


def test_values_inside_values_of_json_are_kept_or_refused(ingester: Ingester) -> None:
    columns = {"id": "int", "s": "string", "p": "struct<a:int,b:array<string>>", "f": "double"}
    stream = node(columns, {"format": "json"})
    kept: dict[str, list[str | None]] = {
        '{"id": 1, "s": {"n": 1.50, "m": 20, "t": "1.10"}, "f": 1.10}': [
            '{"n":1.5,"m":20,"t":"1.10"}'
        ],
        '{"id": 2, "s": "[1.10]"}': ["[1.10]"],
        '{"id": 3, "s": [12345678901234567890, 1e3]}': ["[12345678901234567890,1000.0]"],
        '{"id": 4, "extra": 123456789.50, "p": {"a": 1, "b": ["1.10", 1.5]}}': [None],
    }
    quarantined: dict[str, list[str | None]] = {
        '{"id": 11, "s": {"n": 12345678901234567890.123456789}}': ["type", "s"],
        '{"id": 13, "s": {"n": 1e400}}': ["type", "s"],
        '{"id": 14, "p": {"a": 1, "b": [0.1000000000000000055511151]}}': ["type", "p"],
        '{"id": 15, "extra": 1234567890.12345678901}': ["type", "extra"],
        '{"id": 16, "extra": {"a": 1e-400}}': ["type", "extra"],
        '{"id": 17, "id": 18}': ["malformed", "id"],
        '{"id": 19, "extra": 1, "extra": 2}': ["malformed", "extra"],
        '{"id": 20, "p": {"a": "1"}}': ["type", None],
        '{"id": 22, "p": {"a": 1, "b": ["1.10", 1.50]}}': ["type", "p"],
        '{"id": 21, "p": []}': ["type", "p"],
    }
    ingester.land("a.jsonl", *kept, *quarantined)
    ingester.run(stream)
    assert ingester.rows("orders", "id, s") == [
        [number, *values] for number, values in enumerate(kept.values(), 1)
    ]
    found = {record: [reason, field] for reason, field, _, record in ingester.quarantine()}
    assert found == quarantined


@pytest.mark.slow
def test_csv_rows_keep_their_text_and_a_misfit_is_named(ingester: Ingester) -> None:
    columns = {"id": "int", "value": "string", "price": "decimal(6, 2)", "at": "timestamp"}
    how = {"format": "csv", "batch": {"max_bytes": "512m"}}
    stream = node(columns, how, rules={"price": [{"type": "check", "expression": "price <> id"}]})
    ingester.land(
        "a b.csv",
        "id,value,price,at",
        '1,"O\'Brien, Ann",1.50,',
        '2,,"1234.50",',
        '3,thousands,"1,234.50",',
        "x,no number,1,",
        "4,too few",
        "5,too,2,many,fields",
        "6,none,free,",
        checked := '7," a ""check"", ",7.00,2026-01-02T03:04:05.678901Z',
        "8,wild,1e100000000,",
        "9,tiny,1e-100000000,",
    )
    ingester.run(stream)
    assert ingester.rows("orders", "id, value, price, _source_file") == [
        [1, "O'Brien, Ann", "1.50", "landing/orders/a b.csv"],
        [2, None, "1234.50", "landing/orders/a b.csv"],
    ]
    assert ingester.quarantine() == [
        ["type", "price", "'1,234.50' is not a decimal(6, 2)", '3,thousands,"1,234.50",'],
        ["malformed", None, "has not the 4 declared fields", "4,too few"],
        ["malformed", None, "has not the 4 declared fields", "5,too,2,many,fields"],
        ["type", "price", "'free' is not a decimal(6, 2)", "6,none,free,"],
        ["check", "price", "breaks price <> id", checked],
        ["type", "price", "'1e100000000' is not a decimal(6, 2)", "8,wild,1e100000000,"],
        ["type", "price", "'1e-100000000' is not a decimal(6, 2)", "9,tiny,1e-100000000,"],
        ["type", "id", "'x' is not an int", "x,no number,1,"],
    ]
    # an older release kept no text of a row that only broke a rule
    quarantine = f"delta.`{ingester.lake / 'warehouse' / 'bronze.db' / 'orders_quarantine'}`"
    lineage = "contract, _source_file, _ingested_at, _batch_id"
    ingester.ask(
        sql=f"insert into {quarantine} select reason, field, message, null as record, {lineage} "
        f"from {quarantine} where reason = 'check'"
    )
    request = {"lake": str(ingester.lake), "replay": [node(columns, how)], "dry_run": False}
    stay = {"malformed": 3, "type price": 4, "type id": 1}
    assert ingester.ask(**request) == {"orders": [1, stay]}
    assert ingester.rows("orders", "id, value, price, at")[2:] == [
        [7, ' a "check", ', "7.00", "2026-01-02 03:04:05.678901"]
    ]
    assert len(ingester.quarantine()) == 8


def csv_files(seed: int) -> Iterator[tuple[str, list[list[str | None]]]]:
    """Return texts as Python writes them in several dialects, and the rows that they hold.

    No field has a carriage return: Spark's parser turns some into line feeds. An empty field
    without quotes is a missing value, as in PostgreSQL.
    """
    chance = random.Random(seed)
    signs = ["a", "b", '"', '""', ",", ";", "\n", "\\", " ", "\t", "'", "#", "é"]
    signs += ["\u0085", "\u2028", "\x0b", "\x1c", "\ufeff", "😀"]
    for number in range(60):
        quoting: Literal[0, 1] = csv.QUOTE_ALL if number % 2 else csv.QUOTE_MINIMAL
        ending = chance.choice(["\n", "\r\n"])
        rows = [
            ["".join(chance.choices(signs, k=chance.choice([0, 1, 2, 5]))) for _ in range(3)]
            for _ in range(8)
        ]
        text = io.StringIO()
        csv.writer(text, quoting=quoting, lineterminator=ending).writerows([["a", "b", "c"], *rows])
        assert list(csv.reader(io.StringIO(text.getvalue(), newline="")))[1:] == rows
        none = None if quoting == csv.QUOTE_MINIMAL else ""
        yield text.getvalue(), [[field or none for field in row] for row in rows]


def test_csv_is_read_as_pythons_csv_reads_it(ingester: Ingester) -> None:
    files = list(csv_files(seed=1))
    for number, (text, _) in enumerate(files):
        mark = b"\xef\xbb\xbf" if number % 5 == 0 else b""  # Excel's "CSV UTF-8"
        ingester.land(f"{number:02}.csv").write_bytes(mark + text.encode())
    columns, how = {"a": "string", "b": "string", "c": "string"}, {"format": "csv"}
    ingester.run(node(columns, how))
    written = (row for _, rows in files for row in rows)
    expected = sorted(written, key=repr)
    assert ingester.quarantine() == []
    rows = ingester.rows("orders", "a, b, c")
    found = sorted(rows, key=repr)
    assert [row for row in found if row not in expected] == []
    assert found == expected


NUMBERS = ["1,5", "1,234.50", "\uff11", "0x1F", "1d", "12:00", ""]
MOMENTS = ["12:00", "T12:00", "2026", "2026-02", "2026-02-03junk", "10000-01-01"]
DAYS = ["1", "2026", "2026-02", "2026-02-03junk", "2026-02-03T10:00:00Z", "2026-02-30"]
# values that Spark would read as others, and the forms that each format may write
REPAIRED: dict[str, tuple[Sequence[object], Sequence[object], object]] = {
    "decimal(10, 2)": ([*NUMBERS, 123456789.5], ["1.0", 1, 1.004, "+1", "1e0"], "1.00"),
    "double": (NUMBERS, [1, 1.0], 1),
    "tinyint": (["1,5", 200, 1.5], [1], 1),
    "date": ([*DAYS, 1738540800], ["2026-01-02", "2026-1-2", "2026-01-02T00:00:00Z"], "2026-01-02"),
    "timestamp": ([*MOMENTS, 1738540800000], ["2026-01-02"], "2026-01-02 00:00:00"),
    "timestamp_ntz": ([*MOMENTS, "2026-02-03T04:05:06Z"], ["2026-01-02"], "2026-01-02 00:00:00"),
    "boolean": (["maybe", 2, "tru"], [True], True),
}


@pytest.mark.parametrize("form", ["json", pytest.param("csv", marks=pytest.mark.slow)])
def test_a_text_that_spark_would_repair_goes_to_quarantine(ingester: Ingester, form: str) -> None:
    fields = {f"v{number}": kind for number, kind in enumerate(REPAIRED)}

    def record(field: str, value: object) -> str:
        if form == "json":
            return json.dumps({field: value})
        return ",".join(f'"{value}"' if name == field else "" for name in fields)

    bad: list[tuple[str, object]] = []
    good: list[tuple[str, object, object]] = []
    for field, (wrong, right, shown) in zip(fields, REPAIRED.values(), strict=True):
        # an empty field of CSV is not a text
        bad += [(field, value) for value in wrong if form == "json" or value != ""]
        good += [(field, value, shown) for value in right]
    lines = [record(field, value) for field, value in bad]
    lines += [record(field, value) for field, value, _ in good]
    ingester.land(f"a.{form}", *([",".join(fields)] if form == "csv" else []), *lines)
    infinite = node({"n": "int", "v": "double", "t": "string"}, {"format": form}, "infinite")
    if form == "json":  # a text is not a number: Spark would write its digits differently
        lines = ['{"v": 1e400}', '{"t": 1.10}', '{"t": 123456789.5}', '{"v": "-INF", "t": 52.5}']
    else:
        lines = ["n,v,t", "1,1e400,", "1,1e400,", "1,-1e400,", "1,-INF,52.5"]
    ingester.land(f"a.{form}", *lines, stream="infinite")
    ingester.run(node(fields, {"format": form}), infinite)
    expected = [[shown if name == field else None for name in fields] for field, _, shown in good]
    assert sorted(ingester.rows("orders", ", ".join(fields)), key=str) == sorted(expected, key=str)
    refused = ingester.rows("orders_quarantine", "reason, field")
    assert refused == sorted(["type", field] for field, _ in bad)
    assert ingester.rows("infinite", "v, t") == [[float("-inf"), "52.5"]]
    assert len(ingester.quarantine("infinite")) == 3


@pytest.mark.slow
def test_a_number_that_overflows_inside_a_value_is_no_infinity(ingester: Ingester) -> None:
    columns = {"id": "int", "f": "float", "a": "array<double>", "m": "map<string, array<float>>"}
    stream = node({**columns, "s": "struct<x: double, n: int>"})
    good = [
        '{"id": 1, "f": "+INF", "a": [1.5, "Infinity", null], "m": {"k": ["-INF"]}}',
        '{"id": 2, "f": 1e38, "a": [-1e308], "m": {"k": [1e38], "l": null}, "s": {"x": 1e308}}',
        '{"id": 3, "a": [], "m": {}, "s": {"n": 1}}',
    ]
    bad = {
        '{"id": 11, "a": [1e400]}': ["a", """'["Infinity"]' is not an array<double>"""],
        '{"id": 12, "a": ["Infinity", -1e400]}': ["a"],
        '{"id": 13, "m": {"k": [1, 1e39]}}': ["m"],
        '{"id": 14, "s": {"x": 1e400, "n": 1}}': ["s"],
        '{"id": 15, "f": 1e39}': ["f"],
    }
    ingester.land("a.jsonl", *good, *bad)
    infinity = float("inf")
    ingester.run(stream)
    assert ingester.rows("orders", "id, f, a, m['k'] as k, s.x as x", "id") == [
        [1, infinity, [1.5, infinity, None], [-infinity], None],
        [2, pytest.approx(1e38), [-1e308], [pytest.approx(1e38)], 1e308],
        [3, None, [], None, None],
    ]
    found = {record: what for *what, record in ingester.quarantine()}
    assert {record: what[1:][: len(bad[record])] for record, what in found.items()} == bad
    assert {reason for reason, *_ in found.values()} == {"type"}


@pytest.mark.slow
def test_a_value_inside_a_typed_column_fits_or_its_row_goes_to_quarantine(
    ingester: Ingester,
) -> None:
    infinity = float("inf")
    given: dict[str, tuple[Any, str, Any, list[Any]]] = {
        "a": (pa.list_(pa.string()), "array<double>", ["1.5", "INF", None], [["1,5"], ["1e400"]]),
        "f": (pa.list_(pa.float64()), "array<float>", [1.5, infinity], [[infinity, 1e300]]),
        "g": (pa.float64(), "float", -infinity, [1e300]),
        "m": (pa.map_(pa.string(), pa.int64()), "map<string, int>", [("k", 7)], [[("k", 2**40)]]),
        "s": (
            pa.struct([("T", pa.int64()), ("d", pa.string()), ("more", pa.int64())]),
            "struct<d: date, t: tinyint, n: int>",
            {"d": "2026-01-02", "T": 5, "more": 1},
            [{"d": "2026"}, {"T": 200}],
        ),
    }
    rows: list[dict[str, Any]] = [{n: one[2] for n, one in given.items()}, {}]
    rows += [{name: value} for name, (_, _, _, bad) in given.items() for value in bad]
    columns = {n: pa.array([row.get(n) for row in rows], one[0]) for n, one in given.items()}
    folder = ingester.lake / "landing" / "orders"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": range(len(rows)), **columns}), folder / "a.parquet")
    types = {name: one[1] for name, one in given.items()}
    ingester.run(node({"id": "int", **types}, {"format": "parquet"}))
    struct = {"d": "2026-01-02", "t": 5, "n": None}
    assert ingester.rows("orders", "id, a, f, g, m, s", "id") == [
        [0, [1.5, infinity, None], [1.5, infinity], -infinity, {"k": 7}, struct],
        [1, None, None, None, None, None],
    ]
    found = ingester.rows("orders_quarantine", "reason, field")
    assert found == [["type", name] for name in ("a", "a", "f", "g", "m", "s", "s")]


@pytest.mark.slow
def test_bytes_that_are_no_text_go_to_quarantine_as_they_came(ingester: Ingester) -> None:
    bad = [b'{"id": "caf\xe9"}', b'{"id": "a", "more": "\xff"}', rb'{"id": "\ud800"}']
    good = [rb'{"id": "\ud83d\ude00"}', rb'{"id": "\\ud800"}', '{"id": "café\ufffd"}'.encode()]
    ingester.land("a.jsonl", *bad, *good)
    stream = node({"id": "string"})
    ingester.land("a.csv", b"id", b"caf\xe9", "café".encode(), stream="csv")
    files = node({"id": "string"}, {"format": "csv"}, "csv")
    kinds = {"b": "string", "l": "array<struct<t: string>>", "m": "map<string, string>"}
    columns = node({"id": "string", **kinds}, {"format": "parquet"}, "columns")
    of_bytes = {"b": pa.binary(), "l": pa.list_(pa.struct([("t", pa.binary())]))}
    rows: list[dict[str, Any]] = [
        {"id": "x", "b": b"caf\xe9"},
        {"id": "y", "b": b"ok", "l": [{"t": b"ok"}, None, {}], "m": {"k": "v"}},
        {"id": "z", "l": [{"t": b"ok"}, {"t": b"\xe9"}]},
        {"id": "zz", "m": {"k": "v", b"\xff": "v"}},
    ]
    keys = [key for row in rows for key in row.get("m", {})]
    as_text = pa.array([k if isinstance(k, bytes) else k.encode() for k in keys]).view(pa.string())
    offsets = pa.array([None, 0, None, 1, 3], pa.int32())
    more = pa.array(["v"] * len(keys))
    table = {name: pa.array([row.get(name) for row in rows], of) for name, of in of_bytes.items()}
    table |= {
        "id": [row["id"] for row in rows],
        "m": pa.MapArray.from_arrays(offsets, as_text, more),
    }
    folder = ingester.lake / "landing" / "columns"
    folder.mkdir(parents=True)
    pq.write_table(pa.table(table), folder / "a.parquet")
    ingester.run(stream, files, columns)
    assert ingester.rows("orders", "id") == [["\\ud800"], ["café\ufffd"], ["😀"]]
    assert ingester.rows("csv", "id") == [["café"]]
    whole = ["y", "ok", [{"t": "ok"}, None, {"t": None}], {"k": "v"}]
    assert ingester.rows("columns", "id, b, l, m", "id") == [whole]
    kept = ingester.rows("orders_quarantine", "reason, message, hex(record)", "record")
    no_text = "has bytes that are not UTF-8"
    assert kept == [
        ["malformed", "has half of a surrogate pair, which is no character", bad[2].hex().upper()],
        ["malformed", no_text, bad[1].hex().upper()],
        ["malformed", no_text, bad[0].hex().upper()],
    ]
    assert [row[:3] for row in ingester.quarantine("csv")] == [
        ["malformed", None, f"{no_text}: U+FFFD stands for them, the file has them"]
    ]
    assert sorted(row[:3] for row in ingester.quarantine("columns")) == [
        ["type", "b", f"{no_text}: 636166E9"],
        ["type", "l", f"{no_text}: E9"],
        ["type", "m", f"{no_text}: FF"],
    ]
    request = {"lake": str(ingester.lake), "replay": [stream, files], "dry_run": False}
    assert ingester.ask(**request) == {
        "orders": [0, {"malformed": 3}],
        "csv": [0, {"malformed": 1}],
    }


def test_a_wild_number_is_looked_for_only_where_a_decimal_is_declared() -> None:
    def wild(text: str, **columns: str) -> bool:
        patterns = wild_numbers(columns.items())
        return any(re.search(pattern, text) for pattern in patterns)

    amount = {"id": "string", "amount": "decimal(8, 2)"}
    assert wild('{"amount": 1e100000000}', **amount)
    assert wild('{"amount" : "-1,0.5E+10000"}', **amount)
    assert wild("{'amount':1e-00010000}", **amount)
    assert not wild('{"amount": 1e9999}', **amount)
    assert not wild('{"amount": 2e-00000}', **amount)
    assert not wild('{"net_amount": 1e100000000, "amount": 1}', **amount)
    assert not wild('{"id": "2e-00000", "other": 1e100000000, "hash": "1e33333"}', **amount)
    assert not wild('{"amount": 1e100000000}', amount="double")
    nested = {"lines": "array<struct<item: string, `unit price`: decimal(8, 2), tax: decimal>>"}
    assert wild('{"lines": [{"unit price": 1e100000000}]}', **nested)
    assert wild('{"lines": [{"tax": 1e100000000}]}', **nested)
    assert not wild('{"lines": [{"item": "1e100000000"}], "x": [1e100000000]}', **nested)
    for elements in ("array<decimal(8, 2)>", "map<string, array<int>>, decimal>"):
        assert wild('{"a": [1, 1e100000000]}', a=elements)
        assert wild('{"a": {"b": "1,0e100000000"}}', a=elements)


def test_bad_records_are_found_again_among_few(spark: Any) -> None:
    rows = spark.sql("select cast(id as string) as value, map('n', id) as counts from range(5000)")
    raw = with_place(rows)
    bad = raw.where("value in ('7', '4711')")
    places = bad.selectExpr(f"bitmap_construct_agg({PLACE})").collect()[0][0]
    again = [row["value"] for row in raw.where(among(bytes(places))).collect()]
    assert {"7", "4711"} <= set(again) and len(again) < 10
    assert raw.where(among(bytes(4096))).count() == 0


def test_a_csv_file_with_other_columns_stops_the_stream_before_it_is_read(
    ingester: Ingester,
) -> None:
    stream = node({"id": "int", "name": "string"}, {"format": "csv"})
    ingester.land("a.csv", "name,id", "Ann,1")
    (line,) = ingester.run(stream, code=1)
    assert "a.csv" in line
    assert "failed" in line
    assert ingester.rows("orders", "id") == []


def test_parquet_columns_are_cast_and_unknown_ones_rescued(ingester: Ingester) -> None:
    stream = node({"id": "int", "day": "date", "note": "string"}, {"format": "parquet"})
    folder = ingester.lake / "landing" / "orders"
    folder.mkdir(parents=True)
    old = pa.table({"day": ["2026-01-02", "soon"], "id": [1, 2]})
    new = pa.table({"id": [3, 2**40], "day": ["2026-01-03", None], "extra": ["e", None]})
    pq.write_table(old, folder / "a.parquet")
    pq.write_table(new, folder / "b.parquet")
    other = pa.table(
        {"id": ["4", "x", " "], "day": [date(2026, 1, 4), *[None] * 2], "extra": [1.5, *[None] * 2]}
    )
    pq.write_table(other, folder / "c.parquet")
    counts = pa.array([[("n", 1)]], pa.map_(pa.string(), pa.int64()))
    names = ["_Source_file", "_place", "id", "counts"]  # two names that ingestion uses itself
    pq.write_table(pa.table([["s"], ["p"], [5], counts], names), folder / "d.parquet")
    ingester.run(stream)
    own = '{"_Source_file_":"s","_place_":"p","counts":{"n":1}}'
    assert ingester.rows("orders", "id, day, note, _rescued, _source_file") == [
        [1, "2026-01-02", None, None, "landing/orders/a.parquet"],
        [3, "2026-01-03", None, '{"extra":"e"}', "landing/orders/b.parquet"],
        [4, "2026-01-04", None, '{"extra":1.5}', "landing/orders/c.parquet"],
        [5, None, None, own, "landing/orders/d.parquet"],
    ]
    assert ingester.quarantine() == [
        ["type", "id", "has no value, but needs an int", '{"id":" "}'],
        ["type", "id", "'x' is not an int", '{"id":"x"}'],
        ["type", "id", "'1099511627776' is not an int", '{"id":1099511627776}'],
        ["type", "day", "'soon' is not a date", '{"id":2,"day":"soon"}'],
    ]


@pytest.mark.slow
def test_where_a_parquet_row_ends_does_not_depend_on_its_batch(ingester: Ingester) -> None:
    """Vary the case of columns; ingestion ignores it, and matches fields of a struct by name."""
    rules = {"id": [{"type": "not_null"}], "v": [{"type": "check", "expression": "v > 0"}]}
    declared = {"id": "string", "v": "int", "s": "struct<a: int, b: int>"}
    pairs = pa.array([{"B": 2, "a": 1}])
    tables = {
        "a": pa.table({"id": ["a"], "v": [1], "extra": [1]}),
        "b": pa.table({"ID": ["b"], "V": [1], "Extra": [2], "S": pairs}),
        "c": pa.table({"ID": ["c"], "V": ["1"], "EXTRA": [3]}),
        "d": pa.table({"ID": ["d"], "V": [-1], "S": pairs, "New": [5]}),
    }
    expected = [
        ["a", 1, None, '{"extra":1}'],
        ["b", 1, {"a": 1, "b": 2}, '{"Extra":2}'],
        ["c", 1, None, '{"EXTRA":3}'],
    ]
    batches = [("one", ["abcd"]), ("each", ["a", "b", "c", "d"]), ("two", ["ab", "cd"])]
    for name, groups in batches:
        stream = node(declared, {"format": "parquet"}, name, rules)
        for group in groups:
            folder = ingester.lake / "landing" / name
            folder.mkdir(parents=True, exist_ok=True)
            for file in group:
                pq.write_table(tables[file], folder / f"{file}.parquet")
            ingester.run(stream)
        assert ingester.rows(name, "id, v, s, _rescued") == expected
        assert [row[:2] for row in ingester.quarantine(name)] == [["check", "v"]]
        mended = node({**declared, "new": "int"}, {"format": "parquet"}, name)
        request = {"lake": str(ingester.lake), "replay": [mended], "dry_run": False}
        assert ingester.ask(**request) == {name: [1, {}]}
        assert ingester.rows(name, "id, v, s, _rescued, new")[3:] == [
            ["d", -1, {"a": 1, "b": 2}, None, 5]
        ]


SIMPLE = node({"id": "string", "n": "int"})


def one(name: str, n: object = 1) -> str:
    return json.dumps({"id": name, "n": n})


@pytest.mark.slow
def test_thousands_of_files_in_one_batch_land_once(ingester: Ingester) -> None:
    """Land more files than may be open at once, each in a separate partition of the read."""
    many = node({"id": "string", "n": "int"}, {"batch": {"max_files": 10_000}})
    for number in range(8000):
        ingester.land(f"{number}.jsonl", one(f"f{number}", number if number % 1000 else "x"))
    ingester.run(many)
    assert ingester.rows("orders", "count(*), count(distinct id), max(_batch_id)", "1") == [
        [7992, 7992, 0]
    ]
    assert [row[0] for row in ingester.quarantine()] == ["type"] * 8
    assert ingester.run(many) == ["orders  nothing new"]
    assert audit(ingester, many) == ["orders: 8,000 read = 7,992 bronze + 8 quarantined: right"]


def test_a_run_takes_what_is_new_and_says_so_when_nothing_is(ingester: Ingester) -> None:
    ingester.land("a.jsonl", one("a"))
    ingester.land(".b.jsonl", one("still being written"))
    assert ingester.run(SIMPLE) == ["orders  1 rows"]
    assert ingester.run(SIMPLE) == ["orders  nothing new"]
    late = ingester.land("c.jsonl", one("c"))
    os.utime(late, (1, 1))  # far older than the files read before
    assert ingester.run(SIMPLE) == ["orders  1 rows"]
    assert ingester.run(SIMPLE) == ["orders  nothing new"]
    assert ingester.rows("orders", "id") == [["a"], ["c"]]


@pytest.mark.slow
@pytest.mark.parametrize("point", ["orders", "orders_quarantine"])
def test_a_batch_that_bronze_has_is_finished_with_the_contract_that_it_began_with(
    ingester: Ingester, point: str
) -> None:
    strict = node({"id": "string", "n": "int"}, rules={"n": [{"type": "not_null"}]})
    ingester.land("a.jsonl", one("good"), one("bad once", None))
    (line,) = ingester.run(strict, code=1, die_before=point)
    assert "failed" in line
    ingester.land("b.jsonl", one("good later", None))
    ingester.run(SIMPLE)
    if point == "orders":  # the batch wrote nothing
        both = [["bad once", None], ["good", 1], ["good later", None]]
        assert ingester.rows("orders", "id, n") == both
        assert ingester.quarantine() == []
    else:
        assert ingester.rows("orders", "id, n") == [["good", 1], ["good later", None]]
        assert ingester.quarantine() == [["not_null", "n", "is null", one("bad once", None)]]
    assert ingester.run(SIMPLE) == ["orders  nothing new"]


@pytest.mark.slow
def test_line_separators_of_unicode_in_a_value_break_no_command(
    ingester: Ingester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Land values that Delta writes unescaped into a commit's statistics, which are one line."""
    values = [f"caf{mark}x" for mark in "\u0085\u2028\u2029\u000b\u000c\u001c\u001e"]
    ingester.land("a.jsonl", *map(one, values))
    bronze = "warehouse/bronze.db/orders"
    copy_of = node({"id": "string", "n": "int"}, {"from": "delta", "path": bronze}, "copied")
    ingester.run(SIMPLE)
    ingester.run(copy_of)
    ingester.land("b.jsonl", *map(one, values))
    ingester.run(SIMPLE)
    monkeypatch.setenv("HEADWATERS_LAKE", str(ingester.lake))
    shown = [status(Project(ROOT), parse_contract(n)) for n in (SIMPLE, copy_of)]
    assert [(each.rows, each.behind.split(",")[0]) for each in shown] == [
        (14, "0 files"),
        (7, "1 files"),
    ]
    app = Checkpoint(ingester.lake / "checkpoints" / "orders").app_id
    assert commit_of(ingester.lake / bronze, app, 0) == 1
    assert ingester.run(copy_of) == ["copied  7 rows"]


def test_a_missing_checkpoint_beside_a_filled_table_is_an_error(ingester: Ingester) -> None:
    ingester.land("a.jsonl", one("a"))
    ingester.run(SIMPLE)
    checkpoint = ingester.lake / "checkpoints" / "orders"
    shutil.move(checkpoint, ingester.lake / "kept")
    (line,) = ingester.run(SIMPLE, code=1)
    assert f"bronze.orders has data, but its checkpoint {checkpoint} is missing. Put it " in line
    assert ingester.rows("orders", "id") == [["a"]]
    shutil.rmtree(checkpoint)
    shutil.move(ingester.lake / "kept", checkpoint)
    assert ingester.run(SIMPLE) == ["orders  nothing new"]


@pytest.mark.slow
def test_a_missing_table_beside_a_checkpoint_is_an_error(ingester: Ingester) -> None:
    ingester.land("a.jsonl", one("a"))
    ingester.run(SIMPLE)
    shutil.rmtree(ingester.lake / "warehouse")
    (line,) = ingester.run(SIMPLE, code=1)
    assert "has read 1 batches that bronze.orders never saw" in line


def test_checkpoint_and_tables_must_know_the_same_batches(tmp_path: Path) -> None:
    stream = Stream.of(bare_project(tmp_path), parse_contract(SIMPLE))
    stream.checkpoint = Checkpoint(tmp_path / "orders")
    for name in ("offsets/0", "offsets/1", "offsets/2", "commits/0", "commits/1"):
        file = stream.checkpoint.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    (stream.checkpoint.path / "metadata").write_text('{"id": "x"}')
    app = "headwaters:orders:x"
    right: list[tuple[dict[str, int], dict[str, int]]] = [
        ({app: 1}, {}),
        ({app: 2, f"{app}:replay": 9}, {app: 2}),
        ({app: 1, "headwaters:orders:before": 9}, {app: 0}),
    ]
    for bronze, quarantine in right:
        guards.see_same_batches(stream, bronze, quarantine)
    wrong = [
        ({}, {}, "has read 2 batches that bronze.orders never saw"),
        ({app: 0}, {app: 0}, "has read 1 batches that bronze.orders never saw"),
        ({app: 3}, {}, "bronze.orders has 1 batches that its checkpoint"),
        ({app: 2}, {app: 4}, "bronze.orders has 2 batches that its checkpoint"),
    ]
    for bronze, quarantine, said in wrong:
        with pytest.raises(WorkError, match=said):
            guards.see_same_batches(stream, bronze, quarantine)


@pytest.mark.slow
def test_a_table_or_checkpoint_of_another_time_is_an_error(
    ingester: Ingester, tmp_path: Path
) -> None:
    ingester.land("a.jsonl", one("a"))
    ingester.run(SIMPLE)
    shutil.copytree(ingester.lake, tmp_path / "older")
    ingester.land("b.jsonl", one("b", "x"))  # nothing of it is for bronze
    ingester.run(SIMPLE)
    ingester.land("c.jsonl", one("c"))
    shutil.copytree(ingester.lake, tmp_path / "newer")
    for part, said in (
        ("warehouse", "has read 1 batches that bronze.orders never saw: going on would leave them"),
        ("checkpoints", "bronze.orders has 1 batches that its checkpoint"),
    ):
        shutil.rmtree(ingester.lake / part)
        shutil.copytree(tmp_path / "older" / part, ingester.lake / part)
        (line,) = ingester.run(SIMPLE, code=1)
        shutil.rmtree(ingester.lake)
        shutil.copytree(tmp_path / "newer", ingester.lake)
        assert said in line
        assert "headwaters ingest --select orders --from table" in line
    assert ingester.run(SIMPLE) == ["orders  1 rows"]


def test_a_second_ingester_is_refused_with_the_firsts_identity(ingester: Ingester) -> None:
    ingester.land("a.jsonl", one("a"))
    with Checkpoint(ingester.lake / "checkpoints" / "orders").held():
        (line,) = ingester.run(SIMPLE, code=1)
        other = node({"id": "string"}, name="other")
        replay = {"lake": str(ingester.lake), "replay": [SIMPLE, other], "dry_run": False}
        replayed = ingester.ask(**replay)
    holder = f"[HW_STREAM_IN_USE] headwaters ingest, process {os.getpid()} on "
    assert line.startswith(f"orders  failed: {holder}")
    assert replayed["orders"].startswith(holder)
    assert replayed["other"] == [0, {}]
    assert ingester.run(SIMPLE) == ["orders  1 rows"]


def test_a_failed_stream_does_not_stop_another(ingester: Ingester) -> None:
    broken = node({"id": "string", "day": "date"}, name="broken", expressions={"day": "to_dat(id)"})
    ingester.land("a.jsonl", one("a"))
    ingester.land("a.jsonl", one("a"), stream="broken")
    first, second = ingester.run(broken, SIMPLE, code=2)
    assert first.startswith(
        "broken  failed: [HW_CONTRACT_EXPRESSION] models/bronze/broken.yml: broken.day: expression "
        "to_dat(id): "
    )
    assert second == "orders  1 rows"


def test_several_words_after_one_option_are_taken_as_dbt_takes_them() -> None:
    words = _spread(["ingest", "--select", "a", "b", "--once", "-s", "c d", "e", "--exclude=f"])
    told = ["--select", "a", "--select", "b", "--once", "-s", "c d", "-s", "e", "--exclude=f"]
    assert words == ["ingest", *told]


def test_a_missing_folder_is_named(ingester: Ingester) -> None:
    (line,) = ingester.run(SIMPLE, code=2)
    folder = ingester.lake / "landing" / "orders"
    assert line == (
        "[HW_NO_INPUT] models/bronze/orders.yml: orders reads landing/orders, but there is no "
        f"folder {folder}: land files there, or change 'path'"
    )


@pytest.mark.slow
def test_a_column_may_be_declared_later_but_not_change_its_type(ingester: Ingester) -> None:
    ingester.land("a.jsonl", one("a"))
    ingester.run(SIMPLE)
    wider = node({"id": "string", "n": "int", "flag": "boolean"})
    ingester.land("b.jsonl", '{"id": "b", "n": 2, "flag": true}')
    ingester.run(wider)
    assert ingester.rows("orders", "id, n, flag") == [["a", 1, None], ["b", 2, True]]
    ingester.land("c.jsonl", one("c"))
    (line,) = ingester.run(node({"id": "string", "n": "bigint"}), code=2)
    assert line == (
        "orders  failed: [HW_COLUMN_TYPE] bronze.orders: column n is int in the table and bigint "
        "in the contract: declare the old type, or another column"
    )


@pytest.mark.parametrize(
    ("stream", "record", "said"),
    [
        ({"bad_records": "fail"}, one("b", "x"), "a record n 'x' is not an int"),
        ({"schema": "fail"}, '{"id": "b", "new": 1}', "a record new is not declared"),
    ],
)
def test_a_stream_that_should_fail_keeps_nothing_of_the_batch(
    ingester: Ingester, stream: dict[str, str], record: str, said: str
) -> None:
    declared = copy.deepcopy(SIMPLE)
    declared["config"]["meta"]["stream"] |= stream
    bad = ingester.land("a.jsonl", one("a"), record)
    (line,) = ingester.run(declared, code=1)
    refused = f"landing/orders/a.jsonl: {said}; nothing of its batch is kept"
    assert line == f"orders  failed: [HW_BAD_RECORD] {refused}"
    assert ingester.rows("orders", "id") == []
    assert ingester.quarantine() == []
    bad.write_text(one("a") + "\n")
    ingester.run(declared)
    assert ingester.rows("orders", "id") == [["a"]]


def test_ingestion_and_dbt_make_the_same_tables(
    ingester: Ingester,
    lake: Path,
    spark: Any,
    dbt: Callable[..., Any],
    new_project: Callable[[dict[str, str]], Path],
) -> None:
    """Start with either: columns, their order and types, and properties are equal."""
    source = """
sources:
  - name: twice
    schema: bronze
    tables:
      - name: made_twice
        config:
          meta:
            stream: {from: files, path: landing/made_twice, format: json}
            tblproperties:
              {delta.logRetentionDuration: interval 30 days, note: it's, kept: '${spark.app.name}'}
        columns:
          - {name: id, data_type: string, constraints: [{type: not_null}]}
          - {name: price, data_type: "decimal(12, 2)"}
          - {name: day, data_type: date, config: {meta: {expression: to_date(id)}}}
"""
    model = "select * from {{ source('twice', 'made_twice') }}"
    project = new_project({"models/twice.yml": source, "models/copy.sql": model})
    found = dbt("parse", project_dir=project).result.sources["source.headwaters.twice.made_twice"]
    contract_node = found.to_dict()
    ingester.land("a.jsonl", '{"id": "2026-01-01"}', stream="made_twice")
    dbt("run", project_dir=project)
    ingester.run(contract_node)
    for table in ("made_twice", "made_twice_quarantine"):
        ours = ingester.lake / "warehouse" / "bronze.db" / table
        theirs = lake / "warehouse" / "bronze.db" / table
        assert describe(ingester.ask, ours) == describe(ingester.ask, theirs)
    # and ingestion appends to the table that dbt has made
    shutil.copytree(ingester.lake / "landing", lake / "landing", dirs_exist_ok=True)
    Ingester(ingester.process, lake).run(contract_node)
    assert [row[0] for row in spark.table("bronze.made_twice").collect()] == ["2026-01-01"]
    assert parse_contract(contract_node).bronze_columns()[0] == ("id", "string")
    # and changes it as declared: another value, and a property that is no longer declared
    held = dict(spark.sql("show tblproperties bronze.made_twice").collect())
    assert held["kept"] == "${spark.app.name}"
    kept = r"${spark.app.name} \ it's"
    contract_node["config"]["meta"]["tblproperties"] = {
        "delta.logRetentionDuration": "20 days",
        "kept": kept,
    }
    Ingester(ingester.process, lake).run(contract_node)
    properties = dict(spark.sql("show tblproperties bronze.made_twice").collect())
    assert properties["delta.logRetentionDuration"] == "20 days"
    assert "note" not in properties
    assert properties["kept"] == kept


def test_the_files_that_are_read_are_those_of_batches_that_are_done(tmp_path: Path) -> None:
    """Kill between the two logs: the source numbers its own log, which is then one ahead."""
    checkpoint = Checkpoint(tmp_path / "orders")
    for name, lines in {
        "offsets/0": ["v1", "{}", '{"logOffset": 0}'],
        "offsets/1": ["v1", "{}", '{"logOffset": 2}'],
        "offsets/2": ["v1", "{}", '{"logOffset": 3}'],
        "commits/1": ["v1"],
        **{
            f"sources/0/{n}": ["v1", json.dumps({"path": f"file:///{n}", "batchId": n})]
            for n in range(4)
        },
    }.items():
        file = checkpoint.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines))
    assert checkpoint.seen(checkpoint.committed) == {"file:///0", "file:///1", "file:///2"}
    assert len(checkpoint.seen()) == 4


@pytest.mark.parametrize("text", ["", "{", "null"])
@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("metadata", lambda checkpoint: checkpoint.id),
        ("offsets/3", lambda checkpoint: checkpoint.offsets(3)),
        ("offsets/3", lambda checkpoint: checkpoint.seen(3)),
        ("sources/0/0", lambda checkpoint: checkpoint.start()),
        ("begin.json", lambda checkpoint: checkpoint.begun()),
        ("topics.json", lambda checkpoint: checkpoint.topics()),
        ("unreadable.json", lambda checkpoint: checkpoint.unreadable(3)),
    ],
)
def test_a_damaged_file_of_a_checkpoint_is_named_with_the_remedy(
    tmp_path: Path, name: str, text: str, ask: Callable[[Checkpoint], Any]
) -> None:
    checkpoint = Checkpoint(tmp_path / "orders")
    file = checkpoint.path / name
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(WorkError) as caught:
        ask(checkpoint)
    assert str(caught.value) == (
        f"[HW_CHECKPOINT_DAMAGED] {file} is damaged: put the checkpoint back from a copy, or "
        f"remove {checkpoint.path} and say where to resume: headwaters ingest --select orders "
        "--from table (after what bronze and quarantine hold)"
    )


def test_a_damaged_checkpoint_stops_its_own_stream_alone(ingester: Ingester) -> None:
    other = node({"id": "string"}, name="other")
    ingester.land("a.jsonl", one("a"))
    ingester.land("a.jsonl", one("a"), stream="other")
    damaged = ingester.lake / "checkpoints" / "orders" / "metadata"
    damaged.parent.mkdir(parents=True)
    damaged.touch()
    failed, done = ingester.run(SIMPLE, other, code=1)
    assert failed.startswith(f"orders  failed: [HW_CHECKPOINT_DAMAGED] {damaged} is damaged: put ")
    assert done == "other   1 rows"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("which", "how"),
    [(-2, "cut"), (-2, "gone"), (-1, "cut")],
)
def test_a_damaged_log_of_a_bronze_table_is_named_and_nothing_is_read(
    ingester: Ingester, which: int, how: str
) -> None:
    for name in ("a", "b", "c"):
        ingester.land(f"{name}.jsonl", one(name))
        ingester.run(SIMPLE)
    log = ingester.lake / "warehouse" / "bronze.db" / "orders" / "_delta_log"
    commit = sorted(log.glob("*.json"))[which]
    whole = commit.read_bytes()
    commit.write_bytes(whole[: len(whole) // 2]) if how == "cut" else commit.unlink()
    ingester.land("d.jsonl", one("d"))
    (line,) = ingester.run(SIMPLE, code=1)
    assert line.startswith(
        "orders  failed: [HW_TABLE_DAMAGED] the log of a Delta table is damaged: put its "
        "_delta_log back from a copy, as it was. Nothing was read. "
    )
    commit.write_bytes(whole)
    assert ingester.run(SIMPLE) == ["orders  1 rows"]
    assert [row[0] for row in ingester.rows("orders", "id")] == ["a", "b", "c", "d"]


def test_a_contract_of_another_release_matters_only_to_a_batch_that_was_cut_short(
    tmp_path: Path,
) -> None:
    checkpoint = Checkpoint(tmp_path / "orders")
    assert checkpoint.contract(Contract) is None
    checkpoint.keep_contract(parse_contract(SIMPLE))
    assert checkpoint.contract(Contract) == parse_contract(SIMPLE)
    (checkpoint.path / "contract.json").write_text('{"name": "orders", "kind": "old"}')
    assert checkpoint.contract(Contract) is None
    (checkpoint.path / "offsets").mkdir()
    (checkpoint.path / "offsets" / "0").write_text("")
    with pytest.raises(WorkError, match="orders: a batch was interrupted, and this release of"):
        checkpoint.contract(Contract)


def test_a_failure_that_cannot_be_written_down_does_not_stop_the_streams_beside(
    tmp_path: Path,
) -> None:
    (tmp_path / "lake").touch()  # no process can write into a file
    stream = Stream.of(bare_project(tmp_path), parse_contract(SIMPLE))
    stream.lake, stream.checkpoint = tmp_path / "lake", Checkpoint(tmp_path / "lake" / "orders")
    run._failed(stream, WorkError("HW_FILE", "no space left"))
    assert (stream.error, stream.failures) == ("[HW_FILE] no space left", 1)


@pytest.mark.slow
def test_reconciliation_compares_record_by_record(ingester: Ingester) -> None:
    _reconciled(ingester)


def _reconciled(ingester: Ingester) -> str:
    """Check that lost and repeated rows are found, and return the line of a correct table."""
    strange = "{a}[b]*?.jsonl"
    ingester.land(strange, one("a"), one("b"), one("b"), one("bad", "x"), one("bad", "x"))
    ingester.land("c.jsonl", one("c"), one("d", None))
    ingester.land("{a}.csv", "id,name", '1,"two\nlines"', "2,x", "x,y", stream="names")
    ingester.run(SIMPLE, NAMES)
    whole = "orders: 7 read = 5 bronze + 2 quarantined: right"
    lines = ingester.ask(lake=str(ingester.lake), audit=[SIMPLE, NAMES])
    assert lines == [whole, "names: 3 read = 2 bronze + 1 quarantined: right"]

    bronze = _bronze(ingester)
    (version,) = ingester.ask(sql=f"describe history {bronze} limit 1")
    lose_one_and_repeat_another(ingester, "orders", "id = 'a'", "id = 'b'")
    assert audit(ingester, SIMPLE) == [
        whole.replace("right", "WRONG: 1 missing, 1 extra"),
        f"  landing/orders/{strange}: 5 read, 3 bronze, 2 quarantined, 1 missing, 1 extra",
    ]
    ingester.ask(sql=f"restore table {bronze} to version as of {version['version']}")
    return whole


NAMES = node({"id": "int", "name": "string"}, {"format": "csv"}, "names")


def _bronze(ingester: Ingester) -> str:
    return f"delta.`{ingester.lake / 'warehouse' / 'bronze.db' / 'orders'}`"


@pytest.mark.slow
def test_reconciliation_leaves_out_a_batch_in_flight_and_what_the_source_no_longer_has(
    ingester: Ingester,
) -> None:
    whole, bronze = _reconciled(ingester), _bronze(ingester)
    (version,) = ingester.ask(sql=f"describe history {bronze} limit 1")
    ingester.ask(sql=f"update {bronze} set n = 2 where id = 'c'")
    assert audit(ingester, SIMPLE)[0] == whole.replace("right", "WRONG: 1 missing, 1 extra")
    ingester.ask(sql=f"restore table {bronze} to version as of {version['version']}")
    assert audit(ingester, SIMPLE) == [whole]

    # a batch between its two tables; the part in bronze does not count yet
    ingester.land("e.jsonl", one("e"), one("bad", "y"))
    ingester.run(SIMPLE, code=1, die_before="orders_quarantine")
    assert len(ingester.rows("orders", "id")) == 6
    assert audit(ingester, SIMPLE) == [whole]
    # records from before a column was declared have its field among the rescued
    wider = node({"id": "string", "n": "int", "more": "string"})
    ingester.land("f.jsonl", '{"id": "f", "more": "x"}')
    ingester.run(wider)
    assert audit(ingester, wider) == ["orders: 10 read = 7 bronze + 3 quarantined: right"]
    (landing := ingester.lake / "landing" / "orders").joinpath("c.jsonl").unlink()
    ingester.land("f.jsonl", '{"id": "another", "more": "x"}')  # replaced under its name
    assert audit(ingester, wider) == [
        "orders: 8 read = 7 bronze + 3 quarantined: WRONG: 1 missing, 1 extra; 2 rows whose "
        "records the source no longer has are not compared; not compared in rows from before their "
        "declaration: more, _rescued",
        "  landing/orders/f.jsonl: 1 read, 1 bronze, 0 quarantined, 1 missing, 1 extra",
    ]
    shutil.rmtree(landing)
    shutil.rmtree(ingester.lake / "warehouse" / "bronze.db" / "orders")
    lines = ingester.ask(lake=str(ingester.lake), audit=[wider, NAMES])
    assert lines[0].startswith("orders: FAILED: [HW_RECONCILIATION] there is no table ")
    assert lines[1:] == ["names: 3 read = 2 bronze + 1 quarantined: right"]


def test_an_interrupted_replay_keeps_its_contract_only_if_it_has_written(
    ingester: Ingester,
) -> None:
    def below(number: int, kind: str = "int") -> Node:
        check = {"type": "check", "expression": f"n < {number}"}
        return node({"id": "string", "n": kind}, rules={"n": [check]})

    def replay(stream: Node, **more: Any) -> Any:
        answer = ingester.ask(
            lake=str(ingester.lake), replay=[stream], **{"dry_run": False, **more}
        )
        return answer["orders"] if isinstance(answer, dict) else answer

    note = ingester.lake / "checkpoints" / "orders" / "replay.json"
    ingester.land("a.jsonl", *(one(str(n), n) for n in (1, 12, 20, 30)))
    ingester.run(below(10))
    for dry_run in (True, False):
        refused = replay(below(15, "bigint"), dry_run=dry_run)
        assert refused.startswith("[HW_COLUMN_TYPE] bronze.orders: column n is int in the table ")
    assert not note.exists()
    # one that wrote nothing may have had a wrong contract
    assert replay(below(15), die_before="bronze") == "before bronze"
    ingester.land("b.jsonl", one("2", 2))
    ingester.run(below(10))
    line = "orders: 5 read = 2 bronze + 3 quarantined: right"
    assert ingester.ask(lake=str(ingester.lake), audit=[below(10)]) == [line]
    assert note.exists()
    assert replay(below(25)) == [2, {"check n": 1}]
    assert not note.exists()
    # bronze has the rows of the other
    ingester.land("c.jsonl", one("40", 40))
    ingester.run(below(10))
    assert replay(below(35), die_before="quarantine") == "before quarantine"
    assert replay(below(50, "bigint")).startswith("[HW_COLUMN_TYPE] ")
    assert replay(below(50)) == [1, {"check n": 1}]
    assert replay(below(50)) == [1, {}]
    assert [n for _, n in ingester.rows("orders", "id, n", "n")] == [1, 2, 12, 20, 30, 40]
    assert ingester.quarantine() == []


def test_a_replay_in_flight_is_left_out_of_the_reconciliation(tmp_path: Path) -> None:
    stream = Stream.of(bare_project(tmp_path), parse_contract(SIMPLE))
    stream.bronze, stream.quarantine = tmp_path / "bronze", tmp_path / "quarantine"
    stream.checkpoint = Checkpoint(tmp_path / "orders")
    app = "headwaters:orders:x"

    def write(name: str, *lines: object) -> None:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(json.dumps(line) for line in lines))

    write("orders/metadata", {"id": "x"})
    write("orders/commits/4")
    for table in ("bronze", "quarantine"):
        write(f"{table}/_delta_log/{0:020}.json", {"commitInfo": {}})
        write(f"{table}/_delta_log/{1:020}.json", {"txn": {"appId": app, "version": 4}})
        write(f"{table}/_delta_log/{2:020}.json", {"commitInfo": {"operation": "OPTIMIZE"}})
    assert audits.moment(stream) == Moment(4, 2, 2)
    write("orders/replay.json", {"version": 1, "bronze": 2})
    write(f"bronze/_delta_log/{3:020}.json", {"txn": {"appId": f"{app}:replay", "version": 1}})
    assert audits.moment(stream) == Moment(4, 2, 1)
    (tmp_path / "orders" / "replay.json").unlink()
    assert audits.moment(stream) == Moment(4, 3, 2)
    write(f"bronze/_delta_log/{4:020}.json", {"txn": {"appId": app, "version": 5}})
    write(f"bronze/_delta_log/{5:020}.json", {"commitInfo": {"operation": "OPTIMIZE"}})
    assert audits.moment(stream) == Moment(4, 3, 2)


def test_a_stream_that_cannot_be_audited_does_not_stop_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def balance(_: Any, stream: Stream) -> list[Balance]:
        if stream.contract.name == "broken":
            raise ValueError("its source is gone")
        return [Balance("a", 2, 2, 0, 0, 0)]

    monkeypatch.setattr(audits, "balance", balance)
    contracts = [parse_contract(node({"id": "string"}, name=name)) for name in ("broken", "whole")]
    found = audits.audit(
        project := bare_project(tmp_path), contracts, spark=cast(SparkSession, object())
    )
    log = project.lake / "logs" / "spark.log"
    assert [line for name, one in found.items() for line in audits.summarise(name, one)] == [
        f"broken: FAILED: [HW_STREAM_FAILED] its source is gone (more in {log})",
        "whole: 2 read = 2 bronze + 0 quarantined: right",
    ]
    assert [audits.right(one) for one in found.values()] == [False, True]


def test_duplicates_that_can_no_longer_be_found_again_are_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rule = {"key": ["id"], "event_time": "at", "within": "1h"}
    contract = parse_contract(node({"id": "string", "at": "timestamp"}, {"deduplicate": rule}))
    stream = Stream.of(bare_project(tmp_path), contract)
    monkeypatch.setattr(writer, "commit_of", lambda *_: None)
    monkeypatch.setattr(TableSnapshot, "version", 5)
    bronze = TableSnapshot(cast(SparkSession, None), stream.bronze)
    with pytest.raises(WorkError, match="batch 3 was interrupted so long ago that the log of"):
        Writer(stream, contract, Stopping())._bronze_before(bronze, 3, done=True)


@pytest.mark.slow
def test_an_error_is_forgotten_when_the_stream_runs_again_with_nothing_to_read(
    ingester: Ingester,
) -> None:
    (ingester.lake / "landing" / "orders").mkdir(parents=True)
    failed = 'failed{stream="orders"}'
    error = ingester.lake / "checkpoints" / "orders" / "error.txt"
    with ingester.running(SIMPLE, every=0, fail_starts=2) as metrics:
        wait_for(lambda: metrics().get(failed) == 1 and error.exists())
        wait_for(lambda: metrics().get(failed) == 0)
        assert not error.exists()


def describe(ask: Callable[..., Any], path: Path) -> Any:
    columns = ask(sql=f"describe table delta.`{path}`")
    (detail,) = ask(sql=f"describe detail delta.`{path}`")
    return columns, detail["properties"], detail["partitionColumns"]


def test_a_signal_leaves_the_streams_that_have_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    stopping = Stopping()
    streams = [cast(Stream, SimpleNamespace(query=None, endless=True)) for _ in range(3)]
    begun: list[Stream] = []

    def begin(_: Any, stream: Stream, asked: Stopping) -> None:
        begun.append(stream)
        asked.signal = 15

    monkeypatch.setattr(run, "_begin", begin)
    run._run(cast(SparkSession, None), streams, stopping, cast(Any, None))
    assert begun == streams[:1]
