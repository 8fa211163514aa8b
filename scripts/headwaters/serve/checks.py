"""`check` constraints that the front door evaluates itself; others are left to ingestion.

Evaluated are comparisons, `between`, `in`, `is null`, `length`, `and`, `or` and `not` over columns
that are read (text, integers, decimals, double, boolean) and literals of the same kind, where Spark
compares without a cast that changes a value. As in SQL, a check holds unless it is false.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any, Literal

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from headwaters.contract import Contract

Sort = Literal["text", "exact", "double", "boolean", "null"]
Row = Mapping[str, Any]  # values as `values.read` gives them; a column without a value is missing
Holds = Callable[[Row], bool | None]

_SORTS: Mapping[str, Sort] = {
    "string": "text",
    "tinyint": "exact",
    "smallint": "exact",
    "int": "exact",
    "bigint": "exact",
    "decimal": "exact",
    "double": "double",
    "boolean": "boolean",
}
_COMPARISONS: Mapping[type[exp.Expr], Callable[[Any, Any], bool]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
}


class _Unknown(Exception):
    """What is not evaluated here."""


class Check:
    """One expression, compiled: `columns` are those that it reads, `numbers` its literals."""

    def __init__(self, contract: Contract, expression: str) -> None:
        """Compile an expression. Raises ValueError where it is left to ingestion."""
        self.columns: set[str] = set()
        self.numbers: set[float] = set()
        self._kinds: dict[str, tuple[str, Sort]] = {}
        for column in contract.read_columns:
            base = column.data_type.strip().lower().split("(")[0].strip()
            if base in _SORTS:
                self._kinds[column.name.lower()] = column.name, _SORTS[base]
        try:
            sort, compiled = self._compile(parse_one(expression, dialect="spark"))
        except (SqlglotError, _Unknown):
            raise ValueError(f"{expression} is evaluated by ingestion") from None
        if sort not in ("boolean", "null"):
            raise ValueError(f"{expression} is evaluated by ingestion")
        # true, false, or None for unknown; a record violates the check where it is false
        self.holds: Holds = compiled

    def _compile(self, node: exp.Expr) -> tuple[Sort, Callable[[Row], Any]]:
        if isinstance(node, exp.Paren):
            return self._compile(node.this)
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Literal | exp.Neg | exp.Boolean | exp.Null):
            sort, literal = _literal(node)
            if sort in ("exact", "double"):
                self.numbers.add(float(literal({})))
            return sort, literal
        if isinstance(node, exp.Length) and set(_given(node)) == {"this"}:
            text = self._of_sort(node.this, "text")
            return "exact", lambda row: None if (t := text(row)) is None else len(t)
        return "boolean", self._condition(node)

    def _column(self, node: exp.Column) -> tuple[Sort, Callable[[Row], Any]]:
        known = self._kinds.get(node.name.lower())
        if known is None or node.args.get("table"):
            raise _Unknown
        name, sort = known
        self.columns.add(name)
        if sort == "double":
            return sort, lambda row: _no_nan(row.get(name))
        return sort, lambda row: row.get(name)

    def _condition(self, node: exp.Expr) -> Holds:
        if isinstance(node, exp.And | exp.Or):
            one, other = (self._of_sort(part, "boolean") for part in (node.left, node.right))
            return _both(one, other) if isinstance(node, exp.And) else _either(one, other)
        if isinstance(node, exp.Not):
            inner = self._of_sort(node.this, "boolean")
            return lambda row: None if (held := inner(row)) is None else not held
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            _, value = self._compile(node.this)
            return lambda row: value(row) is None
        if (compare := _COMPARISONS.get(type(node))) is not None:
            return self._compared(node.this, node.expression, compare)
        if isinstance(node, exp.Between) and set(_given(node)) == {"this", "low", "high"}:
            return _both(
                self._compared(node.this, node.args["low"], operator.ge),
                self._compared(node.this, node.args["high"], operator.le),
            )
        if isinstance(node, exp.In) and set(_given(node)) == {"this", "expressions"}:
            found = [self._compared(node.this, one, operator.eq) for one in node.expressions]
            return _among(self._compile(node.this), [*map(self._compile, node.expressions)]) or (
                reduce(_either, found)
            )
        raise _Unknown

    def _compared(
        self, left: exp.Expr, right: exp.Expr, compare: Callable[[Any, Any], bool]
    ) -> Holds:
        (one_sort, one), (other_sort, other) = self._compile(left), self._compile(right)
        sorts = {one_sort, other_sort} - {"null"}
        if sorts == {"exact", "double"}:
            one, other = _as_double(one), _as_double(other)
        elif len(sorts) > 1:
            raise _Unknown
        if isinstance(right, exp.Literal):
            constant = other({})

            def holds_beside(row: Row) -> bool | None:
                a = one(row)
                return None if a is None else compare(a, constant)

            return holds_beside

        def holds(row: Row) -> bool | None:
            a, b = one(row), other(row)
            return None if a is None or b is None else compare(a, b)

        return holds

    def _of_sort(self, node: exp.Expr, wanted: Sort) -> Callable[[Row], Any]:
        sort, value = self._compile(node)
        if sort not in (wanted, "null"):
            raise _Unknown
        return value


def _among(
    value: tuple[Sort, Callable[[Row], Any]],
    others: Sequence[tuple[Sort, Callable[[Row], Any]]],
) -> Holds | None:
    """Whether a value is one of some literals of its sort; None where they are others."""
    sort, given = value
    if sort not in ("text", "exact") or any(one != sort for one, _ in others):
        return None
    try:
        literals = frozenset(one({}) for _, one in others)
    except KeyError:
        return None
    if None in literals:
        return None
    return lambda row: None if (found := given(row)) is None else found in literals


def _given(node: exp.Expr) -> list[str]:
    return [name for name, value in node.args.items() if value]


def _literal(node: exp.Expr) -> tuple[Sort, Callable[[Row], Any]]:
    if isinstance(node, exp.Null):
        return "null", lambda row: None
    if isinstance(node, exp.Boolean):
        truth = bool(node.this)
        return "boolean", lambda row: truth
    if isinstance(node, exp.Neg):
        sort, value = _literal(node.this)
        if sort not in ("exact", "double"):
            raise _Unknown
        negative = -value({})
        return sort, lambda row: negative
    if not isinstance(node, exp.Literal):
        raise _Unknown
    text = str(node.this)
    if node.is_string:
        if "\\" in text:
            raise _Unknown
        return "text", lambda row: text
    if "e" in text.lower():
        double = float(text)
        return "double", lambda row: double
    exact = Decimal(text)
    return "exact", lambda row: exact


def _as_double(value: Callable[[Row], Any]) -> Callable[[Row], float | None]:
    return lambda row: None if (found := value(row)) is None else float(found)


def _no_nan(value: Any) -> Any:
    """A double; nothing for NaN, which SQL orders after all numbers."""
    return None if value is not None and math.isnan(value) else value


def _both(one: Holds, other: Holds) -> Holds:
    def both(row: Row) -> bool | None:
        a = one(row)
        if a is False:
            return False
        b = other(row)
        return False if b is False else None if a is None or b is None else True

    return both


def _either(one: Holds, other: Holds) -> Holds:
    def either(row: Row) -> bool | None:
        a = one(row)
        if a is True:
            return True
        b = other(row)
        return True if b is True else None if a is None or b is None else False

    return either
