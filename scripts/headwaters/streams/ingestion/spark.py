"""Spark inside this process, for ingestion."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headwaters.platform import object_store
from headwaters.platform.errors import UserError, WorkError, quiet
from headwaters.platform.places import RemotePath
from headwaters.platform.project import Project
from headwaters.platform.spark_driver import driver_settings
from headwaters.platform.spark_environment import settings_named
from headwaters.platform.spark_errors import one_line
from headwaters.platform.spark_version import READ_MORE
from headwaters.platform.waiting import EVERY, during
from headwaters.streams.contract import Contract

# The zone of a time without one.
ZONE = "spark.sql.session.timeZone"
# Tells a person about the progress of a command.
Say = Callable[[str], None]


def silent(text: str) -> None:
    """Say nothing."""


def each(contracts: Sequence[Contract], what: str, say: Say) -> Iterator[Contract]:
    """Yield contracts, and say before each, and every ten seconds, how far the work is."""
    for number, contract in enumerate(contracts, 1):
        step = f"{what} {contract.name} ({number} of {len(contracts)})"
        say(step)
        with contextlib.nullcontext() if say is silent else during(step, first=EVERY):
            yield contract


def start_spark(project: Project, say: Say = silent) -> SparkSession:
    """Start Spark inside this process, with the project's settings and no metastore.

    Ingestion opens tables by path, so that dbt can hold the metastore at the same time.
    """
    say("starting Spark")
    project.enter()
    _check_places(project)
    builder = SparkSession.builder
    for key, value in spark_settings(project).items():
        builder = builder.config(key, value)
    quiet()
    # `ingest` says nothing here: its own display shows that Spark starts
    waiting = contextlib.nullcontext() if say is silent else during("starting Spark")
    try:
        with waiting:
            return builder.getOrCreate()
    except (PySparkException, Py4JJavaError) as error:
        log = project.local / "logs" / "spark.log"
        why = _why(error, project.spark_settings())
        raise WorkError(
            "HW_SPARK_START",
            f"Spark does not start: {why}{settings_named(os.environ)} (more in {log})",
        ) from None


def _why(error: Exception, settings: Mapping[str, str]) -> str:
    """Return why Spark does not start; a cluster's master or its workers may be the reason."""
    if isinstance(error, PySparkException):
        return str(error).splitlines()[0]
    master = settings.get("spark.master", "")
    if "stopped SparkContext" in str(error) and master.startswith("spark://"):
        return (
            f"the master at {master} does not answer, or its workers cannot start executors: see "
            "the logs of both"
        )
    return one_line(error)


def _check_places(project: Project) -> None:
    """Raise UserError if the tables are in a store, and the checkpoints are not."""
    lake, warehouse = project.lake, project.warehouse
    if isinstance(lake, Path) and isinstance(warehouse, RemotePath):
        raise UserError(
            "HW_PROFILE",
            f"the target {project.target_name} has its warehouse in {warehouse} and its lake in "
            f"{lake}, and streams need their checkpoints beside their tables: put `lake: "
            f"{warehouse.parent}` into the target, instead of spark.sql.warehouse.dir",
        )


def spark_settings(project: Project) -> dict[str, str]:
    """Return the settings of a Spark for ingestion: the target's, and those that it requires."""
    of_target = {ZONE: "UTC", **project.spark_settings()}  # otherwise the zone of the machine
    return driver_settings(project.local / "logs", of_target) | {
        "spark.app.name": "headwaters ingest",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.scheduler.mode": "FAIR",
        **READ_MORE,
        **object_store.of_checkpoints(str(project.lake)),
        # like dbt: a failing computed column is null for that record, and the batch continues
        "spark.sql.ansi.enabled": "false",
        # Otherwise Spark computes common parts of `b` in `a and b` even if `a` is false. It would
        # do so for each record, although only the few suspicious ones need it.
        "spark.sql.subexpressionElimination.skipForShortcutExpr": "true",
    }


@contextlib.contextmanager
def spark_of(project: Project, given: SparkSession | None, say: Say) -> Iterator[SparkSession]:
    """Yield the given session, or one for the duration of the context."""
    spark = given or start_spark(project, say)
    try:
        yield spark
    finally:
        if given is None:
            spark.stop()


def stop(spark: SparkSession) -> None:
    """Stop Spark, if it still runs."""
    with contextlib.suppress(ConnectionError):  # Java has ended; another place reports it
        spark.stop()
