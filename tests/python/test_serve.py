"""Test the HTTP endpoint: its answers, and each accepted record once in its stream's input."""

from __future__ import annotations

import gzip
import json
import re
import signal
import socket
import ssl
import subprocess
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # not in its __all__
from deltalake import DeltaTable, write_deltalake
from ingestion import ROOT, Ingester, audit, node, wait_for
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # no stubs in the lock
from serving import command, contract_of, endpoints, in_topic, inbox, ndjson, orders, served, source

from headwaters.cli import _coded, install_command
from headwaters.devkit.samples.post import Sent, post
from headwaters.devkit.samples.send import make_topic
from headwaters.devkit.samples.simulate import STREAMS, FinanceConfig
from headwaters.http import delta, kafka
from headwaters.http.app import Endpoint
from headwaters.http.limits import MOST_OUTSIDE, Limits
from headwaters.http.run import ServeOptions, serve, with_target
from headwaters.http.schema import RequestReader
from headwaters.http.targets import Request, Unwritten
from headwaters.platform.errors import UserError, WorkError
from headwaters.platform.project import Project

KEY, OTHER = "k" * 32, "o" * 32
JSON, LINES = {"Content-Type": "application/json"}, {"Content-Type": "application/x-ndjson"}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a new lake, which HEADWATERS_LAKE names."""
    monkeypatch.setenv("HEADWATERS_LAKE", str(tmp_path / "lake"))
    return tmp_path / "lake"


def test_an_accepted_request_is_in_the_topic_where_the_answer_says(
    broker: str, topic: str, lake: Path
) -> None:
    with served(endpoints(orders(broker, topic))) as client:
        array = client.post("/streams/orders", json=[{"id": "ä"}, {"id": "b", "amount": 1.5}])
        lines = client.post(
            "/streams/orders",
            content=gzip.compress(b'{"id": "c", "extra": 1.50}\n\n {"id":"d"} \r\n'),
            headers={**LINES, "Content-Encoding": "gzip"},
        )
        keyed = client.post("/streams/orders?key=id", json=[{"id": "e"}, {"id": "f"}])
        empty = client.post("/streams/orders", json=[])
    found = in_topic(broker, topic)
    assert [answer.status_code for answer in (array, lines, keyed, empty)] == [201] * 4
    assert empty.json() == {"accepted": 0}
    places = {text: (str(partition), offset) for partition, offset, _, text in found}
    for answer, texts in (
        (array, ['{"id":"ä"}', '{"id":"b","amount":1.5}']),
        (lines, ['{"id": "c", "extra": 1.50}', '{"id":"d"}']),
    ):
        (partition, first), (same, last) = (places[text] for text in texts)
        assert partition == same
        assert answer.json() == {
            "accepted": 2,
            "topic": topic,
            "offsets": {partition: {"first": first, "last": last}},
        }
    assert {key: text for _, _, key, text in found if key} == {
        "e": '{"id":"e"}',
        "f": '{"id":"f"}',
    }
    assert len(found) == 6


def test_a_request_with_a_bad_record_is_refused_as_a_whole(
    broker: str, topic: str, lake: Path
) -> None:
    with served(endpoints(orders(broker, topic))) as client:
        answer = client.post(
            "/streams/orders",
            content=ndjson({"id": "good"}, {"id": "a", "amount": "x"}, {"amount": 1}),
            headers=LINES,
        )
        many = client.post("/streams/orders", json=[{}] * 150)
        metrics = client.get("/metrics").text
    assert (answer.status_code, answer.json()) == (
        400,
        {
            "type": "records",
            "message": "2 records are refused; nothing of the request was accepted",
            "refused": 2,
            "records": [
                {
                    "index": 1,
                    "type": "type",
                    "field": "amount",
                    "message": "'x' is not a decimal(8, 2)",
                },
                {"index": 2, "type": "not_null", "field": "id", "message": "is null"},
            ],
        },
    )
    assert (many.json()["refused"], len(many.json()["records"])) == (150, 100)
    assert in_topic(broker, topic) == []
    assert 'headwaters_http_requests_total{code="400",stream="orders"} 2.0' in metrics
    assert 'headwaters_http_request_seconds_count{stream="orders"} 2.0' in metrics


def test_each_wrong_request_has_its_code_and_its_reason(
    broker: str, topic: str, lake: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = f"{topic}_other"
    make_topic(broker, other)
    limits = Limits(body=1000, body_seconds=0.5)
    admitted = {"Authorization": f"Bearer {KEY}"}
    with served(endpoints(orders(broker, topic, other)), [OTHER, KEY], limits) as client:

        def ask(path: str = f"/streams/orders?topic={topic}", **how: Any) -> tuple[int, str, str]:
            how = {"content": b"[]", "method": "POST", **how}
            headers = {**JSON, **admitted, **how.pop("headers", {})}
            answer = client.request(url=path, headers=headers, **how)
            content = answer.json()
            return answer.status_code, content.get("type", ""), content.get("message", "")

        assert ask() == (201, "", "")
        assert ask("/streams/ordrs") == (
            404, "stream", "no stream 'ordrs' is served here, did you mean 'orders'",
        )  # fmt: skip
        assert ask("/stream/orders")[:2] == (404, "path")
        assert ask(method="PUT")[:2] == (405, "method")
        assert ask(headers={"Content-Type": "text/csv"})[:2] == (415, "content_type")
        assert ask(headers={"Content-Encoding": "br"})[:2] == (415, "content_encoding")
        bomb = gzip.compress(b" " * 10_000_000)
        assert ask(content=b" " * 1001)[:2] == (413, "too_large")
        assert ask(content=iter([b" " * 900, b" " * 900]))[:2] == (413, "too_large")
        zipped = {"Content-Encoding": "gzip"}
        assert ask(content=bomb[:900], headers=zipped)[:2] == (413, "too_large")
        assert ask(content=b"[]", headers=zipped)[:2] == (400, "content_encoding")
        assert ask("/streams/orders") == (
            400, "topic", f"orders reads {topic}, {other}: name one of them by ?topic=",
        )  # fmt: skip
        assert ask("/streams/orders?topic=x")[:2] == (400, "topic")
        assert ask(f"/streams/orders?topic={topic}&key=idd") == (
            400, "key", "?key=idd is no field of orders, did you mean 'id'",
        )  # fmt: skip
        for wrong in ("", KEY, "Bearer", f"Bearer {KEY}x", f"Basic {KEY}"):
            assert ask(headers={"Authorization": wrong})[:2] == (401, "key")
            assert ask("/streams/x", headers={"Authorization": wrong})[:2] == (401, "key")
        unknown = client.post("/streams/orders", json=[])
        assert (unknown.status_code, unknown.headers["www-authenticate"]) == (401, "Bearer")
        assert client.get("/metrics").status_code == 401
        assert client.get("/health").json() == {"status": "ok", "streams": {"orders": "ok"}}
        slow = _held(client, KEY, f"/streams/orders?topic={topic}")
        assert slow.recv(4096).startswith(b"HTTP/1.1 408 ")
        slow.close()
    assert in_topic(broker, topic) == []
    assert KEY not in caplog.text


def _held(client: httpx.Client, key: str, path: str) -> socket.socket:
    """Open a connection with a request whose body does not end."""
    held = socket.create_connection((client.base_url.host, client.base_url.port or 80))
    held.settimeout(30)
    held.sendall(
        f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {key}\r\nContent-Length: 20\r\n\r\n[".encode()
    )
    return held


def test_a_request_beyond_those_in_flight_is_to_come_again(lake: Path) -> None:
    with served(endpoints(inbox()), limits=Limits(requests=2, bytes=100)) as client:
        held = [_held(client, "", "/streams/orders") for _ in range(2)]
        in_flight = "headwaters_http_requests_in_flight 2.0"
        wait_for(lambda: in_flight in client.get("/metrics").text)
        busy = client.post("/streams/orders", json=[])
        for one in held:
            one.sendall(b"]" + b" " * 18)
            assert one.recv(4096).startswith(b"HTTP/1.1 201 ")
            one.close()
        assert client.post("/streams/orders", json=[]).status_code == 201
        crowded = client.post("/streams/orders", content=b"[" + b" " * 99 + b"]", headers=JSON)
    for answer in (busy, crowded):
        assert (answer.status_code, answer.json()["type"]) == (429, "busy")
        assert answer.headers["retry-after"] == "1"


def test_a_record_that_the_topic_does_not_take_is_refused_and_those_beside_it_are_written(
    broker: str, topic: str, lake: Path
) -> None:
    small = f"{topic}_small"
    admin = AdminClient({"bootstrap.servers": broker})
    made = admin.create_topics([NewTopic(small, 1, 1, config={"max.message.bytes": "2000"})])
    made[small].result()
    with (
        served(endpoints(orders(broker, small), linger=0.3)) as client,
        ThreadPoolExecutor(3) as pool,
    ):
        records = [[{"id": "a"}], [{"id": "x" * 5000}], [{"id": "b"}]]
        sent = list(pool.map(lambda one: client.post("/streams/orders", json=one), records))
        huge = client.post("/streams/orders", json=[{"id": "y"}, {"id": "x" * 1_000_000}])
    assert [one.status_code for one in sent] == [201, 413, 201]
    assert (huge.status_code, huge.json()["index"]) == (413, 1)
    assert sorted(text for *_, text in in_topic(broker, small)) == ['{"id":"a"}', '{"id":"b"}']


def test_without_its_broker_the_endpoint_answers_that_nothing_was_written(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "CONNECTING", 0.5)
    contract = contract_of(orders("127.0.0.1:1", "t"))
    writer = kafka.KafkaWriter("127.0.0.1:1", "test", dict, 0, 100)
    with served([Endpoint(contract, RequestReader(contract), writer, ("t",))]) as client:
        answer = client.post("/streams/orders", json=[{"id": "a"}])
        health = client.get("/health")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    content = answer.json()
    assert (content["type"], content["outcome"]) == ("unavailable", "none")
    assert (health.status_code, health.json()["status"]) == (503, "unavailable")
    with pytest.raises(WorkError, match="HW_BROKER_AWAY"):
        writer.open(["t"], False)


def test_a_topic_that_is_missing_is_created_where_that_is_asked_for(
    broker: str, topic: str, lake: Path
) -> None:
    declared = orders(broker, f"{topic}_new")
    with pytest.raises(WorkError, match=f"no topic {topic}_new: create it, or let --create-topics"):
        endpoints(declared)
    with served(endpoints(declared, create_topics=True)) as client:
        assert client.post("/streams/orders", json=[{"id": "a"}]).status_code == 201
    assert len(in_topic(broker, f"{topic}_new")) == 1


def test_records_through_kafka_are_in_bronze_once_and_reconciled(
    ingester: Ingester, broker: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATERS_LAKE", str(ingester.lake))
    declared = orders(broker, topic)
    with served(endpoints(declared)) as client:
        for number in range(20):
            batch = [{"id": f"{number}-{one}", "amount": one + 1} for one in range(10)]
            batch += [{"id": "bad", "amount": -1}] * (number % 2)
            code = client.post("/streams/orders", json=batch).status_code
            assert code == (400 if number % 2 else 201)
    ingester.run(declared)
    expected = {f"{number}-{one}" for number in range(0, 20, 2) for one in range(10)}
    assert [row[0] for row in ingester.rows("orders", "id")] == sorted(expected)
    assert ingester.quarantine() == []
    assert audit(ingester, declared) == ["orders: 100 read = 100 bronze + 0 quarantined: right"]


def test_records_through_a_delta_table_are_in_bronze_once(
    ingester: Ingester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATERS_LAKE", str(ingester.lake))
    columns = {
        "id": "string", "amount": "decimal(8, 2)", "at": "timestamp", "day": "date", "f": "float",
        "tags": "array<string>", "who": "struct<name:string,age:smallint>", "m": "map<string,int>",
    }  # fmt: skip
    declared = inbox(columns)
    record = {
        "id": "a", "amount": "1.01", "at": "2026-01-02T03:04:05.678+01:00", "day": "2026-01-02",
        "f": 1.5, "tags": ["x", None], "who": {"name": "n", "age": 7}, "m": {"k": 1},
    }  # fmt: skip
    with served(endpoints(declared)) as client:
        first = client.post("/streams/orders", json=[record, {"id": "b"}])
        assert (first.status_code, first.json()) == (
            201,
            {"accepted": 2, "table": "inbox/orders", "version": 1},
        )
        undeclared = client.post("/streams/orders", json=[{"id": "c", "extra": 1}])
        assert undeclared.json()["records"] == [
            {"index": 0, "type": "schema", "field": "extra", "message": "is not declared"}
        ]
        with pytest.raises(WorkError, match=r"headwaters serve, process .* a table has one writer"):
            endpoints(declared)
        ingester.run(declared)
        with ThreadPoolExecutor(8) as pool:
            sent = [[{"id": f"{one:02}"}] for one in range(16)]
            more = list(pool.map(lambda one: client.post("/streams/orders", json=one), sent))
        assert {one.status_code for one in more} == {201}
        versions = {one.json()["version"] for one in more}
        assert len(versions) < 16  # several requests share a commit
        assert max(versions) == DeltaTable(ingester.lake / "inbox" / "orders").version()
    ingester.run(declared)
    assert ingester.run(declared) == ["orders  nothing new"]
    names = "id, amount, at, day, f, to_json(tags) t, to_json(who) w, to_json(m) m"
    rows = ingester.rows("orders", names, "id")
    assert [row[0] for row in rows] == [*(f"{one:02}" for one in range(16)), "a", "b"]
    assert rows[16] == [
        "a", "1.01", "2026-01-02 02:04:05.678000", "2026-01-02", 1.5, '["x",null]',
        '{"name":"n","age":7}', '{"k":1}',
    ]  # fmt: skip
    assert ingester.quarantine() == []


def test_spark_reads_the_values_of_a_table_as_they_were_sent(
    ingester: Ingester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATERS_LAKE", str(ingester.lake))
    columns = {
        "id": "string", "at": "timestamp", "wall": "timestamp_ntz", "day": "date",
        "exact": "decimal(38, 10)", "x": "double", "large": "bigint", "b": "binary",
        "s": "struct<t:timestamp,a:array<double>,m:map<string,date>>",
    }  # fmt: skip
    moments = (
        *("0001-01-01T00:00:00", "1582-10-04T23:59:59.999999", "1582-10-15T00:00:00"),
        *("1677-09-20T00:00:00", "1900-01-01T00:00:00.000001", "1969-12-31T23:59:59.999999"),
        *("2262-04-12T00:00:00", "9999-12-31T23:59:59.999999"),
    )
    doubles = [0.1, 123456789.123456, -0.5, 100_000_000_000_000, 1, -1.5, 0, 0.001]
    nines = "9" * 28 + "." + "9" * 10
    sent: list[dict[str, Any]] = [
        {
            "id": f"{number}" + "ä" * number * 10_000, "at": f"{moment}Z", "wall": moment,
            "day": moment[:10], "exact": nines if number % 2 else f"-{nines}", "x": double,
            "large": 2**63 - 1 if number % 2 else -(2**63), "b": "AP8=",
            "s": {"t": f"{moment}Z", "a": [double, None], "m": {"k": moment[:10], "": None}},
        }
        for number, (moment, double) in enumerate(zip(moments, doubles, strict=True))
    ]  # fmt: skip
    sent += [{"id": ""}, {"id": "n", "s": {}}, {"id": "o", "s": {"a": [], "m": {}}}]
    declared = node(columns, {"from": "delta", "path": "inbox/orders", "format": None})
    with served(endpoints(declared)) as client:
        answer = client.post("/streams/orders", json=sent)
        assert answer.status_code == 201, answer.text
    ingester.run(declared)
    kept = "map('ignoreNullFields', 'false', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
    shown = "id, cast(at as string), cast(wall as string), day, exact, cast(x as string), large, "
    rows = ingester.rows("orders", f"{shown}hex(b), to_json(s, {kept})", "day, id")
    empty = [None] * 7
    assert rows[:3] == [
        ["", *empty, None],
        ["n", *empty, '{"t":null,"a":null,"m":null}'],
        ["o", *empty, '{"t":null,"a":[],"m":{}}'],
    ]
    assert len(rows) == len(sent)
    for row, one in zip(rows[3:], sent, strict=False):
        at = str(one["wall"]).replace("T", " ")
        text, double = str(one["id"]), one["x"]
        assert row[:5] == [text, at, at, one["day"], one["exact"]]
        assert float(row[5]) == double
        assert row[6:8] == [one["large"], "00FF"]
        inner = json.loads(row[8])
        assert inner["t"][: len(at)] == at
        assert inner["m"] == {"k": one["day"], "": None}
        assert inner["a"] == [double, None]
    assert ingester.quarantine() == []


def test_a_table_with_other_columns_is_refused(lake: Path) -> None:
    path = lake / "inbox" / "orders"
    path.mkdir(parents=True)
    write_deltalake(path, pa.table({"id": ["a"], "amount": [1.5]}))
    with pytest.raises(UserError, match=r"HW_SERVE_TABLE.*other columns .*\(amount\)"):
        endpoints(inbox())
    assert DeltaTable(path).version() == 0


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        (node({"id": "string"}), "from files: the HTTP endpoint writes to topics"),
        (inbox(path="s3://b/t"), "s3://b/t is not in the lake"),
        (inbox(path="../other"), "../other is not in the lake"),
        (inbox({"v": "variant"}), "variant is a type that only Spark writes"),
        (orders("b:1", "t", format="raw", schema="fail"), "format raw: the HTTP endpoint"),
        (orders("b:1", "t", options={"dateFormat": "d.M.y"}), "the HTTP endpoint takes ISO 8601"),
    ],
    ids=["files", "elsewhere", "outside", "variant", "raw", "format"],
)  # fmt: skip
def test_a_stream_without_a_target_is_an_error_by_name_and_a_note_otherwise(
    declared: dict[str, Any], why: str, tmp_path: Path
) -> None:
    if declared["config"]["meta"]["stream"].get("format") == "raw":
        del declared["columns"]["amount"]
    contract, other = contract_of(declared), contract_of({**orders("b:1", "t"), "name": "other"})
    said: list[str] = []
    assert with_target(tmp_path, [contract, other], ["tag:x"], said.append) == [other]
    assert [line.startswith(f"orders: not served: {why}") for line in said] == [True]
    for name in ("orders", "source:bronze.orders"):
        with pytest.raises(UserError, match="HW_SERVE_TARGET") as error:
            with_target(tmp_path, [contract, other], [name], said.append)
        assert why in str(error.value)
    with pytest.raises(UserError, match="no stream has a target"):
        with_target(tmp_path, [contract], [], said.append)


def test_two_streams_of_one_table_are_refused(tmp_path: Path) -> None:
    both = [contract_of({**inbox(), "name": name}) for name in ("one", "two")]
    with pytest.raises(UserError, match="one and two read one table, inbox/orders"):
        with_target(tmp_path, both, [], print)


def test_simulated_finance_through_the_endpoint_is_what_it_accepts(
    broker: str, topic: str, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = []
    for name, key in (
        ("financial_transactions", "transaction_id"),
        ("insurance_claims", "claim_id"),
    ):
        make_topic(broker, f"{topic}_{name}")
        amount = "amount" if name[0] == "f" else "claim_amount"
        declared = orders(broker, f"{topic}_{name}")
        columns = {key: "string", amount: "decimal(18, 2)", "timestamp": "timestamp"}
        rules = {key: [{"type": "not_null"}]}
        nodes.append(node(columns, declared["config"]["meta"]["stream"], name, rules))
    monkeypatch.setenv("A_KEY", f"{KEY} {OTHER}")
    config = FinanceConfig(rows=400, claims=40, malformed=0.1)
    texts = {name: [record.value for record in of(config)] for name, of in STREAMS.items()}
    with served(endpoints(*nodes), [KEY]) as client:
        sent = post(texts, str(client.base_url), "A_KEY")
        with pytest.raises(
            WorkError, match=r"does not take financial_transactions \(401\): no key"
        ):
            post(texts, str(client.base_url), "NO_KEY")
    # the columns declared here show three of four faults, those of claims two
    assert sent["financial_transactions"] == Sent(accepted=360, refused=40)
    found = [len(in_topic(broker, f"{topic}_{name}")) for name in sent]
    assert found == [one.accepted for one in sent.values()]
    with pytest.raises(WorkError, match=r"no HTTP endpoint answers at http://127\.0\.0\.1:1: "):
        post(texts, "http://127.0.0.1:1", "A_KEY")
    with pytest.raises(UserError, match="is no address"):
        post(texts, "localhost:80", "A_KEY")


def test_the_pages_describe_each_stream_and_load_nothing_from_elsewhere(
    broker: str, topic: str, lake: Path
) -> None:
    with served(endpoints(orders(broker, topic), linger=0), [KEY]) as client:
        page, described = client.get("/docs"), client.get("/openapi.json").json()
        own = str(client.base_url)
    addresses = re.findall(r"(?:https?:)?//[^\s'\"<]+", page.text)
    assert {address.startswith(own) for address in addresses} == {True}
    assert not re.search(r"<script|<link|<img|@import", page.text)
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    for part in ("POST /streams/orders", f"topic {topic}", "decimal(8, 2)", "amount &gt; 0"):
        assert part in page.text
    assert list(described["paths"]) == ["/streams/orders"]
    posted = described["paths"]["/streams/orders"]["post"]
    record = posted["requestBody"]["content"]["application/x-ndjson"]["schema"]
    assert record["properties"]["id"] == {"type": "string"}
    nullable = record["properties"]["amount"]["anyOf"]
    assert nullable[1:] == [{"type": "null"}]
    assert (record["required"], record["additionalProperties"]) == (["id"], True)
    assert posted["security"] == [{"key": []}]
    assert described["components"]["securitySchemes"]["key"]["scheme"] == "bearer"


def test_a_commit_of_which_nobody_knows_is_not_taken_for_the_next_one(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Write the first batch but lose its answer and the table; do not write the second."""
    writer = endpoints(inbox())[0].writer
    write, lost = write_deltalake, OSError("no answer")

    def written(*given: Any, **more: Any) -> None:
        write(*given, **more)
        monkeypatch.setattr(delta, "DeltaTable", failing)
        raise lost

    def failing(*given: Any, **more: Any) -> None:
        raise lost

    def send() -> Future[dict[str, Any]]:
        answer: Future[dict[str, Any]] = Future()
        writer.send(Request("", [b"{}"], rows=[{"id": "a", "amount": None}], answer=answer))
        return answer

    writer.start()
    for work, outcome in ((written, "unknown"), (failing, "none")):
        monkeypatch.setattr(delta, "DeltaTable", DeltaTable)
        monkeypatch.setattr(delta, "write_deltalake", work)
        error = send().exception(60)
        assert isinstance(error, Unwritten) and error.outcome == outcome
    monkeypatch.setattr(delta, "write_deltalake", write)
    assert send().result(60) == {"table": "inbox/orders", "version": 2}
    writer.close()
    assert DeltaTable(lake / "inbox" / "orders").to_pyarrow_table().num_rows == 2


def test_change_events_are_described_and_keyed_by_their_rows(
    broker: str, topic: str, lake: Path
) -> None:
    changes = {"key": ["id"], "envelope": "debezium"}
    row, old = {"id": "7", "amount": "1.50"}, {"id": "7", "amount": None}
    events: list[dict[str, Any]] = [
        {"op": "c", "before": None, "after": row, "source": {"lsn": 1}, "ts_ms": 5},
        {"schema": {}, "payload": {"op": "u", "before": old, "after": row}},
        {"op": "d", "before": {"id": "7"}, "after": None},
    ]
    with served(endpoints(orders(broker, topic, changes=changes), linger=0)) as client:
        page, described = client.get("/docs").text, client.get("/openapi.json").json()
        answer = client.post("/streams/orders?key=id", json=events)
    assert answer.status_code == 201
    assert [(key, json.loads(text)) for _, _, key, text in in_topic(broker, topic)] == [
        ("7", event) for event in events
    ]
    posted = described["paths"]["/streams/orders"]["post"]["requestBody"]["content"]
    schema = Draft202012Validator(posted["application/x-ndjson"]["schema"])
    assert [schema.is_valid(event) for event in events] == [True] * 3
    others = (row, {"op": "c", "after": None}, {"op": "d", "after": row}, {"op": "t", "after": row},
              {"op": "c", "after": {"amount": 1}}, {"payload": row})  # fmt: skip
    assert [schema.is_valid(event) for event in others] == [False] * len(others)
    assert "a change event in Debezium's envelope" in page
    assert "&quot;op&quot;: &quot;c&quot;" in page


def test_a_missing_package_is_named_with_its_extra() -> None:
    names = dict.fromkeys(("fastapi", "uvicorn", "msgspec", "httptools", "uvloop"), "serve")
    for name, extra in {**names, "deltalake": "report"}.items():
        shown = str(_coded(ModuleNotFoundError(name=name)))
        assert shown == f"[HW_NO_EXTRA] {name} is missing: {install_command(extra)}"


@pytest.mark.parametrize(
    ("record", "command"),
    [
        (None, "pip install 'dbt-headwaters[serve]'"),
        (
            {"url": "file:///opt/dbt_headwaters-0.1.0-py3-none-any.whl", "archive_info": {}},
            "pip install 'dbt-headwaters[serve] @ file:///opt/dbt_headwaters-0.1.0-py3-none-any.whl'",
        ),
        (
            {"url": "file:///home/anna%20lee/headwaters", "dir_info": {}},
            "pip install 'dbt-headwaters[serve] @ file:///home/anna%20lee/headwaters'",
        ),
        (
            {"url": "file:///home/anna%20lee/headwaters", "dir_info": {"editable": True}},
            "pip install -e '/home/anna lee/headwaters[serve]'",
        ),
    ],
)
def test_an_extra_is_installed_from_where_the_package_came_from(
    monkeypatch: pytest.MonkeyPatch, record: dict[str, Any] | None, command: str
) -> None:
    text = record and json.dumps(record)
    installed = SimpleNamespace(read_text=lambda name: {"direct_url.json": text}[name])
    monkeypatch.setattr("headwaters.cli.distribution", lambda name: installed)
    assert install_command("serve") == command


def test_what_cannot_be_listened_on_is_one_line(lake: Path, tmp_path: Path) -> None:
    contracts, project = [contract_of(inbox())], Project(ROOT)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=rf"HW_PORT.*127.0.0.1:{port} cannot be listened on"):
            serve(project, contracts, [], ServeOptions(port=port), print)
    (tmp_path / "no.pem").write_text("nothing")
    bad = ServeOptions(port=0, tls_cert=tmp_path / "no.pem", tls_key=tmp_path / "no.pem")
    with pytest.raises(UserError, match="HW_SERVE_TLS"):
        serve(project, contracts, [], bad, print)
    with pytest.raises(UserError, match="belong together"):
        serve(project, contracts, [], ServeOptions(tls_key=tmp_path / "no.pem"), print)


def test_the_command_serves_by_tls_finishes_what_is_in_flight_and_logs_no_key(
    tmp_path: Path,
) -> None:
    lake = tmp_path / "lake"
    streams = [
        source("orders", {"id": "string"}, **{"from": "delta", "path": "inbox/orders"}),
        source("files", {"id": "string"}, **{"from": "files", "path": "x", "format": "json"}),
    ]
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext"),
            *("subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
    )
    options = ["--keys-from", "A_KEY", "--tls-cert", str(cert), "--tls-key", str(key)]
    serving = command(tmp_path / "project", lake, streams, "--linger", "500ms", *options, A_KEY=KEY)
    with serving as (process, said, address):
        admitted = {"Authorization": f"Bearer {KEY}"}
        trusted = ssl.create_default_context(cafile=str(cert))
        with httpx.Client(base_url=address, verify=trusted, headers=admitted) as client:
            assert client.post("/streams/orders", json=[{"id": "a"}]).status_code == 201
            wrong = client.post(
                "/streams/orders", json=[], headers={"Authorization": f"Bearer {OTHER}"}
            )
            assert wrong.status_code == 401
            answers: list[int] = []

            def send() -> None:
                answers.append(client.post("/streams/orders", json=[{"id": "b"}]).status_code)

            sender = threading.Thread(target=send)
            sender.start()
            in_flight = "headwaters_http_requests_in_flight 1.0"
            with httpx.Client(base_url=address, verify=trusted, headers=admitted) as watcher:
                wait_for(lambda: in_flight in watcher.get("/metrics").text)
            process.send_signal(signal.SIGTERM)
            sender.join()
    assert (process.returncode, answers) == (0, [201])
    assert [line.rstrip() for line in said[:-1]] == [
        "files: not served: from files: the HTTP endpoint writes to topics and to Delta tables",
        "orders: POST /streams/orders → table inbox/orders",
    ]
    assert re.fullmatch(r"serving at https://127.0.0.1:\d+ \(page: /docs\)\n", said[-1])
    table = DeltaTable(lake / "inbox" / "orders").to_pyarrow_table()
    assert sorted(table["id"].to_pylist()) == ["a", "b"]
    files = [file for file in tmp_path.rglob("*") if file.is_file() and file != key]
    assert [file for file in files if KEY.encode() in file.read_bytes()] == []
    assert not (lake / "inbox" / "orders").stat().st_mode & 0o077


def test_into_a_compacted_topic_only_changes_of_rows_are_sent_by_their_key(
    broker: str, topic: str, lake: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": broker})
    topic = f"{topic}_compacted"
    compacted = NewTopic(topic, 3, 1, config={"cleanup.policy": "compact"})
    admin.create_topics([compacted])[topic].result(30)
    for changes in (None, {"key": ["id", "amount"], "envelope": "flat"}):
        declared = orders(broker, topic, **({"changes": changes} if changes else {}))
        with pytest.raises(UserError, match=rf"HW_SERVE_TARGET.*topic {topic} is compacted"):
            endpoints(declared)
    declared = orders(broker, topic, changes={"key": ["id"], "envelope": "flat"})
    declared["columns"]["id"]["constraints"] = []
    with served(endpoints(declared)) as client:
        refused = [
            client.post(f"/streams/orders{query}", json=[{"id": "a"}, {"amount": 1}])
            for query in ("", "?key=amount", "?key=", "?key=id")
        ]
        taken = client.post("/streams/orders?key=id", json=[{"id": "a"}, {"id": "b"}])
    assert [(one.status_code, one.json()["type"]) for one in refused] == [(400, "key")] * 4
    assert refused[0].json()["message"] == "the topic of orders is compacted: send ?key=id"
    assert refused[3].json()["message"] == "record 1 has no id, which is its key in the topic"
    assert taken.status_code == 201
    assert {key for _, _, key, _ in in_topic(broker, topic)} == {"a", "b"}


def test_what_is_no_body_is_limited_and_a_body_may_have_any_chunks(lake: Path) -> None:
    """Send heads and trailers, whole and in pieces; this limit bounds a connection's memory."""

    def answer(port: int, *pieces: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.settimeout(30)
            try:
                for piece in pieces:
                    connection.sendall(piece)
                return connection.recv(1 << 16).split(b"\r\n")[0]
            except ConnectionError:  # the server closed it while data was on its way
                return b""

    post = b"POST /streams/orders HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    chunked = post + b"Transfer-Encoding: chunked\r\n\r\n"
    record = json.dumps([{"id": "x" * 20_000}]).encode()
    with served(endpoints(inbox(), linger=0)) as client:
        port = client.base_url.port
        assert port is not None
        large = b"X: " + b"y" * (MOST_OUTSIDE // 2) + b"\r\n"
        bad = (b"HTTP/1.1 400 Bad Request", b"")
        assert answer(port, post, large, large, b"Content-Length: 2\r\n\r\n[]") in bad
        assert answer(port, post, *[b"X: " + b"y" * 8000] * 20) in bad
        assert answer(port, b"GET /" + b"y" * MOST_OUTSIDE * 2) in bad
        assert answer(port, chunked, b"2\r\n[]\r\n0\r\n", *[large] * 3) in bad
        pieces = [b"1\r\n%c\r\n" % byte for byte in record]  # five bytes around each
        assert answer(port, chunked, b"".join(pieces), b"0\r\n\r\n") == b"HTTP/1.1 201 Created"
        length = b"Content-Length: %d\r\n\r\n" % len(record)
        twice = (post + length + record) * 2
        assert answer(port, twice) == b"HTTP/1.1 201 Created"
        assert client.post("/streams/orders", json=[{"id": "a"}]).status_code == 201
