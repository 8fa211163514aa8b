"""The difference that dbt prints of a failed unit test, in one line."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime

_SHOWN = 3  # rows
_NAMES = "@@"  # the mark of the row with the names of columns
_ARROW = "→"
_MARKS = {"---": "missing", "+++": "not expected"}
# Python's text of a value that dbt does not render.
_WRITTEN = re.compile(r"(?:datetime\.)?(date|datetime|Decimal)\(([^()]*)\)")


def unit_test_difference(message: str) -> str | None:
    """Return the rows in which actual and expected differ, or None for another message.

    The message has them as lines of CSV, padded to columns: a mark, then the cells of a row.
    """
    head, first, table = message.partition(_NAMES)
    if not first or " differs from " not in head:
        return None
    lines = (first + table).splitlines()
    names, *rows = ([cell.strip() for cell in row] for row in csv.reader(lines) if row)
    told = [line for mark, *row in rows for line in _told(mark, names[1:], row)]
    more = f"; and {len(told) - _SHOWN:,} more" if told[_SHOWN:] else ""
    return f"actual differs from expected: {'; '.join(told[:_SHOWN])}{more}"


def _told(mark: str, names: Sequence[str], cells: Sequence[str]) -> Iterator[str]:
    """Yield the text of a row that differs; rows without a mark surround it."""
    texts = dict(zip(names, (_WRITTEN.sub(_value, cell) for cell in cells), strict=False))
    if mark in _MARKS:
        yield f"{_MARKS[mark]}: {_listed(texts)}"
    elif _ARROW in mark:
        differ = {name: text for name, text in texts.items() if _ARROW in text}
        same = {name: text for name, text in texts.items() if name not in differ}
        where = f" ({_listed(same)})" if same else ""
        yield f"{_listed(differ).replace(_ARROW, f' {_ARROW} ')}{where}"


def _listed(texts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {text}" for name, text in texts.items())


def _value(written: re.Match[str]) -> str:
    kind, parts = written.groups()
    if kind == "Decimal":
        return parts.strip("'")
    numbers = [int(number) for number in re.findall(r"\d+", parts)]
    return str(date(*numbers) if kind == "date" else datetime(*numbers))  # type: ignore[arg-type]
