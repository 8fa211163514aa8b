"""The fixtures of dbt's own tests: one Spark for all of them, and their statements as Spark's.

Each class of `dbt-tests-adapter` is a class here, in a file for each of its folders. A class with
incremental models runs a second time with `incremental_strategy: auto` as the project's default
(`auto` in spark.py). `--record` runs all tests and notes the results; `page.py` writes them to
docs/dbt-tests.md. Otherwise only those run that have passed before.

Set HEADWATERS_ENGINE to use a running engine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from dbt.tests.fixtures import project as dbts
from dbt.tests.util import write_file

from headwaters.devkit import engine as engines
from headwaters.platform.project import Project

from .record import Record, name_of, read
from .spark import files_for_spark, statements_for_spark, text_for_spark

pytest_plugins = ["dbt.tests.fixtures.project"]

ROOT = Path(__file__).resolve().parents[2]
RECORD = Path(__file__).parent / "record.json"

# Queries of a few rows: compiling them to Java takes longer than answering them.
SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--record`."""
    parser.addoption("--record", action="store_true", help="note the results in record.json")


def pytest_configure(config: pytest.Config) -> None:
    """Note results on request."""
    if config.getoption("--record"):
        config.pluginmanager.register(Record(RECORD))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the tests that have passed, unless results are noted; mark all but `quick` as slow."""
    ours = [item for item in items if RECORD.parent in item.path.parents]
    for item in ours:
        if not item.get_closest_marker("quick"):
            item.add_marker("slow")
    if not config.getoption("--record"):
        known = read(RECORD)
        for item in ours:
            if known.get(name_of(item), {}).get("result") != "passed":
                items.remove(item)


@pytest.fixture(scope="session")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of one engine for all tests."""
    given = os.environ.get("HEADWATERS_ENGINE")
    if given:
        yield given
        return
    project = Project(ROOT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADWATERS_LAKE", str(tmp_path_factory.mktemp("lake")))
        patch.setenv("HEADWATERS_JAVA_OPTIONS", QUICK_JAVA)
        yield engines.start(project, port=0, settings=SETTINGS).remote
        from pyspark.sql import SparkSession

        if session := SparkSession.getActiveSession():
            session.stop()
        engines.stop(project)


@pytest.fixture(scope="class")
def threads() -> int:
    """Return the number of threads of a run."""
    return 4


@pytest.fixture(scope="class")
def dbt_profile_target(remote: str, threads: int) -> dict[str, Any]:
    """Return the target of the profile: the whole of it that a user of an engine writes.

    Tables that tests create themselves are Delta tables, which they update.
    """
    settings = {"spark.remote": remote, "spark.sql.sources.default": "delta"}
    return {"type": "headwaters", "threads": threads, "server_side_parameters": settings}


@pytest.fixture(scope="class")
def strategy() -> str:
    """Return the strategy of incremental models that name none."""
    return "merge"


@pytest.fixture(scope="class")
def dbt_project_yml(project_root: Any, project_config_update: Any, strategy: str) -> dict[str, Any]:
    """Write dbt_project.yml with the default strategy, unless the test names another default."""
    written: dict[str, Any] = {
        "name": "test",
        "profile": "test",
        "flags": {"send_anonymous_usage_stats": False},
    }
    update = project_config_update
    written |= (yaml.safe_load(update) if isinstance(update, str) else update) or {}
    written["models"] = {"+incremental_strategy": strategy} | dict(written.get("models") or {})
    text = text_for_spark("dbt_project.yml", yaml.safe_dump(written, width=1000))
    write_file(text, project_root, "dbt_project.yml")
    return written


@pytest.fixture(scope="class")
def logs_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield a new folder for dbt's log."""
    folder = str(tmp_path_factory.mktemp("logs"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DBT_LOG_PATH", folder)
        yield folder


@pytest.fixture(scope="class")
def test_data_dir(request: pytest.FixtureRequest) -> Path:
    """Return the folder with a test's data: that of the class of dbt's package."""
    for base in request.cls.__mro__:
        if base.__module__.startswith("dbt.tests.adapter."):
            file = __import__(base.__module__, fromlist=["x"]).__file__
            assert file
            return Path(file).parent / "data"
    raise AssertionError(request.cls)


@pytest.fixture(scope="class")
def project_files(
    project_root: Any,
    models: Any,
    macros: Any,
    snapshots: Any,
    properties: Any,
    seeds: Any,
    tests: Any,
    analyses: Any,
    functions: Any,
    selectors_yml: Any,
    dependencies_yml: Any,
    packages_yml: Any,
    dbt_project_yml: Any,
    strategy: str,
) -> None:
    """Write the files of the project, translated for Spark."""
    folders = {
        "models": {**models, **properties},
        "macros": macros,
        "snapshots": snapshots,
        "seeds": seeds,
        "tests": tests,
        "analyses": analyses,
        "functions": functions,
    }
    for name, files in folders.items():
        dbts.write_project_files(project_root, name, files_for_spark(files, strategy))


@pytest.fixture(scope="class")
def project(
    project_setup: dbts.TestProjInfo, project_files: Any, test_data_dir: Path
) -> dbts.TestProjInfo:
    """Return the project; the statements that a test runs are translated for Spark."""
    project_setup.test_dir = str(test_data_dir.parent)
    run = project_setup.run_sql

    def translated(sql: str, fetch: str | None = None) -> Any:
        result = None
        for statement in statements_for_spark(sql, project_setup.test_schema):
            result = run(statement, fetch)
        return result

    def kinds() -> dict[str, str]:
        schema = project_setup.test_schema
        rows = run(f"show table extended in {schema} like '*'", "all")
        return {row[1]: "view" if "Type: VIEW" in row[3] else "table" for row in rows}

    setattr(project_setup, "run_sql", translated)  # noqa: B010 - mypy knows methods there
    setattr(project_setup, "get_tables_in_schema", kinds)  # noqa: B010
    return project_setup
