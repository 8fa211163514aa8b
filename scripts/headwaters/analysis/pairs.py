"""A check of the work of a query: it may compare every row of an input with every row of another.

The time of other queries follows the number of rows. Such a query may take hours over few rows.
"""

from __future__ import annotations

from sqlglot import exp

from headwaters.analysis import dialect
from headwaters.analysis.refusal import Refused
from headwaters.analysis.scopes import conjuncts


def pairs_all_rows(sql: str) -> bool:
    """Return true if a join or a subquery compares no columns for equality, or SQL is unread."""
    try:
        tree = dialect.unchecked(sql)
    except Refused:
        return True
    joins = any(not _is_by_equality(join) for join in tree.find_all(exp.Join))
    return joins or any(not _is_led(query) for query in tree.find_all(exp.Exists))


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
