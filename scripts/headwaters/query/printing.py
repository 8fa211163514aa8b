"""The rows of a statement as a table, as CSV or as JSON.

Spark writes the values as text, so that dates, decimals and bytes look as they do in SQL.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headwaters.platform.text import printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Form = Literal["table", "csv", "json"]
# A table is for a person to read; CSV and JSON are for programs, which take all rows.
SHOWN = 1000
_NESTED = 100  # characters of an array, a map or a struct on a terminal
_LAST = 20  # the last column is folded alone if it keeps this width


def show(frame: DataFrame, form: Form, limit: int | None) -> None:
    """Print the rows of a statement; `limit` 0 prints all rows, None up to SHOWN in a table."""
    names, types = list(frame.columns), [kind for _, kind in frame.dtypes]
    if not names:
        return
    most = (SHOWN if form == "table" else 0) if limit is None else limit
    if form == "table":
        _table(names, types, _rows(frame, most and most + 1), most)
        return
    rows = _rows(frame, most)
    if form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)
    else:
        for row in rows:
            print(object_of(names, types, row))


def object_of(names: Sequence[str], types: Sequence[str], row: Sequence[str | None]) -> str:
    """Return a row as one line of JSON; a decimal is a text, which keeps all of its digits."""
    values = (_value(kind, text) for kind, text in zip(types, row, strict=True))
    pairs = (
        f"{json.dumps(name, ensure_ascii=False)}: {value}"
        for name, value in zip(names, values, strict=True)
    )
    return "{" + ", ".join(pairs) + "}"


def _value(kind: str, text: str | None) -> str:
    if text is None:
        return "null"
    is_number = kind in ("tinyint", "smallint", "int", "bigint", "float", "double")
    if kind == "boolean" or _is_nested(kind):
        return text
    if is_number and text not in ("NaN", "Infinity", "-Infinity"):
        return text
    return json.dumps(text, ensure_ascii=False)


def _is_nested(kind: str) -> bool:
    return kind.startswith(("array", "map", "struct"))


def _rows(frame: DataFrame, limit: int) -> Iterator[Sequence[str | None]]:
    """Yield the rows with their values as text; nested ones as JSON."""
    from pyspark.sql import functions as F

    types = [kind for _, kind in frame.dtypes]
    names = [f"c{index}" for index in range(len(types))]  # two columns may have one name
    columns = [
        F.to_json(name, {"ignoreNullFields": "false"})
        if _is_nested(kind)
        else F.col(name).cast("string")
        for name, kind in zip(names, types, strict=True)
    ]
    chosen = frame.toDF(*names).select(*columns)
    return iter((chosen.limit(limit) if limit else chosen).toLocalIterator())


def _table(
    names: Sequence[str],
    types: Sequence[str],
    rows: Iterable[Sequence[str | None]],
    most: int,
    console: Console | None = None,
) -> None:
    """Print rows in columns: folded at the width of a terminal, or else with whole values."""
    console = console or Console(highlight=False)
    rows = iter(rows)
    shown: list[Sequence[str]] = []
    is_cut = False
    for row in islice(rows, most or None):
        cells = ["null" if value is None else printable(value) for value in row]
        for index, kind in enumerate(types):
            if console.is_terminal and _is_nested(kind) and len(cells[index]) > _NESTED:
                cells[index], is_cut = f"{cells[index][:_NESTED]}…", True
        shown.append(cells)
    are_numbers = [
        kind.startswith(("tinyint", "smallint", "int", "bigint", "decimal")) for kind in types
    ]
    widths = [max(map(cell_len, column)) for column in zip(names, *shown, strict=True)]
    if console.is_terminal:
        console.print(_folded(names, shown, are_numbers, widths, console.width))
    else:
        for texts in (names, *shown):
            console.file.write(_line(texts, are_numbers, widths) + "\n")
    more = next(rows, None) is not None
    rest = "; there are more: --limit 0 prints all" if more else ""
    rest += "; --format json prints whole values" if is_cut else ""
    count = len(shown)
    console.print(f"({count:,} row{'' if count == 1 else 's'}{rest})", soft_wrap=True)


def _folded(
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    are_numbers: Sequence[bool],
    widths: Sequence[int],
    width: int,
) -> Table:
    """Return a table that folds the last column, or all columns if the others are too wide."""
    others = sum(widths[:-1]) + 2 * (len(widths) - 1)
    is_last_alone = others + min(_LAST, widths[-1]) <= width
    table = Table(box=None, pad_edge=False)
    for index, (name, is_number) in enumerate(zip(names, are_numbers, strict=True)):
        table.add_column(
            Text(name),
            justify="right" if is_number else "left",
            overflow="fold",
            no_wrap=is_last_alone and index < len(names) - 1,
        )
    for cells in rows:
        table.add_row(*map(Text, cells))
    return table


def _line(cells: Sequence[str], are_numbers: Sequence[bool], widths: Sequence[int]) -> str:
    """Return whole values side by side, without blanks at the end of the line."""
    padded = (
        blanks + cell if is_number else cell + blanks
        for cell, is_number, width in zip(cells, are_numbers, widths, strict=True)
        for blanks in [" " * (width - cell_len(cell))]
    )
    return "  ".join(padded).rstrip()
