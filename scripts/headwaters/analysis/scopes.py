"""The scopes that resolve the names of a query, and the values of its expressions."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple

from sqlglot import exp
from sqlglot.helper import ensure_list

from headwaters.analysis import dialect
from headwaters.analysis.relations import Column, F, Relation, Weight, new_id
from headwaters.platform import spark_version

GROUPING_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)
# Grouping sets after all expressions, as in `group by a, b with rollup`.
SETS_BEHIND = ("rollup", "cube", "grouping_sets")


class Value(NamedTuple):
    """The known properties of an expression; `column` if it is exactly that column.

    `is_filled` means never NULL. `whole` has the ids of the columns that it identifies: its own, or
    those in a struct. `texts` has the text of a literal; `most` is as in `Column`. It is a tuple
    for the same reason as `Column`.
    """

    weight: Weight = Weight.PLAIN
    column: Column | None = None
    type: str | None = None
    is_filled: bool = False
    whole: frozenset[int] = frozenset()
    texts: frozenset[str] = frozenset()
    most: int | None = None


@dataclass(frozen=True)
class Names:
    """The common table expressions that a query sees."""

    queries: dict[str, tuple[exp.CTE, Names]]


@dataclass
class Scope(Generic[F]):
    """The names of a FROM clause and of the queries around the subquery.

    `visible` are the columns of `*`, in order. `is_open` means that there are more, with unknown
    names. `aliases` are those of the select list so far, with their values and columns. `groups`
    are the GROUP BY expressions.
    """

    relation: Relation[F]
    tables: list[tuple[str, tuple[Column, ...]]]
    visible: tuple[Column, ...]
    outer: Scope[F] | None = None
    is_open: bool = False
    aliases: dict[str, tuple[Value, Column]] = field(default_factory=dict)
    windows: dict[str, exp.Expr] = field(default_factory=dict)
    groups: dict[tuple[type, str], Column] | None = None
    may_aggregate: bool = False
    is_of_rows: bool = False  # within an aggregate, whose arguments are values of rows
    # keys of the rows before they are grouped
    rows_unique: tuple[frozenset[int], ...] = ()
    names: Names = field(default_factory=lambda: Names({}))
    kinds_of_groups: frozenset[type] = frozenset()  # of GROUP BY expressions
    is_multiplied: bool = False  # the select list makes several rows of one
    order_of_copies: str = ""  # the one window order that lets equal rows tie
    _by_name: dict[int, tuple[tuple[Column, ...], dict[str, list[Column]]]] = field(
        default_factory=dict
    )

    def named(self, columns: tuple[Column, ...], name: str) -> list[Column]:
        """Return the columns with a name, of one table of the scope or of the visible columns."""
        known = self._by_name.get(id(columns))
        if known is None:
            # keep the tuple to reserve its id
            known = self._by_name[id(columns)] = columns, {}
            for column in columns:
                known[1].setdefault(column.name.lower(), []).append(column)
        return known[1].get(name, [])


def value_of(column: Column) -> Value:
    """Return the value of a column."""
    whole = column.whole | {column.id}
    return Value(column.weight, column, column.type, column.is_filled, whole, most=column.most)


@functools.lru_cache(maxsize=1000)
def plain_value(type: str | None, is_filled: bool) -> Value:
    """Return the shared value of expressions without other known properties."""
    return Value(type=type, is_filled=is_filled)


def column_of(value: Value, name: str | None = None) -> Column:
    """Return the column of an expression, or a new one, under a name if one is given."""
    if value.column is not None:
        return value.column if name is None else value.column.named(name)
    return Column(
        name or "",
        new_id(),
        value.type,
        value.weight,
        None,
        value.is_filled,
        value.whole,
        value.texts,
        value.most,
    )


def parts_of(node: exp.Column) -> list[str]:
    """Return the parts of a dotted name."""
    if len(node.args) == 1:  # most columns have no table
        return [node.this.name.lower()]
    parts = map(node.args.get, ("catalog", "db", "table", "this"))
    return [part.name.lower() for part in parts if part]


def arguments_of(function: exp.Anonymous) -> Sequence[exp.Expr]:
    """Return the arguments of a function, without the unit of `timestampdiff(second, …)`."""
    first, *rest = function.expressions or [None]
    is_unit = (
        function.name.lower() in spark_version.FUNCTIONS_BY_UNIT
        and len(rest) == 2
        and isinstance(first, (exp.Column, exp.Var))
        and first.name.lower() in spark_version.TIME_UNITS
    )
    return rest if is_unit else function.expressions


def nullable(scope: Scope[F]) -> Scope[F]:
    """Return the optional side of an outer join, with columns that may be NULL."""

    def emptied(columns: tuple[Column, ...]) -> tuple[Column, ...]:
        return tuple(
            column._replace(is_filled=False) if column.is_filled else column for column in columns
        )

    return replace(
        scope,
        relation=replace(scope.relation, columns=emptied(scope.relation.columns)),
        tables=[(name, emptied(columns)) for name, columns in scope.tables],
        visible=emptied(scope.visible),
    )


def around(scope: Scope[F] | None) -> Iterator[Scope[F]]:
    """Yield the scope and the scopes around it, from the innermost."""
    while scope is not None:
        yield scope
        scope = scope.outer


def is_grouped(node: exp.Select) -> bool:
    """Return true if the query aggregates."""
    return bool(node.args.get("group") or node.args.get("having")) or any(
        True for found in node.expressions for _ in aggregates(found)
    )


def sets_of(group: exp.Expr) -> list[exp.Expr]:
    """Return the ROLLUP, CUBE and GROUPING SETS of a GROUP BY clause."""
    found = [part for part in group.expressions if isinstance(part, GROUPING_SETS)]
    return found + [part for name in SETS_BEHIND for part in group.args.get(name) or []]


def parts_of_sets(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the expressions of a grouping set, or the node itself."""
    if isinstance(node, (*GROUPING_SETS, exp.Tuple)):
        for part in node.expressions:
            yield from parts_of_sets(part)
    elif isinstance(node, exp.Paren):
        yield from parts_of_sets(node.this)
    else:
        yield node


def aggregates(node: exp.Expr, around: Collection[int] | None = None) -> Iterator[exp.Expr]:
    """Yield aggregate functions of this query, without those of windows and subqueries.

    `around` has the ids of all nodes that contain an aggregate; None if unknown.
    """
    waiting = [node] if around is None or id(node) in around else []
    while waiting:
        found = waiting.pop()
        if isinstance(found, exp.Query):
            continue
        if isinstance(found, exp.Window):
            clauses = (found.args.get(name) for name in ("partition_by", "order"))
            within = [child for clause in clauses for child in ensure_list(clause)]
            waiting += [*dialect.within(unwrapped(found.this)), *within][::-1]
            continue
        if dialect.name_of(found) in spark_version.ANY_AGGREGATES:
            yield found
        waiting += [
            part
            for part in dialect.within(found)[::-1]
            if (type(part) not in dialect.ATOMS if around is None else id(part) in around)
        ]


def own_nodes(node: exp.Expr) -> list[exp.Expr]:
    """Return the node and its descendants, without leaves and without those of subqueries."""
    every = [node]
    for found in every:
        if not isinstance(found, exp.Query):
            every += [part for part in dialect.within(found) if type(part) not in dialect.ATOMS]
    return every


def depends_on_comma(join: exp.Expr, before: Iterable[exp.Expr]) -> bool:
    """Return true if the choice between comma and CROSS JOIN before a join matters.

    The tree does not distinguish them, but Spark first joins what follows a comma.
    """
    is_crossed = any(found.args.get("kind") == "CROSS" for found in before)
    return is_crossed and bool(is_by_names(join) or join.args.get("side") in ("RIGHT", "FULL"))


def is_by_names(join: exp.Expr) -> bool:
    """Return true for a join by USING, or NATURAL."""
    return bool(join.args.get("using") or join.args.get("method"))


def is_several_rows(node: exp.Expr, of_groups: bool) -> bool:
    """Return true if an item makes several rows of one: generators and sliding windows.

    `of_groups` means that windows group rows, or are within aggregates.
    """
    for found in own_nodes(node):
        if type(found) is not exp.Anonymous:
            continue
        name = dialect.name_of(found)
        is_sliding = name == "window" and len(found.expressions) > 2 and not of_groups
        if name in spark_version.GENERATORS or is_sliding:
            return True
    return False


def wrappers(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield FILTER, WITHIN GROUP and IGNORE NULLS around an aggregate."""
    while isinstance(node, (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)):
        yield node
        node = node.this


def unwrapped(node: exp.Expr) -> exp.Expr:
    """Return the innermost function."""
    for wrapper in wrappers(node):
        node = wrapper.this
    return node


def inner_function(node: exp.Expr) -> exp.Expr | None:
    """Return the function within FILTER and similar wrappers; None without a wrapper."""
    inner = unwrapped(node)
    return inner if inner is not node else None


def conjuncts(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the conjuncts of a condition."""
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    else:
        yield node


def implied(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the conjuncts, and the equalities in every branch of an OR."""
    for conjunct in conjuncts(node):
        yield conjunct
        if isinstance(conjunct, exp.Or):
            branches = [list(implied(branch)) for branch in conjunct.flatten()]
            for found in branches[0]:
                if isinstance(found, (exp.EQ, exp.NullSafeEQ)) and all(
                    found in branch for branch in branches[1:]
                ):
                    yield found


def null_safe(node: exp.Expr) -> exp.Expr:
    """Return `a = b or (a is null and b is null)` as `a <=> b`, and other nodes unchanged.

    A row that meets the one meets the other: where neither is true, the first is false or NULL.
    """
    if not isinstance(node, exp.Or):
        return node
    for equal, nulls in itertools.permutations((node.this.unnest(), node.expression.unnest())):
        if not (isinstance(equal, exp.EQ) and isinstance(nulls, exp.And)):
            continue
        tests = [nulls.this.unnest(), nulls.expression.unnest()]
        are_null = all(
            isinstance(test, exp.Is) and isinstance(test.expression, exp.Null) for test in tests
        )
        sides = [equal.this.unnest(), equal.expression.unnest()]
        tested = [test.this.unnest() for test in tests] if are_null else []
        if tested in (sides, sides[::-1]):
            return exp.NullSafeEQ(this=sides[0].copy(), expression=sides[1].copy())
    return node


def is_negated(node: exp.Expr) -> bool:
    """Return true if false and NULL differ here; in conjuncts of a condition they do not."""
    parent = node.parent
    while parent is not None and not isinstance(parent, (exp.Where, exp.Join)):
        if not isinstance(parent, (exp.And, exp.Paren)):
            return True
        parent = parent.parent
    return False
