"""The same work on a laptop's lake, in an object store, and on a cluster

`models` are the 11 of the decision-support warehouse over the tables of TPC-H at scale 0.1, 0.6
million lines: built, and brought up to date after 0.3 % of the orders changed. `unchanged` are 50
models without changes, each planned, with a metastore inside the process and with the service on
PostgreSQL. `ingestion` reads 400,000 records of JSON in 16 files from the store. The servers are
those of `headwaters platform start`, on this machine; their CPU counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench_dbt_start import fifty_models
from benchmarks.bench_decision_support import TABLES, warehouse_files
from benchmarks.runner import ROOT, Bench, Clock, clock_process, dbt_project, median
from headwaters.devkit import cluster, objects, services
from headwaters.devkit.servers import end
from headwaters.platform import cluster as clusters
from headwaters.platform import hive_metastore, postgres
from headwaters.platform.project import Project
from headwaters.platform.servers import Server

SCALE = "0.1"
RECORDS, FILES = 400_000, 16
HEADWATERS = str(Path(sys.executable).parent / "headwaters")
NOTES = """
On one machine the store answers in a millisecond, and every server shares two cores: the figures
show what the parts cost, not what a network adds. The second executor has no core of its own here,
so it adds the cost of its start.
"""


@dataclass(frozen=True)
class Place:
    """A place of work: its environment, dbt's target, its servers' sessions, and its project."""

    name: str
    variables: Mapping[str, str]
    target: str = "local"
    sessions: Sequence[int] = ()
    folder: Path = ROOT

    def run(self, command: Sequence[str], words: str = "") -> Clock:
        """Time a command here."""
        given = {"HEADWATERS_PROGRESS": "0", **self.variables}
        return clock_process(command, self.folder, given, (), self.sessions, words.encode())


def run(bench: Bench) -> None:
    """Start the platform, and measure the four pairs."""
    os.environ["HEADWATERS_LAKE"] = str(bench.work / "lake")
    folder = bench.work / "lake" / "platform"
    parquet = bench.work / "tpch"
    generator = [str(Path(sys.executable).parent / "tpchgen-cli"), "parquet", "-s", SCALE]
    subprocess.run([*generator, "--output-dir", str(parquet)], check=True)
    try:
        services.start(Project(ROOT), print)
        in_store = services.variables(folder)
        for name in in_store:
            os.environ.pop(name, None)
        _models(bench, folder, in_store, parquet)
        _unchanged(bench, folder, in_store)
        _ingestion(bench, folder, in_store)
    finally:
        list(services.stop(folder, services.ALL))


def _sessions(folder: Path) -> dict[str, int]:
    """Return the processes that lead the sessions of the platform's servers."""
    found = {name: server.pid for name, server in cluster.parts(folder).items()}
    for name, server in {
        "S3": objects.find(folder),
        "metastore": Server.running(hive_metastore.record(folder)),
        "PostgreSQL": postgres.find(folder),
    }.items():
        if server is not None:
            found[name] = server.pid
    return found


def _of(sessions: Mapping[str, int], *starts: str) -> list[int]:
    return [pid for name, pid in sessions.items() if name.startswith(starts)]


def _models(bench: Bench, folder: Path, in_store: Mapping[str, str], parquet: Path) -> None:
    _, _, *options = dbt_project(bench.work / "models", warehouse_files())
    servers = _sessions(folder)
    store = _of(servers, "S3", "metastore", "PostgreSQL")
    elsewhere = {**in_store, "HEADWATERS_LAKE": "s3a://lake/embedded"}
    elsewhere |= {"HEADWATERS_LOCAL": str(bench.work / "embedded"), "HEADWATERS_METASTORE": "derby"}
    for place in (
        Place("in the process, a folder", {"HEADWATERS_LAKE": str(bench.work / "laptop")}),
        Place("in the process, S3", elsewhere, "local", _of(servers, "S3")),
        Place("on the cluster, S3", in_store, "cluster", [*store, *_of(servers, *_CLUSTER)]),
    ):
        target = ["--target", place.target]
        dbt = [sys.executable, "-m", "dbt.cli.main", "--quiet", "run", *target, *options]
        sql = [HEADWATERS, "sql", "--write", "--yes", *target]
        place.run(sql, _created(parquet))
        built = place.run(dbt)
        bench.record("11 models, built", place.name, built.wall, built.cpu)
        for number in range(2):  # the first round compiles
            place.run(sql, _changed(number))
            updated = place.run(dbt)
        bench.record("11 models, 0.3 % changed", place.name, updated.wall, updated.cpu)


_CLUSTER = ("master", "worker", "connect")


def _created(parquet: Path) -> str:
    given = "tblproperties ('delta.enableChangeDataFeed' = 'true')"
    return "create schema if not exists tpch;\n" + "".join(
        f"create table tpch.{table} using delta {given}"
        f" as select * from parquet.`file:{parquet / table}.parquet`;\n"
        for table in TABLES
    )


def _changed(number: int) -> str:
    chosen = f"pmod(xxhash64({{}}, {number}), 1000) < 3"
    return (
        "update tpch.lineitem set l_quantity = l_quantity + 1"
        f" where {chosen.format('l_orderkey')};\n"
        f"update tpch.orders set o_comment = 'again' where {chosen.format('o_orderkey')};\n"
    )


def _unchanged(bench: Bench, folder: Path, in_store: Mapping[str, str]) -> None:
    files = {f"models/silver/{name}.sql": sql for name, sql in fifty_models().items()}
    _, _, *options = dbt_project(bench.work / "unchanged", files)
    service = _of(_sessions(folder), "metastore", "PostgreSQL")
    kept = bench.work / "unchanged" / "target" / "headwaters_unchanged.json"
    embedded = {"HEADWATERS_LAKE": "s3a://lake/derby", "HEADWATERS_LOCAL": str(bench.work / "own")}
    store = _of(_sessions(folder), "S3")
    for place in (
        Place("Derby", {**in_store, **embedded, "HEADWATERS_METASTORE": "derby"}, sessions=store),
        Place("the service on PostgreSQL", in_store, sessions=[*store, *service]),
    ):
        dbt = [sys.executable, "-m", "dbt.cli.main", "--quiet", "run", *options]
        place.run(dbt)

        def planned(place: Place = place, dbt: Sequence[str] = dbt) -> Clock:
            kept.unlink(missing_ok=True)
            return place.run([*dbt, "--exclude", "orders"])

        planned()
        every = median(planned)
        bench.record("50 models, no changes", place.name, every.wall, every.cpu)


def _ingestion(bench: Bench, folder: Path, in_store: Mapping[str, str]) -> None:
    connect = clusters.find(folder)
    assert connect  # it has one of two cores
    end(connect.pid)
    landed = objects.record(folder).parent / "data" / objects.BUCKET
    workers = _of(_sessions(folder), "worker", "S3")
    for number, cores in enumerate((1, 1, 2)):
        lake = f"ingested{number}"
        _land(landed / lake / "landing" / "events")
        given = {"HEADWATERS_LAKE": f"s3a://{objects.BUCKET}/{lake}"}
        given |= {"HEADWATERS_LOCAL": str(bench.work / lake)}
        profiles = _profiles(bench.work / f"profiles{number}", cores)
        name = "one executor" if cores == 1 else "two executors"
        project = _events(bench.work / f"events{number}")
        place = Place(name, {**in_store, **given}, sessions=workers, folder=project)
        options = ["--once", "--target", "ingestion", "--profiles-dir", str(profiles)]
        took = place.run([HEADWATERS, "ingest", *options])
        if number:  # the first one fetches and compiles
            bench.record("ingestion of 400,000 records", name, took.wall, took.cpu, rows=RECORDS)


def _land(folder: Path) -> None:
    folder.mkdir(parents=True)
    each = RECORDS // FILES
    for file in range(FILES):
        lines = (
            json.dumps({"id": f"e{number}", "at": "2026-01-01T00:00:00Z", "value": number % 977})
            for number in range(file * each, (file + 1) * each)
        )
        (folder / f"{file}.json").write_text("".join(f"{line}\n" for line in lines))


def _events(folder: Path) -> Path:
    dbt_project(folder, {"models/bronze/events.yml": json.dumps(_STREAM)})
    return folder


_STREAM = {
    "sources": [
        {
            "name": "bronze",
            "tables": [
                {
                    "name": "events",
                    "config": {
                        "meta": {
                            "stream": {"from": "files", "path": "landing/events", "format": "json"}
                        }
                    },
                    "columns": [
                        {"name": "id", "data_type": "string"},
                        {"name": "at", "data_type": "timestamp"},
                        {"name": "value", "data_type": "int"},
                    ],
                }
            ],
        }
    ]
}


def _profiles(folder: Path, cores: int) -> Path:
    """Copy the project's profile, with this number of cores for ingestion."""
    folder.mkdir(parents=True)
    text = (ROOT / "profiles" / "profiles.yml").read_text()
    before = 'spark.cores.max: "1"'
    assert text.count(before) == 1
    (folder / "profiles.yml").write_text(text.replace(before, f'spark.cores.max: "{cores}"'))
    return folder
