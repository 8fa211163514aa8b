"""The state of a Delta table from its log alone, without Spark, in milliseconds.

The log's format is Delta's protocol (https://github.com/delta-io/delta/blob/master/PROTOCOL.md):
each commit adds and removes data files, and a checkpoint lists the files of one version. The rows
of a file are `numRecords` of its statistics, less the rows in its deletion vector.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyarrow import ArrowException, parquet

from headwaters.platform.errors import WorkError
from headwaters.platform.json_lines import lines
from headwaters.tables.commits import Commit, commit_of_log

MOST_COMMITS = 200


@dataclass(frozen=True)
class Snapshot:
    """A table at its latest version; rows is None if a file has no statistics."""

    version: int
    rows: int | None
    files: int
    bytes: int


@dataclass(frozen=True)
class Logged:
    """A commit, and the data files that it added, with their rows, and removed."""

    commit: Commit
    files_added: int = 0
    bytes_added: int = 0
    rows_added: int = 0
    files_removed: int = 0

    @property
    def rows(self) -> int:
        """Return an upper bound of the changed rows; without a count, the rows of its files."""
        effect = self.commit.effect
        return max(effect.rows, self.rows_added) if effect.uncounted else effect.rows


@dataclass(frozen=True)
class State:
    """A table at its newest version, and its newest commits, newest first.

    `rows` is None if a file has no statistics. `sizes` are the bytes of each data file. `oldest` is
    the first version whose commit the log still has. `columns` have the types of Delta's protocol,
    nested ones as JSON.
    """

    id: str
    version: int
    rows: int | None
    deleted_rows: int
    sizes: tuple[int, ...]
    properties: Mapping[str, str]
    columns: tuple[tuple[str, str], ...]
    commits: tuple[Logged, ...]
    oldest: int


def exists(table: Path) -> bool:
    """Return true if this folder is a Delta table; a log without a commit is not enough."""
    return next((table / "_delta_log").glob("*.json"), None) is not None


def snapshot(table: Path) -> Snapshot | None:
    """Return the latest state of the table in this folder, or None without a Delta table."""
    found = _replay(table)
    if found is None:
        return None
    files = found.files.values()
    return Snapshot(found.version, _total(files), len(files), sum(file.size for file in files))


def state(table: Path, most: int = MOST_COMMITS) -> State | None:
    """Return the newest version of the table in this folder, and up to `most` of its commits.

    Returns None if the folder is not a Delta table. Raises WorkError for an incomplete or
    unreadable log.
    """
    try:
        found = _replay(table)
        if found is None:
            return None
        commits = _commits(table)
        newest = sorted(commits, reverse=True)[:most]
        logged = tuple(_logged(number, commits[number]) for number in newest)
    except (ValueError, LookupError, TypeError, AttributeError, ArrowException) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise _damaged(table, f"cannot be read ({why[:200]})") from None
    if (gap := _gap(commits, found.start, found.version)) is not None:
        raise _damaged(table, f"has no version {gap}")
    if not found.metadata:
        raise _damaged(table, "does not say which columns the table has")
    fields = json.loads(found.metadata["schemaString"])["fields"]
    return State(
        id=str(found.metadata["id"]),
        version=found.version,
        rows=_total(found.files.values()),
        deleted_rows=sum(file.deleted for file in found.files.values()),
        sizes=tuple(file.size for file in found.files.values()),
        properties={str(k): str(v) for k, v in found.metadata["configuration"].items()},
        columns=tuple((str(one["name"]), _type(one["type"])) for one in fields),
        commits=logged,
        oldest=min(commits, default=found.version),
    )


@dataclass(frozen=True)
class _File:
    """A data file; `rows` exclude those in its deletion vector, if known."""

    size: int
    rows: int | None
    deleted: int


@dataclass
class _Replayed:
    """The files of the newest version; `start` is the version of the checkpoint, or -1."""

    start: int
    version: int
    files: dict[tuple[str, str], _File] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)

    def take(self, action: Mapping[str, Any]) -> None:
        if remove := action.get("remove"):
            self.files.pop(_key(remove), None)
        if add := action.get("add"):
            self.files[_key(add)] = _file(add)
        if metadata := action.get("metaData"):
            # Parquet stores a map as a list of pairs
            self.metadata = {**metadata, "configuration": dict(metadata["configuration"] or {})}


def _replay(table: Path) -> _Replayed | None:
    commits = _commits(table)
    checkpoints: dict[int, list[Path]] = {}
    for path in (table / "_delta_log").glob("*.checkpoint*.parquet"):
        checkpoints.setdefault(int(path.name.split(".")[0]), []).append(path)
    whole = [version for version, parts in checkpoints.items() if _complete(parts)]
    start = max(whole, default=-1)
    if not commits and start < 0:
        return None
    found = _Replayed(start, max([start, *commits]))
    if start >= 0:
        for action in _checkpoint(checkpoints[start]):
            found.take(action)
    for version in sorted(number for number in commits if number > start):
        for line in lines(commits[version]):
            found.take(json.loads(line))
    return found


def _gap(commits: Mapping[int, Path], start: int, version: int) -> int | None:
    """Return the first version missing from the log after a checkpoint."""
    return next((number for number in range(start + 1, version) if number not in commits), None)


def _damaged(table: Path, what: str) -> WorkError:
    return WorkError(
        "HW_TABLE_DAMAGED",
        f"the log of {table} {what}: put its _delta_log back from a copy, as it was",
    )


def _logged(version: int, path: Path) -> Logged:
    info: dict[str, Any] = {}
    added = removed = size = rows = 0
    for line in lines(path):
        action = json.loads(line)
        info = action.get("commitInfo") or info
        removed += "remove" in action
        if add := action.get("add"):
            file = _file(add)
            added, size, rows = added + 1, size + file.size, rows + (file.rows or 0)
    moment = info.get("inCommitTimestamp") or info.get("timestamp")
    at = int(moment if moment is not None else path.stat().st_mtime * 1000)
    return Logged(commit_of_log(version, at, info), added, size, rows, removed)


def _type(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given)


def _total(files: Iterable[_File]) -> int | None:
    counts = [file.rows for file in files]
    return None if None in counts else sum(count for count in counts if count is not None)


def version(table: Path) -> int | None:
    """Return the newest version of the table in this folder, or None without a Delta table."""
    return max(_commits(table), default=None)


def first_after(table: Path, app: str, batch: int) -> int | None:
    """Return the first version with a later batch of a writer (`txnAppId`), if any."""
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
    """Return the version with a batch of a writer (`txnAppId`), if the log still has it."""
    for version, path in sorted(_commits(table).items(), reverse=True):
        for line in lines(path):
            transaction = json.loads(line).get("txn")
            if transaction and (transaction["appId"], transaction["version"]) == (app, batch):
                return version
    return None


def appended(table: Path, since: int) -> tuple[int, int]:
    """Return the files and bytes that commits from version `since` on have added."""
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


_OF_CHECKPOINT = ["add.path", "add.size", "add.stats", "add.deletionVector", "metaData"]


def _checkpoint(parts: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for part in parts:
        # `stats_parsed` and `partitionValues_parsed` may have years that Python does not support
        with parquet.ParquetFile(part) as file:
            yield from file.read(columns=_OF_CHECKPOINT).to_pylist()


def _key(action: dict[str, Any]) -> tuple[str, str]:
    vector = action.get("deletionVector") or {}
    return action["path"], f"{vector.get('pathOrInlineDv', '')}@{vector.get('offset') or 0}"


def _file(add: Mapping[str, Any]) -> _File:
    stats = json.loads(add.get("stats") or "{}")
    deleted = int((add.get("deletionVector") or {}).get("cardinality") or 0)
    rows = int(stats["numRecords"]) - deleted if "numRecords" in stats else None
    return _File(int(add["size"]), rows, deleted)
