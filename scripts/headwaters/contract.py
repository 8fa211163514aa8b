"""The contract of a stream: what `config.meta.stream` of a bronze source may say, and what follows.

The same contract is read by `headwaters ingest`, which writes the tables, and by the macro
`register_sources`, which shows them to dbt. Everything here is pure: no Spark, no files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from headwaters.errors import UserError

FILES_LINEAGE = (
    ("_source_file", "string"),
    ("_ingested_at", "timestamp"),
    ("_batch_id", "bigint"),
)
KAFKA_LINEAGE = (
    ("_topic", "string"),
    ("_partition", "int"),
    ("_offset", "bigint"),
    ("_timestamp", "timestamp"),
    ("_key", "binary"),
    ("_headers", "array<struct<key:string,value:binary>>"),
    ("_ingested_at", "timestamp"),
    ("_batch_id", "bigint"),
)
QUARANTINE_COLUMNS = (
    ("reason", "string"),
    ("field", "string"),
    ("message", "string"),
    ("record", "binary"),
    ("contract", "string"),
)
RESCUED = ("_rescued", "string")
CHANGE_FEED = ("delta.enableChangeDataFeed", "true")
# The names of the declared properties, so that plan_tables knows which of a table's were ours.
DECLARED = "headwaters.declared"

_SCALARS = (
    "string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal",
    "date", "timestamp", "timestamp_ntz", "binary", "variant",
)  # fmt: skip
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: object) -> float:
    """A length of time such as `500ms`, `30s`, `5m` or `1h`, in seconds; a number is seconds."""
    if isinstance(text, int | float) and not isinstance(text, bool) and text >= 0:
        return float(text)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h)\s*", str(text))
    if not match:
        raise ValueError("is not a length of time: write 500ms, 30s, 5m or 1h")
    return float(match[1]) * _UNITS[match[2]]


Duration = Annotated[float, BeforeValidator(seconds)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Batch(_Part):
    """How much one micro-batch may hold."""

    max_files: int | None = Field(default=None, gt=0)
    max_bytes: str | None = Field(default=None, pattern=r"^\d+(b|k|m|g)?$")
    max_records: int | None = Field(default=None, gt=0)
    min_records: int | None = Field(default=None, gt=0)
    max_delay: Duration | None = None


class StartAt(_Part):
    """A starting point of a topic that is neither its beginning nor its end."""

    offsets: dict[str, dict[str, int]] | None = None
    timestamp: datetime | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> StartAt:
        if (self.offsets is None) == (self.timestamp is None):
            raise ValueError("name either offsets or a timestamp")
        return self


class Stream(_Part):
    """`config.meta.stream`: where the records come from and how they are treated.

    `path` belongs to files; `topics`, `servers`, `client`, `start` and `data_loss` to Kafka. Both
    may be declared, and `from` says which one is read.
    """

    source: Literal["files", "kafka"] = Field(alias="from")
    path: str | None = None
    topics: tuple[str, ...] = ()
    servers: str | None = None
    client: dict[str, str] = {}
    start: Literal["earliest", "latest"] | StartAt = "earliest"
    data_loss: Literal["fail", "skip"] = "fail"
    format: Literal["json", "csv", "parquet"]
    options: dict[str, str] = {}
    batch: Batch = Batch()
    trigger: Literal["available_now"] | Duration = "available_now"
    schema_policy: Literal["fail", "rescue"] = Field(default="rescue", alias="schema")
    bad_records: Literal["quarantine", "fail"] = "quarantine"

    @model_validator(mode="after")
    def _source_is_named(self) -> Stream:
        if self.source == "files" and self.path is None:
            raise ValueError("path is missing: the folder, relative to the lake")
        if self.source == "kafka" and not self.topics:
            raise ValueError("topics is missing: the topics to read, as a list")
        if self.source == "kafka" and self.format != "json":
            raise ValueError(
                f"format: {self.format} is a format of files; Kafka's records are json"
            )
        return self

    @model_validator(mode="after")
    def _options_of_the_format(self) -> Stream:
        allowed = FORMAT_OPTIONS[self.format]
        for option in self.options:
            if option not in allowed:
                raise ValueError(f"options: {_refuse(option, allowed)}")
        return self


FORMAT_OPTIONS: dict[str, tuple[str, ...]] = {
    "json": ("timestampFormat", "dateFormat", "allowComments", "allowSingleQuotes"),
    "csv": (
        "header", "sep", "quote", "escape", "comment", "encoding", "nullValue", "emptyValue",
        "timestampFormat", "dateFormat", "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace",
    ),
    "parquet": ("mergeSchema", "datetimeRebaseMode", "int96RebaseMode"),
}  # fmt: skip


class Constraint(_Part):
    """A rule on a column; a record that breaks it goes to quarantine."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    type: Literal["not_null", "check"]
    expression: str | None = None

    @model_validator(mode="after")
    def _a_check_has_an_expression(self) -> Constraint:
        if self.type == "check" and not self.expression:
            raise ValueError("a check needs an expression")
        return self


class Column(_Part):
    """A column of the bronze table, read from the record or computed from other columns."""

    name: str
    data_type: str
    expression: str | None = None
    constraints: tuple[Constraint, ...] = ()


class Contract(_Part):
    """One bronze table and its quarantine, with the stream that fills both."""

    name: str
    table: str
    file: str
    stream: Stream
    columns: tuple[Column, ...]
    properties: dict[str, str] = {}

    @property
    def version(self) -> str:
        """A short name for exactly this contract, kept beside each quarantined record."""
        text = self.model_dump_json(exclude={"file"})
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def read_columns(self) -> tuple[Column, ...]:
        """The columns that stand in the record itself."""
        return tuple(column for column in self.columns if column.expression is None)

    @property
    def computed_columns(self) -> tuple[Column, ...]:
        """The columns that are computed from the ones that were read."""
        return tuple(column for column in self.columns if column.expression is not None)

    @property
    def rescues(self) -> bool:
        """Whether unknown fields are kept: a CSV file cannot name them record by record."""
        return self.stream.schema_policy == "rescue" and self.stream.format != "csv"

    @property
    def lineage(self) -> tuple[tuple[str, str], ...]:
        """The columns that say where a record came from."""
        return KAFKA_LINEAGE if self.stream.source == "kafka" else FILES_LINEAGE

    @property
    def origin(self) -> tuple[str, ...]:
        """The columns of the lineage that the source itself delivers."""
        return tuple(name for name, _ in self.lineage if name not in ("_ingested_at", "_batch_id"))

    def bronze_columns(self) -> list[tuple[str, str]]:
        """Name and type of every column of the bronze table, in order."""
        declared = [(column.name, column.data_type) for column in self.columns]
        return [*declared, *([RESCUED] if self.rescues else []), *self.lineage]

    def quarantine_columns(self) -> list[tuple[str, str]]:
        """Name and type of every column of the quarantine table, in order."""
        return [*QUARANTINE_COLUMNS, *self.lineage]

    def bronze_properties(self) -> dict[str, str]:
        """Table properties of the bronze table."""
        declared = dict([CHANGE_FEED]) | self.properties
        return declared | {DECLARED: ", ".join(sorted(declared, key=str.lower))}

    def quarantine_properties(self) -> dict[str, str]:
        """Table properties of the quarantine; others that are declared may name columns."""
        owners = {key: text for key, text in self.properties.items() if key.startswith("catalog.")}
        return dict([CHANGE_FEED]) | owners


def parse_contract(node: Mapping[str, Any]) -> Contract:
    """The contract in a source node of dbt's manifest.

    Raises UserError that names file, table and key, and says what is allowed.
    """
    where = f"{node['original_file_path']}: {node['source_name']}.{node['name']}"
    meta = node["config"]["meta"]
    columns = [
        {
            "name": column["name"],
            "data_type": _data_type(where, column),
            "expression": (column.get("config") or {}).get("meta", {}).get("expression"),
            "constraints": [dict(constraint) for constraint in column.get("constraints") or ()],
        }
        for column in node["columns"].values()
    ]
    if not columns:
        raise UserError(f"{where}: no columns: a stream needs its columns with their data_type")
    reserved = {name for name, _ in (*FILES_LINEAGE, *KAFKA_LINEAGE, RESCUED)}
    for column in columns:
        if column["name"] in reserved:
            raise UserError(
                f"{where}: column {column['name']}: this name is ingestion's own; choose another"
            )
    try:
        stream = Stream.model_validate(meta["stream"])
    except ValidationError as error:
        raise UserError(f"{where}: {_explain(error, Stream, 'config.meta.stream')}") from None
    try:
        return Contract(
            name=node["name"],
            table=node["identifier"],
            file=node["original_file_path"],
            stream=stream,
            columns=columns,  # type: ignore[arg-type]
            properties=_properties(node["config"]),
        )
    except ValidationError as error:
        raise UserError(f"{where}: {_explain(error, Contract, '')}") from None


def _properties(config: Mapping[str, Any]) -> dict[str, str]:
    """The declared table properties: the layer's, and those of the source; null takes one away."""
    declared = dict(config.get("tblproperties") or {}) | config["meta"].get("tblproperties", {})
    return {key: _text(value) for key, value in declared.items() if value is not None}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _data_type(where: str, column: Mapping[str, Any]) -> str:
    data_type = column.get("data_type")
    if not data_type:
        raise UserError(f"{where}: column {column['name']} has no data_type")
    base = re.split(r"[(<\s]", data_type.strip().lower())[0]
    if base not in (*_SCALARS, "array", "map", "struct"):
        raise UserError(
            f"{where}: column {column['name']}: data_type {_refuse(base, _SCALARS, 'a type')}"
        )
    return str(data_type)


def _refuse(given: str, allowed: Iterable[str], what: str = "a key") -> str:
    allowed = list(allowed)
    near = get_close_matches(given, allowed, n=1)
    hint = f", did you mean '{near[0]}'?" if near else ""
    return f"'{given}' is not {what} here{hint} (allowed: {', '.join(allowed)})"


def _explain(error: ValidationError, model: type[BaseModel], root: str) -> str:
    """The first problem of a pydantic error, as one line for a person."""
    problem = error.errors()[0]
    path = [str(part) for part in problem["loc"]]
    key = ".".join(filter(None, [root, *path]))
    kind = problem["type"]
    if kind == "extra_forbidden":
        owner = _model_at(model, path[:-1])
        names = [field.alias or name for name, field in owner.model_fields.items()]
        return f"{'.'.join(filter(None, [root, *path[:-1]]))}: {_refuse(path[-1], names)}"
    if kind == "missing":
        return f"{key} is missing"
    if kind == "literal_error":
        allowed = re.findall(r"'([^']*)'", str(problem["ctx"]["expected"]))
        return f"{key}: {_refuse(str(problem['input']), allowed, 'allowed')}"
    message = str(problem.get("ctx", {}).get("error", problem["msg"]))
    return f"{key}: {message} (given: {problem['input']!r})" if path else f"{key}: {message}"


def _model_at(model: type[BaseModel], path: list[str]) -> type[BaseModel]:
    for part in path:
        field = next(f for name, f in model.model_fields.items() if (f.alias or name) == part)
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            model = inner
    return model
