"""Test files and change events as other programs write them, in one ingestion.

Each case is a stream with its files, the rows of bronze that are right, and the refused records
with the beginning of the reason.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from subprocess import Popen
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from ingestion import Ingester, Node, audit, node
from pyarrow import parquet

from headwaters.platform.spark_version import ENCODINGS

Written = bytes | Callable[[Path], object]  # a file, or the function that writes it


@dataclass(frozen=True)
class Case:
    """A stream of one form: columns, each with a type and its `from`, files, and results."""

    columns: Mapping[str, tuple[str, Any] | str]
    files: Mapping[str, Written]
    rows: Sequence[Sequence[Any]]
    refused: Mapping[str, str] = field(default_factory=dict)  # a record to its reason
    stream: Mapping[str, Any] = field(default_factory=dict)
    computed: Mapping[str, str] = field(default_factory=dict)
    select: str | None = None

    def node(self, name: str) -> Node:
        types = {c: kind if isinstance(kind, str) else kind[0] for c, kind in self.columns.items()}
        declared = node(types, dict(self.stream), name, expressions=dict(self.computed))
        for column, kind in self.columns.items():
            if not isinstance(kind, str):
                declared["columns"][column]["config"]["meta"]["from"] = kind[1]
        return declared


def rfc_4180(*rows: Sequence[str], **how: Any) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, **how).writerows(rows)
    return text.getvalue()


def lines(*records: object, **how: Any) -> bytes:
    return "".join(json.dumps(record, **how) + "\n" for record in records).encode()


def of_duckdb(options: str, query: str) -> Callable[[Path], object]:
    return lambda path: duckdb.sql(f"copy ({query}) to '{path}' ({options})")


PEOPLE = [
    {"id": 1, "Full Name": 'Zoë, "Z"', "a.b": None},
    {"id": 2, "Full Name": "李\nlei", "a.b": 2.5},
]
PEOPLE_ROWS = [[1, 'Zoë, "Z"', None], [2, "李\nlei", 2.5]]
PEOPLE_COLUMNS: dict[str, tuple[str, Any] | str] = {
    "id": "int",
    "full_name": ("string", "Full Name"),
    "a_b": ("double", "a.b"),
}
SELECT_PEOPLE = (
    "select * from (values (1, 'Zoë, \"Z\"', null), (2, '李' || chr(10) || 'lei', 2.5::double))"
    ' people(id, "Full Name", "a.b")'
)

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 123456)
NANOS = pa.array([MOMENT, datetime(1969, 12, 31, 23, 59, 59, 999999)], pa.timestamp("ns"))
EARLY = "1969-12-31 23:59:59.999999"
MOMENTS = [[1, str(MOMENT)], [2, EARLY]]


def of_arrow(**columns: pa.Array) -> Callable[[Path], object]:
    return lambda path: parquet.write_table(pa.table(columns), path)


def arrow(values: pa.Array, **how: Any) -> Callable[[Path], object]:
    table = pa.table({"Order ID": pa.array([1, 2], pa.int32()), "at": values})
    return lambda path: parquet.write_table(table, path, **how)


def event(op: str, after: Any = None, before: Any = None, **more: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "source": {"lsn": 1}, "op": op, "ts_ms": 1, **more}


OUTBOX = {
    "id": 1,
    "payload": '{"total": 12345678901234.50}',
    "schema": "eu",
    "op": "add",
    "source": "web",
    "before": [1, 2],
    "after": {"a": "x"},
    "Select": {"$oid": "f0"},
}
# 2147483647 days, 9223372036825200000 and -9223372036832400000 microseconds are PostgreSQL's
# infinity and -infinity
TIMES = {
    "id": 1,
    "day": -1,
    "micros": -1,
    "nanos": 1_500_000_000_123_456_789,
    "as_text": "12.50",
    "as_double": 12.5,
    "as_bytes": "BOI=",  # 1250
    "until": "2026-01-01T00:00:00Z",
}
NANOS_AS_MICROS = "2017-07-14 02:40:00.123456"
OPEN = TIMES | {
    "id": 2,
    "day": 2147483647,
    "micros": 9223372036825200000,
    "as_text": "NaN",
    "as_double": "NaN",
    "as_bytes": "/4U=",  # -123
    "until": "infinity",
}
EARLIEST = TIMES | {
    "id": 3,
    "day": -2147483648,
    "micros": -9223372036832400000,
    "as_bytes": "/4AAAAAAAAA=",  # -2 ** 55
    "until": "-infinity",
}

CASES = {
    "odd_headers": Case(
        {
            "index": ("int", ""),
            "order_id": ("int", "Order ID"),
            "amount": ("decimal(8, 2)", "amount (EUR)"),
            "a_b": ("string", "a.b"),
            "first_item": ("string", "items[0]"),
            "name": ("string", "Name"),
            "name_2": ("string", "name"),
            "name_3": ("string", "Name"),
        },
        {
            "a.csv": b"\xef\xbb\xbf,Order ID,amount (EUR),a.b,items[0],Name,name,Name\r\n"
            b'0,7,1.50,x,"a,b",N,n,NN\r\n1,8,2,"","c\nd",,,\r\n',
            "other.csv": b",Order ID,amount (EUR),a.b,items[0],Name,Name,name\n0,7,1,x,y,N,n,NN\n",
            "b.csv.zst": b"",
        },
        [[0, 7, "1.50", "x", "a,b", "N", "n", "NN"], [1, 8, "2.00", "", "c\nd", None, None, None]],
        {
            "other.csv": "has the header , Order ID, amount (EUR), a.b, items[0], Name, Name, name"
            ": the contract has , Order ID, amount (EUR), a.b, items[0], Name, name, Name; land",
            "b.csv.zst": "ends with .zst, which this stream cannot open: land it as .gz",
        },
        {"format": "csv"},
    ),
    "windows": Case(
        {"id": "int", "price": ("string", "Preis (€)"), "size": ("string", "Größe")},
        {
            "excel.csv": rfc_4180(
                ["id", "Preis (€)", "Größe"],
                ["1", "7 €", "„groß“"],
                ["2", "a;b", "š\nž"],
                delimiter=";",
            ).encode("windows-1252"),
            "undefined.csv": b"id;Preis (\x80);Gr\xf6\xdfe\r\n3;\x81;x\r\n",
        },
        [[1, "7 €", "„groß“"], [2, "a;b", "š\nž"]],
        {"3;\ufffd;x": "has bytes that are not windows-1252: U+FFFD stands for them"},
        {"format": "csv", "options": {"encoding": "windows-1252", "sep": ";"}},
    ),
    "mixed_lines": Case(
        {"id": "int", "a": ("string", "a\nx"), "b": "string"},
        {
            # as Excel writes a line break in a cell
            "excel.csv": b'id,"a\nx",b\r\n1,x,y\r\n2,x,\r\n3,x,"y"\r\n4,"y\r\nz",""\r\n',
            "from_windows.csv": b'id,"a\r\nx",b\r\n7,x,"y\r\nz"\r\n8,x,y\r\n',
        },
        [
            [1, "x", "y"],
            [2, "x", None],
            [3, "x", "y"],
            [4, "y\r\nz", ""],
            [7, "x", "y\nz"],
            [8, "x", "y"],
        ],
        {},
        {"format": "csv"},
    ),
    "appended_lines": Case(
        {"id": "int", "a": "string", "b": "string", "n": "int"},
        {"a.csv": b"id,a,b,n\n5,x,y,1\r\n6,x,y,2\n7,x,y,\r\n8,x,y,x\r\n"},
        [[5, "x", "y", 1], [6, "x", "y", 2], [7, "x", "y", None]],
        {"8,x,y,x": "'x' is not an int"},
        {"format": "csv"},
    ),
    "japan": Case(
        {"id": "int", "city": ("string", "都市"), "kana": ("string", "カナ")},
        {"a.csv": 'id,都市,カナ\r\n1,東京,ﾄｳｷｮｳ\r\n2,大阪表,"ソ,能"\r\n'.encode("shift_jis")},
        [[1, "東京", "ﾄｳｷｮｳ"], [2, "大阪表", "ソ,能"]],
        {},
        {"format": "csv", "options": {"encoding": "Shift_JIS"}},
    ),
    "unicode_text": Case(
        {"id": "int", "name": ("string", "Full Name")},
        {
            "excel.txt": b"\xff\xfe" + "id\tFull Name\r\n1\tZoë\r\n".encode("utf-16-le"),
            "no_mark.txt": "id\tFull Name\r\n2\tInes\r\n".encode("utf-16-le"),
            "big.txt": b"\xfe\xff" + "id\tFull Name\r\n3\tIda\r\n".encode("utf-16-be"),
        },
        [[1, "Zoë"], [2, "Ines"]],
        {"big.txt": "is UTF-16BE: declare options: {encoding: utf-16be}; land"},
        {"format": "csv", "options": {"encoding": "utf-16le", "sep": "\t"}},
    ),
    "tables_of_programs": Case(
        PEOPLE_COLUMNS,
        {
            "pandas.csv": lambda path: pd.DataFrame(PEOPLE).to_csv(path, index=False),
            "polars.csv": lambda path: pl.DataFrame(PEOPLE).write_csv(path),
            "duckdb.csv": of_duckdb("format csv", SELECT_PEOPLE),
        },
        sorted(PEOPLE_ROWS * 3),
        {},
        {"format": "csv"},
    ),
    "lines_of_programs": Case(
        PEOPLE_COLUMNS,
        {
            "pandas.json": lambda path: pd.DataFrame(PEOPLE).to_json(
                path, orient="records", lines=True
            ),
            "polars.json": lambda path: pl.DataFrame(PEOPLE).write_ndjson(path),
            "duckdb.json": of_duckdb("format json", SELECT_PEOPLE),
            "bare.json": lines(*PEOPLE),
            "array.json": lines(PEOPLE),
        },
        sorted(PEOPLE_ROWS * 4),
        {
            "array.json": "looks like one JSON array, and a record of format: json is a line: "
            "declare layout: array, or declare format: raw",
        },
    ),
    "names_of_json": Case(
        {
            "number": ("int", "id"),
            "id": ("int", "number"),
            "id_2": ("int", "ID"),
            "size": ("decimal(8, 2)", 'Größe/"cm"'),
            "city": ("string", ["customer", "address", "City Name"]),
            "born": ("date", ["customer", "born"]),
            "text": ("string", "_raw"),
        },
        {
            "a.json": lines(
                {
                    "id": 1,
                    "ID": 2,
                    "number": 3,
                    'Größe/"cm"': 1.5,
                    "customer": {"address": {"City Name": "Bonn"}, "born": "2000-02-03"},
                    "_raw": "x",
                    "size": "not declared",
                },
                {"ID": 5, "customer": None},
                {"ID": 6, 'Größe/"cm"': "1,5"},
                {"ID": 7, "customer": {"born": "2000"}},
            )
            + b'{"ID": 8, "Gr\\u00f6\\u00dfe\\/\\"cm\\"": "1,5"}\n{"ID": 9, "ID": 9}\n',
        },
        [[1, 3, 2, "1.50", "Bonn", "2000-02-03", "x"], [None, None, 5, *[None] * 4]],
        {
            '{"ID": 6, "Gr\\u00f6\\u00dfe/\\"cm\\"": "1,5"}': "'1,5' is not a decimal(8, 2)",
            '{"ID": 7, "customer": {"born": "2000"}}': "'{null, \"2000\"}' is not a struct<",
            '{"ID": 8, "Gr\\u00f6\\u00dfe\\/\\"cm\\"": "1,5"}': "'1,5' is not a decimal(8, 2)",
            '{"ID": 9, "ID": 9}': "is there more than once",
        },
    ),
    "numbers_within": Case(
        {
            "id": "int",
            "small": "array<tinyint>",
            "words": "array<string>",
            "by_name": "map<string, string>",
            "moments": "array<timestamp>",
            "any": "variant",
            "of_path": ("tinyint", ["p", "t"]),
            "text": "string",
        },
        {
            "a.json": lines(
                {"id": 1, "small": [-128, 127], "words": ["1.10", 1.5, 7], "by_name": {"k": "1.10"}}
            )
            + b'{"id":2,"any":{"a":1.10,"b":123456789.123456789},"p":{"t":5},"text":0}\n'
            + b'{"id":3,"small":[200]}\n{"id":4,"words":[1.10]}\n{"id":5,"by_name":{"k":1.10}}\n'
            + b'{"id":6,"moments":[-9223372036854775808]}\n{"id":7,"any":1e400}\n'
            + b'{"id":8,"any":{"a":123456789012345678901234567890123456789}}\n'
            + b'{"id":9,"p":{"t":200}}\n{"id":10,"text":-0}\n'
            + b'{"id":11,"text":1.10,"more":{"text":"x"}}\n'
            + b'{"id":12,"text":-0,"more":"\'text\': 1"}\n'
            + b'{"id":13,"text":1e400,"more":{"text":"x"}}\n{"id":14,"words":[-0]}\n'
            + b'{"id":15,"text":"1.5","more":{"text":1.50},"words":["1.5"],"by_name":{"1.5":"0"}}\n'
            + b'{"id":16,"text":1.5,"more":{"text":"x"},"words":["0"],"small":[-0]}\n'
        },
        [
            [
                *(1, '{"small":[-128,127],"words":["1.10","1.5","7"],"by_name":{"k":"1.10"}}'),
                *(None, None, None),
            ],
            [2, "{}", '{"a":1.1,"b":123456789.123456789}', 5, "0"],
            [15, '{"words":["1.5"],"by_name":{"1.5":"0"}}', None, None, "1.5"],
            [16, '{"small":[0],"words":["0"]}', None, None, "1.5"],
        ],
        {
            '{"id":3,"small":[200]}': "'[200]' is not an array<tinyint>",
            '{"id":4,"words":[1.10]}': "has the number 1.10, which would change",
            '{"id":5,"by_name":{"k":1.10}}': "has the number 1.10, which would change",
            '{"id":6,"moments":[-9223372036854775808]}': "'[-9223372036854775808]' is not an array",
            '{"id":7,"any":1e400}': "has the number 1e400, which would change",
            '{"id":8,"any":{"a":123456789012345678901234567890123456789}}': "has the number 12345",
            '{"id":9,"p":{"t":200}}': "'{200}' is not a struct<",
            '{"id":10,"text":-0}': "is a number whose text would change to 0",
            '{"id":11,"text":1.10,"more":{"text":"x"}}': "has the number 1.10, which would change",
            '{"id":12,"text":-0,"more":"\'text\': 1"}': "has the number -0, which would change",
            '{"id":13,"text":1e400,"more":{"text":"x"}}': "has the number 1e400, which would",
            '{"id":14,"words":[-0]}': "has the number -0, which would change",
        },
        select="id, to_json(struct(small, words, by_name)), to_json(any), of_path, text",
    ),
    "parquet_of_other_types": Case(
        {"id": "int", "day": "date", "amount": "decimal(9, 2)", "big": "bigint"},
        {
            "nulls.parquet": of_arrow(id=pa.array([1]), day=pa.nulls(1)),
            "bytes.parquet": of_arrow(id=pa.array([2]), day=pa.array([3], pa.int8())),
            "digits.parquet": of_arrow(
                id=pa.array([3, 4]),
                amount=pa.array([Decimal("1.1050"), Decimal("2.5000")], pa.decimal128(18, 4)),
            ),
            "large.parquet": of_arrow(id=pa.array([5, 6]), big=pa.array([2.0**63, 2.0**62])),
        },
        [[1, None, None, None], [4, None, "2.50", None], [6, None, None, 2**62]],
        {
            '{"id":2,"day":3}': "'3' is not a date",
            '{"id":3,"amount":1.1050}': "'1.1050' is not a decimal(9, 2)",
            '{"id":5,"big":9.223372036854776E18}': "'9.223372036854776E18' is not a bigint",
        },
        {"format": "parquet"},
    ),
    "repeated_names": Case(
        {"id": "int", "s": "struct<x: int>", "m": "map<string, int>", "n": ("int", ["o", "n"])},
        {
            "a.json": b'{"id":1,"s":{"x":1},"m":{"k":1},"o":{"n":1,"z":2}}\n'
            b'{"id":2,"s":{"x":1,"x":2}}\n{"id":3,"m":{"k":1,"k":2}}\n'
            b'{"id":4,"o":{"n":1,"n":2},"it":"it\'s"}\n{\'id\':5,"s":{"x":1}}\n'
            b'{"id":6,"more":[{"x":1},{"x":2}]}\n'
        },
        [
            [1, '{"s":{"x":1},"m":{"k":1}}', 1],
            [5, '{"s":{"x":1}}', None],
            [6, "{}", None],
        ],
        {
            '{"id":2,"s":{"x":1,"x":2}}': "has an object that repeats a name",
            '{"id":3,"m":{"k":1,"k":2}}': "has an object that repeats a name",
            '{"id":4,"o":{"n":1,"n":2},"it":"it\'s"}': "has an object that repeats a name",
        },
        select="id, to_json(struct(s, m)), n",
    ),
    "computed_numbers": Case(
        {"id": "int", "number": "int", "written": "string", "narrow": "tinyint", "whole": "int"},
        {
            "a.json": lines(
                {"id": 1, "number": 5, "written": "7"},
                {"id": 2, "number": 300},
                {"id": 3, "written": "1.5"},
                {"id": 4, "written": "x"},
            )
        },
        [[1, 5, "7", 5, 7], [4, None, "x", None, None]],
        {
            '{"id": 2, "number": 300}': "'300' is not a tinyint",
            '{"id": 3, "written": "1.5"}': "'1.5' is not an int",
        },
        computed={"narrow": "number", "whole": "written"},
    ),
    "arrays": Case(
        PEOPLE_COLUMNS,
        {
            "pandas.json": lambda path: pd.DataFrame(PEOPLE).to_json(path, orient="records"),
            "polars.json": lambda path: pl.DataFrame(PEOPLE).write_json(path),
            "duckdb.json": of_duckdb("format json, array true", SELECT_PEOPLE),
            "indented.json": json.dumps(PEOPLE, indent=2).encode(),
            "100% of a 'p+w'.json": json.dumps(PEOPLE, ensure_ascii=False).encode("utf-16"),
            "empty.json": b"[]",
            "lines.json": lines(*PEOPLE),
            "cut.json": b'[{"id": 3},\n {"id": 4, "Full',
            "bytes.json": b'[{"id": 5, "Full Name": "\xff"}, [1]]',
            "damaged.json.gz": b"no gzip",
        },
        sorted([*(PEOPLE_ROWS * 5), [3, None, None]], key=str),
        {
            "lines.json": "looks like JSON objects without an array around them: declare layout: ",
            '{"id": 4, "Full': "is not a JSON object",
            '{"id": 5, "Full Name": "\\xff"}': "has bytes that are not UTF-8",
            "[1]": "is a JSON array, and not one object",
            "damaged.json.gz": "cannot be read: Not a gzipped file",
        },
        {"layout": "array"},
    ),
    "objects": Case(
        {"id": "int", "price": "string"},
        {
            "indented.json": b'{\n  "id": 1,\n  "price": "1.10"\n}\n',
            "jq.json": b'{\n  "id": 2\n}\n{\n  "id": 3,\n  "price": 7\n}\n',
            "concatenated.json": b'{"id":4}{"id":5}',
            "sequence.json": b'\x1e{"id":6}\n\x1e{"id":7}\n',
            "array.json": b'[{"id":8}]',
        },
        [[1, "1.10"], [2, None], [3, "7"], [4, None], [5, None], [6, None], [7, None]],
        {"array.json": "looks like one JSON array: declare layout: array; land"},
        {"layout": "object"},
    ),
    "parquet_of_programs": Case(
        {"order_id": ("int", "Order ID"), "at": "timestamp_ntz"},
        {
            "pandas.parquet": lambda path: pd.DataFrame(
                {"Order ID": [1, 2], "at": NANOS.to_pandas()}
            ).to_parquet(path, index=False),
            "polars.parquet": lambda path: pl.DataFrame(
                {"Order ID": [1, 2], "at": pl.from_arrow(NANOS)}
            ).write_parquet(path),
            "polars_micros.parquet": lambda path: pl.DataFrame(
                {"Order ID": [1, 2], "at": [MOMENT, datetime(1969, 12, 31, 23, 59, 59, 999999)]}
            ).write_parquet(path),
            "duckdb.parquet": of_duckdb(
                "format parquet",
                f"select * from (values (1, timestamp_ns '{MOMENT}'), (2, timestamp_ns '{EARLY}'))"
                ' moments("Order ID", "at")',
            ),
            "duckdb_micros.parquet": of_duckdb(
                "format parquet",
                f"select * from (values (1, timestamp '{MOMENT}'), (2, timestamp '{EARLY}'))"
                ' moments("Order ID", "at")',
            ),
            "zone.parquet": arrow(NANOS.cast(pa.timestamp("ns", "UTC"))),
            "int96.parquet": arrow(NANOS, use_deprecated_int96_timestamps=True),
            "dictionary.parquet": arrow(NANOS.cast("string").dictionary_encode()),
            "time.parquet": arrow(NANOS.cast(pa.time64("ns"))),
            "within.parquet": arrow(pa.array([[1], [2]], pa.list_(pa.timestamp("ns")))),
        },
        sorted(MOMENTS * 8),
        {
            "time.parquet": "at is a time of day, which Spark does not read: write it as text; ",
            "within.parquet": "at.list.element has nanoseconds inside a value: write microseconds",
        },
        {"format": "parquet"},
    ),
    "outbox": Case(
        {
            "id": "bigint",
            "event_payload": ("string", "payload"),
            "event_schema": ("string", "schema"),
            "op": "string",
            "origin": ("string", "source"),
            "before": "array<int>",
            "after": "map<string, string>",
            "document": ("struct<`$oid`: string>", "Select"),
        },
        {
            "a.json": lines(
                event("c", OUTBOX),
                {"schema": {"type": "struct"}, "payload": event("d", None, OUTBOX | {"id": 2})},
                event("u", OUTBOX | {"id": 3}, OUTBOX | {"id": 4}),
                event("c", OUTBOX | {"before": "x"}),
                event("t"),
                {"ts_ms": 1},
                {"status": "END", "id": "571:53195832", "event_count": 2, "data_collections": []},
                {"databaseName": "shop", "ddl": "create table t (i int)", "tableChanges": []},
            )
        },
        [
            [n, OUTBOX["payload"], "eu", "add", "web", [1, 2], {"a": "x"}, {"$oid": "f0"}]
            for n in (1, 2)
        ],
        {
            json.dumps(
                event("u", OUTBOX | {"id": 3}, OUTBOX | {"id": 4})
            ): "is changed by an update",
            json.dumps(event("c", OUTBOX | {"before": "x"})): "'x' is not an array<int>",
            json.dumps(event("t")): "is t: the source emptied its table",
            '{"ts_ms": 1}': "is a heartbeat of Debezium: read the topics of tables alone",
            '{"status": "END", "id": "571:53195832", "event_count": 2, "data_collections": []}': (
                "is the metadata of a transaction of Debezium"
            ),
            '{"databaseName": "shop", "ddl": "create table t (i int)", "tableChanges": []}': (
                "is a schema change of Debezium"
            ),
        },
        {"changes": {"key": ["id"], "envelope": "debezium"}},
    ),
    "open_ends": Case(
        {
            "id": "bigint",
            "days": ("int", "day"),
            "micros": "bigint",
            "nanos": "bigint",
            "amount_text": ("string", "as_text"),
            "as_double": "double",
            "amount_bytes": ("binary", "as_bytes"),
            "until_text": ("string", "until"),
            "day": "date",
            "at": "timestamp",
            "at_nanos": "timestamp",
            "amount": "decimal(12, 2)",
            "of_bytes": "decimal(18, 2)",
            "until": "timestamp",
        },
        {"a.json": lines(*(event("c", row) for row in (TIMES, OPEN, EARLIEST)))},
        [
            [1, "1969-12-31", EARLY, NANOS_AS_MICROS, "12.50", "12.5", "12.50", TIMES["until"]],
            [2, None, None, NANOS_AS_MICROS, None, "NaN", "-1.23", "9999-12-31T23:59:59.999999Z"],
            [3, None, None, NANOS_AS_MICROS, "12.50", "12.5", "-360287970189639.68", None],
        ],
        {},
        {"changes": {"key": ["id"], "envelope": "debezium"}},
        {
            "day": "if(days between -719162 and 2932896, date_from_unix_date(days), null)",
            "at": "if(micros between -62135596800000000 and 253402300799999999, "
            "timestamp_micros(micros), null)",
            "at_nanos": "timestamp_micros(nanos div 1000)",
            "amount": "try_cast(nullif(amount_text, 'NaN') as decimal(12, 2))",
            "of_bytes": "(cast(conv(hex(amount_bytes), 16, 10) as decimal(20)) - "
            "if(hex(amount_bytes) >= '8', "
            "cast(conv(repeat('FF', octet_length(amount_bytes)), 16, 10) as decimal(20)) + 1, 0)) "
            "/ 100",
            "until": "case until_text when 'infinity' then timestamp'9999-12-31 23:59:59.999999Z' "
            "when '-infinity' then null else try_cast(until_text as timestamp) end",
        },
        select="id, day, at, at_nanos, amount, cast(as_double as string), of_bytes, "
        "replace(cast(until as string), ' ', 'T') || 'Z'",
    ),
}


@pytest.fixture(scope="module")
def landed(
    request: pytest.FixtureRequest, worker: Popen[str], tmp_path_factory: pytest.TempPathFactory
) -> Ingester:
    """Return a lake with the streams of the selected tests, ingested once."""
    ingester = Ingester(worker, tmp_path_factory.mktemp("field") / "the läke")
    params = [getattr(item, "callspec", None) for item in request.session.items]
    names = {found.params.get("name") for found in params if found is not None}
    cases = {name: case for name, case in CASES.items() if name in names}
    for name, case in cases.items():
        for file, written in case.files.items():
            path = ingester.land(file, stream=name)
            if callable(written):
                written(path)
            else:
                path.write_bytes(written)
    printed = ingester.run(*[case.node(name) for name, case in cases.items()])
    assert not [line for line in printed if "failed" in line], printed
    return ingester


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_data_of_other_programs_are_right_or_refused_by_name(landed: Ingester, name: str) -> None:
    case = CASES[name]
    rows = landed.rows(name, case.select or ", ".join(case.columns), order="1, 2")
    assert sorted(json.loads(json.dumps(rows)), key=str) == sorted(map(list, case.rows), key=str)
    refused = {
        record.removeprefix(f"landing/{name}/").rstrip(): message
        for *_, message, record in landed.quarantine(name)
    }
    assert refused.keys() == case.refused.keys()
    for record, reason in case.refused.items():
        assert refused[record].startswith(reason), refused[record]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["arrays", "names_of_json", "odd_headers", "parquet_of_programs"])
def test_records_that_are_read_again_are_the_same(landed: Ingester, name: str) -> None:
    (line,) = audit(landed, CASES[name].node(name))
    assert line.endswith(": right"), line


@pytest.mark.slow
def test_java_and_python_agree_about_every_declared_encoding(landed: Ingester) -> None:
    texts = {"shift_jis": "東京ソ", "euc-kr": "서울", "tis-620": "กรุง", "windows-1255": "שלום"}
    for group in ("ms932", "euc-jp", "iso-2022-jp"):
        texts[group] = "東京ソ"
    for group in ("gb2312", "gbk", "gb18030", "big5"):
        texts[group] = "北京"
    texts |= dict.fromkeys(("koi8-r", "koi8-u", "ibm866", "windows-1251", "iso-8859-5"), "Москва")
    asked = [f"hex(encode('{texts.get(name, 'Az')}', '{name}'))" for name in ENCODINGS]
    (row,) = landed.ask(sql=f"select {', '.join(f'{a} as e{n}' for n, a in enumerate(asked))}")
    java = dict(zip(ENCODINGS, map(bytes.fromhex, row.values()), strict=True))
    for name, data in java.items():
        big = f"{name}be" if name == "utf-32" else name  # Java writes the big end first
        assert data.decode(big) == texts.get(name, "Az"), name
