"""Test that rows of Spark come back from PostgreSQL and from a topic as they were."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ingestion import Ingester, node
from publishing import to_kafka, to_postgres
from pyspark.sql import types as T

from headwaters.publish.changes import PublishedTable

pytestmark = pytest.mark.slow  # a broker, a server, and two Sparks

# PostgreSQL has no text with a zero byte, and neither has text with half a surrogate pair
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
DATES = st.dates(date(1, 1, 1), date(9999, 12, 31))
MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999))
DOUBLES = st.floats() | st.sampled_from([0.1, -0.0, 5e-324, 1e300, 2.0**53])
SINGLES = st.floats(width=32)
DECIMALS = st.decimals(
    allow_nan=False, allow_infinity=False, places=10, min_value=-(10**27), max_value=10**27
)
INNER = T.StructType(
    [
        T.StructField("t", T.TimestampType()),
        T.StructField("x", T.DoubleType()),
        T.StructField("texts", T.ArrayType(T.StringType())),
    ]
)


def whole(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


KINDS: dict[str, tuple[T.DataType, st.SearchStrategy[Any]]] = {
    "truth": (T.BooleanType(), st.booleans()),
    "tiny": (T.ByteType(), whole(8)),
    "small": (T.ShortType(), whole(16)),
    "number": (T.IntegerType(), whole(32)),
    "large": (T.LongType(), whole(64)),
    "single": (T.FloatType(), SINGLES),
    "twice": (T.DoubleType(), DOUBLES),
    "exact": (T.DecimalType(38, 10), DECIMALS),
    "text": (T.StringType(), TEXTS),
    "bytes": (T.BinaryType(), st.binary(max_size=8)),
    "day": (T.DateType(), DATES),
    "moment": (T.TimestampType(), MOMENTS.map(lambda one: one.replace(tzinfo=UTC))),
    "wall": (T.TimestampNTZType(), MOMENTS),
    "list": (T.ArrayType(T.DoubleType()), st.lists(DOUBLES | st.none(), max_size=3)),
    "days": (T.ArrayType(T.DateType()), st.lists(DATES | st.none(), max_size=2)),
    "pairs": (
        T.MapType(T.StringType(), T.DecimalType(38, 10)),
        st.dictionaries(TEXTS, DECIMALS | st.none(), max_size=2),
    ),
    "inner": (
        INNER,
        st.tuples(
            MOMENTS.map(lambda one: one.replace(tzinfo=UTC)) | st.none(),
            DOUBLES | st.none(),
            st.lists(TEXTS | st.none(), max_size=2) | st.none(),
        ),
    ),
}
SCHEMA = T.StructType(
    [
        T.StructField("id", T.LongType()),
        *(T.StructField(name, kind) for name, (kind, _) in KINDS.items()),
    ]
)
ROWS = st.lists(
    st.tuples(*(values | st.none() for _, values in KINDS.values())), min_size=60, max_size=60
)


@settings(
    max_examples=2,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)
@given(rows=ROWS)
def test_rows_come_back_from_postgresql_and_from_a_topic_as_they_were(
    rows: list[tuple[Any, ...]],
    spark: Any,
    ingester: Ingester,
    broker: str,
    postgres: str,
) -> None:
    run = str(time.time_ns())
    path, topic, table = ingester.lake / f"gold_{run}" / "value", f"r_{run}", f"t_{run}"
    numbered = [(number, *row) for number, row in enumerate(rows)]
    spark.createDataFrame(numbered, SCHEMA).write.format("delta").save(str(path))
    source = PublishedTable("gold.value", path, ["id"])
    for target in (to_postgres(postgres, f"public.{table}"), to_kafka(broker, topic)):
        target.publish(source)
        compared = target.compare(source)
        assert compared is not None and (compared.missing, compared.extra) == (0, 0)
    types = {field.name: field.dataType.simpleString() for field in SCHEMA}
    of_topic = {"from": "kafka", "path": None, "topics": [topic], "servers": broker}
    streams = {f"topic_{run}": of_topic, f"rows_{run}": {}}
    with psycopg.connect(postgres) as connection:
        # the only form of its bytes in JSON is hexadecimal
        bytes_ = "translate(encode(bytes, 'base64'), E'\\n', '')"
        select = (
            f"select to_jsonb(v) - 'bytes' || jsonb_build_object('bytes', {bytes_}) from {table} v"
        )
        lines = [
            str(row[0])
            for row in connection.execute(f"select x::text from ({select}) q(x)".encode())
        ]
    ingester.land("rows.json", *lines, stream=f"rows_{run}")
    ingester.run(*[node(types, how, name) for name, how in streams.items()])
    columns = ", ".join(f"`{name}`" for name in types)
    for name in streams:
        assert ingester.rows(f"{name}_quarantine", "field, message, cast(record as string)") == []
        bronze = f"delta.`{ingester.lake / 'warehouse' / 'bronze.db' / name}`"
        both = [f"select {columns} from {one}" for one in (bronze, f"delta.`{path}`")]
        shown = "select to_json(struct(*), map('ignoreNullFields', 'false')) as row from"
        comparable = columns.replace("`pairs`", "array_sort(map_entries(`pairs`)) as pairs")
        both = [f"select {comparable} from {one}" for one in (bronze, f"delta.`{path}`")]
        for one, other in (both, both[::-1]):
            left = ingester.ask(sql=f"{shown} ({one} except all {other}) order by 1 limit 3")
            assert left == [], name
        assert len(ingester.rows(name, "id")) == len(rows)
