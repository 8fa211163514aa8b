"""Rules for models with independent input rows: `change_feed` and `history`.

A relation is linear if it is the sum, over the rows of the followed input, of the rows that each
one gives together with the lookups. The changed rows of the input then determine the changes of the
result. `signed_sum` requires the same below its aggregate, and additive measures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from sqlglot import exp

from headwaters.analysis import dialect
from headwaters.analysis.refusal import Refused
from headwaters.analysis.relations import (
    Column,
    Equal,
    How,
    Input,
    Operator,
    Relation,
    Rules,
    Side,
    Weight,
)
from headwaters.analysis.scopes import is_grouped, own_nodes

_KEYS = "Use affected_keys, which recomputes whole keys"


@dataclass(frozen=True)
class Linear:
    """The fact; `is_summed` above the aggregate of a `signed_sum`."""

    is_summed: bool = False


def is_across_rows(tree: exp.Query) -> bool:
    """Return true if the outermost query groups rows or compares them with others."""
    return isinstance(tree, exp.Select) and (
        is_grouped(tree)
        or bool(tree.args.get("distinct"))
        or any(
            isinstance(part, exp.Window) for node in tree.expressions for part in own_nodes(node)
        )
    )


def refuse(code: str, node: exp.Expr, reason: str, remedy: str = _KEYS) -> NoReturn:
    """Raise a refusal of the clause."""
    raise dialect.refused(node, code, reason, remedy)


class LinearRules(Rules[Linear]):
    """The rule book of linear models, and with `sums` of `signed_sum`."""

    def __init__(self, sums: bool = False) -> None:
        """Allow one aggregate of weighted sums at the top if `sums`."""
        self.sums = sums

    def base(self, source: Input, relation: Relation[Linear]) -> Linear | None:
        """Return that a followed input is linear."""
        return Linear() if source.is_followed else None

    def filtered(
        self, relation: Relation[Linear], equal: Sequence[Equal], node: exp.Expr
    ) -> Linear:
        """Take a condition on single rows."""
        if relation.followed_fact.is_summed:
            refuse(
                "HW_NOT_A_SUM", node, "a condition on sums: a group that fails it now may meet it"
            )
        return Linear()

    def joined(
        self,
        side: Side,
        left: Relation[Linear],
        right: Relation[Linear],
        equal: Sequence[Equal],
        node: exp.Expr,
    ) -> Linear:
        """Take a join with a lookup that keeps rows of the followed side or of both."""
        if left.fact and right.fact:
            refuse(
                "HW_READ_TWICE",
                node,
                "both sides follow changes: rows that changed would meet each other, not all rows",
            )
        if (left.fact or right.followed_fact).is_summed:
            refuse("HW_NOT_A_SUM", node, "a join above the sums")
        keeps = {"left": left, "right": right, "semi": left, "anti": left}.get(side)
        if side == "full" or (keeps is not None and not keeps.fact):
            refuse(
                "HW_NOT_LINEAR",
                node,
                f"{side} join keeps rows of a lookup, which no row of the followed input gives",
                "Turn the join round, join inner, or use affected_keys",
            )
        return Linear()

    def grouped(
        self, relation: Relation[Linear], keys: Sequence[Column] | None, node: exp.Expr
    ) -> Linear:
        """Take one aggregate of weighted sums."""
        if not self.sums:
            refuse(
                "HW_NOT_LINEAR", node, "a row of the result depends on several rows of the input"
            )
        if relation.followed_fact.is_summed:
            refuse("HW_NOT_A_SUM", node, "an aggregate above the sums")
        return Linear(is_summed=True)

    def aggregated(self, name: str, weight: Weight, is_plain: bool, node: exp.Expr) -> Weight:
        """Take a sum whose terms change their sign with `_weight`."""
        if name == "sum" and weight is Weight.PLAIN:
            refuse(
                "HW_SUM_WITHOUT_WEIGHT",
                node,
                "a sum without _weight counts deleted rows as well",
                "Multiply what is summed by _weight",
            )
        if name != "sum" or weight is not Weight.ODD or not is_plain:
            refuse(
                "HW_NOT_A_SUM",
                node,
                "it is no sum of `… * _weight`: what deleted rows added stays in it",
                "Compute it from sums in derived, or use affected_keys",
            )
        return Weight.ODD

    def having(self, relation: Relation[Linear], node: exp.Expr) -> NoReturn:
        """Refuse HAVING: a group exists as long as it has rows."""
        refuse(
            "HW_NOT_A_SUM", node, "a condition on sums: a group that fails it now may meet it later"
        )

    def windowed(
        self, relation: Relation[Linear], partition: Sequence[Column], node: exp.Expr
    ) -> NoReturn:
        """Refuse windows."""
        refuse("HW_NOT_LINEAR", node, "a window looks at other rows of the input")

    def distinct(self, relation: Relation[Linear], node: exp.Expr) -> NoReturn:
        """Refuse DISTINCT: a row stays as long as one of its equals does."""
        refuse("HW_NOT_LINEAR", node, "distinct rows: whether a row stays depends on its equals")

    def limited(self, relation: Relation[Linear], node: exp.Expr) -> NoReturn:
        """Refuse limits."""
        refuse("HW_NOT_LINEAR", node, "which rows are within the limit depends on all of them")

    def united(
        self,
        operator: Operator,
        left: Relation[Linear],
        right: Relation[Linear],
        columns: Sequence[Column],
        node: exp.Expr,
    ) -> Linear:
        """Take UNION ALL of linear branches."""
        if operator != "union all":
            refuse("HW_NOT_LINEAR", node, f"{operator}: whether a row stays depends on its equals")
        for branch in (left, right):
            if not branch.fact:
                refuse(
                    "HW_NOT_LINEAR",
                    node,
                    "a branch of union all that no row of the followed input gives",
                )
            if branch.fact.is_summed:
                refuse("HW_NOT_A_SUM", node, "union all above the sums: a group may have two rows")
        return Linear()

    def nested(
        self,
        outer: Relation[Linear],
        inner: Relation[Linear],
        how: How,
        tested: Sequence[Column | None],
        node: exp.Expr,
    ) -> NoReturn:
        """Refuse subqueries that follow changes; they may read lookups alone."""
        refuse(
            "HW_READ_TWICE",
            node,
            "a subquery follows changes: it would see the rows that changed, not all rows",
        )

    def renumbered(self, fact: Linear, number: Callable[[int], int]) -> Linear:
        """Return the fact, which contains no ids."""
        return fact


def check_columns(relation: Relation[Linear], node: exp.Expr, keys: Sequence[str]) -> None:
    """Check that the columns of a `signed_sum` are keys or additive measures. Raises Refused."""
    if not relation.fact or not relation.fact.is_summed:
        refuse("HW_NOT_A_SUM", node, "it sums nothing", "Use change_feed")
    wanted = {name.lower() for name in keys}
    for column in relation.columns:
        if column.weight is Weight.OTHER or (
            column.weight is Weight.PLAIN and column.name.lower() not in wanted
        ):
            raise Refused(
                "HW_NOT_A_SUM",
                column.name,
                None,
                "it is no sum of `… * _weight`, and no key: what deleted rows added stays in it",
                "Compute it from sums in derived, or use affected_keys",
            )
