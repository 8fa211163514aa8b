"""Avro: files that contain their schemas, and messages of one declared schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from headwaters.platform.errors import WorkError
from headwaters.platform.places import Place
from headwaters.platform.sql import identifier
from headwaters.streams.formats.base import FileFormat
from headwaters.streams.formats.columns import Columns, Typed, by_schema, typed_columns
from headwaters.streams.formats.problems import Problem, malformed, null, problem_of
from headwaters.streams.formats.schema_registry import (
    WriterSchema,
    is_framed,
    schema_number,
    writer_schema,
)

IS_BARE = "does not begin with the five bytes of a schema registry, a zero and a number"
_SCHEMAS = "headwaters.schemas"  # in the metadata of a batch's records


class AvroFiles(Columns, FileFormat):
    """Rows of Avro files."""

    by_name = True

    def files(
        self, spark: SparkSession, files: Sequence[Place], options: Mapping[str, str]
    ) -> list[DataFrame]:
        """Read the files of each schema together."""
        return by_schema(spark, "avro", {**options, **self.contract.stream.options}, files)


class AvroMessages(Typed):
    """Records of Avro without the header of a file: of one declared schema, or of a registry's."""

    @property
    def _framed(self) -> bool:
        stream = self.contract.stream
        return stream.registry is not None or stream.options.get("confluent") == "true"

    def typed(self, raw: DataFrame, origin: Sequence[str]) -> DataFrame:
        """Return the fields of each record, read by the schema that wrote it."""
        stream, value = self.contract.stream, F.col("value")
        if stream.schemas is None:
            payload = F.when(is_framed(value), F.substr(value, F.lit(6))) if self._framed else value
            return self._decoded(raw, origin, payload, stream.options["avroSchema"])
        number = F.when(is_framed(value), schema_number(value))
        found = self.schemas(raw)
        payload = F.substr(value, F.lit(6))
        frames = [
            self._decoded(raw.where(number == one), origin, payload, schema.text)
            for one, schema in found.items()
            if schema.problem is None
        ]
        others = {one: schema.problem for one, schema in found.items() if schema.problem}
        rest = raw.where(~F.coalesce(number.isin(*(found.keys() - others)), F.lit(False)))
        frames.append(self._unread(rest, origin, number, others))
        return reduce(DataFrame.unionByName, frames)

    def schemas(self, raw: DataFrame) -> Mapping[int, WriterSchema]:
        """Return the schemas of some records, by number: those of `noted`, or look them up.

        Raises WorkError if the registry does not answer.
        """
        noted = raw.schema["value"].metadata.get(_SCHEMAS)
        if noted is not None:
            known = {int(one): problem for one, problem in json.loads(noted).items()}
            return {
                one: WriterSchema(problem=problem) if problem else writer_schema(self.contract, one)
                for one, problem in known.items()
            }
        framed = raw.where(is_framed(F.col("value")))
        rows = framed.select(schema_number(F.col("value")).alias("number")).distinct().collect()
        return {one: writer_schema(self.contract, one) for one in sorted(row[0] for row in rows)}

    def noted(
        self, raw: DataFrame, unread: Mapping[str, str] | None
    ) -> tuple[DataFrame, Mapping[str, str]]:
        """Return the records of a batch with a note of their schemas, and the missing ones.

        A batch that is repeated reads the same records. Raises WorkError if a schema is gone since.
        """
        found: dict[str, str | None] = {}
        for number, schema in self.schemas(raw).items():
            one = str(number)
            if unread is not None and one not in unread and schema.problem:
                raise WorkError(
                    "HW_SCHEMA_REGISTRY",
                    f"{self.contract.name}: a record {schema.problem} any more, and an interrupted "
                    "batch began with it: put it back",
                )
            found[one] = (unread or {}).get(one) or schema.problem
        missing = {one: problem for one, problem in found.items() if problem}
        return raw.withMetadata("value", {_SCHEMAS: json.dumps(found)}), missing

    def _decoded(
        self, raw: DataFrame, origin: Sequence[str], payload: Column, schema: str
    ) -> DataFrame:
        """Return the fields of records of one schema.

        The schema is wrapped into a record of one field, which changes no byte. An unreadable
        record is then null as a whole; otherwise it would be a record of nulls.
        """
        options = self.contract.stream.options
        wrapped = (
            f'{{"type": "record", "name": "headwaters_record", "fields": '
            f'[{{"name": "record", "type": {schema}}}]}}'
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
        return typed_columns(
            self.contract, decoded, origin, given, F.col("value"), whole, null().alias("_schema")
        )

    def _unread(
        self,
        raw: DataFrame,
        origin: Sequence[str],
        number: Column,
        problems: Mapping[int, str | None],
    ) -> DataFrame:
        """Return records whose schema cannot be read, with the reasons."""
        why = [F.when(number == one, F.lit(problem)) for one, problem in problems.items()]
        whole, reason = F.lit(False).alias("_whole"), F.coalesce(null(), *why).alias("_schema")
        return typed_columns(self.contract, raw, origin, {}, F.col("value"), whole, reason)

    def problems(self) -> list[Problem]:
        """Return the problems; a record that cannot be read comes first."""
        raw, schema = F.col("_raw"), F.col("_schema")
        whole = malformed(~F.col("_whole"), "is not a record of the Avro schema")
        bare = malformed(raw.isNotNull() & ~is_framed(raw), IS_BARE)
        unread = (schema.isNotNull(), problem_of("malformed", null(), schema))
        return [*([bare] if self._framed else []), unread, whole, *super().problems()]
