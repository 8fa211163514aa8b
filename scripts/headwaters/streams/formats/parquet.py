"""Parquet files, which contain their schemas."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence

from py4j.protocol import Py4JJavaError
from pyarrow import ArrowException, parquet
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headwaters.streams.formats.base import FileFormat
from headwaters.streams.formats.columns import Columns, by_schema


class Parquet(Columns, FileFormat):
    """Rows of Parquet files."""

    by_name = True

    def files(
        self, spark: SparkSession, paths: Sequence[str], options: Mapping[str, str]
    ) -> list[DataFrame]:
        """Read files together if one schema fits all of them, else those of each schema."""
        options = {**options, **self.contract.stream.options}
        merging = spark.read.format("parquet").options(**{"mergeSchema": "true", **options})
        with contextlib.suppress(PySparkException, Py4JJavaError):  # types differ
            return [merging.load(same) for same in _by_spelling(paths)]
        return by_schema(spark, "parquet", options, paths)

    def damaged(self, file: str) -> bool:
        """Return true if a file has no footer, or one with a repeated name."""
        try:
            found = parquet.read_schema(file.removeprefix("file://")).names
        except (ArrowException, OSError):
            return True
        return len(found) != len({name.lower() for name in found})


def _by_spelling(paths: Sequence[str]) -> list[list[str]]:
    """Group Parquet files by the letter case of their column names.

    Spark would give all of them the spelling of one, and `_rescued` would contain a name of no
    file.
    """
    names: dict[str, list[str]] = {}
    for path in paths:
        file = re.sub(r"\\(.)", r"\1", path.removeprefix("file://"))
        try:
            names[path] = parquet.read_schema(file).names
        except (ArrowException, OSError):
            names[path] = []  # Spark reports the error
    spellings: dict[str, set[str]] = {}
    for name in (name for found in names.values() for name in found):
        spellings.setdefault(name.lower(), set()).add(name)
    groups: dict[tuple[str, ...], list[str]] = {}
    for path, found in names.items():
        several = sorted(name for name in found if len(spellings[name.lower()]) > 1)
        groups.setdefault(tuple(several), []).append(path)
    return list(groups.values())
