"""Test that conditions of bounds match every value that they were built from."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwaters.runs.bounds import (
    UNWRITABLE,
    bounds_of,
    keys_as_sql,
    listed,
    lists_all,
    with_values,
    within_bounds,
)

# The bytes that the macro `hw_harmless` leaves of a text.
HARMLESS = re.compile(rb"(?:[ -#%-~]|[$](?![{]))*")


def answer(values: list[bytes | None], type_: str = "string") -> dict[str, Any]:
    """Return Spark's answers to the expressions of `hw_bounds_expressions` for a column `k`."""
    known = [value for value in values if value is not None]
    cut = [_cut(value) for value in known]
    whole = [len(value) == len(text) for value, text in zip(known, cut, strict=True)]
    return {
        "least_1": _cut(min(known)).decode() if known else None,
        "greatest_1": _cut(max(known)).decode() if known else None,
        "whole_1": _cut(max(known)) == max(known) if known else None,
        "nulls_1": len(values) - len(known),
        "type_1": type_,
        "listed": json.dumps(
            [[None]] * (len(known) < len(values))
            + [
                [text.decode() if is_whole else UNWRITABLE]
                for text, is_whole in zip(cut, whole, strict=True)
            ]
        ),
    }


def _cut(value: bytes) -> bytes:
    found = HARMLESS.match(value)
    assert found
    return found[0][:100]


def holds(condition: str, value: bytes | None) -> bool:
    """Return whether a condition on the column `k` matches, as Spark compares strings: by bytes."""
    if condition == "true":
        return True
    nullable = re.fullmatch(r"\((?:(.*) or )?`k` is null\)", condition, flags=re.DOTALL)
    if value is None:
        return nullable is not None
    if nullable:
        if nullable[1] is None:
            return False
        condition = nullable[1]
    text = r"'((?:[^'\\]|\\.)*)'"
    found = re.fullmatch(
        rf"(?:`k` between {text} and {text})?(?:`k` >= {text})?(?: and )?(?:`k` (<=?) {text})?"
        rf"(?: and )?(?:`k` in \((.*)\))?",
        condition,
        flags=re.DOTALL,
    )
    assert found, condition
    low, high, least, less, greatest, listed = found.groups()
    plain = {
        name: None if literal is None else re.sub(r"\\(.)", r"\1", literal).encode()
        for name, literal in [("low", low or least), ("high", high or greatest)]
    }
    within = (plain["low"] is None or value >= plain["low"]) and (
        plain["high"] is None or (value < plain["high"] if less == "<" else value <= plain["high"])
    )
    values = [re.sub(r"\\(.)", r"\1", one).encode() for one in re.findall(text, listed or "")]
    return within and (listed is None or value in values)


VALUES = st.lists(
    st.one_of(
        st.none(),
        st.binary(max_size=6),
        st.text(max_size=6).map(lambda value: value.encode("utf-8", "surrogatepass")),
        st.sampled_from([b"", b"~~", b"a~\xff", b"${x}", b"a${x}", b"it's", b"\\", b"x" * 101]),
    ),
    min_size=1,
    max_size=6,
)


@given(VALUES)
def test_bounds_of_strings_hold_for_their_values(values: list[bytes | None]) -> None:
    condition = within_bounds(bounds_of(answer(values), ["k"], has_rows=True))
    assert [value for value in values if not holds(condition, value)] == []


@given(VALUES, VALUES)
def test_bounds_of_strings_meet_the_statistics_of_their_files(
    values: list[bytes | None], others: list[bytes | None]
) -> None:
    """Check bytes that are not UTF-8, which Delta's statistics show as U+FFFD."""
    known = [value for value in values if value is not None]
    if not known:
        return
    file = known + [other for other in others if other is not None]
    least, greatest = (end.decode("utf-8", "replace").encode() for end in (min(file), max(file)))
    bound = bounds_of(answer(list(known)), ["k"])[0]
    assert bound.least is None or greatest >= bound.least.encode()
    after = re.fullmatch(r".*`k` <=? '(.*)'", within_bounds([bound]), flags=re.DOTALL)
    if after and not bound.is_whole:
        assert least < re.sub(r"\\(.)", r"\1", after[1]).encode()


@given(VALUES)
def test_listed_values_leave_out_every_other(values: list[bytes | None]) -> None:
    row = answer(values)
    listed = [text for (text,) in json.loads(row["listed"]) if text is not None]
    is_whole = UNWRITABLE not in listed
    bound = with_values(bounds_of(row, ["k"])[0], json.dumps(listed) if is_whole else None)
    condition = within_bounds([bound])
    tried = {*values, b"", b"a", b"b~", b"zz", None}
    found = {value for value in tried if holds(condition, value)}
    assert found >= set(values)
    assert "${" not in condition
    if is_whole and not bound.is_empty:
        assert found == set(values)


def test_values_are_listed_of_whole_numbers_and_texts() -> None:
    bound = bounds_of(answer([b"3", b"7"], "bigint"), ["k"])[0]
    assert within_bounds([with_values(bound, None)]) == "`k` between 3L and 7L"
    listed = within_bounds([with_values(bound, '["3", "7"]')])
    assert listed == "`k` between 3L and 7L and `k` in (3L, 7L)"
    days = bounds_of(answer([b"2026-01-01"], "date"), ["k"])[0]
    assert with_values(days, '["2026-01-01"]') == days


@pytest.mark.parametrize(
    ("least", "greatest", "condition"),
    [
        (
            "2026-01-01",
            "2026-02-01",
            "between cast('2026-01-01' as date) and cast('2026-02-01' as date)",
        ),
        ("1582-10-10", "2026-02-01", "<= cast('2026-02-01' as date)"),
        ("-0044-03-15", "1582-10-10", "<= cast('1583-01-01' as date)"),
        ("2026-01-01", "+10000-01-01", ">= cast('2026-01-01' as date)"),
        ("+10000-01-01", "+10001-01-01", ">= cast('9999-12-31' as date)"),
    ],
)
def test_days_beyond_the_calendar_widen_the_bounds(
    least: str, greatest: str, condition: str
) -> None:
    row = answer([b"0"], "date") | {"least_1": least, "greatest_1": greatest, "whole_1": True}
    assert within_bounds(bounds_of(row, ["k"])) == f"`k` {condition}"


@pytest.mark.parametrize(
    ("type_", "condition"),
    [
        # an hour may repeat in the session's time zone
        (
            "timestamp",
            "between cast('2026-01-01Z' as timestamp) and cast('2026-02-01Z' as timestamp)",
        ),
        (
            "timestamp_ntz",
            "between cast('2026-01-01' as timestamp_ntz) and cast('2026-02-01' as timestamp_ntz)",
        ),
        # values without a literal, or with another order than their text, have no bounds
        *((type_, None) for type_ in ("binary", "double", "boolean", "string collate UTF8_LCASE")),
    ],
)
def test_bounds_are_those_of_types_that_can_be_written(type_: str, condition: str | None) -> None:
    row = answer([b"2026-01-01", b"2026-02-01"], type_)
    within = within_bounds(bounds_of(row, ["k"]))
    assert within == ("true" if condition is None else f"`k` {condition}")


def of_keys(rows: list[list[str | None]], *types: str) -> dict[str, Any]:
    """Return Spark's answers for columns `k1`, … of these rows, given as texts."""
    row: dict[str, Any] = {"listed": json.dumps(rows)}
    for number, (type_, values) in enumerate(zip(types, zip(*rows, strict=True), strict=True), 1):
        known = [value for value in values if value is not None]
        row |= {
            f"least_{number}": min(known, default=None),
            f"greatest_{number}": max(known, default=None),
            f"whole_{number}": True,
            f"nulls_{number}": len(values) - len(known),
            f"type_{number}": type_,
        }
    return row


def listed_keys(rows: list[list[str | None]], *types: str) -> str | None:
    row = of_keys(rows, *types)
    names = [f"k{number}" for number in range(1, len(types) + 1)]
    return keys_as_sql(listed(row), bounds_of(row, names, has_rows=True))


def test_few_keys_are_literals_of_their_types() -> None:
    rows: list[list[str | None]]
    rows = [["it's", "3", "2026-01-02"], [None, "-1", None], ["", "3", "2026-01-02"]]
    assert listed_keys(rows, "string", "bigint", "date") == (
        "select * from values"
        " ('', 3L, cast('2026-01-02' as date)),"
        r" ('it\'s', 3L, cast('2026-01-02' as date)),"
        " (cast(null as string), -1L, cast(null as date))"
        " as _listed (`k1`, `k2`, `k3`)"
    )
    assert listed_keys([[None]], "int") == (
        "select * from values (cast(null as int)) as _listed (`k1`)"
    )


@pytest.mark.parametrize(
    ("rows", "types"),
    [
        ([[UNWRITABLE, "1"], ["a", "2"]], ("string", "int")),  # one value has no literal
        ([["1.5"]], ("double",)),  # the digits of a double are not exact
        ([["true"]], ("boolean",)),
        ([["0999-01-01"], ["2026-01-01"]], ("date",)),  # Parquet's filters read another value
        ([["+10000-01-01"]], ("date",)),
        ([[str(number)] for number in range(2001)], ("int",)),  # too many
    ],
)
def test_keys_that_cannot_be_written_are_not_listed(
    rows: list[list[str | None]], types: tuple[str, ...]
) -> None:
    assert listed_keys(rows, *types) is None


def test_bounds_that_list_all_keys_stand_for_them() -> None:
    def are_listed(rows: list[list[str | None]], *types: str) -> bool:
        names = [f"k{number}" for number in range(1, len(types) + 1)]
        return lists_all(bounds_of(of_keys(rows, *types), names, has_rows=True))

    assert are_listed([["1"], ["3"], [None]], "int")
    assert are_listed([["a"], ["it's"]], "string")
    assert not are_listed([["1", "a"], ["2", "b"]], "int", "string")  # more pairs than columns
    assert not are_listed([["a"], [UNWRITABLE]], "string")
    assert not are_listed([["1.5"]], "double")
    assert not are_listed([[None]], "int")
    assert not are_listed([[str(number)] for number in range(2001)], "int")
    assert not lists_all(bounds_of(of_keys([["1"]], "int"), ["k1"]))
    assert not lists_all([])


def test_keys_are_not_listed_where_types_differ_or_nobody_asked() -> None:
    row = of_keys([["1"]], "int")
    assert keys_as_sql(listed(row), []) is None
    assert keys_as_sql(listed(row), bounds_of(row, ["k1"])) is None
