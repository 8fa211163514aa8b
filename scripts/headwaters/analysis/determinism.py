"""A check that a query returns the same in every run over the same rows.

A table that is computed whole needs no other proof. Rows that tie may come in any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from headwaters.analysis import dialect
from headwaters.analysis.expressions import PLAIN_NODES
from headwaters.analysis.moments import refuse_moments
from headwaters.analysis.relations import Input
from headwaters.analysis.scopes import parts_of
from headwaters.analysis.used_names import (
    READ_IT,
    READS_TABLE,
    body_of,
    is_column,
    refuse_unknown,
    refuse_unmarked,
)
from headwaters.platform import spark_version
from headwaters.platform.names import nearest

_STABLE = spark_version.STABLE_FUNCTIONS | spark_version.TABLE_FUNCTIONS
_PLAIN = (*PLAIN_NODES, exp.Cast, exp.TryCast, exp.Collate, exp.Exists, exp.Any, exp.All, exp.Hint)
_PLAINLY = {*_PLAIN}  # exact classes; most nodes are not of a subclass


def refuse_changing(
    nodes: Sequence[exp.Expr],
    inputs: Sequence[Input],
    allowed: Sequence[str],
    bodies: Mapping[str, str] | None = None,
) -> None:
    """Refuse queries that depend on the time of the run or read anything but known inputs.

    `nodes` are all nodes of the query, `allowed` the functions of `allow_nondeterministic`,
    `bodies` those of SQL functions. Raises Refused.
    """
    tables = {
        source.name.lower(): frozenset(name.lower() for name in source.columns) for source in inputs
    }
    # most nodes are names or literals, which need no check
    asked = [node for node in nodes if type(node) not in (exp.Identifier, exp.Literal)]
    refuse_unmarked(asked, tables)
    refuse_unknown(asked, tables)
    refuse_moments(nodes, inputs, allowed)
    _refuse_functions(asked, tables, allowed, bodies or {})


def _refuse_functions(
    nodes: Sequence[exp.Expr],
    tables: Mapping[str, frozenset[str]],
    allowed: Sequence[str],
    bodies: Mapping[str, str],
) -> None:
    hints = (hint for hint in nodes if isinstance(hint, exp.Hint))
    hinted = {id(part) for hint in hints for part in dialect.walked(hint)[1:]}
    for node in nodes:
        name = _name(node)
        if name is None or name in allowed or id(node) in hinted:
            continue
        if isinstance(node, exp.Column) and is_column(node, tables):
            continue
        if name in bodies:
            rest = {other: text for other, text in bodies.items() if other != name}
            with body_of(node, bodies[name]) as body:
                refuse_moments(body.nodes, (), allowed)
                _refuse_functions(body.nodes, {}, allowed, rest)
            continue
        if name in _STABLE and not spark_version.is_moment(name, node.expressions):
            continue
        if name in spark_version.READING_FUNCTIONS:
            raise dialect.refused(node, "HW_FUNCTION_READS_TABLE", READS_TABLE, READ_IT)
        kept = (
            f"say allow_nondeterministic: [{name}] if rows may keep the answer of the run that "
            "wrote them"
        )
        known = _STABLE | spark_version.CHANGING_FUNCTIONS
        if isinstance(node, exp.Anonymous) and name not in known:
            near = nearest(name, known)
            hint = f"Did you mean {near}? " if near else "`show functions` lists those of Spark. "
            raise dialect.refused(
                node,
                "HW_NO_SUCH_FUNCTION",
                f"Spark has no function {name}",
                f"{hint}If {name} is a function of your own, {kept}",
            )
        raise dialect.refused(
            node,
            "HW_NONDETERMINISTIC",
            f"nothing proves that {name} is the same in every run",
            f"Take the moment from a column of an input, make it a table model, or {kept}",
        )


def _name(node: exp.Expr) -> str | None:
    """Return the name of a call whose result may change between runs; None for other nodes."""
    if isinstance(node, exp.Column):
        parts = parts_of(node)
        return parts[0] if len(parts) == 1 and parts[0] in spark_version.BARE_FUNCTIONS else None
    if isinstance(node, exp.Anonymous):
        return dialect.name_of(node)
    if isinstance(node, exp.TableSample):
        return "tablesample"
    if type(node) in _PLAINLY or not isinstance(node, exp.Func):
        return None
    return None if isinstance(node, _PLAIN) else node.key
