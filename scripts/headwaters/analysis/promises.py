"""What a project promises of its tables' keys: strategies, constraints and tests say it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from headwaters.analysis.strategies import strategy_of
from headwaters.platform.nodes import Node, as_tuple, table_name

Graph = Mapping[str, Mapping[str, Node]]
# The graph of an invocation is one object, and large.
_read: list[tuple[Graph, dict[str, list[frozenset[str]]]]] = []


def keys_of(sources: Iterable[str], graph: Graph) -> dict[str, list[frozenset[str]]]:
    """For each table, by its name in SQL: the sets of columns that tell its rows apart."""
    known = next((keys for read, keys in _read if read is graph), None)
    if known is None:
        known = unique_columns(graph)
        _read[:] = [(graph, known)]
    return {source: known.get(plain(source), []) for source in sources}


def plain(source: str) -> str:
    """A table's name as the graph has it."""
    return source.replace("`", "").lower()


def unique_columns(
    graph: Mapping[str, Mapping[str, Node]],
) -> dict[str, list[frozenset[str]]]:
    """Sets of columns that tell a table's rows apart, by the table's name in lower case.

    From `unique_key` of models that the engine maintains, `unique` and
    `unique_combination_of_columns` tests that fail a build, and declared keys. `unique` leaves NULL
    out: it counts where a column is `not_null` as well.
    """
    tables = {**graph.get("nodes", {}), **graph.get("sources", {})}
    promised: dict[str, list[Promise]] = {}
    for identifier, node in tables.items():
        if node["resource_type"] == "test":
            on = [name for name in node["depends_on"]["nodes"] if name in tables]
            if len(on) == 1:
                promised.setdefault(on[0], []).extend(_tested(node))
        elif node["resource_type"] in ("model", "source", "seed", "snapshot"):
            promised.setdefault(identifier, []).extend(_declared(node))
    return {
        table_name(tables[identifier]).lower(): keys
        for identifier, promises in promised.items()
        if (keys := _keys(promises))
    }


# A test's settings under which each row that it finds fails a build.
_FAILS = {
    "severity": "error",
    "error_if": "!= 0",
    "fail_calc": "count(*)",
    "where": "",
    "limit": "",
}
# What is promised of columns: a `key`, `unique` where they are not NULL, or `not_null`.
Kind = Literal["key", "unique", "not_null"]
Promise = tuple[Kind, frozenset[str]]
_PROMISES: dict[str, Kind] = {"primary_key": "key", "unique": "unique", "not_null": "not_null"}


def _keys(promises: Sequence[Promise]) -> list[frozenset[str]]:
    """The sets of columns that tell rows apart, NULL or not."""
    filled = frozenset[str]().union(*(names for kind, names in promises if kind == "not_null"))
    return [
        names
        for kind, names in promises
        if names and (kind == "key" or (kind == "unique" and names <= filled))
    ]


def _declared(node: Node) -> Iterator[Promise]:
    config = node["config"]
    strategy = strategy_of(config)
    if config.get("materialized") == "incremental" and strategy is not None:
        names = as_tuple(config.get("unique_key"))
        if names:
            yield "key", frozenset(name.lower() for name in (*names, *strategy.further_keys))
    for constraint in node.get("constraints") or ():
        yield from _promise(constraint["type"], constraint.get("columns") or ())
    for name, column in (node.get("columns") or {}).items():
        for constraint in column.get("constraints") or ():
            yield from _promise(constraint["type"], [name])


def _tested(node: Node) -> Iterator[Promise]:
    """What a test holds of columns in all rows."""
    config, test = node["config"], node.get("test_metadata") or {}
    if any(str(config.get(name) or given).lower() != given for name, given in _FAILS.items()):
        return
    arguments = test.get("kwargs", {})
    if arguments.get("column_name"):
        yield from _promise(test.get("name") or "", [arguments["column_name"].strip("`")])
    if test.get("name") == "unique_combination_of_columns":
        columns = arguments.get("combination_of_columns", ())
        yield "key", frozenset(name.lower() for name in columns)


def _promise(name: str, columns: Iterable[str]) -> Iterator[Promise]:
    """What a test or a constraint of this name promises."""
    if name in _PROMISES:
        yield _PROMISES[name], frozenset(column.lower() for column in columns)
