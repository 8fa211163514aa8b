"""What is known of a relation while a query is read, and what a rule book answers about it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from sqlglot import exp

_ids = itertools.count(1)


class Weight(Enum):
    """How a value depends on `_weight`, the sign of a changed row.

    PLAIN: not at all. ODD: it changes its sign with it, and is 0 or NULL where nothing is summed.
    OTHER: in any other way.
    """

    PLAIN = 0
    ODD = 1
    OTHER = 2


class Column(NamedTuple):
    """A column: `id` is the same wherever the same value is handed on unchanged.

    `origin` is the number of the reading, the followed input and its column, where the value is
    one of its row's; `type` is Spark's name, None where it is not known; `is_filled`: never NULL;
    `whole` has the ids of columns that it tells apart, as a struct does; `texts` are the only ones
    that it has, where it is made of literals; `most` is the amount that no value exceeds, where it
    is less than its type says, or a sum that may wrap around.

    A tuple, since it is made in a third of the time of a frozen dataclass, and there are many.
    """

    name: str
    id: int
    type: str | None = None
    weight: Weight = Weight.PLAIN
    origin: tuple[int, str, str] | None = None
    is_filled: bool = False
    whole: frozenset[int] = frozenset()
    texts: frozenset[str] = frozenset()
    most: int | None = None

    def named(self, name: str) -> Column:
        """The same value under another name."""
        return self if name == self.name else self._replace(name=name)


def new_id() -> int:
    """The number of a column that no other has."""
    return next(_ids)


def new_column(name: str, type: str | None = None, weight: Weight = Weight.PLAIN) -> Column:
    """A value that no other column is."""
    return Column(name, next(_ids), type, weight)


@dataclass(frozen=True)
class Input:
    """An input of a model, as a relation `name` of its SQL.

    `kind` is the input macro: changes, signed, images, affected or lookup. `columns` are names and
    Spark types; `unique` are sets of columns of which each tells its rows apart. `key` maps the
    model's key columns to the input's; with `via` the input has no key but shares columns with the
    relation of that name: `on` maps them to the other's.
    """

    name: str
    source: str
    kind: str
    columns: Mapping[str, str]
    unique: Sequence[frozenset[str]] = ()
    key: Mapping[str, str] | None = None
    via: str | None = None
    on: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_followed(self) -> bool:
        """Whether changes of it are applied; otherwise it is read whole."""
        return self.kind != "lookup"


@dataclass(frozen=True)
class Equal:
    """A conjunct that two columns are equal; `is_null_safe` for `<=>`."""

    left: Column
    right: Column
    is_null_safe: bool


How = Literal["exists", "in", "not in", "scalar"]
Operator = Literal["union all", "union", "intersect", "except", "intersect all", "except all"]
Side = Literal["inner", "left", "right", "full", "semi", "anti"]


@dataclass(frozen=True)
class Relation:
    """The columns of a relation, and what a rule book knows of it.

    `fact` is None for what depends on no followed input. `unique`: sets of ids of which each tells
    its rows apart.
    """

    columns: tuple[Column, ...]
    fact: Any = None
    unique: tuple[frozenset[int], ...] = ()

    @property
    def ids(self) -> frozenset[int]:
        """Of its columns."""
        return frozenset(column.id for column in self.columns)

    def kept(self, columns: Sequence[Column]) -> Relation:
        """The relation with these columns in place of its own."""
        ids = frozenset[int]().union(*({column.id} | column.whole for column in columns))
        return replace(
            self,
            columns=tuple(columns),
            unique=tuple(key for key in self.unique if key <= ids),
        )


class Rules(Protocol):
    """A rule book: for each operator what it demands of facts, and the fact that it gives.

    A method raises Refused where no rule takes the operator. It is asked only where a relation is
    followed (its fact is not None), except for `base` and `joined`, where one side may be constant.
    """

    def base(self, source: Input, relation: Relation) -> Any:
        """The fact of an input."""

    def filtered(self, relation: Relation, equal: Sequence[Equal], node: exp.Expr) -> Any:
        """WHERE: its equalities."""

    def joined(
        self,
        side: Side,
        left: Relation,
        right: Relation,
        equal: Sequence[Equal],
        node: exp.Expr,
    ) -> Any:
        """A join; `equal` are conjuncts of its condition."""

    def grouped(self, relation: Relation, keys: Sequence[Column] | None, node: exp.Expr) -> Any:
        """GROUP BY these columns; None is one group of all rows."""

    def aggregated(self, name: str, weight: Weight, is_plain: bool, node: exp.Expr) -> Weight:
        """What an aggregate function gives; `is_plain`: without DISTINCT or FILTER."""

    def having(self, relation: Relation, node: exp.Expr) -> Any:
        """A filter over groups."""

    def windowed(self, relation: Relation, partition: Sequence[Column], node: exp.Expr) -> Any:
        """A window over these columns."""

    def distinct(self, relation: Relation, node: exp.Expr) -> Any:
        """DISTINCT rows."""

    def projected(self, relation: Relation, node: exp.Expr) -> Any:
        """Fewer, more or other columns: those that `relation` has now."""

    def limited(self, relation: Relation, node: exp.Expr) -> Any:
        """LIMIT, OFFSET."""

    def united(
        self,
        operator: Operator,
        left: Relation,
        right: Relation,
        columns: Sequence[Column],
        node: exp.Expr,
    ) -> Any:
        """A set operation; `columns` are its output, in the order of both sides'."""

    def nested(
        self,
        outer: Relation,
        inner: Relation,
        how: How,
        tested: Column | None,
        node: exp.Expr,
    ) -> Any:
        """The outer relation with a subquery in its expressions; `tested` is what IN looks for."""

    def renumbered(self, fact: Any, number: Callable[[int], int]) -> Any:
        """The fact of the same relation with other ids."""

    def either(self, relation: Relation, ids: Sequence[int]) -> int | None:
        """The id of what `coalesce` of these columns is, where a full join knows it."""

    def correlated(
        self, outer: Relation, inner: Relation, equal: Sequence[Equal], node: exp.Expr
    ) -> Any:
        """WHERE of a subquery that compares its columns (right) with the outer query's (left)."""


@runtime_checkable
class RowRules(Protocol):
    """What a rule book is told besides, if it wants: expressions that fail for no row."""

    def narrowed(self, relation: Relation, texts: Sequence[str]) -> Any:
        """Conditions that all rows meet; columns are their ids between two marks."""

    def computed(self, relation: Relation, column: int, text: str) -> Any:
        """A column is made by an expression."""


def ruled(relation: Relation, rule: Callable[..., Any], *of: Any) -> Relation:
    """The relation after an operator: a rule takes it, unless nothing followed is in it."""
    if relation.fact is None:
        return relation
    return replace(relation, fact=rule(relation, *of))
