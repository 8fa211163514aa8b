"""Count the work of planning a run, and of the report, on the log of a large table.

The log of 100,000 commits and a million files is simulated: see simulated_log.py. CPU may take ten
times the seconds of docs/scale.md: a busy machine needs a few times as many, and an algorithm of
another order more.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from simulated_log import counted, write

from headwaters.tables import delta_log

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("versions", "files"),
    [
        (1_000, 10_000),
        pytest.param(
            100_000, 1_000_000, marks=pytest.mark.slow, id="writes 100,000 commits: a minute"
        ),
    ],
)
def test_a_plan_reads_as_much_of_the_log_of_a_large_table_as_of_a_small_one(
    tmp_path: Path, versions: int, files: int
) -> None:
    """A run reads its inputs' newest commits, and metadata from the checkpoint's few rows."""
    table = tmp_path / "t"
    write(table, versions, files, kept=versions)
    with counted(table) as work:
        commits = delta_log.commits_of_log(table, 20)
    assert [commit.version for commit in commits] == list(range(versions - 1, versions - 21, -1))
    assert work.opened == 27  # _last_checkpoint, 20 commits, and 6 for the metadata
    assert work.read < 200_000
    assert work.cpu < 10 * (0.02 + 1.5e-6 * versions)
    with counted(table) as work:
        assert delta_log.properties_of_log(table)["delta.enableChangeDataFeed"] == "true"
    assert (work.opened, work.read < 200_000) == (6, True)


@pytest.mark.parametrize(
    ("versions", "files"),
    [
        (1_000, 10_000),
        pytest.param(100_000, 1_000_000, marks=pytest.mark.slow, id="a million files: a minute"),
    ],
)
def test_the_report_reads_the_checkpoint_and_200_commits(
    tmp_path: Path, versions: int, files: int
) -> None:
    table = tmp_path / "t"
    write(table, versions, files, kept=300)
    with counted(table) as work:
        state = delta_log.state(table)
    assert state and (state.version, len(state.sizes)) == (versions - 1, files)
    assert state.rows == files * 10_000
    checkpoint = next((table / "_delta_log").glob("*.parquet")).stat().st_size
    assert work.opened == 205  # 200 commits to show, and 5 behind the checkpoint
    assert checkpoint < work.read < checkpoint + 300_000
    assert work.cpu < 10 * (0.07 + 10e-6 * files)


def test_a_count_of_rows_does_not_read_a_large_log(tmp_path: Path) -> None:
    """A run asks for the rows of small tables only."""
    write(tmp_path / "small", 100, 1_000, kept=100)
    write(tmp_path / "large", 100, 300_000, kept=100)
    assert delta_log.few_rows(tmp_path / "small") == 10_000_000
    with counted(tmp_path / "large") as work:
        assert delta_log.few_rows(tmp_path / "large") is None
    assert (work.opened, work.read < 1000) == (0, True)
