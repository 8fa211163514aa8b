"""Requests whose records are certainly good, found in a fraction of the time: most are.

A compiled parser (msgspec) reads records into types that are made from the contract; what is left
to check is checked for a column of all records at once. What is accepted here, the reader accepts,
with the same texts: objects with declared fields of simple types. Everything else is left to it.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import pairwise
from operator import attrgetter
from types import GenericAlias
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Raw, UnsetType

from headwaters.serve.checks import Check
from headwaters.serve.values import INTEGERS, LONGEST_NUMBER, Column, below

# a text may be a part of the body, which is no bytes for Python but for everybody who takes them
Found = tuple[Sequence[bytes], list[str | None] | None]

_TEXTS = ("string", "date", "timestamp", "timestamp_ntz")
_DOUBLES = {"float": 3e38, "double": 1e308}  # below, no rounding makes them infinite
_NULL = b"null"
_AS_ZEROS = bytes.maketrans(b"123456789+-.eE", b"0" * 14)
_TOO_LONG = b"0" * (LONGEST_NUMBER + 1)
_IN_DOUBT = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_SMALL = 1 << 12  # bytes, from which on NumPy counts faster
_MOST_HELD = 1000  # texts of which it is known that a check holds

_records = msgspec.json.Decoder(list[Raw]).decode
_datetimes = msgspec.json.Decoder(list[datetime]).decode


class QuickReader:
    """Reads the requests of a stream whose columns have simple types."""

    def __init__(self, columns: Sequence[Column], checks: Iterable[Check]) -> None:
        """Compile columns and checks. Raises ValueError for a type that is not simple."""
        self._columns = [_compiled(column, f"c{at}") for at, column in enumerate(columns)]
        self._places = {column.name: place for place, column in enumerate(columns)}
        self._checks = [_Alike(check, self._columns) for check in checks]
        self._whole = _decoder(self._columns, whole=True)
        self._partial = _decoder(self._columns, whole=False)
        self._quotes = sum(4 if column.is_text else 2 for column in self._columns)
        self._certain = [(c.of, c.certain) for c in self._columns if c.certain is not None]
        # without a backslash, only in single quotes can a text have the name of a field and a value
        self._quoted = [f"'{c.name}".encode() for c in columns if c.kind.name == "decimal"]

    def read(
        self, body: bytes, lines: bool, key: str | None, accepts: Callable[[bytes], bool]
    ) -> Found | None:
        """The texts of the records, and their values of the field `key`; None if in doubt.

        A record with a backslash is left to `accepts`.
        """
        place = None if key is None else self._places[key]
        if place is not None and not self._columns[place].is_text:
            return None
        try:
            sent = _lines(body) if lines else None
            array = body if sent is None else _array(sent)
            texts: Sequence[bytes] = _records(array)
            if sent is not None:
                if sent != [*map(bytes, texts)]:
                    return None
                texts = sent
            if b"\\" not in array:
                rows = self._good(array, len(texts))
            elif place is None:
                texts = [*map(bytes, texts)]
                if not all(accepts(text) for text in texts if b"\\" in text):
                    return None
                plain = [text for text in texts if b"\\" not in text]
                rows = self._good(_array(plain), len(plain))
            else:
                return None
        except _IN_DOUBT:
            return None
        if rows is None:
            return None
        if place is None:
            return texts, None
        keys = map(self._columns[place].of, rows)
        return texts, [key if type(key) is str else None for key in keys]

    def _good(self, array: bytes, number: int) -> list[Any] | None:
        """The `number` records of an array that has no backslash; None if in doubt."""
        if self._is_odd(array, number):
            return None
        try:
            rows, whole = self._whole(array), True
        except msgspec.ValidationError:
            rows, whole = self._partial(array), False
        # no field is named twice, and no number is a text, if there are no more quotes than these
        quotes = self._quotes * len(rows)
        if not whole:
            quotes -= sum(_missing(rows, column) for column in self._columns)
        if _count(array, b'"') != quotes:
            return None
        for of, certain in self._certain:
            values = [*map(of, rows)]
            if not whole:
                values = [value for value in values if value is not None and value is not UNSET]
            if not certain(values):
                return None
        return rows if all(check.holds(rows) for check in self._checks) else None

    def _is_odd(self, array: bytes, number: int) -> bool:
        """Whether something is there that types do not tell."""
        if not array.isascii():
            array.decode()
        return (
            # Spark may read the text of an object, with its numbers. Counting is faster
            (_count(array, b"{") != number and b'"{' in array)
            or (array.find(b"[", array.find(b"[") + 1) > 0 and b'"[' in array)
            or (b"'" in array and any(name in array for name in self._quoted))
        )


def _count(array: bytes, sign: bytes) -> int:
    if len(array) < _SMALL:
        return array.count(sign)
    return int(np.count_nonzero(np.frombuffer(array, np.uint8) == ord(sign)))


def _lines(body: bytes) -> list[bytes]:
    stripped = [line.strip(b" \t\r") for line in body.split(b"\n")]
    return [line for line in stripped if line]


def _array(texts: Sequence[bytes]) -> bytes:
    return b"[%b]" % b",".join(texts)


# -- columns -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Compiled:
    """A column: `of` gets its value from a record, `type` is msgspec's.

    `certain` says whether all of some values, none of them null, are certainly its own.

    `as_number` makes a number of a value that checks may compare with another one, `as_read` the
    value that they are evaluated on, both exactly but for `margin` and a rounding of a double.
    """

    name: str
    field: str
    of: Callable[[Any], Any]
    type: Any
    required: bool
    is_text: bool = False
    certain: Callable[[Sequence[Any]], bool] | None = None
    as_number: Callable[[Any], float] | None = None
    margin: float = 0.0
    as_read: Callable[[Any], Any] = lambda value: value


def _compiled(column: Column, field: str) -> _Compiled:
    name = column.kind.name
    made = partial(_Compiled, column.name, field, attrgetter(field), required=column.required)
    if name in _TEXTS:
        moments = None if name == "string" else partial(_moments, column)
        return made(str, is_text=True, certain=moments)
    if name == "boolean":
        return made(bool)
    if bits := INTEGERS.get(name):
        limits = Meta(ge=-(2 ** (bits - 1)), le=2 ** (bits - 1) - 1)
        return made(Annotated[int, limits], as_number=lambda value: value, margin=0.5)
    if name == "decimal":
        return made(
            Raw,
            certain=_numbers(column, below(column.kind), b"0123456789-."),
            as_number=float,
            margin=10.0**-column.kind.scale,
            as_read=lambda value: column.read(value.decode()),
        )
    if largest := _DOUBLES.get(name):
        numbers = _numbers(column, largest, b"0123456789-+.eE")
        return made(Raw, certain=numbers, as_number=float, margin=1e-9, as_read=float)
    raise ValueError(f"{name} is no simple type")


def _moments(column: Column, values: Sequence[str]) -> bool:
    if column.kind.name != "date" and _are_rfc3339(values, column.kind.name == "timestamp"):
        return True
    return all(map(column.fits, set(values)))


def _are_rfc3339(values: Sequence[str], zoned: bool) -> bool:
    """Whether all are such moments, in capital letters and of no other zone than UTC."""
    array = '["' + '","'.join(values) + '"]'
    others = "tz+" if zoned else "tz+Z"
    if any(sign in array for sign in others) or array.count("-") != 2 * len(values):
        return False
    try:
        return len(_datetimes(array)) == len(values)
    except msgspec.ValidationError:
        return False


def _numbers(column: Column, limit: float, characters: bytes) -> Callable[[Sequence[Any]], bool]:
    """Whether all are numbers of these characters, below a limit and not too long, or null."""
    number: Any = Annotated[float, Meta(gt=-limit, lt=limit)]
    decode = _parser(number if column.required else number | None)

    def certain(values: Sequence[Any]) -> bool:
        joined = b",".join(values)
        others = joined.translate(None, characters + b",")
        return (
            (not others or not others.replace(_NULL, b""))
            and (len(joined) < len(_TOO_LONG) or _TOO_LONG not in joined.translate(_AS_ZEROS))
            and len(decode(b"[%b]" % joined)) == len(values)
        )

    return certain


def _missing(rows: Sequence[Any], column: _Compiled) -> int:
    """How many quotes fewer a column has than one that has a value in each record."""
    values = [*map(column.of, rows)]
    if column.type is Raw:
        return 2 * sum(value is _ABSENT for value in values)
    absent, null = (sum(value is one for value in values) for one in (UNSET, None))
    return 2 * absent + (2 * (absent + null) if column.is_text else 0)


_ABSENT = Raw(_NULL)  # is told from other nulls by its identity


def _decoder(columns: Sequence[_Compiled], whole: bool) -> Callable[[bytes], list[Any]]:
    """A parser of arrays of records; `whole` are those in which each column has a value."""
    fields: list[Any] = []
    for column in columns:
        if whole or column.required:
            fields.append((column.field, column.type))
        elif column.type is Raw:
            fields.append((column.field, Raw, _ABSENT))
        else:
            fields.append((column.field, column.type | None | UnsetType, UNSET))
    record = msgspec.defstruct(
        "Record",
        fields,
        rename={column.field: column.name for column in columns},
        forbid_unknown_fields=True,
        kw_only=True,
        gc=False,
    )
    return _parser(record)


def _parser(kind: Any) -> Callable[[bytes], list[Any]]:
    """What parses an array of a type that is made only now."""
    array: Any = GenericAlias(list, (kind,))
    return msgspec.json.Decoder(array).decode


# -- checks --------------------------------------------------------------------------------------


class _Alike:
    """A check, evaluated once for all rows that are alike.

    Between two of the numbers that an expression compares a column with, it makes no difference
    where a value is: one value stands for all, unless one is so near that rounding may matter.
    """

    def __init__(self, check: Check, columns: Sequence[_Compiled]) -> None:
        self._check = check
        self._used = [column for column in columns if column.name in check.columns]
        self._edges: list[float] | None = None
        self._held: set[Any] | None = None
        if len(self._used) == 1 and self._used[0].is_text:
            self._held = set()
        if len(self._used) == 1 and (column := self._used[0]).as_number is not None:
            margins = [(one, column.margin + abs(one) * 1e-9) for one in sorted(check.numbers)]
            edges = [edge for one, margin in margins for edge in (one - margin, one + margin)]
            if all(one < other for one, other in pairwise(edges)):
                self._edges = edges

    def holds(self, records: Sequence[Any]) -> bool:
        """Whether it holds for all records."""
        given = [
            map(bytes, map(column.of, records)) if column.type is Raw else map(column.of, records)
            for column in self._used
        ]
        if len(given) != 1:
            return all(map(self._holds, set(zip(*given, strict=True)) if given else [()]))
        values = set(given[0])
        if self._held is None:
            return all(self._holds((value,)) for value in self._different(values))
        fresh = values - self._held
        if not all(self._holds((value,)) for value in fresh):
            return False
        if len(self._held) < _MOST_HELD:
            self._held |= fresh
        return True

    def _holds(self, row: tuple[Any, ...]) -> bool:
        values = {c.name: _as_read(c, one) for c, one in zip(self._used, row, strict=True)}
        return self._check.holds(values) is not False

    def _different(self, values: set[Any]) -> Iterable[Any]:
        """One value of each kind; all, if one is between the edges around a number."""
        column, edges = self._used[0], self._edges
        if edges is None or column.as_number is None:
            return values
        nulls = values & _NULLS
        found = {bisect(edges, column.as_number(value)): value for value in values - nulls}
        return values if any(place % 2 for place in found) else [*found.values(), *nulls]


_NULLS = {None, UNSET, _NULL}


def _as_read(column: _Compiled, value: Any) -> Any:
    return None if value is None or value is UNSET or value == _NULL else column.as_read(value)
