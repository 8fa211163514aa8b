"""Test records that a schema registry's clients wrote: five bytes, then JSON or Avro."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from ingestion import Ingester, Node, audit, node

from headwaters.platform.errors import UserError, WorkError
from headwaters.streams.contract import parse_contract
from headwaters.streams.formats.schema_registry import SchemaPlace, WriterSchema, writer_schema

LONG, TEXT, MAYBE = "long", "string", ["null", "double"]


def record(**fields: Any) -> str:
    named = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "order", "namespace": "shop", "fields": named})


# read by the schema 1, a record of 2 would have other values and no error
SCHEMAS: dict[int, dict[str, Any]] = {
    1: {"schema": record(id=LONG, name=TEXT)},
    2: {"schema": record(id=LONG, price=MAYBE, name=TEXT), "schemaType": "AVRO"},
    3: {"schema": '{"type": "object"}', "schemaType": "JSON"},
    4: {"schema": record(id="shop.other"), "references": [{"name": "shop.other"}]},
    5: {"schema": '"long"'},
    70_000: {"schema": record(name=TEXT, id="int", colour=TEXT)},
}


def number(value: int) -> bytes:
    """Write a whole number as Avro does: zigzag, seven bits a byte."""
    left, parts = (value << 1) ^ (value >> 63), []
    while left > 127:
        parts.append(left & 127 | 128)
        left >>= 7
    return bytes([*parts, left])


def text(value: str) -> bytes:
    return number(len(value.encode())) + value.encode()


def framed(schema: int, body: bytes) -> bytes:
    return b"\0" + struct.pack(">I", schema) + body


class Registry(BaseHTTPRequestHandler):
    """The one answer of a registry that readers need: a schema by its number."""

    schemas: Mapping[int, Mapping[str, Any]] = SCHEMAS
    asked: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers["Authorization"]))
        found = self.schemas.get(int(self.path.removeprefix("/schemas/ids/")))
        body = json.dumps(found or {"error_code": 40403, "message": "Schema not found"}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def serving(schemas: Mapping[int, Mapping[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the address of a registry, and the list of what it is asked."""
    asked: list[Any] = []
    handler = type("Served", (Registry,), {"schemas": schemas, "asked": asked})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def stream(topic: str, broker: str, columns: dict[str, str], name: str, **keys: Any) -> Node:
    how = {"from": "kafka", "path": None, "topics": [topic], "servers": broker}
    return node(columns, {**how, "registry": "confluent", **keys}, name)


def send(broker: str, topic: str, *values: bytes | None, key: bytes | None = None) -> None:
    producer = Producer({"bootstrap.servers": broker})
    for value in values:
        producer.produce(topic, value, key, partition=0)
    assert producer.flush(30) == 0


def rows(ingester: Ingester, table: str, columns: str) -> list[list[Any]]:
    return ingester.rows(table, columns, "_offset")


@pytest.mark.slow  # a broker
def test_avro_is_read_by_the_schema_that_wrote_it(
    ingester: Ingester, broker: str, topic: str, tmp_path: Path
) -> None:
    columns = {"id": "bigint", "name": "string", "price": "double"}
    send(
        broker,
        topic,
        framed(1, number(1) + text("a")),
        framed(2, number(2) + b"\2" + struct.pack("<d", 1.5) + text("b")),
        framed(2, number(3) + b"\0" + text("")),
        framed(70_000, text("c") + number(-4) + text("red")),
        framed(9, number(5) + text("then")),
        framed(3, b'{"id": 6}'),
        framed(4, number(7)),
        framed(5, number(8)),
        framed(1, b"\xff" * 20),
        number(9) + text("bare"),
        b'{"id": 10}',
        b"\0",
        b"",
        None,
        framed(1, number(11) + text("z")),
    )
    folder = tmp_path / "schemas"
    folder.mkdir()
    for one in (1, 2, 70_000):
        (folder / f"{one}.avsc").write_text(SCHEMAS[one]["schema"])
    with serving(SCHEMAS) as (url, _):
        served = stream(topic, broker, columns, "served", format="avro", schemas=url)
        filed = stream(topic, broker, columns, "filed", format="avro", schemas=str(folder))
        ingester.run(served, filed)
        assert audit(ingester, served) == ["served: 15 read = 5 bronze + 10 quarantined: right"]
    right = [
        [1, "a", None, None],
        [2, "b", 1.5, None],
        [3, "", None, None],
        [-4, "c", None, '{"colour":"red"}'],
        [11, "z", None, None],
    ]
    for table in ("served", "filed"):
        assert rows(ingester, table, "id, name, price, _rescued") == right, table
    bare = "does not begin with the five bytes of a schema registry, a zero and a number"
    refused = {
        4: f"has the schema 9, which {url} has not",
        5: "has the schema 3, which is one of JSON",
        6: "has the schema 4, which refers to other schemas: register it as one",
        7: "has the schema 5, which is not one of records",
        8: "is not a record of the Avro schema",
        **dict.fromkeys((9, 10, 11, 12), bare),
        13: "is not a record of the Avro schema",
    }
    found = rows(ingester, "served_quarantine", "_offset, reason, message")
    assert found == [[offset, "malformed", said] for offset, said in refused.items()]
    # a schema that a batch lacks when it begins, and one that comes later
    send(broker, topic, framed(9, number(12) + text("late")))
    later = SCHEMAS | {9: SCHEMAS[1]}
    with serving({**later}) as (url, asked):
        again = stream(topic, broker, columns, "served", format="avro", schemas=url)
        ingester.run(again)
        assert rows(ingester, "served", "id, name")[-1] == [12, "late"]
        assert [path for path, _ in asked] == ["/schemas/ids/9"]
        answer = ingester.ask(lake=str(ingester.lake), replay=[again], dry_run=False)
        assert answer == {"served": [1, {"malformed": 9}]}, answer
    assert [5, "then"] in rows(ingester, "served", "id, name")
    send(broker, topic, framed(13, number(13)))
    (line,) = ingester.run(
        stream(topic, broker, columns, "served", format="avro", schemas=url), code=1
    )
    assert "[HW_SCHEMA_REGISTRY]" in line and f"{url}/schemas/ids/13 cannot be read" in line


@pytest.mark.slow  # a broker
def test_json_behind_five_bytes_is_read_where_it_is_declared(
    ingester: Ingester, broker: str, topic: str
) -> None:
    event = {"before": None, "after": {"id": 1, "name": "a"}, "op": "c"}
    send(broker, topic, framed(7, json.dumps(event).encode()), key=framed(6, b'{"id": 1}'))
    send(broker, topic, framed(7, b'{"id": 2}'), b'{"id": 3}', b"\0\0", framed(7, b"[1]"))
    send(broker, topic, None, key=framed(6, b'{"id": 1}'))
    columns = {"id": "string", "name": "string"}
    changes = {"key": ["id"], "envelope": "debezium", "tombstones": "rows"}
    plain = stream(topic, broker, {"id": "string"}, "plain")
    events = stream(topic, broker, columns, "events", changes=changes)
    bare = stream(topic, broker, columns, "bare", changes=changes)
    del bare["config"]["meta"]["stream"]["registry"]
    ingester.run(plain, events, bare)
    assert rows(ingester, "plain", "id, _offset") == [[None, 0], ["2", 1], ["3", 2]]
    assert rows(ingester, "events", "id, name, _offset") == [["1", "a", 0], ["1", None, 5]]
    assert rows(ingester, "bare", "id") == []
    told = rows(ingester, "bare_quarantine", "_offset, message")
    assert [offset for offset, said in told if said.startswith("begins with a zero byte")] == [
        *(0, 1, 3, 4)
    ]
    assert told[-1] == [5, "is null"]  # a key with the bytes is null


def test_an_answer_is_a_schema_of_records_or_a_reason(tmp_path: Path) -> None:
    with serving(SCHEMAS) as (url, asked):
        schemas = SchemaPlace("models/a.yml: a", url + "/")
        assert schemas.find(2) == WriterSchema(SCHEMAS[2]["schema"])
        assert schemas.find(9).problem == f"has the schema 9, which {url}/ has not"
        assert asked == [("/schemas/ids/2", None), ("/schemas/ids/9", None)]
    with pytest.raises(WorkError, match=r"cannot be read: .*[Cc]onnection refused"):
        schemas.find(2)
    folder = SchemaPlace("models/a.yml: a", str(tmp_path))
    (tmp_path / "1.avsc").write_text(SCHEMAS[1]["schema"])
    (tmp_path / "2.avsc").write_text("no schema")
    assert folder.find(1) == WriterSchema(SCHEMAS[1]["schema"])
    assert folder.find(2).problem == "has the schema 2, which is not JSON"
    assert folder.find(3).problem == f"has the schema 3, which {tmp_path} has not"


def test_a_password_of_a_registry_is_a_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(SCHEMAS) as (url, asked):
        keys = {"format": "avro", "schemas": url, "schemas_user": {"env": "REGISTRY_USER"}}
        contract = parse_contract(stream("orders", "x:1", {"id": "bigint"}, "secret", **keys))
        monkeypatch.delenv("REGISTRY_USER", raising=False)
        with pytest.raises(UserError, match="variable REGISTRY_USER is not set"):
            writer_schema(contract, 1)
        monkeypatch.setenv("REGISTRY_USER", "reader:hunter2")
        assert writer_schema(contract, 1) == writer_schema(contract, 1)
        assert asked == [("/schemas/ids/1", "Basic cmVhZGVyOmh1bnRlcjI=")]
    assert "hunter2" not in contract.model_dump_json()


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"registry": None, "schemas": "schemas"}, "schemas: registry is missing: "),
        ({"registry": "glue"}, "registry: 'glue' is not allowed here (allowed: confluent)"),
        ({"format": "avro"}, "schemas is missing: the address of the registry, or a folder"),
        ({"schemas": "schemas"}, "schemas: JSON is read without its schemas: remove it"),
        ({"from": "files", "path": "landing/a"}, "registry: only messages of format: json or avro"),
        ({"format": "raw"}, "registry: only messages of format: json or avro"),
        (
            {"format": "avro", "schemas": "s", "options": {"avroSchema": "{}"}},
            "options: avroSchema is not possible with schemas, which say it: remove it",
        ),
        ({"format": "avro", "schemas": "ftp://a"}, "schemas: ftp://a is neither http://…, "),
        ({"format": "avro", "schemas": "https://a:b@c"}, "schemas: an address has no password: "),
    ],
)
def test_keys_of_a_registry_that_do_not_fit_are_refused(keys: Any, problem: str) -> None:
    declared = stream("orders", "x:1", {"id": "string"}, "orders", **keys)
    with pytest.raises(UserError) as error:
        parse_contract(declared)
    assert f"config.meta.stream: {problem}" in str(error.value) or problem in str(error.value)
