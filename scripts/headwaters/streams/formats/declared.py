"""The formats as contracts declare them. Pure, so that dbt reads it without Spark.

`formats/registry.py` has the class of each, which reads and parses its records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from headwaters.platform.fields import Part, Texts, one_of
from headwaters.platform.kafka_settings import Reference
from headwaters.streams.formats.documents import Layout
from headwaters.streams.formats.placeholders import DEFAULT, placeholder_of

# The carriers of records: a source delivers either.
Carrier = Literal["files", "messages"]


@dataclass(frozen=True)
class DeclaredFormat:
    """A format: its carriers, its options, and its rules for a contract."""

    name: str
    carriers: tuple[Carrier, ...]
    options: tuple[str, ...] = ()
    # required options, with their descriptions
    required: Mapping[Carrier, Mapping[str, str]] = field(default_factory=dict)
    # carriers whose records are already rows of typed columns
    typed_in: tuple[Carrier, ...] = ()
    # true if records name their fields, so that undeclared ones are recognizable
    names_fields: bool = True
    # columns of the parser's intermediate results
    internal: tuple[str, ...] = ()

    def columns_problem(self, types: Sequence[str]) -> str | None:
        """Return the problem of the types of the columns to read, or None."""
        return None


class _Raw(DeclaredFormat):
    def columns_problem(self, types: Sequence[str]) -> str | None:
        if list(types) in (["binary"], ["string"]):
            return None
        return "format: raw wants one column of type binary or string, for the record as it came"


_DATES = ("timestampFormat", "dateFormat")

FORMATS: Mapping[str, DeclaredFormat] = {
    declared.name: declared
    for declared in (
        DeclaredFormat(
            "json",
            carriers=("files", "messages"),
            options=(*_DATES, "allowComments", "allowSingleQuotes"),
            internal=(
                *("_unread", "_keys", "_corrupt", "_row", "_fields", "_event", "_received"),
                *("_unavailable", "_unfit"),
            ),
        ),
        DeclaredFormat(
            "csv",
            carriers=("files",),
            options=(
                *("header", "sep", "quote", "escape", "comment", "encoding", "nullValue"),
                *("emptyValue", *_DATES, "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace"),
            ),
            names_fields=False,
            internal=("_corrupt", "_row"),
        ),
        DeclaredFormat(
            "parquet",
            carriers=("files",),
            options=("mergeSchema", "datetimeRebaseMode", "int96RebaseMode"),
            typed_in=("files",),
        ),
        DeclaredFormat(
            "avro",
            carriers=("files", "messages"),
            options=("avroSchema", "confluent", "datetimeRebaseMode", "recursiveFieldMaxDepth"),
            required={"messages": {"avroSchema": "the schema that records have"}},
            typed_in=("files",),
            internal=("_avro", "_whole", "_schema"),
        ),
        _Raw("raw", carriers=("files", "messages"), names_fields=False),
    )
}


def _placeholder(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("is not a text")
    placeholder_of(value)
    return value


class ChangeStream(Part):
    """`config.meta.stream.changes`: the records are changes of rows with a key."""

    key: tuple[str, ...] = Field(min_length=1)
    envelope: Literal["flat", "debezium"] = "flat"
    # the treatment of records with a key and no value
    tombstones: Literal["quarantine", "rows"] = "quarantine"
    # the same as Debezium's `unavailable.value.placeholder`
    unavailable_value: Annotated[str, BeforeValidator(_placeholder)] = DEFAULT


class FormatKeys(Part):
    """The keys of `config.meta.stream` that describe a record."""

    format: Annotated[str, one_of(FORMATS)] | None = None
    layout: Layout = "lines"
    options: Texts = Field(default_factory=dict)
    # the form of the bytes before a message, and the place of the schemas that they name
    registry: Literal["confluent"] | None = None
    schemas: str | None = None
    schemas_user: Reference | None = None
    changes: ChangeStream | None = None
