"""The pages about the endpoints: the schema of each stream, and a page that loads nothing else."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Any

from headwaters.http.schema import EventReader, RequestColumn, RequestReader

# pages may neither load nor run anything
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


def _row_schema(reader: RequestReader, required: Collection[RequestColumn]) -> dict[str, Any]:
    """Return the JSON Schema of a row; these columns are required."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            column.name: column.kind.schema if column in required else column.kind.nullable_schema
            for column in reader.columns
        },
        "additionalProperties": not reader.closed,
    }
    return schema | ({"required": [one.name for one in required]} if required else {})


def _record_schema(reader: RequestReader) -> dict[str, Any]:
    """Return the JSON Schema of a record: a row, or a change event in an envelope."""
    required = [column for column in reader.columns if column.required]
    row = _row_schema(reader, required)
    if not isinstance(reader, EventReader):
        return row
    # a deleted row, and the image before a change, may have only the key
    image = _row_schema(reader, [column for column in required if column.name in reader.key])
    common = {"source": {"type": ["object", "null"]}, "ts_ms": {"type": ["integer", "null"]}}

    def event(operations: Sequence[str], row: str, **images: Any) -> dict[str, Any]:
        properties = {"op": {"type": "string", "enum": [*operations]}, **images, **common}
        return {"type": "object", "properties": properties, "required": ["op", row]}

    def or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
        return {"anyOf": [schema, {"type": "null"}]}

    events = [
        event(["c", "r", "u"], "after", before=or_null(image), after=row),
        event(["d"], "before", before=image, after=or_null(image)),
    ]
    payload = {"payload": {"anyOf": events}}
    return {"anyOf": [*events, {"type": "object", "properties": payload, "required": ["payload"]}]}


def operation(reader: RequestReader, keyed: bool) -> dict[str, Any]:
    """Return the OpenAPI description of a stream's endpoint."""
    record, stream = _record_schema(reader), reader.contract.stream
    content = {
        "application/json": {"schema": {"type": "array", "items": record}},
        "application/x-ndjson": {"schema": record},
    }
    parameters = {}
    if reader.contract.source.http_target == "topics":
        parameters["key"] = reader.names, "the field that is the message's key"
        if len(stream.topics) > 1:
            parameters["topic"] = [*stream.topics], "the topic"
    return {
        "requestBody": {"required": True, "content": content},
        "parameters": [
            {
                "name": name,
                "in": "query",
                "required": False,
                "schema": {"type": "string", "enum": values},
                "description": description,
            }
            for name, (values, description) in parameters.items()
        ],
        **({"security": [{"key": []}]} if keyed else {}),
    }


def html(streams: Sequence[tuple[RequestReader, str]], address: str, keyed: bool) -> str:
    """Return a page with each stream, its fields, and a request as an example."""
    parts = [_stream(reader, target, address, keyed) for reader, target in streams]
    rows = "".join(
        f"<tr><td>{code}<td>{escape(response['description'])}"
        for code, response in RESPONSES.items()
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


def _stream(reader: RequestReader, target: str, address: str, keyed: bool) -> str:
    contract = reader.contract
    rows = "".join(
        f"<tr><td><code>{escape(column.name)}</code><td>{escape(column.data_type)}<td>"
        + escape(", ".join(rule.expression or "not null" for rule in column.constraints))
        for column in contract.read_columns
    )
    example: dict[str, Any] = dict.fromkeys(reader.names)
    envelope = ""
    if isinstance(reader, EventReader):
        example = {"op": "c", "before": None, "after": example, "source": {}, "ts_ms": None}
        envelope = (
            "<p>Each record is a change event in Debezium's envelope: <code>op</code> is c, r, u "
            "or d. The fields are those of the row in <code>after</code>, and of a deleted one (d) "
            "in <code>before</code>, where only the key is needed: "
            f"{escape(', '.join(reader.key))}."
        )
    key = " -H 'Authorization: Bearer …'" if keyed else ""
    curl = (
        f"curl {address}/streams/{contract.name} -H 'Content-Type: application/json'{key} "
        f"-d '{json.dumps([example], ensure_ascii=False)}'"
    )
    unchecked = (
        "<p>Ingestion evaluates, and puts records that violate it into quarantine: "
        f"{escape('; '.join(reader.unchecked))}."
    )
    return (
        f"<h2>POST /streams/{escape(contract.name)}</h2><p>To {escape(target)}. Undeclared fields "
        f"are {'refused' if reader.closed else 'kept'}.{envelope}"
        f"<table><tr><th>field<th>type<th>rules{rows}</table>"
        f"{unchecked if reader.unchecked else ''}<pre>{escape(curl)}</pre>"
    )
