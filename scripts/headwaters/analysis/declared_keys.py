"""The keys that a project promises for its tables by strategies, constraints and tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from headwaters.analysis.strategies import strategy_of
from headwaters.platform.nodes import Node, as_tuple, table_name

Graph = Mapping[str, Mapping[str, Node]]


class PromisedKeys(NamedTuple):
    """Sets of columns that identify the rows of a table: all of them, or those without NULL."""

    unique: list[frozenset[str]]
    unique_if_filled: list[frozenset[str]]


# The graph of an invocation is one large object.
_read: list[tuple[Graph, dict[str, PromisedKeys]]] = []


def keys_of(sources: Iterable[str], graph: Graph) -> dict[str, PromisedKeys]:
    """Return, for each table by its name in SQL, the sets of columns that identify its rows."""
    known = next((keys for read, keys in _read if read is graph), None)
    if known is None:
        known = unique_columns(graph)
        _read[:] = [(graph, known)]
    return {source: known.get(plain(source), PromisedKeys([], [])) for source in sources}


def plain(source: str) -> str:
    """Return a table's name in the form of the graph."""
    return source.replace("`", "").lower()


def unique_columns(
    graph: Mapping[str, Mapping[str, Node]],
) -> dict[str, PromisedKeys]:
    """Return the sets of columns that identify a table's rows, by table name in lower case.

    They come from the `unique_key` of models that the engine maintains, from declared keys, and
    from tests that fail a build: `unique`, and those of dbt_utils and dbt_expectations. `unique`
    ignores NULL, so it identifies all rows only if the column is `not_null` as well.
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
        if any(keys := _keys(promises))
    }


# The settings of a test that fails a build for each row that it finds.
_FAILS = {
    "severity": "error",
    "error_if": "!= 0",
    "fail_calc": "count(*)",
    "where": "",
    "limit": "",
}
# The promise for some columns: `key`, `unique` unless NULL, or `not_null`.
Kind = Literal["key", "unique", "not_null"]
Promise = tuple[Kind, frozenset[str]]
_PROMISES: dict[str, Kind] = {
    **{"primary_key": "key", "unique": "unique", "not_null": "not_null"},
    "expect_column_values_to_be_unique": "unique",
    "expect_column_values_to_not_be_null": "not_null",
}


def _keys(promises: Sequence[Promise]) -> PromisedKeys:
    """Return the sets of columns that identify rows, with NULL or without."""
    filled = frozenset[str]().union(*(names for kind, names in promises if kind == "not_null"))
    keys = PromisedKeys([], [])
    for kind, names in promises:
        if names and (kind == "key" or (kind == "unique" and names <= filled)):
            keys.unique.append(names)
        elif names and kind == "unique":
            keys.unique_if_filled.append(names)
    return keys


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
    """Yield the promises that a test checks for all rows."""
    config, test = node["config"], node.get("test_metadata") or {}
    if any(str(config.get(name) or given).lower() != given for name, given in _FAILS.items()):
        return
    arguments = test.get("kwargs", {})
    if arguments.get("row_condition"):
        return
    if arguments.get("column_name"):
        yield from _promise(test.get("name") or "", [arguments["column_name"].strip("`")])
    if test.get("name") == "unique_combination_of_columns":
        columns = arguments.get("combination_of_columns", ())
        yield "key", frozenset(name.lower() for name in columns)
    if test.get("name") == "expect_compound_columns_to_be_unique":
        # by default it ignores rows with NULL in all of the columns
        kind: Kind = "key" if arguments.get("ignore_row_if") == "never" else "unique"
        yield kind, frozenset(name.lower() for name in arguments.get("column_list", ()))


def _promise(name: str, columns: Iterable[str]) -> Iterator[Promise]:
    """Yield the promise of a test or a constraint of this name."""
    if name in _PROMISES:
        yield _PROMISES[name], frozenset(column.lower() for column in columns)
