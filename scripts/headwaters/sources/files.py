"""Files that land in a folder."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from headwaters.checkpoint import Pending, landed
from headwaters.formats.base import FileFormat
from headwaters.sources import unreadable
from headwaters.sources.base import (
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
from headwaters.stream import From

# Hadoop's usual file system looks for a checksum beside a file, by a name that it cannot make where
# the file's has a colon. It is kept from the cache, where it would stand for all others.
ANY_NAME = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


@dataclass(frozen=True)
class Files(Source):
    """Each file is read once, in the batch that took it."""

    keeps_latest = True

    @property
    def _format(self) -> FileFormat:
        assert isinstance(self.format, FileFormat)  # the contract allows no other
        return self.format

    def backlog(self) -> Pending:
        """The files that no batch has taken."""
        if not self.stream.path.is_dir():
            raise nothing_at(self.stream, "folder", "land files there")
        return self.stream.checkpoint.pending(self.stream.path)

    def read(self, spark: SparkSession) -> DataFrame:
        """The lines or rows of files; of those that are read by name, only their list is kept."""
        batch = self.contract.stream.batch
        # Spark leaves out files that are a week older than the newest one; a late file must not be
        # lost, nor any beside one whose time is in the future. This is longer than any file's age.
        options = {"recursiveFileLookup": "true", "maxFileAge": "100000000d"}
        if batch.max_files:
            options["maxFilesPerTrigger"] = str(batch.max_files)
        if batch.max_bytes:
            options["maxBytesPerTrigger"] = str(batch.max_bytes)
        reader = spark.readStream.options(**options).options(**ANY_NAME)
        raw = self._format.stream_files(reader, f"file://{self.stream.path}")
        return _with_source_file(raw, self.stream.lake)

    def records(
        self, spark: SparkSession, batch: DataFrame, number: int, without: Collection[str] = ()
    ) -> list[DataFrame]:
        """The records of a batch: one frame for each schema.

        Files that bring a schema along are read here, by name: a stream keeps one schema for as
        long as it runs, and a file that lands meanwhile may have another. So are all files where
        the batch is to be read `without` some.
        """
        if not self._format.by_name and not without:
            return [batch]
        files = [file for file in self.stream.checkpoint.taken(number) if file not in without]
        return self.by_name(spark, files) if files else []

    def by_name(self, spark: SparkSession, files: Sequence[str]) -> list[DataFrame]:
        """The records of some files, given as unquoted URIs: one frame for each schema."""
        # a name is not a pattern
        paths = [re.sub(r"([\\\[\]{}*?])", r"\\\1", file) for file in files]
        read = self._format.files(spark, paths, ANY_NAME)
        frames = [beside_lineage(frame, self.contract) for frame in read]
        return [_with_source_file(frame, self.stream.lake) for frame in frames]

    def position(self) -> str:
        """How many files were read."""
        checkpoint = self.stream.checkpoint
        return f"{len(checkpoint.seen(checkpoint.committed)):,} files"

    def place(self, row: Row) -> str:
        """Its file."""
        return str(row["_source_file"])

    def gone(self, number: int) -> dict[str, str]:
        """The files of a batch that were removed before it was read, as URIs, and that."""
        files = self.stream.checkpoint.taken(number)
        missing = (f for f in files if not Path(f.removeprefix("file://")).exists())
        return dict.fromkeys(missing, f"{unreadable.GONE}: {unreadable.AGAIN}")

    def other_forms(self, number: int) -> dict[str, str]:
        """Told by the first bytes of each."""
        files = self.stream.checkpoint.taken(number)
        forms = {f: self._format.other_form(Path(f.removeprefix("file://"))) for f in files}
        return {f: f"{what}; {unreadable.AGAIN}" for f, what in forms.items() if what}

    def unreadable(
        self, spark: SparkSession, number: int, known: Mapping[str, str]
    ) -> dict[str, str]:
        """The files of a batch that Spark cannot read, as URIs, and why.

        Files that are `known` are left out. Empty where nothing is wrong with a file: what failed
        then failed for another reason.
        """
        gone = {file: why for file, why in self.gone(number).items() if file not in known}
        files = self.stream.checkpoint.taken(number)
        left = [file for file in files if file not in {*known, *gone}]
        read = partial(self.by_name, spark)
        return unreadable.find(read, left, gone, self._format.damaged)

    def resume_note(self, spark: SparkSession, begin: From) -> dict[str, Any]:
        """The files that are not to be read."""
        if begin == "latest":
            prefix = f"{self.stream.lake}/"
            files = [str(file).removeprefix(prefix) for file in landed(self.stream.path)]
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
        """A parsed batch without the files that the tables held."""
        note = self.stream.checkpoint.begun()
        if "files" not in note:
            return parsed
        names = spark.createDataFrame([(name,) for name in note["files"]], "_source_file string")
        half = F.col("_source_file").isin(note.get("half", [])) & F.col("_good")
        return parsed.join(F.broadcast(names), "_source_file", "left_anti").where(~half)

    def balance(self, spark: SparkSession, now: Moment, compare: Compare) -> list[Balance]:
        """The account of each file, parsed again."""
        stream, checkpoint = self.stream, self.stream.checkpoint
        prefix = f"file://{stream.lake}/"
        taken = {path.removeprefix(prefix) for path in checkpoint.seen(now.committed)}
        if checkpoint.begun().get("from") == "latest":
            taken -= set(checkpoint.begun()["files"])
        quarantine = table_at(spark, stream.quarantine, now.quarantine).where(unreadable.IS_FILE)
        whole = {row[0] for row in quarantine.select("_source_file").collect()} & taken
        present = [path for path in sorted(taken - whole) if (stream.lake / path).is_file()]
        uris = [prefix + path for path in present]
        frames = self.by_name(spark, uris) if uris else []
        found = {b.unit: b for b in compare(frames, F.col("_source_file"))}
        balances = []
        for path, one in found.items():
            if path not in taken:
                one = replace(one, unit=f"{path} (never read)")
            elif path in whole:  # a file that could not be read counts as one record
                one = replace(one, read=1, extra=one.extra - 1)
            elif path not in present:
                one = replace(one, extra=0, unproven=one.bronze + one.quarantine)
            balances.append(one)
        return balances


def _with_source_file(frame: DataFrame, lake: Path) -> DataFrame:
    """Records, and the file of each record: inside the lake relative to it, as it may move."""
    path = F.col("_metadata.file_path")
    decoded = F.url_decode(F.replace(path, F.lit("+"), F.lit("%2B")))
    path = F.when(path.contains("%"), decoded).otherwise(path)
    for prefix in (f"file://{lake}/", f"file:{lake}/"):
        path = F.replace(path, F.lit(prefix), F.lit(""))
    return frame.select(*[F.col(f"`{name}`") for name in frame.columns], path.alias("_source_file"))
