"""The platform: a lake in an S3 store, and all servers around it, started and stopped together.

Each one has its own module, files and command. The folder of the lake on this machine has their
files, and `platform.env` there the variables of a shell whose commands use them.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from headwaters.devkit import broker, cluster, flink, metastore, objects, postgres, trino
from headwaters.platform import atomic_write, hive_metastore, object_store
from headwaters.platform import cluster as clusters
from headwaters.platform import lake as lakes
from headwaters.platform import postgres as databases
from headwaters.platform.errors import UserError
from headwaters.platform.project import Project
from headwaters.platform.servers import Server
from headwaters.streams.sources import kafka_client

Say = Callable[[str], None]

# The lake of the platform, and its tables, in the S3 store.
LAKE = f"s3a://{objects.BUCKET}/headwaters"
WAREHOUSE = f"{LAKE}/warehouse"
PATIENCE = 180.0  # seconds, for each server on a machine with other work


@dataclass(frozen=True)
class Service:
    """A server of the platform: how to find, start and stop it on a lake."""

    name: str
    find: Callable[[Path], str | None]  # its address, if it runs
    start: Callable[[Project, Say], object]
    stop: Callable[[Path], object]


def _postgres(lake: Path) -> str | None:
    found = databases.find(lake)
    return found.address if found else None


def _objects(lake: Path) -> str | None:
    found = objects.find(lake)
    return f"{found.address}, bucket {objects.BUCKET}" if found else None


def _metastore(lake: Path) -> str | None:
    found = Server.running(hive_metastore.record(lake))
    return f"thrift://127.0.0.1:{found.port}" if found else None


def _start_metastore(project: Project, say: Say) -> None:
    metastore.init(project, lambda text: None)
    metastore.serve(project, 0, PATIENCE, WAREHOUSE)


def _cluster(lake: Path) -> str | None:
    if cluster.missing(lake):
        return None
    master, connect = clusters.master(lake), clusters.find(lake)
    if master is None or connect is None:
        return None
    workers = len(clusters.workers(lake))
    return f"{connect.address}, master {master.address}, {workers} workers of one core"


def _start_cluster(project: Project, say: Say) -> None:
    settings = {object_store.WAREHOUSE: WAREHOUSE}
    for name, value in object_store.addresses(os.environ).items():
        settings[f"spark.hadoop.{name}"] = value
    cluster.start(project, lambda text: None, settings=settings)


def _kafka(lake: Path) -> str | None:
    found = kafka_client.find(lake)
    return found.servers if found else None


def _trino(lake: Path) -> str | None:
    found = trino.find(lake)
    return f"http://127.0.0.1:{found.port}, catalog {trino.CATALOG}" if found else None


def _start_trino(project: Project, say: Say) -> None:
    address = _metastore(project.local)
    assert address  # the services before it run
    trino.start(project, address, say)


def _flink(lake: Path) -> str | None:
    found = flink.find(lake)
    return f"http://127.0.0.1:{found.port}" if found else None


# In the order of their start; they stop in the reverse order.
SERVICES = (
    Service("PostgreSQL", _postgres, lambda project, say: postgres.start(project), postgres.stop),
    Service("S3", _objects, objects.start, objects.stop),
    Service("metastore", _metastore, _start_metastore, metastore.stop),
    Service("Spark", _cluster, _start_cluster, cluster.stop),
    Service(
        "Kafka", _kafka, lambda project, say: broker.start(project, patience=PATIENCE), broker.stop
    ),
)
# With those on request.
ALL = (
    *SERVICES,
    Service("Trino", _trino, _start_trino, trino.stop),
    Service("Flink", _flink, flink.start, flink.stop),
)


def start(project: Project, say: Say, services: Collection[Service] = SERVICES) -> bool:
    """Start the services that do not run; `say` prints a line for each one that is ready.

    Returns false if all of them ran. Those that were started stay if a later one fails: the next
    call continues there.
    """
    lake = home(project)
    lakes.enter(lake)
    os.environ.update(variables(lake))
    worked = False
    for service in services:
        before = time.monotonic()
        if (address := service.find(lake)) is not None:
            say(f"{service.name} runs at {address}")
            continue
        service.start(replace(project), say)  # which reads the variables again
        os.environ.update(variables(lake))
        worked = True
        took = time.monotonic() - before
        say(f"{service.name} is ready at {service.find(lake)} ({took:.0f} s)")
    atomic_write.write_private(file(lake), exports(variables(lake)))
    return worked


def stop(lake: Path, services: Collection[Service]) -> Iterator[str]:
    """Stop the services that run, the last one first; yield the name of each. Data is kept."""
    for service in reversed(list(services)):
        if service.stop(lake):
            yield service.name


def home(project: Project) -> Path:
    """Return the folder of the platform's servers, in the project's lake.

    With the platform's variables in the environment, it is the local folder of the project's lake.
    """
    lake = project.local
    return lake if file(lake).exists() else lake / "platform"


def variables(lake: Path) -> dict[str, str]:
    """Return the environment of a command that uses the services that run."""
    found = {"HEADWATERS_LAKE": LAKE, "HEADWATERS_LOCAL": str(lake)}
    if store := objects.find(lake):
        found |= store.variables()
    if databases.find(lake):
        found[hive_metastore.VARIABLE] = "thrift"
    if master := clusters.master(lake):
        found["HEADWATERS_MASTER"] = master.address
        found["HEADWATERS_MASTER_SECRET"] = master.secret
    if broker_ := kafka_client.find(lake):
        found["KAFKA_BOOTSTRAP_SERVERS"] = broker_.servers
    return found


def exports(found: Mapping[str, str]) -> str:
    """Return variables in the form of a shell's script."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in found.items())


def file(lake: Path) -> Path:
    """Return the file with the variables, which only the owner may read."""
    return lake / "platform.env"


def selected(named: str | None) -> list[Service]:
    """Return the services of a platform, with those that `--with` names.

    Raises UserError for a name that is not one.
    """
    optional = [one.name.lower() for one in ALL if one not in SERVICES]
    names = [name.strip().lower() for name in (named or "").split(",") if name.strip()]
    for name in names:
        if name not in optional:
            raise UserError("HW_ARGUMENT", f"--with {name}: there is {', '.join(optional)}")
    return [one for one in ALL if one in SERVICES or one.name.lower() in names]
