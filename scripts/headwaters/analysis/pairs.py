"""A check of the work of a query: it may compare every row of an input with every row of another.

The time of other queries follows the number of rows. Such a query may take hours over few rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from headwaters.analysis import dialect
from headwaters.analysis.refusal import Refused
from headwaters.analysis.scopes import aggregates, conjuncts, is_several_rows


def pairs_all_rows(sql: str) -> bool:
    """Return true if a join or a subquery compares no columns for equality, or SQL is unread."""
    try:
        tree = dialect.unchecked(sql)
    except Refused:
        return True
    queries = {one.alias.lower(): one.this for one in tree.find_all(exp.CTE)}
    joins = any(_joins_all_rows(query, queries) for query in tree.find_all(exp.Select))
    return joins or any(not _is_led(query) for query in tree.find_all(exp.Exists))


def _joins_all_rows(query: exp.Select, queries: Mapping[str, exp.Expr]) -> bool:
    """Return true if two sources of many rows are joined without a comparison for equality."""
    first = query.args.get("from_")
    is_one = first is not None and _has_one_row(first.this, queries)
    for join in query.args.get("joins") or ():
        joined_one = _has_one_row(join.this, queries)
        if not (is_one or joined_one or _is_by_equality(join)):
            return True
        is_one = is_one and joined_one
    return False


def _has_one_row(source: exp.Expr, queries: Mapping[str, exp.Expr]) -> bool:
    """Return true for a query with aggregates and without groups, such as the totals of a table."""
    query = source.this if isinstance(source, exp.Subquery) else queries.get(source.name.lower())
    if not isinstance(query, exp.Select) or query.args.get("group"):
        return False
    columns = query.expressions
    return any(any(aggregates(one)) for one in columns) and not any(
        is_several_rows(one, of_groups=False) for one in columns
    )


def _is_by_equality(join: exp.Join) -> bool:
    if join.args.get("using") or str(join.args.get("method") or "").upper() == "NATURAL":
        return True
    return _has_equality(join.args.get("on"))


def _is_led(subquery: exp.Exists) -> bool:
    where = subquery.find(exp.Where)
    return where is not None and _has_equality(where.this)


def _has_equality(condition: exp.Expr | None) -> bool:
    """Return true if a conjunct compares columns for equality."""
    return condition is not None and any(
        isinstance(one, exp.EQ | exp.NullSafeEQ)
        and one.this.find(exp.Column)
        and one.expression.find(exp.Column)
        for one in conjuncts(condition)
    )
