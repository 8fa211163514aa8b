"""Values of Arrow as text: CSV lines for PostgreSQL's COPY, and JSON."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from io import BytesIO
from typing import Any

import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import csv

from headwaters.platform.errors import WorkError
from headwaters.publish.changes import Field, PublishedTable
from headwaters.tables.publications import base_type

_UNITS = {unit: 86_400 * 1000**power for power, unit in enumerate(("s", "ms", "us", "ns"))}
# Days since 1970 of the first day of year 1, and of year 10000
_FIRST, _AFTER = (one - date(1970, 1, 1).toordinal() for one in (1, date.max.toordinal() + 1))
_NESTED = ("array", "struct", "map")
# as Spark, PostgreSQL and Java spell them, so that they can be read again
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def csv_expressions(fields: Sequence[Field]) -> dict[str, str]:
    """Return SQL for the columns whose values need a conversion before CSV."""
    found = {}
    for field in fields:
        name = '"' + field.name.replace('"', '""') + '"'
        if base_type(field.type) in ("string", "varchar", "char"):
            found[field.name] = f"arrow_cast({name}, 'LargeUtf8')"
        elif field.type == "binary":
            found[field.name] = f"arrow_cast('\\x' || encode({name}, 'hex'), 'LargeUtf8')"
    return found


def csv_lines(rows: pa.RecordBatchReader, source: PublishedTable) -> Iterator[bytes]:
    """Yield lines of CSV: null is nothing, an empty text is `\"\"`.

    Raises WorkError for a value that cannot be published, as `records` does.
    """
    nested = {field.name for field in source.fields if base_type(field.type) in _NESTED}
    # this style quotes all texts
    options = csv.WriteOptions(include_header=False, quoting_style="needed")
    for batch in rows:
        columns = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            _check_years(column, f"{source.name}.{name}")
            if name in nested:
                values = _plain_values(column, f"{source.name}.{name}")
                texts = [None if value is None else to_json(value) for value in values]
                column = pa.array(texts, pa.large_string())
            elif pa.types.is_string_view(column.type):
                column = column.cast(pa.large_string())
            elif pa.types.is_binary_view(column.type):  # in the key of a deleted row
                digits = [None if one is None else f"\\x{one.hex()}" for one in column.to_pylist()]
                column = pa.array(digits, pa.large_string())
            columns.append(column)
        buffer = BytesIO()
        csv.write_csv(pa.record_batch(columns, names=batch.schema.names), buffer, options)
        yield buffer.getvalue()


def records(rows: pa.RecordBatchReader, source: PublishedTable) -> Iterator[dict[str, Any]]:
    """Yield rows as mappings of columns to values of JSON.

    Decimals are texts, because most readers parse numbers as doubles. Times are ISO 8601, those of
    `timestamp` with a Z. Binary is base64. JSON has no NaN and no infinities, which become the
    texts `NaN`, `Infinity` and `-Infinity`. Raises WorkError for a value that cannot be published:
    a year that ISO 8601 does not write in four digits, or a map with a repeated key.
    """
    for batch in rows:
        names, columns = batch.schema.names, []
        for name, column in zip(names, batch.columns, strict=True):
            _check_years(column, f"{source.name}.{name}")
            columns.append(_plain_values(column, f"{source.name}.{name}"))
        for values in zip(*columns, strict=True):
            yield dict(zip(names, values, strict=True))


def to_json(value: Any) -> str:
    """Return JSON without blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _check_years(column: pa.Array, place: str) -> None:
    """Check that all dates and times, also nested ones, are of the years 1 to 9999."""
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        unit = 1 if pa.types.is_date(kind) else _UNITS[kind.unit]
        found = pc.min_max(column.cast(pa.int32() if unit == 1 else pa.int64())).as_py()
        if found["min"] is not None and not (
            _FIRST * unit <= found["min"] <= found["max"] < _AFTER * unit
        ):
            raise WorkError(
                "HW_PUBLISH_VALUE",
                f"{place} has a date or time outside of the years 1 to 9999: correct it in the "
                "model. Nothing was published",
            )
    elif pa.types.is_map(kind):
        _check_years(column.keys, place)
        _check_years(column.items, place)
    elif pa.types.is_nested(kind):
        parts = column.flatten()
        for part in parts if pa.types.is_struct(kind) else [parts]:
            _check_years(part, place)


def _plain_values(column: pa.Array, place: str) -> list[Any]:
    plain = _plain(column.type, place)
    return [None if value is None else plain(value) for value in column.to_pylist()]


def _plain(kind: pa.DataType, place: str) -> Callable[[Any], Any]:
    """Return a function that converts Arrow's non-null values to JSON's."""
    if pa.types.is_map(kind):
        return _plain_map(kind, place)
    if pa.types.is_struct(kind):
        fields = {field.name: _plain(field.type, place) for field in kind}
        return lambda value: {name: _or_none(of, value[name]) for name, of in fields.items()}
    if pa.types.is_nested(kind):
        item = _plain(kind.value_type, place)
        return lambda value: [_or_none(item, one) for one in value]
    if pa.types.is_floating(kind):
        # -0.0 becomes 0.0, which compares as equal
        return lambda value: value + 0.0 if math.isfinite(value) else _NOT_FINITE[str(value)]
    if pa.types.is_decimal(kind):
        return lambda value: format(value, "f")
    if pa.types.is_temporal(kind):
        return lambda value: value.isoformat().replace("+00:00", "Z")
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return lambda value: base64.b64encode(value).decode()
    return lambda value: value


def _plain_map(kind: pa.MapType, place: str) -> Callable[[Any], Any]:
    key, item = _plain(kind.key_type, place), _plain(kind.item_type, place)

    def plain(pairs: Sequence[tuple[Any, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for one, value in pairs:
            name = key(one)
            found[name if isinstance(name, str) else to_json(name)] = _or_none(item, value)
        if len(found) != len(pairs):
            raise WorkError(
                "HW_PUBLISH_VALUE",
                f"{place} has a map with a key twice, which an object of JSON cannot have: correct "
                "it in the model. Nothing was published",
            )
        return found

    return plain


def _or_none(plain: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else plain(value)
