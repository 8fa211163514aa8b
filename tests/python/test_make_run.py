"""Test the output of `make run` after the set-up, with programs that stand in for its steps."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = "--no-use-colors build --exclude test_name:equals_full_refresh"
DBT = 'echo "$@" > called; echo "1 of 3 OK created table"; sleep {pause}; {end}'
DONE = 'echo "Done. PASS=3 WARN=0 ERROR=0 SKIP=0 NO-OP=0 TOTAL=3"'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with the script and programs that only print."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "run", tmp_path / "scripts")
    program(tmp_path, "headwaters", 'echo "headwaters $*"; [ "$1 $2" != "engine status" ]')
    program(tmp_path, "dbt", DBT.format(pause=0, end=DONE))
    return tmp_path


def program(checkout: Path, name: str, text: str) -> None:
    file = checkout / ".venv" / "bin" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/usr/bin/env bash\n{text}\n")
    file.chmod(0o755)


def run(checkout: Path) -> tuple[int, list[str]]:
    """Return exit code and lines, without those of progress; `N` replaces the seconds."""
    done = subprocess.run(
        [checkout / "scripts" / "run"],
        env={name: value for name, value in os.environ.items() if name != "HEADWATERS_LAKE"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines = re.sub(r" +\d+ s\b *", " N s ", done.stdout).rstrip().splitlines()
    steps = [line.partition(" N s")[0] for line in lines]
    return done.returncode, [
        line
        for line, step, following in zip(lines, steps, [*steps[1:], ""], strict=True)
        if step != following
    ]


def test_each_step_is_one_line_with_its_seconds(checkout: Path) -> None:
    code, lines = run(checkout)
    assert (code, [line.rstrip() for line in lines]) == (
        0,
        [
            "land the sample data N s",
            "ingest it into bronze N s",
            "build and test every table N s PASS=3 WARN=0 ERROR=0 SKIP=0 NO-OP=0 TOTAL=3",
            "headwaters summary",
        ],
    )
    logs = checkout / "lake" / "logs" / "run"
    assert (logs / "ingest.log").read_text() == "headwaters ingest --once\n"
    assert (logs / "build.log").read_text().startswith("1 of 3 OK created table\nDone.")
    assert (checkout / "called").read_text() == f"{BUILD}\n"


def test_the_build_uses_a_running_engine(checkout: Path) -> None:
    program(checkout, "headwaters", "true")
    assert run(checkout)[0] == 0
    assert (checkout / "called").read_text() == f"{BUILD} --target engine\n"


def test_a_failed_step_shows_the_end_of_its_output_and_names_the_file(checkout: Path) -> None:
    program(checkout, "dbt", DBT.format(pause=0, end="seq 100; echo '[HW_GAP] silver.a'; exit 1"))
    code, lines = run(checkout)
    assert code == 1
    assert lines[2].rstrip() == "build and test every table N s failed"
    assert lines[3:-1] == [*map(str, range(77, 101)), "[HW_GAP] silver.a"]
    assert lines[-1] == (
        "failed: build and test every table; all of its output is in lake/logs/run/build.log"
    )
