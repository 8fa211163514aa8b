"""Spark's source of numbers at a fixed rate."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from headwaters.streams.sources.base import Balance, Compare, Moment, Source, stored


@dataclass(frozen=True)
class Rate(Source):
    """Numbers from 0 on, without an end."""

    def backlog(self) -> None:
        """Return None, because the numbers have no end."""
        return

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the numbers in the declared columns."""
        per_second = self.contract.stream.rows_per_second
        raw = spark.readStream.format("rate").option("rowsPerSecond", per_second).load()
        declared = [column.field for column in self.contract.read_columns]
        return raw.select(*declared, F.col("value").alias("_offset"))

    def position(self) -> str:
        """Return the second of the source's clock."""
        return f"second {self.stream.checkpoint.rate_seconds()}"

    def place(self, row: Row) -> str:
        """Return its name, because the numbers are not stored."""
        return self.contract.stream.path or self.contract.stream.source

    def balance(self, spark: SparkSession, now: Moment, compare: Compare) -> list[Balance]:
        """Return the balance of the numbers from 0 on, at the declared rate."""
        seconds = self.stream.checkpoint.rate_seconds(now.committed)
        read = seconds * self.stream.contract.stream.rows_per_second
        found = stored(spark, self.stream, now, ["_offset"]).where(F.col("_offset") < read)
        row = found.agg(
            F.count("*"), F.coalesce(F.sum("_bronze"), F.lit(0)), F.count_distinct("_offset")
        ).first()
        assert row
        total, bronze, different = row
        missing, extra = read - different, total - different
        return [Balance("rate", read, bronze, total - bronze, missing, extra)]
