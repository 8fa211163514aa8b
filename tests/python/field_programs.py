"""Files that pandas, Polars, DuckDB and Arrow write in the test, with their right rows."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
from pyarrow import parquet

Write = Callable[[Path], object]

DAY, AT = date(2026, 2, 3), datetime(2026, 2, 3, 4, 5, 6, 123456)
ROWS: list[list[Any]] = [
    [1, 'Zoë, "Z"\n', 1.5, "2026-02-03", str(AT), True],
    [2, None, None, None, None, None],
]
COLUMNS = {
    "id": "int",
    "name": "string",
    "ratio": "double",
    "day": "date",
    "at": "timestamp_ntz",
    "ok": "boolean",
}
RECORDS: list[dict[str, Any]] = [
    {"id": 1, "name": 'Zoë, "Z"\n', "ratio": 1.5, "day": DAY, "at": AT, "ok": True},
    {"id": 2, "name": None, "ratio": None, "day": None, "at": None, "ok": None},
]
SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("name", pa.string()),
        ("ratio", pa.float64()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("ok", pa.bool_()),
    ]
)
ARROW = pa.Table.from_pylist(RECORDS, SCHEMA)
POLARS = pl.DataFrame(RECORDS, pl.DataFrame(ARROW).schema)
PANDAS = pd.DataFrame(RECORDS)
NULLABLE = ARROW.to_pandas(types_mapper=pd.ArrowDtype)


def duck(options: str, query: str = "select * from arrow") -> Write:
    def write(path: Path) -> None:
        with duckdb.connect() as connection:
            connection.register("arrow", ARROW)
            connection.execute(f"copy ({query}) to '{path}' ({options})")

    return write


def arrow(table: pa.Table = ARROW, **how: Any) -> Write:
    return lambda path: parquet.write_table(table, path, **how)


def one(kind: pa.DataType, *values: Any, **how: Any) -> Write:
    """Write a file of the columns `id` and `v`."""
    ids = pa.array(range(1, len(values) + 1), pa.int32())
    return arrow(pa.table({"id": ids, "v": pa.array(values, kind)}), **how)


def number(value: int) -> bytes:
    """Return a whole number as Avro writes it."""
    rest, found = (value << 1) ^ (value >> 63), bytearray()
    while rest > 127:
        found.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*found, rest])


def text(value: str) -> bytes:
    """Return a text as Avro writes it."""
    return number(len(value.encode())) + value.encode()


def avro(kind: Any, *written: bytes) -> Write:
    """Write a file of Avro of the columns `id` and `v`, whose values are given as bytes."""
    fields = [{"name": "id", "type": "int"}, {"name": "v", "type": kind}]
    schema = json.dumps({"type": "record", "name": "row", "fields": fields})
    rows = b"".join(number(i) + value for i, value in enumerate(written, 1))
    head = b"Obj\x01" + number(1) + text("avro.schema") + text(schema) + number(0)
    block = number(len(written)) + number(len(rows)) + rows
    return lambda path: path.write_bytes(head + b"-" * 16 + block + b"-" * 16)


def file(write: Write, rows: Any, *refused: str, **more: Any) -> dict[str, Any]:
    return {"write": write, "rows": rows, "refused": list(refused), **more}


def values(
    data_type: str, name: str, form: str = "parquet", **files: dict[str, Any]
) -> dict[str, Any]:
    return {
        "stream": f"{form}_{name}",
        "columns": {"id": "int", "v": data_type},
        "declared": {"format": form},
        "select": "id, v, _rescued",
        "files": {title.replace("_", " "): case for title, case in files.items()},
    }


def v(*values: Any) -> list[list[Any]]:
    return [[number, value, None] for number, value in enumerate(values, 1)]


PROGRAMS: list[dict[str, Any]] = [
    {
        "stream": "csv_of_programs",
        "columns": COLUMNS,
        "declared": {"format": "csv"},
        "files": {
            "pandas": file(lambda path: NULLABLE.to_csv(path, index=False), ROWS),
            "pandas, all in quotes": file(
                lambda path: NULLABLE.to_csv(path, index=False, quoting=1),
                [ROWS[0], [2, "", None, None, None, None]],
            ),
            "pandas, gzip": file(
                lambda path: NULLABLE.to_csv(path, index=False), ROWS, ending=".csv.gz"
            ),
            "pandas, CR LF and a byte order mark": file(
                lambda path: NULLABLE.to_csv(
                    path, index=False, lineterminator="\r\n", encoding="utf-8-sig"
                ),
                ROWS,
            ),
            "Polars": file(lambda path: POLARS.write_csv(path), ROWS),
            "Polars, all in quotes": file(
                lambda path: POLARS.write_csv(path, quote_style="always", include_bom=True),
                [ROWS[0], [2, "", None, None, None, None]],
            ),
            "DuckDB": file(duck("format csv, header"), ROWS),
            "DuckDB, all in quotes": file(
                duck("format csv, header, force_quote *"),
                ROWS,
            ),
            "Arrow": file(lambda path: __import__("pyarrow.csv").csv.write_csv(ARROW, path), ROWS),
        },
    },
    {
        "stream": "lines_of_programs",
        "columns": COLUMNS,
        "files": {
            "pandas": file(
                lambda path: (
                    PANDAS.astype({"day": str, "at": str})
                    .head(1)
                    .to_json(path, orient="records", lines=True)
                ),
                ROWS[:1],
            ),
            "pandas, its dates as milliseconds": file(
                lambda path: PANDAS.to_json(path, orient="records", lines=True),
                ROWS[1:],
                "'1770076800000' is not a date",
            ),
            "pandas, dates in ISO": file(
                lambda path: PANDAS.to_json(
                    path, orient="records", lines=True, date_format="iso", date_unit="us"
                ),
                ROWS,
            ),
            "Polars": file(lambda path: POLARS.write_ndjson(path), ROWS),
            "DuckDB": file(duck("format json"), ROWS),
            "DuckDB, zstd": file(duck("format json, compression zstd"), ROWS, ending=".json.zst"),
            "Polars, zstd": file(
                lambda path: POLARS.write_ndjson(path, compression="zstd", check_extension=False),
                ROWS,
                ending=".json.zst",
            ),
        },
    },
    {
        "stream": "arrays_of_programs",
        "columns": COLUMNS,
        "declared": {"layout": "array"},
        "files": {
            "pandas": file(
                lambda path: PANDAS.to_json(
                    path, orient="records", date_format="iso", date_unit="us"
                ),
                ROWS,
            ),
            "pandas, indented": file(
                lambda path: PANDAS.to_json(
                    path, orient="records", indent=2, date_format="iso", date_unit="us"
                ),
                ROWS,
            ),
            "pandas, by columns": file(
                lambda path: PANDAS.to_json(path), [], "looks like JSON objects without an array"
            ),
            "pandas, rows without names": file(
                lambda path: PANDAS.to_json(path, orient="values"),
                [],
                "is a JSON array, and not one object",
                "is a JSON array, and not one object",
            ),
            "Polars": file(lambda path: POLARS.write_json(path), ROWS),
            "DuckDB": file(duck("format json, array true"), ROWS),
        },
    },
    {
        "stream": "parquet_of_programs",
        "columns": COLUMNS,
        "declared": {"format": "parquet"},
        "files": {
            "pandas": file(lambda path: PANDAS.to_parquet(path), ROWS),
            "pandas, types of Arrow": file(lambda path: NULLABLE.to_parquet(path), ROWS),
            "pandas, an index": file(lambda path: NULLABLE.set_index("id").to_parquet(path), ROWS),
            "Polars": file(lambda path: POLARS.write_parquet(path), ROWS),
            "Polars, gzip": file(lambda path: POLARS.write_parquet(path, compression="gzip"), ROWS),
            "Polars, brotli": file(
                lambda path: POLARS.write_parquet(path, compression="brotli"),
                [],
                "cannot be read: ",
            ),
            "DuckDB": file(duck("format parquet"), ROWS),
            "DuckDB, version 2 of the format": file(
                duck("format parquet, parquet_version v2"),
                [],
                "ratio has the encoding BYTE_STREAM_SPLIT, which Spark does not read: write it",
            ),
            "DuckDB, zstd": file(duck("format parquet, compression zstd"), ROWS),
            "DuckDB, lz4": file(duck("format parquet, compression lz4_raw"), ROWS),
            "Arrow": file(arrow(), ROWS),
            "Arrow, no compression and no statistics": file(
                arrow(compression="none", write_statistics=False), ROWS
            ),
            "Arrow, pages of version 2": file(
                arrow(data_page_version="2.0", compression="zstd"), ROWS
            ),
            "Arrow, format 1.0": file(arrow(version="1.0"), ROWS),
            "Arrow, INT96": file(arrow(use_deprecated_int96_timestamps=True), ROWS),
            "Arrow, delta encodings": file(
                arrow(
                    use_dictionary=False,
                    column_encoding={
                        "id": "DELTA_BINARY_PACKED",
                        "name": "DELTA_BYTE_ARRAY",
                    },
                ),
                ROWS,
            ),
            "Arrow, bytes of numbers apart": file(
                arrow(use_dictionary=False, column_encoding={"ratio": "BYTE_STREAM_SPLIT"}),
                [],
                "ratio has the encoding BYTE_STREAM_SPLIT, which Spark does not read: write it",
            ),
            "Arrow, lengths of texts apart": file(
                arrow(use_dictionary=False, column_encoding={"name": "DELTA_LENGTH_BYTE_ARRAY"}),
                ROWS,
            ),
            "Arrow, a group for each row": file(arrow(row_group_size=1), ROWS),
            "Arrow, an index of pages and checksums": file(
                arrow(write_page_index=True, write_page_checksum=True), ROWS
            ),
            "Arrow, a schema without rows": file(arrow(ARROW.slice(0, 0)), []),
            "Arrow, columns in another order": file(
                arrow(ARROW.select(list(reversed(ARROW.column_names)))), ROWS
            ),
            "Arrow, names in capitals": file(
                arrow(ARROW.rename_columns(list(map(str.upper, ARROW.column_names)))), ROWS
            ),
            "Arrow, large texts and dictionaries": file(
                arrow(
                    ARROW.set_column(
                        1, "name", ARROW["name"].cast(pa.large_string()).dictionary_encode()
                    )
                ),
                ROWS,
            ),
            "Arrow, a moment in another unit": file(
                arrow(ARROW.set_column(4, "at", ARROW["at"].cast(pa.timestamp("ms"), safe=False))),
                [[*ROWS[0][:4], "2026-02-03 04:05:06.123000", True], ROWS[1]],
            ),
            "Arrow, a moment in seconds": file(
                arrow(ARROW.set_column(4, "at", ARROW["at"].cast(pa.timestamp("s"), safe=False))),
                [[*ROWS[0][:4], "2026-02-03 04:05:06", True], ROWS[1]],
            ),
            "Arrow, days as milliseconds": file(
                arrow(ARROW.set_column(3, "day", ARROW["day"].cast(pa.date64()))), ROWS
            ),
            "Arrow, encrypted": file(
                lambda path: path.write_bytes(b"PARE\x15\x04PARE"), [], "cannot be read: "
            ),
            "nothing": file(lambda path: path.write_bytes(b""), [], "cannot be read: "),
            "a file that was cut": file(
                lambda path: (arrow()(path), path.write_bytes(path.read_bytes()[:-20])),
                [],
                "cannot be read: ",
            ),
            "a damaged page": file(
                lambda path: (
                    arrow(compression="snappy")(path),
                    path.write_bytes(
                        path.read_bytes()[:10] + b"\xff" * 30 + path.read_bytes()[40:]
                    ),
                ),
                [],
                "cannot be read: ",
            ),
            "lines of JSON": file(
                lambda path: path.write_bytes(b'{"id": 1}\n'), [], "cannot be read: "
            ),
        },
    },
    values(
        "bigint",
        "whole",
        int8=file(one(pa.int8(), -128, None), v(-128, None)),
        uint8=file(one(pa.uint8(), 255), v(255)),
        uint16=file(one(pa.uint16(), 65535), v(65535)),
        uint32=file(one(pa.uint32(), 2**32 - 1), v(2**32 - 1)),
        uint64=file(one(pa.uint64(), 5, 2**64 - 1), v(5), "'18446744073709551615' is not a bigint"),
        int64=file(one(pa.int64(), -(2**63), 2**63 - 1), v(-(2**63), 2**63 - 1)),
        doubles_of_pandas=file(
            lambda path: pd.DataFrame({"id": [1, 2, 3], "v": [1.0, None, 1.5]}).to_parquet(path),
            v(1, None),
            "'1.5' is not a bigint",
        ),
        a_decimal_without_fraction=file(
            one(pa.decimal128(20, 2), Decimal("7.00"), Decimal("7.50")),
            v(7),
            "'7.50' is not a bigint",
        ),
        texts=file(
            one(pa.string(), "5", " 5", "x", "1.0"),
            v(5, 5),
            "'x' is not a bigint",
            "'1.0' is not a bigint",
        ),
        booleans=file(one(pa.bool_(), True), [], "'true' is not a bigint"),
        moments=file(
            one(pa.timestamp("us"), AT), [], "'2026-02-03 04:05:06.123456' is not a bigint"
        ),
        whole_moments=file(
            one(pa.timestamp("us", "UTC"), datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)),
            [],
            "'1970-01-01 00:00:05' is not a bigint",
        ),
        bytes=file(one(pa.binary(), b"5"), [], "'0x35' is not a bigint"),
        doubles_at_its_end=file(
            one(pa.float64(), 2.0**62, 2.0**63, -(2.0**63)),
            [[1, 2**62, None], [3, -(2**63), None]],
            "'9.223372036854776E18' is not a bigint",
        ),
        durations=file(one(pa.duration("us"), timedelta(seconds=1)), v(1_000_000)),
        hugeint_of_duckdb=file(
            duck("format parquet", "select 1::int as id, 5::hugeint as v"), v(5)
        ),
    ),
    values(
        "string",
        "texts",
        large=file(one(pa.large_string(), "a", ""), v("a", "")),
        views=file(one(pa.string_view(), "a", None), v("a", None)),
        bytes_that_are_text=file(one(pa.binary(), b"a"), v("a")),
        bytes_that_are_none=file(one(pa.binary(), b"\xff"), [], "has bytes that are not UTF-8"),
        a_category_of_pandas=file(
            lambda path: pd.DataFrame(
                {"id": pd.array([1, 2], "int32"), "v": pd.Categorical(["a", None])}
            ).to_parquet(path),
            v("a", None),
        ),
        an_enumeration_of_Polars=file(
            lambda path: pl.DataFrame(
                {"id": [1], "v": ["a"]}, schema={"id": pl.Int32, "v": pl.Enum(["b", "a"])}
            ).write_parquet(path),
            v("a"),
        ),
        an_enumeration_of_DuckDB=file(
            duck("format parquet", "select 1::int as id, 'a'::enum('b', 'a') as v"), v("a")
        ),
        json_of_DuckDB=file(
            duck("format parquet", "select 1::int as id, '{\"a\": 1.10}'::json as v"),
            v('{"a": 1.10}'),
        ),
        uuid_of_DuckDB=file(
            duck(
                "format parquet",
                "select 1::int as id, '00000000-0000-0000-0000-0000000000ff'::uuid as v",
            ),
            [],
            "v is a UUID, which Spark does not read: write it as text; land it again under",
        ),
        uuid_that_is_not_declared=file(
            duck("format parquet", "select 1::int as id, 'a' as v, uuid() as more"),
            [],
            "more is a UUID, which Spark does not read: write it as text",
        ),
        uuids_within=file(
            duck("format parquet", "select 1::int as id, [uuid()] as v"),
            [],
            "v.list.element is a UUID, which Spark does not read: write it as text",
        ),
        interval_of_DuckDB=file(
            duck("format parquet", "select 1::int as id, interval 1 day as v"),
            [],
            "v is an interval, which Spark does not read: write it as text",
        ),
        whole_numbers=file(one(pa.int64(), 5), v("5")),
        doubles=file(one(pa.float64(), 1.5), v("1.5")),
        booleans=file(one(pa.bool_(), True), v("true")),
        null_alone=file(one(pa.null(), None), v(None)),
    ),
    values(
        "decimal(20, 2)",
        "decimals",
        of_32_bits=file(
            one(pa.decimal128(5, 2), Decimal("-1.50"), store_decimal_as_integer=True), v("-1.50")
        ),
        of_64_bits=file(
            one(pa.decimal128(15, 2), Decimal("1234567890123.45"), store_decimal_as_integer=True),
            v("1234567890123.45"),
        ),
        of_bytes=file(
            one(pa.decimal128(20, 2), Decimal("-123456789012345678.90")),
            v("-123456789012345678.90"),
        ),
        of_256_bits=file(
            one(pa.decimal256(50, 2), Decimal("1.50")), [], "v has 50 digits, and Spark reads 38"
        ),
        of_a_finer_scale=file(
            one(pa.decimal128(20, 4), Decimal("1.5000"), Decimal("1.5050")),
            v("1.50"),
            "'1.5050' is not a decimal(20, 2)",
        ),
        of_Polars=file(
            lambda path: pl.DataFrame(
                {"id": [1], "v": [Decimal("1.50")]}, schema={"id": pl.Int32, "v": pl.Decimal(38, 2)}
            ).write_parquet(path),
            v("1.50"),
        ),
        doubles=file(
            one(pa.float64(), 0.5, 1e300, float("nan")),
            v("0.50"),
            "'1.0E300' is not a decimal",
            "'NaN' is not a decimal",
        ),
        doubles_with_more_digits=file(
            one(pa.float64(), 19.99, 0.1 + 0.2),
            v("19.99"),
            "'0.30000000000000004' is not a decimal",
        ),
        booleans=file(one(pa.bool_(), True), [], "'true' is not a decimal(20, 2)"),
        uint64_of_Polars=file(
            lambda path: pl.DataFrame(
                {"id": [1], "v": [2**63]}, schema={"id": pl.Int32, "v": pl.UInt64}
            ).write_parquet(path),
            [],
            "'9223372036854775808' is not a decimal(20, 2)",
        ),
        int128_of_Polars=file(
            lambda path: pl.DataFrame(
                {"id": [1], "v": [5]}, schema={"id": pl.Int32, "v": pl.Int128}
            ).write_parquet(path),
            [],
            f"'0x05{'00' * 15}' is not a decimal(20, 2)",
        ),
    ),
    values(
        "double",
        "doubles",
        all_of_them=file(
            one(pa.float64(), -0.0, float("nan"), float("inf"), 5e-324, None),
            v(-0.0, float("nan"), float("inf"), 5e-324, None),
        ),
        floats=file(one(pa.float32(), 0.5, 0.1), v(0.5, 0.10000000149011612)),
        half_floats=file(one(pa.float16(), 0.5), [], "v is a float of 16 bits"),
        whole_numbers=file(
            one(pa.int64(), 2**53 + 1, 5, 2**63 - 1, -(2**63), 2**60),
            [[2, 5.0, None], [4, -(2.0**63), None], [5, 2.0**60, None]],
            "'9007199254740993' is not a double",
            "'9223372036854775807' is not a double",
        ),
        decimals=file(
            one(pa.decimal128(20, 2), Decimal("0.10"), Decimal("123456789012345678.91")),
            v(0.1),
            "'123456789012345678.91' is not a double",
        ),
        booleans=file(one(pa.bool_(), True), [], "'true' is not a double"),
        moments=file(one(pa.timestamp("us", "UTC"), 0), [], "'1970-01-01 00:00:00' is not a dou"),
    ),
    values(
        "real",
        "floats",
        doubles=file(
            one(pa.float64(), 0.5, 0.1, float("nan"), 1e300),
            [[1, 0.5, None], [3, float("nan"), None]],
            "'0.1' is not a float",
            "'1.0E300' is not a float",
        ),
        whole_numbers=file(
            one(pa.int32(), 2**24, 2**24 + 1), v(2.0**24), "'16777217' is not a float"
        ),
    ),
    values(
        "integer",
        "aliases",
        doubles=file(one(pa.float64(), 1.0, 1.5), v(1), "'1.5' is not an int"),
        floats=file(one(pa.float32(), 2.0**31), [], "'2.14748365E9' is not an int"),
        larger_numbers=file(one(pa.int64(), 7, 2**40), v(7), "'1099511627776' is not an int"),
        texts=file(one(pa.string(), "7", "1.5"), v(7), "'1.5' is not an int"),
        booleans=file(one(pa.bool_(), True), [], "'true' is not an int"),
    ),
    values(
        "boolean",
        "truth",
        whole_numbers=file(one(pa.int64(), 1), [], "'1' is not a boolean"),
        doubles=file(one(pa.float64(), 0.0), [], "'0.0' is not a boolean"),
        texts=file(one(pa.string(), "true", "x"), v(True), "'x' is not a boolean"),
    ),
    values(
        "date",
        "days",
        moments=file(
            one(
                pa.timestamp("us", "UTC"), datetime(2026, 2, 3, tzinfo=UTC), AT.replace(tzinfo=UTC)
            ),
            v("2026-02-03"),
            "'2026-02-03 04:05:06.123456' is not a date",
        ),
        whole_numbers=file(one(pa.int32(), 20487), [], "'20487' is not a date"),
        booleans=file(one(pa.bool_(), True), [], "'true' is not a date"),
    ),
    values(
        "struct<byte: byte, at: timestamp_ltz, more: array<long>>",
        "aliases_within",
        of_Arrow=file(
            one(
                pa.struct(
                    [("byte", pa.int64()), ("at", pa.string()), ("more", pa.list_(pa.bool_()))]
                ),
                {"byte": 5, "at": "2026-02-03"},
                {"byte": 200},
                {"at": "12:00"},
                {"more": [True]},
            ),
            v({"byte": 5, "at": "2026-02-03 00:00:00", "more": None}),
            "'{200, null, null}' is not a struct<byte: tinyint",
            "'{null, 12:00, null}' is not a struct<byte: tinyint",
            "'{null, null, [true]}' is not a struct<byte: tinyint",
        ),
    ),
    values(
        "timestamp_ltz",
        "moments",
        with_a_zone=file(
            one(pa.timestamp("us", "Europe/Berlin"), AT.replace(tzinfo=UTC)), v(str(AT))
        ),
        nanoseconds=file(
            one(pa.timestamp("ns", "UTC"), 1_770_091_506_123_456_789, -1),
            v(str(AT), "1969-12-31 23:59:59.999999"),
        ),
        before_1582=file(
            one(
                pa.timestamp("us", "UTC"),
                datetime(1, 1, 1, tzinfo=UTC),
                datetime(1500, 2, 28, tzinfo=UTC),
            ),
            v("0001-01-01 00:00:00", "1500-02-28 00:00:00"),
        ),
        after_2262=file(
            one(pa.timestamp("us", "UTC"), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
            v("9999-12-31 23:59:59.999999"),
        ),
        INT96_after_2262=file(
            one(
                pa.timestamp("us"),
                datetime(9999, 12, 31),
                datetime(1600, 1, 1),
                use_deprecated_int96_timestamps=True,
            ),
            v("9999-12-31 00:00:00", "1600-01-01 00:00:00"),
        ),
        after_9999=file(one(pa.timestamp("us", "UTC"), 2**62), [], "'+148"),
        zone_of_Polars=file(
            lambda path: (
                pl.DataFrame(
                    {"id": [1], "v": [AT]}, schema={"id": pl.Int32, "v": pl.Datetime("ns")}
                )
                .with_columns(pl.col("v").dt.replace_time_zone("Asia/Tokyo"))
                .write_parquet(path)
            ),
            v("2026-02-02 19:05:06.123456"),
        ),
        zone_of_DuckDB=file(
            duck("format parquet", f"select 1::int as id, timestamptz '{AT}+00' as v"), v(str(AT))
        ),
        time_of_day=file(one(pa.time64("us"), time(4, 5)), [], "v is a time of day"),
        texts=file(
            one(pa.string(), "2026-02-03 04:05:06", "12:00"),
            v("2026-02-03 04:05:06"),
            "'12:00' is not a timestamp",
        ),
        whole_numbers=file(one(pa.int64(), 1770091506), [], "'1770091506' is not a timestamp"),
        doubles=file(one(pa.float64(), 1.5), [], "'1.5' is not a timestamp"),
        decimals=file(
            one(pa.decimal128(20, 6), Decimal("1.5")), [], "'1.500000' is not a timestamp"
        ),
        booleans=file(one(pa.bool_(), True), [], "'true' is not a timestamp"),
        days=file(one(pa.date32(), DAY), v("2026-02-03 00:00:00")),
    ),
    values(
        "array<int>",
        "lists",
        of_Arrow=file(one(pa.list_(pa.int32()), [1, None], [], None), v([1, None], [], None)),
        large=file(one(pa.large_list(pa.int32()), [1]), v([1])),
        of_two_levels=file(
            one(pa.list_(pa.int32()), [1, 2], use_compliant_nested_type=False), v([1, 2])
        ),
        of_Polars=file(
            lambda path: pl.DataFrame(
                {"id": [1], "v": [[1]]}, schema={"id": pl.Int32, "v": pl.List(pl.Int32)}
            ).write_parquet(path),
            v([1]),
        ),
        of_fixed_size=file(one(pa.list_(pa.int32(), 2), [1, 2]), v([1, 2])),
        of_DuckDB=file(
            duck("format parquet", "select 1::int as id, [1, 2]::int[] as v"), v([1, 2])
        ),
        of_larger_numbers=file(
            one(pa.list_(pa.int64()), [1], [2**40]),
            v([1]),
            "'[1099511627776]' is not an array<int>",
        ),
    ),
    values(
        "struct<a: int, b: array<struct<c: string>>>",
        "structs",
        of_Arrow=file(
            one(
                pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("c", pa.string())])))]),
                {"a": 1, "b": [{"c": "x"}, {"c": None}, None]},
                {"a": None, "b": []},
                {"a": None, "b": None},
                None,
            ),
            v(
                {"a": 1, "b": [{"c": "x"}, {"c": None}, None]},
                {"a": None, "b": []},
                {"a": None, "b": None},
                None,
            ),
        ),
        of_Polars=file(
            lambda path: pl.DataFrame(
                {"id": pl.Series([1], dtype=pl.Int32), "v": [{"a": 1, "b": [{"c": "x"}]}]}
            ).write_parquet(path),
            v({"a": 1, "b": [{"c": "x"}]}),
        ),
        of_DuckDB=file(
            duck("format parquet", "select 1::int as id, {'b': [{'c': 'x'}], 'a': 1} as v"),
            v({"a": 1, "b": [{"c": "x"}]}),
        ),
    ),
    values(
        "map<string, int>",
        "maps",
        of_Arrow=file(
            one(pa.map_(pa.string(), pa.int32()), [("a", 1), ("b", None)], [], None),
            v({"a": 1, "b": None}, {}, None),
        ),
        of_DuckDB=file(
            duck("format parquet", "select 1::int as id, map {'a': 1} as v"), v({"a": 1})
        ),
        with_a_key_twice=file(
            one(pa.map_(pa.string(), pa.int32()), [("a", 1), ("a", 2)]), [], "has a key twice"
        ),
    ),
    values(
        "map<string, struct<codes: array<map<string, int>>>>",
        "maps_within",
        with_a_key_twice=file(
            one(
                pa.map_(
                    pa.string(),
                    pa.struct([("codes", pa.list_(pa.map_(pa.string(), pa.int32())))]),
                ),
                [("a", {"codes": [[("b", 1), ("c", 1)], None]})],
                [("a", {"codes": [[("b", 1), ("b", 1)]]})],
                [("a", None), ("a", None)],
            ),
            v({"a": {"codes": [{"b": 1, "c": 1}, None]}}),
            "has a key twice in a map",
            "has a key twice in a map",
        ),
    ),
    values(
        "map<string, long>",
        "maps",
        "avro",
        of_avro=file(
            avro(
                {"type": "map", "values": "int"},
                number(2) + text("a") + number(1) + text("b") + number(2) + number(0),
                number(2) + text("a") + number(1) + text("a") + number(2) + number(0),
                number(0),
            ),
            v({"a": 1, "b": 2}, {"a": 2}, {}),  # Avro's own library takes the last value
        ),
    ),
    values(
        "integer",
        "aliases",
        "avro",
        doubles=file(
            avro("double", struct.pack("<d", 1.0), struct.pack("<d", 1.5)),
            v(1),
            "'1.5' is not an int",
        ),
        booleans=file(avro("boolean", b"\x01"), [], "'true' is not an int"),
        larger_numbers=file(avro("long", number(-7), number(2**40)), v(-7), "'1099511627776' is"),
    ),
    values(
        "timestamp",
        "moments",
        "avro",
        milliseconds=file(
            avro({"type": "long", "logicalType": "timestamp-millis"}, number(1770091506789)),
            v("2026-02-03 04:05:06.789000"),
        ),
        whole_numbers=file(avro("long", number(1770091506)), [], "'1770091506' is not a timest"),
        floats=file(avro("float", struct.pack("<f", 1.5)), [], "'1.5' is not a timestamp"),
    ),
    {
        "stream": "avro_of_polars",
        "columns": {
            "id": "int",
            "name": "string",
            "ratio": "double",
            "day": "date",
            "at": "timestamp",
            "ok": "boolean",
        },
        "declared": {"format": "avro"},
        "files": {
            "Polars": file(lambda path: POLARS.write_avro(path), ROWS),
            "Polars, snappy": file(
                lambda path: POLARS.write_avro(path, compression="snappy"), ROWS
            ),
            "Polars, deflate": file(
                lambda path: POLARS.write_avro(path, compression="deflate"), ROWS
            ),
            "a file that was cut": file(
                lambda path: (POLARS.write_avro(path), path.write_bytes(path.read_bytes()[:-5])),
                [],
                "cannot be read: ",
            ),
            "nothing": file(lambda path: path.write_bytes(b""), [], "cannot be read: "),
            "lines of JSON": file(
                lambda path: path.write_bytes(b'{"id": 1}\n'), [], "cannot be read: "
            ),
        },
    },
]
