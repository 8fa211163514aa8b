"""Files that land in a folder, as a source."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from headwaters.platform import places
from headwaters.platform.checkpoint import Pending, landed
from headwaters.platform.sql import identifier
from headwaters.streams.formats.base import FileFormat
from headwaters.streams.sources import unreadable
from headwaters.streams.sources.base import (
    Balance,
    Compare,
    Moment,
    Source,
    beside_lineage,
    both_tables,
    last_batches,
    nothing_at,
    table_at,
)
from headwaters.streams.stream import From

# Hadoop's default file system looks for a checksum file, and cannot form its name if the file's has
# a colon. The cache must not have this file system, because all others would get it.
ANY_NAME = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


@dataclass(frozen=True)
class Files(Source):
    """A folder; each file is read once, in the batch that took it."""

    keeps_latest = True

    @property
    def _format(self) -> FileFormat:
        assert isinstance(self.format, FileFormat)  # the contract allows no other
        return self.format

    def backlog(self) -> Pending:
        """Return the files that no batch has taken."""
        if not self.stream.path.is_dir():
            raise nothing_at(self.stream, "folder", "land files there")
        return self.stream.checkpoint.pending(self.stream.path)

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the lines or rows of files; of files that batches read by name, only the list."""
        # Spark ignores files a week older than the newest one. A late file must not be lost, nor
        # older files if one has a time in the future. This is longer than any file's age.
        options = {"recursiveFileLookup": "true", "maxFileAge": "100000000d"}
        options |= self.contract.stream.batch.of_files
        reader = spark.readStream.options(**options).options(**ANY_NAME)
        raw = self._format.stream_files(reader, places.uri(self.stream.path))
        return self._with_source_file(raw, "_metadata.file_path")

    def records(
        self, spark: SparkSession, batch: DataFrame, number: int, without: Collection[str] = ()
    ) -> list[DataFrame]:
        """Return the records of a batch: one frame for each schema.

        Files that contain a schema are read here, by name: a running stream keeps one schema, and a
        file that lands later may have another. If some files are excluded by `without`, all are
        read by name.
        """
        if not self._format.by_name and not without:
            return [batch]
        files = [file for file in self.stream.checkpoint.taken(number) if file not in without]
        return self.by_name(spark, files) if files else []

    def by_name(self, spark: SparkSession, files: Sequence[str]) -> list[DataFrame]:
        """Return the records of some files, given as unquoted URIs: one frame for each schema."""
        inputs = [self.stream.input(file) for file in files]
        read = self._format.files(spark, inputs, ANY_NAME)
        frames = [beside_lineage(frame, self.contract) for frame in read]
        return [self._with_source_file(frame, self._format.file_column) for frame in frames]

    def _with_source_file(self, frame: DataFrame, file: str) -> DataFrame:
        """Add each record's file, relative to the lake if inside, because the lake may move."""
        path = F.col(file)
        decoded = F.url_decode(F.replace(path, F.lit("+"), F.lit("%2B")))
        path = F.when(path.contains("%"), decoded).otherwise(path)
        lake = self.stream.lake
        for prefix in (f"{places.uri(lake)}/", f"file:{lake}/"):
            path = F.replace(path, F.lit(prefix), F.lit(""))
        columns = [F.col(identifier(name)) for name in frame.columns]
        return frame.select(*columns, path.alias("_source_file"))

    def position(self) -> str:
        """Return the number of files that were read."""
        checkpoint = self.stream.checkpoint
        return f"{len(checkpoint.seen(checkpoint.committed)):,} files"

    def place(self, row: Row) -> str:
        """Return the record's file."""
        return str(row["_source_file"])

    def gone(self, number: int) -> dict[str, str]:
        """Return the files of a batch that were removed before the read, as URIs, with a reason."""
        files = self.stream.checkpoint.taken(number)
        missing = (f for f in files if not self.stream.input(f).is_file())
        return dict.fromkeys(missing, f"{unreadable.GONE}: {unreadable.AGAIN}")

    def stamps(self, number: int) -> dict[str, tuple[int, int]]:
        """Return the time of the last change and the size of each file of a batch, by its URI."""
        found = {}
        for file in self.stream.checkpoint.taken(number):
            with contextlib.suppress(OSError):  # it is gone
                state = self.stream.input(file).stat()
                found[file] = state.st_mtime_ns, state.st_size
        return found

    def other_forms(self, number: int) -> dict[str, str]:
        """Return files whose first bytes belong to another format."""
        files = self.stream.checkpoint.taken(number)
        forms = {f: self._format.other_form(self.stream.input(f)) for f in files}
        return {f: f"{what}; {unreadable.AGAIN}" for f, what in forms.items() if what}

    def unreadable(
        self, spark: SparkSession, number: int, known: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the files of a batch that Spark cannot read, as URIs, with the reason.

        Files in `known` are left out. If no file is damaged, the result is empty, and the batch
        failed for another reason.
        """
        gone = {file: why for file, why in self.gone(number).items() if file not in known}
        files = self.stream.checkpoint.taken(number)
        left = [file for file in files if file not in {*known, *gone}]
        read = partial(self.by_name, spark)

        def damaged(file: str) -> bool:
            return self._format.damaged(self.stream.input(file))

        return unreadable.find(read, left, gone, damaged)

    def resume_note(self, spark: SparkSession, begin: From) -> dict[str, Any]:
        """Return the files to skip."""
        if begin == "latest":
            found = landed(self.stream.path)
            files = [str(file).removeprefix(f"{self.stream.lake}/") for file in found]
            return {"files": files}
        return self._stored_files(spark) if begin == "table" else {}

    def _stored_files(self, spark: SparkSession) -> dict[str, Any]:
        bronze, quarantine = both_tables(spark, self.stream, "_source_file", "_batch_id")

        def files(rows: DataFrame) -> set[str]:
            return {row[0] for row in rows.select("_source_file").distinct().collect()}

        bad = files(quarantine)
        half = files(bronze.where(F.col("_batch_id").isin(last_batches(spark, self.stream)))) - bad
        return {"files": sorted((files(bronze) | bad) - half), "half": sorted(half)}

    def without_stored(self, spark: SparkSession, parsed: DataFrame, number: int) -> DataFrame:
        """Remove the files that the tables already had from a parsed batch."""
        note = self.stream.checkpoint.begun()
        if "files" not in note:
            return parsed
        names = spark.createDataFrame([(name,) for name in note["files"]], "_source_file string")
        half = F.col("_source_file").isin(note.get("half", [])) & F.col("_good")
        return parsed.join(F.broadcast(names), "_source_file", "left_anti").where(~half)

    def balance(self, spark: SparkSession, now: Moment, compare: Compare) -> list[Balance]:
        """Return the balance of each file, parsed again."""
        stream, checkpoint = self.stream, self.stream.checkpoint
        taken = {stream.shown(path) for path in checkpoint.seen(now.committed)}
        if checkpoint.begun().get("from") == "latest":
            taken -= set(checkpoint.begun()["files"])
        quarantine = table_at(spark, stream.quarantine, now.quarantine).where(unreadable.IS_FILE)
        whole = {row[0] for row in quarantine.select("_source_file").collect()} & taken
        present = [path for path in sorted(taken - whole) if stream.input(path).is_file()]
        uris = [places.uri(stream.input(path)) for path in present]
        frames = self.by_name(spark, uris) if uris else []
        found = {b.unit: b for b in compare(frames, F.col("_source_file"))}
        balances = []
        for path, one in found.items():
            if path not in taken:
                one = replace(one, unit=f"{path} (never read)")
            elif path in whole:  # an unreadable file counts as one record
                one = replace(one, read=1, extra=one.extra - 1)
            elif path not in present:
                one = replace(one, extra=0, unproven=one.bronze + one.quarantine)
            balances.append(one)
        return balances
