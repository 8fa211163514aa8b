"""Columns, what they come from, and how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

# `value`: handed on, or computed from. `rows`: it decides which rows there are, how they are
# grouped, joined or ordered, and nothing else.
Kind = Literal["value", "rows"]
# In place of a column's name: which rows the table has.
ROWS = "*"


@dataclass(frozen=True, order=True)
class Column:
    """A column of a table, both in lower case; the name `*` stands for the table's rows."""

    table: str
    name: str


Origins = Mapping[Column, Kind]


class NotAnalysed(Exception):
    """Nothing is said of a query: its text is the reason."""


@dataclass(frozen=True)
class Relation:
    """A query's columns with their origins; `rows` decide about all of them.

    `listed` are its columns in order, where several may have one name; `columns` has what all of
    that name come from. `other` are the origins of a column that is not among them: those of a
    generator. `unknown` is the table whose columns are not known, and so not among them.
    """

    columns: Mapping[str, Origins]
    rows: frozenset[Column] = frozenset()
    listed: tuple[tuple[str, Origins], ...] = ()
    other: Origins | None = None
    unknown: str | None = None
    # functions that nothing is known of: what one reads itself is in no origins
    functions: frozenset[str] = frozenset()

    @property
    def in_order(self) -> tuple[tuple[str, Origins], ...]:
        """Its columns by their places."""
        return self.listed or tuple(self.columns.items())

    @property
    def everything(self) -> Origins:
        """The origins of all of its columns."""
        return joined(*self.columns.values(), self.other or {})


def joined(*parts: Origins) -> dict[Column, Kind]:
    """The origins of what is made of several; one that gives a value gives it."""
    found: dict[Column, Kind] = {}
    for part in parts:
        for column, kind in part.items():
            if kind == "value" or column not in found:
                found[column] = kind
    return found


def listed(
    columns: Sequence[tuple[str, Origins]], rows: frozenset[Column] = frozenset()
) -> Relation:
    """A relation with these columns, of which several may have one name."""
    found: dict[str, Origins] = {}
    for name, origins in columns:
        found[name] = joined(found.get(name, {}), origins)
    return Relation(found, rows, tuple(columns))


def as_rows(columns: Iterable[Column]) -> dict[Column, Kind]:
    """The same origins of what only depends on them by its rows."""
    return dict.fromkeys(columns, "rows")
