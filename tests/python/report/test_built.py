"""Test the report of a lake that dbt built."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwaters.platform.project import Project
from headwaters.report.declared import declared
from headwaters.report.gather import Gatherer
from headwaters.report.page import render

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_a_report_says_of_the_sample_lake_what_spark_says(
    lake_tables: Callable[[str], list[tuple[Any, ...]]],
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built = ROOT / "lake" / "dbt-test"
    monkeypatch.setenv("HEADWATERS_LAKE", str(built))
    monkeypatch.setenv("DBT_TARGET_PATH", str(built / "target"))
    monkeypatch.setenv("DBT_LOG_PATH", str(built / "logs"))
    monkeypatch.chdir(ROOT)
    project = Project(ROOT)
    lake = Gatherer(project, declared(project)).lake()
    assert lake.problems == ()
    names = {table.name for table in lake.tables}
    folders = (built / "warehouse").glob("*.db/*/_delta_log")
    assert names == {f"{log.parents[1].stem}.{log.parent.name}" for log in folders}
    for table in lake.tables:
        ((rows,),) = lake_tables(f"select count(*) from {table.name}")
        assert (table.name, table.rows) == (table.name, rows)
        detail = spark.sql(f"describe detail {table.name}").first()
        assert (table.files, table.bytes) == (detail["numFiles"], detail["sizeInBytes"])
    for stream in lake.streams:
        sql = f"select reason, count(*) from {stream.table}_quarantine group by reason"
        assert stream.quarantine == dict(lake_tables(sql))
        assert stream.backlog and stream.backlog.number == 0
        assert [batch.rows for batch in stream.batches if batch.rows]
    models = {model.table: model for model in lake.models}
    assert all(model.is_built and model.runs for model in models.values())
    # the last two commands applied everything
    assert [model.table for model in models.values() if model.behind] == []
    summary = models["gold.state_weekly_summary"]
    assert summary.outcome and summary.outcome.status == "success"
    assert "gold.state_weekly_summary" in render(lake)
