"""Whether a query answers the same in every run over the same rows.

It is all that a table needs which is computed whole: rows that tie may come in any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from headwaters.analysis import dialect, functions
from headwaters.analysis.expressions import PLAIN_NODES
from headwaters.analysis.scopes import CURRENT, current_name, moment_of, parts_of

_PLAIN = (*PLAIN_NODES, exp.Cast, exp.TryCast, exp.Exists, exp.Any, exp.All)


def refuse_changing(
    tree: exp.Expr, allowed: Sequence[str], bodies: Mapping[str, str] | None = None
) -> None:
    """Refuse what is different on another day, and functions that nothing is known of.

    `allowed`: of `allow_nondeterministic`; `bodies`: of SQL functions. Raises Refused.
    """
    for node in tree.walk():
        name = _name(node)
        if name is None or name in allowed or name in functions.STABLE | functions.IN_FROM:
            continue
        if bodies and name in bodies:
            refuse_changing(dialect.parsed(f"select {bodies[name]}"), allowed, bodies)
            continue
        raise dialect.refused(
            node,
            "HW_NONDETERMINISTIC",
            f"nothing proves that {name} is the same in every run",
            "Take the moment from a column of an input, make it a table model, or say "
            f"allow_nondeterministic: [{name}] if rows may keep the answer of the run that "
            "wrote them",
        )


def _name(node: exp.Expr) -> str | None:
    """What may be different in another run; None where nothing is."""
    if isinstance(node, CURRENT):
        return current_name(node)
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    if isinstance(node, exp.TableSample):
        return "tablesample"
    if isinstance(node, exp.Column) and parts_of(node)[0] in functions.BARE:
        return parts_of(node)[0] if len(node.parts) == 1 else None
    if isinstance(node, (exp.Cast, exp.TryCast)):
        return moment_of(node)
    if isinstance(node, exp.Func) and not isinstance(node, _PLAIN):
        return node.key
    return None
