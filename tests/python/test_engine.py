"""Test the engine and dbt's connection to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwaters.platform.engine import Engine, find

# A model without inputs cannot be `auto`, the default of this project.
APPEND = "{{ config(incremental_strategy='append') }} "


def test_engine_is_found_by_its_lake(engine: Engine, lake: Path) -> None:
    assert find(lake) == engine


@pytest.mark.parametrize("target", ["engine", "cluster"])
def test_dbt_builds_a_delta_table_on_a_spark_that_runs(
    target: str,
    dbt: Callable[..., Any],
    new_project: Callable[..., Path],
    engine: Engine,
    spark: Any,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADWATERS_CLUSTER", engine.remote)
    folder = new_project({"models/silver/a.sql": APPEND + "select 1 as id, 'x' as name"})
    dbt("run", "--target", target, project_dir=folder, schema=schema)
    tables = [
        f"{database[0]}.a"
        for database in spark.sql(f"show databases like '{schema}*'").collect()
        if spark.catalog.tableExists(f"{database[0]}.a")
    ]
    assert len(tables) == 1
    assert [tuple(row) for row in spark.table(tables[0]).collect()] == [(1, "x")]
    assert spark.sql(f"describe detail {tables[0]}").collect()[0]["format"] == "delta"


def test_a_failed_model_says_one_line_and_names_the_log(
    dbt: Callable[..., Any],
    new_project: Callable[..., Path],
    schema: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder = new_project({"models/silver/a.sql": APPEND + "select missing from (select 1 as id)"})
    result = dbt("run", project_dir=folder, schema=schema, expect=False)
    [message] = [done.message for done in result.result.results if done.node.name == "a"]
    assert "missing" in message
    assert message.endswith("logs/spark.log)")
    assert "Project" not in message and "org.apache" not in message
    assert "UNRESOLVED" not in capfd.readouterr().err  # PySpark has a separate logger


def test_a_query_that_fails_while_it_is_read_says_one_line(
    dbt: Callable[..., Any], new_project: Callable[..., Path], schema: str
) -> None:
    query = "select raise_error(concat('row ', id)) as x from range(1)"
    result = dbt(
        "show", "--inline", query, project_dir=new_project({}), schema=schema, expect=False
    )
    said = [*result.messages, str(result.exception or "")]
    assert any("row 0" in line for line in said), said
    assert not any("org.apache" in line or "\tat " in line for line in said), said
