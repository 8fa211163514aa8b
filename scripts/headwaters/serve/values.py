"""Which values of JSON are values of a column's type, as ingestion decides it, without Spark.

A value is what `json` makes of it, except that a number with a point or an exponent stays the text
that was sent (`Number`): its digits count. What is said of texts follows `formats/texts.py`.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, DecimalException, InvalidOperation
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from headwaters.formats.texts import NEWEST_SECOND, OLDEST_SECOND, PATTERNS
from headwaters.serve.moments import day, is_timestamp, timestamp, timestamp_ntz

Fits = Callable[[Any], bool]
Read = Callable[[Any], Any]

LONGEST_NUMBER = 500  # characters: Spark's parser of JSON stops at 1,000
_INFINITE = ("Infinity", "+Infinity", "-Infinity", "+INF", "-INF")
_LARGEST_FLOAT = 3.4028235677973366e38  # from here on, the nearest float is infinity
INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_NUMERIC_TEXT = re.compile(PATTERNS["decimal"].replace(r"\s*+", ""), re.ASCII).fullmatch
_PLAIN_DECIMAL = re.compile(r"-?[0-9]+\.[0-9]+", re.ASCII).fullmatch
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Number(str):
    """A number of JSON with a point or an exponent, as it was sent."""

    __slots__ = ()


@dataclass(frozen=True)
class Type:
    """A type of SQL, with what is inside it: an element, or fields by name."""

    name: str
    precision: int = 0
    scale: int = 0
    element: Type | None = None
    fields: tuple[tuple[str, Type], ...] = ()

    @property
    def has_text(self) -> bool:
        """Whether it is text, or has text inside."""
        inner = [self.element] if self.element else [one for _, one in self.fields]
        return self.name == "string" or any(one.has_text for one in inner)


@dataclass(frozen=True)
class Column:
    """A column that is read: whether a value of JSON is one of its own, and which one."""

    name: str
    data_type: str
    kind: Type
    fits: Fits
    read: Read
    required: bool


_NAMES = {
    "TEXT": "string",
    "TIMESTAMPTZ": "timestamp",
    "TIMESTAMPNTZ": "timestamp_ntz",
    **{
        name.upper(): name
        for name in (
            *("tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "date"),
            *("decimal", "binary", "variant", "array", "map", "struct"),
        )
    },
}


def type_of(data_type: str) -> Type:
    """The type that a contract declares. Raises ValueError for one that is not understood."""
    try:
        return _type(exp.DataType.build(data_type, dialect="spark"))
    except SqlglotError:
        raise ValueError(f"{data_type} is not a type that the front door reads") from None


def _type(node: exp.Expr | None) -> Type:
    name = _NAMES.get(node.this.name) if isinstance(node, exp.DataType) else None
    if node is None or name is None:
        raise ValueError(f"{node} is not a type that the front door reads")
    inner = node.expressions
    if name == "decimal":
        precision, scale = [int(one.name) for one in inner] + [10, 0][len(inner) :]
        return Type(name, precision, scale)
    if name == "struct":
        return Type(name, fields=tuple((one.name, _type(one.args["kind"])) for one in inner))
    if name == "map":
        key, value = map(_type, inner)
        if key.name != "string":
            raise ValueError(f"{node.sql('spark')}: the keys of an object in JSON are strings")
        return Type(name, element=value)
    return Type(name, element=_type(inner[0])) if name == "array" else Type(name)


# -- whether a value fits ------------------------------------------------------------------------


def fits(kind: Type, formatted: frozenset[str] = frozenset()) -> Fits:
    """Whether a value of JSON, which is not null, is one of a type.

    Of the types in `formatted`, a declared format decides which texts are values: any is taken.
    """
    if kind.name in formatted:
        return lambda value: (type(value) is str and value != "") or _is_second(kind, value)
    if bits := INTEGERS.get(kind.name):
        low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        return lambda value: type(value) is int and low <= value <= high
    if kind.name == "decimal":
        return _fits_decimal(kind.precision, kind.scale)
    if kind.element is not None:
        inner = _or_null(fits(kind.element, formatted))
        if kind.name == "array":
            return lambda value: type(value) is list and all(map(inner, value))
        return lambda value: type(value) is dict and all(map(inner, value.values()))
    if kind.name == "struct":
        parts = [(name, _or_null(fits(one, formatted))) for name, one in kind.fields]
        return lambda value: (
            type(value) is dict and all(part(value.get(name)) for name, part in parts)
        )
    return _SIMPLE[kind.name]


def _or_null(inner: Fits) -> Fits:
    return lambda value: value is None or inner(value)


def _is_second(kind: Type, value: Any) -> bool:
    return kind.name == "timestamp" and _fits_second(value)


def _fits_second(value: Any) -> bool:
    return type(value) is int and OLDEST_SECOND <= value <= NEWEST_SECOND


def _fits_string(value: Any) -> bool:
    """Any: but a number must be one that Spark writes with the same characters."""
    if type(value) is not Number:
        return True
    number = float(value)
    same = _PLAIN_DECIMAL(value) is not None and repr(number) == value
    return same and (number == 0 or 1e-3 <= abs(number) < 1e7)


def _fits_double(value: Any) -> bool:
    if type(value) is str:
        return value == "NaN" or value in _INFINITE
    return _is_number(value) and math.isfinite(_float(value))


def _fits_float(value: Any) -> bool:
    if type(value) is str:
        return value == "NaN" or value in _INFINITE
    return _is_number(value) and abs(_float(value)) < _LARGEST_FLOAT


def _is_number(value: Any) -> bool:
    return type(value) is Number or type(value) is int


def _float(value: int | str) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def below(kind: Type) -> float:
    """Below this, a number fits a decimal: far enough from the edge that no rounding reaches it."""
    digits = kind.precision - kind.scale
    return 10.0**digits - 1 if digits <= 15 else 1e15


def _fits_decimal(precision: int, scale: int) -> Fits:
    plain = below(Type("decimal", precision, scale))
    to_value = _read_decimal(precision, scale)

    def fit(value: Any) -> bool:
        kind = type(value)
        if kind is Number or kind is int:
            if -plain < _float(value) < plain:
                return True
        elif kind is not str or len(value) > LONGEST_NUMBER or not _NUMERIC_TEXT(value):
            return False
        try:
            to_value(value)
        except DecimalException:
            return False
        return True

    return fit


def _fits_binary(value: Any) -> bool:
    try:
        return type(value) is str and base64.b64decode(value, validate=True) is not None
    except (binascii.Error, ValueError):
        return False


_SIMPLE: Mapping[str, Fits] = {
    "string": _fits_string,
    "boolean": lambda value: type(value) is bool,
    "float": _fits_float,
    "double": _fits_double,
    "date": lambda value: type(value) is str and day(value) is not None,
    "timestamp": lambda value: is_timestamp(value) if type(value) is str else _fits_second(value),
    "timestamp_ntz": lambda value: type(value) is str and timestamp_ntz(value) is not None,
    "binary": _fits_binary,
    "variant": lambda value: True,
}


# -- what a value is -----------------------------------------------------------------------------


def read(kind: Type) -> Read:
    """The value that a fitting value of JSON is in a type, as Python has it.

    Raises ValueError for what only Spark can have, such as a moment after the year 9999.
    """
    if kind.name == "decimal":
        return _read_decimal(kind.precision, kind.scale)
    if kind.element is not None:
        inner = _read_or_null(kind.element)
        if kind.name == "array":
            return lambda value: [inner(one) for one in value]
        # as the entries that Arrow takes
        return lambda value: [(key, inner(one)) for key, one in value.items()]
    if kind.name == "struct":
        parts = [(name, _read_or_null(one)) for name, one in kind.fields]
        return lambda value: {name: part(value.get(name)) for name, part in parts}
    return _READ.get(kind.name, lambda value: value)


def _read_or_null(kind: Type) -> Read:
    inner = read(kind)
    return lambda value: None if value is None else inner(value)


def _read_decimal(precision: int, scale: int) -> Read:
    unit = Decimal(1).scaleb(-scale)
    context = Context(
        prec=precision, rounding=ROUND_HALF_UP, Emin=-99_999, Emax=99_999, traps=[InvalidOperation]
    )

    def to_value(value: Any) -> Decimal:
        if type(value) is Number and 0 < len(value) - value.find(".") - 1 <= scale:
            plain = _PLAIN_DECIMAL(value) is not None
            if plain and len(value) <= precision:  # nothing to round, and no digit too many
                return Decimal(value)
        return Decimal(value).quantize(unit, context=context)

    return to_value


def _read_string(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    raise ValueError("an object or array, where text is declared")


def _read_moment(value: Any) -> datetime:
    found = timestamp(value) if isinstance(value, str) else _EPOCH + timedelta(seconds=value)
    if found is None:
        raise ValueError(f"{value} is no moment of the years 1 to 9999")
    return found


_READ: Mapping[str, Read] = {
    "string": _read_string,
    "float": float,
    "double": float,
    "date": day,
    "timestamp": _read_moment,
    "timestamp_ntz": timestamp_ntz,
    "binary": base64.b64decode,
}
