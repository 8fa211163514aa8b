"""The `check` constraints that limit one value; ingestion evaluates all others.

A limit compares a column that is read, or the length of a text, with a literal: by `=`, `<>`, `<`,
`<=`, `>`, `>=`, `between` or `in`, also after `not`. `and` may join limits.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from headwaters.http.types import Kind

Holds = Callable[[Any], bool]

_COMPARISONS: Mapping[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
}
_MOST_DIGITS = 15  # digits of a literal: exact in a double, and narrow enough for Spark's decimals


@dataclass(frozen=True)
class Limit:
    """A limit on the non-null values of a column; `owner` has the constraint."""

    column: str
    owner: str
    expression: str
    holds: Holds


def limits_of(kinds: Mapping[str, Kind], owner: str, expression: str) -> list[Limit]:
    """Return the limits that make up a constraint. Raises ValueError for other constraints."""
    try:
        found = [*_limits(kinds, parse_one(expression, dialect="spark"))]
    except SqlglotError as error:
        raise ValueError(str(error)) from None
    return [Limit(column, owner, expression, holds) for column, holds in found]


def _limits(kinds: Mapping[str, Kind], node: exp.Expr) -> Iterator[tuple[str, Holds]]:
    if isinstance(node, exp.Paren):
        yield from _limits(kinds, node.this)
    elif isinstance(node, exp.And):
        yield from _limits(kinds, node.left)
        yield from _limits(kinds, node.right)
    elif isinstance(node, exp.Not):
        ((column, holds),) = _limits(kinds, node.this)
        yield column, lambda value: not holds(value)
    else:
        yield _limit(kinds, node)


def _limit(kinds: Mapping[str, Kind], node: exp.Expr) -> tuple[str, Holds]:
    given = {name for name, value in node.args.items() if value}
    if (compare := _COMPARISONS.get(type(node))) is not None:
        column, of, literal = _subject(kinds, node.this)
        other = literal(node.expression)
        return column, lambda value: compare(of(value), other)
    if isinstance(node, exp.Between) and given == {"this", "low", "high"}:
        column, of, literal = _subject(kinds, node.this)
        low, high = literal(node.args["low"]), literal(node.args["high"])
        return column, lambda value: low <= of(value) <= high
    if isinstance(node, exp.In) and given == {"this", "expressions"}:
        column, of, literal = _subject(kinds, node.this)
        others = frozenset(map(literal, node.expressions))
        return column, lambda value: of(value) in others
    raise ValueError(f"{node.sql('spark')} is no limit of a value")


def _subject(
    kinds: Mapping[str, Kind], node: exp.Expr
) -> tuple[str, Callable[[Any], Any], Callable[[exp.Expr], Any]]:
    """Return the column of a limit, the compared part of its value, and a reader of literals."""
    length = isinstance(node, exp.Length)
    column = node.this if isinstance(node, exp.Length) else node
    names = {name.lower(): name for name in kinds}
    if not isinstance(column, exp.Column) or column.table or column.name.lower() not in names:
        raise ValueError(f"{node.sql('spark')} is no column that is read")
    name = names[column.name.lower()]
    kind = kinds[name].name
    if length and kind == "string":
        return name, len, _number
    if not length and kind in _LITERALS:
        return name, lambda value: value, _LITERALS[kind]
    raise ValueError(f"{node.sql('spark')} is not compared here")


def _text(node: exp.Expr) -> str:
    if isinstance(node, exp.Literal) and node.is_string and "\\" not in node.name:
        return node.name
    raise ValueError(f"{node.sql('spark')} is no plain text")


def _number(node: exp.Expr) -> Decimal:
    sign, digits = (-1, node.this) if isinstance(node, exp.Neg) else (1, node)
    plain = isinstance(digits, exp.Literal) and not digits.is_string
    if not plain or not digits.name.replace(".", "", 1).isdecimal():
        raise ValueError(f"{node.sql('spark')} is no plain number")
    if len(digits.name) > _MOST_DIGITS:
        raise ValueError(f"{node.sql('spark')} has too many digits")
    return sign * Decimal(digits.name)


_LITERALS: Mapping[str, Callable[[exp.Expr], Any]] = {
    "string": _text,
    "integer": _number,
    "decimal": _number,
    "double": lambda node: float(_number(node)),
}
