"""A local Kafka broker for development and tests: the real one, in KRaft mode, from jars.

`<lake>/kafka/broker.json` has its address and process; its data is in the same folder.
"""

from __future__ import annotations

import shutil
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from headwaters.devkit.servers import end, starting
from headwaters.platform import lake as lakes
from headwaters.platform.errors import WorkError
from headwaters.platform.jars import CachedJars, find_java
from headwaters.platform.project import Project
from headwaters.streams.sources.kafka_client import Broker, find, record


def start(
    project: Project,
    port: int | None = None,
    patience: float = 60.0,
    settings: Mapping[str, str] | None = None,
) -> Broker:
    """Start the broker of this lake and wait until it listens, or return the running one.

    A restarted broker keeps its port and its data. `settings` override its own: `{port}` is the
    port of clients, `{controller}` that of the controller. Raises WorkError if its jars cannot be
    downloaded, or if it ends while it starts.
    """
    lakes.enter(project.local)
    if running := find(project.local):
        return running
    jars = broker_jars()
    folder = project.local / "kafka"
    folder.mkdir(parents=True, exist_ok=True)
    before = Broker.last(record(project.local))
    wanted = port if port is not None or before is None else before.port
    properties, log = folder / "server.properties", folder / "broker.log"
    java = [str(find_java().path), "-Xmx384m", "-cp", f"{jars}/*"]

    def command(chosen: int, controller: int) -> list[str]:
        properties.write_text(_properties(folder / "data", chosen, controller, settings or {}))
        if not (folder / "data" / "meta.properties").exists():
            _format(java, properties, output, log)
        return [*java, "kafka.Kafka", str(properties)]

    with (
        log.open("wb") as output,
        starting(command, "the Kafka broker", output, patience, wanted, ports=2) as (pid, chosen),
    ):
        broker = Broker(pid, chosen)
        broker.remember(record(project.local))
    return broker


def stop(lake: Path) -> Broker | None:
    """Stop the broker of this lake and wait until it ends; None if none runs. Data is kept."""
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
        raise WorkError(
            "HW_SERVER", f"the Kafka broker's folder {data} could not be made (see {log})"
        )


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
        # large records must work in development as well
        "message.max.bytes": 16_000_000,
        "log.retention.check.interval.ms": 1000,
    }
    for key, value in more.items():
        value = value.replace("{port}", str(port))
        settings[key] = value.replace("{controller}", str(controller))
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def broker_jars() -> Path:
    """Return the broker's jars, downloaded once for all checkouts; not on Spark's class path."""
    jars = CachedJars(Path(__file__).with_name("kafka-broker"))
    jars.fetch()
    return jars.folder
