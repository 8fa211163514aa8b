"""The net change of a Delta table between two versions, read by delta-rs without Spark.

Two versions differ only in the rows of the files that one of them lacks, however many commits lie
between. The log names these files, each with its deletion vector. A temporary Delta table links to
these files alone, and a query compares them by key.

delta-rs reads tables with deletion vectors, but not their change feed. For a removed file with a
deletion vector it returns too few deletes (deltalake 1.6).
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from headwaters.platform.delta_rs import open_table, query, read, without_panic
from headwaters.platform.errors import UserError, WorkError
from headwaters.platform.places import Place
from headwaters.tables.delta_log import actions, commit_files, exists
from headwaters.tables.publications import TYPES, base_type, unpublishable

Action = Mapping[str, Any]


@dataclass(frozen=True)
class Position:
    """The position of a publication: a version, with the identity of its commit."""

    table_id: str
    version: int
    commit: str
    columns: str


@dataclass(frozen=True)
class Field:
    """A column: its name and its type in Delta."""

    name: str
    type: str


@dataclass(frozen=True)
class Change:
    """The rows to upsert and keys to delete; `whole` is why the rows are the whole table's."""

    whole: str | None
    upserts: pa.RecordBatchReader
    deletes: pa.RecordBatchReader


class PublishedTable:
    """A table, pinned at its newest version."""

    def __init__(self, name: str, path: Place, key: Sequence[str]) -> None:
        """Open a table. Raises UserError and WorkError if it is missing or cannot be published."""
        self.name, self.path, self.key = name, path, tuple(key)
        if not exists(path):
            raise WorkError(
                "HW_PUBLISH_SOURCE", f"{name} is not there yet: build it by dbt, then publish it"
            )
        with self._reading():
            table = open_table(path)
            schema = json.loads(table.schema().to_json())["fields"]
            metadata, version = table.metadata(), table.version()
        self._table, self._partitions = table, metadata.partition_columns
        self.fields = [Field(one["name"], _type_name(one["type"])) for one in schema]
        for field in self.fields:
            if base_type(field.type) not in TYPES:
                text = f"{name}.{field.name}: {unpublishable(field.type)}"
                raise UserError("HW_PUBLISH_TYPE", text)
        if missing := [one for one in key if one not in [field.name for field in self.fields]]:
            raise UserError("HW_NO_SUCH_COLUMN", f"{name} has no column {missing[0]}, its key")
        shape = [_identity(one) for one in schema], metadata.partition_columns, self.key
        digest = hashlib.sha256(json.dumps(shape, sort_keys=True).encode()).hexdigest()
        # the newest version always has its commit
        commit = self._commit(version) or ""
        self.position = Position(str(metadata.id), version, commit, digest[:32])

    @contextmanager
    def since(self, before: Position | str, expressions: Mapping[str, str]) -> Iterator[Change]:
        """Yield the changes since a position, or the whole table if they are unknown.

        Instead of a position, `before` may be the reason for having none. `expressions` has SQL
        that replaces a column. Raises WorkError for unreadable files, and for a repeated key. In a
        whole table, the target finds repeated keys.
        """
        why = before if isinstance(before, str) else self._whole(before)
        with tempfile.TemporaryDirectory() as folder, self._reading():
            if isinstance(before, Position) and why is None:
                old, new = self._differing(before.version)
                if not self._there(old):
                    why = f"files of version {before.version} were removed"
                elif self._partitions and any(one.get("partitionValues") is None for one in old):
                    why = "the log does not have the partitions of files that were removed"
            if why is not None:
                yield Change(why, self.rows(self._table, expressions), _empty())
                return
            tables = query(
                old=self._of(old, Path(folder, "old")),
                new=self._of(new, Path(folder, "new")),
                whole=self._table,
            )
            self._check_changed_keys(tables)
            names, keys = (_listed(one) for one in ([f.name for f in self.fields], self.key))
            old_rows, new_rows = self._rows("old"), self._rows("new")
            # ALL turns this into a mere anti-join; every row is unique anyway
            rows = f"(select {names} from {new_rows} except all select {names} from {old_rows})"
            upserts = f"select {self._selected(expressions)} from {rows}"
            deletes = f"select {keys} from {old_rows} except select {keys} from {new_rows}"
            yield Change(None, read(tables, upserts), read(tables, deletes))

    def check_keys(self) -> None:
        """Raise WorkError if a key is not unique in the pinned version."""
        with self._reading():
            tables = query(whole=self._table)
            self._refuse(tables, f"with keys as ({self._keys('whole')}) {self._repeated('keys')}")

    def _check_changed_keys(self, tables: QueryBuilder) -> None:
        """Raise WorkError if a key of the changed files is not unique in the pinned version.

        The keys of the published version were unique. A repeated key is therefore twice in the new
        files, or it is an inserted key that an unchanged file has. The join reads only the key
        columns of the unchanged files, and skips files whose statistics exclude the keys.
        """
        old, new, whole = (self._keys(table) for table in ("old", "new", "whole"))
        same = " and ".join(f"(t.{one} is not distinct from i.{one})" for one in self._key_names)
        self._refuse(
            tables,
            f"with old_keys as ({old}), new_keys as ({new}), keys as ({whole}), "
            "inserted as (select * from new_keys except select * from old_keys), "
            f"found as (select t.* from keys as t join inserted as i on {same}) "
            f"{self._repeated('new_keys')} union {self._repeated('found')}",
        )

    def _refuse(self, tables: QueryBuilder, repeated: str) -> None:
        if count := _number(tables, f"select count(*) from ({repeated})"):
            raise repeated_keys(self, f"{count:,} keys are repeated")

    @property
    def _key_names(self) -> list[str]:
        return [f"k{index}" for index in range(len(self.key))]

    def _keys(self, table: str) -> str:
        types = {field.name: field.type for field in self.fields}
        exact = (_without_statistics(_quoted(one), types[one]) for one in self.key)
        named = (f"{key} as {name}" for key, name in zip(exact, self._key_names, strict=True))
        return f"select {', '.join(named)} from {self._rows(table)}"

    def _repeated(self, keys: str) -> str:
        names = ", ".join(self._key_names)
        return f"select {names} from {keys} group by {names} having count(*) > 1"

    @contextmanager
    def at(self, version: int, expressions: Mapping[str, str]) -> Iterator[pa.RecordBatchReader]:
        """Yield the rows of a version. Raises WorkError if its files no longer exist."""
        what = (
            f"the published version {version}, of which vacuum may have removed files: publish, "
            "then check. Reason"
        )
        with self._reading(what):
            yield self.rows(open_table(self.path, version), expressions)

    @cached_property
    def count(self) -> int:
        """Return the number of rows of the pinned version, from its log."""
        with self._reading():
            return _number(query(t=self._table), "select count(*) from t")

    def rows(self, table: DeltaTable, expressions: Mapping[str, str]) -> pa.RecordBatchReader:
        """Return all rows of a version."""
        selected = self._selected(expressions)
        return read(query(t=table), f"select {selected} from {self._rows('t')}")

    def _rows(self, table: str) -> str:
        """Return SQL of a registered table's rows with Delta's values."""
        # an empty text in a partition is null in Delta, and delta-rs returns an empty text (1.6)
        texts = {field.name for field in self.fields if TYPES[base_type(field.type)] == "text"}
        selected = ", ".join(
            f"nullif({name}, '') as {name}"
            if field.name in self._partitions and field.name in texts
            else name
            for field in self.fields
            for name in [_quoted(field.name)]
        )
        return f"(select {selected} from {table})"

    def _selected(self, expressions: Mapping[str, str]) -> str:
        names = [_quoted(field.name) for field in self.fields]
        found = [expressions.get(field.name) for field in self.fields]
        return ", ".join(f"{e} as {n}" if e else n for n, e in zip(names, found, strict=True))

    def _whole(self, before: Position) -> str | None:
        """Return why the publication must send the whole table, or None."""
        now = self.position
        if before.table_id != now.table_id:
            return "the table was created again"
        if before.columns != now.columns:
            return "its columns or its key changed"
        commit = self._commit(before.version)
        if before.version > now.version or (commit and commit != before.commit):
            return f"version {before.version} is not the one that was published"
        if not commit_files(self.path).keys() >= {*range(before.version, now.version + 1)}:
            return f"the log no longer has what followed version {before.version}"
        return None

    def _differing(self, since: int) -> tuple[list[Action], list[Action]]:
        """Return the files of that version that the newest lacks, and the reverse."""
        first: dict[Any, tuple[str, Action]] = {}
        last: dict[Any, tuple[str, Action]] = {}
        commits = commit_files(self.path)
        versions = range(since + 1, self.position.version + 1)
        for committed in (one for version in versions for one in actions(commits[version])):
            for kind, action in committed.items():
                if kind in ("add", "remove"):
                    vector = action.get("deletionVector") or {}
                    names = ("storageType", "pathOrInlineDv", "offset")
                    place = (action["path"], *(vector.get(name) for name in names))
                    first.setdefault(place, (kind, action))
                    last[place] = (kind, action)
        old = [action for kind, action in first.values() if kind == "remove"]
        new = [action for kind, action in last.values() if kind == "add"]
        return old, new

    def _of(self, files: Iterable[Action], folder: Path) -> DeltaTable:
        """Return a Delta table of some files of this one; those in a store are downloaded."""
        files = list(files)
        (folder / "_delta_log").mkdir(parents=True)
        if isinstance(self.path, Path):
            for entry in self.path.iterdir():
                if entry.name != "_delta_log":
                    (folder / entry.name).symlink_to(entry.absolute())
        else:
            for part in {part for file in files for part in _parts(file)}:
                (folder / part).parent.mkdir(parents=True, exist_ok=True)
                (folder / part).write_bytes((self.path / part).read_bytes())
        actions = [*self._head, *({"add": self._added(file)} for file in files)]
        text = "".join(json.dumps(action) + "\n" for action in actions)
        (folder / "_delta_log" / f"{0:020}.json").write_text(text)
        return DeltaTable(folder)

    def _added(self, file: Action) -> Action:
        """Convert a file to an add action; a remove action may lack its size."""
        found = {
            "path": file["path"],
            "size": file.get("size") or (self.path / unquote(file["path"])).stat().st_size,
            "modificationTime": 0,
            "dataChange": True,
            "partitionValues": file.get("partitionValues") or {},
        }
        vector = file.get("deletionVector")
        return found | ({"deletionVector": vector} if vector else {})

    @cached_property
    def _head(self) -> list[Action]:
        """Return the protocol and metadata of the pinned version."""
        protocol, metadata = self._table.protocol(), self._table.metadata()
        versions: dict[str, Any] = {
            "minReaderVersion": protocol.min_reader_version,
            "minWriterVersion": protocol.min_writer_version,
            "readerFeatures": protocol.reader_features,
            "writerFeatures": protocol.writer_features,
        }
        described = {
            "id": metadata.id,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": self._table.schema().to_json(),
            "partitionColumns": metadata.partition_columns,
            "configuration": metadata.configuration,
        }
        known = {key: value for key, value in versions.items() if value is not None}
        return [{"protocol": known}, {"metaData": described}]

    def _there(self, files: Iterable[Action]) -> bool:
        return all((self.path / one).exists() for file in files for one in _parts(file))

    def _commit(self, version: int) -> str | None:
        """Return the identity of a version's commit, or None if the log no longer has it."""
        file = commit_files(self.path).get(version)
        return hashlib.sha256(file.read_bytes()).hexdigest()[:32] if file else None

    @contextmanager
    def _reading(self, what: str = "its newest version") -> Iterator[None]:
        try:
            with without_panic():
                yield
        except (DeltaError, pa.ArrowException) as error:
            reason = " ".join(str(error).split())
            text = f"{self.name} cannot be read, {what}: {reason}"
            raise WorkError("HW_PUBLISH_SOURCE", text) from None


def _parts(file: Action) -> Iterator[str]:
    """Yield the paths of a data file and its deletion vector; VACUUM removes each separately."""
    yield unquote(file["path"])
    vector = file.get("deletionVector") or {}
    place = str(vector.get("pathOrInlineDv", ""))
    if vector.get("storageType") == "u":  # a prefix, and a UUID in Z85
        prefix, digits = place[:-20], place[-20:]
        name = f"deletion_vector_{UUID(bytes=z85_bytes(digits))}.bin"
        yield f"{prefix}/{name}" if prefix else name
    elif vector.get("storageType") == "p":
        yield unquote(urlsplit(place).path)


def z85_bytes(text: str) -> bytes:
    """Decode Z85 as Delta's protocol defines it: four bytes in five digits."""
    found = b""
    for begin in range(0, len(text), 5):
        number = 0
        for digit in text[begin : begin + 5]:
            number = number * 85 + _Z85.index(digit)
        found += number.to_bytes(4, "big")
    return found


_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def repeated_keys(source: PublishedTable, what: str) -> WorkError:
    """Return the error for a table with repeated keys. It shows no values."""
    return WorkError(
        "HW_REPEATED_KEYS",
        f"{source.name} has more than one row of a key ({', '.join(source.key)}): {what}. Nothing "
        "was published",
    )


# SQL names for types, if they differ from those in the log
_SQL = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def _identity(field: Mapping[str, Any]) -> list[Any]:
    """Return the name and type of a column, and its name in the files if that is another one.

    With column mapping, a column that was dropped and added again has another name in the files.
    """
    stored = field.get("metadata", {}).get("delta.columnMapping.physicalName", field["name"])
    return [field["name"], field["type"], *([] if stored == field["name"] else [stored])]


def _type_name(kind: Any) -> str:
    name = str(kind) if isinstance(kind, str) else str(kind["type"])
    return _SQL.get(name, name)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _without_statistics(name: str, kind: str) -> str:
    """Return a key, as an expression if the statistics of its column are inexact.

    Statistics of floats ignore NaN and treat -0.0 and 0.0 as different. Those of timestamps are cut
    to milliseconds, and overflow in checkpoints that store INT96.
    """
    if kind in ("float", "double"):
        return f"{name} + 0.0"
    return f"arrow_cast({name}, 'Int64') - 1" if kind.startswith("timestamp") else name


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(_quoted, names))


def _number(tables: QueryBuilder, sql: str) -> int:
    return int(read(tables, sql).read_all().column(0)[0].as_py())


def _empty() -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(pa.schema([]), [])
