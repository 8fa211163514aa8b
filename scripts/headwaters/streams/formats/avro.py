"""Avro: files that contain their schemas, and messages of one declared schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from headwaters.platform.sql import identifier
from headwaters.streams.formats.base import FileFormat
from headwaters.streams.formats.columns import Columns, Typed, by_schema, typed_columns
from headwaters.streams.formats.problems import Problem, malformed


class AvroFiles(Columns, FileFormat):
    """Rows of Avro files."""

    by_name = True

    def files(
        self, spark: SparkSession, paths: Sequence[str], options: Mapping[str, str]
    ) -> list[DataFrame]:
        """Read the files of each schema together."""
        return by_schema(spark, "avro", {**options, **self.contract.stream.options}, paths)


class AvroMessages(Typed):
    """Records of one Avro schema, without the header of a file."""

    def typed(self, raw: DataFrame, origin: Sequence[str]) -> DataFrame:
        """Return the fields of each record.

        The schema is wrapped into a record of one field, which changes no byte. An unreadable
        record is then null as a whole; otherwise it would be a record of nulls.
        """
        options = self.contract.stream.options
        payload = F.col("value")
        if options.get("confluent") == "true":
            # a zero byte and the number of the schema precede it
            payload = F.expr("substring(value, 6)")
        wrapped = (
            f'{{"type": "record", "name": "headwaters_record", "fields": '
            f'[{{"name": "record", "type": {options["avroSchema"]}}}]}}'
        )
        reading = {k: v for k, v in options.items() if k not in ("avroSchema", "confluent")}
        decoded = (
            raw.select(
                "*", from_avro(payload, wrapped, {**reading, "mode": "PERMISSIVE"}).alias("_avro")
            )
            .select("*", "_avro.record")
            .drop("_avro")
        )
        names = decoded.select("record.*").columns
        given = {name: F.col(f"record.{identifier(name)}") for name in names}
        whole = F.col("record").isNotNull().alias("_whole")
        return typed_columns(self.contract, decoded, origin, given, F.col("value"), whole)

    def problems(self) -> list[Problem]:
        """Return the problems; a record that does not match the schema comes first."""
        whole = malformed(~F.col("_whole"), "is not a record of the Avro schema")
        return [whole, *super().problems()]
