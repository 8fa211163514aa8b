"""Test that a topic of a real broker reaches bronze exactly once, despite kills at any time."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from ingestion import (
    ROOT,
    Ingester,
    Node,
    audit,
    kill,
    lose_one_and_repeat_another,
    node,
    numbered,
    topic_stream,
    wait_for,
)
from processes import environment

from headwaters.devkit import broker as brokers
from headwaters.devkit.samples.send import make_topic
from headwaters.devkit.samples.send import send as send_records
from headwaters.devkit.servers import free_ports
from headwaters.platform.errors import UserError, WorkError
from headwaters.platform.kafka_settings import Reference
from headwaters.platform.project import Project
from headwaters.streams.contract import parse_contract
from headwaters.streams.ingestion.status import status
from headwaters.streams.sources import kafka_client as kafka
from headwaters.tables.delta_log import snapshot


@pytest.mark.slow
def test_records_keep_where_they_came_from_and_a_mended_contract_replays_them_once(
    ingester: Ingester, broker: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker})
    producer.produce(topic, '{"id": "a", "amount": 1.5}', "key", 0, headers={"trace": b"t1"})
    producer.produce(topic, None, "tombstone", 1)
    producer.produce(topic, "", "empty", 1)
    producer.produce(topic, '{"id": "b", "amount": 123456789.5}', None, 2)
    producer.produce(topic, '{"id": "c", "amount": "x"}', None, 2)
    producer.flush()
    declared = topic_stream(broker, topic)
    ingester.run(declared)
    lineage = (
        "id, amount, _topic, _partition, _offset, cast(_key as string) k, "
        "transform(_headers, h -> concat(h.key, '=', cast(h.value as string))) h, _batch_id"
    )
    assert ingester.rows("orders", lineage, "id") == [
        ["a", "1.50", topic, 0, 0, "key", ["trace=t1"], 0]
    ]
    columns = "reason, field, record, _partition, _offset"
    assert ingester.rows("orders_quarantine", columns, "_partition, _offset") == [
        ["malformed", None, None, 1, 0],
        ["malformed", None, "", 1, 1],
        ["type", "amount", '{"id": "b", "amount": 123456789.5}', 2, 0],
        ["type", "amount", '{"id": "c", "amount": "x"}', 2, 1],
    ]
    assert ingester.run(declared) == ["orders  nothing new"]
    monkeypatch.setenv("HEADWATERS_LAKE", str(ingester.lake))
    shown = status(Project(ROOT), parse_contract(declared))
    assert (shown.position, shown.behind) == ("0:1 1:2 2:2", "0 records")
    assert audit(ingester, declared) == ["orders: 5 read = 1 bronze + 4 quarantined: right"]

    mended = node(
        {"id": "string", "cost": "decimal(18, 2)"},
        declared["config"]["meta"]["stream"],
    )
    request = {"lake": str(ingester.lake), "replay": [mended]}
    expected = [2, {"malformed": 2}]
    assert ingester.ask(**request, dry_run=True) == {"orders": expected}
    assert len(ingester.rows("orders_quarantine", columns, "_offset")) == 4
    assert ingester.ask(**request, dry_run=False) == {"orders": expected}
    assert ingester.ask(**request, dry_run=False) == {"orders": [0, {"malformed": 2}]}
    moved = ingester.rows("orders", "id, _rescued, _partition, _offset, _batch_id", "id")
    assert moved == [
        ["a", None, 0, 0, 0],
        ["b", '{"amount":"1.234567895E8"}', 2, 0, 0],
        ["c", '{"amount":"x"}', 2, 1, 0],
    ]
    right = "orders: 5 read = 3 bronze + 2 quarantined: right"
    assert audit(ingester, declared) == [right]

    # as many rows as records, but one of them twice and another missing
    lose_one_and_repeat_another(ingester, "orders", "id = 'a'", "id = 'b'")
    assert audit(ingester, declared) == [
        right.replace("right", "WRONG: 1 missing, 1 extra"),
        f"  {topic} partition 0: 1 read, 0 bronze, 0 quarantined, 1 missing, 0 extra",
        f"  {topic} partition 2: 2 read, 3 bronze, 0 quarantined, 0 missing, 1 extra",
    ]


@pytest.mark.slow
def test_a_broker_or_topic_that_is_not_there_is_named(
    ingester: Ingester, broker: str, topic: str
) -> None:
    with pytest.raises(WorkError, match=f"the Kafka broker {broker} has no topic nowhere"):
        kafka.ranges(broker, ["nowhere"])
    files = node({"id": "string"}, name="files")
    ingester.land("a.jsonl", '{"id": "a"}', stream="files")
    failed, done = ingester.run(topic_stream("127.0.0.1:1", topic), files, code=1)
    assert failed.startswith(
        "orders  failed: [HW_BROKER_AWAY] the Kafka broker 127.0.0.1:1 does not answer: "
    )
    assert done == "files   1 rows"  # a failing stream does not stop the others


def test_settings_that_only_javas_client_knows_are_left_to_it(broker: str, topic: str) -> None:
    java = {"sasl.jaas.config": "x", "ssl.truststore.location": "/x", "fetch.max.wait.ms": "9"}
    assert kafka.ranges(broker, [topic], java) == kafka.ranges(broker, [topic])
    assert kafka.identities(broker, [topic], java) == kafka.identities(broker, [topic])
    with pytest.raises(WorkError, match=r'Kafka client .*: Invalid value "X" for configuration'):
        kafka.ranges(broker, [topic], {"security.protocol": "X"})


LOGIN: dict[str, str | Reference] = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "reader",
    "sasl.password": Reference(env="KAFKA_PASSWORD"),
}


def test_a_secret_is_resolved_for_librdkafka_and_stays_a_reference_for_java(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    missing = "orders: client: sasl.password: the environment variable KAFKA_PASSWORD is not set"
    for side in (kafka.resolved, kafka.for_java):
        for value in (None, ""):
            monkeypatch.delenv("KAFKA_PASSWORD", raising=False)
            if value is not None:
                monkeypatch.setenv("KAFKA_PASSWORD", value)
            with pytest.raises(UserError) as caught:
                side("orders", LOGIN)
            assert str(caught.value) == f"[HW_KAFKA_CLIENT] {missing}"
    monkeypatch.setenv("KAFKA_PASSWORD", SENTINEL)
    assert kafka.resolved("orders", LOGIN)["sasl.password"] == SENTINEL
    java = kafka.for_java("orders", {**LOGIN, "config.providers": "mine"})
    assert java == {
        "isolation.level": "read_committed",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="reader" password="${headwaters:KAFKA_PASSWORD}";',
        "config.providers": "mine,headwaters",
        "config.providers.headwaters.class": (
            "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
        ),
    }
    own = {**LOGIN, "sasl.jaas.config": Reference(env="KAFKA_PASSWORD")}
    assert kafka.for_java("orders", own)["sasl.jaas.config"] == "${headwaters:KAFKA_PASSWORD}"
    plain: dict[str, str | Reference] = {"isolation.level": "read_uncommitted"}
    assert kafka.for_java("orders", plain) == kafka.resolved("orders", plain) == plain
    monkeypatch.setenv("KAFKA_PASSWORD", 'a"b')
    with pytest.raises(UserError, match=r"sasl.password has a quote.*say `sasl.jaas.config:") as no:
        kafka.for_java("orders", LOGIN)
    assert 'a"b' not in str(no.value)


SENTINEL = "hunter2-Zx9+/=;'{}$(whoami)"


@pytest.mark.slow
def test_a_secret_is_in_no_file_log_or_process_list_after_a_run(
    tmp_path: Path, new_project: Callable[[dict[str, str]], Path], broker_lake: Path
) -> None:
    """Run against a broker with a password, with Spark's event log and all of its messages."""
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    users = f'{login} user_reader="{SENTINEL}";'
    listeners = "CLIENTS://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},"
    own = f"BROKER://127.0.0.1:{free_ports()[0]}"
    broker = brokers.start(
        Project(ROOT),
        settings={
            "listeners": listeners + own,
            "advertised.listeners": "CLIENTS://127.0.0.1:{port}," + own,
            "inter.broker.listener.name": "BROKER",
            "listener.security.protocol.map": (
                "CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT,BROKER:PLAINTEXT"
            ),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.clients.plain.sasl.jaas.config": users,
        },
    ).servers
    make_topic(own.removeprefix("BROKER://"), "t", 1)
    send_records(own.removeprefix("BROKER://"), "t", named("r", 10))
    source = f"""
sources:
  - name: shop
    schema: bronze
    tables:
      - name: orders
        config:
          meta:
            stream:
              from: kafka
              format: json
              topics: [t]
              servers: {broker}
              client:
                security.protocol: SASL_PLAINTEXT
                sasl.mechanism: PLAIN
                sasl.username: reader
                sasl.password: {{env: KAFKA_PASSWORD}}
        columns:
          - {{name: id, data_type: string, constraints: [{{type: not_null}}]}}
"""
    folder = new_project({"models/shop.yml": source})
    profile = (ROOT / "profiles" / "profiles.yml").read_text()
    events = tmp_path / "events"
    events.mkdir()
    logged = f'spark.eventLog.enabled: "true"\n        spark.eventLog.dir: "file://{events}"\n'
    (folder / "profiles").unlink()
    (folder / "profiles").mkdir()
    for name in ("profiles/profiles.yml", "profiles.yml"):
        (folder / name).write_text(
            profile.replace("spark.app.name:", f"{logged}        spark.app.name:", 1)
        )
    command = [sys.executable, "-m", "headwaters.cli"]
    secret = {"KAFKA_PASSWORD": SENTINEL}
    here = {**environment(tmp_path / "lake"), "HEADWATERS_DRIVER_MEMORY": "1500m"}
    ran = subprocess.run(
        [*command, "ingest"], cwd=folder, env=here, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (
        2,
        "headwaters: [HW_KAFKA_CLIENT] models/shop.yml: orders: client: sasl.password: the "
        "environment variable KAFKA_PASSWORD is not set\n",
    )
    with subprocess.Popen(
        [*command, "ingest", "--every", "500ms"],
        cwd=folder,
        env=here | secret,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as running:
        table = tmp_path / "lake" / "warehouse" / "bronze.db" / "orders"
        wait_for(lambda: (found := snapshot(table)) is not None and found.rows == 10)
        assert shown_to_others(SENTINEL) == []
        running.terminate()
        said = (running.communicate()[0] or b"").decode()
    assert running.returncode == 0, said
    audited = subprocess.run(
        [*command, "audit"], cwd=folder, env=here | secret, capture_output=True, text=True
    )
    assert audited.stdout == "orders: 10 read = 10 bronze + 0 quarantined: right\n"
    assert SENTINEL not in said + audited.stdout + audited.stderr
    files = [f for f in tmp_path.rglob("*") if f.is_file() and broker_lake not in f.parents]
    assert events in {f.parent.parent for f in files} | {f.parent for f in files}
    assert [f for f in files if b"hunter2" in f.read_bytes()] == []


def shown_to_others(text: str) -> list[str]:
    """Return the processes of this machine that show a text in their command line."""
    shown = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if text.encode() in process.read_bytes():
                shown.append(process.parent.name)
    return shown


def recreate(broker: str, topic: str, partitions: int = 1) -> None:
    """Delete a topic and create it again under its name."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": broker, "log_level": 0})
    admin.delete_topics([topic])[topic].result()
    wait_for(lambda: topic not in admin.list_topics(timeout=10).topics)
    make_topic(broker, topic, partitions)


def named(prefix: str, number: int) -> list[tuple[str | None, str]]:
    return [(f"k{n}", json.dumps({"id": f"{prefix}{n}"})) for n in range(number)]


def ids(prefix: str, number: int) -> list[str]:
    return [f"{prefix}{n}" for n in range(number)]


def test_a_topic_that_is_recreated_while_its_stream_runs_loses_and_repeats_nothing(
    ingester: Ingester, broker: str, topic: str
) -> None:
    first, other = f"{topic}_first", f"{topic}_other"
    for name in (first, other):
        make_topic(broker, name, 1)
    declared = topic_stream(broker, first)
    declared["config"]["meta"]["stream"]["topics"] = [first, other]
    send_records(broker, first, named("old", 10))
    send_records(broker, other, named("other", 5))
    rows, failed = 'rows_total{stream="orders"}', 'failed{stream="orders"}'
    error = ingester.lake / "checkpoints" / "orders" / "error.txt"
    with ingester.running(declared, every=1, code=1) as metrics:
        wait_for(lambda: metrics().get(rows) == 15)
        recreate(broker, first)
        send_records(broker, first, named("new", 25))
        said = f"[HW_TOPIC_RECREATED] the topic {first} was deleted and created again since"
        wait_for(lambda: metrics().get(failed) == 1 and error.read_text().startswith(said))
    known = sorted([*ids("old", 10), *ids("other", 5)])
    assert [row[0] for row in ingester.rows("orders", "id")] == known
    (line,) = ingester.run(declared, code=1)
    assert line == (
        f"orders  failed: {said} orders last read it, and its offsets began at 0 again: run "
        "headwaters ingest --select orders --from recreated, which reads the new topic "
        "from its beginning and leaves out what bronze and quarantine hold of it"
    )
    send_records(broker, other, named("later", 5))
    ingester.run(declared, begin="recreated")
    known = sorted([*known, *ids("new", 25), *ids("later", 5)])
    assert [row[0] for row in ingester.rows("orders", "id")] == known
    assert ingester.run(declared, begin="recreated") == ["orders  nothing new"]
    assert ingester.run(declared) == ["orders  nothing new"]
    assert audit(ingester, declared) == ["orders: 35 read = 35 bronze + 0 quarantined: right"]


@pytest.mark.slow
def test_records_of_a_topic_that_is_recreated_within_a_batch_are_not_read_twice(
    ingester: Ingester, broker: str, topic: str
) -> None:
    """Kill a run, too, after it has decided where to start in the new topic."""
    name = f"{topic}_one"
    make_topic(broker, name, 1)
    declared = topic_stream(broker, name)
    send_records(broker, name, named("old", 10))
    pause = ingester.lake.with_name("pause")
    failed = 'failed{stream="orders"}'
    with ingester.running(declared, every=0.3, code=1, pause_before=str(pause)) as metrics:
        wait_for(pause.exists)
        recreate(broker, name)
        send_records(broker, name, named("new", 25))
        pause.unlink()
        wait_for(lambda: metrics().get(failed) == 1)
    assert [row[0] for row in ingester.rows("orders", "id")] == sorted(ids("new", 10))
    ingester.run(declared, begin="recreated", code=1, die_before="checkpoint")
    ingester.run(declared)
    known = ids("new", 25)
    assert [row[0] for row in ingester.rows("orders", "id")] == sorted(known)
    # if the checkpoint is lost as well, only the records distinguish one topic from another
    for prefix, number in (("longer", 30), ("shorter", 10)):
        recreate(broker, name)
        send_records(broker, name, named(prefix, number))
        known += ids(prefix, number)
        for _ in range(2):
            shutil.rmtree(ingester.lake / "checkpoints" / "orders")
            ingester.run(declared, begin="table")
            assert [row[0] for row in ingester.rows("orders", "id")] == sorted(known)


# `make soak` kills at any time.
KILLS: list[dict[str, Any]] = [
    {"point": "bronze", "batch": 0, "after": None},
    {"point": "quarantine", "batch": 1, "after": None},
    {"point": "checkpoint", "batch": 0, "after": None},
]


@pytest.mark.parametrize(
    ("kills", "batches"),
    [
        pytest.param(KILLS[1:2], 3, id="once"),
        pytest.param(KILLS, 8, id="everywhere", marks=pytest.mark.slow),
    ],
)
def test_nothing_is_lost_and_nothing_is_twice_after_kills(
    ingester: Ingester,
    broker: str,
    topic: str,
    tmp_path: Path,
    kills: list[dict[str, Any]],
    batches: int,
) -> None:
    declared = topic_stream(broker, topic, batch=50)
    send_records(broker, topic, (numbered(n) for n in range(50 * batches)))
    for how in kills:
        assert kill(ingester.lake, [declared], tmp_path / "scratch", how)
    ingester.run(declared)
    read = f"{50 * batches} read = {45 * batches} bronze + {5 * batches} quarantined"
    assert audit(ingester, declared) == [f"orders: {read}: right"]


def send(broker: str, topic: str, *numbers: int) -> None:
    send_records(broker, topic, (numbered(number) for number in numbers))


@pytest.mark.slow
def test_a_run_that_goes_on_outlives_its_broker_and_ends_after_the_batch_in_flight(
    ingester: Ingester, broker_lake: Path
) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]  # not in __all__

    broker = brokers.start(Project(ROOT)).servers
    make_topic(broker, "t", 1)
    declared = topic_stream(broker, "t")
    batch = declared["config"]["meta"]["stream"]["batch"]
    batch |= {"min_records": 5, "max_delay": "500ms"}
    good = 'rows_total{stream="orders"}'
    bad = 'quarantined_total{reason="type amount",stream="orders"}'
    with ingester.running(declared, every=0.3) as metrics:
        wait_for(lambda: metrics().get('failed{stream="orders"}') == 0)
        send(broker, "t", *range(10))
        wait_for(lambda: metrics().get(good) == 9)
        brokers.stop(broker_lake)
        assert brokers.start(Project(ROOT)).servers == broker
        admin = AdminClient({"bootstrap.servers": broker, "log_level": 0})
        admin.create_partitions([NewPartitions("t", 3)])["t"].result()
        send(broker, "t", *range(10, 40))
        wait_for(lambda: metrics().get(good) == 36)
        wait_for(lambda: metrics().get(bad) == 4)
        wait_for(lambda: metrics()['batches_total{stream="orders"}'] >= 2)
    (line,) = audit(ingester, declared)
    assert line == "orders: 40 read = 36 bronze + 4 quarantined: right"
    partitions = ingester.rows("orders", "distinct _partition", "1")
    assert len(partitions) > 1


@pytest.mark.slow
def test_records_that_expired_before_they_were_read_are_an_error_unless_declared_otherwise(
    ingester: Ingester, broker: str, topic: str
) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    records = [numbered(number)[1] for number in range(30)]
    declared = topic_stream(broker, topic)
    send_records(broker, topic, (("one partition", record) for record in records[:10]))
    ingester.run(declared)
    send_records(broker, topic, (("one partition", record) for record in records[10:]))
    held = kafka.ranges(broker, [topic])[topic]
    (partition,) = (p for p, (_, end) in held.items() if end)
    admin = AdminClient({"bootstrap.servers": broker, "log_level": 0})
    for done in admin.delete_records([TopicPartition(topic, partition, 15)]).values():
        done.result()
    (line,) = ingester.run(declared, code=1)
    assert line.startswith(
        "orders  failed: [HW_OFFSETS_LOST] records were deleted from the topic (by its retention, "
        "or with the topic) before they were read; with `data_loss: skip` the stream continues "
        "after them. "
    )
    assert len(ingester.rows("orders", "id")) == 9
    declared["config"]["meta"]["stream"]["data_loss"] = "skip"
    ingester.run(declared)
    offsets = [row[0] for row in ingester.rows("orders", "_offset")]
    assert offsets == [*range(9), *range(15, 19), *range(20, 29)]
    assert audit(ingester, declared) == ["orders: 15 read = 13 bronze + 2 quarantined: right"]

    def beginning(name: str, at: dict[str, Any]) -> Node:
        columns, stream = {"id": "string"}, declared["config"]["meta"]["stream"]
        return node(columns, stream | {"start": at}, name)

    placed = beginning("placed", {"offsets": {topic: {partition: 25}}})
    future = beginning("future", {"timestamp": "2999-01-01T00:00:00Z"})
    ingester.run(placed, future)
    assert [row[0] for row in ingester.rows("placed", "_offset")] == [*range(25, 30)]
    assert ingester.rows("future", "id") == []


@pytest.mark.slow
def test_records_of_a_transaction_are_read_when_it_is_committed_and_never_when_it_is_aborted(
    ingester: Ingester, broker: str, topic: str
) -> None:
    from confluent_kafka import Producer

    declared = topic_stream(broker, topic, batch=3)
    producer = Producer({"bootstrap.servers": broker, "transactional.id": topic})
    producer.init_transactions()
    for prefix, ends in (("a", producer.commit_transaction), ("b", producer.abort_transaction)):
        producer.begin_transaction()
        for key, value in named(prefix, 5):
            producer.produce(topic, value, key)
        producer.flush()
        ends()
    send_records(broker, topic, named("c", 3))
    producer.begin_transaction()
    producer.produce(topic, '{"id": "d"}', "k0")
    producer.flush()
    ingester.run(declared)
    known = sorted([*ids("a", 5), *ids("c", 3)])
    assert [row[0] for row in ingester.rows("orders", "id")] == known
    producer.commit_transaction()
    ingester.run(declared)
    assert [row[0] for row in ingester.rows("orders", "id")] == [*known, "d"]
    assert audit(ingester, declared) == ["orders: 9 read = 9 bronze + 0 quarantined: right"]
    assert ingester.run(declared) == ["orders  nothing new"]


@pytest.mark.slow
def test_a_broker_that_is_killed_within_a_batch_loses_and_repeats_nothing(
    ingester: Ingester, broker_lake: Path
) -> None:
    broker = brokers.start(Project(ROOT))
    make_topic(broker.servers, "t", 3)
    send(broker.servers, "t", *range(20_000))
    declared = topic_stream(broker.servers, "t", batch=2_000)
    good = 'rows_total{stream="orders"}'
    with ingester.running(declared, every=0.2) as metrics:
        for batches in (1, 4):
            wait_for(partial(lambda least: metrics().get(good, 0) >= least, batches * 1_800))
            os.kill(broker.pid, signal.SIGKILL)
            wait_for(lambda: kafka.find(broker_lake) is None)
            broker = brokers.start(Project(ROOT))
        wait_for(lambda: metrics().get(good) == 18_000, patience=300)
    (line,) = audit(ingester, declared)
    assert line == "orders: 20,000 read = 18,000 bronze + 2,000 quarantined: right"
    assert len(ingester.rows("orders", "distinct id", "1")) == 18_000


@pytest.mark.slow
def test_a_topic_that_is_compacted_between_two_runs_has_what_it_still_holds(
    ingester: Ingester, broker_lake: Path
) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # not in __all__

    quick = {"log.cleaner.backoff.ms": "200"}
    broker = brokers.start(Project(ROOT), settings=quick).servers
    compacted = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.001",
        "max.compaction.lag.ms": "100",
        "delete.retention.ms": "0",
    }
    admin = AdminClient({"bootstrap.servers": broker, "log_level": 0})
    topic = NewTopic("t", 1, 1, config=compacted)
    admin.create_topics([topic])["t"].result()

    def versions(*numbers: int) -> Iterator[tuple[str, str]]:
        for number in numbers:
            yield from ((f"k{n}", json.dumps({"id": f"k{n} v{number}"})) for n in range(10))

    declared = topic_stream(broker, "t", batch=7)
    send_records(broker, "t", versions(0, 1))
    ingester.run(declared)
    known = [row[0] for row in ingester.rows("orders", "id")]
    assert set(known) >= {f"k{n} v1" for n in range(10)}

    send_records(broker, "t", versions(2, 3, 4))
    time.sleep(0.2)  # the next record begins a segment, and the one before is compacted
    send_records(broker, "t", [("last", '{"id": "last"}')])
    wait_for(lambda: len(held(broker, "t")) == 11)
    ingester.run(declared)
    latest = sorted([*(f"k{n} v4" for n in range(10)), "last"])
    assert held(broker, "t") == latest
    assert [row[0] for row in ingester.rows("orders", "id")] == sorted([*known, *latest])
    assert ingester.run(declared) == ["orders  nothing new"]
    gone = len(known)
    assert audit(ingester, declared) == [
        f"orders: 11 read = {11 + gone} bronze + 0 quarantined: right; {gone} rows whose "
        "records the source no longer has are not compared"
    ]


def held(broker: str, topic: str) -> list[str]:
    """Return the ids of the records that a topic of one partition holds."""
    from confluent_kafka import Consumer, TopicPartition

    (end,) = (end for _, end in kafka.ranges(broker, [topic])[topic].values())
    settings = {"bootstrap.servers": broker, "group.id": "look", "enable.partition.eof": True}
    consumer = Consumer({**settings, "log_level": 0})
    found: list[str] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while (message := consumer.poll(10)) is not None and message.error() is None:
            found.append(json.loads(message.value() or b"{}")["id"])
        assert consumer.position([TopicPartition(topic, 0)])[0].offset in (end, -1001)
    finally:
        consumer.close()
    return sorted(found)


@pytest.mark.slow
def test_large_empty_and_poisonous_records(ingester: Ingester, broker: str, topic: str) -> None:
    declared = topic_stream(broker, topic)
    assert ingester.run(declared) == ["orders  0 rows"]  # an empty topic
    assert ingester.run(declared) == ["orders  nothing new"]
    poison = {
        "huge number": b'{"id": "n", "amount": 1e100000000}',  # minutes of Spark's time
        "deep": b'{"id": "d", "x": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        "no text": b'{"id": "\xff\xfe", "amount": 1',
        "zeros": b"\x00" * 100,
    }
    large = json.dumps({"id": "large", "amount": 1, "text": "x" * 10_000_000})
    boundless = '{"id": "u", "other": 1e100000000}'  # no decimal has this value, but infinity
    send_records(
        broker,
        topic,
        [(None, large), (None, boundless), *((None, record) for record in poison.values())],
    )
    ingester.run(declared)
    assert ingester.rows("orders", "id, amount, length(_rescued)") == [
        ["large", "1.00", 10_000_011],
    ]
    reasons = ingester.rows("orders_quarantine", "length(record), reason")
    refused = [[len(record), "malformed"] for record in poison.values()]
    assert reasons == sorted([*refused, [len(boundless), "type"]])
    assert audit(ingester, declared) == ["orders: 6 read = 1 bronze + 5 quarantined: right"]


def lose_checkpoint(ingester: Ingester, declared: Node) -> None:
    """Delete the checkpoint, and check that a run reports it, with the remedies."""
    checkpoint = ingester.lake / "checkpoints" / "orders"
    shutil.rmtree(checkpoint)
    (line,) = ingester.run(declared, code=1)
    assert line.startswith(
        f"orders  failed: [HW_CHECKPOINT_MISSING] bronze.orders has data, but its checkpoint "
        f"{checkpoint} is missing. Put it back, or say where to resume: headwaters ingest "
        "--select orders --from table (after "
    )


@pytest.mark.slow
def test_a_topic_goes_on_after_what_its_tables_hold_when_the_checkpoint_is_lost(
    ingester: Ingester, broker: str, topic: str
) -> None:
    declared = topic_stream(broker, topic, batch=30)
    send(broker, topic, *range(40))
    ingester.run(declared)
    send(broker, topic, *range(40, 80))
    # bronze has one more batch, and the clock went back
    ingester.run(declared, code=1, die_before="orders_quarantine", clock=-3600)
    lose_checkpoint(ingester, declared)
    ingester.run(declared, begin="table")
    right = "orders: 80 read = 72 bronze + 8 quarantined: right"
    assert audit(ingester, declared) == [right]
    assert ingester.run(declared, begin="table", code=2) == [
        "[HW_RESUME] --from table is for a stream without a checkpoint, and each of these has one: "
        "they resume from there"
    ]
    lose_checkpoint(ingester, declared)
    send(broker, topic, *range(80, 90))
    ingester.run(declared, begin="latest")
    send(broker, topic, *range(90, 100))
    ingester.run(declared)
    ids = {row[0] for row in ingester.rows("orders", "id")}
    assert ids == {f"r{n}" for n in range(100) if n % 10 != 9 and not 80 <= n < 90}


@pytest.mark.slow
def test_files_go_on_after_what_the_tables_hold_when_the_checkpoint_is_lost(
    ingester: Ingester,
) -> None:
    declared = node({"id": "string", "amount": "decimal(8, 2)"}, {"batch": {"max_files": 1}})

    def land(*files: int) -> None:
        for file in files:
            ingester.land(f"{file}.jsonl", *(numbered(file * 10 + n)[1] for n in range(10)))

    land(0)
    ingester.run(declared)
    land(1, 2)
    ingester.run(declared, code=1, die_before="orders_quarantine")
    lose_checkpoint(ingester, declared)
    land(3)
    ingester.run(declared, begin="table")
    assert audit(ingester, declared) == ["orders: 40 read = 36 bronze + 4 quarantined: right"]
    lose_checkpoint(ingester, declared)
    land(4)
    ingester.run(declared, begin="latest")
    land(5)
    ingester.run(declared)
    assert ingester.rows("orders", "count(*), count(distinct id)", "1") == [[45, 45]]


def test_a_producer_is_begun_again_while_its_coordinator_moves() -> None:
    answers = [
        KafkaError(KafkaError.NOT_COORDINATOR),
        KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS),
        None,
        KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ]

    class Answering(Producer):
        def init_transactions(self, *given: object) -> None:
            if error := answers.pop(0):
                raise KafkaException(error)

    producer = Answering({"transactional.id": "x"})
    kafka.begin_transactions(producer, 30)
    assert len(answers) == 1
    with pytest.raises(KafkaException, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        kafka.begin_transactions(producer, 30)
    answers.extend([KafkaError(KafkaError.NOT_COORDINATOR)] * 100)
    with pytest.raises(KafkaException, match="NOT_COORDINATOR"):
        kafka.begin_transactions(producer, 0.3)


def test_a_topic_is_created_when_the_brokers_know_it(broker: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic  # type: ignore[attr-defined]  # not in __all__

    asked: list[bool] = []

    class Behind(AdminClient):
        """A broker that learns of the first topic a moment after its creation."""

        def list_topics(self, *args: Any, **kwargs: Any) -> ClusterMetadata:
            found = super().list_topics(*args, **kwargs)
            asked.append(f"{topic}_new" in found.topics)
            if len(asked) < 4:
                found.topics.pop(f"{topic}_new", None)
            return found

    admin = Behind({"bootstrap.servers": broker})
    both = [NewTopic(topic), NewTopic(f"{topic}_new", 2, 1)]
    there = kafka.create_missing(admin, both)
    assert asked[0] is False and len(asked) >= 4
    assert len(there[f"{topic}_new"].partitions) == 2
    asked.clear()
    # another client created it, between the question and the answer
    assert set(kafka.create_missing(admin, both)) >= {topic, f"{topic}_new"}
