"""Run tests of small change sets again on an embedded Spark, in another process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from processes import environment

HERE = Path(__file__).parent
# the exchange of rows, the statements of each way to write, and a run that ends at any statement
MODULES = ["test_client_rows", "test_compiled", "test_stopped"]


@pytest.mark.slow  # a Spark more, and the tests of three modules
def test_an_embedded_spark_keeps_small_change_sets_in_memory_as_well(tmp_path: Path) -> None:
    modules = [str(HERE / f"{name}.py") for name in MODULES]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", f"--basetemp={tmp_path / 'tests'}", *modules],
        cwd=HERE.parents[2],
        env={**environment(), "HEADWATERS_TEST_TARGET": "local"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-2000:]
