"""The contract of a stream: the settings in `config.meta.stream` of a bronze source, parsed.

`headwaters ingest`, which writes the tables, and the macro `register_sources`, which shows them to
dbt, read the same contract. Pure: no Spark, no files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from headwaters.platform.delta_version import FEED
from headwaters.platform.errors import UserError
from headwaters.platform.fields import Duration, Part, explain, seconds
from headwaters.platform.names import not_allowed
from headwaters.platform.spark_version import BARE_FUNCTIONS, CHANGING_FUNCTIONS, ENCODINGS
from headwaters.streams.columns import meta_of, names_problem, read_as, read_from
from headwaters.streams.formats.declared import FORMATS, DeclaredFormat, FormatKeys
from headwaters.streams.formats.placeholders import (
    may_be_unavailable,
    names_in,
    placeholder_of,
)
from headwaters.streams.sources.declared import SOURCES, BatchLimits, DeclaredSource, SourceKeys
from headwaters.tables.data_types import column_type_problem, data_type_problem, in_one_spelling
from headwaters.tables.properties import DECLARED, declared_properties, in_order

BATCH = (("_ingested_at", "timestamp"), ("_batch_id", "bigint"))
QUARANTINE_COLUMNS = (
    ("reason", "string"),
    ("field", "string"),
    ("message", "string"),
    ("record", "binary"),
    ("contract", "string"),
)
# The key of the row that a change event in quarantine changes, as JSON; NULL if it is unknown
ROW_KEY = ("row_key", "string")
RESCUED = ("_rescued", "string")
# The names of columns whose value a change event lacks; NULL if it has all of them
UNAVAILABLE = ("_unavailable", "array<string>")
# Columns of ingestion, and names that Delta and Spark reserve; several a line, because one a line
# would fill a page
_INTERNAL = (
    "_good", "_bad", "_raw", "_unknown", "_uncast", "_seen", "_reason", "_place", "_metadata",
    "_change_type", "_commit_version", "_commit_timestamp",
)  # fmt: skip
RESERVED = frozenset(
    {name for source in SOURCES.values() for name, _ in source.origin}
    | {name for format_ in FORMATS.values() for name in format_.internal}
    | {name for name, _ in (*BATCH, RESCUED)}
    | set(_INTERNAL)
)
# The name of Debezium's envelope in a stream's expressions: `payload.op`
ENVELOPE = ("schema", "payload")
CHANGE_FEED = (FEED, "true")


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


class Deduplicate(Part):
    """A rule that a record repeats an earlier one if its key occurred within `within`."""

    key: tuple[str, ...] = Field(min_length=1)
    event_time: str
    within: Duration


class StreamContract(FormatKeys, SourceKeys):
    """`config.meta.stream`: the source of the records, and their treatment."""

    batch: BatchLimits = BatchLimits()
    trigger: Annotated[Literal["available_now"] | float, BeforeValidator(_trigger)] = (
        "available_now"
    )
    schema_policy: Literal["fail", "rescue", "add_columns"] = Field(
        default="rescue", alias="schema"
    )
    bad_records: Literal["quarantine", "fail"] = "quarantine"
    deduplicate: Deduplicate | None = None
    # other writers that may append to bronze
    writers: tuple[Literal["foreign"], ...] = ()

    @model_validator(mode="after")
    def _source_is_named(self) -> StreamContract:
        if problem := SOURCES[self.source].keys_problem(self, self.batch):
            raise ValueError(problem)
        return self

    @model_validator(mode="after")
    def _start_is_known_to_the_source(self) -> StreamContract:
        allowed = SOURCES[self.source].starts
        given = self.start if isinstance(self.start, str) else self.start.kind
        if given not in allowed:
            raise ValueError(f"start: {_refuse(given, allowed, f'a start of {self.source}')}")
        return self

    @model_validator(mode="after")
    def _format_of_the_source(self) -> StreamContract:
        carrier = SOURCES[self.source].delivers
        if carrier is None:
            return self
        allowed = [name for name, one in FORMATS.items() if carrier in one.carriers]
        if self.format is None:
            raise ValueError(f"format is missing: one of {', '.join(allowed)}")
        if self.format not in allowed:
            raise ValueError(f"format: {_refuse(self.format, allowed, f'read from {self.source}')}")
        declared = FORMATS[self.format]
        for option in self.options:
            if option not in declared.options:
                raise ValueError(f"options: {_refuse(option, declared.options)}")
        encoding = self.options.get("encoding")
        if encoding is not None and encoding.lower() not in ENCODINGS:
            raise ValueError(
                f"options: encoding: {_refuse(encoding, ENCODINGS, 'an encoding')}: convert others "
                "to UTF-8 before they land"
            )
        if self.layout != "lines":
            if self.format != "json" or carrier != "files":
                raise ValueError(f"layout: {self.layout} is for files of format: json alone")
            if loose := [name for name in self.options if name.startswith("allow")]:
                raise ValueError(f"options: {loose[0]} is not possible with layout: {self.layout}")
        if problem := self._registry_problem(carrier):
            raise ValueError(problem)
        for option, what in declared.required.get(carrier, {}).items():
            if option not in self.options and self.schemas is None:
                raise ValueError(f"options: {option} is missing: {what}")
        if not declared.names_fields and self.schema_policy == "add_columns":
            raise ValueError(f"schema: add_columns: a record of {self.format} names no fields")
        return self

    def _registry_problem(self, carrier: str) -> str | None:
        """Return the problem of the keys of a schema registry, or None."""
        if self.registry is None:
            given = "schemas" if self.schemas else "schemas_user" if self.schemas_user else None
            return given and f"{given}: registry is missing: write registry: confluent beside it"
        if carrier != "messages" or self.format not in ("json", "avro"):
            return "registry: only messages of format: json or avro have the bytes of a registry"
        if self.format == "json":
            return "schemas: JSON is read without its schemas: remove it" if self.schemas else None
        if self.schemas is None:
            wanted = "the address of the registry, or a folder with files such as 42.avsc"
            return f"schemas is missing: {wanted}"
        for option in ("avroSchema", "confluent"):
            if option in self.options:
                return f"options: {option} is not possible with schemas, which say it: remove it"
        scheme, found, _ = self.schemas.partition("://")
        if found and scheme not in ("http", "https"):
            return f"schemas: {self.schemas} is neither http://…, https://… nor a folder"
        if "@" in self.schemas:
            return "schemas: an address has no password: write schemas_user: {env: VARIABLE}"
        return None

    @model_validator(mode="after")
    def _envelope_is_json(self) -> StreamContract:
        if self.changes is None or self.changes.envelope == "flat":
            return self
        if self.format != "json":
            raise ValueError("changes: envelope: debezium wants format: json")
        if loose := [name for name in self.options if name.startswith("allow")]:
            raise ValueError(f"options: {loose[0]} is not possible with envelope: debezium")
        return self


class Constraint(Part):
    """A rule on a column; a record that breaks it goes to quarantine."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    type: Literal["not_null", "check"]
    expression: str | None = None

    @model_validator(mode="after")
    def _a_check_has_an_expression(self) -> Constraint:
        if self.type == "check" and not self.expression:
            raise ValueError("a check needs an expression")
        return self


class DeclaredColumn(Part):
    """A column of the bronze table, read from the record or computed from other columns."""

    name: str
    data_type: Annotated[str, AfterValidator(in_one_spelling)]
    expression: str | None = None
    constraints: tuple[Constraint, ...] = ()
    # the field of the record, or the names on the path to it; None if it has the column's name
    read_from: str | tuple[str, ...] | None = None
    # false for the objects of paths, which only ingestion reads
    stored: bool = True

    @property
    def path(self) -> tuple[str, ...]:
        """Return the names from the record to the value."""
        given = self.name if self.read_from is None else self.read_from
        return (given,) if isinstance(given, str) else given

    @property
    def field(self) -> str:
        """Return the field of the record that has the value."""
        return self.path[0]


class Contract(Part):
    """One bronze table and its quarantine, with the stream that fills both."""

    name: str
    table: str
    file: str
    stream: StreamContract
    columns: tuple[DeclaredColumn, ...]
    properties: dict[str, str] = Field(default_factory=dict)
    schema_name: str = "bronze"

    def __hash__(self) -> int:
        """Hash the hashable parts, so that a contract can be a key."""
        return hash((self.name, self.table, self.columns))

    @property
    def version(self) -> str:
        """Return a short identifier of this contract, stored with each quarantined record."""
        text = self.model_dump_json(exclude={"file", "schema_name"})
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def full_name(self) -> str:
        """Return the bronze table, with its schema."""
        return f"{self.schema_name}.{self.table}"

    @property
    def stored_columns(self) -> tuple[DeclaredColumn, ...]:
        """Return the columns of bronze."""
        return tuple(column for column in self.columns if column.stored)

    @property
    def read_columns(self) -> tuple[DeclaredColumn, ...]:
        """Return the columns in the record itself."""
        return tuple(column for column in self.columns if column.expression is None)

    @property
    def computed_columns(self) -> tuple[DeclaredColumn, ...]:
        """Return the columns computed from other columns."""
        return tuple(column for column in self.columns if column.expression is not None)

    @property
    def envelope(self) -> tuple[str, ...]:
        """Return Debezium's envelope, which expressions may also use, or nothing."""
        changes = self.stream.changes
        return ENVELOPE if changes is not None and changes.envelope == "debezium" else ()

    @property
    def source(self) -> DeclaredSource:
        """Return its source's declaration."""
        return SOURCES[self.stream.source]

    @property
    def format(self) -> DeclaredFormat | None:
        """Return the format of its records, or None if the source delivers typed rows."""
        named = self.stream.format
        return None if self.source.delivers is None or named is None else FORMATS[named]

    @property
    def form(self) -> str:
        """Return the form of an arriving record: its format, or typed `columns`."""
        if self.format is None or self.source.delivers in self.format.typed_in:
            return "columns"
        return self.format.name

    @property
    def rescues(self) -> bool:
        """Return true if unknown fields are rescued; in CSV, records cannot name them."""
        named = self.format is None or self.format.names_fields
        return named and self.stream.schema_policy != "fail"

    @property
    def placeholder(self) -> str | None:
        """Return the placeholder of values that a change event may lack, or None."""
        changes = self.stream.changes
        return (
            placeholder_of(changes.unavailable_value) if changes and self.form == "json" else None
        )

    @property
    def marks(self) -> tuple[tuple[str, str], ...]:
        """Return the columns of bronze that mark missing values of a change event."""
        return () if self.placeholder is None else (UNAVAILABLE,)

    def maybe_unavailable(self) -> dict[str, tuple[str, ...]]:
        """Map each column that an event may lack to the columns that are read for it.

        A computed column lacks its value if its expression mentions a column that does.
        """
        changes = self.stream.changes
        if changes is None or self.placeholder is None:
            return {}
        found: dict[str, tuple[str, ...]] = {}
        for column in self.columns:
            if column.expression is None:
                if column.name not in changes.key and may_be_unavailable(column.data_type):
                    found[column.name] = (column.field,)
            elif named := names_in(column.expression, list(found)):
                found[column.name] = tuple(dict.fromkeys(n for one in named for n in found[one]))
        return found

    @property
    def lineage(self) -> tuple[tuple[str, str], ...]:
        """Return the columns with a record's origin."""
        return (*self.source.origin, *BATCH)

    @property
    def origin(self) -> tuple[str, ...]:
        """Return the columns of the lineage that the source itself delivers."""
        return tuple(name for name, _ in self.source.origin)

    def bronze_columns(self) -> list[tuple[str, str]]:
        """Return name and type of every column of the bronze table, in order."""
        declared = [(column.name, column.data_type) for column in self.columns]
        rescued = [RESCUED] if self.rescues else []
        return [*declared, *rescued, *self.marks, *self.lineage]

    def quarantine_columns(self) -> list[tuple[str, str]]:
        """Return name and type of every column of the quarantine table, in order."""
        changed = [ROW_KEY] if self.stream.changes is not None else []
        return [*QUARANTINE_COLUMNS, *changed, *self.lineage]

    def bronze_properties(self) -> dict[str, str]:
        """Return table properties of the bronze table."""
        declared = dict([CHANGE_FEED]) | self.properties
        return declared | {DECLARED: in_order(declared)}

    def quarantine_properties(self) -> dict[str, str]:
        """Return the quarantine's properties; other declared ones may name columns."""
        owners = {key: text for key, text in self.properties.items() if key.startswith("catalog.")}
        return dict([CHANGE_FEED]) | owners


def parse_contract(node: Mapping[str, Any]) -> Contract:
    """Return the contract in a source node of dbt's manifest.

    Raises UserError with file, table and key, and the allowed values.
    """
    where = f"{node['original_file_path']}: {node['source_name']}.{node['name']}"
    meta = node["config"]["meta"]
    columns = [
        {
            "name": column["name"],
            "data_type": _data_type(where, column),
            "expression": meta_of(column).get("expression"),
            "read_from": read_from(where, column),
            "constraints": [dict(constraint) for constraint in column.get("constraints") or ()],
        }
        for column in node["columns"].values()
    ]
    if not columns:
        raise UserError(
            "HW_CONTRACT", f"{where}: no columns: a stream needs its columns with their data_type"
        )
    named = [(str(column["name"]), str(column["data_type"])) for column in columns]
    if problem := names_problem(named, RESERVED):
        raise UserError("HW_CONTRACT", f"{where}: {problem}")
    stream = stream_of(where, meta["stream"])
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
        raise UserError("HW_CONTRACT", f"{where}: {explain(error, Contract, '')}") from None
    if problem := _columns_for_the_stream(contract):
        raise UserError("HW_CONTRACT", f"{where}: {problem}")
    if problem := _changes_by_itself(contract):
        raise UserError("HW_CONTRACT_EXPRESSION", f"{where}: {problem}")
    return contract


def stream_of(where: str, declared: object) -> StreamContract:
    """Return the settings of a stream. Raises UserError with the place, the key and its values."""
    if problem := _unread_problem(declared):
        raise UserError("HW_CONTRACT_CLIENT", f"{where}: config.meta.stream.{problem}")
    try:
        return StreamContract.model_validate(declared)
    except ValidationError as error:
        raise UserError(
            "HW_CONTRACT", f"{where}: {explain(error, StreamContract, 'config.meta.stream')}"
        ) from None


def _unread_problem(stream: object) -> str | None:
    """Return the problem of a declared key that no source may read, or None."""
    keys = stream if isinstance(stream, Mapping) else {}
    return next(filter(None, (source.unread_problem(keys) for source in SOURCES.values())), None)


def new_columns(
    contract: Contract, names: Iterable[str], types: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return columns for unknown fields: in their own type, or as text if they have none.

    It omits names that are invalid, that ingestion uses, or that differ from another only in case.
    """
    taken = {name.lower() for name, _ in contract.bronze_columns()} | RESERVED
    found = []
    for name in names:
        if name.lower() not in taken and re.fullmatch(r"[^\s,;{}()=.`]+", name):
            found.append((name, types.get(name, "string")))
            taken.add(name.lower())
    return found


def _columns_for_the_stream(contract: Contract) -> str | None:
    """Return the problem of the columns, if the stream requires certain ones, or None."""
    types = {column.name: column.data_type for column in contract.columns}
    read = [column.name for column in contract.read_columns]
    problem = contract.format and contract.format.columns_problem([types[name] for name in read])
    fields = [column.field for column in contract.read_columns]
    if problem := problem or contract.source.columns_problem(fields) or _fields_problem(contract):
        return problem
    if problem := _changes_problem(contract, read):
        return f"config.meta.stream.changes: {problem}"
    if wanted := contract.stream.deduplicate:
        for name in (*wanted.key, wanted.event_time):
            if name not in types:
                return f"config.meta.stream.deduplicate: {_refuse(name, types, 'a column')}"
        if types[wanted.event_time] != "timestamp":
            return f"config.meta.stream.deduplicate: {wanted.event_time} is not a timestamp"
    return None


def _changes_problem(contract: Contract, read: Sequence[str]) -> str | None:
    """Return the problem of the columns of a stream of changes, or None."""
    changes = contract.stream.changes
    if changes is None:
        return None
    for name in changes.key:
        if name not in read:
            return f"key: {_refuse(name, read, 'a column that is read')}"
    for column in contract.read_columns:
        if column.name.lower() in contract.envelope:
            instead = read_as(f"row_{column.name}", column.data_type, column.field)
            return f"column {column.name}: this name is the envelope's own: write {instead}"
    return None


def _fields_problem(contract: Contract) -> str | None:
    """Return the problem of the fields that the columns read, or None."""
    declared, form = contract.format, contract.form
    columns = contract.read_columns
    other = next((column for column in columns if column.read_from is not None), None)
    if other and declared and not declared.names_fields and form != "csv":
        return f"column {other.name}: from: a record of {declared.name} has no fields"
    for column in columns if form in ("json", "csv") else ():
        if problem := data_type_problem(column.data_type, keys_are_texts=True):
            return f"column {column.name}: data_type {problem}"
    path = next((column for column in columns if len(column.path) > 1), None)
    if form == "csv":
        options, fields = contract.stream.options, [column.field.lower() for column in columns]
        if other and options.get("header") == "false":
            return f"column {other.name}: from: options: header is false, so there are no names"
        if (len(set(fields)) < len(fields) or "" in fields) and len(options.get("sep", ",")) > 1:
            return "options: sep is one character if the header has a name twice, or an empty one"
        return f"column {path.name}: from: a row of csv has no paths" if path else None
    if empty := next((column for column in columns if "" in column.path), None):
        return f"column {empty.name}: from: the name is empty, which only a header of csv may have"
    if path and contract.stream.changes:
        return (
            f"column {path.name}: from: a change event has no paths: declare {path.field} as a "
            "struct, and compute the column from it"
        )
    # Spark compares the names of columns, and of the fields of an envelope, without case
    folds = form != "json" or bool(contract.envelope)
    paths = [
        (column.field.lower() if folds else column.field, *map(str.lower, column.path[1:]))
        for column in columns
    ]
    for (one, first), (other_path, second) in combinations(zip(paths, columns, strict=True), 2):
        shorter = min(len(one), len(other_path))
        if one[:shorter] == other_path[:shorter]:
            return (
                f"columns {first.name} and {second.name} read one field, {second.field}: read it "
                "once, and compute the other column by an expression"
            )
    return None


def _changes_by_itself(contract: Contract) -> str | None:
    """Return the problem of a nondeterministic expression, or None.

    A batch is evaluated twice, for bronze and for quarantine, and again after a crash. A record
    could end up in both tables, or in neither.
    """
    # a column shadows a function that is called without brackets
    bare = "|".join(sorted(BARE_FUNCTIONS - {column.name.lower() for column in contract.columns}))
    called = "|".join(sorted(CHANGING_FUNCTIONS)) + r"|unix_timestamp(?=\s*\(\s*\))"
    call = rf"(?i)(?<![\w.`])(?:({bare})(?![\w`])|({called})\s*\()"
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
    if problem := column_type_problem(column["name"], data_type):
        raise UserError("HW_CONTRACT", f"{where}: {problem}")
    return str(data_type)


def _refuse(given: str, allowed: Iterable[str], what: str = "a key") -> str:
    return not_allowed(given, allowed, what)
