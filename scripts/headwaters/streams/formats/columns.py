"""Records of typed columns: rows of Delta tables, of Parquet and of Avro files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from headwaters.platform.places import Place
from headwaters.platform.sql import identifier
from headwaters.streams.contract import Contract, DeclaredColumn
from headwaters.streams.formats import values
from headwaters.streams.formats.base import KEPT, Format, as_kept, patterns
from headwaters.streams.formats.json import Json
from headwaters.streams.formats.problems import (
    NOT_UTF8,
    Problem,
    no_problem,
    null,
    problem_of,
    repeated_key,
    type_problem,
    uncast,
    undeclared,
)
from headwaters.streams.formats.values import by_name, fitted

# by default, Spark writes only milliseconds
_WHOLE = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


class Typed(Format):
    """The common parts of formats whose records have typed columns."""

    def problems(self) -> list[Problem]:
        """Return the problems: values that do not fit, and undeclared columns."""
        problems: list[Problem] = [(F.col("_uncast").isNotNull(), F.col("_uncast"))]
        if self.contract.stream.schema_policy == "fail":
            there = F.col("_unknown") != "{}"
            problems.append(undeclared(there, "json_object_keys(_unknown)"))
        return problems

    def rescued(self) -> Column:
        """Return the undeclared columns as JSON."""
        return F.when(F.col("_unknown") != "{}", F.col("_unknown"))


class Columns(Typed):
    """Rows of a table."""

    def typed(self, raw: DataFrame, origin: Sequence[str]) -> DataFrame:
        """Return the columns by their names, ignoring case."""
        contract = self.contract
        declared_as = {column.field.lower(): column.field for column in contract.read_columns}
        found = {declared_as.get(name.lower(), name): name for name in raw.columns}
        names = [column.field for column in contract.read_columns if column.field in found]
        names += sorted(name for name in found if name not in (*names, *origin))
        given = {name: F.col(identifier(found[name])) for name in names}
        types = {name: raw.schema[found[name]].dataType for name in names}
        columns = F.struct(*[_as_text(contract, n, given[n], types[n]) for n in names])
        return typed_columns(contract, raw, origin, given, F.to_json(columns, _WHOLE))

    def parse_again(self, rows: DataFrame) -> DataFrame:
        """Parse rows of quarantine from their JSON, because a table's row has no original text."""
        contract = self.contract
        kept = as_kept(contract, rows, F.col("record").cast("string"))
        return KeptRows(contract).parse(kept.withColumn("value", _as_declared(contract)), KEPT)


class KeptRows(Json):
    """Rows that quarantine has as JSON. Their numbers fit as in a table, and not as in texts."""

    def misfits(self) -> list[Problem]:
        """Return the problems of JSON, and of numbers that JSON would round or take as moments."""
        numbers = [_number_problem(column) for column in self.contract.read_columns]
        return [*super().misfits(), *(problem for problem in numbers if problem is not None)]


def _number_problem(column: DeclaredColumn) -> Problem | None:
    """Return the problem of a column that has another number than the row in quarantine."""
    kind = values.type_of(column)
    moments = T.TimestampType | T.TimestampNTZType
    if not isinstance(kind, T.DoubleType | T.DecimalType | moments):
        return None
    row = F.from_json(F.col("_raw").cast("string"), f"{identifier(column.field)} variant")
    value = row.getField(column.field)
    name = F.schema_of_variant(value)
    types = {"BIGINT": T.LongType(), "DECIMAL": T.DecimalType(38, 20), "DOUBLE": T.DoubleType()}
    misfits = F.lit(False)
    for variant, given in types.items():
        number = value.try_cast(given)
        misfits |= name.startswith(variant) & fitted(column, number, given).isNull()
    said = type_problem(column, value.try_cast("string"))
    return F.coalesce(misfits, F.lit(False)), said


def _as_declared(contract: Contract) -> Column:
    """Return a row stored as JSON, with its fields named as the contract now spells them.

    Column names ignore case, and JSON fields do not.
    """
    names = {column.field.lower(): column.field for column in contract.read_columns}
    declared_as = F.create_map(*[F.lit(text) for pair in names.items() for text in pair])
    keys = F.json_object_keys("value")
    other = F.exists(keys, lambda key: F.element_at(declared_as, F.lower(key)) != key)
    renamed = F.transform_keys(
        F.from_json("value", "map<string,variant>"),
        lambda key, _: F.coalesce(F.element_at(declared_as, F.lower(key)), key),
    )
    return F.when(other, F.to_json(renamed)).otherwise(F.col("value"))


def typed_columns(
    contract: Contract,
    raw: DataFrame,
    origin: Sequence[str],
    given: Mapping[str, Column],
    text: Column,
    *more: Column,
) -> DataFrame:
    """Return typed columns, converted to the types that the contract declares.

    `given` has the columns of the record, by their names.
    """
    columns = contract.read_columns
    fields = {column.field: column for column in columns}
    unknown = [value.alias(name) for name, value in given.items() if name not in fields]
    types = [field.dataType for field in raw.select(*given.values()).schema]
    type_of = dict(zip(given, types, strict=True))
    read = {c.name: given[c.field] for c in columns if c.field in given}
    typed = {
        c.name: _typed(raw, c, read[c.name], type_of[c.field]) for c in columns if c.name in read
    }
    wanted = type_of | {c.field: values.type_of(c) for c in columns}
    not_text = [
        F.when(text.isNotNull(), _not_text(fields[name].name if name in fields else name, text))
        for name, value in given.items()
        for text in values.not_utf8(type_of[name], value, wanted[name])
    ]
    shown = {c.name: _shown(read[c.name], type_of[c.field]) for c in columns if c.name in read}
    twice = [
        F.when(when, what)
        for c in columns
        if c.name in read
        for when, what in repeated_key(c, type_of[c.field], read[c.name])
    ]
    return raw.select(
        *origin,
        *[typed.get(c.name, F.lit(None).cast(c.data_type)).alias(c.name) for c in columns],
        text.alias("_raw"),
        (F.to_json(F.struct(*unknown), _WHOLE) if unknown else null()).alias("_unknown"),
        F.coalesce(*not_text, *twice, *uncast(contract, shown, typed), no_problem()).alias(
            "_uncast"
        ),
        *more,
    )


def _typed(raw: DataFrame, column: DeclaredColumn, value: Column, given: T.DataType) -> Column:
    """Return a converted value, or NULL if Spark has no cast from the type that the file has.

    Then only NULL fits, as in a file whose column has no other value.
    """
    found = fitted(column, by_name(column, value, given), given)
    if given != values.type_of(column):
        try:
            raw.select(found)
        except AnalysisException:
            return F.lit(None).cast(column.data_type)
    return found


def _as_text(contract: Contract, name: str, value: Column, given: T.DataType) -> Column:
    """Return a column for quarantine: complete, with the declared spelling of its names."""
    column = next((column for column in contract.read_columns if column.field == name), None)
    if column is None:
        return value.alias(name)
    # JSON would have base64 for bytes, and fewer digits for 32 bits: other values when read again
    wanted = column.data_type
    if (given.simpleString(), wanted) in (("binary", "string"), ("float", "double")):
        return value.cast(wanted).alias(name)
    return by_name(column, value, given, whole=False).alias(name)


def _shown(value: Column, given: T.DataType) -> Column:
    """Return a value for a message: bytes as hexadecimal digits."""
    if isinstance(given, T.BinaryType):
        return F.concat(F.lit("0x"), F.hex(value))
    return value


def _not_text(name: str, text: Column) -> Column:
    """Return a problem that includes a text's bytes, because the record's JSON cannot."""
    said = F.concat(F.lit(f"{NOT_UTF8}: "), F.hex(text.cast("binary")))
    return problem_of("type", F.lit(name), said)


def by_schema(
    spark: SparkSession, format_: str, options: Mapping[str, str], files: Sequence[Place]
) -> list[DataFrame]:
    """Read files with equal schemas together: Spark would give all files the first one's schema."""
    reader = spark.read.format(format_).options(**options)
    found: dict[str, list[str]] = {}
    for path in patterns(files):
        found.setdefault(reader.load(path).schema.json(), []).append(path)
    return [reader.load(same) for same in found.values()]
