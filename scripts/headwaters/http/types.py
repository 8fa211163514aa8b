"""The types of columns in msgspec, Python, Arrow and JSON Schema."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from types import GenericAlias
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from msgspec import Meta, Raw
from sqlglot import exp
from sqlglot.errors import SqlglotError

Read = Callable[[Any], Any]

_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_OFFSET = "(?:Z|[-+](?:0[0-9]|1[0-7]):[0-5][0-9])"
_FLOAT = rb"(?P<number>-?(?:0|[1-9][0-9]{0,308})(?:\.[0-9]{1,400})?(?:[eE][-+]?[0-9]{1,3})?)"
_LARGEST_FLOAT = 3.4028235677973366e38  # larger numbers round to infinity as float


@dataclass(frozen=True)
class Kind:
    """A type of SQL.

    msgspec decodes a value into `decoded`. `read` converts it to the column's value, or raises
    ValueError; without `read`, both are the same. `arrow` is None for a type that only Spark
    writes.
    """

    name: str
    decoded: Any
    read: Read | None
    arrow: Any
    schema: dict[str, Any]
    has_text_inside: bool = False

    @property
    def nullable(self) -> Any:
        """Return the type that msgspec decodes a value or null into."""
        return Raw if self.decoded is Raw else self.decoded | None

    @property
    def nullable_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of a value or null."""
        return {"anyOf": [self.schema, {"type": "null"}]} if self.schema else {}


def kind_of(data_type: str) -> Kind:
    """Return the kind of a declared type. Raises ValueError for an unsupported type."""
    try:
        return _kind(exp.DataType.build(data_type, dialect="spark"))
    except (SqlglotError, KeyError):
        raise ValueError(f"{data_type} is not a type that the HTTP endpoint reads") from None


def _kind(node: Any) -> Kind:
    name, inner = node.this.name, node.expressions
    if name == "DECIMAL":
        precision, scale = [int(one.name) for one in inner] + [10, 0][len(inner) :]
        return _decimal(precision, scale)
    if name == "ARRAY":
        return _array(_kind(inner[0]))
    if name == "MAP":
        key, value = map(_kind, inner)
        if key.name != "string":
            raise ValueError(f"{node.sql('spark')}: the keys of an object in JSON are strings")
        return _map(value)
    if name == "STRUCT":
        return _struct({one.name: _kind(one.args["kind"]) for one in inner})
    return _SIMPLE[name]


def _or_null(read: Read) -> Read:
    return lambda value: None if value is None else read(value)


def _text(pattern: str, parse: Read) -> Read:
    """Return a reader of texts that match a pattern."""
    matches = re.compile(pattern, re.ASCII).fullmatch

    def read(value: str | None) -> Any:
        if value is None:
            return None
        if matches(value) is None:
            raise ValueError("another form is declared")
        return parse(value)

    return read


def _number(pattern: bytes, parse: Read) -> Read:
    """Return a reader of numbers from the bytes that were sent, because their digits count."""
    match = re.compile(pattern).fullmatch

    def read(value: Raw | None) -> Any:
        if value is None:
            return None
        if (found := match(value)) is not None:
            return parse(found["number"])
        if bytes(value) == b"null":
            return None
        raise ValueError("another form is declared")

    return read


def _integer(bits: int, arrow: Any) -> Kind:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    schema = {"type": "integer", "minimum": low, "maximum": high}
    return Kind("integer", Annotated[int, Meta(ge=low, le=high)], None, arrow, schema)


def _double(limit: float, arrow: Any) -> Kind:
    def parse(digits: bytes) -> float:
        number = float(digits)
        if abs(number) >= limit:
            raise ValueError("a number of the type is smaller")
        return number

    return Kind("double", Raw, _number(_FLOAT, parse), arrow, {"type": "number"})


def _decimal(precision: int, scale: int) -> Kind:
    whole, part = precision - scale, b"(?:\\.[0-9]{1,%d})?" % scale if scale else b""
    digits = b"-?(?:0|[1-9][0-9]{0,%d})" % (whole - 1) if whole else b"-?0"
    shown = f"{precision} digits, {scale} of them after the point"
    return Kind(
        "decimal",
        Raw,
        _number(
            b'(?P<quote>"?)(?P<number>%b%b)(?P=quote)' % (digits, part),
            lambda number: Decimal(number.decode()),
        ),
        pa.decimal128(precision, scale),
        {"type": ["number", "string"], "format": "decimal", "description": shown},
    )


def _array(inner: Kind) -> Kind:
    read = inner.read
    return Kind(
        "array",
        GenericAlias(list, (inner.nullable,)),
        _or_null(lambda value: [read(one) for one in value]) if read else None,
        inner.arrow and pa.list_(inner.arrow),
        {"type": "array", "items": inner.nullable_schema},
        inner.name == "string" or inner.has_text_inside,
    )


def _map(inner: Kind) -> Kind:
    read = inner.read or (lambda value: value)
    return Kind(
        "map",
        GenericAlias(dict, (str, inner.nullable)),
        # entries, as Arrow requires
        _or_null(lambda value: [(key, read(one)) for key, one in value.items()]),
        inner.arrow and pa.map_(pa.string(), inner.arrow),
        {"type": "object", "additionalProperties": inner.nullable_schema},
        True,
    )


def _struct(fields: dict[str, Kind]) -> Kind:
    reads = [one.read or (lambda value: value) for one in fields.values()]
    known = all(one.arrow is not None for one in fields.values())

    def read(value: Any) -> dict[str, Any]:
        sent = msgspec.structs.astuple(value)
        return {name: one(part) for name, one, part in zip(fields, reads, sent, strict=True)}

    return Kind(
        "struct",
        record_of({name: (one.nullable, False) for name, one in fields.items()}),
        _or_null(read),
        pa.struct([(name, one.arrow) for name, one in fields.items()]) if known else None,
        {
            "type": "object",
            "properties": {name: one.nullable_schema for name, one in fields.items()},
            "additionalProperties": False,
        },
        any(one.name == "string" or one.has_text_inside for one in fields.values()),
    )


def record_of(fields: dict[str, tuple[Any, bool]], absent: object = None) -> Any:
    """Return msgspec's type of an object with only these fields, given by type and if required."""
    places = {f"c{place}": name for place, name in enumerate(fields)}
    return msgspec.defstruct(
        "Record",
        [
            (place, fields[name][0], *([] if fields[name][1] else [absent]))
            for place, name in places.items()
        ],
        rename=places,
        forbid_unknown_fields=True,
        kw_only=True,
        gc=False,
    )


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if text[-1] == "Z" else moment.astimezone(UTC)


def _variant(value: Raw) -> bytes | None:
    sent = bytes(value)
    return None if sent == b"null" else sent


def _bytes(text: str) -> bytes:
    found = base64.b64decode(text, validate=True)
    if base64.b64encode(found) != text.encode():
        raise ValueError("another form is declared")
    return found


_MOMENT = {"type": "string", "format": "date-time"}
_SIMPLE = {
    "TEXT": Kind("string", str, None, pa.string(), {"type": "string"}),
    "BOOLEAN": Kind("boolean", bool, None, pa.bool_(), {"type": "boolean"}),
    "TINYINT": _integer(8, pa.int8()),
    "SMALLINT": _integer(16, pa.int16()),
    "INT": _integer(32, pa.int32()),
    "BIGINT": _integer(64, pa.int64()),
    "FLOAT": _double(_LARGEST_FLOAT, pa.float32()),
    "DOUBLE": _double(math.inf, pa.float64()),
    "DATE": Kind(
        "date",
        str,
        _text(_DAY, date.fromisoformat),
        pa.date32(),
        {"type": "string", "format": "date"},
    ),
    "TIMESTAMPTZ": Kind(
        "timestamp",
        str,
        _text(f"{_DAY}[T ]{_TIME}{_OFFSET}", _moment),
        pa.timestamp("us", "UTC"),
        _MOMENT,
    ),
    "TIMESTAMPNTZ": Kind(
        "timestamp_ntz",
        str,
        _text(f"{_DAY}[T ]{_TIME}", datetime.fromisoformat),
        pa.timestamp("us"),
        {"type": "string", "description": "a date and a time without an offset"},
    ),
    "BINARY": Kind(
        "binary",
        str,
        _or_null(_bytes),
        pa.binary(),
        {"type": "string", "contentEncoding": "base64"},
    ),
    "VARIANT": Kind("variant", Raw, _or_null(_variant), None, {}, True),
}
