"""A producer of Kafka records: the simulated streams, and those of tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # not in its __all__

from headwaters.platform.errors import WorkError
from headwaters.streams.sources.kafka_client import broker_away, connect, create_missing, ranges


def make_topic(servers: str, topic: str, partitions: int = 3) -> None:
    """Create a topic if it is missing. Raises WorkError if the broker does not answer."""
    admin = connect(AdminClient, servers, {})
    try:
        create_missing(admin, [NewTopic(topic, partitions, 1)])
    except KafkaException as error:
        raise broker_away(servers, error.args[0]) from None


Record = tuple[str | None, str | bytes | None]  # key and value


def send(servers: str, topic: str, records: Iterable[Record]) -> int:
    """Send keys and values in order; return their number. Raises WorkError if one is refused."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": 20,
            "message.max.bytes": 16_000_000,
            "log_level": 0,
        }
    )
    failed: list[str] = []

    def sent(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failed.append(error.str())

    number = 0
    for key, value in records:
        while True:
            try:
                producer.produce(topic, value, key, on_delivery=sent)
                break
            except BufferError:
                producer.poll(0.5)
        producer.poll(0)
        number += 1
    if producer.flush(60) or failed:
        raise WorkError(
            "HW_BROKER_AWAY",
            f"{topic}: the broker did not take all records: {(failed or ['?'])[0]}",
        )
    return number


def send_once(servers: str, topic: str, records: Sequence[Record]) -> int:
    """Send records to a new topic; return the number sent.

    A topic that already has exactly this many records stays unchanged.
    """
    make_topic(servers, topic)
    held = sum(high - low for low, high in ranges(servers, [topic])[topic].values())
    return 0 if held == len(records) else send(servers, topic, records)
