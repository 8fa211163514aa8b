"""Bounds of the values of rows, as conditions that Delta's file statistics can use.

A condition of this module is true for every row that it was built from, with any values. It
survives every reader:

- Spark's parser replaces `${name}` inside literals too.
- Delta parses the condition of a `replaceOn` again.
- Delta's statistics store bytes that are not UTF-8 as U+FFFD. If a file has such bytes, a text
  beyond ASCII is not found in it.

Texts are therefore cut to a prefix of harmless characters (macro `hw_harmless`). Values that cannot
be written exactly widen the bounds, or get none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headwaters.platform.sql import identifier

INTEGERS = ("tinyint", "smallint", "int", "bigint")
BOUNDED = (*INTEGERS, "decimal", "string", "date", "timestamp", "timestamp_ntz")

# Parquet's filters shift days in the gap between the calendars (October 1582).
GREGORIAN = "1583-01-01"
LAST_DAY = "9999-12-31"

# Marks a value in a list as not harmless, and therefore omitted.
UNWRITABLE = "\x01"
MOST_VALUES = 2000


@dataclass(frozen=True)
class Bound:
    """The bounds of the values of one column.

    `least` and `greatest` are texts, or None if no value can be written. Both may be prefixes; if
    `is_whole`, they are the exact values. `is_empty`: all values are null. `values` has all values,
    or is None if they were not requested or cannot be written exactly.
    """

    column: str
    type: str
    nulls: bool
    is_empty: bool
    least: str | None
    greatest: str | None
    is_whole: bool
    values: tuple[str, ...] | None


def bounds_of(
    row: Mapping[str, Any], columns: Iterable[str], has_rows: bool = False
) -> list[Bound]:
    """Parse the result of the macro `hw_bounds_expressions` into one Bound a column."""
    bounds = []
    rows = listed(row) if has_rows else None
    for number, column in enumerate(columns, start=1):
        values = None if rows is None else _values([texts[number - 1] for texts in rows])
        bound = Bound(
            column=column,
            type=row[f"type_{number}"],
            nulls=int(row[f"nulls_{number}"]) > 0,
            is_empty=row[f"greatest_{number}"] is None,
            least=row[f"least_{number}"],
            greatest=row[f"greatest_{number}"],
            is_whole=bool(row[f"whole_{number}"]),
            values=values,
        )
        bounds.append(within_calendar(bound))
    return bounds


def _values(texts: Iterable[str | None]) -> tuple[str, ...] | None:
    """Return the distinct values of a column, or None if one of them cannot be written."""
    known = {text for text in texts if text is not None}
    return None if UNWRITABLE in known else tuple(sorted(known))


def listed(row: Mapping[str, Any]) -> list[list[str | None]]:
    """Parse the rows that the macro `hw_rows_as_json` lists."""
    rows: list[list[str | None]] = json.loads(row["listed"] or "[]")
    return rows


def keys_as_sql(rows: Sequence[Sequence[str | None]], bounds: Sequence[Bound]) -> str | None:
    """Return the rows of the columns of `bounds` as a query of literals that reads no table.

    Return None if they were not listed, are too many, or cannot be written exactly.
    """
    if not (bounds and all(_is_exact(bound) for bound in bounds)):
        return None
    if not 0 < len(rows) * len(bounds) <= MOST_VALUES:
        return None
    texts = [
        ", ".join(
            f"cast(null as {bound.type})" if value is None else literal(value, bound.type)
            for value, bound in zip(values, bounds, strict=True)
        )
        for values in rows
    ]
    names = ", ".join(identifier(bound.column) for bound in bounds)
    return f"select * from values ({'), ('.join(sorted(texts))}) as _listed ({names})"


def lists_all(bounds: Sequence[Bound]) -> bool:
    """Return true if `within_bounds` is true for exactly the rows that the bounds describe."""
    if len(bounds) != 1 or not _is_exact(bounds[0]):
        return False
    return 0 < len(bounds[0].values or ()) <= MOST_VALUES


def _is_exact(bound: Bound) -> bool:
    return bound.values is not None and bound.type.split("(")[0] in BOUNDED


def within_calendar(bound: Bound) -> Bound:
    """Widen the bound of a day or a moment past values that Parquet's filters or Python misread."""
    if not bound.type.startswith(("date", "timestamp")) or bound.is_empty:
        return bound
    least, greatest = bound.least or "-", bound.greatest or "+"
    if _is_plain(least) and _is_plain(greatest):
        return bound
    midnight = "" if bound.type == "date" else " 00:00:00"
    if not _is_plain(least):
        least = LAST_DAY + midnight if least[0] == "+" else ""
    if not _is_plain(greatest):
        greatest = "" if greatest[0] == "+" else GREGORIAN + midnight
    return replace(bound, least=least or None, greatest=greatest or None, values=None)


def _is_plain(day: str) -> bool:
    return day[0] not in "+-" and day >= GREGORIAN


def within_bounds(
    bounds: Iterable[Bound],
    alias: str | None = None,
    names: Mapping[str, str] | None = None,
) -> str:
    """Return the bounds as SQL: true for every row that they describe, never null.

    `names` maps a bound's column to the table's column. `alias` is the table's alias.
    """
    conditions = []
    for bound in bounds:
        if bound.type.split("(")[0] not in BOUNDED:
            continue
        column = (f"{alias}." if alias else "") + identifier(
            (names or {}).get(bound.column, bound.column)
        )
        within = " and ".join(_within(bound, column))
        if bound.nulls and (within or bound.is_empty):
            conditions.append(
                f"({within} or {column} is null)" if within else f"({column} is null)"
            )
        elif within:
            conditions.append(within)
    return " and ".join(conditions) or "true"


def _within(bound: Bound, column: str) -> list[str]:
    least, greatest = bound.least, bound.greatest
    less = "<="
    if greatest is not None and not bound.is_whole:
        less, greatest = "<", _successor(greatest)
    low = literal(least, bound.type) if least else None
    high = literal(greatest, bound.type) if greatest is not None else None
    within = []
    if low and high and less == "<=":
        within.append(f"{column} between {low} and {high}")
    else:
        within += [f"{column} >= {low}"] if low else []
        within += [f"{column} {less} {high}"] if high else []
    if bound.values and len(bound.values) <= MOST_VALUES:
        values = ", ".join(literal(value, bound.type) for value in bound.values)
        within.append(f"{column} in ({values})")
    return within


def _successor(text: str) -> str | None:
    """Return the least text greater than all texts with this prefix, or None if there is none."""
    cut = text.rstrip("~")
    return cut[:-1] + chr(ord(cut[-1]) + 1) if cut else None


def with_values(bound: Bound, values: str | None) -> Bound:
    """Add `values`, a JSON array, to the bound of whole numbers or texts.

    They exclude more of a table than its least and greatest value.
    """
    if values is None or bound.type not in (*INTEGERS, "string"):
        return bound
    return replace(bound, values=tuple(json.loads(values)))


def literal(text: str, type_: str) -> str:
    """Return a harmless text as an SQL value of a type."""
    if type_ in ("tinyint", "smallint", "int"):
        return text
    if type_ == "bigint":
        return text + "L"
    escaped = "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if type_ == "string":
        return escaped
    if type_ == "timestamp":
        return f"cast({escaped[:-1]}Z' as timestamp)"
    return f"cast({escaped} as {type_})"
