"""Columns, their origins, and the kind of each origin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

# `value`: copied or computed from. `rows`: it only affects filters, groups, joins or order.
OriginKind = Literal["value", "rows"]
# A stand-in for a column's name: the set of rows of the table.
ROWS = "*"


@dataclass(frozen=True, order=True)
class Origin:
    """A column of a table, both in lower case; the name `*` stands for the table's rows."""

    table: str
    name: str


Origins = Mapping[Origin, OriginKind]


class NotAnalysed(Exception):
    """A query whose columns have unknown origins; the text is the reason."""


@dataclass(frozen=True)
class QueryOrigins:
    """A query's columns with their origins; `rows` affect all of them.

    `listed` are its columns in order, and may repeat a name. `columns` has the origins of all
    columns of a name. `other` are the origins of unlisted columns, those of a generator. `unknown`
    is a table with unknown columns, which are therefore missing.
    """

    columns: Mapping[str, Origins]
    rows: frozenset[Origin] = frozenset()
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
        return joined_origins(*self.columns.values(), self.other or {})


def joined_origins(*parts: Origins) -> dict[Origin, OriginKind]:
    """Merge origins; a column that gives a value to one part gives it to the result."""
    found: dict[Origin, OriginKind] = {}
    for part in parts:
        for column, kind in part.items():
            if kind == "value" or column not in found:
                found[column] = kind
    return found


def listed(
    columns: Sequence[tuple[str, Origins]], rows: frozenset[Origin] = frozenset()
) -> QueryOrigins:
    """Return a relation with these columns, which may repeat a name."""
    found: dict[str, Origins] = {}
    for name, origins in columns:
        found[name] = joined_origins(found.get(name, {}), origins)
    return QueryOrigins(found, rows, tuple(columns))


def as_rows(columns: Iterable[Origin]) -> dict[Origin, OriginKind]:
    """Return the same origins for a result that depends on them only by its rows."""
    return dict.fromkeys(columns, "rows")
