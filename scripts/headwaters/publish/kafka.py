"""Kafka topics as a target: one transaction writes the changes and the version.

A record's key is JSON of the key's columns and its value JSON of the row. A deleted row is a
tombstone, so that a compacted topic equals the table. The version is a record of
`<topic>.published`.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from functools import cached_property
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # not in its __all__

from headwaters.platform.errors import CodedError, UserError, WorkError
from headwaters.publish.changes import Change, Position, PublishedTable, repeated_keys
from headwaters.publish.target import FIRST, Done, Target, TargetDifference
from headwaters.publish.values import records, to_json
from headwaters.streams.sources.kafka_client import (
    TOO_LARGE,
    begin_transactions,
    broker_away,
    compacted,
    connect,
    create_missing,
    identities,
    ranges,
    transactional,
)

IDENTITY = "headwaters-publish-"
_LONGEST = 900_000  # milliseconds of a transaction, the default limit of brokers
_PAUSE = 0.5  # seconds
_ABORTING = 5.0  # seconds; otherwise the next producer aborts the transaction
_READING = 30.0  # seconds to wait for the next record
_FENCED = (
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
)
_AWAY = (
    KafkaError._TIMED_OUT,
    KafkaError._MSG_TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._RESOLVE,
    KafkaError._ALL_BROKERS_DOWN,
)


class KafkaTarget(Target):
    """A topic, which is created if it is missing."""

    def __init__(
        self,
        topic: str,
        servers: str,
        settings: Callable[[], Mapping[str, str]],
        patience: float,
        say: Callable[[str], None],
    ) -> None:
        """Set the target. `settings` returns the client's settings; its secrets are not stored."""
        self.topic, self.servers, self.patience = topic, servers, patience
        self.state = f"{topic}.published"
        self._settings, self._say = settings, say

    def publish(self, source: PublishedTable) -> Done:
        """Publish a table. If the broker is away, retry until the patience ends."""
        until = time.monotonic() + self.patience
        while True:
            try:
                return self._publish(source, until)
            except KafkaException as error:
                reason = error.args[0]
                if reason.code() in (*_FENCED, *TOO_LARGE) or time.monotonic() > until:
                    raise self._said(reason, source) from None
            except WorkError as error:
                # a new topic is not known to all brokers at once
                away = error.code in ("HW_BROKER_AWAY", "HW_NO_TOPIC")
                if not away or time.monotonic() > until:
                    raise
            time.sleep(_PAUSE)

    def compare(self, source: PublishedTable) -> TargetDifference | None:
        """Compare the compacted topic with the rows of the published version."""
        try:
            return self._compare(source)
        except KafkaException as error:
            raise self._said(error.args[0], source) from None

    def _compare(self, source: PublishedTable) -> TargetDifference | None:
        if not self._there(self.topic) or not self._there(self.state):
            return None
        while isinstance(before := self._published(source), Position):
            there = self._compacted()
            if self._published(source) != before:
                continue  # another publication has just committed
            missing = rows = 0
            with source.at(before.version, {}) as found:
                for row in records(found, source):
                    rows += 1
                    missing += there.pop(self._key(row, source), b"") != _digest(to_json(row))
            # some of the remaining records are outdated rows of keys that the table has
            return TargetDifference(before.version, rows, missing, len(there))
        return None

    def _publish(self, source: PublishedTable, until: float) -> Done:
        self._make()
        producer = self._producer(until)
        before = self._published(source)
        if before == source.position:
            return Done(source.position.version, already=True)
        begun = time.monotonic()
        try:
            with source.since(before, {}) as change:
                begun = time.monotonic()
                producer.begin_transaction()
                done = self._send(producer, source, change)
                self._produce(producer, self.state, source.name, self._state_of(source))
                self._commit(producer)
        except BaseException as error:
            cause = self._aborted(producer, error)
            if cause and cause.code() in _FENCED and time.monotonic() - begun > _LONGEST / 1000:
                # Kafka reports an abort by the broker as if another producer had fenced this one
                raise WorkError(
                    "HW_KAFKA",
                    f"{source.name}: the transaction took longer than {_LONGEST // 60_000} "
                    "minutes, after which the broker aborts it. Nothing was published",
                ) from None
            if cause:
                raise KafkaException(cause) from None
            raise
        return done

    def _aborted(self, producer: Producer, error: BaseException) -> KafkaError | None:
        """Abort a transaction. Return its cause if that was an error of Kafka."""
        found: KafkaError | None = error.args[0] if isinstance(error, KafkaException) else None
        try:
            producer.purge(in_queue=True, in_flight=False)
            producer.abort_transaction(_ABORTING)
        except KafkaException as other:
            # `produce` reports a fatal error without naming it
            if found is not None and found.code() == KafkaError._FATAL:
                found = other.args[0]
        return found

    def _send(self, producer: Producer, source: PublishedTable, change: Change) -> Done:
        sent: set[str] = set()
        for row in records(change.upserts, source):
            key = self._key(row, source)
            if key in sent:
                raise repeated_keys(source, "two rows are one record of the topic")
            sent.add(key)
            self._produce(producer, self.topic, key, to_json(row))
        if change.whole:
            deleted = [key for key in self._compacted() if key not in sent]
        else:
            deleted = [self._key(row, source) for row in records(change.deletes, source)]
        for key in deleted:
            self._produce(producer, self.topic, key, None)
        return Done(source.position.version, len(sent), len(deleted), change.whole)

    def _key(self, row: Mapping[str, Any], source: PublishedTable) -> str:
        return to_json({name: row[name] for name in source.key})

    def _produce(self, producer: Producer, topic: str, key: str, value: str | None) -> None:
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(_PAUSE)
        producer.poll(0)

    def _commit(self, producer: Producer) -> None:
        until = time.monotonic() + self.patience
        while True:
            try:
                producer.commit_transaction(max(1.0, until - time.monotonic()))
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > until:
                    raise

    def _producer(self, until: float) -> Producer:
        """Return a producer that fences the topic's other producers and ends their transactions."""
        given = {
            "linger.ms": "20",
            "queue.buffering.max.messages": "100000",
            "message.timeout.ms": str(max(1000, int(self.patience * 1000))),
            **self._settings(),
        }
        settings = transactional(f"{IDENTITY}{self.topic}", _LONGEST, given)
        producer = connect(Producer, self.servers, settings)
        begin_transactions(producer, max(1.0, until - time.monotonic()))
        return producer

    # -- the contents -----------------------------------------------------------------------------

    def _published(self, source: PublishedTable) -> Position | str:
        """Return the published position of the topic, or the reason if it is unknown."""
        last, found = source.name, None
        for key, value in self._read(self.state):
            last = key
            if key == source.name:
                found = json.loads(value) if value else None
        if not found:
            return FIRST
        if found.pop("topic_id") != self._identity():
            return f"the topic {self.topic} was created again"
        if found.pop("layout", self._layout) != self._layout:
            raise UserError(
                "HW_PUBLISH_TOPIC",
                f"topic {self.topic} has other partitions, or another partitioner, than when it "
                "was published to, and rows would be in two of them: delete it, or publish to "
                "another",
            )
        if last != source.name:
            return f"{last} was published to the topic"
        return Position(**found)

    def _state_of(self, source: PublishedTable) -> str:
        more = {"topic_id": self._identity(), "layout": self._layout}
        return json.dumps(asdict(source.position) | more)

    @property
    def _layout(self) -> str:
        """Return the layout that determines the partition of a key."""
        partitions = self._admin.list_topics(self.topic, 10).topics[self.topic].partitions
        return f"{len(partitions)} {self._settings().get('partitioner', 'murmur2_random')}"

    def _identity(self) -> str:
        found = identities(self.servers, [self.topic], self._settings())
        return found.get(self.topic, "")

    def _compacted(self) -> dict[str, bytes]:
        """Return the last value of each key as a digest, without deleted keys."""
        found: dict[str, bytes] = {}
        for key, value in self._read(self.topic):
            if value is None:
                found.pop(key, None)
            else:
                found[key] = _digest(value)
        return found

    def _read(self, topic: str) -> Iterator[tuple[str, str | None]]:
        """Yield keys and values of the committed records in a topic, up to its end."""
        settings = {
            **self._settings(),
            "group.id": "headwaters",
            "isolation.level": "read_committed",
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
        }
        left = set(ranges(self.servers, [topic], self._settings())[topic])
        with closing(connect(Consumer, self.servers, settings)) as consumer:
            consumer.assign([TopicPartition(topic, one, 0) for one in left])
            while left:
                message = consumer.poll(_READING)
                error = KafkaError(KafkaError._TIMED_OUT) if message is None else message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                assert message is not None
                if error is not None:
                    left.discard(message.partition() or 0)
                    continue
                key, value = message.key() or b"", message.value()
                yield bytes(key).decode(), None if value is None else bytes(value).decode()

    def _there(self, topic: str) -> bool:
        return topic in self._admin.list_topics(timeout=10).topics

    def _make(self) -> None:
        """Create the missing topics, both compacted."""
        compact = {"cleanup.policy": "compact"}
        wanted = [
            NewTopic(topic, config=compact, num_partitions=partitions)
            for topic, partitions in ((self.topic, -1), (self.state, 1))
        ]
        create_missing(self._admin, wanted)
        if self.topic not in compacted(self.servers, [self.topic], self._settings()):
            self._say(
                f"topic {self.topic} is not compacted (cleanup.policy): rows that its retention "
                "removes are missing to new readers"
            )

    @cached_property
    def _admin(self) -> AdminClient:
        # stored, because its futures end with it
        return connect(AdminClient, self.servers, self._settings())

    def _said(self, reason: KafkaError, source: PublishedTable) -> CodedError:
        if reason.code() in _FENCED:
            return WorkError(
                "HW_PUBLISH_IN_USE",
                f"another headwaters publishes to topic {self.topic}, and took over: stop one of "
                "them",
            )
        if reason.code() in TOO_LARGE:
            return WorkError(
                "HW_PUBLISH_VALUE",
                f"{source.name} has a row that topic {self.topic} does not take: {reason.str()}. "
                "Nothing was published",
            )
        if reason.code() not in _AWAY and not reason.retriable():
            return WorkError("HW_KAFKA", f"topic {self.topic}: the broker refuses: {reason.str()}")
        return broker_away(self.servers, reason)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
