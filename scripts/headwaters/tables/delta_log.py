"""The only reader of the files in a Delta table's log outside Spark, in milliseconds.

delta-rs reads rows, schemas and protocols. It has no API for the facts here (deltalake 1.6): the
rows that deletion vectors hide, the files and transactions of one commit, and versions of tables
whose features it does not support. It also needs ten times as long for a table.

The log's format is Delta's protocol (https://github.com/delta-io/delta/blob/master/PROTOCOL.md):
each commit adds and removes data files, and a checkpoint lists the files of one version. The rows
of a file are `numRecords` of its statistics, less the rows in its deletion vector.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from pyarrow import ArrowException, compute, parquet

from headwaters.platform.delta_version import (
    FEATURE,
    FOLDERS_OF_CATALOGS,
    IN_COMMIT_TIMESTAMPS,
    IN_COMMIT_TIMESTAMPS_FROM,
)
from headwaters.platform.errors import WorkError
from headwaters.platform.json_lines import lines
from headwaters.platform.places import Place, RemotePath
from headwaters.tables.commits import Commit, commit_of_log

MOST_COMMITS = 200
# A log of more bytes is not read to count rows.
_SMALL_LOG = 4 * 1024 * 1024
# The domain of a table's clustering columns.
_CLUSTERING = "delta.clustering"


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

    `rows` is None if a file has no statistics. `sizes` are the bytes of each data file. `columns`
    have the types of Delta's protocol, nested ones as JSON. `clustering` has the names of the
    columns in data files. `protocol` is the action of that name.
    """

    id: str
    version: int
    rows: int | None
    deleted_rows: int
    sizes: tuple[int, ...]
    properties: Mapping[str, str]
    columns: tuple[tuple[str, str], ...]
    commits: tuple[Logged, ...]
    partitions: tuple[str, ...] = ()
    clustering: tuple[str, ...] = ()
    description: str | None = None
    protocol: Mapping[str, Any] = field(default_factory=dict)


def exists(table: Place) -> bool:
    """Return true if this folder is a Delta table; a log without a commit is not enough."""
    commits: Iterator[Place] = (table / "_delta_log").glob("*.json")
    return next(commits, None) is not None


def snapshot(table: Place) -> Snapshot | None:
    """Return the latest state of the table in this folder, or None without a Delta table."""
    found = _replay(table)
    if found is None:
        return None
    files = found.files.values()
    return Snapshot(found.version, _total(files), len(files), sum(file.size for file in files))


def state(table: Place, most: int = MOST_COMMITS) -> State | None:
    """Return the newest version of the table in this folder, and up to `most` of its commits.

    Returns None if the folder is not a Delta table. Raises WorkError for an incomplete or
    unreadable log.
    """
    try:
        found = _replay(table)
        if found is None:
            return None
        commits = commit_files(table)
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
        properties=_texts(found.metadata["configuration"]),
        columns=tuple((str(one["name"]), _type(one["type"])) for one in fields),
        commits=logged,
        partitions=tuple(found.metadata.get("partitionColumns") or ()),
        clustering=found.clustering,
        description=found.metadata.get("description"),
        protocol=found.protocol,
    )


def few_rows(table: Place) -> int | None:
    """Return the rows of a table with a small log, or None for another, or without statistics."""
    checkpoints = _checkpoints(table)
    start = max(checkpoints, default=-1)
    files = [*checkpoints.get(start, ())]
    files += [path for number, path in commit_files(table).items() if number > start]
    if sum(file.stat().st_size for file in files) > _SMALL_LOG:
        return None
    found = snapshot(table)
    return found.rows if found else None


def commits_of_log(table: Place, most: int) -> list[Commit]:
    """Return the newest commits as `describe history` shows them, newest first.

    Delta dates a commit by its own timestamp if the table has one for each commit now, otherwise by
    the time of its file, but later than the commit before. Raises WorkError for an incomplete log.
    """
    configuration = _texts(_definition(table).metadata["configuration"])
    has_times = configuration.get(IN_COMMIT_TIMESTAMPS, "").lower() == "true"
    first_time = int(configuration.get(IN_COMMIT_TIMESTAMPS_FROM) or 0)
    found: list[Commit] = []
    for number, path in reversed(list(_newest_commits(table, most))):
        infos = (action["commitInfo"] for action in actions(path) if "commitInfo" in action)
        info: dict[str, Any] = next(infos, {})
        if has_times and number >= first_time:
            at = int(info["inCommitTimestamp"])
        else:
            at = path.stat().st_mtime_ns // 1_000_000
            at = max(at, found[-1].at + 1) if found else at
        found.append(commit_of_log(number, at, info))
    return found[::-1]


def created_at(table: Place) -> datetime:
    """Return the time of the table's creation, UTC. Raises WorkError for an incomplete log."""
    millis = int(_definition(table).metadata.get("createdTime") or 0)
    return datetime.fromtimestamp(millis / 1000, UTC)


def table_id(table: Place) -> str:
    """Return the identity of the newest version's table. Raises WorkError for an incomplete log."""
    return str(_definition(table).metadata["id"])


def properties_of_log(table: Place) -> dict[str, str]:
    """Return the properties of the newest version as `show tblproperties` does.

    They include the protocol. None of them is redacted. Raises WorkError for an incomplete log.
    """
    found = _definition(table)
    return {**_texts(found.metadata["configuration"]), **properties_of_protocol(found.protocol)}


@dataclass
class _Definition:
    """The metadata and the protocol of a table, as actions of its log."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    protocol: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        return bool(self.metadata and self.protocol)

    def take_older(self, action: Mapping[str, Any]) -> None:
        self.metadata = self.metadata or action.get("metaData") or {}
        self.protocol = self.protocol or action.get("protocol") or {}


def _definition(table: Place) -> _Definition:
    """Return the newest metadata and protocol; most commits of a run have the metadata."""
    found = _Definition()
    checkpoints = _checkpoints(table)
    start = max(checkpoints, default=-1)
    for number, path in _newest_commits(table):
        if number <= start or found.is_complete:
            break
        for action in actions(path):
            found.take_older(action)
    if start >= 0 and not found.is_complete:
        for action in _checkpoint(checkpoints[start], ["metaData", "protocol"]):
            found.take_older(action)
    if not found.is_complete:
        raise _damaged(table, "does not say which columns the table has")
    return found


def properties_of_protocol(protocol: Mapping[str, Any]) -> dict[str, str]:
    """Return the protocol of a table as Delta shows it among the properties."""
    names = ("minReaderVersion", "minWriterVersion")
    features = {
        one for kind in ("reader", "writer") for one in protocol.get(f"{kind}Features") or ()
    }
    return {
        **{f"delta.{name}": str(protocol.get(name)) for name in names},
        **{FEATURE + name: "supported" for name in sorted(features)},
    }


def is_whole(table: Place) -> bool:
    """Return true if each commit is immediately a file of the log; catalogs may hold newer ones."""
    log = table / "_delta_log"
    return log.is_dir() and not any(any((log / name).glob("*")) for name in FOLDERS_OF_CATALOGS)


def _newest_commits(table: Place, most: int | None = None) -> Iterator[tuple[int, Place]]:
    """Yield versions and files of the commits that the log still has, newest first.

    Delta notes its last checkpoint, from where the newest commit is found without a list of all.
    """
    log = table / "_delta_log"

    def file(version: int) -> Place:
        return log / f"{version:020}.json"

    try:
        number = int(json.loads((log / "_last_checkpoint").read_text())["version"])
    except (OSError, ValueError, KeyError, TypeError):
        number = max(commit_files(table), default=-1)
    while file(number + 1).exists():
        number += 1
    for version in itertools.islice(range(number, -1, -1), most):
        if not file(version).exists():
            return
        yield version, file(version)


def schema_at(table: Place, version: int) -> str | None:
    """Return the schema of a version as JSON, or None if the log no longer has it."""
    commits = {number: path for number, path in commit_files(table).items() if number <= version}
    checkpoints = _checkpoints(table)
    start = max((number for number in checkpoints if number <= version), default=-1)
    for number in sorted((number for number in commits if number > start), reverse=True):
        for action in actions(commits[number]):
            if metadata := action.get("metaData"):
                return str(metadata["schemaString"])
    for action in _checkpoint(checkpoints[start], ["metaData"]) if start >= 0 else ():
        if metadata := action.get("metaData"):
            return str(metadata["schemaString"])
    return None


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
    protocol: dict[str, Any] = field(default_factory=dict)
    clustering: tuple[str, ...] = ()

    def take(self, action: Mapping[str, Any]) -> None:
        if remove := action.get("remove"):
            self.files.pop(_key(remove), None)
        if add := action.get("add"):
            self.files[_key(add)] = _file(add)
        if metadata := action.get("metaData"):
            self.metadata = metadata
        if protocol := action.get("protocol"):
            self.protocol = protocol
        if (domain := action.get("domainMetadata")) and domain["domain"] == _CLUSTERING:
            is_there = not domain.get("removed")
            columns = json.loads(domain["configuration"])["clusteringColumns"] if is_there else ()
            self.clustering = tuple(".".join(parts) for parts in columns)


def _replay(table: Place) -> _Replayed | None:
    commits, checkpoints = commit_files(table), _checkpoints(table)
    start = max(checkpoints, default=-1)
    if not commits and start < 0:
        return None
    found = _Replayed(start, max([start, *commits]))
    if start >= 0:
        for action in _checkpoint(checkpoints[start]):
            found.take(action)
    for version in sorted(number for number in commits if number > start):
        for action in actions(commits[version]):
            found.take(action)
    return found


def _checkpoints(table: Place) -> dict[int, list[Place]]:
    """Return the files of the complete checkpoints, by their versions."""
    checkpoints: dict[int, list[Place]] = {}
    for path in (table / "_delta_log").glob("*.checkpoint.*"):
        if path.suffix in (".parquet", ".json"):
            checkpoints.setdefault(int(path.name.split(".")[0]), []).append(path)
    return {version: parts for version, parts in checkpoints.items() if _complete(parts)}


def _gap(commits: Mapping[int, Place], start: int, version: int) -> int | None:
    """Return the first version missing from the log after a checkpoint."""
    return next((number for number in range(start + 1, version) if number not in commits), None)


def _damaged(table: Place, what: str) -> WorkError:
    return WorkError(
        "HW_TABLE_DAMAGED",
        f"the log of {table} {what}: put its _delta_log back from a copy, as it was",
    )


def _logged(version: int, path: Place) -> Logged:
    info: dict[str, Any] = {}
    added = removed = size = rows = 0
    for action in actions(path):
        info = action.get("commitInfo") or info
        removed += "remove" in action
        if add := action.get("add"):
            file = _file(add)
            added, size, rows = added + 1, size + file.size, rows + (file.rows or 0)
    moment = info.get("inCommitTimestamp") or info.get("timestamp")
    at = int(moment if moment is not None else path.stat().st_mtime * 1000)
    return Logged(commit_of_log(version, at, info), added, size, rows, removed)


def _texts(configuration: Any) -> dict[str, str]:
    """Return the properties in a commit, or in a checkpoint, where Parquet has a list of pairs."""
    return {str(name): str(value) for name, value in dict(configuration or {}).items()}


def _type(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given)


def _total(files: Iterable[_File]) -> int | None:
    counts = [file.rows for file in files]
    return None if None in counts else sum(count for count in counts if count is not None)


def version(table: Place) -> int | None:
    """Return the newest version of the table in this folder, or None without a Delta table."""
    return max(commit_files(table), default=None)


def first_after(table: Place, app: str, batch: int) -> int | None:
    """Return the first version with a later batch of a writer (`txnAppId`), if any."""
    found = None
    for number, path in sorted(commit_files(table).items(), reverse=True):
        for transaction in _transactions(path, app):
            if transaction <= batch:
                return found
            found = number
    return found


def commit_of(table: Place, app: str, batch: int) -> int | None:
    """Return the version with a batch of a writer (`txnAppId`), if the log still has it."""
    commits = sorted(commit_files(table).items(), reverse=True)
    return next((number for number, path in commits if batch in _transactions(path, app)), None)


def _transactions(commit: Place, app: str) -> list[int]:
    """Return the batches of a writer in a commit."""
    found = (action["txn"] for action in actions(commit) if "txn" in action)
    return [int(one["version"]) for one in found if one["appId"] == app]


def appended(table: Place, since: int) -> tuple[int, int]:
    """Return the files and bytes that commits from version `since` on have added."""
    commits = (path for number, path in commit_files(table).items() if number >= since)
    added = (action.get("add") for path in commits for action in actions(path))
    sizes = [int(add["size"]) for add in added if add and add["dataChange"]]
    return len(sizes), sum(sizes)


def commit_files(table: Place) -> dict[int, Place]:
    """Return the files of the commits that the log still has, by their versions."""
    log = table / "_delta_log"
    return {int(path.stem): path for path in log.glob("*.json") if path.stem.isdigit()}


def actions(commit: Place) -> Iterator[dict[str, Any]]:
    """Yield the actions of a commit, each an object with the action's name as its only key."""
    return map(json.loads, lines(commit))


def _complete(parts: list[Place]) -> bool:
    pieces = parts[0].name.split(".")
    return len(pieces) != 5 or len(parts) == int(pieces[3])  # <version>.checkpoint.<i>.<n>.parquet


_OF_CHECKPOINT = [
    *("add.path", "add.size", "add.stats", "add.deletionVector"),
    *("metaData", "protocol", "domainMetadata", "sidecar.path"),
]


def _checkpoint(
    parts: Iterable[Place], columns: Sequence[str] = _OF_CHECKPOINT
) -> Iterator[dict[str, Any]]:
    """Yield the actions of a checkpoint; one of version 2 lists its data files in sidecar files."""
    for part in parts:
        for action in actions(part) if part.suffix == ".json" else _stored(part, columns):
            yield action
            if (sidecar := action.get("sidecar")) and "sidecar.path" in columns:
                yield from _stored(part.parent / "_sidecars" / sidecar["path"], columns)


def _stored(file: Place, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    # `stats_parsed` and `partitionValues_parsed` may have years that Python does not support
    source = file.open() if isinstance(file, RemotePath) else file
    with parquet.ParquetFile(source) as opened:
        for batch in opened.iter_batches(columns=list(columns)):
            # of a million rows, one has the schema
            is_there = reduce(compute.or_, map(compute.is_valid, batch.columns))
            yield from batch.filter(is_there).to_pylist()


def _key(action: dict[str, Any]) -> tuple[str, str]:
    vector = action.get("deletionVector") or {}
    return action["path"], f"{vector.get('pathOrInlineDv', '')}@{vector.get('offset') or 0}"


def _file(add: Mapping[str, Any]) -> _File:
    stats = json.loads(add.get("stats") or "{}")
    deleted = int((add.get("deletionVector") or {}).get("cardinality") or 0)
    rows = int(stats["numRecords"]) - deleted if "numRecords" in stats else None
    return _File(int(add["size"]), rows, deleted)
