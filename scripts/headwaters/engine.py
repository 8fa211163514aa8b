"""The engine: a local Spark Connect server, so that many processes share one warm Spark.

`<lake>/engine/engine.json` says where it listens, which process it is, and the token without which
it refuses a client: its owner alone may read the file. That the engine runs is told by the
metastore's lock, which the server inherits, never by that file alone.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from headwaters import lake as lakes
from headwaters import metastore
from headwaters.environment import spark_java
from headwaters.errors import WorkError
from headwaters.project import Project
from headwaters.servers import Server, await_start, end, free_port, listens

DEFAULT_PORT = 15002


@dataclass(frozen=True)
class Engine(Server):
    """A running engine."""

    token: str = field(default="", repr=False)

    @property
    def address(self) -> str:
        """Where it listens, as people may see it. A client needs `remote`."""
        return f"sc://localhost:{self.port}"

    @property
    def remote(self) -> str:
        """What Spark's `spark.remote` takes: the address with the token.

        The name is localhost, since Spark's client would want TLS at any other. Raises WorkError
        where somebody else listens at localhost's other address, and would be given the token.
        """
        if listens(self.port, "::1"):
            raise WorkError(
                f"another process listens at [::1]:{self.port}, beside the engine: start the "
                "engine again on another --port"
            )
        return f"{self.address}/;token={self.token}" if self.token else self.address


def find(lake: Path) -> Engine | None:
    """The engine that runs on this lake, or None."""
    return Engine.running(_record(lake))


def _record(lake: Path) -> Path:
    return lake / "engine" / "engine.json"


def answers(address: str) -> bool:
    """Whether something listens at a `spark.remote`; the client itself would retry for minutes."""
    url = urlsplit(address.split(";")[0])
    return listens(url.port or DEFAULT_PORT, url.hostname or "localhost")


def start(
    project: Project,
    port: int | None = None,
    patience: float = 90.0,
    settings: Mapping[str, str] | None = None,
) -> Engine:
    """Start the engine with the Spark settings of the target `local`, and wait until it listens.

    `port` None takes 15002, or a free port when that is taken. `settings` come on top. An engine
    that already runs is returned as it is. Raises WorkError when another process holds the
    metastore, or Spark ends.
    """
    lake = project.lake
    lakes.enter(lake)
    if (running := find(lake)) is not None:
        return running
    spark_java()
    lock = metastore.hold(lake, "headwaters engine")
    chosen = free_port(port, DEFAULT_PORT)
    token = secrets.token_urlsafe(32)
    log = lake / "logs" / "engine.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            _command(project, chosen, settings or {}),
            cwd=project.root,
            # in no list of processes, as an argument would be
            env={**os.environ, "SPARK_CONNECT_AUTHENTICATE_TOKEN": token},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=[lock],
        )
    metastore.sign(lock, "headwaters engine", process.pid)  # the server has inherited the lock
    metastore.release(lake)
    await_start(process, chosen, "the engine", log, patience)
    engine = Engine(process.pid, chosen, token)
    engine.remember(_record(lake))
    return engine


def stop(project: Project) -> Engine | None:
    """Stop the engine of this lake and wait until its metastore is free; None if none runs."""
    engine = find(project.lake)
    if engine is not None:
        end(engine.pid)
    _record(project.lake).unlink(missing_ok=True)
    return engine


def _command(project: Project, port: int, more: Mapping[str, str]) -> list[str]:
    import pyspark

    settings = {
        **project.spark_settings("local"),
        "spark.sql.catalogImplementation": "hive",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        **more,
    }
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
    ]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    return [*command, "spark-internal"]
