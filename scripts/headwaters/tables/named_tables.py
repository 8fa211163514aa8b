"""The tables of a project by the names that a user may give for them, and hidden ones. Pure.

`graph` is dbt's: `nodes` and `sources`, each by unique id. The hidden tables of a model are
`<model>__hw_stage_<n>`, from 1 on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headwaters.platform.errors import UserError
from headwaters.platform.names import or_nearest
from headwaters.platform.nodes import Node, table_name

Graph = Mapping[str, Mapping[str, Node]]

_MATERIALIZED = ("table", "incremental", "seed")
# The adapter's package declares the tables of the schema `ops`.
_OURS = "dbt_headwaters"


@dataclass(frozen=True)
class NamedTable:
    """The table of a name; `node` is None if the project does not declare it.

    `names` are those of all tables that the project declares.
    """

    schema: str | None
    identifier: str | None
    node: Node | None
    names: tuple[str, ...]


def table_nodes(graph: Graph, select: Iterable[str]) -> dict[str, Node]:
    """Return the nodes that are tables, by name of the table: models, seeds and sources.

    `select` has names of tables (`gold.sessions`), of nodes (`sessions`) or of schemas (`gold`).
    Without it, return all but the tables of the schema `ops`: each operation writes to them, so a
    second `maintain` would always have work.

    Raises:
        UserError: a selected name is of no table and of no schema.
    """
    wanted = [name for text in select for name in str(text).split()]
    found: dict[str, Node] = {}
    known: list[str] = []
    unknown = dict.fromkeys(wanted)
    for node in _nodes(graph):
        if not _is_table(node):
            continue
        known += names_of(node)
        names = {*names_of(node), node["schema"], _layer_of(node)}
        if names & {*wanted} or (not wanted and node["package_name"] != _OURS):
            found[table_name(node)] = node
        unknown = {name: None for name in unknown if name not in names}
    for name in unknown:
        hint = or_nearest(name, known)
        raise UserError(
            "HW_NO_SUCH_TABLE",
            f"select: there is no table, model, source or schema '{name}'{hint}",
        )
    return {name: found[name] for name in sorted(found, key=str.lower)}


def named_table(graph: Graph, operation: str, table: object) -> NamedTable:
    """Return the table that an operation names: `gold.sessions`, or a model, seed or source.

    Raises:
        UserError: several tables have the name.
    """
    names: list[str] = []
    meant: dict[str, Node] = {}
    for node in _nodes(graph):
        if node["resource_type"] in ("source", "model", "seed"):
            names.append(names_of(node)[0])
            if table in names_of(node):
                meant[table_name(node)] = node
    if len(meant) > 1 and table not in meant:
        raise UserError(
            "HW_AMBIGUOUS_TABLE",
            f"{operation}: '{table}' is the name of {' and of '.join(sorted(meant))}: write the "
            "one that is meant. Nothing was changed.",
        )
    if meant:
        node = meant.get(str(table)) or next(iter(meant.values()))
        identifier = node.get("identifier") or node["alias"]
        return NamedTable(node["schema"], identifier, node, tuple(names))
    if isinstance(table, str) and "." in table:
        schema, identifier = table.split(".", 1)
        return NamedTable(schema, identifier, None, tuple(names))
    return NamedTable(None, None, None, tuple(names))


def followers_of(graph: Graph, node: Node | None) -> list[str]:
    """Return the tables of the models that read a node, which apply a repair in their next run."""
    models = (
        f"{other['schema']}.{other['alias']}"
        for other in _readers(graph["nodes"].values(), node)
        if other["resource_type"] == "model"
    )
    return sorted(models, key=str.lower)


def dependents_of(graph: Graph, node: Node | None) -> list[str]:
    """Return the models, snapshots and exposures that read a node, each with its kind."""
    others = [*graph["nodes"].values(), *graph.get("exposures", {}).values()]
    return [
        f"{other['resource_type']} {other['name']}"
        for other in _readers(others, node)
        if other["resource_type"] in ("model", "exposure", "snapshot")
    ]


def names_of(node: Node) -> list[str]:
    """Return the names that a user may give for a table.

    They are its own, in the schemas of any target, and the name of its model or source. Tables of
    the schema `ops` have only the former, since a project may have a model `operations`.
    """
    identifier = node.get("identifier") or node["alias"]
    names = [f"{_layer_of(node)}.{identifier}", table_name(node)]
    return names if node["package_name"] == _OURS else [*names, node["name"]]


def hidden_table_name(table: str, number: int) -> str:
    """Return the name of a hidden table of a model's table."""
    return f"{table}__hw_stage_{number}"


def table_of_hidden(table: str) -> tuple[str, int] | None:
    """Return the model's table and the number of a hidden table; None for other tables."""
    found = re.fullmatch(r"(.+)__hw_stage_(\d+)", table)
    return (found[1], int(found[2])) if found else None


def hidden_table_count(proof: str | None) -> int:
    """Return the number of hidden tables that a table's property `headwaters.proof` notes.

    Raise ValueError if it is damaged.
    """
    noted = json.loads(proof or "null")
    stages = noted.get("stages") if isinstance(noted, dict) else None
    return len(stages["tables"]) if stages else 0


def used_hidden_tables(proof: str | None) -> int:
    """Return the number of hidden tables; a damaged note counts as none, as if never written."""
    try:
        return hidden_table_count(proof)
    except ValueError:
        return 0


def _layer_of(node: Node) -> str:
    if node["resource_type"] == "source":
        return str(node["source_name"])
    return str(node["config"].get("schema") or node["schema"])


def _is_table(node: Node) -> bool:
    if node["resource_type"] == "source":
        return True
    materialized = node["config"].get("materialized")
    return node["resource_type"] in ("model", "seed") and materialized in _MATERIALIZED


def _nodes(graph: Graph) -> Iterator[Node]:
    yield from graph["nodes"].values()
    yield from graph["sources"].values()


def _readers(nodes: Iterable[Node], node: Node | None) -> Iterator[Node]:
    if node is None:
        return
    for other in nodes:
        if node["unique_id"] in other.get("depends_on", {}).get("nodes", ()):
            yield other
