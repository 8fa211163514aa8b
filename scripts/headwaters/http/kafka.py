"""A writer of accepted records to topics: requests share the transactions of one producer.

Ingestion reads `read_committed`, so the records of an aborted transaction do not count as written.
If a commit was sent and no answer came, the outcome is unknown: the next producer of the same
`transactional.id` makes the broker complete or abort it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # not in its __all__

from headwaters.http.targets import Request, RequestWriter, TooLarge, Unwritten
from headwaters.platform.errors import CodedError, WorkError
from headwaters.streams.sources.kafka_client import (
    TOO_LARGE,
    begin_transactions,
    compacted,
    connect,
    create_missing,
    transactional,
)

PATIENCE = 15.0  # seconds for the broker to receive a transaction, and to commit it
CONNECTING = 5.0  # seconds for the broker to register the producer
ABORTING = 5.0  # seconds for the broker to abort a transaction
PAUSE = 0.5  # seconds before the next attempt to reach a broker that did not answer


class KafkaWriter(RequestWriter):
    """A writer to the topics of one broker."""

    def __init__(
        self,
        servers: str,
        identity: str,
        settings: Callable[[], Mapping[str, str]],
        linger: float,
        most: int,
    ) -> None:
        """Make a writer; the broker knows its transactions by `identity`."""
        super().__init__("headwaters-kafka", linger, most)
        self.servers, self.identity, self._settings = servers, identity, settings
        # reserve space for the protocol's overhead per record
        self.largest = int(settings().get("message.max.bytes", 1_000_000)) - 1000
        self.partitions: dict[str, int] = {}
        self._producer: Producer | None = None
        self._next = count()
        self._asked = -PAUSE

    def open(self, topics: Sequence[str], create: bool) -> None:
        """Connect, and check that the topics exist; `create` creates the missing ones.

        Raises WorkError if the broker does not answer or lacks a topic.
        """
        try:
            found = self._connected().list_topics(timeout=10).topics
            missing = [topic for topic in topics if topic not in found]
            if missing and create:
                admin = connect(AdminClient, self.servers, self._settings())
                found = create_missing(admin, [NewTopic(topic) for topic in missing])
                missing = [topic for topic in topics if topic not in found]
        except (KafkaException, Unwritten) as error:
            reason = error.args[0].str() if isinstance(error, KafkaException) else error.args[1]
            raise WorkError(
                "HW_BROKER_AWAY", f"the Kafka broker {self.servers} does not answer: {reason}"
            ) from None
        if missing:
            raise WorkError(
                "HW_NO_TOPIC",
                f"the Kafka broker {self.servers} has no topic {', '.join(missing)}: create it, "
                "or let --create-topics do so",
            )
        self.partitions = {topic: len(found[topic].partitions) for topic in topics}

    def compacted(self, topics: Sequence[str]) -> list[str]:
        """Return the compacted topics, which keep only the last record of each key."""
        return compacted(self.servers, topics, self._settings())

    def idle(self) -> None:
        """Reconnect to a broker that did not answer, so that health reports its return."""
        with suppress(Unwritten, CodedError):
            self._connected().poll(0)

    def problem(self) -> str | None:
        """Return why the broker does not answer, or None."""
        producer = self._producer
        if producer is None:
            return f"the Kafka broker {self.servers} does not answer"
        try:
            producer.list_topics(timeout=2)
        except KafkaException as error:
            return f"the Kafka broker {self.servers} does not answer: {error.args[0].str()}"
        return None

    def close(self) -> None:
        """Write the requests sent so far, and disconnect."""
        super().close()
        self._drop()

    def write(self, batch: Sequence[Request]) -> list[dict[str, Any]]:
        """Write a batch in one transaction."""
        try:
            return self._transaction(batch)
        except _Purged:
            return self._transaction(batch)

    def _transaction(self, batch: Sequence[Request]) -> list[dict[str, Any]]:
        producer = self._connected()
        until = time.monotonic() + PATIENCE
        try:
            producer.begin_transaction()
            places = [self._produce(producer, request) for request in batch]
            if producer.flush(PATIENCE):
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))
            if failed := [place.error for place in places if place.error is not None]:
                raise KafkaException(failed[0])
        except (KafkaException, BufferError) as error:
            raise self._aborted(producer, error) from None
        self._commit(producer, until + PATIENCE)
        return [place.answer() for place in places]

    def _produce(self, producer: Producer, request: Request) -> _Offsets:
        topic = request.place
        place = _Offsets(topic)
        if request.keys is None:
            # the first and last offsets enclose the others, and any error ends the transaction
            last = len(request) - 1
            partition = next(self._next) % max(1, self.partitions.get(topic, 1))
            for index, text in enumerate(request.texts):
                if 0 < index < last:
                    producer.produce(topic, text, None, partition)
                else:
                    producer.produce(topic, text, None, partition, place.delivered)
        else:
            for text, key in zip(request.texts, request.keys, strict=True):
                producer.produce(topic, text, key, on_delivery=place.delivered)
        return place

    def _commit(self, producer: Producer, until: float) -> None:
        """Commit, and retry while the error permits it and time is left. Raises Unwritten."""
        while True:
            try:
                producer.commit_transaction(max(0.1, until - time.monotonic()))
                return
            except KafkaException as error:
                reason = error.args[0]
                if reason.txn_requires_abort():
                    raise self._aborted(producer, error) from None
                if reason.fatal() or not reason.retriable() or time.monotonic() > until:
                    self._drop()
                    raise Unwritten("unknown", reason.str()) from None

    def _aborted(self, producer: Producer, error: Exception) -> Unwritten:
        """Abort a transaction that was not committed; none of its records was written.

        If that fails, the broker aborts it when the next producer starts, or after its timeout.
        """
        reason = error.args[0] if isinstance(error, KafkaException) else None
        try:
            if reason is not None and reason.fatal():
                raise KafkaException(reason)
            producer.abort_transaction(ABORTING)
        except (KafkaException, BufferError):
            self._drop()
        if reason is None:
            return Unwritten("none", "the queue of the producer is full")
        if reason.code() in TOO_LARGE:
            return TooLarge(reason.str())
        if reason.code() == KafkaError._PURGE_QUEUE:
            return _Purged("none", reason.str())
        return Unwritten("none", reason.str())

    def _connected(self) -> Producer:
        """Return the producer, and reconnect if it was dropped. Raises Unwritten."""
        if self._producer is not None:
            return self._producer
        if time.monotonic() - self._asked < PAUSE:
            raise Unwritten("none", "the broker does not answer")
        given = {
            "queue.buffering.max.messages": "200000",
            "message.timeout.ms": str(int(PATIENCE * 1000)),
            **self._settings(),
        }
        settings = transactional(self.identity, int(PATIENCE * 3000), given)
        producer = connect(Producer, self.servers, settings)
        try:
            begin_transactions(producer, CONNECTING)
        except KafkaException as error:
            raise Unwritten("none", error.args[0].str()) from None
        finally:
            self._asked = time.monotonic()
        self._producer = producer
        return producer

    def _drop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(KafkaException):
                producer.purge()


class _Purged(Unwritten):
    """Records that librdkafka purged, as it does once after a refused transaction."""


class _Offsets:
    """The offsets of a request's records, from the broker's answers."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.error: KafkaError | None = None
        self._offsets: dict[int, tuple[int, int]] = {}

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.error = self.error or error
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None and offset is not None
        first, last = self._offsets.get(partition, (offset, offset))
        self._offsets[partition] = min(first, offset), max(last, offset)

    def answer(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "offsets": {
                str(partition): {"first": first, "last": last}
                for partition, (first, last) in sorted(self._offsets.items())
            },
        }
