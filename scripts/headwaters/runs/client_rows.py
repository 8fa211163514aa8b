"""The inspection of a change set in the client's memory: counts, repeated keys and bounds.

A small change set is computed once and brought to the client as Arrow. The client inspects it
without a statement. Its results are those of the SQL in `macros/incremental/inspect.sql` and
`bounds.sql`. See docs/decisions/0050-small-change-sets.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from headwaters.platform.sql import identifier
from headwaters.runs import bounds as bounding
from headwaters.runs.bounds import Bound

if TYPE_CHECKING:
    import pyarrow as pa

# A change set with more rows or bytes, or with a longer value, takes a staging table. A client then
# holds at most this many bytes for each change set that it hands on.
MOST_ROWS = 10_000
MOST_BYTES = 16 * 1024 * 1024
LONGEST_VALUE = 2_000

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_FIXED = (*_INTEGERS, "boolean", "float", "double", "date", "timestamp", "timestamp_ntz")
# The types of keys whose equality is the same here as in Spark: no floating-point numbers, whose
# NaN and -0.0 equal other values, and no nested values.
_KEYS = (*_INTEGERS, "boolean", "date", "timestamp", "timestamp_ntz", "decimal", "string", "binary")
_HARMLESS = re.compile(rb"(?:[ -#%-~]|[$](?![{]))*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400_000_000
_FIRST, _LAST = (
    int((day - _EPOCH) / timedelta(days=1))
    for day in (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC))
)


class DataType(Protocol):
    """A type of Spark, as pyspark describes it."""

    def simpleString(self) -> str:
        """Return the type as Spark's SQL writes it."""


class _Field(Protocol):
    name: str
    dataType: DataType


@runtime_checkable
class _Struct(DataType, Protocol):
    fields: Sequence[_Field]


@runtime_checkable
class _Array(DataType, Protocol):
    elementType: DataType


@dataclass(frozen=True)
class ClientRows:
    """The rows of a query in the client's memory, with the type that Spark gives each column.

    `schema` is Spark's own description of the columns, to show the rows to Spark again.
    """

    table: pa.Table
    types: Mapping[str, str]
    schema: Any = None

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return int(self.table.num_rows)

    @property
    def bytes(self) -> int:
        """Return the size of the rows."""
        return int(self.table.nbytes)

    @cached_property
    def _values(self) -> dict[str, list[Any]]:
        return {}

    def values(self, column: str) -> list[Any]:
        """Return the values of a column; texts are bytes, days and moments are numbers."""
        name = self.name(column)
        known = self._values.get(name)
        if known is None:
            known = self._values[name] = _plain_values(self.table, name, self.types[name])
        return known

    def name(self, column: str) -> str:
        """Return the name of a column that a setting names, in upper or lower case."""
        return next((name for name in self.types if name.lower() == column.lower()), column)

    def type(self, column: str) -> str:
        """Return the type of a column."""
        return self.types[self.name(column)]

    def count(self, operation: str) -> int:
        """Return the number of rows with an operation."""
        return self.values("_operation").count(operation.encode())

    def type_without(self, names: Iterable[str]) -> str:
        """Return the type of a row without some columns, as Spark writes it."""
        omitted = set(names)
        fields = (f"{name}:{kind}" for name, kind in self.types.items() if name not in omitted)
        return f"struct<{','.join(fields)}>"


def is_carried(kind: DataType) -> bool:
    """Return true if Arrow carries the values of a type of Spark exactly, in both directions."""
    if isinstance(kind, _Array):
        return is_carried(kind.elementType)
    if isinstance(kind, _Struct):
        return all(is_carried(field.dataType) for field in kind.fields)
    name = kind.simpleString()
    return name in ("string", "binary", *_FIXED) or name.startswith("decimal(")


def nullable(column: str, kind: DataType) -> str:
    """Return a column whose nested values may all be null.

    Arrow's types have fields without nulls even within a row that is null, and refuse such a row.
    """
    is_nested = isinstance(kind, _Array | _Struct)
    return f"cast({column} as {_written(kind)})" if is_nested else column


def _written(kind: DataType) -> str:
    if isinstance(kind, _Array):
        return f"array<{_written(kind.elementType)}>"
    if isinstance(kind, _Struct):
        fields = (f"{identifier(field.name)}: {_written(field.dataType)}" for field in kind.fields)
        return f"struct<{', '.join(fields)}>"
    return kind.simpleString()


def is_too_long(column: str, kind: DataType) -> list[str]:
    """Return conditions of SQL for a value that a client should not receive, because it is long.

    A client thus bounds its memory before it receives a row.
    """
    if isinstance(kind, _Array):
        return [f"octet_length(to_json({column})) > {LONGEST_VALUE}"]
    if isinstance(kind, _Struct):
        parts = (
            is_too_long(f"{column}.{identifier(field.name)}", field.dataType)
            for field in kind.fields
        )
        return [condition for part in parts for condition in part]
    if kind.simpleString() in ("string", "binary"):
        return [f"octet_length({column}) > {LONGEST_VALUE}"]
    return []


def orphaned(views: Iterable[str], now: datetime) -> list[str]:
    """Return the views of change sets that are older than a day: no run takes that long."""
    yesterday = f"{now - timedelta(days=1):%Y%m%d%H%M}"
    found = ((name, re.search(r"__stage_(\d{12})_[0-9a-f]{8}", name)) for name in views)
    return [name for name, minute in found if minute and minute[1] < yesterday]


def may_be_compared(types: Iterable[str]) -> bool:
    """Return true if Python and Spark agree on the equality of keys of these types."""
    return all(kind.split("(")[0] in _KEYS for kind in types)


def distinct(rows: ClientRows, columns: Sequence[str]) -> int:
    """Return the number of different values of some columns together."""
    return len(set(zip(*(rows.values(column) for column in columns), strict=True)))


def bounds_of(
    rows: ClientRows, columns: Sequence[str], most_listed: int = 0, has_rows: bool = False
) -> list[Bound]:
    """Return the bounds of the values of each column.

    The first column also gets all of its values, if there are few and all can be written. With
    `has_rows`, every column gets them.
    """
    bounds = []
    for number, column in enumerate(columns):
        bound = _bound(rows, column)
        if has_rows:
            bound = replace(bound, values=_listed(rows, column))
        elif number == 0 and rows.rows <= most_listed:
            listed = _listed(rows, column)
            bound = bounding.with_values(bound, None if listed is None else json.dumps(listed))
        bounds.append(bounding.within_calendar(bound))
    return bounds


def key_rows(rows: ClientRows, columns: Sequence[str]) -> list[list[str | None]]:
    """Return the different rows of some columns as texts; a text that SQL cannot have is marked."""
    texts = [
        [_listed_text(rows, column, value) for value in rows.values(column)] for column in columns
    ]
    return [list(row) for row in dict.fromkeys(zip(*texts, strict=True))]


def _listed_text(rows: ClientRows, column: str, value: Any) -> str | None:
    if value is None:
        return None
    text, is_whole = _text(value, rows.type(column))
    return text if is_whole else bounding.UNWRITABLE


def _listed(rows: ClientRows, column: str) -> tuple[str, ...] | None:
    values = {value for value in rows.values(column) if value is not None}
    texts = [_text(value, rows.type(column)) for value in values]
    return tuple(sorted(text for text, _ in texts)) if all(whole for _, whole in texts) else None


def _bound(rows: ClientRows, column: str) -> Bound:
    kind = rows.type(column)
    values = rows.values(column) if kind.split("(")[0] in _KEYS else None
    if values is None:  # no condition has a bound of this type
        nulls = rows.table.column(rows.name(column)).null_count
        return Bound(column, kind, nulls > 0, nulls == rows.rows, None, None, False, None)
    known = [value for value in values if value is not None]
    nulls = len(known) < len(values)
    if not known:
        return Bound(column, kind, nulls, True, None, None, False, None)
    least, _ = _text(min(known), kind)
    greatest, is_whole = _text(max(known), kind)
    return Bound(column, kind, nulls, False, least, greatest, is_whole, None)


def _text(value: Any, kind: str) -> tuple[str, bool]:
    """Return the harmless prefix of a value's text, and true if it is the whole text."""
    if isinstance(value, bytes):
        found = _HARMLESS.match(value[:100])
        prefix = found[0] if found else b""
        return prefix.decode("ascii"), prefix == value
    return _WRITTEN.get(kind.split("(")[0], str)(value), True


def _day(number: int) -> str:
    """Return a day as text; one that Python cannot have becomes one beyond the calendar."""
    if number < _FIRST:
        return "-0001-01-01"
    if number > _LAST:
        return "+10000-01-01"
    return (_EPOCH + timedelta(days=number)).date().isoformat()


def _moment(micros: int) -> str:
    day, rest = divmod(micros, _DAY)
    return f"{_day(day)} {_EPOCH + timedelta(microseconds=rest):%H:%M:%S.%f}"


def _decimal(value: Decimal) -> str:
    return format(value, "f")


_WRITTEN: dict[str, Callable[[Any], str]] = {
    "date": _day,
    "timestamp": _moment,
    "timestamp_ntz": _moment,
    "decimal": _decimal,
    "boolean": lambda value: str(value).lower(),
}


def _plain_values(table: pa.Table, column: str, kind: str) -> list[Any]:
    """Return the values of a column; Python's own days and moments do not have all of Spark's."""
    import pyarrow as pa

    wanted = {
        "string": pa.binary(),
        "date": pa.int32(),
        "timestamp": pa.int64(),
        "timestamp_ntz": pa.int64(),
    }.get(kind)
    values = table.column(column)
    return list((values if wanted is None else values.cast(wanted)).to_pylist())
