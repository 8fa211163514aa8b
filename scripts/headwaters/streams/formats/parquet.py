"""Parquet files, which contain their schemas."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Mapping, Sequence

from py4j.protocol import Py4JJavaError
from pyarrow import ArrowException, parquet
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwaters.platform.places import Place, RemotePath
from headwaters.platform.sql import identifier
from headwaters.streams.contract import Contract
from headwaters.streams.formats.base import FileFormat, patterns
from headwaters.streams.formats.columns import Columns, by_schema

# kinds of columns that `_converted` converts
_NANOS, _NANOS_UTC, _UUID = "nanoseconds", "nanoseconds in UTC", "UUID"
_DIGITS_OF_UUID = "^(.{8})(.{4})(.{4})(.{4})(.{12})$"


class Parquet(Columns, FileFormat):
    """Rows of Parquet files."""

    by_name = True

    def files(
        self, spark: SparkSession, files: Sequence[Place], options: Mapping[str, str]
    ) -> list[DataFrame]:
        """Read files together if one schema fits all of them, else those of each schema."""
        options = {**options, **self.contract.stream.options}
        # without it, Spark would read the columns of one file alone
        merging = spark.read.format("parquet").options(**{**options, "mergeSchema": "true"})
        groups = _alike(files)
        with contextlib.suppress(PySparkException, Py4JJavaError):  # types differ
            return [
                _converted(self.contract, merging.load(patterns(same)), kinds)
                for kinds, same in groups
            ]
        return [
            _converted(self.contract, frame, kinds)
            for kinds, same in groups
            for frame in by_schema(spark, "parquet", options, same)
        ]

    def other_form(self, file: Place) -> str | None:
        """Return the first column of a type that Spark does not read, or None."""
        try:
            schema = _footer(file).schema
        except (ArrowException, OSError):
            return None  # Spark reports the error
        names = set(schema.to_arrow_schema().names)
        columns = (schema.column(number) for number in range(len(schema)))
        return next(filter(None, (_unread(column, names) for column in columns)), None)

    def damaged(self, file: Place) -> bool:
        """Return true if a file has no footer, or one with a repeated name."""
        try:
            found = _footer(file).schema.to_arrow_schema().names
        except (ArrowException, OSError):
            return True
        return len(found) != len({name.lower() for name in found})


def _unread(column: parquet.ColumnSchema, names: Collection[str]) -> str | None:
    """Return the problem of a column that Spark does not read, or None."""
    kind = json.loads(column.logical_type.to_json())
    what = kind["Type"]
    if what == "Timestamp" and kind["timeUnit"] == "nanoseconds" and column.path not in names:
        return f"{column.path} has nanoseconds inside a value: write microseconds there"
    if what == "UUID" and column.path not in names:
        return f"{column.path} has a UUID inside a value: write it as text there"
    if what == "Interval":
        return f"{column.path} is an interval, which Spark does not read: write it as text"
    if what == "Time":
        return f"{column.path} is a time of day, which Spark does not read: write it as text"
    if what == "Float16":
        return f"{column.path} is a float of 16 bits, which Spark does not read: write 32 bits"
    if what == "Decimal" and kind["precision"] > 38:
        return f"{column.path} has {kind['precision']} digits, and Spark reads 38: write it as text"
    return None


def _converted(contract: Contract, frame: DataFrame, kinds: Mapping[str, str]) -> DataFrame:
    """Return rows with Spark's values for columns of types that it reads as numbers or bytes.

    Nanoseconds become timestamps, truncated like texts, and a UUID becomes its text, unless its
    column is declared as `binary`.
    """
    wanted = {column.field.lower(): column.data_type for column in contract.read_columns}
    found = {}
    for name, kind in kinds.items():
        value = F.col(identifier(name))
        if kind == _UUID:
            if wanted.get(name.lower(), "").strip().lower() != "binary":
                digits = F.lower(F.hex(value))
                found[name] = F.regexp_replace(digits, _DIGITS_OF_UUID, "$1-$2-$3-$4-$5")
            continue
        micros = F.expr(f"{identifier(name)} div 1000") - F.when(value % 1000 < 0, 1).otherwise(0)
        moment = F.timestamp_micros(micros)
        found[name] = moment if kind == _NANOS_UTC else moment.cast("timestamp_ntz")
    return frame.withColumns(found) if found else frame


def _alike(files: Sequence[Place]) -> list[tuple[dict[str, str], list[Place]]]:
    """Group Parquet files by the letter case of their column names, and by columns to convert.

    Spark would give all of them the spelling of one, and `_rescued` would contain a name of no
    file. Each group has the kinds of its columns that `_converted` converts.
    """
    schemas: dict[Place, dict[str, str | None]] = {}
    for file in files:
        try:
            schemas[file] = _columns_of(file)
        except (ArrowException, OSError):
            schemas[file] = {}  # Spark reports the error
    spellings: dict[str, set[str]] = {}
    for name in (name for schema in schemas.values() for name in schema):
        spellings.setdefault(name.lower(), set()).add(name)
    groups: dict[object, tuple[dict[str, str], list[Place]]] = {}
    for file, schema in schemas.items():
        several = sorted(name for name in schema if len(spellings[name.lower()]) > 1)
        kinds = {name: kind for name, kind in schema.items() if kind is not None}
        key = (tuple(several), tuple(sorted(kinds.items())))
        groups.setdefault(key, (kinds, []))[1].append(file)
    return list(groups.values())


def _footer(file: Place) -> parquet.FileMetaData:
    if isinstance(file, RemotePath):
        with file.open() as opened:
            return parquet.read_metadata(opened)
    return parquet.read_metadata(file)


def _columns_of(file: Place) -> dict[str, str | None]:
    """Map each column of a file to its kind for `_converted`, or to None."""
    schema = _footer(file).schema
    found: dict[str, str | None] = dict.fromkeys(schema.to_arrow_schema().names)
    for number in range(len(schema)):
        column = schema.column(number)
        kind = json.loads(column.logical_type.to_json())
        if column.path not in found:
            continue
        if kind["Type"] == "UUID":
            found[column.path] = _UUID
        elif kind.get("timeUnit") == "nanoseconds":
            found[column.path] = _NANOS_UTC if kind["isAdjustedToUTC"] else _NANOS
    return found
