"""Test which texts are values of a type, without Spark."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwaters.streams.formats.texts import NEWEST_SECOND, PATTERNS, in_json, kind

numbers = st.decimals(allow_nan=False, allow_infinity=False, places=None)
moments = st.datetimes(min_value=datetime(1000, 1, 1)).map(
    lambda moment: moment.replace(tzinfo=timezone(timedelta(hours=2)))
)


def fits(name: str, text: str) -> bool:
    return re.fullmatch(PATTERNS[name], text) is not None


@given(numbers)
def test_numbers_as_python_writes_them_are_numbers(number: Decimal) -> None:
    assert fits("decimal", str(number)) == (abs(number.adjusted()) < 10_000)
    assert fits("float", repr(float(number)))


@given(st.text("0123456789.,+-eE xdnaif\uff11", max_size=8))
def test_what_is_taken_for_a_number_is_one_to_python_as_well(text: str) -> None:
    for name, read in (("decimal", Decimal), ("float", float)):
        if fits(name, text):
            read(text)


@given(moments)
def test_moments_as_python_writes_them_are_moments(moment: datetime) -> None:
    local = moment.replace(tzinfo=None)
    for text in (moment.isoformat(), str(moment), moment.astimezone(UTC).isoformat()[:-6] + "Z"):
        assert fits("timestamp", text)
        assert not fits("timestamp_ntz", text)
    assert fits("timestamp", local.isoformat())
    assert fits("timestamp_ntz", str(local))
    assert fits("date", local.date().isoformat())
    assert fits("date", str(local)) == (local.time() == datetime.min.time())


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("decimal", ["1,5", "1,234.50", "1e10000", "\uff11", "0x1F", "1d", "NaN", "", " ", "1 2"]),
        ("float", ["1,5", "1d", "1f", "0x1p3", "", "\uff11", "1e99999"]),
        ("date", ["1", "2026", "2026-02", "02/03/2026", "2026-02-03junk", "2026-02-03Tjunk"]),
        ("date", ["10000-01-01", "-0001-01-01", "2026-02-03T00:00:01Z", "2026-02-03 23:00"]),
        ("timestamp", ["12:00", "T12:00", "2026", "2026-02", "2026-02-03junk", "1738540800"]),
        ("timestamp_ntz", ["2026-02-03T04:05:06Z", "2026-02-03 04:05:06+01:00", "12:00"]),
    ],
)
def test_a_text_that_spark_would_repair_is_no_value(name: str, texts: list[str]) -> None:
    assert [text for text in texts if fits(name, text)] == []


def test_a_long_text_is_refused_at_once() -> None:
    for name in PATTERNS:
        assert not fits(name, "1" * 1_000_000 + "x")
        assert not fits(name, " " * 1_000_000 + "x")


def test_suspicious_records_of_json_are_found_by_the_names_of_their_fields() -> None:
    def suspicious(text: str, *columns: tuple[str, str]) -> bool:
        patterns = in_json(columns, ("decimal", "date", "timestamp", "timestamp_ntz"))
        return patterns is None or any(re.search(pattern, text) for pattern in patterns)

    amount, at, id_ = ("amount", "decimal(8, 2)"), ("at", "timestamp"), ("id", "string")
    assert suspicious('{"amount": "1,5"}', id_, amount)
    assert not suspicious('{"id": "1,5", "amount": "1.5"}', id_, amount)
    assert not suspicious('{"amount": 1.5, "net_amount": "1,5"}', id_, amount)
    assert suspicious('{"at" : "12:00"}', at)
    assert suspicious('{"at": 1738540800000}', at)
    assert not suspicious('{"at": 1738540800, "id": 1738540800000}', at)
    assert not suspicious('{"at": "2026-02-03T04:05:06.789Z", "when": "12:00"}', at)
    nested = ("s", "struct<`the day`: date, n: array<int>>")
    assert suspicious('{"s": {"the day": "2026"}}', nested)
    assert not suspicious('{"s": {"the day": "2026-01-02"}}', nested)
    assert suspicious("{}", ("days", "array<date>"))  # an element has no name
    assert not suspicious("{}", ("days", "array<string>"))


def test_types_that_are_written_alike_have_one_kind() -> None:
    types = ["decimal(8, 2)", "decimal", "double", "float", "timestamp_ntz", "array<int>"]
    assert [kind(each) for each in types] == [
        *["decimal"] * 2,
        *["float"] * 2,
        "timestamp_ntz",
        "array",
    ]
    assert datetime.fromtimestamp(NEWEST_SECOND, UTC).date() == date(9999, 12, 31)
