"""The relations of a query while it is read, and the protocol of rule books."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar, TypeVarTuple, runtime_checkable

from sqlglot import exp

# The class of the facts of a rule book. Relations never change, so they are covariant in it: a
# `Relation[object]` may be of any rule book.
F = TypeVar("F")
F_co = TypeVar("F_co", covariant=True)
# The arguments of a rule after the relation.
Arguments = TypeVarTuple("Arguments")

_ids = itertools.count(1)


class Weight(Enum):
    """The dependence of a value on `_weight`, the sign of a changed row.

    PLAIN values do not depend on it. ODD values change their sign with it, and are 0 or NULL for
    empty sums. OTHER values depend on it in another way.
    """

    PLAIN = 0
    ODD = 1
    OTHER = 2


class Column(NamedTuple):
    """A column; `id` stays the same while its value is handed on unchanged.

    - `type`: Spark's name, or None if unknown.
    - `origin`: the number of the reading, the followed input and its column, if the value comes
      from one of its rows.
    - `is_filled`: the value is never NULL.
    - `whole`: the ids of columns that it identifies, as a struct does.
    - `texts`: the only values of a column made of literals.
    - `most`: the bound of its values, if it is below that of the type, or if the value is a sum
      that may wrap around.

    It is a tuple because queries have many columns, and a frozen dataclass takes three times as
    long to create.
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
        """Return the same value under another name."""
        return self if name == self.name else self._replace(name=name)


def new_id() -> int:
    """Return an unused column id."""
    return next(_ids)


def new_column(name: str, type: str | None = None, weight: Weight = Weight.PLAIN) -> Column:
    """Return a column with a new value."""
    return Column(name, next(_ids), type, weight)


@dataclass(frozen=True)
class Input:
    """An input of a model, as the relation `name` of its SQL.

    `kind` is the input macro: changes, signed, images, affected or lookup. `columns` maps names to
    Spark types. Each set of columns in `unique` identifies its rows, and each in `unique_if_filled`
    the rows without NULL in these columns. `key` maps the model's key
    columns to those of the input. With `via`, the input has no key but shares columns with the
    relation of that name, and `on` maps them to the columns of that relation.
    """

    name: str
    source: str
    kind: str
    columns: Mapping[str, str]
    unique: Sequence[frozenset[str]] = ()
    key: Mapping[str, str] | None = None
    via: str | None = None
    on: Mapping[str, str] = field(default_factory=dict)
    unique_if_filled: Sequence[frozenset[str]] = ()

    @property
    def is_followed(self) -> bool:
        """Return true if runs apply its changes; otherwise they read it whole."""
        return self.kind != "lookup"


@dataclass(frozen=True)
class Equal:
    """A conjunct that equates two columns; `is_null_safe` for `<=>`."""

    left: Column
    right: Column
    is_null_safe: bool


How = Literal["exists", "in", "not in", "scalar"]
Operator = Literal["union all", "union", "intersect", "except", "intersect all", "except all"]
Side = Literal["inner", "left", "right", "full", "semi", "anti"]


@dataclass(frozen=True)
class Relation(Generic[F_co]):
    """The columns of a relation, and the fact of its rule book.

    `fact` is None if no followed input contributes. Each set of ids in `unique` identifies the
    rows, and each in `unique_if_filled` the rows without NULL in these columns.
    """

    columns: tuple[Column, ...]
    fact: F_co | None = None
    unique: tuple[frozenset[int], ...] = ()
    unique_if_filled: tuple[frozenset[int], ...] = ()

    @property
    def followed_fact(self) -> F_co:
        """Return the fact of a followed relation, which is not None."""
        assert self.fact is not None
        return self.fact

    @property
    def ids(self) -> frozenset[int]:
        """Return the ids of the columns."""
        return frozenset(column.id for column in self.columns)

    def kept(self, columns: Sequence[Column]) -> Relation[F_co]:
        """Return the relation with its columns replaced by these."""
        ids = frozenset[int]().union(*({column.id} | column.whole for column in columns))
        return replace(
            self,
            columns=tuple(columns),
            unique=tuple(key for key in self.unique if key <= ids),
            unique_if_filled=tuple(key for key in self.unique_if_filled if key <= ids),
        )

    def multiplied(self) -> Relation[F_co]:
        """Return the relation without the keys of its rows."""
        return replace(self, unique=(), unique_if_filled=())


class Rules(Protocol[F]):
    """A rule book: the requirements of each operator on facts, and the resulting fact.

    A method raises Refused if no rule takes the operator. Except for `base` and `either`, the
    reader calls it only for followed relations (the fact is not None). In `joined` and `united`,
    one side may be constant; in `nested` and `correlated`, the outer relation may be.
    """

    @abstractmethod
    def base(self, source: Input, relation: Relation[F]) -> F | None:
        """Return the fact of an input; None if the rule book does not follow it."""

    @abstractmethod
    def filtered(self, relation: Relation[F], equal: Sequence[Equal], node: exp.Expr) -> F:
        """Apply WHERE; `equal` are its equalities."""

    @abstractmethod
    def joined(
        self,
        side: Side,
        left: Relation[F],
        right: Relation[F],
        equal: Sequence[Equal],
        node: exp.Expr,
    ) -> F:
        """Apply a join; `equal` are conjuncts of its condition."""

    @abstractmethod
    def grouped(self, relation: Relation[F], keys: Sequence[Column] | None, node: exp.Expr) -> F:
        """Apply GROUP BY these columns; None is one group of all rows."""

    def aggregated(self, name: str, weight: Weight, is_plain: bool, node: exp.Expr) -> Weight:
        """Return the weight of an aggregate; `is_plain` means without DISTINCT or FILTER."""
        return Weight.PLAIN

    def having(self, relation: Relation[F], node: exp.Expr) -> F:
        """Apply a filter over groups; a group depends on its own rows."""
        return relation.followed_fact

    @abstractmethod
    def windowed(self, relation: Relation[F], partition: Sequence[Column], node: exp.Expr) -> F:
        """Apply a window that is partitioned by these columns."""

    def chosen(self, relation: Relation[F], name: str) -> F | None:
        """Return the fact if each run may choose among rows that tie; None refuses.

        It may if a run computes all rows that depend on the choice, or none of them. `name` is the
        function, or limit.
        """
        return None

    @abstractmethod
    def distinct(self, relation: Relation[F], node: exp.Expr) -> F:
        """Apply DISTINCT."""

    def projected(self, relation: Relation[F], node: exp.Expr) -> F:
        """Apply a select list; `relation` already has the new columns."""
        return relation.followed_fact

    @abstractmethod
    def limited(self, relation: Relation[F], node: exp.Expr) -> F:
        """Apply LIMIT or OFFSET."""

    @abstractmethod
    def united(
        self,
        operator: Operator,
        left: Relation[F],
        right: Relation[F],
        columns: Sequence[Column],
        node: exp.Expr,
    ) -> F:
        """Apply a set operation; `columns` are its output, in the order of both sides."""

    @abstractmethod
    def nested(
        self,
        outer: Relation[F],
        inner: Relation[F],
        how: How,
        tested: Sequence[Column | None],
        node: exp.Expr,
    ) -> F | None:
        """Apply a subquery in expressions of the outer relation.

        IN looks for `tested` in its columns, in order; None stands for other expressions. WHERE
        may equate one with a scalar subquery.
        """

    @abstractmethod
    def renumbered(self, fact: F, number: Callable[[int], int]) -> F:
        """Return the fact of the same relation with other ids."""

    def either(self, relation: Relation[F], ids: Sequence[int]) -> int | None:
        """Return the id of the `coalesce` of these columns, if a full join knows it."""
        return None

    def correlated(
        self, outer: Relation[F], inner: Relation[F], equal: Sequence[Equal], node: exp.Expr
    ) -> F:
        """Apply WHERE of a subquery that compares its columns (right) with outer ones (left)."""
        return inner.followed_fact


@runtime_checkable
class RowRules(Protocol[F]):
    """The optional part of a rule book for expressions that cannot fail."""

    def narrowed(self, relation: Relation[F], texts: Sequence[str], is_whole: bool) -> F:
        """Take conditions that all rows meet; column ids stand between two marks.

        With `is_whole`, the rows that meet them remain, and no others.
        """

    def linked(self, relation: Relation[F], texts: Sequence[str]) -> F:
        """Take conditions that compare its columns with those of the next join, or around it."""

    def computed(self, relation: Relation[F], column: int, text: str) -> F:
        """Take a column computed by an expression."""

    def extreme(self, relation: Relation[F], text: str, is_most: bool) -> F | None:
        """Take one row with the largest value of an expression, or with the least.

        Return None if no rule takes it.
        """

    def generated(self, relation: Relation[F], columns: Sequence[int], text: str) -> F:
        """Take the columns of a LATERAL VIEW with this text."""


def ruled(
    relation: Relation[F], rule: Callable[[Relation[F], *Arguments], F], *of: *Arguments
) -> Relation[F]:
    """Return the relation after an operator; a rule takes it if a followed input contributes."""
    if relation.fact is None:
        return relation
    return replace(relation, fact=rule(relation, *of))
