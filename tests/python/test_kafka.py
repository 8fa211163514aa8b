"""A topic reaches bronze exactly once: against a real broker, whatever is killed and whenever."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from ingestion import Ingester, audit, kill, node, numbered, topic_stream

from headwaters import kafka
from headwaters.errors import WorkError


@pytest.fixture
def topic(broker: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A topic of the test's own, with three partitions."""
    name = f"t_{uuid.uuid4().hex[:8]}"
    kafka.make_topic(broker, name, 3)
    return name


def test_records_keep_where_they_came_from_and_a_mended_contract_replays_them_once(
    ingester: Ingester, broker: str, topic: str
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
    assert audit(ingester, declared) == ["orders: 5 read = 3 bronze + 2 quarantined: right"]


def test_a_broker_or_topic_that_is_not_there_is_named(
    ingester: Ingester, broker: str, topic: str
) -> None:
    with pytest.raises(WorkError, match=f"the Kafka broker {broker} has no topic nowhere"):
        kafka.ranges(broker, ["nowhere"])
    (line,) = ingester.run(topic_stream("127.0.0.1:1", topic), code=1)
    assert line.startswith("the Kafka broker 127.0.0.1:1 does not answer: ")


KILLS: list[dict[str, Any]] = [
    {"point": "bronze", "batch": 0, "after": None},
    {"point": "quarantine", "batch": 1, "after": None},
    {"point": "checkpoint", "batch": 0, "after": None},
]


def test_nothing_is_lost_and_nothing_is_twice_after_kills(
    ingester: Ingester, broker: str, topic: str, tmp_path: Path
) -> None:
    declared = topic_stream(broker, topic, batch=50)
    kafka.send(broker, topic, (numbered(n) for n in range(400)))
    for how in KILLS:
        kill(ingester.lake, declared, tmp_path / "scratch", how)
    ingester.run(declared)
    assert audit(ingester, declared) == ["orders: 400 read = 360 bronze + 40 quarantined: right"]
