"""The contract of a stream: what `config.meta.stream` of a bronze source may say, and what follows.

The same contract is read by `headwaters ingest`, which writes the tables, and by the macro
`register_sources`, which shows them to dbt. Everything here is pure: no Spark, no files.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from headwaters.declared.names import not_allowed
from headwaters.declared.properties import DECLARED, declared_properties, in_order
from headwaters.declared.units import bytes_of, milliseconds_of
from headwaters.errors import UserError

# What each source says about where a record came from; Delta says nothing of a row as it is read.
ORIGIN: dict[str, tuple[tuple[str, str], ...]] = {
    "files": (("_source_file", "string"),),
    "kafka": (
        ("_topic", "string"),
        ("_partition", "int"),
        ("_offset", "bigint"),
        ("_timestamp", "timestamp"),
        ("_key", "binary"),
        ("_headers", "array<struct<key:string,value:binary>>"),
    ),
    "delta": (),
    "delta_changes": (
        ("_source_change", "string"),
        ("_source_version", "bigint"),
        ("_source_timestamp", "timestamp"),
    ),
    "rate": (("_offset", "bigint"),),
}
BATCH = (("_ingested_at", "timestamp"), ("_batch_id", "bigint"))
QUARANTINE_COLUMNS = (
    ("reason", "string"),
    ("field", "string"),
    ("message", "string"),
    ("record", "binary"),
    ("contract", "string"),
)
RESCUED = ("_rescued", "string")
# What reading and parsing call their own columns, and what Delta and Spark keep for theirs; in
# rows, since one name a line would be a page
_INTERNAL = (
    "_good", "_bad", "_raw", "_unread", "_keys", "_corrupt", "_unknown", "_uncast", "_whole",
    "_seen", "_row", "_avro", "_reason", "_place", "_metadata", "_change_type", "_commit_version",
    "_commit_timestamp",
)  # fmt: skip
RESERVED = frozenset(
    {name for origin in ORIGIN.values() for name, _ in origin}
    | {name for name, _ in (*BATCH, RESCUED)}
    | set(_INTERNAL)
)
# What answers otherwise when it is asked again: the list of macros/incremental/check_model.sql.
NONDETERMINISTIC = (
    "now|current_timestamp|current_date|curdate|localtimestamp|current_time"
    r"|unix_timestamp(?=\s*\(\s*\))|rand|randn|random|randstr|uniform|uuid|shuffle"
    "|monotonically_increasing_id|spark_partition_id|input_file_name"
)
CHANGE_FEED = ("delta.enableChangeDataFeed", "true")

_SCALARS = (
    "string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal",
    "date", "timestamp", "timestamp_ntz", "binary", "variant",
)  # fmt: skip


def seconds(text: object) -> float:
    """A length of time such as `30s` or `6 hours`, in seconds; a number is seconds."""
    if isinstance(text, int | float) and not isinstance(text, bool) and text >= 0:
        return float(text)
    length = milliseconds_of(text)
    if length is None:
        raise ValueError("is not a length of time: write 500ms, 30s, 5m or 1h")
    return length / 1000


Duration = Annotated[float, BeforeValidator(seconds)]


def _bytes(text: object) -> int:
    """A size such as `512m` in bytes, which is all that Spark's file source understands."""
    bare = re.fullmatch(r"\s*\d+\s*", str(text))
    size = int(bare[0]) if bare else bytes_of(text)
    if not size:
        raise ValueError("is not a size: write a number of bytes, or 512k, 64m, 1g")
    return size


Size = Annotated[int, BeforeValidator(_bytes)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


def _trigger(value: object) -> object:
    if value == "available_now":
        return value
    if value == "real_time":
        raise ValueError(
            "Spark's real-time mode runs no code of its own on a batch, and so cannot write bronze "
            "and quarantine exactly once: write a time such as 500ms"
        )
    try:
        return seconds(value)
    except ValueError:
        raise ValueError("is neither available_now nor a time such as 10s") from None


def _text(value: object) -> str:
    if isinstance(value, dict | list):  # an Avro schema may be written as YAML
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _texts(values: object) -> object:
    return {k: _text(v) for k, v in values.items()} if isinstance(values, dict) else values


Texts = Annotated[dict[str, str], BeforeValidator(_texts)]

# Settings of Kafka's clients, Java's and librdkafka's, that hold a secret or may hold one.
_SECRET = re.compile(
    r"(?i)password|passphrase|secret|jaas|private[._]key|basic\.auth|oauthbearer\.config"
    r"|ssl\.key\.pem|keystore\.key$"
)
_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def is_secret(setting: str) -> bool:
    """Whether a setting of Kafka's client is one whose value nobody else may read."""
    return bool(_SECRET.search(setting))


class Reference(_Part):
    """A value that stands in an environment variable: it is read where it is used, and not kept."""

    env: str


def _settings(values: object) -> object:
    if not isinstance(values, dict):
        return values
    return {
        key: value if isinstance(value, dict | Reference) else _text(value)
        for key, value in values.items()
    }


Settings = Annotated[dict[str, str | Reference], BeforeValidator(_settings)]


class Batch(_Part):
    """How much one micro-batch may hold."""

    max_files: int | None = Field(default=None, gt=0)
    max_bytes: Size | None = None
    max_records: int | None = Field(default=None, gt=0)
    min_records: int | None = Field(default=None, gt=0)
    max_delay: Duration | None = None


class StartAt(_Part):
    """A starting point that is neither the beginning nor the end of what the source holds."""

    offsets: dict[str, dict[int, int]] | None = None
    version: int | None = Field(default=None, ge=0)
    timestamp: datetime | None = None

    @model_validator(mode="after")
    def _just_one(self) -> StartAt:
        if len(self.model_dump(exclude_none=True)) != 1:
            raise ValueError("name one of offsets, version, timestamp")
        return self

    @property
    def kind(self) -> str:
        """What the point is given by."""
        return next(iter(self.model_dump(exclude_none=True)))


class Deduplicate(_Part):
    """A record whose key came before, and not longer ago than `within`, is no new one."""

    key: tuple[str, ...] = Field(min_length=1)
    event_time: str
    within: Duration


class Stream(_Part):
    """`config.meta.stream`: where the records come from and how they are treated.

    Each source has keys of its own, and those of others may stay declared: `from` says which one
    is read.
    """

    source: Literal["files", "kafka", "delta", "delta_changes", "rate"] = Field(alias="from")
    path: str | None = None
    topics: tuple[str, ...] = ()
    servers: str | None = None
    client: Settings = {}
    start: Literal["earliest", "latest"] | StartAt = "earliest"
    data_loss: Literal["fail", "skip"] = "fail"
    on_change: Literal["fail", "skip", "ignore"] = "fail"
    rows_per_second: int = Field(default=1, gt=0)
    format: Literal["json", "csv", "parquet", "avro", "raw"] | None = None
    options: Texts = {}
    batch: Batch = Batch()
    trigger: Annotated[Literal["available_now"] | float, BeforeValidator(_trigger)] = (
        "available_now"
    )
    schema_policy: Literal["fail", "rescue", "add_columns"] = Field(
        default="rescue", alias="schema"
    )
    bad_records: Literal["quarantine", "fail"] = "quarantine"
    deduplicate: Deduplicate | None = None

    @model_validator(mode="after")
    def _source_is_named(self) -> Stream:
        if self.source in ("files", "delta", "delta_changes") and self.path is None:
            what = "folder" if self.source == "files" else "Delta table"
            raise ValueError(f"path is missing: the {what}, relative to the lake")
        if self.source == "kafka" and not self.topics:
            raise ValueError("topics is missing: the topics to read, as a list")
        if self.source == "files" and self.batch.max_files and self.batch.max_bytes:
            raise ValueError(
                "batch: files are counted by max_files or by max_bytes, not by both: choose one"
            )
        return self

    @model_validator(mode="after")
    def _start_is_known_to_the_source(self) -> Stream:
        allowed = STARTS[self.source]
        given = self.start if isinstance(self.start, str) else self.start.kind
        if given not in allowed:
            raise ValueError(f"start: {_refuse(given, allowed, f'a start of {self.source}')}")
        return self

    @model_validator(mode="after")
    def _format_of_the_source(self) -> Stream:
        allowed = FORMATS.get(self.source)
        if allowed is None:
            return self
        if self.format is None:
            raise ValueError(f"format is missing: one of {', '.join(allowed)}")
        if self.format not in allowed:
            raise ValueError(f"format: {_refuse(self.format, allowed, f'read from {self.source}')}")
        options = FORMAT_OPTIONS[self.format]
        for option in self.options:
            if option not in options:
                raise ValueError(f"options: {_refuse(option, options)}")
        if self.format == "avro" and self.source == "kafka" and "avroSchema" not in self.options:
            raise ValueError("options: avroSchema is missing: the schema that records have")
        if self.format in ("csv", "raw") and self.schema_policy == "add_columns":
            raise ValueError(f"schema: add_columns: a record of {self.format} names no fields")
        return self


STARTS: dict[str, tuple[str, ...]] = {
    "files": ("earliest", "latest"),
    "kafka": ("earliest", "latest", "offsets", "timestamp"),
    "delta": ("earliest", "latest", "version", "timestamp"),
    "delta_changes": ("earliest", "latest", "version", "timestamp"),
    "rate": ("earliest",),
}
# The other sources deliver columns that have their types.
FORMATS: dict[str, tuple[str, ...]] = {
    "files": ("json", "csv", "parquet", "avro", "raw"),
    "kafka": ("json", "avro", "raw"),
}
FORMAT_OPTIONS: dict[str, tuple[str, ...]] = {
    "json": ("timestampFormat", "dateFormat", "allowComments", "allowSingleQuotes"),
    "csv": (
        "header", "sep", "quote", "escape", "comment", "encoding", "nullValue", "emptyValue",
        "timestampFormat", "dateFormat", "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace",
    ),
    "parquet": ("mergeSchema", "datetimeRebaseMode", "int96RebaseMode"),
    "avro": ("avroSchema", "confluent", "datetimeRebaseMode", "recursiveFieldMaxDepth"),
    "raw": (),
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
    schema_name: str = "bronze"

    def __hash__(self) -> int:
        """Of what can be hashed: a contract may be a key."""
        return hash((self.name, self.table, self.columns))

    @property
    def version(self) -> str:
        """A short name for exactly this contract, kept beside each quarantined record."""
        text = self.model_dump_json(exclude={"file", "schema_name"})
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def full_name(self) -> str:
        """The bronze table, with its schema."""
        return f"{self.schema_name}.{self.table}"

    @property
    def read_columns(self) -> tuple[Column, ...]:
        """The columns that stand in the record itself."""
        return tuple(column for column in self.columns if column.expression is None)

    @property
    def computed_columns(self) -> tuple[Column, ...]:
        """The columns that are computed from the ones that were read."""
        return tuple(column for column in self.columns if column.expression is not None)

    @property
    def form(self) -> str:
        """What a record is when it arrives: `json`, `csv`, `raw`, `avro`, or typed `columns`."""
        form = self.stream.format if self.stream.source in FORMATS else None
        if form == "avro" and self.stream.source == "files":
            return "columns"
        return form if form in ("json", "csv", "raw", "avro") else "columns"

    @property
    def rescues(self) -> bool:
        """Whether unknown fields are kept: a CSV file cannot name them record by record."""
        return self.stream.schema_policy != "fail" and self.form not in ("csv", "raw")

    @property
    def lineage(self) -> tuple[tuple[str, str], ...]:
        """The columns that say where a record came from."""
        return (*ORIGIN[self.stream.source], *BATCH)

    @property
    def origin(self) -> tuple[str, ...]:
        """The columns of the lineage that the source itself delivers."""
        return tuple(name for name, _ in ORIGIN[self.stream.source])

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
        return declared | {DECLARED: in_order(declared)}

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
    seen: dict[str, str] = {}
    for name in (str(column["name"]) for column in columns):
        if name.lower() in RESERVED:
            raise UserError(f"{where}: column {name}: this name is ingestion's own; choose another")
        if other := seen.get(name.lower()):
            raise UserError(
                f"{where}: columns {other} and {name} differ in case alone, and Spark takes them "
                "for one: rename one of them"
            )
        seen[name.lower()] = name
    if problem := _secret_in_the_open(meta["stream"]):
        raise UserError(f"{where}: config.meta.stream.client: {problem}")
    try:
        stream = Stream.model_validate(meta["stream"])
    except ValidationError as error:
        raise UserError(f"{where}: {_explain(error, Stream, 'config.meta.stream')}") from None
    try:
        contract = Contract(
            name=node["name"],
            table=node["identifier"],
            file=node["original_file_path"],
            stream=stream,
            columns=columns,  # type: ignore[arg-type]  # pydantic reads the YAML's dicts
            properties=declared_properties(node["config"]),
            schema_name=node["schema"],
        )
    except ValidationError as error:
        raise UserError(f"{where}: {_explain(error, Contract, '')}") from None
    if problem := _columns_for_the_stream(contract) or _changes_by_itself(contract):
        raise UserError(f"{where}: {problem}")
    return contract


def _secret_in_the_open(stream: object) -> str | None:
    """What is wrong with the settings of Kafka's client, or None; a value is never shown.

    A secret in the YAML, or from `env_var`, would be in dbt's manifest and in the checkpoint.
    """
    client = stream.get("client") if isinstance(stream, Mapping) else None
    if client is None:
        return None
    if not isinstance(client, Mapping):
        return "is not a mapping of settings to values"
    for key, value in client.items():
        if isinstance(value, Mapping):
            name = value.get("env")
            if set(value) != {"env"} or not _VARIABLE.fullmatch(str(name)):
                return f"{key}: a value from the environment is written {{env: VARIABLE}}"
        elif is_secret(str(key)):
            return (
                f"{key} is a secret, and dbt writes what the YAML says into target/: write "
                f"{key}: {{env: VARIABLE}}, naming the environment variable that has it. Delete "
                "target/ if the value was real"
            )
    return None


def new_columns(
    contract: Contract, names: Iterable[str], types: Mapping[str, str]
) -> list[tuple[str, str]]:
    """The columns that unknown fields become: in their own type, or as text where they have none.

    A name that no column can have, that is ingestion's own, or that differs from another in case
    alone, is left out.
    """
    taken = {name.lower() for name, _ in contract.bronze_columns()} | RESERVED
    found = []
    for name in names:
        if name.lower() not in taken and re.fullmatch(r"[^\s,;{}()=.`]+", name):
            found.append((name, types.get(name, "string")))
            taken.add(name.lower())
    return found


def _columns_for_the_stream(contract: Contract) -> str | None:
    """What is wrong with the columns of a stream that wants certain ones, or None."""
    types = {column.name: column.data_type.strip().lower() for column in contract.columns}
    read = [column.name for column in contract.read_columns]
    if contract.form == "raw" and [types[name] for name in read] not in (["binary"], ["string"]):
        return "format: raw wants one column of type binary or string, for the record as it came"
    if contract.stream.source == "rate":
        for name in set(read) - {"timestamp", "value"}:
            return f"column {name}: {_refuse(name, ('timestamp', 'value'), 'a column of rate')}"
    if wanted := contract.stream.deduplicate:
        for name in (*wanted.key, wanted.event_time):
            if name not in types:
                return f"config.meta.stream.deduplicate: {_refuse(name, types, 'a column')}"
        if types[wanted.event_time] != "timestamp":
            return f"config.meta.stream.deduplicate: {wanted.event_time} is not a timestamp"
    return None


def _changes_by_itself(contract: Contract) -> str | None:
    """What is wrong with an expression that answers otherwise each time, or None.

    A batch is looked at twice, for bronze and for quarantine, and again after a crash: a record
    could be in both tables, or in neither.
    """
    bare = "current_timestamp|current_date|localtimestamp|current_time"
    call = rf"(?i)(?<![\w.`])(?:({bare})(?![\w`])|({NONDETERMINISTIC})\s*\()"
    for column in contract.columns:
        for expression in (column.expression, *(rule.expression for rule in column.constraints)):
            code = re.sub(r"(?s)/\*.*?\*/|--[^\n]*|'(?:[^'\\]|\\.)*'", " ", expression or "")
            if found := re.search(call, code):
                return (
                    f"column {column.name}: expression {expression}: {found[1] or found[2]} "
                    "answers otherwise each time, and a batch that runs again must end in the same "
                    "rows: take the moment from a column of the record"
                )
    return None


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
    return not_allowed(given, allowed, what)


def _explain(error: ValidationError, model: type[BaseModel], root: str) -> str:
    """The first problem of a pydantic error, as one line for a person."""
    # a misspelt key first; and of one that takes words or a mapping, what is wrong with the mapping
    problem = min(
        error.errors(),
        key=lambda p: (
            p["type"] != "extra_forbidden",
            p["type"] == "literal_error" and isinstance(p["input"], Mapping),
        ),
    )
    path = [str(part) for part in problem["loc"] if not _names_a_type(part)]
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


def _names_a_type(part: object) -> bool:
    """Whether a step of a pydantic error's path is a member of a union instead of a key."""
    return isinstance(part, str) and "[" in part


def _model_at(model: type[BaseModel], path: list[str]) -> type[BaseModel]:
    for part in path:
        field = next(f for name, f in model.model_fields.items() if (f.alias or name) == part)
        for inner in (field.annotation, *get_args(field.annotation)):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                model = inner
    return model
