"""The tables of a streamed source, from its contract."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from headwaters.platform.delta_version import features_of_types
from headwaters.platform.errors import UserError
from headwaters.platform.problems import Problem
from headwaters.platform.sql import identifier
from headwaters.streams.contract import parse_contract, stream_of
from headwaters.streams.sources.declared import SOURCES
from headwaters.tables.data_types import column_type_problem


@dataclass(frozen=True)
class StreamTable:
    """A table that ingestion writes: `columns` as SQL (name and type), and table properties.

    `marks` are the columns that tables of an earlier release lack, by name.
    """

    name: str
    columns: tuple[str, ...]
    properties: Mapping[str, str]
    marks: Mapping[str, str]

    @property
    def features(self) -> dict[str, str]:
        """Return the properties that an empty table needs before it gets the columns."""
        return features_of_types(", ".join(self.columns))


def table_location(schema_location: str, table: str) -> str:
    """Return the path of a schema's table for LOCATION.

    DESCRIBE SCHEMA returns a URI, but in a LOCATION `%20` is three characters of a name.
    """
    return f"{unquote(schema_location)}/{table}"


def stream_tables(node: Mapping[str, Any]) -> list[StreamTable]:
    """Return the bronze table and the quarantine of a source node of dbt's manifest.

    Raises UserError with file, table and key for an invalid contract.
    """
    contract = parse_contract(node)
    return [
        StreamTable(
            contract.table,
            tuple(f"{identifier(name)} {type_}" for name, type_ in contract.bronze_columns()),
            contract.bronze_properties(),
            {name: f"{identifier(name)} {type_}" for name, type_ in contract.marks},
        ),
        StreamTable(
            f"{contract.table}_quarantine",
            tuple(f"{identifier(name)} {type_}" for name, type_ in contract.quarantine_columns()),
            contract.quarantine_properties(),
            {},
        ),
    ]


def reads_table(declared: object) -> bool:
    """Return true if a declared stream reads a Delta table, even if its contract is invalid."""
    source = SOURCES.get(str(declared.get("from"))) if isinstance(declared, Mapping) else None
    return source is not None and source.reads_table


def stream_problem(node: Mapping[str, Any]) -> str | None:
    """Return the problem of a source node's contract, in one line, or None."""
    try:
        parse_contract(node)
    except UserError as error:
        return str(error)
    return None


def contract_problems(sources: Iterable[Any]) -> Iterator[Problem]:
    """Yield the wrong settings and types of streams, by the sources of dbt's manifest."""
    for source in sources:
        declared = source.config.meta.get("stream")
        if not isinstance(declared, Mapping):  # a key of the project's own
            continue
        where = f"{source.original_file_path}: {source.source_name}.{source.name}"
        try:
            stream_of(where, declared)
        except UserError as error:
            yield Problem(error.code, error.text)
        for column in source.columns.values():
            if problem := column_type_problem(column.name, column.data_type):
                yield Problem("HW_CONTRACT", f"{where}: {problem}")


def unavailable_columns(
    sources: Mapping[str, Mapping[str, Any]], schema: str, table: str, columns: Sequence[str]
) -> list[str]:
    """Return those of some columns whose value an event of a stream may lack.

    Empty for other tables. Raises UserError like `stream_tables`.
    """
    for node in sources.values():
        named = (str(node["schema"]).lower(), str(node["identifier"]).lower())
        streamed = (node["config"].get("meta") or {}).get("stream") is not None
        if streamed and named == (schema.lower(), table.lower()):
            lacking = {name.lower() for name in parse_contract(node).maybe_unavailable()}
            return [name for name in columns if name.lower() in lacking]
    return []
