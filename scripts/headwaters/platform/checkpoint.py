"""A stream's checkpoint on disk, read without a running query.

Structured Streaming writes these files:

- `metadata`: the checkpoint's identity
- `offsets/<batch>`: planned batches
- `commits/<batch>`: completed batches
- `sources/0/<batch>`: the files of each batch, if the source is files

headwaters adds these:

- `contract.json`: the contract of the last planned batch
- `fields.json`: the fields of each contract of a CSV stream, by the contract's version
- `topics.json`: the identities of the topics
- `versions.json`: the identities of a Delta source's newest commits
- `source_schemas/`: the columns of a Delta source, by Delta
- `schemas.json`: the schemas of the last batch that no registry has
- `begin.json`: a start that Spark does not store
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from pydantic import BaseModel, ValidationError

from headwaters.platform import leases, places
from headwaters.platform.errors import WorkError
from headwaters.platform.json_lines import lines
from headwaters.platform.places import Place, RemotePath

Declared = TypeVar("Declared", bound=BaseModel)

REPLAYS = ":replay"  # ends the `txnAppId` of the replays of a checkpoint
SOURCE_SCHEMAS = "source_schemas"  # the folder of Delta's schema tracking
Offsets = dict[str, dict[int, int]]  # topic → partition → offset


@dataclass(frozen=True)
class Pending:
    """The unread part of a stream, and whether a batch was interrupted."""

    number: int
    unit: str  # files or records
    size: int | None  # bytes
    unfinished: bool

    @property
    def nothing(self) -> bool:
        """Return true if a run would have no work."""
        return not self.number and not self.unfinished

    def __str__(self) -> str:
        """Return it as text: `3 files, 1.2 MB`."""
        size = "" if self.size is None or not self.number else f", {self.size / 1e6:,.1f} MB"
        return f"{self.number:,} {self.unit}{size}"


@dataclass(frozen=True)
class Checkpoint:
    """The folder of one stream's checkpoint.

    One in a store needs `local`, this machine's folder of the lake, to be held.
    """

    path: Place
    local: Path | None = None

    @property
    def id(self) -> str | None:
        """Return the checkpoint's identity, or None before the first batch."""
        file = self.path / "metadata"
        with self._intact(file):
            identity: str | None = json.loads(file.read_text())["id"] if file.is_file() else None
        return identity

    @property
    def exists(self) -> bool:
        """Return true if there is a checkpoint, even a damaged one."""
        return (self.path / "metadata").is_file()

    @property
    def app_id(self) -> str:
        """Return the `txnAppId` of every write: another checkpoint is another writer."""
        return f"headwaters:{self.path.name}:{self.id}"

    @property
    def replay_id(self) -> str:
        """Return the `txnAppId` of replays, which number versions of quarantine, not batches."""
        return self.app_id + REPLAYS

    @property
    def planned(self) -> int:
        """Return the last batch with a fixed input, or -1 before the first."""
        return max(_batches(self.path / "offsets"), default=-1)

    @property
    def committed(self) -> int:
        """Return the last committed batch, or -1 before the first."""
        return max(_batches(self.path / "commits"), default=-1)

    @property
    def unfinished(self) -> bool:
        """Return true if a batch was interrupted: Spark will repeat it with the same input."""
        return self.planned > self.committed

    def seen(self, until: int | None = None) -> set[str]:
        """Return the files that batches have taken, up to one if given, as unquoted URIs."""
        log = self.path / "sources" / "0"
        batches = _batches(log)
        compacts = [int(f.stem) for f in _visible(log) if f.name.endswith(".compact")]
        start = max(compacts, default=-1)
        parts = [log / f"{start}.compact"] if compacts else []
        last = None if until is None else self._log_offset(until)
        parts += [log / str(batch) for batch in sorted(batches) if batch > start]
        entries = (entry for part in parts for entry in self._entries(part))
        return {unquote(path) for path, taken in entries if last is None or taken <= last}

    def taken(self, batch: int) -> list[str]:
        """Return the files of one batch, as unquoted URIs."""
        log, files = self.path / "sources" / "0", []
        for entry in range(self._log_offset(batch - 1) + 1, self._log_offset(batch) + 1):
            file = log / str(entry)
            part = file if file.is_file() else log / f"{entry}.compact"
            files += [unquote(path) for path, taken in self._entries(part) if taken == entry]
        # Spark lists Parquet's _metadata as well, and does not read it
        return [file for file in files if not _hidden(file.rpartition("/")[2])]

    def _entries(self, part: Place) -> list[tuple[str, int]]:
        """Return the files in a part of the source's log, with the entry that took each."""
        with self._intact(part):
            found = [json.loads(line) for line in lines(part)[1:]]
            return [(entry["path"], entry["batchId"]) for entry in found]

    @contextmanager
    def _intact(self, file: Place) -> Iterator[None]:
        """Guard a read of the checkpoint. Raises WorkError if the file is damaged."""
        try:
            yield
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise WorkError(
                "HW_CHECKPOINT_DAMAGED",
                f"{file} is damaged: put the checkpoint back from a copy, or remove {self.path} "
                f"and say where to resume: headwaters ingest --select {self.path.name} --from "
                "table (after what bronze and quarantine hold)",
            ) from error

    def _note(self, name: str) -> dict[str, Any]:
        """Return the note that headwaters wrote under a name, or {}."""
        file = self.path / name
        with self._intact(file):
            return dict(json.loads(file.read_text())) if file.is_file() else {}

    def _log_offset(self, batch: int) -> int:
        """Return the position of a batch of files in the source's log."""
        planned = self._planned(batch)
        with self._intact(self.path / "offsets" / str(batch)):
            return -1 if planned is None else int(planned["logOffset"])

    def delta_position(self, batch: int | None = None) -> tuple[int, bool] | None:
        """Return the version of a Delta source to read next, and whether it is still unread.

        The position is that after a batch, or after the last; None before the first batch.
        """
        planned = self._planned(self.committed if batch is None else batch)
        if planned is None:
            return None
        untouched = planned["index"] < 0 and not planned["isStartingVersion"]
        return int(planned["reservoirVersion"]), untouched

    def rate_seconds(self, batch: int | None = None) -> int:
        """Return the last second that a rate source has read, by a batch or the last one."""
        return int(self._planned(self.committed if batch is None else batch) or 0)

    def _planned(self, batch: int) -> Any:
        """Return the end of a batch in its source's form, or None before the first."""
        file = self.path / "offsets" / str(batch)
        with self._intact(file):
            return json.loads(lines(file)[2]) if file.is_file() else None

    def pending(self, folder: Place) -> Pending:
        """Return the files under `folder` that no batch has taken yet."""
        seen = self.seen()
        new = [f for f in landed(folder) if places.uri(f) not in seen]
        size = sum(map(_size, new))
        return Pending(len(new), "files", size, self.unfinished)

    def offsets(self, batch: int) -> Offsets:
        """Return the end of a batch of a Kafka stream, or nothing before the first batch."""
        ends = self._planned(batch)
        if ends is None:
            return {}
        with self._intact(self.path / "offsets" / str(batch)):
            return {t: {int(p): end for p, end in parts.items()} for t, parts in ends.items()}

    def start(self) -> Offsets:
        """Return the start of the first batch of a Kafka stream."""
        file = self.path / "sources" / "0" / "0"
        if not file.is_file():
            return {}
        with self._intact(file):
            begun = json.loads(lines(file)[1])
            return {
                topic: {int(p): at for p, at in parts.items()} for topic, parts in begun.items()
            }

    def behind(self, ends: dict[str, dict[int, tuple[int, int]]]) -> Pending:
        """Return the records of a Kafka stream that no batch has taken, by partition ranges."""
        taken = self.offsets(self.committed)
        number = sum(
            max(0, high - max(low, taken.get(topic, {}).get(partition, 0)))
            for topic, partitions in ends.items()
            for partition, (low, high) in partitions.items()
        )
        return Pending(number, "records", None, self.unfinished)

    def contract(self, model: type[Declared]) -> Declared | None:
        """Return the contract with which the last planned batch began, as an instance of `model`.

        Raises WorkError if a batch was interrupted and another release wrote its contract.
        """
        file = self.path / "contract.json"
        try:
            return model.model_validate_json(file.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError:
            if not self.unfinished:
                return None  # no remaining batch needs it
            raise WorkError(
                "HW_OTHER_RELEASE",
                f"{self.path.name}: a batch was interrupted, and this release of headwaters cannot "
                f"read the contract that it was begun with ({file}): run headwaters ingest once "
                "with the release that wrote it",
            ) from None

    @property
    def error(self) -> str | None:
        """Return the reason of the stream's last failure, or None if its last run succeeded."""
        file = self.path / "error.txt"
        return file.read_text().strip() if file.is_file() else None

    @property
    def failed_at(self) -> datetime | None:
        """Return the time of the stream's last failure, or None if its last run succeeded."""
        return _time(self.path / "error.txt")

    def keep_error(self, error: str | None) -> None:
        """Record the reason of the stream's failure, or its success."""
        file = self.path / "error.txt"
        if error is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(error + "\n")

    @property
    def committed_at(self) -> datetime | None:
        """Return the time of the last commit."""
        return _time(self.path / "commits" / str(self.committed))

    def begun(self) -> dict[str, Any]:
        """Return the start from `--from` or `start: latest`, as far as Spark does not store it."""
        return self._note("begin.json")

    def keep_begun(self, note: dict[str, Any]) -> None:
        """Store the start of the first batch."""
        self._keep("begin.json", json.dumps(note))

    def replace(self) -> None:
        """Remove the files that a stored start replaces; a killed attempt repeats.

        The checkpoint's identity is removed last: while it exists, other files may remain.
        """
        note = self.begun()
        if "replaces" not in note or note["replaces"] != self.id:
            return
        for name in ("offsets", "commits", "sources", SOURCE_SCHEMAS):
            places.remove_tree(self.path / name)
        self._keep("topics.json", json.dumps(note.get("topics", {})))
        (self.path / "versions.json").unlink(missing_ok=True)
        (self.path / ".metadata.crc").unlink(missing_ok=True)
        (self.path / "metadata").unlink()

    def unreadable(self, batch: int) -> dict[str, str]:
        """Return the files that bronze's part of a batch omits, as URIs, with the reasons."""
        note = self._note("unreadable.json")
        files: dict[str, str] = note["files"] if note.get("batch") == batch else {}
        return files

    def keep_unreadable(self, batch: int, files: dict[str, str]) -> None:
        """Store the files that bronze's part of a batch omits."""
        if self.unreadable(batch) != files:
            self._keep("unreadable.json", json.dumps({"batch": batch, "files": files}))

    def topics(self) -> dict[str, str]:
        """Return the identities of the topics that were read, if known."""
        return self._note("topics.json")

    def keep_topics(self, identities: dict[str, str]) -> None:
        """Store the identities of the topics."""
        known = self.topics()
        if known | identities != known:
            self._keep("topics.json", json.dumps(known | identities))

    def versions(self) -> dict[str, Any]:
        """Return `table`, the identity of a Delta source, and `commits`, those of its versions."""
        return self._note("versions.json")

    def keep_versions(self, note: Mapping[str, Any]) -> None:
        """Store the identities of a Delta source and of its commits."""
        self._keep("versions.json", json.dumps(note))

    def unread_schemas(self, batch: int) -> dict[str, str] | None:
        """Return the schemas that a batch could not read, by number, or None before it began."""
        note = self._note("schemas.json")
        return note["unread"] if note.get("batch") == batch else None

    def keep_unread_schemas(self, batch: int, unread: Mapping[str, str]) -> None:
        """Store the schemas that a batch cannot read, with the reasons."""
        if self.unread_schemas(batch) is None:
            self._keep("schemas.json", json.dumps({"batch": batch, "unread": unread}))

    def keep_contract(self, contract: BaseModel) -> None:
        """Store the contract before a batch is planned with it."""
        self._keep("contract.json", contract.model_dump_json(by_alias=True))

    def fields_by_version(self) -> dict[str, list[str]]:
        """Return the fields of each contract of a CSV stream, in their order, by its version."""
        file = self.path / "fields.json"
        if not file.is_file():
            return {}
        with self._intact(file):
            return {version: list(names) for version, names in json.loads(file.read_text()).items()}

    def keep_fields(self, version: str, names: Sequence[str]) -> None:
        """Store the fields of a contract: its records in quarantine have no names."""
        known = self.fields_by_version()
        if known.get(version) != list(names):
            self._keep("fields.json", json.dumps(known | {version: list(names)}))

    def _keep(self, name: str, text: str) -> None:
        places.write(self.path / name, text)

    @contextmanager
    def held(self) -> Iterator[leases.Hold]:
        """Hold the stream for this process until the context ends.

        Raises WorkError with the holder's identity if another process ingests the stream.
        """
        who = f"headwaters ingest, process {os.getpid()} on {os.uname().nodename},"
        try:
            with leases.held(self.path, who, self.local) as hold:
                yield hold
        except leases.InUse as error:
            left = "" if error.expires is None else f" (its lease expires in {error.expires:.0f} s)"
            raise WorkError(
                "HW_STREAM_IN_USE",
                f"{error.holder} is ingesting this stream; wait for it, or stop it{left}",
            ) from None


def landed(folder: Place) -> Sequence[Place]:
    """Return the files under a folder that Spark's file source sees, without hidden ones.

    Raises WorkError for a folder without read permission, and for a name that Spark cannot open.
    """
    if isinstance(folder, RemotePath):
        below = len(folder.key) + 1
        return sorted(
            file
            for file in folder.files()
            if not any(map(_hidden, file.key[below:].split("/"))) and not file.key.endswith("/")
        )
    return _landed_here(folder)


def _landed_here(folder: Path) -> list[Path]:

    def refuse(error: OSError) -> None:
        raise WorkError(
            "HW_INPUT_UNREADABLE",
            f"{error.filename} cannot be read ({error.strerror}): let this user read it, or move "
            "it elsewhere",
        ) from error

    found = []
    for parent, folders, files in os.walk(folder, onerror=refuse, followlinks=True):
        here = Path(parent)
        around = {here.resolve(), *here.resolve().parents}
        folders[:] = [
            name
            for name in folders
            if not _hidden(name)
            # a link to a parent folder would recurse forever
            and not ((here / name).is_symlink() and (here / name).resolve() in around)
        ]
        found += [here / name for name in files if not _hidden(name) and (here / name).is_file()]
    for file in found:
        name = os.fsencode(file).decode(errors="backslashreplace")
        if name != str(file):
            raise WorkError(
                "HW_INPUT_UNREADABLE",
                f"{name}: the name is not UTF-8, and Spark would skip the file: rename it",
            )
    return sorted(found)


def _time(file: Place) -> datetime | None:
    """Return the time of a file's last change, or None if it does not exist."""
    return datetime.fromtimestamp(file.stat().st_mtime, UTC) if file.is_file() else None


def _size(file: Place) -> int:
    try:
        return file.stat().st_size
    except OSError:  # just removed
        return 0


def _hidden(name: str) -> bool:
    """Return true if Spark ignores a file or folder (`PartitioningAwareFileIndex.isDataPath`)."""
    underscore = name.startswith("_") and "=" not in name
    return underscore or name.startswith(".") or name.endswith("._COPYING_")


def _visible(folder: Place) -> list[Place]:
    try:
        found: Iterable[Place] = folder.iterdir()
        return [file for file in found if file.name[0] != "."]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _batches(folder: Place) -> list[int]:
    return [int(file.name) for file in _visible(folder) if file.name.isdigit()]
