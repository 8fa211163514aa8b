"""The Python part of an erasure: the subject, texts that need decoding, and files.

`macros/repair/erase.sql` gets an `Erasure` from `adapter.erasure`. No statement contains the
subject's value, so it never reaches a log, plan, commit or artifact. Statements read it from the
temporary view `headwaters_erased`, which lives as long as the command. Decisions return as hashes
of rows, in the view `headwaters_erased_rows`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from headwaters.platform import atomic_write, leases, places
from headwaters.platform.checkpoint import Checkpoint
from headwaters.platform.errors import UserError
from headwaters.platform.places import Place, RemotePath
from headwaters.platform.review_schemas import is_of_review
from headwaters.platform.sql import identifier
from headwaters.platform.text import sql_command
from headwaters.platform.waiting import Steps
from headwaters.tables.erasure import (
    Form,
    SubjectMatch,
    fragment,
    is_number,
    keyed_hash,
    log_holds,
    mentions,
    spoken_of,
    unescaped,
    verdict,
)

REMEDY = (
    "dbt writes the arguments of every command into dbt.log and run_results.json, so name where "
    "the value is: {%s: {env: SUBJECT}}, or {file: path} with a path that only you can read"
)
# The default output of `headwaters review` and `headwaters report`, in the project's root.
PAGES = ("review", "report.html")
# Larger files are read in several pieces.
LINE = 64 << 20


@dataclass(frozen=True)
class Decided:
    """Rows whose texts need decoding: the number that contain the subject, by hash of the row.

    `undecided` has the SHA-256 of each text that mentions it and cannot be parsed, with the place.
    """

    rows: int
    hashes: list[str]
    undecided: dict[str, str]
    files: list[str]


@dataclass(frozen=True)
class Found:
    """The number of files, the number that contain the subject, and the newest write."""

    files: int
    found: int
    newest: int | None  # milliseconds


@dataclass
class Beside:
    """The findings in files outside of tables, and the files that could not be read."""

    searched: int = 0
    found: list[str] = field(default_factory=list)
    _unread: Counter[str] = field(default_factory=Counter)

    def pass_over(self, what: str, number: int = 1) -> None:
        """Count files that are not read."""
        self._unread[what] += number

    @property
    def unread(self) -> list[str]:
        """Return the files that were not read, or not fully, as one text by kind."""
        return [f"{number} {what}" if number else what for what, number in self._unread.items()]


def read_value(given: Any, name: str, root: Path) -> str:
    """Return the subject's value from the environment or a file. Raises UserError without one."""
    if not isinstance(given, Mapping) or len(given) != 1 or not {"env", "file"} & set(given):
        raise UserError(
            "HW_SUBJECT",
            f"erase: the value of {name} is not to be in the command: {REMEDY % name}. "
            "Nothing was changed.",
        )
    kind, where = next(iter(given.items()))
    if not isinstance(where, str) or not where.strip():
        raise UserError(
            "HW_SUBJECT",
            f"erase: {kind} of {name} must be a {'name' if kind == 'env' else 'path'}.",
        )
    if kind == "env":
        value = os.environ.get(where, "")
    else:
        try:
            value = (root / where).read_text(encoding="utf-8").removesuffix("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                "HW_SUBJECT", f"erase: the file {where} cannot be read: {error}."
            ) from None
    if not value.strip() or "\n" in value:
        what = "environment variable" if kind == "env" else "file"
        raise UserError(
            "HW_SUBJECT",
            f"erase: the {what} {where} must hold one value, as it is in the tables. "
            "Nothing was changed.",
        )
    return value


class Erasure:
    """One subject in one session of Spark."""

    def __init__(
        self,
        spark: Any,
        kind: str,
        value: str,
        columns: Sequence[str],
        artifacts: Sequence[Path],
        lake: Place,
        local: Path | None = None,
    ) -> None:
        """Store the value for the session.

        `columns` are all columns of this kind; `artifacts` are the folders of dbt's files, and
        `local` is this machine's folder of a lake in a store.
        """
        self.kind, self.columns, self._artifacts = kind, list(columns), list(artifacts)
        self._spark, self._value = spark, value
        self._lake, self._local = lake, local or lake
        self.steps = Steps()
        rows = [(value, fragment(value).encode())]
        view = spark.createDataFrame(rows, "_headwaters_value string, _headwaters_fragment binary")
        view.createOrReplaceTempView("headwaters_erased")

    def forget(self) -> None:
        """Drop the views that contain the value; the session may serve other work afterwards."""
        for view in ("headwaters_erased", "headwaters_erased_rows"):
            with contextlib.suppress(Exception):  # an ended session has no views
                self._spark.catalog.dropTempView(view)

    def __repr__(self) -> str:
        """Omit the value, because output may be stored."""
        return f"Erasure({self.kind})"

    # --- the ledger's name of the subject

    @property
    def key(self) -> Place:
        """Return the key of the ledger's hashes: in the lake, for its owner alone."""
        return self._lake / "erasure.key"

    def digest(self, make: bool) -> str | None:
        """Return the HMAC-SHA256 of the subject; None if the key is missing and not `make`."""
        if not self.key.exists():
            if not make:
                return None
            made = secrets.token_hex(32) + "\n"
            if isinstance(self.key, RemotePath):
                self.key.create(made.encode())
            else:
                atomic_write.write_private(self.key, made)
        return keyed_hash(bytes.fromhex(self.key.read_text().strip()), self.kind, self._value)

    def is_told(self, text: str) -> bool:
        """Return true if a text, such as the reason, names the subject."""
        return spoken_of(f" {text} ", self._value, set(self.columns))

    # --- rows

    def rows(
        self, source: str, excluded: str, texts: Sequence[Mapping[str, Any]], keep: Sequence[str]
    ) -> Decided:
        """Decide on the texts of rows. `excluded` is a condition for rows already decided.

        Each of `texts` has `sql` (binary), `name`, and the keywords of a Form. A text whose SHA-256
        begins with one of `keep` belongs to another person, as an operator has confirmed.
        """
        if not texts:
            return Decided(0, [], {}, [])
        listed = ", ".join(f"{t['sql']} as _text_{i}" for i, t in enumerate(texts))
        # a cheap filter: without the value or an escape, a text cannot contain it
        maybe = " or ".join(
            f"contains({t['sql']}, s._headwaters_fragment) or contains({t['sql']}, X'5C75')"
            f" or contains({t['sql']}, X'00')"
            for t in texts
        )
        file = "_metadata.file_path" if source.startswith("parquet.") else "cast(null as string)"
        found = self._spark.sql(
            f"select {self.hash_of(texts)} as _hash, {listed}, {file} as _file from {source}"
            f" cross join headwaters_erased as s where not coalesce({excluded}, false)"
            f" and coalesce({maybe}, false)"
        )
        forms = [_form(text) for text in texts]
        rows = 0
        hashes: dict[str, None] = {}
        undecided: dict[str, str] = {}
        files: dict[str, None] = {}
        for row in found.toLocalIterator():
            said, open_ = SubjectMatch.ABSENT, {}
            for at, form in enumerate(forms):
                raw = None if row[f"_text_{at}"] is None else bytes(row[f"_text_{at}"])
                one = verdict(raw, self._value, form)
                if one is SubjectMatch.UNDECIDED:
                    mark = hashlib.sha256(raw or b"").hexdigest()
                    if mark.startswith(tuple(keep)):
                        continue
                    open_[mark] = str(texts[at]["sql"])
                said |= one
            if said is SubjectMatch.PRESENT:
                rows += 1
                hashes[row["_hash"]] = None
            else:
                undecided |= open_
            if said is not SubjectMatch.ABSENT:
                files[row["_file"]] = None
        return Decided(rows, list(hashes), undecided, list(files))

    def spoken_of_in(self, source: str, columns: Sequence[str], identity: str) -> list[str]:
        """Return the rows of a ledger that name the subject in one of their texts."""
        text = f"concat_ws(' ', {', '.join(columns)})"
        rows = self._spark.sql(
            f"select {identity} as _id, {text} as _text from {source} cross join headwaters_erased"
            f" where contains(cast({text} as binary), _headwaters_fragment)"
            f" or contains({text}, r'\\u')"
        )
        names = set(self.columns)
        return sorted(
            {
                row["_id"]
                for row in rows.toLocalIterator()
                if spoken_of(unescaped(row["_text"]), self._value, names)
            }
        )

    @staticmethod
    def hash_of(texts: Sequence[Mapping[str, Any]]) -> str:
        """Return SQL of a hash that is equal for rows with equal texts."""
        parts = ", ".join(f"hex({text['sql']}) as _{at}" for at, text in enumerate(texts))
        return f"sha2(to_json(struct({parts})), 256)"

    def stage(self, hashes: Sequence[str]) -> None:
        """Put hashes of rows into the view `headwaters_erased_rows`, for joins."""
        view = self._spark.createDataFrame([(one,) for one in hashes], "_headwaters_hash string")
        view.createOrReplaceTempView("headwaters_erased_rows")

    # --- files of tables

    def data_files(
        self,
        location: str,
        columns: Sequence[str],
        texts: Sequence[Mapping[str, Any]],
        keep: Sequence[str],
    ) -> Found:
        """Count the Parquet files of a table's folder with the subject, including change files.

        They include files that no commit names. Partition columns are not in files but in the names
        of folders.
        """
        root = location.replace("`", "``")
        # _delta_log always exists, so that the path is valid without change files
        listed = [
            row["path"]
            for row in self._listed(root, root + "/{_change_data,_delta_log}")
            if row["path"].endswith(".parquet") and "/_delta_log/" not in row["path"]
        ]
        by_folder = Counter(path.rpartition("/")[0] for path in listed)
        found = 0
        with self._files_of_any_table():
            for folder, files in sorted(by_folder.items()):
                found += (
                    files
                    if self._is_partition(folder, columns)
                    else self._in_folder(folder, columns, texts, keep)
                )
        return Found(len(listed), found, None)

    def remove_emptied(self, location: str, columns: Sequence[str]) -> None:
        """Remove the subject's partition folders that have no files left.

        Their names contain the value. VACUUM removes such a folder too, but counts the removal of
        its last file as a use, and keeps it for the table's retention. Object stores have no
        folders. Those of other file systems are left to VACUUM. It visits every folder, because the
        table may have had other partition columns before.
        """
        if not location.startswith("file:"):
            return
        for folder, _, _ in os.walk(location.removeprefix("file:"), topdown=False):
            if self._is_partition(folder, columns):
                with contextlib.suppress(OSError):  # not empty: its files are counted as found
                    Path(folder).rmdir()

    def _is_partition(self, folder: str, columns: Sequence[str]) -> bool:
        parts = [unquote(part).partition("=") for part in folder.split("/")]
        names = {column.lower() for column in columns}
        return any(name.lower() in names and text == self._value for name, _, text in parts)

    def _in_folder(
        self,
        folder: str,
        columns: Sequence[str],
        texts: Sequence[Mapping[str, Any]],
        keep: Sequence[str],
    ) -> int:
        # read as files: Spark refuses to read a folder with a Delta log as another format
        source = f"parquet.`{folder.replace('`', '``')}/*.parquet`"
        there = {name.lower() for name in self._spark.sql(f"select * from {source}").columns}
        files: set[str] = set()
        plain = [identifier(column) for column in columns if column.lower() in there]
        if plain:
            equal = " or ".join(f"cast({c} as string) = s._headwaters_value" for c in plain)
            found = self._spark.sql(
                f"select distinct _metadata.file_path as path from {source}"
                f" cross join headwaters_erased as s where {equal}"
            )
            files = {row["path"] for row in found.collect()}
        held = [text for text in texts if str(text["column"]).lower() in there]
        return len(files | set(self.rows(source, "false", held, keep).files))

    def _listed(self, *paths: str) -> list[Any]:
        one = (
            "select path, unix_millis(modificationTime) as at"
            " from binaryFile.`{}` with ('recursiveFileLookup' = 'true')"
        )
        listed = " union all ".join(one.format(path) for path in paths)
        found: list[Any] = self._spark.sql(listed).collect()
        return found

    @contextmanager
    def _files_of_any_table(self) -> Iterator[None]:
        """Let Spark read Parquet files in a Delta table's folder."""
        settings = {
            "spark.databricks.delta.formatCheck.enabled": "false",
            "spark.sql.parquet.mergeSchema": "true",
        }
        for name, value in settings.items():
            self._spark.sql(f"set `{name}` = {value}")
        try:
            yield
        finally:
            for name in settings:
                self._spark.sql(f"reset `{name}`")

    def log_files(
        self, location: str, columns: Sequence[str], texts: Sequence[Mapping[str, Any]], prefix: int
    ) -> Found:
        """Count the files of a table's log with the subject: commits, checksums, checkpoints."""
        log = f"{location}/_delta_log".replace("`", "``")
        written = {row["path"]: row["at"] for row in self._listed(log)}
        forms = {str(text["column"]): _form(text) for text in texts}
        sources = [f"select _metadata.file_path as path, value from text.`{log}/*.{{json,crc}}`"]
        for folder in sorted({p.rpartition("/")[0] for p in written if p.endswith(".parquet")}):
            source = f"parquet.`{folder.replace('`', '``')}/*.parquet`"
            sources.append(
                f"select _metadata.file_path as path, to_json(struct(*)) as value from {source}"
            )
        found: set[str] = set()
        with self._files_of_any_table():
            for source in sources:
                lines = self._spark.sql(
                    f"select path, value from ({source}) cross join headwaters_erased as s"
                    " where contains(cast(value as binary), s._headwaters_fragment)"
                    " or contains(value, r'\\u')"
                )
                for row in lines.toLocalIterator():
                    path = row["path"]
                    if path not in found and log_holds(
                        row["value"], self._value, columns, forms, prefix
                    ):
                        found.add(path)
        newest = max((_at(written, path) for path in found), default=None)
        return Found(len(written), len(found), newest)

    # --- files outside of the tables

    def interrupted(self, streams: Sequence[str]) -> str | None:
        """Return why a batch or a replay may restore records of a stream, or None."""
        for name in streams:
            checkpoint = Checkpoint(self._lake / "checkpoints" / name)
            if (checkpoint.path / "replay.json").exists():
                return (
                    f"a replay of {name} was interrupted or is still running, and would bring "
                    f"records back: run `headwaters replay --select {name} --apply` first"
                )
            if checkpoint.unfinished and not leases.is_held(checkpoint.path):
                return (
                    f"a batch of {name} was interrupted, and is read again by the next run: run "
                    f"`headwaters ingest --select {name}` first"
                )
        return None

    @cached_property
    def is_searchable(self) -> bool:
        """Return true if logs can be searched for the value; `7`, for example, is in every log."""
        return not is_number(self._value) and len(self._value) >= 4

    def beside(self, landings: Mapping[str, Mapping[str, Any]]) -> Beside:
        """Search landed files by record, and checkpoints, logs, artifacts and pages as texts.

        `landings` has the folder of each stream of files, in the lake, with the keywords of its
        Form. Schemas of reviews have copies of rows, and are named without a search.
        """
        result = Beside()
        schemas: Iterable[Place] = self._lake.glob("warehouse/review_*.db")
        for schema in sorted(it.stem for it in schemas):
            if is_of_review(schema):
                drop = sql_command([f"drop schema `{schema}` cascade"])
                result.found.append(f"{schema}: a review copied rows into it: `{drop}`")
        for folder, said in landings.items():
            place, form = places.join(self._lake, folder), _form(said)
            if not place.is_dir():
                result.pass_over(f"the folder {folder}, which is not on this machine", 0)
            for file in _files(place):
                self._search_records(file, form, result)
        texts = [self._lake / "checkpoints", self._local / "logs", *self._artifacts]
        texts += [Path.cwd() / name for name in PAGES]
        if not self.is_searchable:
            result.pass_over("logs and artifacts: a number or a short value is in each of them", 0)
            texts = []
        for file in dict.fromkeys(file for place in texts for file in _files(place)):
            result.searched += 1
            if self._is_mentioned(file):
                result.found.append(f"{self._shown(file)}: mentions it")
        return result

    def _search_records(self, file: Place, form: Form, result: Beside) -> None:
        name = verdict(self._shown(file).encode(), self._value, Form("path"))
        if name is SubjectMatch.PRESENT:
            result.found.append(f"{self._shown(file)}: is named after it")
        if file.suffix.lower() not in ("", ".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt"):
            result.pass_over(f"{file.suffix} files in {self._shown(file.parent)}")
            return
        result.searched += 1
        part = fragment(self._value).encode()
        said: Counter[SubjectMatch] = Counter()
        with file.open("rb") as lines:
            for line in _lines(lines):
                if part in line or b"\\u" in line or b"\x00" in line:
                    said[verdict(line.strip(), self._value, form)] += 1
        if said[SubjectMatch.PRESENT]:
            result.found.append(f"{self._shown(file)}: {said[SubjectMatch.PRESENT]} records")
        if said[SubjectMatch.UNDECIDED]:
            result.found.append(
                f"{self._shown(file)}: {said[SubjectMatch.UNDECIDED]} lines that cannot be parsed"
            )

    def _is_mentioned(self, file: Place) -> bool:
        with file.open("rb") as lines:
            return mentions(_lines(lines), self._value)

    def _shown(self, file: Place) -> str:
        for root in (self._lake, self._local, Path.cwd()):
            if str(file).startswith(f"{root}/"):
                return str(file).removeprefix(f"{root}/")
        return str(file)


def _form(said: Mapping[str, Any]) -> Form:
    return Form(
        name=said.get("form") or "any",
        others=frozenset(str(name).lower() for name in said.get("others") or ()),
        columns=tuple(said.get("columns") or ()),
        options={str(k): str(v) for k, v in (said.get("options") or {}).items()},
    )


def _at(written: Mapping[str, int], path: str) -> int:
    """Look up a path in either of Spark's two notations."""
    name = path.rpartition("/")[2]
    return max(
        (at for other, at in written.items() if other.endswith(f"/{name}")),
        default=int(datetime.now(UTC).timestamp() * 1000),
    )


def _files(place: Place) -> Sequence[Place]:
    if place.is_file():
        return [place]
    if isinstance(place, RemotePath):
        return sorted(place.files())
    return sorted(file for file in place.rglob("*") if file.is_file() and not file.is_symlink())


def _lines(file: Any) -> Iterator[bytes]:
    while line := file.readline(LINE):
        yield line
