"""Rows of CSV, after RFC 4180."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

import headwaters.streams.contract as declared
from headwaters.streams.contract import Contract
from headwaters.streams.formats import look, texts
from headwaters.streams.formats.base import CORRUPT, KEPT, FileFormat, as_kept
from headwaters.streams.formats.problems import (
    NOT_UTF8,
    Problem,
    malformed,
    misfit,
    no_problem,
    problem_of,
    uncast,
)
from headwaters.streams.formats.values import fitted_text

# Spark rejects a whole file if a row has more fields; its default is 20,480. Each open file costs a
# megabyte at this value.
MAX_COLUMNS = "100000"
EMPTY = "\x00\x00\x00"  # marks an empty quoted field during the read


class Csv(FileFormat):
    """Records of CSV, from files.

    Fields are read as text, because `texts` is stricter than Spark about values.
    """

    def stream_files(self, reader: DataStreamReader, folder: str) -> DataFrame:
        """Return the rows themselves."""
        return reader.options(**_options(self.contract)).csv(folder, _read_schema(self.contract))

    def files(
        self, spark: SparkSession, paths: Sequence[str], options: Mapping[str, str]
    ) -> list[DataFrame]:
        """Return the same rows, by the names of files."""
        reader = spark.read.option("recursiveFileLookup", "true").options(**options)
        reader = reader.options(**_options(self.contract))
        return [reader.csv(list(paths), schema=_read_schema(self.contract))]

    def other_form(self, file: Path) -> str | None:
        """Return the form of binary files and of text in another encoding, or None."""
        declared_encoding = "encoding" in self.contract.stream.options

        def of_text(data: bytes, _: bool) -> str | None:
            found = None if declared_encoding else look.utf_16(data)
            return found and f"is {found}: declare options: {{encoding: {found}}}"

        return look.other_form(file, of_text)

    def typed(self, raw: DataFrame, origin: Sequence[str]) -> DataFrame:
        """Return rows with a text: Spark's for rows that do not fit, else built from the fields."""
        contract = self.contract
        names = [column.name for column in contract.read_columns]
        there = {name: F.col(f"`{name}`") for name in names}
        empty = {name: there[name] == EMPTY for name in names}
        given = {name: F.when(empty[name], F.lit("")).otherwise(there[name]) for name in names}
        if "_raw" in raw.columns:
            text = F.col("_raw")
        else:
            writing = _options(contract, header=False) | {
                "emptyValue": '""',
                "ignoreLeadingWhiteSpace": "false",
                "ignoreTrailingWhiteSpace": "false",
            }
            fields = F.struct(*[given[name].alias(name) for name in names])
            text = F.coalesce(CORRUPT, F.to_csv(fields, writing))
        filled = {name: F.when(~empty[name], there[name]) for name in names}
        typed = {
            c.name: given[c.name]
            if texts.kind(c.data_type) == "string"
            else _value(contract, c, filled[c.name])
            for c in contract.read_columns
        }
        replaced = [F.contains(there[name], F.lit("\ufffd")) for name in names]
        replaced.append(F.contains(F.col(CORRUPT), F.lit("\ufffd")))
        return raw.select(
            *origin,
            CORRUPT,
            text.alias("_raw"),
            *[typed[name].alias(name) for name in names],
            reduce(Column.__or__, [F.coalesce(r, F.lit(False)) for r in replaced]).alias(
                "_replaced"
            ),
            F.coalesce(*uncast(contract, filled, typed), no_problem()).alias("_uncast"),
        )

    def problems(self) -> list[Problem]:
        """Return the problems: replaced bytes, and rows and fields that do not fit."""
        replaced = f"{NOT_UTF8}: U+FFFD stands for them, the file has them"
        return [
            malformed(F.col("_replaced"), replaced),
            (F.col(CORRUPT).isNotNull(), _misfit(self.contract)),
            (F.col("_uncast").isNotNull(), F.col("_uncast")),
        ]

    def parse_again(self, rows: DataFrame) -> DataFrame:
        """Parse rows of quarantine from their texts, if present."""
        contract = self.contract
        raw = as_kept(contract, rows, F.col("record").cast("string"))
        row = F.from_csv("_raw", _read_schema(contract), _options(contract, header=False))
        raw = raw.withColumnRenamed("value", "_raw").select("*", row.alias("_row"))
        raw = raw.select("*", "_row.*").drop("_row")
        parsed = self.parse(raw, KEPT)
        gone = problem_of("malformed", message=F.lit("was kept without its text"))
        without = F.col("_raw").isNull()
        split = {
            "_good": F.col("_good") & ~without,
            "_bad": F.when(without, gone).otherwise(F.col("_bad")),
        }
        return parsed.withColumns(split)


def _read_schema(contract: Contract) -> str:
    columns = [f"`{column.name}` string" for column in contract.read_columns]
    return ", ".join([*columns, f"`{CORRUPT}` string"])


def _value(contract: Contract, column: declared.Column, text: Column) -> Column:
    kind, options = texts.kind(column.data_type), contract.stream.options
    if kind == "timestamp" and "timestampFormat" in options:
        return F.try_to_timestamp(text, F.lit(options["timestampFormat"]))
    if kind == "date" and "dateFormat" in options:
        return F.try_to_date(text, options["dateFormat"])
    return fitted_text(column, text)


def _options(contract: Contract, header: bool = True) -> dict[str, str]:
    """Return the options to read CSV: those of RFC 4180 and those of the contract."""
    usual = {
        "header": "true",
        "enforceSchema": "false",
        "escape": contract.stream.options.get("quote", '"'),
        "multiLine": "true",  # a quoted field may contain line breaks
        "emptyValue": EMPTY,
        "columnNameOfCorruptRecord": CORRUPT,
        "maxColumns": MAX_COLUMNS,
    }
    options = usual | contract.stream.options
    return options if header else {k: v for k, v in options.items() if k != "header"}


def _misfit(contract: Contract) -> Column:
    """Return why a record does not fit: its first declared field with a text but no value."""
    columns = contract.read_columns
    fields = F.from_csv("_raw", _read_schema(contract), _options(contract, header=False))
    given = [fields.getField(column.name) for column in columns]
    whole = fields.getField(CORRUPT).isNull()
    return misfit(contract, whole, given, f"has not the {len(columns)} declared fields")
