"""Rows for files that cannot be read as a whole: see `headwaters.streams.sources.unreadable`."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwaters.streams.contract import Contract
from headwaters.streams.formats.base import PLACE
from headwaters.streams.formats.problems import problem_of
from headwaters.streams.sources.unreadable import FIELD
from headwaters.streams.stream import Stream


def rows(
    spark: SparkSession, stream: Stream, contract: Contract, files: Mapping[str, str]
) -> DataFrame:
    """Return the files in the form of `Format.parse`: records that are not good."""
    named = [(file.removeprefix(f"file://{stream.lake}/"), why) for file, why in files.items()]
    frame = spark.createDataFrame(named, "_source_file string, why string")
    return frame.select(
        *[F.lit(None).cast(c.data_type).alias(c.name) for c in contract.columns],
        "_source_file",
        F.lit(0).cast("bigint").alias(PLACE),
        F.col("_source_file").cast("binary").alias("_raw"),
        F.lit(None).cast("string").alias("_rescued"),
        *[F.lit(None).cast(kind).alias(name) for name, kind in contract.marks],
        F.lit(False).alias("_good"),
        problem_of("malformed", F.lit(FIELD), F.col("why")).alias("_bad"),
    )
