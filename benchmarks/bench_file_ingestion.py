"""File ingestion: the same files read without a target, and into bronze and quarantine

The files are the county history, 8 Parquet files. `noop` reads the same columns as a stream and
drops the rows, which is the floor; `ingest` checks each record, adds the lineage and writes two
Delta tables. Spark is warm in both, and each reads everything from the start.

Then JSON files of 20 records are ingested: 100, 1,000 and 10,000 of them (`FILES="100 1000"`).
`nothing new` is the next ingestion, which finds the same files.
"""

from __future__ import annotations

import os
from typing import Any

from benchmarks.runner import ROOT, Bench, bytes_below, clock, descendants, median
from headwaters.devkit.samples.land import land
from headwaters.platform.project import Project
from headwaters.streams.contract import parse_contract
from headwaters.streams.ingestion.contracts import load_contracts
from headwaters.streams.ingestion.run import run as ingest
from headwaters.streams.ingestion.spark import start_spark
from headwaters.tables.delta_log import snapshot

FILES = [int(number) for number in os.environ.get("FILES", "100 1000 10000").split()]
OF_A_FILE = 20
NODE = {
    "original_file_path": "models/bronze/small.yml",
    "source_name": "bronze",
    "schema": "bronze",
    "name": "small",
    "identifier": "small",
    "config": {"meta": {"stream": {"from": "files", "path": "landing/small", "format": "json"}}},
    "columns": {"id": {"name": "id", "data_type": "bigint", "constraints": [], "config": {}}},
}


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
        for number in FILES:
            os.environ["HEADWATERS_LAKE"] = str(bench.work / f"small{number}")
            _small_files(bench, spark, Project(ROOT), jvm, number)
    finally:
        spark.stop()
    table = projects[-1].local / "warehouse" / "bronze.db" / "county_cases"
    state = snapshot(table)
    rows = state.rows if state else None
    bench.record("county_cases", "noop", floor.wall, floor.cpu, rows=rows)
    written = bytes_below(table)
    bench.record("county_cases", "ingest", whole.wall, whole.cpu, rows=rows, bytes_written=written)


def _small_files(bench: Bench, spark: Any, project: Project, jvm: list[int], number: int) -> None:
    """Record the ingestion of many small files, and the next one."""
    folder = project.local / "landing" / "small"
    folder.mkdir(parents=True)
    for first in range(0, number * OF_A_FILE, OF_A_FILE):
        lines = (f'{{"id": {one}}}\n' for one in range(first, first + OF_A_FILE))
        (folder / f"{first}.json").write_text("".join(lines))
    contract = parse_contract(NODE)
    for variant in ("ingest", "nothing new"):
        took = clock(lambda: ingest(project, [contract], spark), jvm)
        bench.record(f"{number:,} files", variant, took.wall, took.cpu, rows=number * OF_A_FILE)


def _noop(spark: Any, project: Project) -> None:
    folder = project.local / "landing" / "county_cases"
    schema = spark.read.parquet(str(folder)).schema
    stream = spark.readStream.schema(schema).parquet(str(folder)).writeStream.format("noop")
    checkpoint = str(project.local / "noop")
    query = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
