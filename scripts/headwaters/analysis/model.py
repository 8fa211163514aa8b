"""The proof of a dbt model: its inputs as macros mark them, and what the project says of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from headwaters.analysis.derive import Question, derive
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
    sql, found = _named(sql, inputs, graph)
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


def derivation(
    sql: str,
    inputs: Sequence[Mapping[str, Any]],
    config: Config,
    graph: Mapping[str, Mapping[str, Node]],
    functions: Mapping[str, str],
) -> dict[str, Any] | Problem:
    """How a model of plain SQL is maintained: `strategy`, `unique_key`, `inputs` and `reason`.

    `inputs` of the result are what input macros write, by their source: `kind`, with `key`, `via`
    and `on`. `reason` says why the table is replaced when some of its inputs changed, or None.
    """
    sql, found = _named(sql, inputs, graph)
    seeds = {
        table_name(node).lower()
        for node in graph.get("nodes", {}).values()
        if node["resource_type"] == "seed"
    }
    question = Question(
        sql,
        found,
        frozenset(source.name for source in found if _plain(source.source) in seeds),
        as_tuple(config.get("unique_key")),
        as_tuple(config.get("allow_nondeterministic")),
        bodies(functions),
    )
    try:
        derived = derive(question)
    except Refused as refused:
        return Problem(refused.code, str(refused))
    roles: dict[str, Any] = {}
    for source in derived.inputs:
        role: dict[str, Any] = {"kind": source.kind}
        if source.key is not None:
            role["key"] = dict(source.key)
        if source.via is not None:
            role |= {"via": source.via, "on": dict(source.on)}
        roles[source.source] = role
    return {
        "strategy": derived.strategy,
        "unique_key": list(derived.unique_key),
        "inputs": roles,
        "reason": derived.refused.cause if derived.refused else None,
    }


def _named(
    sql: str, inputs: Sequence[Mapping[str, Any]], graph: Mapping[str, Mapping[str, Node]]
) -> tuple[str, list[Input]]:
    """The SQL with names in place of marked inputs, and the inputs."""
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
                unique.get(_plain(spec["source"]), ()),
                spec.get("key") if not spec.get("via") else None,
                spec.get("via"),
                spec.get("on") or {},
            )
        )
    return sql, found


def _plain(source: str) -> str:
    return source.replace("`", "").lower()


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
    if config.get("where") or config.get("limit") or config.get("severity", "ERROR") != "ERROR":
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
