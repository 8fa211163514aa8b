"""The engine: a local Spark Connect server, so that many processes share one warm Spark.

`<lake>/engine/engine.json` says where it listens and which process it is. That the engine runs is
told by the metastore's lock, which the server inherits, never by that file alone.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from headwaters import metastore
from headwaters.environment import find_java
from headwaters.project import Project
from headwaters.servers import Server, await_start, end, free_port, listens

DEFAULT_PORT = 15002


class Engine(Server):
    """A running engine."""

    @property
    def address(self) -> str:
        """What Spark's `spark.remote` takes."""
        return f"sc://127.0.0.1:{self.port}"


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
    if (running := find(lake)) is not None:
        return running
    find_java()
    lock = metastore.hold(lake, "headwaters engine")
    chosen = free_port(port, DEFAULT_PORT)
    log = lake / "logs" / "engine.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            _command(project, chosen, settings or {}),
            cwd=project.root,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=[lock],
        )
    metastore.sign(lock, "headwaters engine", process.pid)  # the server has inherited the lock
    metastore.release(lake)
    await_start(process, chosen, "the engine", log, patience)
    engine = Engine(process.pid, chosen)
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
