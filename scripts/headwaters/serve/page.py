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


def record_schema(contract: Contract) -> dict[str, Any]:
    """The JSON Schema of a record of a stream."""
    required = [
        column.name
        for column in contract.read_columns
        if any(rule.type == "not_null" for rule in column.constraints)
    ]
    found: dict[str, Any] = {
        "type": "object",
        "properties": {
            column.name: schema_of(type_of(column.data_type)) for column in contract.read_columns
        },
        "additionalProperties": contract.stream.schema_policy != "fail",
    }
    return found | ({"required": required} if required else {})


def operation(contract: Contract, keyed: bool) -> dict[str, Any]:
    """What OpenAPI is told of a stream's endpoint."""
    record = record_schema(contract)
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
    example = {column.name: None for column in contract.read_columns}
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
        f"<table><tr><th>field<th>type<th>rules{rows}</table>{unchecked}<pre>{_text(curl)}</pre>"
    )


def _text(text: str) -> str:
    return escape.escape(text)
