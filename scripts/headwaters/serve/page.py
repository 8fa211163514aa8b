"""What the front door says of itself: the schema of each stream, and a page without other hosts."""

from __future__ import annotations

import html as escape
import json
from collections.abc import Mapping, Sequence
from typing import Any

from headwaters.contract import Contract
from headwaters.serve.records import Problem
from headwaters.serve.values import Type, type_of

# nothing may be loaded from anywhere, or run
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "X-Content-Type-Options": "nosniff",
}

RESPONSES: dict[int | str, dict[str, Any]] = {
    201: {"description": "All records are written: their number, and offsets or version."},
    400: {"description": "Records are refused, each with index, type, field and message."},
    401: {"description": "No key, or a wrong one."},
    408: {"description": "The body took too long."},
    413: {"description": "The request is too large, also when unpacked."},
    415: {"description": "Another content type or encoding."},
    429: {"description": "Too many requests are in flight: see Retry-After."},
    503: {"description": "The target is away: `outcome` says whether the records may be written."},
}

_JSON: Mapping[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "boolean": {"type": "boolean"},
    "tinyint": {"type": "integer", "minimum": -128, "maximum": 127},
    "smallint": {"type": "integer", "minimum": -32768, "maximum": 32767},
    "int": {"type": "integer", "format": "int32"},
    "bigint": {"type": "integer", "format": "int64"},
    "float": {"type": "number", "format": "float"},
    "double": {"type": "number", "format": "double"},
    "decimal": {"type": ["number", "string"], "format": "decimal"},
    "date": {"type": "string", "format": "date"},
    "timestamp": {"type": ["string", "integer"], "format": "date-time"},
    "timestamp_ntz": {"type": "string"},
    "binary": {"type": "string", "contentEncoding": "base64"},
    "variant": {},
}


def schema_of(kind: Type) -> dict[str, Any]:
    """The JSON Schema of a type."""
    if kind.name == "array" and kind.element:
        return {"type": "array", "items": schema_of(kind.element)}
    if kind.name == "map" and kind.element:
        return {"type": "object", "additionalProperties": schema_of(kind.element)}
    if kind.name == "struct":
        return {"type": "object", "properties": {n: schema_of(one) for n, one in kind.fields}}
    if kind.name == "decimal":
        digits = f"{kind.precision} digits, {kind.scale} of them after the point"
        return {**_JSON["decimal"], "description": digits}
    return dict(_JSON[kind.name])


def record_schema(contract: Contract, of_these: Sequence[str] | None = None) -> dict[str, Any]:
    """The JSON Schema of a row of a stream; `of_these` columns alone may be required."""
    schemas = {one.name: schema_of(type_of(one.data_type)) for one in contract.read_columns}
    required = [
        column.name
        for column in contract.read_columns
        if any(rule.type == "not_null" for rule in column.constraints)
        and (of_these is None or column.name in of_these)
    ]
    found: dict[str, Any] = {
        "type": "object",
        "properties": {
            name: schema if name in required else _nullable(schema)
            for name, schema in schemas.items()
        },
        "additionalProperties": contract.stream.schema_policy != "fail",
    }
    return found | ({"required": required} if required else {})


def _request_schema(contract: Contract) -> dict[str, Any]:
    """The JSON Schema of what a request has: records, or change events in an envelope."""
    row, changes = record_schema(contract), contract.stream.changes
    if changes is None or changes.envelope != "debezium":
        return row
    # of a row that was deleted, or before its change, no more than the key may be known
    image = record_schema(contract, changes.key)
    common = {"source": {"type": ["object", "null"]}, "ts_ms": {"type": ["integer", "null"]}}
    event = {
        "anyOf": [
            _event(["c", "r", "u"], {"before": _nullable(image), "after": row, **common}, "after"),
            _event(["d"], {"before": image, "after": _nullable(image), **common}, "before"),
        ]
    }
    with_schema = {"type": "object", "properties": {"payload": event}, "required": ["payload"]}
    return {"anyOf": [*event["anyOf"], with_schema]}


def _event(operations: Sequence[str], parts: Mapping[str, Any], row: str) -> dict[str, Any]:
    properties = {"op": {"type": "string", "enum": [*operations]}, **parts}
    return {"type": "object", "properties": properties, "required": ["op", row]}


def _nullable(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]} if schema else {}


def operation(contract: Contract, keyed: bool) -> dict[str, Any]:
    """What OpenAPI is told of a stream's endpoint."""
    record = _request_schema(contract)
    content = {
        "application/json": {"schema": {"type": "array", "items": record}},
        "application/x-ndjson": {"schema": record},
    }
    parameters = [
        {"name": name, "in": "query", "required": False, "schema": schema, "description": text}
        for name, schema, text in _parameters(contract)
    ]
    security: dict[str, Any] = {"security": [{"key": []}]} if keyed else {}
    body = {"required": True, "content": content}
    return {"requestBody": body, "parameters": parameters, **security}


def _parameters(contract: Contract) -> list[tuple[str, dict[str, Any], str]]:
    if contract.stream.source != "kafka":
        return []
    topics = list(contract.stream.topics)
    names = [column.name for column in contract.read_columns]
    found = [("key", {"type": "string", "enum": names}, "the field that is the message's key")]
    if len(topics) > 1:
        found.append(("topic", {"type": "string", "enum": topics}, "the topic"))
    return found


def no_row(index: int, error: Exception) -> Problem:
    """The problem of a value that only Spark can have."""
    return Problem(index, "type", None, str(error)[:200])


def html(streams: Sequence[tuple[Contract, str, Sequence[str]]], address: str, keyed: bool) -> str:
    """A page with each stream, its fields, and how to send records."""
    parts = [_stream(contract, target, left, address, keyed) for contract, target, left in streams]
    rows = "".join(
        f"<tr><td>{code}<td>{_text(said['description'])}" for code, said in RESPONSES.items()
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>headwaters</title>'
        "<style>body{font:16px sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
        "td,th{text-align:left;padding:.2em 1em .2em 0;vertical-align:top}"
        "pre{background:#eee;padding:1em;overflow:auto}</style>"
        "<h1>headwaters</h1><p>Each stream takes a JSON array or NDJSON by POST. "
        'The same as <a href="openapi.json">OpenAPI</a>; <a href="health">health</a>; '
        '<a href="metrics">metrics</a>.'
        f"{''.join(parts)}<h2>Answers</h2><table>{rows}</table></html>"
    )


def _stream(contract: Contract, target: str, left: Sequence[str], address: str, keyed: bool) -> str:
    rows = "".join(
        f"<tr><td><code>{_text(column.name)}</code><td>{_text(column.data_type)}<td>"
        + _text(", ".join(r.expression or "not null" for r in column.constraints))
        for column in contract.read_columns
    )
    example: dict[str, Any] = {column.name: None for column in contract.read_columns}
    changes, envelope = contract.stream.changes, ""
    if changes is not None and changes.envelope == "debezium":
        example = {"op": "c", "before": None, "after": example, "source": {}, "ts_ms": None}
        envelope = (
            "<p>Each record is a change event in Debezium's envelope: <code>op</code> is c, r, u "
            "or d. The fields are those of the row in <code>after</code>, and of a deleted one (d) "
            "in <code>before</code>, where only the key is needed: "
            f"{_text(', '.join(changes.key))}."
        )
    key = " -H 'Authorization: Bearer …'" if keyed else ""
    curl = (
        f"curl {address}/streams/{contract.name} -H 'Content-Type: application/json'{key} "
        f"-d '{json.dumps([example], ensure_ascii=False)}'"
    )
    others = {"rescue": "kept", "add_columns": "kept", "fail": "refused"}
    unchecked = f"<p>Evaluated by ingestion: {_text('; '.join(left))}." if left else ""
    return (
        f"<h2>POST /streams/{_text(contract.name)}</h2><p>To {_text(target)}. Undeclared fields "
        f"are {others[contract.stream.schema_policy] if target[:5] == 'topic' else 'refused'}."
        f"{envelope}<table><tr><th>field<th>type<th>rules{rows}</table>{unchecked}<pre>{_text(curl)}</pre>"
    )


def _text(text: str) -> str:
    return escape.escape(text)
