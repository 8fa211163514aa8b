"""A check that a query computes nothing: it only selects and compares columns."""

from __future__ import annotations

from typing import Literal

from sqlglot import exp

from headwaters.analysis import dialect
from headwaters.analysis.refusal import Refused

_COLUMNS = (
    *(exp.Select, exp.Subquery, exp.With, exp.CTE, exp.From, exp.Where, exp.Table, exp.TableAlias),
    *(exp.Identifier, exp.Column, exp.Star, exp.Alias, exp.Paren),
    *(exp.And, exp.Or, exp.Not, exp.Is, exp.Null, exp.Boolean),
)
# Nodes that may only occur in WHERE: Spark shows conditions in full, but not select lists.
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Literal)
_CLAUSES = {"expressions", "from_", "where", "with_", "this", "alias"}
_TABLE = {"this", "db", "catalog", "alias"}
# Names that are functions unless a column has them.
_VALUES = ("current_", "localtime", "session_user", "user", "grouping__id", "_metadata")


def columns_alone(sql: str) -> Literal["columns", "conditions"] | None:
    """Return `conditions` if Spark may cast columns and literals in them, `columns`, or None."""
    try:
        tree = dialect.parsed(sql)
    except Refused:
        return None
    for node in tree.walk():
        if isinstance(node, _COMPARISONS):
            if node.find_ancestor(exp.Where) is None:
                return None
        elif not isinstance(node, _COLUMNS) or _is_more(node):
            return None
    return "conditions" if tree.find(exp.Where) else "columns"


def _is_more(node: exp.Expr) -> bool:
    """Return true if a node has unknown clauses, or if a name is a function."""
    if isinstance(node, exp.Column):
        return len(node.parts) == 1 and node.name.lower().startswith(_VALUES)
    if isinstance(node, (exp.Select, exp.Subquery)):
        return any(value and name not in _CLAUSES for name, value in node.args.items())
    if isinstance(node, exp.Table):
        return any(value and name not in _TABLE for name, value in node.args.items())
    return False
