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
from headwaters.streams.formats.base import FileFormat, patterns
from headwaters.streams.formats.columns import Columns, by_schema

# kinds of columns that `_converted` converts
_NANOS, _NANOS_UTC = "nanoseconds", "nanoseconds in UTC"
_SPLIT = "BYTE_STREAM_SPLIT"


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
            return [_converted(merging.load(patterns(same)), kinds) for kinds, same in groups]
        return [
            _converted(frame, kinds)
            for kinds, same in groups
            for frame in by_schema(spark, "parquet", options, same)
        ]

    def other_form(self, file: Place) -> str | None:
        """Return the first column of a type or an encoding that Spark does not read, or None."""
        try:
            footer = _footer(file)
        except (ArrowException, OSError):
            return None  # Spark reports the error
        schema = footer.schema
        names = set(schema.to_arrow_schema().names)
        columns = (schema.column(number) for number in range(len(schema)))
        problems = filter(None, (_unread(column, names) for column in columns))
        return next(problems, None) or _encoding_problem(footer)

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
    if what == "UUID":
        return f"{column.path} is a UUID, which Spark does not read: write it as text"
    if what == "Interval":
        return f"{column.path} is an interval, which Spark does not read: write it as text"
    if what == "Time":
        return f"{column.path} is a time of day, which Spark does not read: write it as text"
    if what == "Float16":
        return f"{column.path} is a float of 16 bits, which Spark does not read: write 32 bits"
    if what == "Decimal" and kind["precision"] > 38:
        return f"{column.path} has {kind['precision']} digits, and Spark reads 38: write it as text"
    return None


def _encoding_problem(footer: parquet.FileMetaData) -> str | None:
    """Return the problem of a column with an encoding that Spark does not read, or None."""
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if _SPLIT in column.encodings:
                return (
                    f"{column.path_in_schema} has the encoding {_SPLIT}, which Spark does not "
                    "read: write it with PLAIN or a dictionary"
                )
    return None


def _converted(frame: DataFrame, kinds: Mapping[str, str]) -> DataFrame:
    """Return rows with timestamps for nanoseconds, which Spark reads as numbers.

    They are truncated, like texts.
    """
    found = {}
    for name, kind in kinds.items():
        value = F.col(identifier(name))
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
        if column.path in found and kind.get("timeUnit") == "nanoseconds":
            found[column.path] = _NANOS_UTC if kind["isAdjustedToUTC"] else _NANOS
    return found
