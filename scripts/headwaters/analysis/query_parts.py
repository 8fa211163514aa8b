"""The clauses of a query: its tables, its grouping columns, and the names of its results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from sqlglot import TokenType, exp
from sqlglot.helper import ensure_list
from sqlglot.tokenizer_core import Token

from headwaters.analysis import dialect
from headwaters.analysis.scopes import (
    GROUPING_SETS,
    aggregates,
    parts_of,
    parts_of_sets,
    unwrapped,
)
from headwaters.platform.spark_version import ANY_AGGREGATES

# Functions of a grouping set, not of the rows of a group.
OF_SETS = {"grouping", "grouping_id"}


def names_in_calls(nodes: Iterable[exp.Expr]) -> set[str]:
    """Return the column names within aggregates, which may belong to the select list."""
    return {
        column.name.lower()
        for node in nodes
        for call in aggregates(node)
        for column in call.find_all(exp.Column)
    }


def bracket_pairs(tokens: Iterable[Token]) -> Iterator[tuple[int, int]]:
    """Yield the positions of opening and closing brackets."""
    opened = []
    for token in tokens:
        if token.token_type is TokenType.L_PAREN:
            opened.append(token.start)
        elif token.token_type is TokenType.R_PAREN and opened:
            yield opened.pop(), token.start


def results_of(query: exp.Select) -> Iterator[exp.Expr]:
    """Yield the expressions over groups: the select list and HAVING."""
    yield from query.expressions
    if query.args.get("having"):
        yield query.args["having"]


def grouping_columns(query: exp.Select) -> dict[tuple[str, ...], exp.Column]:
    """Return the grouping columns by name; none if the query groups by another expression.

    A number stands for a column of the select list.
    """
    found: list[exp.Column] = []
    for node in query.args["group"].expressions:
        key = node
        if isinstance(key, GROUPING_SETS):
            parts = list(parts_of_sets(key))
            if not all(isinstance(part, exp.Column) for part in parts):
                return {}
            found += [part for part in parts if isinstance(part, exp.Column)]
            continue
        if isinstance(key, exp.Literal) and key.name.isdigit() and not key.is_string:
            key = dict(enumerate(query.expressions, 1)).get(int(key.name), key).unalias()
        if not isinstance(key, exp.Column):
            return {}
        found.append(key)
    return {tuple(parts_of(key)): key for key in found}


def clauses_of(query: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the clauses of a query without WITH, which precedes it."""
    for name, value in query.args.items():
        if name != "with_":
            yield from (node for node in ensure_list(value) if isinstance(node, exp.Expr))


def tables_of_query(
    node: exp.Expr,
    named_by: Mapping[str, Collection[str]],
    around: Collection[int] | None = None,
) -> set[str]:
    """Return the names of the tables read directly or through common table expressions.

    `around` is as in `tables_outside_with`.
    """
    parts = clauses_of(node) if isinstance(node, exp.Select) else [node]
    waiting = [table.name.lower() for part in parts for table in tables_outside_with(part, around)]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += named_by.get(name, ())
    return found


def tables_by_name(queries: Iterable[exp.CTE], around: Collection[int]) -> dict[str, set[str]]:
    """Return, for each common table expression, the names of the tables that it reads."""
    return {
        query.alias.lower(): {
            table.name.lower() for table in tables_outside_with(query.this, around)
        }
        for query in queries
    }


def tables_outside_with(node: exp.Expr, around: Collection[int] | None) -> Iterator[exp.Table]:
    """Yield the tables of a query, without those of its common table expressions.

    `around` has the ids of all nodes that contain tables; None if unknown.
    """
    waiting = [node] if around is None or id(node) in around else []
    while waiting:
        found = waiting.pop()
        if isinstance(found, exp.Table):
            yield found
        waiting += [
            child
            for child in dialect.within(found)
            if (id(child) in around if around is not None else type(child) not in dialect.ATOMS)
            and not isinstance(child, exp.With)
        ]


def columns_of_groups(node: exp.Expr, is_windowed: bool = False) -> Iterator[exp.Column]:
    """Yield the columns of groups, outside of aggregates and subqueries.

    `is_windowed` marks the function of a window, which is not an aggregate even with the name of
    one.
    """
    if isinstance(node, exp.Column):
        yield node
    elif not isinstance(node, exp.Query) and (
        is_windowed or dialect.name_of(node) not in ANY_AGGREGATES - OF_SETS
    ):
        around = isinstance(node, exp.Window) or (is_windowed and unwrapped(node) is not node)
        for child in dialect.within(node):
            if type(child) not in dialect.NAMES:
                yield from columns_of_groups(child, around and child is node.this)


def names_in_having(query: exp.Select) -> set[str]:
    """Return the column names in HAVING, which may belong to the select list."""
    having = query.args.get("having")
    return {column.name.lower() for column in having.find_all(exp.Column)} if having else set()


def new_names(query: exp.Select) -> set[str]:
    """Return the aliases of the select list that do not name the column of that name."""
    return {
        node.alias.lower()
        for node in query.expressions
        if isinstance(node, exp.Alias)
        and not (isinstance(node.this, exp.Column) and node.this.name.lower() == node.alias.lower())
    }


def is_wrapped(call: exp.Expr) -> bool:
    """Return true if a FILTER or a similar wrapper belongs to an aggregate."""
    return isinstance(call.parent, (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls))


def name_of_result(node: exp.Expr) -> str | None:
    """Return the name of a column of the select list; None if it has no name or several columns."""
    if isinstance(node, exp.Alias):
        return node.alias
    return node.name if isinstance(node, exp.Column) and not node.is_star else None


def is_seen(query: exp.Expr) -> bool:
    """Return true if the names of a query's columns become those of a relation.

    They do not in an expression, under a column list, or in a later branch.
    """
    parent = query.parent
    if isinstance(parent, exp.Subquery):
        if isinstance(parent.parent, (exp.From, exp.Join)):
            return not parent.alias_column_names
        return isinstance(parent.parent, (exp.Lateral, exp.SetOperation, exp.Subquery, exp.CTE))
    if isinstance(parent, exp.CTE):
        return not parent.args["alias"].columns
    return parent is None or (isinstance(parent, exp.SetOperation) and parent.this is query)


def names_of_results(query: exp.Select) -> list[str | None] | None:
    """Return the column names of a query, None for unnamed columns; None if they are unknown."""
    if any(node.is_star and not isinstance(node, exp.Alias) for node in query.expressions):
        return None
    names = [name_of_result(node) for node in query.expressions]
    if not is_seen(query):
        return [None] * len(names)
    return None if None in names else names
