"""Between which values some rows lie, as a condition that Delta's file statistics understand.

A condition of this module holds for every row that it was asked about, whatever its values are, and
survives all who read it: Spark's parser, which replaces `${name}` inside literals too; Delta, which
parses the condition of a `replaceOn` again; and Delta's statistics, in which bytes that are not
UTF-8 are U+FFFD, so that a text beyond ASCII is not found in a file that has such bytes as well.
So texts are cut to a beginning of harmless characters (macro `hw_harmless`), and values that cannot
be written exactly widen the bounds or are left without any.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headwaters.platform.sql import identifier

INTEGERS = ("tinyint", "smallint", "int", "bigint")
BOUNDED = (*INTEGERS, "decimal", "string", "date", "timestamp", "timestamp_ntz")

# Parquet's filters take days of the gap between the calendars (October 1582) for others.
GREGORIAN = "1583-01-01"
LAST_DAY = "9999-12-31"

# Stands in a list for a value that is not harmless, and so not in it.
UNWRITABLE = "\x01"
MOST_VALUES = 2000


@dataclass(frozen=True)
class Bound:
    """Where the values of one column lie.

    `least` and `greatest` are texts, None where there is none that can be written. `least` may be a
    beginning of the least value, and `greatest` of the greatest: that it is all of it says
    `is_whole`. `is_empty`: there are no values but nulls. `values` are all of them; None where they
    were not asked for, or cannot be written exactly.
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
    """The answer to the expressions of the macro `hw_bounds_expressions`, one Bound a column."""
    bounds = []
    rows = _listed(row) if has_rows else None
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
        bounds.append(_within_calendar(bound))
    return bounds


def _values(texts: Iterable[str | None]) -> tuple[str, ...] | None:
    """The values of a column, each once; None where one of them cannot be written."""
    known = {text for text in texts if text is not None}
    return None if UNWRITABLE in known else tuple(sorted(known))


def _listed(row: Mapping[str, Any]) -> list[list[str | None]]:
    """The rows that the macro `hw_rows_as_json` lists."""
    listed: list[list[str | None]] = json.loads(row["listed"] or "[]")
    return listed


def keys_as_sql(row: Mapping[str, Any], bounds: Sequence[Bound]) -> str | None:
    """The rows of the columns of `bounds`, as a query of literals that reads no table.

    None where they were not listed, are too many, or cannot be written exactly.
    """
    if not (bounds and all(_is_exact(bound) for bound in bounds)):
        return None
    rows = _listed(row)
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
    """Whether `within_bounds` is true of the rows that were asked about, and of no others."""
    if len(bounds) != 1 or not _is_exact(bounds[0]):
        return False
    return 0 < len(bounds[0].values or ()) <= MOST_VALUES


def _is_exact(bound: Bound) -> bool:
    return bound.values is not None and bound.type.split("(")[0] in BOUNDED


def _within_calendar(bound: Bound) -> Bound:
    """The bound of a day or a moment without what Parquet's filters or Python misread."""
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
    """The bounds as SQL: true of every row that they were asked about, null in no case.

    `names` maps a bound's column to the table's, `alias` is the table's.
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
    """The least text that is greater than all that begin with this one; None: there is none."""
    cut = text.rstrip("~")
    return cut[:-1] + chr(ord(cut[-1]) + 1) if cut else None


def with_values(bound: Bound, values: str | None) -> Bound:
    """The bound of whole numbers or texts with their `values`, a JSON array: they leave out more
    of a table than its least and greatest value.
    """
    if values is None or bound.type not in (*INTEGERS, "string"):
        return bound
    return replace(bound, values=tuple(json.loads(values)))


def literal(text: str, type_: str) -> str:
    """A harmless text as a value of a type, in SQL."""
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
