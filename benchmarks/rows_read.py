"""Count the rows that Spark reads from tables, by its event log.

A scan of a data file has the metric `number of output rows` in the plan of its statement, and each
task reports its share. Scans of Delta's own log are not counted. A row counts when its task ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SETTINGS = {"spark.eventLog.enabled": "true", "spark.eventLog.compress": "false"}
_ROWS = "number of output rows"


@dataclass(frozen=True)
class RowsRead:
    """The rows that tasks have read, each with the time of its end, in seconds since 1970."""

    tasks: tuple[tuple[float, int], ...]

    def between(self, begin: float, end: float) -> int:
        """Return the rows that were read between two times."""
        return sum(rows for at, rows in self.tasks if begin <= at <= end)


def settings(folder: Path) -> dict[str, str]:
    """Return the settings of a Spark that writes its events to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return {**SETTINGS, "spark.eventLog.dir": folder.as_uri()}


def read(folder: Path) -> RowsRead:
    """Return the rows that the tasks in all event logs of a folder have read."""
    tasks: list[tuple[float, int]] = []
    for log in sorted(path for path in folder.rglob("events_*") if path.is_file()):
        scans: set[int] = set()
        with log.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if '"sparkPlanInfo"' in line:
                    scans |= set(_scans(json.loads(line)["sparkPlanInfo"]))
                elif line.startswith('{"Event":"SparkListenerTaskEnd"'):
                    info = json.loads(line)["Task Info"]
                    rows = sum(_rows_of(one, scans) for one in info["Accumulables"])
                    if rows:
                        tasks.append((info["Finish Time"] / 1000, rows))
    return RowsRead(tuple(tasks))


def _scans(plan: Mapping[str, Any]) -> Iterator[int]:
    """Yield the accumulators of the rows of each scan of data files."""
    if plan["nodeName"].startswith("Scan parquet") and "_delta_log" not in json.dumps(
        plan.get("metadata") or {}
    ):
        yield from (one["accumulatorId"] for one in plan["metrics"] if one["name"] == _ROWS)
    for child in plan["children"]:
        yield from _scans(child)


def _rows_of(accumulable: Mapping[str, Any], scans: set[int]) -> int:
    return int(accumulable.get("Update") or 0) if accumulable["ID"] in scans else 0
