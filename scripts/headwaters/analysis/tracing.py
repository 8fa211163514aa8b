"""The rule book that allows everything, and notes what a query equates and groups by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headwaters.analysis.reader import Reader
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
from headwaters.analysis.scopes import Names

# A column of an input: the name of the input, and that of the column in lower case.
Place = tuple[str, str]


@dataclass(frozen=True)
class Trace:
    """The fact: the origins of columns that a set operation or a full join has made."""

    places: Mapping[int, Place] = field(default_factory=dict)
    merged: Mapping[frozenset[int], int] = field(default_factory=dict)


def place_of(column: Column, fact: Trace | None) -> Place | None:
    """Return the column of an input that a column of a query holds unchanged, or None."""
    if column.origin is not None:
        return column.origin[1].lower(), column.origin[2]
    return fact.places.get(column.id) if fact is not None else None


@dataclass
class Noted:
    """The columns that a query equates, and those that it groups by, once each and in order."""

    equal: dict[tuple[Place, Place], None] = field(default_factory=dict)
    groups: dict[frozenset[Place], None] = field(default_factory=dict)

    def add(self, other: Noted) -> None:
        """Add the notes of a query that is part of this one."""
        self.equal |= other.equal
        self.groups |= other.groups


class TracingReader(Reader[Trace]):
    """A reader with the rule book that allows everything.

    Queries may share common table expressions and queries in brackets. The reader reads each once
    and adds its notes to every query that uses it.
    """

    def __init__(
        self,
        inputs: Iterable[Input],
        allowed: Sequence[str],
        functions: Mapping[str, str],
        follows_ties: bool,
    ) -> None:
        """Store the functions of `allow_nondeterministic`, and the bodies of SQL functions."""
        self._tracing = Tracing(follows_ties)
        self._notes: dict[int, Noted] = {}
        followed = [replace(source, kind="affected") for source in inputs]
        super().__init__(followed, self._tracing, allowed, functions)

    def traced(self, tree: exp.Query) -> tuple[Relation[Trace], Noted]:
        """Return the relation of the query and its notes. Raises Refused."""
        self._tracing.noted = Noted()
        return self.read(tree), self._tracing.noted

    def knows(self, inputs: Iterable[Input]) -> bool:
        """Return true if the reader has all of these inputs."""
        return all(source.name.lower() in self._inputs for source in inputs)

    def _common(self, query: exp.CTE | exp.Subquery, names: Names) -> Relation[Trace]:
        around, own = self._tracing.noted, self._notes.get(id(query.this))
        if own is None:
            own = self._tracing.noted = Noted()
        try:
            relation = super()._common(query, names)
        finally:
            self._tracing.noted = around
        self._notes[id(query.this)] = own
        around.add(own)
        return relation


class Tracing(Rules[Trace]):
    """The rule book that allows everything."""

    def __init__(self, follows_ties: bool = False) -> None:
        """Start without notes."""
        self.noted = Noted()
        self._follows_ties = follows_ties

    def base(self, source: Input, relation: Relation[Trace]) -> Trace:
        """Return the fact of an input."""
        return Trace()

    def filtered(self, relation: Relation[Trace], equal: Sequence[Equal], node: exp.Expr) -> Trace:
        """Apply WHERE; `equal` are its equalities."""
        self._equate(equal, relation.fact, relation.fact)
        return relation.followed_fact

    def joined(
        self,
        side: Side,
        left: Relation[Trace],
        right: Relation[Trace],
        equal: Sequence[Equal],
        node: exp.Expr,
    ) -> Trace:
        """Apply a join; `equal` are conjuncts of its condition."""
        facts = [fact for fact in (left.fact, right.fact) if fact is not None]
        places = {k: v for fact in facts for k, v in fact.places.items()}
        merged = {k: v for fact in facts for k, v in fact.merged.items()}
        self._equate(equal, left.fact, right.fact)
        if side == "full":
            for pair in equal:
                place = place_of(pair.left, left.fact) or place_of(pair.right, right.fact)
                if place is not None:
                    either = new_column("").id
                    places[either] = place
                    merged[frozenset([pair.left.id, pair.right.id])] = either
        return Trace(places, merged)

    def grouped(
        self, relation: Relation[Trace], keys: Sequence[Column] | None, node: exp.Expr
    ) -> Trace:
        """Apply GROUP BY these columns; None is one group of all rows."""
        self._group(relation, keys or ())
        return relation.followed_fact

    def windowed(
        self, relation: Relation[Trace], partition: Sequence[Column], node: exp.Expr
    ) -> Trace:
        """Apply a window that is partitioned by these columns."""
        self._group(relation, partition)
        return relation.followed_fact

    def chosen(self, relation: Relation[Trace], name: str) -> Trace | None:
        """Return the fact if the rules follow an order with ties."""
        return relation.fact if self._follows_ties else None

    def distinct(self, relation: Relation[Trace], node: exp.Expr) -> Trace:
        """Apply DISTINCT."""
        self._group(relation, relation.columns)
        return relation.followed_fact

    def limited(self, relation: Relation[Trace], node: exp.Expr) -> Trace:
        """Apply LIMIT or OFFSET."""
        return relation.followed_fact

    def united(
        self,
        operator: Operator,
        left: Relation[Trace],
        right: Relation[Trace],
        columns: Sequence[Column],
        node: exp.Expr,
    ) -> Trace:
        """Apply a set operation; `columns` are its output, in the order of both sides."""
        places = {}
        for column, one, other in zip(columns, left.columns, right.columns, strict=True):
            mine, theirs = place_of(one, left.fact), place_of(other, right.fact)
            if mine and theirs:
                self.noted.equal[mine, theirs] = None
            if place := mine or theirs:
                places[column.id] = place
        if operator != "union all":
            self.noted.groups[frozenset(places.values())] = None
        return Trace(places)

    def nested(
        self,
        outer: Relation[Trace],
        inner: Relation[Trace],
        how: How,
        tested: Sequence[Column | None],
        node: exp.Expr,
    ) -> Trace | None:
        """Apply a subquery in expressions of the outer relation; IN looks for `tested`."""
        for column, other in zip(tested, inner.columns, strict=False):
            if column is not None and how != "scalar":
                self._equate([Equal(column, other, False)], outer.fact, inner.fact)
        return outer.fact

    def renumbered(self, fact: Trace, number: Callable[[int], int]) -> Trace:
        """Return the fact of the same relation with other ids."""
        return Trace(
            {number(k): v for k, v in fact.places.items()},
            {frozenset(map(number, k)): number(v) for k, v in fact.merged.items()},
        )

    def either(self, relation: Relation[Trace], ids: Sequence[int]) -> int | None:
        """Return the id of the `coalesce` of these columns, if a full join knows it."""
        fact = relation.fact
        return fact.merged.get(frozenset(ids)) if fact is not None else None

    def correlated(
        self, outer: Relation[Trace], inner: Relation[Trace], equal: Sequence[Equal], node: exp.Expr
    ) -> Trace:
        """Apply WHERE of a subquery that compares its columns (right) with outer ones (left)."""
        self._equate(equal, outer.fact, inner.fact)
        return inner.followed_fact

    def _equate(self, equal: Iterable[Equal], left: Trace | None, right: Trace | None) -> None:
        for pair in equal:
            one = place_of(pair.left, left) or place_of(pair.left, right)
            other = place_of(pair.right, right) or place_of(pair.right, left)
            if one is not None and other is not None and pair.left.type == pair.right.type:
                self.noted.equal[one, other] = None

    def _group(self, relation: Relation[Trace], columns: Sequence[Column]) -> None:
        places = (place_of(column, relation.fact) for column in columns)
        self.noted.groups[frozenset(place for place in places if place is not None)] = None
