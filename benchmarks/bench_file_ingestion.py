"""File ingestion: the same files read without a target, and into bronze and quarantine

The files are the county history, 8 Parquet files. `noop` reads the same columns as a stream and
drops the rows, which is the floor; `ingest` checks each record, adds the lineage and writes two
Delta tables. Spark is warm in both, and each reads everything from the start.
"""

from __future__ import annotations

import os
from typing import Any

from benchmarks.runner import ROOT, Bench, bytes_below, clock, descendants, median
from headwaters.devkit.samples.land import land
from headwaters.platform.project import Project
from headwaters.streams.ingestion.contracts import load_contracts
from headwaters.streams.ingestion.run import run as ingest
from headwaters.streams.ingestion.spark import start_spark
from headwaters.tables.delta_log import snapshot


def run(bench: Bench) -> None:
    """Measure on a new lake each time; the first measurement of each variant warms Spark up."""
    os.environ["DBT_TARGET_PATH"] = str(bench.work / "target")
    os.chdir(ROOT)
    projects: list[Project] = []

    def fresh_lake() -> Project:
        os.environ["HEADWATERS_LAKE"] = str(bench.work / f"lake{len(projects)}")
        projects.append(Project(ROOT))  # which reads the variable once
        land(projects[-1])
        return projects[-1]

    first = fresh_lake()
    contracts, _ = load_contracts(first, ["source:bronze.county_cases"])
    spark = start_spark(first)
    jvm = descendants(os.getpid())

    def to_noop() -> Any:
        project = fresh_lake()
        return clock(lambda: _noop(spark, project), jvm)

    def to_bronze() -> Any:
        project = fresh_lake()
        return clock(lambda: ingest(project, contracts, spark), jvm)

    try:
        to_noop()
        floor = median(to_noop)
        to_bronze()
        whole = median(to_bronze)
    finally:
        spark.stop()
    table = projects[-1].local / "warehouse" / "bronze.db" / "county_cases"
    state = snapshot(table)
    rows = state.rows if state else None
    bench.record("county_cases", "noop", floor.wall, floor.cpu, rows=rows)
    written = bytes_below(table)
    bench.record("county_cases", "ingest", whole.wall, whole.cpu, rows=rows, bytes_written=written)


def _noop(spark: Any, project: Project) -> None:
    folder = project.local / "landing" / "county_cases"
    schema = spark.read.parquet(str(folder)).schema
    stream = spark.readStream.schema(schema).parquet(str(folder)).writeStream.format("noop")
    checkpoint = str(project.local / "noop")
    query = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
