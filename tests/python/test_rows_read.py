"""Test that a run of the brokerage warehouse reads no more rows than its plain tables do."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from processes import ROOT, environment, printed

# Plays the benchmark's history and a batch, and prints the rows that each model read, in two forms.
PLAY = """
import json, sys
from pathlib import Path
from benchmarks import bench_brokerage
from benchmarks.runner import Bench
folder = Path(sys.argv[1])
with Bench("brokerage", folder / "results.jsonl", folder / "work") as bench:
    rounds, read = bench_brokerage.play(bench)
    took = rounds["batch 1"]
    rows = {
        name: [read.between(took[kind].models[name].begun, took[kind].models[name].ended)
               for kind in ("headwaters", "table")]
        for name in took["table"].models
    }
print("read: " + json.dumps(rows))
"""


@pytest.mark.slow
def test_no_model_reads_more_rows_than_its_plain_table(tmp_path: Path) -> None:
    scale = {"BROKERAGE_SCALE": "0.1", "BROKERAGE_BATCHES": "1"}
    variables = {**environment(), **scale, "BROKERAGE_VARIANTS": "table,headwaters"}
    variables["PYTHONPATH"] = f"{ROOT / 'scripts'}:{ROOT}"
    lines = printed([sys.executable, "-c", PLAY, str(tmp_path)], tmp_path, variables).splitlines()
    [found] = [line for line in lines if line.startswith("read: ")]
    rows = json.loads(found.removeprefix("read: "))
    assert len(rows) == 49
    # runs of one query were seen to read 1,455 rows and 1,454
    assert {name: pair for name, pair in rows.items() if pair[0] > 1.01 * pair[1]} == {}
