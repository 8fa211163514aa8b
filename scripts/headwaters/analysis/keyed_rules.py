"""Rules for models that can be computed key by key: `affected_keys`.

A relation is local to a key if it commutes with restricting every followed input to some keys. It
then computes its rows of those keys from the input rows of those keys alone. The fact names the
columns that carry the key. An input with `via` is local to the columns that it shares with another
input, and becomes local to the key by the join with that one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from sqlglot import exp

from headwaters.analysis import dialect
from headwaters.analysis.exact_types import is_comparable
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
    new_column,
)

# The carriers of a key: for each of its parts, the ids of columns that equal it.
Carriers = tuple[frozenset[int], ...]


@dataclass(frozen=True)
class Local:
    """The fact. `space` is () for the model's key, or the input and the columns of a `via`.

    Several `groups` are keys that no condition has equated yet; the restriction contains all of
    them. `merged` are pairs of ids whose `coalesce` carries the key after a full join.
    """

    space: tuple[str, ...]
    groups: tuple[Carriers, ...]
    merged: tuple[tuple[frozenset[int], int], ...] = ()


@dataclass(frozen=True)
class OfOuter:
    """The fact of a subquery that reads only rows of the outer row's key.

    `is_reached`: rows that a `via` reaches, which may belong to several keys.
    """

    is_reached: bool = False


KeyedFact = Local | OfOuter


def _refuse(node: exp.Expr, reason: str, remedy: str = "") -> NoReturn:
    raise dialect.refused(node, "HW_ACROSS_KEYS", reason, remedy)


_SPANS = (
    "Partition, group and join by the key of affected(), compute what spans keys in a model of "
    "its own and read it with lookup(), or make it a table model"
)


def refuse_incomparable(name: str, type: str | None) -> None:
    """Refuse a key of a type whose values Spark cannot compare."""
    if not is_comparable(type):
        reason = f"{name} is a {type}, and Spark cannot say whether two of those are the same"
        remedy = "Take map_entries(…) or to_json(…) of it where the input is made"
        raise Refused("HW_NOT_COMPARABLE", name, None, f"{reason}: it is no key", remedy)


class KeyedRules(Rules[KeyedFact]):
    """The rule book; `key` are the parts of the model's key, in order."""

    def __init__(
        self, key: Sequence[str], inputs: Sequence[Input], follows_ties: bool = False
    ) -> None:
        """Store the columns of the model that form the key."""
        self.key = tuple(key)
        self._follows_ties = follows_ties
        # a via goes through the first input of its source that has the key, or leads to it
        self._through_input: dict[str, str] = {}
        for source in sorted(inputs, key=lambda source: source.via is not None):
            if source.is_followed:
                self._through_input.setdefault(source.source, source.name)

    def base(self, source: Input, relation: Relation[KeyedFact]) -> Local | None:
        """Return the key columns of an input, or the columns that lead to it."""
        if not source.is_followed:
            return None
        ids = {column.name.lower(): frozenset([column.id]) for column in relation.columns}
        key = source.key or {}
        names = list(source.on) if source.via else [key.get(part, part) for part in self.key]
        for name in names:
            if name.lower() not in ids:
                reason = f"affected({source.source}) has no column {name}"
                raise Refused("HW_NO_SUCH_COLUMN", name, None, reason)
        for column in relation.columns:
            if column.name.lower() in {name.lower() for name in names}:
                refuse_incomparable(column.name, column.type)
        carriers = tuple(ids[name.lower()] for name in names)
        if not source.via:
            return Local((), (carriers,))
        through = self._through_input.get(source.via, "")
        return Local((through, *(name.lower() for name in source.on.values())), (carriers,))

    def filtered(
        self, relation: Relation[KeyedFact], equal: Sequence[Equal], node: exp.Expr
    ) -> KeyedFact:
        """Take any condition; the columns that it equates carry the key as well."""
        fact = relation.followed_fact
        return fact if isinstance(fact, OfOuter) else _equated(fact, equal)

    def joined(
        self,
        side: Side,
        left: Relation[KeyedFact],
        right: Relation[KeyedFact],
        equal: Sequence[Equal],
        node: exp.Expr,
    ) -> KeyedFact:
        """Take a join that equates the keys, or one with a lookup that adds no further rows."""
        if isinstance(left.fact, OfOuter) or isinstance(right.fact, OfOuter):
            if not isinstance(left.fact, Local) and not isinstance(right.fact, Local):
                return _of_outer(left.fact, right.fact)
            _refuse(node, "one side is compared with the outer query and the other is not", _SPANS)
        if side == "right":
            turned = [Equal(pair.right, pair.left, pair.is_null_safe) for pair in equal]
            return self.joined("left", right, left, turned, node)
        if left.fact is None:
            assert right.fact is not None
            if side == "inner":
                return _equated(right.fact, equal)
            _refuse(
                node,
                f"{side} join keeps rows of a lookup, whatever the keys",
                "Turn the join round, or join inner",
            )
        if right.fact is None:
            if side == "full":
                _refuse(node, "full join keeps rows of a lookup, whatever the keys", _SPANS)
            return _equated(left.fact, equal) if side == "inner" else left.fact
        if left.fact.space != right.fact.space:
            return self._through(side, left.fact, right.fact, equal, node)
        if side == "inner":
            both = Local(left.fact.space, left.fact.groups + right.fact.groups)
            return _equated(both, equal)
        mine, theirs = self._one(left.fact, node), self._one(right.fact, node)
        for own, other in zip(mine, theirs, strict=True):
            if not _has_pair(equal, own, other):
                types = _types(equal, own, other)
                _refuse(node, f"{side} join does not equate the key of both sides{types}", _SPANS)
        if side == "full":
            return _coalesced(left.fact.space, mine, theirs, equal)
        return left.fact

    def _through(
        self, side: Side, left: Local, right: Local, equal: Sequence[Equal], node: exp.Expr
    ) -> Local:
        """Join a relation of the key with one that is reached `via` it."""
        if left.space:
            if right.space or side != "inner":
                _refuse(node, "it joins what is reached by other columns than the key", _SPANS)
            turned = [Equal(pair.right, pair.left, pair.is_null_safe) for pair in equal]
            return self._through("inner", right, left, turned, node)
        if side == "full":
            _refuse(node, "full join keeps rows that no key reaches", _SPANS)
        name, *on = right.space
        reached = self._one(right, node)
        rows: set[int] | None = None
        for shared, carriers in zip(on, reached, strict=True):
            found = {
                pair.left.origin[0]
                for pair in equal
                if not pair.is_null_safe
                and pair.right.id in carriers
                and _same_type(pair.left, pair.right)
                and pair.left.origin is not None
                and pair.left.origin[1:] == (name, shared)
            }
            rows = found if rows is None else rows & found
        if not rows:
            _refuse(
                node,
                "this join does not equate what on= of affected(…, via=…) names with the columns "
                "of the input that it goes through",
                "Join by the columns that on= names, as they are",
            )
        return left if side != "inner" else _equated(left, equal)

    def grouped(
        self, relation: Relation[KeyedFact], keys: Sequence[Column] | None, node: exp.Expr
    ) -> KeyedFact:
        """Take GROUP BY with every part of the key."""
        fact = relation.followed_fact
        if isinstance(fact, OfOuter):
            return fact
        if keys is None:
            _refuse(node, "an aggregate over all rows, of every key", _SPANS)
        return self._within(fact, {key.id for key in keys}, node, "GROUP BY lacks")

    def windowed(
        self, relation: Relation[KeyedFact], partition: Sequence[Column], node: exp.Expr
    ) -> KeyedFact:
        """Take PARTITION BY with every part of the key."""
        fact = relation.followed_fact
        if not isinstance(fact, OfOuter):
            ids = {column.id for column in partition}
            self._within(fact, ids, node, "PARTITION BY lacks")
        return fact

    def chosen(self, relation: Relation[KeyedFact], name: str) -> KeyedFact | None:
        """Return the fact for rows of the key: a run computes all of them, or none.

        A row that a `via` reaches may belong to several keys, and a run may compute one of them.
        """
        fact = relation.followed_fact
        reached = fact.is_reached if isinstance(fact, OfOuter) else bool(fact.space)
        return fact if self._follows_ties and not reached else None

    def distinct(self, relation: Relation[KeyedFact], node: exp.Expr) -> KeyedFact:
        """Take distinct rows that include the key."""
        fact = relation.followed_fact
        if isinstance(fact, OfOuter):
            return fact
        return self._within(fact, set(relation.ids), node, "DISTINCT rows lack")

    def projected(self, relation: Relation[KeyedFact], node: exp.Expr) -> KeyedFact:
        """Keep the selected columns that carry the key."""
        fact = relation.followed_fact
        if isinstance(fact, OfOuter):
            return fact
        ids = relation.ids
        groups = tuple(tuple(part & ids for part in group) for group in fact.groups)
        return replace(fact, groups=groups)

    def limited(self, relation: Relation[KeyedFact], node: exp.Expr) -> KeyedFact:
        """Take a limit only over rows of the outer row's key."""
        fact = relation.followed_fact
        if not isinstance(fact, OfOuter):
            _refuse(node, "which rows are within the limit depends on rows of other keys", _SPANS)
        return fact

    def united(
        self,
        operator: Operator,
        left: Relation[KeyedFact],
        right: Relation[KeyedFact],
        columns: Sequence[Column],
        node: exp.Expr,
    ) -> KeyedFact:
        """Take branches that carry the key in the same column."""
        if not isinstance(left.fact, Local) and not isinstance(right.fact, Local):
            return _of_outer(left.fact, right.fact)
        if isinstance(left.fact, OfOuter) or isinstance(right.fact, OfOuter):
            _refuse(
                node, "one branch is compared with the outer query and the other is not", _SPANS
            )
        branches = [(r.fact, r.columns) for r in (left, right) if isinstance(r.fact, Local)]
        if left.fact is None or right.fact is None:
            is_kept = operator.startswith("except") and left.fact is not None
            if operator.startswith("intersect") or is_kept:
                return self._shared(branches, columns, node)
            _refuse(node, f"{operator} with rows that are there whatever the keys", _SPANS)
        if left.fact.space != right.fact.space:
            _refuse(node, "the branches are reached by different columns", _SPANS)
        return self._shared(branches, columns, node)

    def nested(
        self,
        outer: Relation[KeyedFact],
        inner: Relation[KeyedFact],
        how: How,
        tested: Sequence[Column | None],
        node: exp.Expr,
    ) -> KeyedFact | None:
        """Take a subquery over rows of the outer row's key."""
        if isinstance(inner.fact, OfOuter):
            return outer.fact
        fact = outer.fact
        if (
            how == "in"
            and isinstance(fact, Local)
            and not fact.space
            and isinstance(inner.fact, Local)
            and not inner.fact.space
        ):
            # a semi join: a row meets only rows of the same key
            pairs = list(zip(tested, inner.columns, strict=False))
            equal = [Equal(one, other, False) for one, other in pairs if one is not None]
            theirs = self._one(inner.fact, node)
            if any(
                all(_has_pair(equal, own, other) for own, other in zip(mine, theirs, strict=True))
                for mine in fact.groups
            ):
                return fact
        remedy = "Equate the key of the subquery with the outer query's in its WHERE clause"
        if how == "not in":
            remedy = "Use not exists, and equate the keys in its WHERE clause"
        _refuse(node, "the subquery looks at rows of other keys", remedy)

    def renumbered(self, fact: KeyedFact, number: Callable[[int], int]) -> KeyedFact:
        """Return the fact with renumbered carriers."""
        if isinstance(fact, OfOuter):
            return fact
        return Local(
            fact.space,
            tuple(tuple(frozenset(map(number, part)) for part in group) for group in fact.groups),
            tuple((frozenset(map(number, pair)), number(merged)) for pair, merged in fact.merged),
        )

    def either(self, relation: Relation[KeyedFact], ids: Sequence[int]) -> int | None:
        """Return the column that a full join with equal keys has merged."""
        if not isinstance(relation.fact, Local):
            return None
        return dict(relation.fact.merged).get(frozenset(ids))

    def correlated(
        self,
        outer: Relation[KeyedFact],
        inner: Relation[KeyedFact],
        equal: Sequence[Equal],
        node: exp.Expr,
    ) -> KeyedFact:
        """Take a WHERE clause that equates the whole key with the outer row's."""
        around, fact = outer.fact, inner.followed_fact
        if isinstance(fact, OfOuter) or not isinstance(around, Local):
            return fact
        if around.space or len(around.groups) != 1 or len(fact.groups) != 1:
            return fact
        mine, theirs = around.groups[0], fact.groups[0]
        if not fact.space:
            if all(_has_pair(equal, own, other) for own, other in zip(mine, theirs, strict=True)):
                return OfOuter()
            return fact
        try:
            self._through("semi", around, fact, equal, node)
        except Refused:
            return fact
        return OfOuter(is_reached=True)

    def check(self, relation: Relation[KeyedFact], node: exp.Expr) -> None:
        """Check that the query selects the key under the model's names. Raises Refused."""
        if not isinstance(relation.fact, Local):
            _refuse(node, "it reads no affected() input")
        if relation.fact.space:
            _refuse(node, "no join leads to the key, through the input that via= names")
        group = self._one(relation.fact, node)
        for part, carriers in zip(self.key, group, strict=True):
            named = [c for c in relation.columns if c.name.lower() == part.lower()]
            if not named or named[0].id not in carriers:
                _refuse(
                    node,
                    f"{part} is not the key of the affected() inputs, as it is",
                    f"Select {part} from them without changing it, and from the side that a "
                    "join keeps",
                )

    def _one(self, fact: Local, node: exp.Expr) -> Carriers:
        if len(fact.groups) != 1:
            _refuse(node, "inputs meet here whose keys no condition has equated", _SPANS)
        return fact.groups[0]

    def _within(self, fact: Local, ids: set[int], node: exp.Expr, lacks: str) -> Local:
        group = self._one(fact, node)
        parts = tuple(part & frozenset(ids) for part in group)
        names = self.key if not fact.space else fact.space[1:]
        missing = [name for name, part in zip(names, parts, strict=True) if not part]
        if missing:
            _refuse(node, f"{lacks} the key ({', '.join(missing)})", _SPANS)
        return Local(fact.space, (parts,))

    def _shared(
        self,
        branches: Sequence[tuple[Local, Sequence[Column]]],
        columns: Sequence[Column],
        node: exp.Expr,
    ) -> Local:
        """Return the key by the positions of the columns that carry it in every branch."""
        groups = [self._one(fact, node) for fact, _ in branches]
        parts: list[frozenset[int]] = []
        for number in range(len(groups[0])):
            places = [
                place
                for place in range(len(columns))
                if all(
                    own[place].id in group[number]
                    for (_, own), group in zip(branches, groups, strict=True)
                )
                and len({own[place].type for _, own in branches}) == 1
            ]
            if not places:
                _refuse(node, "the branches do not give the key in the same column", _SPANS)
            parts.append(frozenset(columns[place].id for place in places))
        return Local(branches[0][0].space, (tuple(parts),))


def _of_outer(*facts: OfOuter | None) -> OfOuter:
    return OfOuter(any(fact is not None and fact.is_reached for fact in facts))


def _same_type(one: Column, other: Column) -> bool:
    return one.type is not None and one.type == other.type


def _has_pair(equal: Sequence[Equal], mine: frozenset[int], theirs: frozenset[int]) -> bool:
    return any(
        pair.left.id in mine and pair.right.id in theirs and _same_type(pair.left, pair.right)
        for pair in equal
    )


def _types(equal: Sequence[Equal], mine: frozenset[int], theirs: frozenset[int]) -> str:
    """Describe the two types of a key that is equated but differs in type."""
    for pair in equal:
        if pair.left.id in mine and pair.right.id in theirs:
            return f" in one type, but as {pair.left.type} and {pair.right.type}"
    return ""


def _equated(fact: Local, equal: Sequence[Equal]) -> Local:
    """Return the fact once these columns are equal, and merge groups that share every part."""
    groups = list(fact.groups)
    pairs = [(pair.left.id, pair.right.id) for pair in equal if _same_type(pair.left, pair.right)]
    changed = True
    while changed:
        changed = False
        for number, group in enumerate(groups):
            grown = tuple(
                part | {b for a, b in pairs if a in part} | {a for a, b in pairs if b in part}
                for part in group
            )
            if grown != group:
                groups[number], changed = grown, True
    merged: list[Carriers] = []
    for group in groups:
        for number, other in enumerate(merged):
            if all(a & b for a, b in zip(group, other, strict=True)):
                merged[number] = tuple(a | b for a, b in zip(group, other, strict=True))
                break
        else:
            merged.append(group)
    return replace(fact, groups=tuple(merged))


def _coalesced(
    space: tuple[str, ...], mine: Carriers, theirs: Carriers, equal: Sequence[Equal]
) -> Local:
    """Return the fact after a full join: either key may be NULL, so their `coalesce` is the key."""
    parts: list[frozenset[int]] = []
    merged: list[tuple[frozenset[int], int]] = []
    for own, other in zip(mine, theirs, strict=True):
        either = new_column("").id
        parts.append(frozenset([either]))
        merged += [
            (frozenset([pair.left.id, pair.right.id]), either)
            for pair in equal
            if pair.left.id in own and pair.right.id in other
        ]
    return Local(space, (tuple(parts),), tuple(merged))
