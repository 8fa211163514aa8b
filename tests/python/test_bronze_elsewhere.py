"""Test that models do not read an empty table of a stream whose rows are elsewhere."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from projects import make_project, run_dbt

FILES = {
    "models/streams.yml": """
sources:
  - name: away
    schema: away
    tables:
      - name: orders
        config: {meta: {stream: {from: files, path: landing/orders, format: json}}}
        columns: [{name: id, data_type: string}]
""",
    "models/orders.sql": "select id from {{ source('away', 'orders') }}\n",
}


def test_a_run_on_a_spark_without_the_rows_of_the_lake_is_refused_each_time(
    engine: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path, FILES)
    lake = tmp_path / "lake"
    rows = lake / "warehouse" / "away.db" / "orders"
    write_deltalake(rows, pa.table({"id": ["a", "b"]}))
    monkeypatch.setenv("HEADWATERS_LAKE", str(lake))
    for _ in range(2):
        failed = run_dbt(tmp_path, "run", project_dir=project, expect=False)
        assert "HW_BRONZE_ELSEWHERE" in f"{failed.exception} {failed.messages}"
    monkeypatch.undo()
    run_dbt(tmp_path, "run", project_dir=project)  # a lake without rows: the table is registered
    monkeypatch.setenv("HEADWATERS_LAKE", str(lake))
    failed = run_dbt(tmp_path, "run", project_dir=project, expect=False)
    assert "HW_BRONZE_ELSEWHERE" in f"{failed.exception} {failed.messages}"
