"""The start and stop of a lake's engine; `headwaters.platform.engine` finds a running one."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

import pyspark

from headwaters.devkit.servers import end, starting
from headwaters.platform import hive_metastore, metastore
from headwaters.platform.engine import DEFAULT_PORT, Engine, find, record
from headwaters.platform.project import Project
from headwaters.platform.spark_driver import driver_settings


def start(
    project: Project,
    port: int | None = None,
    patience: float = 90.0,
    settings: Mapping[str, str] | None = None,
) -> Engine:
    """Start the engine with the Spark settings of the project's target; wait until it listens.

    `port` None takes 15002, or a free port if that is taken. `settings` come on top. A running
    engine is returned unchanged. Raises WorkError if another process holds the metastore, or Spark
    ends.
    """
    lake = project.local
    project.enter()
    if (running := find(lake)) is not None:
        return running
    spark, outside = hive_metastore.enter(project.spark_settings(), lake, project.root)
    lock = metastore.hold(lake, "headwaters engine")
    token = secrets.token_urlsafe(32)
    log = lake / "logs" / "engine.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    # an argument would be visible in the list of processes
    environment = {**os.environ, "SPARK_CONNECT_AUTHENTICATE_TOKEN": token}
    try:
        with (
            log.open("wb") as output,
            starting(
                lambda free: _command(lake, free, spark, settings or {}),
                "the engine",
                output,
                patience,
                port,
                DEFAULT_PORT,
                cwd=project.root,
                environment=environment,
                keeps=[lock],
            ) as (pid, chosen),
        ):
            metastore.sign(lock, "headwaters engine", pid)  # the server has inherited the lock
            engine = Engine(pid, chosen, token, outside is not None)
            engine.remember(record(lake))
    finally:
        metastore.release(lake)
    return engine


def stop(project: Project) -> Engine | None:
    """Stop the engine of this lake and wait until its metastore is free; None if none runs."""
    engine = find(project.local)
    if engine is not None:
        end(engine.pid)
    record(project.local).unlink(missing_ok=True)
    return engine


def _command(lake: Path, port: int, spark: Mapping[str, str], more: Mapping[str, str]) -> list[str]:
    settings = {
        **driver_settings(lake / "logs", spark),
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
