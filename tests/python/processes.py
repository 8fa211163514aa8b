"""Run separate processes next to the test session's engine."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal
from unittest import mock

# Compiling a query to Java takes longer than answering it on tables of a few rows. While it runs,
# Spark makes one partition of these; starting with one saves planning the query again. Each task
# reads the plan of its stage, so small files share one. `make run`, the soak of ingestion and
# benchmarks have the profile's settings, as users do.
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.files.openCostInBytes": "4096",
    "spark.sql.files.minPartitionNum": "1",
}
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}

# These processes live for seconds, so the best machine code would not pay. Java would reserve 48 MB
# for code that is compiled once, which a session can fill; it keeps the profile's reserve. Spark's
# settings stand here too, since a session's settings do not reach the sessions that Spark starts
# itself.
QUICK_JAVA = " ".join(
    ["-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=512m"]
    + [f"-D{name}={value}" for name, value in INTERPRETED.items()]
)

ROOT = Path(__file__).resolve().parents[2]


def environment(lake: Path | None = None) -> dict[str, str]:
    """Return the variables of a process with a new lake, or the project's.

    They leave out the test session's own variables, and the SPARK_… variables that Spark Connect,
    which the session speaks, passes to every child.
    """
    ours = ("SPARK_", "HEADWATERS_", "DBT_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    kept["HEADWATERS_PROGRESS"] = "0"  # a slow machine prints more lines
    if lake is None:
        return kept
    return {
        **kept,
        "HEADWATERS_JAVA_OPTIONS": QUICK_JAVA,
        "PYTHONPATH": str(ROOT / "scripts"),
        "HEADWATERS_LAKE": str(lake),
        "DBT_TARGET_PATH": str(lake / "target"),
        "DBT_LOG_PATH": str(lake / "logs"),
    }


_ready = multiprocessing.get_context("forkserver")
_ready.set_forkserver_preload(["prepared"])


def printed(arguments: Sequence[str], cwd: Path, variables: Mapping[str, str]) -> str:
    """Run a command in a separate process, and return what it prints. Fail the test if it fails."""
    done = subprocess.run(
        arguments, cwd=cwd, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_command(
    program: Literal["dbt", "headwaters"],
    arguments: Sequence[str],
    variables: Mapping[str, str],
    cwd: Path = ROOT,
) -> subprocess.CompletedProcess[str]:
    """Run a command that starts no Spark in a separate process, and return its result.

    A process that waits to be forked has done the imports and the parsing of macros, which take
    seconds: see prepared.py.
    """
    with tempfile.TemporaryDirectory() as folder:
        said = [Path(folder) / "stdout", Path(folder) / "stderr"]
        process = _ready.Process(
            target=_run, args=(program, list(arguments), dict(variables), cwd, *said)
        )
        # Python 3.11 finds that process's imports there
        with mock.patch.dict(os.environ, PYTHONPATH=str(Path(__file__).parent)):
            process.start()
        process.join(120)
        if process.is_alive():
            process.kill()
            raise TimeoutError(f"{program} {' '.join(arguments)}")
        out, errors = (file.read_text() for file in said)
    return subprocess.CompletedProcess(arguments, process.exitcode or 0, out, errors)


def _run(
    program: str, arguments: list[str], variables: dict[str, str], cwd: Path, *said: Path
) -> None:
    for number, file in enumerate(said, 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(cwd)
    sys.argv = [program, *arguments]
    if program == "dbt":
        from dbt.cli.main import cli

        cli()
    else:
        from headwaters.cli import main

        main()


def family(pid: int) -> set[int]:
    """Return a process and its descendants."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
        parents.setdefault(parent, []).append(int(stat.parent.name))
    found, fresh = {pid}, [pid]
    while fresh:
        fresh = [child for parent in fresh for child in parents.get(parent, [])]
        found |= set(fresh)
    return found
