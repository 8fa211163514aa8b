"""Read a topic with a plain consumer."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, TopicPartition

Message = tuple[int, int, str | None, str | None]  # partition, offset, key, value


def messages(broker: str, topic: str) -> list[Message]:
    """Return a topic's committed messages in order; the value of a tombstone is None."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker,
            "group.id": "tests",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    found: list[Message] = []
    left = set(consumer.list_topics(topic, 30).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, one, 0) for one in left])
    try:
        while left:
            message = consumer.poll(30)
            assert message is not None, f"{topic} cannot be read to its end"
            error, partition = message.error(), message.partition()
            assert partition is not None
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                left.discard(partition)
                continue
            key, value, offset = message.key(), message.value(), message.offset()
            assert offset is not None
            texts = [None if one is None else bytes(one).decode() for one in (key, value)]
            found.append((partition, offset, texts[0], texts[1]))
    finally:
        consumer.close()
    return sorted(found)
