"""The proof of a dbt model: its inputs as macros mark them, and what the project says of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headwaters.analysis.proof import prove
from headwaters.analysis.refusal import Refused
from headwaters.analysis.relations import Input
from headwaters.declared.nodes import Config, Node, as_tuple, table_name
from headwaters.declared.problems import Problem
from headwaters.incremental.strategies import strategy_of


def refusal(
    sql: str,
    inputs: Sequence[Mapping[str, Any]],
    config: Config,
    graph: Mapping[str, Mapping[str, Node]],
    functions: Mapping[str, str],
) -> Problem | None:
    """Why the strategy cannot maintain the model, or None.

    `inputs` are markers' contents, with their `text` and `columns` (of dbt's `Column`);
    `functions` the definitions of SQL functions that the model calls.
    """
    strategy = strategy_of(config)
    assert strategy is not None
    unique = unique_columns(graph)
    names: dict[str, str] = {}
    found: list[Input] = []
    for spec in inputs:
        if spec["text"] in names:
            continue
        name = names[spec["text"]] = f"hw_input_{len(names)}"
        sql = sql.replace(spec["text"], name)
        found.append(
            Input(
                name,
                spec["source"],
                spec["kind"],
                {column.name: column.dtype for column in spec["columns"]},
                unique.get(spec["source"].replace("`", "").lower(), ()),
                spec.get("key") if not spec.get("via") else None,
                spec.get("via"),
                spec.get("on") or (),
            )
        )
    try:
        prove(
            sql,
            found,
            strategy.rules,
            as_tuple(config.get("unique_key")),
            as_tuple(config.get("allow_nondeterministic")),
            bodies(functions),
        )
    except Refused as refused:
        return Problem(refused.code, str(refused))
    except Exception as error:  # what the analysis did not foresee proves nothing
        unforeseen = Refused(
            "HW_NOT_UNDERSTOOD", "", None, f"its analysis failed, {type(error).__name__}: {error}"
        )
        return Problem(unforeseen.code, str(unforeseen))
    return None


def bodies(functions: Mapping[str, str]) -> dict[str, str]:
    """The expressions of SQL functions, by their names without schema, in lower case."""
    found = {}
    for name, definition in functions.items():
        _, has_body, body = definition.partition("Body:")
        if has_body:
            found[name.replace("`", "").split(".")[-1].lower()] = body.split("\n\n")[0].strip()
    return found


def unique_columns(
    graph: Mapping[str, Mapping[str, Node]],
) -> dict[str, list[frozenset[str]]]:
    """Sets of columns that tell a table's rows apart, by the table's name in lower case.

    From `unique_key` of models that the engine maintains, `unique` and
    `unique_combination_of_columns` tests that fail a build, and declared keys.
    """
    tables = {**graph.get("nodes", {}), **graph.get("sources", {})}
    found: dict[str, list[frozenset[str]]] = {}
    for identifier, node in tables.items():
        if node["resource_type"] == "test":
            on = [name for name in node["depends_on"]["nodes"] if name in tables]
            columns = _tested(node)
            if len(on) == 1 and columns:
                found.setdefault(on[0], []).append(columns)
        elif node["resource_type"] in ("model", "source", "seed", "snapshot"):
            found.setdefault(identifier, []).extend(_declared(node))
    return {
        table_name(tables[identifier]).lower(): keys for identifier, keys in found.items() if keys
    }


def _declared(node: Node) -> Iterator[frozenset[str]]:
    config = node["config"]
    strategy = strategy_of(config)
    if config.get("materialized") == "incremental" and strategy is not None:
        yield frozenset(
            name.lower() for name in (*as_tuple(config.get("unique_key")), *strategy.further_keys)
        )
    for constraint in node.get("constraints") or ():
        if constraint["type"] in ("primary_key", "unique") and constraint.get("columns"):
            yield frozenset(name.lower() for name in constraint["columns"])
    for name, column in (node.get("columns") or {}).items():
        for constraint in column.get("constraints") or ():
            if constraint["type"] in ("primary_key", "unique"):
                yield frozenset([name.lower()])


def _tested(node: Node) -> frozenset[str]:
    """The columns that a test holds to be unique in all rows."""
    config, test = node["config"], node.get("test_metadata") or {}
    if config.get("where") or config.get("limit") or config.get("severity", "ERROR") != "ERROR":
        return frozenset()
    arguments = test.get("kwargs", {})
    if test.get("name") == "unique" and arguments.get("column_name"):
        return frozenset([arguments["column_name"].strip("`").lower()])
    if test.get("name") == "unique_combination_of_columns":
        return frozenset(name.lower() for name in arguments.get("combination_of_columns", ()))
    return frozenset()
