"""Spark inside this process, for ingestion."""

from __future__ import annotations

import contextlib

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headwaters import lake as lakes
from headwaters.errors import WorkError, quiet
from headwaters.project import Project
from headwaters.spark_driver import driver_settings


def start_spark(project: Project) -> SparkSession:
    """Spark inside this process, with the project's settings and no metastore.

    Tables are reached by path, so that dbt can hold the metastore at the same time.
    """
    lakes.enter(project.lake)
    builder = SparkSession.builder
    settings = driver_settings(project.lake / "logs", project.spark_settings()) | {
        "spark.app.name": "headwaters ingest",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.scheduler.mode": "FAIR",
        # as dbt sets it: a computed column that fails on one record is null, and does not stop all
        "spark.sql.ansi.enabled": "false",
        # Of `a and b`, Spark would compute what comes twice in b where a is false as well: for each
        # record what only the few that look wrong need.
        "spark.sql.subexpressionElimination.skipForShortcutExpr": "true",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    quiet()
    try:
        return builder.getOrCreate()
    except PySparkException as error:
        reason = str(error).splitlines()[0]
        log = project.lake / "logs" / "spark.log"
        raise WorkError(
            "HW_SPARK_START", f"Spark does not start: {reason} (more in {log})"
        ) from None


def stop(spark: SparkSession) -> None:
    """Stop Spark, if it still runs."""
    with contextlib.suppress(ConnectionError):  # Java has ended, which is said elsewhere
        spark.stop()
