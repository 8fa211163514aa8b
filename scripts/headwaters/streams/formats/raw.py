"""Unparsed records in one column: whole files, or messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwaters.platform.places import Place
from headwaters.streams.formats import texts
from headwaters.streams.formats.base import FileFormat, patterns
from headwaters.streams.formats.problems import NOT_UTF8, Problem, malformed


class Raw(FileFormat):
    """A record is a file or a message, as bytes, or as text if the column is a string."""

    by_name = True

    def files(
        self, spark: SparkSession, files: Sequence[Place], options: Mapping[str, str]
    ) -> list[DataFrame]:
        """Return each file as one record."""
        found = spark.read.format("binaryFile").options(**options).load(patterns(files))
        return [found.select(F.col("content").alias("value"))]

    def typed(self, raw: DataFrame, origin: Sequence[str]) -> DataFrame:
        """Return the single column."""
        (column,) = self.contract.read_columns
        value = F.col("value")
        named = value.cast(column.data_type).alias(column.name)
        return raw.select(*origin, value.alias("_raw"), named)

    def problems(self) -> list[Problem]:
        """Return the problem of bytes that are not text if text is declared."""
        (column,) = self.contract.read_columns
        if texts.kind(column.data_type) != "string":
            return []
        return [malformed(~F.is_valid_utf8(F.col(f"`{column.name}`")), NOT_UTF8)]
