"""Processes of their own, beside the test session's engine."""

from __future__ import annotations

import os
from pathlib import Path

# Compiling a query to Java takes longer than answering it on tables of a few rows. `make dbt-test`,
# the soak of ingestion and benchmarks compile, as users do.
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}

# Processes that live for seconds: the best machine code would not pay. Settings of Spark stand here
# as well, since those of a session do not reach what Spark runs in sessions of its own.
QUICK_JAVA = " ".join(
    ["-XX:TieredStopAtLevel=1", *(f"-D{name}={value}" for name, value in INTERPRETED.items())]
)

ROOT = Path(__file__).resolve().parents[2]


def environment(lake: Path | None = None) -> dict[str, str]:
    """The variables of a process with a lake of its own, or the project's.

    The test session's own are left out, and with them what Spark Connect, which the session speaks,
    tells every child in SPARK_….
    """
    ours = ("SPARK_", "HEADWATERS_", "DBT_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
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


def family(pid: int) -> set[int]:
    """A process and all below it."""
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
