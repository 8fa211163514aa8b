"""Columns, their origins, and the kind of each origin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

# `value`: copied or computed from. `rows`: it only affects filters, groups, joins or order.
Kind = Literal["value", "rows"]
# A stand-in for a column's name: the set of rows of the table.
ROWS = "*"


@dataclass(frozen=True, order=True)
class Column:
    """A column of a table, both in lower case; the name `*` stands for the table's rows."""

    table: str
    name: str


Origins = Mapping[Column, Kind]


class NotAnalysed(Exception):
    """A query that cannot be analysed; the text is the reason."""


@dataclass(frozen=True)
class Relation:
    """A query's columns with their origins; `rows` affect all of them.

    `listed` are its columns in order, and may repeat a name. `columns` has the origins of all
    columns of a name. `other` are the origins of unlisted columns, those of a generator. `unknown`
    is a table with unknown columns, which are therefore missing.
    """

    columns: Mapping[str, Origins]
    rows: frozenset[Column] = frozenset()
    listed: tuple[tuple[str, Origins], ...] = ()
    other: Origins | None = None
    unknown: str | None = None
    # unknown functions, whose own reads are in no origins
    functions: frozenset[str] = frozenset()

    @property
    def in_order(self) -> tuple[tuple[str, Origins], ...]:
        """Return its columns by their places."""
        return self.listed or tuple(self.columns.items())

    @property
    def everything(self) -> Origins:
        """Return the origins of all of its columns."""
        return joined(*self.columns.values(), self.other or {})


def joined(*parts: Origins) -> dict[Column, Kind]:
    """Merge origins; a column that gives a value to one part gives it to the result."""
    found: dict[Column, Kind] = {}
    for part in parts:
        for column, kind in part.items():
            if kind == "value" or column not in found:
                found[column] = kind
    return found


def listed(
    columns: Sequence[tuple[str, Origins]], rows: frozenset[Column] = frozenset()
) -> Relation:
    """Return a relation with these columns, which may repeat a name."""
    found: dict[str, Origins] = {}
    for name, origins in columns:
        found[name] = joined(found.get(name, {}), origins)
    return Relation(found, rows, tuple(columns))


def as_rows(columns: Iterable[Column]) -> dict[Column, Kind]:
    """Return the same origins for a result that depends on them only by its rows."""
    return dict.fromkeys(columns, "rows")
