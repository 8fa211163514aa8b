"""Kill `make run` at any point: the next run completes, with the right tables.

The script kills one lake's runs at one point after another, since each next run meets the remains
of the last one. Six runs take too long for `make pytest`, so run it by hand:
`.venv/bin/python -m pytest tests/python/kill_make_run.py`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from processes import environment

ROOT = Path(__file__).resolve().parents[2]
# A sign that the run has reached this point, and the signal that then ends it.
POINTS = (
    ("landing", "landing/*/*", signal.SIGKILL),
    ("a batch committed", "checkpoints/*/commits/*", signal.SIGKILL),
    ("silver", "warehouse/silver.db/*/_delta_log/*.json", signal.SIGKILL),
    ("gold, by Ctrl-C", "warehouse/gold.db/*/_delta_log/*.json", signal.SIGINT),
)
# Times and places of arrival differ between runs, and so do the starts of validity.
LINEAGE = ("_source_file", "_ingested_at", "_batch_id", "ingested_at", "last_updated")
PERIODS = ("valid_from", "valid_to")

pytestmark = pytest.mark.skipif(
    Path(sys.prefix) != ROOT / ".venv", reason="`make run` needs .venv: run this by `make pytest`"
)


def start(lake: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["make", "--no-print-directory", "run"],
        cwd=ROOT,
        env={
            **environment(lake),
            "HEADWATERS_DRIVER_MEMORY": "1500m",
            # dbt build without its tests, which take most of its time and write nothing
            "DBT_EXCLUDE_RESOURCE_TYPES": "test unit_test",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def complete(lake: Path) -> None:
    """Complete a run without a kill; it must succeed and not outlive the test."""
    running = start(lake)
    try:
        said = running.communicate(timeout=900)[0]
    finally:
        if running.returncode is None:
            os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode == 0, said


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def kill_at(lake: Path, sign: str, number: signal.Signals) -> str:
    """Start a run and signal all of it at the sign's appearance; return its output until then."""
    before = set(lake.glob(sign))
    running = start(lake)
    try:
        while not set(lake.glob(sign)) - before:
            assert running.poll() is None, f"ended without {sign}:\n{running.communicate()[0]}"
            time.sleep(0.02)
    finally:
        os.killpg(running.pid, number)
    said = running.communicate(timeout=90)[0]
    assert running.returncode != 0
    until = time.monotonic() + 60
    while alive(running.pid):
        assert time.monotonic() < until, "a process outlives its run"
        time.sleep(0.1)
    return said


def contents(spark: Any, lake: Path) -> dict[str, tuple[int, int]]:
    """Return `{table: (rows, a sum of the hashes of all rows)}`, without lineage columns."""
    found = {}
    for log in sorted((lake / "warehouse").glob("*.db/*/_delta_log")):
        name = f"{log.parent.parent.stem}.{log.parent.name}"
        table = spark.read.format("delta").load(str(log.parent))
        columns = ", ".join(
            f"`{column}`" for column in table.columns if column not in LINEAGE + PERIODS
        )
        row = table.selectExpr(
            "count(*) as n", f"coalesce(sum(cast(xxhash64({columns}) as decimal(38))), 0) as h"
        ).collect()[0]
        found[name] = (row["n"], int(row["h"]))
    return found


def test_a_killed_run_is_completed_by_the_next(spark: Any, tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    for point, sign, number in POINTS:
        said = kill_at(killed, sign, number)
        assert "Traceback" not in said, f"{point}: {said}"
    complete(killed)
    complete(whole)
    wanted = contents(spark, whole)
    assert wanted["bronze.county_cases"][0] == 1_111_930
    assert contents(spark, killed) == wanted
