"""Kafka's client: the brokers of a stream, their topics and offsets, and the settings for both.

A lake may have a local broker: `<lake>/kafka/broker.json` has its address.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not in its __all__
    AdminClient,
    ConfigResource,
    NewTopic,
    TopicMetadata,
)

from headwaters.platform.errors import UserError, WorkError
from headwaters.platform.kafka_settings import Reference, is_secret
from headwaters.platform.servers import Server

Client = TypeVar("Client")
_PAUSE = 0.1  # seconds between retries


class Broker(Server):
    """A running broker."""

    @property
    def servers(self) -> str:
        """Return the value of `bootstrap.servers` for clients."""
        return f"127.0.0.1:{self.port}"


def find(lake: Path) -> Broker | None:
    """Return the broker that runs on this lake, or None."""
    return Broker.running(record(lake))


def record(lake: Path) -> Path:
    """Return the file with the address of a lake's broker."""
    return lake / "kafka" / "broker.json"


def servers(lake: Path) -> str:
    """Return the brokers: KAFKA_BOOTSTRAP_SERVERS, or else this lake's local broker.

    Raises UserError if neither exists.
    """
    if named := os.environ.get("KAFKA_BOOTSTRAP_SERVERS"):
        return named
    if broker := find(lake):
        return broker.servers
    raise UserError(
        "HW_NO_BROKER",
        "no Kafka broker: run `headwaters kafka start`, or set KAFKA_BOOTSTRAP_SERVERS to yours",
    )


def broker_away(servers: str, reason: KafkaError) -> WorkError:
    """Return the error for a broker that does not answer."""
    text = f"the Kafka broker {servers} does not answer: {reason.str()}"
    return WorkError("HW_BROKER_AWAY", text)


def ranges(
    servers: str, topics: Sequence[str], client: Mapping[str, str] | None = None
) -> dict[str, dict[int, tuple[int, int]]]:
    """Return the first and the next offset of every partition of some topics.

    Raises WorkError if the broker does not answer, or has no such topic.
    """
    consumer = connect(Consumer, servers, {"group.id": "headwaters", **(client or {})})
    electing = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)

    def offsets(topic: str, partition: int) -> tuple[int, int]:
        # A new partition has no leader for a moment.
        until = time.monotonic() + 10
        while True:
            try:
                found = consumer.get_watermark_offsets(TopicPartition(topic, partition), 10)
            except KafkaException as error:
                if error.args[0].code() not in electing or time.monotonic() > until:
                    raise
                time.sleep(0.2)
            else:
                return int(found[0]), int(found[1])

    try:
        known = consumer.list_topics(timeout=10).topics
        if missing := [topic for topic in topics if topic not in known]:
            raise WorkError(
                "HW_NO_TOPIC", f"the Kafka broker {servers} has no topic {', '.join(missing)}"
            )
        return {
            topic: {
                partition: offsets(topic, partition)
                for partition in sorted(known[topic].partitions)
            }
            for topic in topics
        }
    except KafkaException as error:
        raise broker_away(servers, error.args[0]) from None
    finally:
        consumer.close()


def identities(
    servers: str, topics: Sequence[str], client: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the broker's identity of each topic, which changes if the topic is recreated.

    Brokers before 2.8 have none. Raises WorkError if the broker does not answer, or has no such
    topic.
    """
    admin = _admin(servers, tuple(sorted((client or {}).items())))
    found = admin.describe_topics(TopicCollection(list(topics)), request_timeout=10)
    identity = {}
    for topic, described in found.items():
        try:
            identity[topic] = str(described.result().topic_id)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise WorkError(
                    "HW_NO_TOPIC", f"the Kafka broker {servers} has no topic {topic}"
                ) from None
            raise broker_away(servers, error.args[0]) from None
    return {topic: one for topic, one in identity.items() if one != _NO_IDENTITY}


def compacted(
    servers: str, topics: Sequence[str], client: Mapping[str, str] | None = None
) -> list[str]:
    """Return the topics that the broker compacts, whose older records may be gone.

    It omits topics whose settings this user may not read.
    """
    admin = _admin(servers, tuple(sorted((client or {}).items())))
    asked = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
    found = []
    for resource, answer in admin.describe_configs(asked, request_timeout=10).items():
        with suppress(KafkaException):
            if "compact" in answer.result()["cleanup.policy"].value:
                found.append(resource.name)
    return found


_NO_IDENTITY = "A" * 22  # sixteen zero bytes in base64


@lru_cache(maxsize=64)
def _admin(servers: str, client: tuple[tuple[str, str], ...]) -> AdminClient:
    """Return a cached client: each batch asks, and connecting takes longer than the answer."""
    return connect(AdminClient, servers, dict(client))


def resolved(where: str, client: Mapping[str, str | Reference]) -> dict[str, str]:
    """Return settings with the values of the environment variables that they refer to.

    Use the result for a new client at once, because it contains secrets. Raises UserError if a
    variable is not set, with the setting and the variable after `where`.
    """
    found = {}
    for key, value in client.items():
        if isinstance(value, Reference):
            if not (text := os.environ.get(value.env)):
                raise UserError(
                    "HW_KAFKA_CLIENT",
                    f"{where}: client: {key}: the environment variable {value.env} is not set",
                )
            found[key] = text
        else:
            found[key] = value
    return found


# Java's client reads the variables itself, so that Spark never gets a secret.
_PROVIDER = "headwaters"
_PROVIDER_CLASS = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
_LOGIN = "org.apache.kafka.common.security"


def for_java(where: str, client: Mapping[str, str | Reference]) -> dict[str, str]:
    """Return settings for Java's client, which also accepts references to environment variables.

    librdkafka's user and password become the login that Java's client needs. Raises UserError,
    after `where`, for a variable that is not set, or that such a login cannot contain.
    """
    values = resolved(where, client)
    # librdkafka skips uncommitted records of transactions by default; Java's client must, too
    settings = {"isolation.level": "read_committed"} | {
        key: f"${{{_PROVIDER}:{value.env}}}" if isinstance(value, Reference) else value
        for key, value in client.items()
    }
    login = {name: settings.pop(f"sasl.{name}", None) for name in ("username", "password")}
    mechanism = settings.get("sasl.mechanism", "")
    known = mechanism == "PLAIN" or mechanism.startswith("SCRAM-")
    if known and all(login.values()) and "sasl.jaas.config" not in settings:
        kind = "scram.Scram" if mechanism.startswith("SCRAM-") else "plain.Plain"
        for name in login:
            if re.search(r'["\\\r\n]', values[f"sasl.{name}"]):
                raise UserError(
                    "HW_KAFKA_CLIENT",
                    f"{where}: client: sasl.{name} has a quote, a backslash or a line break: say "
                    "`sasl.jaas.config: {env: VARIABLE}` as well, for Java's client",
                )
        settings["sasl.jaas.config"] = (
            f'{_LOGIN}.{kind}LoginModule required username="{login["username"]}" '
            f'password="{login["password"]}";'
        )
    if any(isinstance(value, Reference) for value in client.values()):
        others = settings.get("config.providers")
        settings["config.providers"] = f"{others},{_PROVIDER}" if others else _PROVIDER
        settings[f"config.providers.{_PROVIDER}.class"] = _PROVIDER_CLASS
    return settings


def create_missing(admin: AdminClient, wanted: Sequence[NewTopic]) -> dict[str, TopicMetadata]:
    """Create missing topics; return the broker's description of all its topics.

    Brokers learn of a new topic a moment after its creation; this waits until they know it. Raises
    KafkaException.
    """
    there = dict(admin.list_topics(timeout=10).topics)
    missing = [topic for topic in wanted if topic.topic not in there]
    if missing:
        for one in admin.create_topics(missing).values():
            try:
                one.result(10)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
    until = time.monotonic() + 10
    while not all(topic.topic in there for topic in missing) and time.monotonic() < until:
        time.sleep(_PAUSE)
        there = dict(admin.list_topics(timeout=10).topics)
    return there


# Errors of a record that the broker refuses on every attempt.
TOO_LARGE = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)


def transactional(identity: str, longest: int, client: Mapping[str, str]) -> dict[str, str]:
    """Return settings of a producer with the transactional identity `identity`.

    A transaction lasts `longest` milliseconds at most. `client` may name another partitioner.
    """
    return {
        # the default of Java's clients
        "partitioner": "murmur2_random",
        **client,
        "transactional.id": identity,
        "transaction.timeout.ms": str(longest),
        "enable.idempotence": "true",
        "acks": "all",
    }


_MOVING = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)


def begin_transactions(producer: Producer, seconds: float) -> None:
    """Register a producer with the broker, and end its predecessor's transactions.

    For a moment after a restart or an election, brokers send clients to each other, so it retries.
    Raises KafkaException.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            producer.init_transactions(max(0.1, until - time.monotonic()))
            return
        except KafkaException as error:
            reason = error.args[0]
            again = reason.code() in _MOVING or reason.retriable()
            if not again or reason.fatal() or time.monotonic() > until - _PAUSE:
                raise
        time.sleep(_PAUSE)


def connect(kind: Callable[..., Client], servers: str, client: Mapping[str, str]) -> Client:
    """Return a client with Spark's settings, without those that only Java's client has.

    Raises WorkError for a setting with an invalid value.
    """
    java = ("sasl.jaas.config", "ssl.truststore.")
    settings = {key: value for key, value in client.items() if not key.startswith(java)}
    while True:
        try:
            return kind(
                {"bootstrap.servers": servers, **settings, "log_level": 0}, logger=_silent()
            )
        except KafkaException as error:
            reason = error.args[0].str()
            unknown = re.search(r'No such configuration property: "(.+)"', reason)
            if unknown is None or settings.pop(unknown[1], None) is None:
                for key, value in settings.items():
                    if is_secret(key):
                        reason = reason.replace(value, "…")
                raise WorkError(
                    "HW_KAFKA_CLIENT", f"the settings of the Kafka client (`client`): {reason}"
                ) from None


def _silent() -> logging.Logger:
    logger = logging.getLogger("headwaters.kafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger
