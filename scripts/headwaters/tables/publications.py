"""The publications of an exposure: `config.meta.publish`, parsed and checked without the tables.

A publication sends a model's table to another system: rows by their key, and deletes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from headwaters.platform.fields import Part, explain
from headwaters.platform.kafka_settings import Reference, Settings, client_problem
from headwaters.platform.names import not_allowed, or_nearest
from headwaters.platform.nodes import Node, as_tuple, setting, table_name
from headwaters.platform.postgres import VARIABLE
from headwaters.platform.problems import Problem

# The publishable types by PostgreSQL's names; nested ones become JSON.
TYPES = {
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "integer": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "decimal": "numeric",
    "string": "text",
    "varchar": "text",
    "char": "text",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
    "binary": "bytea",
    "array": "jsonb",
    "struct": "jsonb",
    "map": "jsonb",
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,239}")
_ROOT = "config.meta.publish"


# PostgreSQL cuts longer names, and two names could become one.
LONGEST_NAME = 63


def _of_the_environment(value: object) -> object:
    if isinstance(value, str):
        raise ValueError("is written {env: VARIABLE}")
    return value


def _table(value: object) -> object:
    if not _NAME.fullmatch(str(value)):
        raise ValueError("is not a table of PostgreSQL: write schema.table")
    if any(len(part.encode()) > LONGEST_NAME for part in str(value).split(".")):
        raise ValueError(f"has a name of over {LONGEST_NAME} bytes, which PostgreSQL would cut")
    return value if "." in str(value) else f"public.{value}"


def _topic(value: object) -> object:
    if not _TOPIC.fullmatch(str(value)):
        raise ValueError("is not a topic of Kafka: write letters, digits, '.', '_' and '-'")
    return value


class _Publish(Part):
    source: str = Field(alias="from")


class ToPostgres(_Publish):
    """`to: postgres`: rows are upserted into a table, deleted rows are deleted."""

    to: Literal["postgres"]
    table: Annotated[str, BeforeValidator(_table)]
    connection: Annotated[Reference, BeforeValidator(_of_the_environment)] = Reference(env=VARIABLE)

    @property
    def place(self) -> str:
        """Return the target's place."""
        return f"PostgreSQL {self.table}"


class ToKafka(_Publish):
    """`to: kafka`: rows are records of a compacted topic, deleted rows are tombstones."""

    to: Literal["kafka"]
    topic: Annotated[str, BeforeValidator(_topic)]
    servers: str | None = Field(default=None, alias="bootstrap_servers")
    client: Settings = Field(default_factory=dict)

    @property
    def place(self) -> str:
        """Return the target's place."""
        return f"topic {self.topic}"


_TARGETS: dict[str, type[ToPostgres | ToKafka]] = {"postgres": ToPostgres, "kafka": ToKafka}


class Publication(Part):
    """One table, sent to one target: an exposure's declaration with its model's."""

    exposure: str
    file: str
    schema_name: str
    table: str
    key: tuple[str, ...]
    target: ToPostgres | ToKafka

    @property
    def name(self) -> str:
        """Return the name in lines and errors."""
        return f"{self.exposure} → {self.target.place}"


def declared(exposure: Node) -> list[Any]:
    """Return the declared publications of an exposure: one mapping, a list of them, or nothing."""
    config = {"meta": {**(exposure.get("meta") or {}), **_meta(exposure)}}
    found = setting(config, "publish")
    return found if isinstance(found, list) else [] if found is None else [found]


def _meta(exposure: Node) -> Mapping[str, Any]:
    return (exposure.get("config") or {}).get("meta") or {}


def publications(exposure: Node, nodes: Mapping[str, Node]) -> list[Publication | Problem]:
    """Return an exposure's publications, or the problem of each; `nodes` are the manifest's."""
    place = f"{exposure['original_file_path']}: {exposure['name']}"
    return [
        found if isinstance(found, Publication) else found.at(place)
        for found in (_publication(one, exposure, nodes) for one in declared(exposure))
    ]


def publication_problems(
    exposures: Mapping[str, Node], nodes: Mapping[str, Node]
) -> Iterator[Problem]:
    """Yield the problems of the publications in a project's exposures."""
    taken: dict[str, str] = {}
    for exposure in exposures.values():
        for found in publications(exposure, nodes):
            if isinstance(found, Problem):
                yield found
            elif other := taken.get(found.target.place):
                text = f"{other} publishes to the {found.target.place} as well: name another"
                yield Problem("HW_PUBLISH", text).at(f"{found.file}: {found.exposure}")
            else:
                taken[found.target.place] = found.exposure


def _publication(given: Any, exposure: Node, nodes: Mapping[str, Node]) -> Publication | Problem:
    kind = given.get("to") if isinstance(given, Mapping) else None
    if not isinstance(given, Mapping) or kind is None:
        return Problem("HW_PUBLISH", f"{_ROOT}: write {{from: model, to: postgres, table: name}}")
    if kind not in _TARGETS:
        return Problem("HW_PUBLISH", f"{_ROOT}.to: {not_allowed(kind, _TARGETS, 'a target')}")
    if problem := _secret(given):
        return Problem("HW_PUBLISH_SECRET", f"{_ROOT}.{problem}")
    model = _TARGETS[kind]
    try:
        target = model.model_validate(given)
    except ValidationError as error:
        return Problem("HW_PUBLISH", explain(error, model, _ROOT))
    node = _model(target.source, exposure, nodes)
    if isinstance(node, Problem):
        return node
    if wrong := _model_problem(node):
        return wrong
    return Publication(
        exposure=exposure["name"],
        file=exposure["original_file_path"],
        schema_name=node["schema"],
        table=node.get("alias") or node["name"],
        key=as_tuple(node["config"]["unique_key"]),
        target=target,
    )


def _secret(given: Mapping[str, Any]) -> str | None:
    """Return the problem of a plain or unreadable secret, never its value."""
    if isinstance(given.get("connection"), str):
        return (
            "connection may hold a password, and dbt writes what the YAML says into target/: write "
            f"connection: {{env: {VARIABLE}}}, naming the environment variable that has it. Delete "
            "target/ if the value was real"
        )
    if problem := client_problem(given.get("client")):
        return f"client: {problem}"
    return None


def _model(source: str, exposure: Node, nodes: Mapping[str, Node]) -> Node | Problem:
    used = [nodes[key] for key in exposure["depends_on"]["nodes"] if key in nodes]
    models = {node["name"]: node for node in used if node["resource_type"] == "model"}
    schema, _, name = source.rpartition(".")
    node = models.get(name)
    schemas = (node["schema"], node["config"].get("schema")) if node else ()
    if node is None or (schema and schema not in schemas):
        names = [table_name(one) for one in models.values()]
        text = f"{_ROOT}.from: {source} is no model in depends_on{or_nearest(source, names)}"
        return Problem("HW_PUBLISH_MODEL", text)
    return node


def _model_problem(node: Node) -> Problem | None:
    config, name = node["config"], node["name"]
    if config.get("materialized") not in ("table", "incremental"):
        text = f"{name} is a {config.get('materialized')}: only a table can be published"
        return Problem("HW_PUBLISH_MODEL", text)
    key = as_tuple(config.get("unique_key"))
    if not key:
        return Problem(
            "HW_NO_UNIQUE_KEY",
            f"{name} is published and has no unique_key: name the columns that tell its rows apart",
        )
    columns = {one["name"]: str(one.get("data_type") or "") for one in node["columns"].values()}
    for column, kind in columns.items():
        if kind and base_type(kind) not in TYPES:
            return Problem("HW_PUBLISH_TYPE", f"{name}.{column}: {unpublishable(kind)}")
    for column in key:
        if base_type(columns.get(column, "")) in ("array", "struct", "map", "binary"):
            text = f"{name}.{column} is a column of unique_key: no {base_type(columns[column])}"
            return Problem("HW_PUBLISH_TYPE", text)
    return None


def base_type(data_type: str) -> str:
    """Return the base of a type: `decimal(12, 2)` → decimal."""
    return re.split(r"[(<\s]", data_type.strip().lower())[0]


def unpublishable(data_type: str) -> str:
    """Return the problem of a type that the target does not support, and the remedy."""
    return f"{data_type} cannot be published: cast it to a type that {', '.join(TYPES)} name"


def postgres_type(data_type: str) -> str:
    """Return PostgreSQL's name of a publishable type."""
    found = TYPES[base_type(data_type)]
    if found != "numeric":
        return found
    digits = re.findall(r"\d+", data_type) or ["10"]
    return f"numeric({digits[0]},{digits[1] if len(digits) > 1 else 0})"
