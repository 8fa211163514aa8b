"""A Kafka broker of one's own, for development and tests: the real one, in KRaft mode, from jars.

`<lake>/kafka/broker.json` says where it listens and which process it is; its data lies beside it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from headwaters import lake as lakes
from headwaters.contract import Reference, is_secret
from headwaters.environment import (
    cache_folder,
    changed_jar,
    fetch_locked,
    find_java,
    read_hashes,
)
from headwaters.errors import UserError, WorkError
from headwaters.project import Project
from headwaters.servers import Server, await_start, end, free_port

if TYPE_CHECKING:
    from headwaters.simulate import FinanceConfig


class Broker(Server):
    """A running broker."""

    @property
    def servers(self) -> str:
        """What clients take as `bootstrap.servers`."""
        return f"127.0.0.1:{self.port}"


def find(lake: Path) -> Broker | None:
    """The broker that runs on this lake, or None."""
    return Broker.running(_record(lake))


def _record(lake: Path) -> Path:
    return lake / "kafka" / "broker.json"


def servers(lake: Path) -> str:
    """The brokers to talk to: KAFKA_BOOTSTRAP_SERVERS, or else this lake's own broker.

    Raises UserError when there is neither.
    """
    if named := os.environ.get("KAFKA_BOOTSTRAP_SERVERS"):
        return named
    if broker := find(lake):
        return broker.servers
    raise UserError(
        "no Kafka broker: run `headwaters kafka start`, or set KAFKA_BOOTSTRAP_SERVERS to yours"
    )


def ranges(
    servers: str, topics: Sequence[str], client: Mapping[str, str] | None = None
) -> dict[str, dict[int, tuple[int, int]]]:
    """The first and the next offset of every partition of some topics.

    Raises WorkError when the broker does not answer, or has no such topic.
    """
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    consumer = _client(Consumer, servers, {"group.id": "headwaters", **(client or {})})
    electing = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)

    def offsets(topic: str, partition: int) -> tuple[int, int]:
        # A partition that was made just now has no leader for a moment.
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
            raise WorkError(f"the Kafka broker {servers} has no topic {', '.join(missing)}")
        return {
            topic: {
                partition: offsets(topic, partition)
                for partition in sorted(known[topic].partitions)
            }
            for topic in topics
        }
    except KafkaException as error:
        reason = error.args[0].str()
        raise WorkError(f"the Kafka broker {servers} does not answer: {reason}") from None
    finally:
        consumer.close()


def identities(
    servers: str, topics: Sequence[str], client: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The broker's own identity of each topic: one that is deleted and created again has another.

    Brokers before 2.8 have none. Raises WorkError when the broker does not answer, or has no such
    topic.
    """
    from confluent_kafka import KafkaError, KafkaException, TopicCollection

    admin = _admin(servers, tuple(sorted((client or {}).items())))
    found = admin.describe_topics(TopicCollection(list(topics)), request_timeout=10)
    identity = {}
    for topic, described in found.items():
        try:
            identity[topic] = str(described.result().topic_id)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise WorkError(f"the Kafka broker {servers} has no topic {topic}") from None
            reason = error.args[0].str()
            raise WorkError(f"the Kafka broker {servers} does not answer: {reason}") from None
    return {topic: one for topic, one in identity.items() if one != _NO_IDENTITY}


_NO_IDENTITY = "A" * 22  # sixteen zero bytes in base64


@lru_cache(maxsize=64)
def _admin(servers: str, client: tuple[tuple[str, str], ...]) -> Any:
    """A client that is kept: every batch asks, and to connect takes longer than the answer."""
    from confluent_kafka.admin import AdminClient

    return _client(AdminClient, servers, dict(client))


def resolved(where: str, client: Mapping[str, str | Reference]) -> dict[str, str]:
    """Settings with the values of the environment variables that they refer to.

    They are for a client that is made at once: secrets are among them. Raises UserError that
    names the setting and the variable, after `where`, when one is not set.
    """
    found = {}
    for key, value in client.items():
        if isinstance(value, Reference):
            if not (text := os.environ.get(value.env)):
                raise UserError(
                    f"{where}: client: {key}: the environment variable {value.env} is not set"
                )
            found[key] = text
        else:
            found[key] = value
    return found


# Java's client reads the variables by itself, so that Spark is given no secret.
_PROVIDER = "headwaters"
_PROVIDER_CLASS = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
_LOGIN = "org.apache.kafka.common.security"


def for_java(where: str, client: Mapping[str, str | Reference]) -> dict[str, str]:
    """Settings for Java's client, which holds references to environment variables as well.

    A user and a password, as librdkafka takes them, become the login that Java's client wants.
    Raises UserError, after `where`, for a variable that is not set, or that such a login cannot
    hold.
    """
    values = resolved(where, client)
    # librdkafka leaves out what a transaction did not commit, and Java's client must, too
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
                    f"{where}: client: sasl.{name} has a quote, a backslash or a line break: say "
                    "`sasl.jaas.config: {env: VARIABLE}` as well, for Java's client"
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


def _client(kind: Callable[..., Any], servers: str, client: Mapping[str, str]) -> Any:
    """A client with the settings of Spark's, which is Java's: names that it alone has are left out.

    Raises WorkError for a setting with a value that cannot be.
    """
    from confluent_kafka import KafkaException

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
                raise WorkError(f"the settings of the Kafka client (`client`): {reason}") from None


def make_topic(servers: str, topic: str, partitions: int = 3) -> None:
    """Make a topic, unless it is there. Raises WorkError when the broker does not answer."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # not in its __all__

    admin = _client(AdminClient, servers, {})
    try:
        if topic not in admin.list_topics(timeout=10).topics:
            for made in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
                made.result()
    except KafkaException as error:
        reason = error.args[0].str()
        raise WorkError(f"the Kafka broker {servers} does not answer: {reason}") from None


Record = tuple[str | None, str | bytes | None]  # key and value


def send(servers: str, topic: str, records: Iterable[Record]) -> int:
    """Send keys and values, in order; returns how many. Raises WorkError when one is not taken."""
    from confluent_kafka import KafkaError, Producer

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
        raise WorkError(f"{topic}: the broker did not take all records: {(failed or ['?'])[0]}")
    return number


def send_finance(config: FinanceConfig, servers: str) -> dict[str, int]:
    """Send the simulated finance streams to the topics of their names; returns the numbers sent.

    A topic that holds exactly these many records already is left alone.
    """
    from headwaters.simulate import STREAMS

    numbers = {}
    for topic, make in STREAMS.items():
        records = [(record.key, record.value) for record in make(config)]
        make_topic(servers, topic)
        held = sum(high - low for low, high in ranges(servers, [topic])[topic].values())
        numbers[topic] = 0 if held == len(records) else send(servers, topic, records)
    return numbers


def _silent() -> logging.Logger:
    logger = logging.getLogger("headwaters.kafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def start(
    project: Project,
    port: int | None = None,
    patience: float = 60.0,
    settings: Mapping[str, str] | None = None,
) -> Broker:
    """Start the broker of this lake and wait until it listens; one that runs is returned as it is.

    A broker that is started again keeps its port and its data; `settings` stand above its own,
    `{port}` being where clients come in. Raises WorkError when its jars cannot be had, or when it
    ends while it starts.
    """
    lakes.enter(project.lake)
    if running := find(project.lake):
        return running
    jars = broker_jars(project)
    folder = project.lake / "kafka"
    folder.mkdir(parents=True, exist_ok=True)
    before = Broker.last(_record(project.lake))
    chosen = free_port(port if port is not None else before.port if before else 0)
    properties = folder / "server.properties"
    more = {key: value.replace("{port}", str(chosen)) for key, value in (settings or {}).items()}
    properties.write_text(_properties(folder / "data", chosen, free_port(), more))
    log = folder / "broker.log"
    java = [str(find_java().path), "-Xmx384m", "-cp", f"{jars}/*"]
    with log.open("wb") as output:
        if not (folder / "data" / "meta.properties").exists():
            _format(java, properties, output, log)
        process = subprocess.Popen(
            [*java, "kafka.Kafka", str(properties)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    await_start(process, chosen, "the Kafka broker", log, patience)
    broker = Broker(process.pid, chosen)
    broker.remember(_record(project.lake))
    return broker


def stop(lake: Path) -> Broker | None:
    """Stop the broker of this lake and wait until it is gone; None if none runs. Data is kept."""
    broker = find(lake)
    if broker is not None:
        end(broker.pid)
    return broker


def _format(java: list[str], settings: Path, output: IO[bytes], log: Path) -> None:
    data = settings.parent / "data"
    shutil.rmtree(data, ignore_errors=True)
    identity = uuid.uuid5(uuid.NAMESPACE_URL, str(data)).hex[:22]
    command = [*java, "kafka.tools.StorageTool", "format", "-t", identity, "-c", str(settings)]
    done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise WorkError(f"the Kafka broker's folder {data} could not be made (see {log})")


def _properties(data: Path, port: int, controller: int, more: Mapping[str, str]) -> str:
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "log.dirs": data,
        "num.partitions": 3,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        # records of up to 16 MB, so that a large one is no special case in development
        "message.max.bytes": 16_000_000,
        "log.retention.check.interval.ms": 1000,
        **{key: value.replace("{controller}", str(controller)) for key, value in more.items()},
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def broker_jars(project: Project) -> Path:
    """The broker's jars, fetched once for all checkouts; not on Spark's class path."""
    import pyspark

    module, hashes = (project.root / "conf" / f"kafka-broker.{kind}" for kind in ("xml", "sha256"))
    digest = hashlib.sha256(module.read_bytes() + hashes.read_bytes()).hexdigest()[:12]
    folder = cache_folder() / f"kafka-broker-{digest}"
    if not folder.is_dir():
        home = Path(pyspark.__file__).parent
        fetch_locked(module, hashes, home, find_java(), folder)
    if problem := changed_jar(folder, read_hashes(hashes)):
        raise UserError(
            f"{problem} is not the one of conf/kafka-broker.sha256: delete {folder}, and the next "
            "start fetches it"
        )
    return folder
