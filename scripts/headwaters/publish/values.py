"""Values of Arrow as text: lines of CSV as PostgreSQL's COPY reads them, and JSON."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import pyarrow as pa
from pyarrow import csv

from headwaters.declared.publications import base_type
from headwaters.publish.changes import Field

_NESTED = ("array", "struct", "map")


def csv_expressions(fields: Sequence[Field]) -> dict[str, str]:
    """What is selected in place of a column, so that its values can be lines of CSV."""
    found = {}
    for field in fields:
        name = '"' + field.name.replace('"', '""') + '"'
        if base_type(field.type) in ("string", "varchar", "char"):
            found[field.name] = f"arrow_cast({name}, 'LargeUtf8')"
        elif field.type == "binary":
            found[field.name] = f"arrow_cast('\\x' || encode({name}, 'hex'), 'LargeUtf8')"
    return found


def csv_lines(rows: pa.RecordBatchReader, fields: Sequence[Field]) -> Iterator[bytes]:
    """Lines of CSV: null is nothing, an empty text is `\"\"`."""
    nested = {field.name for field in fields if base_type(field.type) in _NESTED}
    options = csv.WriteOptions(include_header=False, quoting_style="needed")
    for batch in rows:
        columns = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name in nested:
                values = column.to_pylist(maps_as_pydicts="strict")
                texts = [None if value is None else to_json(value) for value in values]
                column = pa.array(texts, pa.large_string())
            elif pa.types.is_string_view(column.type):
                column = column.cast(pa.large_string())
            elif pa.types.is_binary_view(column.type):  # of a key that is deleted
                digits = [None if one is None else f"\\x{one.hex()}" for one in column.to_pylist()]
                column = pa.array(digits, pa.large_string())
            columns.append(column)
        buffer = BytesIO()
        csv.write_csv(pa.record_batch(columns, names=batch.schema.names), buffer, options)
        yield buffer.getvalue()


def records(rows: pa.RecordBatchReader) -> Iterator[dict[str, Any]]:
    """Rows as mappings of columns to values."""
    for batch in rows:
        yield from batch.to_pylist(maps_as_pydicts="strict")


def to_json(value: Any) -> str:
    """JSON without blanks. Decimals are texts, since most readers take numbers for doubles.

    Times are ISO 8601, those of `timestamp` with a Z; binary is base64; NaN and infinities, which
    JSON has not, are texts.
    """
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, str | int | None):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {_key(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value]


def _key(value: Any) -> str:
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
