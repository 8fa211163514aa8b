"""The shared fixtures of all tests: one Spark Connect engine on one lake for the session.

- `lake`     the session's temporary lake folder (HEADWATERS_LAKE points to it)
- `engine`   the running engine (`engine.remote`), one JVM for all tests
- `spark`    a Spark Connect session on it
- `set_spark`  sets one of its settings, until the test ends
- `ingester`  an embedded Spark in a separate process, for ingestion, with a lake for each test
- `broker`   a real Kafka broker's address
- `topic`    a new topic on it for each test
- `broker_lake`  the lake of a broker that the test starts, kills, stops
- `postgres` a new database on a real PostgreSQL server for each test; its address
- `logical` a real PostgreSQL server for one test, whose log has the changes of rows
- `project`  this checkout
- `dbt`      runs dbt in this process against the engine and asserts that it succeeds
- `new_project`  makes a small dbt project from this project's settings and a test's models
- `lake_tables` the tables of the sample data, built once for all tests
- `schema`   a new schema name for each test; teardown drops every `<schema>*` database

A test that needs the embedded Spark starts it in a subprocess with a separate lake. A process that
has spoken Spark Connect cannot embed a Spark.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from dbt_common.tests import enable_test_caching
from hypothesis import settings
from ingestion import Ingester, start_worker
from processes import COMPILED, INTERPRETED, QUICK_JAVA, environment
from projects import make_project, run_dbt

from headwaters.devkit import broker as brokers
from headwaters.devkit import engine as engines
from headwaters.devkit import postgres as databases
from headwaters.devkit.samples.send import make_topic
from headwaters.platform.engine import Engine
from headwaters.platform.postgres import Postgres
from headwaters.platform.project import Project
from headwaters.platform.servers import alive
from headwaters.runs import decisions

ROOT = Path(__file__).resolve().parents[2]

Dbt = Callable[..., Any]


def pytest_configure() -> None:
    """End on SIGTERM as on Ctrl-C, so that the engine does not outlive its tests.

    Drawn examples have no deadline: next to Spark, 200 ms pass while nothing runs. dbt caches
    parsed texts, as in its own tests: it parses a thousand macros once, not for each project.
    Tables of tests are small, and yet runs apply changes to them, as to large ones.
    """
    decisions.MOST_ROWS_WHOLE = 0
    os.environ["HEADWATERS_PROGRESS"] = "0"
    enable_test_caching()
    settings.register_profile("beside Spark", deadline=None)
    settings.load_profile("beside Spark")

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests of the sample data last: `make test` builds it while the others run."""
    items.sort(key=lambda item: "lake_tables" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the session's lake folder; HEADWATERS_LAKE points to it."""
    folder = tmp_path_factory.mktemp("lake")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADWATERS_LAKE", str(folder))
        yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def project(lake: Path) -> Project:
    """Return this checkout, with the session's lake."""
    return Project(ROOT)


@pytest.fixture(scope="session")
def engine(project: Project, lake: Path) -> Iterator[Engine]:
    """Yield one Spark Connect server for the whole session."""
    with pytest.MonkeyPatch.context() as patch:
        if "HEADWATERS_DRIVER_MEMORY" not in os.environ:
            patch.setenv("HEADWATERS_DRIVER_MEMORY", "4g")
        patch.setenv("HEADWATERS_JAVA_OPTIONS", QUICK_JAVA)
        running = engines.start(project, port=0, settings=INTERPRETED)
        patch.setenv("HEADWATERS_ENGINE", running.remote)
        yield running
        # A client that outlives its server asks it for ten minutes to release the session.
        from pyspark.sql import SparkSession

        SparkSession.builder.remote(running.remote).getOrCreate().stop()
        engines.stop(project)


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, lake: Path) -> Any:
    """Yield a Spark Connect session on the engine, or the embedded Spark of test_embedded.py."""
    if os.environ.get("HEADWATERS_TEST_TARGET") == "local":
        from dbt.adapters.headwaters.session import shared_session

        credentials = Project(ROOT).credentials
        return shared_session(credentials.server_side_parameters, credentials.folder)
    engine: Engine = request.getfixturevalue("engine")
    from pyspark.sql import SparkSession

    return SparkSession.builder.remote(engine.remote).getOrCreate()


@pytest.fixture
def set_spark(spark: Any) -> Iterator[Callable[[str, str], None]]:
    """Yield a function that sets a session setting until the test ends."""
    before: dict[str, str] = {}

    def change(name: str, value: str) -> None:
        before.setdefault(name, spark.conf.get(name))
        spark.conf.set(name, value)

    yield change
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.fixture(scope="session")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """Yield a process with one embedded Spark, for ingestion: see ingest_worker.py."""
    with start_worker(tmp_path_factory.mktemp("worker")) as process:
        yield process


@pytest.fixture
def ingester(worker: subprocess.Popen[str], tmp_path: Path) -> Ingester:
    """Yield the worker on a new lake, whose path has a blank and an umlaut, as home folders may."""
    return Ingester(worker, tmp_path / "the läke")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the `bootstrap.servers` of a real Kafka broker."""
    with pytest.MonkeyPatch.context() as patch:
        lake = tmp_path_factory.mktemp("broker")
        patch.setenv("HEADWATERS_LAKE", str(lake))
        running = brokers.start(Project(ROOT))
    yield running.servers
    brokers.stop(lake)


@pytest.fixture
def topic(broker: str) -> str:
    """Yield a new topic with three partitions."""
    name = f"t_{uuid.uuid4().hex[:8]}"
    make_topic(broker, name, 3)
    return name


@pytest.fixture
def broker_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the lake of a broker that the test starts; teardown stops the broker."""
    lake = tmp_path / "broker"
    monkeypatch.setenv("HEADWATERS_LAKE", str(lake))
    yield lake
    brokers.stop(lake)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """Yield a real PostgreSQL server."""
    with pytest.MonkeyPatch.context() as patch:
        lake = tmp_path_factory.mktemp("postgres")
        patch.setenv("HEADWATERS_LAKE", str(lake))
        running = databases.start(Project(ROOT))
    yield running
    databases.stop(lake)


@pytest.fixture
def postgres(postgres_server: Postgres) -> str:
    """Yield the address of a new database."""
    name = f"t_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
    return postgres_server.url.removesuffix("/postgres") + f"/{name}"


@pytest.fixture
def logical(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Postgres]:
    """Yield a PostgreSQL whose log has the changes of rows."""
    lake = tmp_path / "postgres"
    monkeypatch.setenv("HEADWATERS_LAKE", str(lake))
    project = Project(ROOT)
    running = databases.start(project)
    try:
        with psycopg.connect(running.url, autocommit=True) as connection:
            connection.execute("alter system set wal_level = logical")
        databases.stop(lake)
        yield databases.start(project)
    finally:
        databases.stop(lake)


@pytest.fixture
def schema(spark: Any) -> Iterator[str]:
    """Yield a new schema name: pass it as `dbt(..., schema=schema)`."""
    name = f"t_{uuid.uuid4().hex[:8]}"
    yield name
    for row in spark.sql(f"show databases like '{name}*'").collect():
        spark.sql(f"drop database {row[0]} cascade")


@pytest.fixture
def dbt(engine: Engine, tmp_path: Path) -> Dbt:
    """Yield `dbt("run", "--select", "x", project_dir=…, schema=…, expect=True)`, in this process.

    It returns dbt's result object, and fails the test with dbt's messages if the outcome is
    unexpected. `expect=None` accepts either. dbt writes its files to the test's folder.
    """
    return partial(run_dbt, tmp_path)


@pytest.fixture
def new_project(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    """Return `new_project({"models/a.sql": "select 1 as id", …})`, which makes a dbt project.

    It returns the project's folder. The project has this project's macros, profile and layer
    defaults, and the given files.
    """
    return partial(make_project, tmp_path)


# A lake that is older than one of these files was built by another project.
BUILT_FROM = (
    "conf",
    "data",
    "dbt_project.yml",
    "macros",
    "models",
    "profiles",
    "project_macros",
    "scripts",
    "seeds",
)


@pytest.fixture(scope="session")
def lake_tables(spark: Any) -> Callable[[str], list[tuple[Any, ...]]]:
    """Return `lake_tables(sql)`, which reads the sample data's tables, built in two steps.

    `make dbt-test` builds them. It runs first if they are missing or out of date.
    """
    built = ROOT / "lake" / "dbt-test"
    building = built.with_suffix(".pid")
    while building.exists() and alive(int(building.read_text() or 0)):
        time.sleep(0.5)
    paths = [path for name in BUILT_FROM for path in [ROOT / name, *(ROOT / name).rglob("*")]]
    # dbt notes a user beside the profile, which is no part of the project
    files = [path for path in paths if path.is_file() and path.name[0] != "."]
    files = [path for path in files if path.suffix != ".pyc"]
    newest = max(path.stat().st_mtime for path in files)
    complete = built / "complete"
    if not complete.exists() or complete.stat().st_mtime < newest:
        _build_sample_lake()
    for log in (built / "warehouse").glob("*.db/*/_delta_log"):
        table, schema = log.parent, log.parent.parent.stem
        spark.sql(f"create schema if not exists {schema}")
        spark.sql(f"drop table if exists {schema}.{table.name}")  # another test's variable
        spark.sql(f"create table {schema}.{table.name} using delta location '{table}'")

    def rows(sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in spark.sql(sql).collect()]

    for name, value in COMPILED.items():  # a million rows, and no other test comes after these
        spark.conf.set(name, value)
    return rows


def _build_sample_lake() -> None:
    built = subprocess.run(
        [ROOT / "scripts" / "dbt-test"],
        env=environment(),
        check=False,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
