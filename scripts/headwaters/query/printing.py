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

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headwaters.platform.text import printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Form = Literal["table", "csv", "json"]
# A table is for a person to read; CSV and JSON are for programs, which take all rows.
SHOWN = 1000
_WIDTH = 10_000  # of a table in a file
_NESTED = 100  # characters of an array, a map or a struct in a table


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
    names: Sequence[str], types: Sequence[str], rows: Iterable[Sequence[str | None]], most: int
) -> None:
    table = Table(box=None, pad_edge=False)
    for name, kind in zip(names, types, strict=True):
        is_number = kind.startswith(("tinyint", "smallint", "int", "bigint", "decimal"))
        table.add_column(Text(name), justify="right" if is_number else "left", overflow="fold")
    rows = iter(rows)
    count, is_cut = 0, False
    for row in islice(rows, most or None):
        shown = ["null" if value is None else printable(value) for value in row]
        for index, kind in enumerate(types):
            if _is_nested(kind) and len(shown[index]) > _NESTED:
                shown[index], is_cut = f"{shown[index][:_NESTED]}…", True
        table.add_row(*map(Text, shown))
        count += 1
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _WIDTH
    console.print(table)
    more = next(rows, None) is not None
    rest = "; there are more: --limit 0 prints all" if more else ""
    rest += "; --format json prints whole values" if is_cut else ""
    console.print(f"({count:,} row{'' if count == 1 else 's'}{rest})")
