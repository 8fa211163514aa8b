"""Compare the summary's numbers with Spark's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headwaters.devkit.samples.summary import summary
from headwaters.platform.json_lines import lines
from headwaters.platform.project import Project
from headwaters.tables.delta_log import Snapshot, snapshot


def test_a_folder_without_a_table_has_no_snapshot(tmp_path: Path) -> None:
    assert snapshot(tmp_path) is None


def test_a_line_of_a_log_ends_with_a_line_feed_alone(tmp_path: Path) -> None:
    """Write values that stand unescaped in the statistics of a commit."""
    texts = [f"caf{mark}x" for mark in "\u0085\u2028\u2029\u000b\u000c\u001c\u001e\r"]
    (tmp_path / "log").write_bytes("\n".join([*texts, "", ""]).encode())
    assert lines(tmp_path / "log") == texts


def test_rows_are_counted_through_deletion_vectors_rewrites_and_checkpoints(
    spark: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "table"
    table = f"delta.`{folder}`"
    spark.sql(
        f"create table {table} (id bigint) using delta tblproperties "
        "('delta.enableDeletionVectors' = true, 'delta.checkpointInterval' = 4)"
    )
    assert snapshot(folder) == Snapshot(0, 0, 0, 0)
    spark.sql(f"insert into {table} select id from range(100)")
    spark.sql(f"delete from {table} where id % 10 = 3")
    found = snapshot(folder)
    assert found is not None
    assert (found.version, found.rows) == (2, 90)
    spark.sql(f"delete from {table} where id % 10 = 4")  # a second vector on the same file
    spark.sql(f"insert into {table} select id from range(5)")
    spark.sql(f"update {table} set id = id + 1000 where id < 3")
    assert list((folder / "_delta_log").glob("*.checkpoint*.parquet"))
    spark.sql(f"insert overwrite {table} select id from {table} where id < 1000")
    rows = spark.sql(f"select count(*) from {table}").collect()[0][0]
    found = snapshot(folder)
    assert found is not None
    assert found.rows == rows


def test_a_second_summary_says_nothing_new(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADWATERS_LAKE", str(tmp_path))
    project = Project(Path(__file__).resolve().parents[2])
    folder = tmp_path / "warehouse" / "gold.db" / "spring"
    spark.range(1200).write.format("delta").save(str(folder))

    def said() -> list[str]:
        summary(project, Console(width=100))
        return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]

    first, second = said(), said()
    assert "gold.spring 1,200 +1,200" in first
    assert "gold.spring 1,200" in second
    assert "Nothing new: every table has the rows that it had before." not in first
    assert "Nothing new: every table has the rows that it had before." in second


def test_before_the_first_run_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADWATERS_LAKE", str(tmp_path))
    summary(Project(Path(__file__).resolve().parents[2]), Console(width=100))
    assert capsys.readouterr().out == "no tables yet: `make run` makes them\n"
