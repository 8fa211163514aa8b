"""Rows of CSV, after RFC 4180."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import BinaryIO, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

import headwaters.streams.contract as declared
from headwaters.platform.places import Place
from headwaters.platform.sql import identifier
from headwaters.streams.contract import Contract
from headwaters.streams.formats import look, texts
from headwaters.streams.formats.base import (
    CORRUPT,
    KEPT,
    FileFormat,
    as_kept,
    has_text,
    patterns,
)
from headwaters.streams.formats.problems import (
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
EMPTY = "\x00empty\x00"  # marks an empty quoted field during the read


class Csv(FileFormat):
    """Records of CSV, from files.

    Fields are read as text, because `texts` is stricter than Spark about values.
    """

    def stream_files(self, reader: DataStreamReader, folder: str) -> DataFrame:
        """Return the rows themselves."""
        rows = reader.options(**_options(self.contract)).csv(folder, _file_schema(self.contract))
        return self._by_column(rows)

    def files(
        self, spark: SparkSession, files: Sequence[Place], options: Mapping[str, str]
    ) -> list[DataFrame]:
        """Return the same rows, by the names of files."""
        reader = spark.read.option("recursiveFileLookup", "true").options(**options)
        reader = reader.options(**_options(self.contract))
        return [self._by_column(reader.csv(patterns(files), schema=_file_schema(self.contract)))]

    def _by_column(self, rows: DataFrame) -> DataFrame:
        """Return rows with the names of the columns instead of those of the header.

        A line of blanks is an empty line, unless it is the one field of a row, or separators.
        """
        names = [column.name for column in self.contract.read_columns]
        named = rows.toDF(*names, *rows.columns[len(names) :])
        return named.where(F.coalesce(has_text(F.col(CORRUPT)), F.lit(True)))

    def other_form(self, file: Place) -> str | None:
        """Return the form of binary files and of text in another encoding, or None."""
        encoding = self.contract.stream.options.get("encoding")
        if _compares_header(self.contract) and (problem := _header_problem(self.contract, file)):
            return problem

        def of_text(data: bytes, _: bool) -> str | None:
            if data in look.MARKS:  # Spark takes it for a header
                return "has a byte order mark and nothing else"
            found = look.utf_16(data)
            if data.startswith(look.MARKS[0]):
                is_utf_8 = (encoding or "UTF-8").upper() in ("UTF-8", "UTF8")
                found = None if is_utf_8 else "UTF-8"
            elif encoding and look.fits_encoding(encoding, data):
                found = None
            return found and f"is {found}: declare options: {{encoding: {found.lower()}}}"

        return look.other_form(file, of_text) or _open_quote(self.contract, file)

    def typed(self, raw: DataFrame, origin: Sequence[str]) -> DataFrame:
        """Return rows with a text: Spark's for rows that do not fit, else built from the fields."""
        contract = self.contract
        names = [column.name for column in contract.read_columns]
        there = {name: F.col(f"`{name}`") for name in names}
        there[names[-1]] = _without_return(there[names[-1]])
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
        encoding = self.contract.stream.options.get("encoding", "UTF-8")
        replaced = f"has bytes that are not {encoding}: U+FFFD stands for them, the file has them"
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


def _without_return(text: Column) -> Column:
    """Return the last field of a line without the carriage return of its line end.

    Spark separates all lines of a file as its first line break, which may be one in a header.
    """
    shorter = F.nullif(F.regexp_replace(text, r"\r\z", ""), F.lit(""))
    return F.when(F.endswith(text, F.lit("\r")), shorter).otherwise(text)


def _read_schema(contract: Contract) -> str:
    columns = [f"`{column.name}` string" for column in contract.read_columns]
    return ", ".join([*columns, f"`{CORRUPT}` string"])


def _file_schema(contract: Contract) -> str:
    """Return the columns as the header names them, for Spark to compare.

    If Spark cannot, `_header_problem` does.
    """
    if _compares_header(contract):
        return _read_schema(contract)
    fields = [f"{identifier(column.field)} string" for column in contract.read_columns]
    return ", ".join([*fields, f"`{CORRUPT}` string"])


def _compares_header(contract: Contract) -> bool:
    """Return true if Spark cannot compare the header itself.

    It has an empty or a repeated name, or one with a line break.
    """
    fields = [column.field.lower() for column in contract.read_columns]
    has_break = any("\n" in field for field in fields)
    return len(set(fields)) < len(fields) or "" in fields or has_break


def _header_problem(contract: Contract, file: Place) -> str | None:
    """Return the problem of a file with another header than the declared one, or None."""
    options, fields = contract.stream.options, [column.field for column in contract.read_columns]
    try:
        if problem := look.hidden(file):
            return problem
        with look.open_file(file) as opened:
            data = opened.read(look.MOST)
    except (OSError, EOFError):
        return None  # Spark reports the error
    text = data.decode(options.get("encoding", "utf-8"), "replace").removeprefix("\ufeff")
    quote, comment = options.get("quote", '"'), options.get("comment")
    lines = (line for line in io.StringIO(text, newline=None) if line.strip())
    rows = (line for line in lines if not (comment and line.startswith(comment)))
    sep = options.get("sep", ",").replace("\\t", "\t")
    header = next(csv.reader(rows, delimiter=sep, quotechar=quote), [])
    for side in ("Leading", "Trailing"):
        if options.get(f"ignore{side}WhiteSpace") == "true":
            header = [name.lstrip() if side == "Leading" else name.rstrip() for name in header]
    if header == fields:
        return None
    given = ", ".join(header)[:300]
    return f"has the header {given}: the contract has {', '.join(fields)}"


def _open_quote(contract: Contract, file: Place) -> str | None:
    """Return the problem of a file that ends inside of a quoted field, or None.

    Spark takes all rows after the open quote for one text, and the last column accepts it. Python
    parses a file only if the number of its quotes is odd, or unknown.
    """
    options = contract.stream.options
    quote, encoding = options.get("quote", '"'), options.get("encoding", "utf-8")
    if quote != '"' or options.get("escape", quote) != quote or "comment" in options:
        return None
    sep = options.get("sep", ",").replace("\\t", "\t")
    if look.hidden(file) or len(sep) != 1:
        return None
    limit = csv.field_size_limit(look.LONGEST)
    try:
        with look.open_file(file) as opened:
            pieces = iter(lambda: opened.read(look.MOST * 16), b"")
            odd = sum(piece.count(b'"') for piece in pieces) % 2
        if not odd and not encoding.lower().startswith(("utf-16", "utf-32")):
            return None
        with look.open_file(file) as opened:
            text = io.TextIOWrapper(cast(BinaryIO, opened), encoding, "replace", newline="")
            rows = csv.reader(text, delimiter=sep, strict=True)
            line = 1
            for _ in rows:
                line = rows.line_num + 1
    except csv.Error as error:
        # other rules of Python's, such as text behind a quote, are not Spark's
        if "unexpected end of data" in str(error) or "larger than field limit" in str(error):
            return f"ends inside of quotes: the row in line {line} has a quote that nothing closes"
    except (OSError, EOFError, LookupError):
        pass  # Spark reports the error
    finally:
        csv.field_size_limit(limit)
    return None


def _value(contract: Contract, column: declared.DeclaredColumn, text: Column) -> Column:
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
        "enforceSchema": str(_compares_header(contract)).lower(),
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
    there = [fields.getField(column.name) for column in columns]
    given = [F.when(text != EMPTY, text) for text in there]
    whole = fields.getField(CORRUPT).isNull()
    return misfit(contract, whole, given, f"has not the {len(columns)} declared fields")
