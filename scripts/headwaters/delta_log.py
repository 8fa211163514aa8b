"""Rows and version of a Delta table, from its log alone: no Spark, so it costs milliseconds.

The log's format is Delta's protocol (https://github.com/delta-io/delta/blob/master/PROTOCOL.md):
each commit adds and removes data files, a checkpoint holds the files of one version. A file's rows
are its statistics' `numRecords` less what its deletion vector marks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyarrow import parquet

from headwaters.json_lines import lines


@dataclass(frozen=True)
class Snapshot:
    """A table at its latest version; rows is None when a file carries no statistics."""

    version: int
    rows: int | None
    files: int
    bytes: int


def exists(table: Path) -> bool:
    """Whether this folder is a Delta table; a log without a commit does not make it one."""
    return next((table / "_delta_log").glob("*.json"), None) is not None


def snapshot(table: Path) -> Snapshot | None:
    """The latest state of the table in this folder, or None when there is no Delta table."""
    log = table / "_delta_log"
    commits = _commits(table)
    checkpoints: dict[int, list[Path]] = {}
    for path in log.glob("*.checkpoint*.parquet"):
        checkpoints.setdefault(int(path.name.split(".")[0]), []).append(path)
    whole = [version for version, parts in checkpoints.items() if _complete(parts)]
    start = max(whole, default=-1)
    if not commits and start < 0:
        return None
    files: dict[tuple[str, str], int | None] = {}
    sizes: dict[tuple[str, str], int] = {}
    if start >= 0:
        for add in _checkpoint(checkpoints[start]):
            files[_key(add)], sizes[_key(add)] = _rows(add), int(add["size"])
    version = start
    for version in sorted(number for number in commits if number > start):
        for line in lines(commits[version]):
            action = json.loads(line)
            if remove := action.get("remove"):
                files.pop(_key(remove), None)
            if add := action.get("add"):
                files[_key(add)], sizes[_key(add)] = _rows(add), int(add["size"])
    counts = list(files.values())
    total = None if None in counts else sum(count for count in counts if count is not None)
    return Snapshot(version, total, len(files), sum(sizes[key] for key in files))


def version(table: Path) -> int | None:
    """The newest version of the table in this folder, or None when there is no Delta table."""
    return max(_commits(table), default=None)


def first_after(table: Path, app: str, batch: int) -> int | None:
    """The first version in which a writer (`txnAppId`) wrote a later batch than this, if any."""
    found = None
    for number, path in sorted(_commits(table).items(), reverse=True):
        for line in lines(path):
            transaction = json.loads(line).get("txn")
            if transaction and transaction["appId"] == app:
                if transaction["version"] <= batch:
                    return found
                found = number
    return found


def commit_of(table: Path, app: str, batch: int) -> int | None:
    """The version in which a writer (`txnAppId`) wrote a batch, if the log still has it."""
    for version, path in sorted(_commits(table).items(), reverse=True):
        for line in lines(path):
            transaction = json.loads(line).get("txn")
            if transaction and (transaction["appId"], transaction["version"]) == (app, batch):
                return version
    return None


def appended(table: Path, since: int) -> tuple[int, int]:
    """Files and bytes that commits from version `since` on have added to the rows of a table."""
    files = size = 0
    for version, path in _commits(table).items():
        if version >= since:
            for line in lines(path):
                add = json.loads(line).get("add")
                if add and add["dataChange"]:
                    files, size = files + 1, size + int(add["size"])
    return files, size


def _commits(table: Path) -> dict[int, Path]:
    log = table / "_delta_log"
    return {int(path.stem): path for path in log.glob("*.json") if path.stem.isdigit()}


def _complete(parts: list[Path]) -> bool:
    pieces = parts[0].name.split(".")
    return len(pieces) != 5 or len(parts) == int(pieces[3])  # <version>.checkpoint.<i>.<n>.parquet


def _checkpoint(parts: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for part in parts:
        for add in parquet.read_table(part, columns=["add"]).column("add").to_pylist():
            if add is not None:
                yield add


def _key(action: dict[str, Any]) -> tuple[str, str]:
    vector = action.get("deletionVector") or {}
    return action["path"], f"{vector.get('pathOrInlineDv', '')}@{vector.get('offset') or 0}"


def _rows(add: dict[str, Any]) -> int | None:
    stats = json.loads(add.get("stats") or "{}")
    if "numRecords" not in stats:
        return None
    vector = add.get("deletionVector") or {}
    return int(stats["numRecords"]) - int(vector.get("cardinality") or 0)
