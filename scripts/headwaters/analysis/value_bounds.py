"""Bounds of values, which prove that a sum fits its type.

`signed_sum` can only add to a number. Without ANSI rules a decimal that overflows becomes NULL and
stays NULL, while a full refresh would compute the number that fits again. Whole numbers wrap
around, and still add up as long as they stay whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from math import ceil

from sqlglot import exp

from headwaters.analysis import dialect
from headwaters.analysis.exact_types import (
    COUNTED,
    ROUNDED,
    SAME_NUMBER,
    answers,
    decimal_of,
    type_of,
)
from headwaters.analysis.scopes import Value
from headwaters.platform.spark_version import NEGATED_DIGITS

# Rows of one group. The sum of so many ints is a bigint; Spark has room for twice as many decimals.
MOST_ROWS = 2**32
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_MOST_COUNTED = 2**31 - 1
_DIGITS = 38


def largest(type: str | None, digits: int = _DIGITS) -> int | None:
    """Return the bound of an exact type with at most `digits` digits; None for other types."""
    if type in _BITS:
        return int(2 ** (_BITS[type] - 1))
    number = decimal_of(type)
    if number is None:
        return None
    places: int = max(min(number[0], digits) - number[1], 0)
    return int(10**places)


def room_of(type: str | None, is_negated: bool = False) -> int | None:
    """Return the largest amount that a sum may reach.

    The sum of two decimals of 38 digits would lose a digit after the point, so one digit stays
    free. Spark rounds `-x` to `NEGATED_DIGITS`.
    """
    return largest(type, NEGATED_DIGITS if is_negated else _DIGITS - 1)


def most_of(value: Value) -> int | None:
    """Return the bound of a value, as if whole numbers did not wrap around."""
    return largest(value.type) if value.most is None else value.most


def fits(value: Value, type: str | None, is_negated: bool = False) -> bool:
    """Return true if all values are numbers of the type."""
    most, room = most_of(value), room_of(type, is_negated)
    return most is not None and room is not None and most <= room


def stays_additive(value: Value, type: str | None, is_negated: bool = False) -> bool:
    """Return true if a sum still adds up after its conversion to another type."""
    if fits(value, value.type):
        return fits(value, type, is_negated) or type in _BITS
    # a value that wraps around at a larger power of two also does at a smaller one
    return value.type in _BITS and type in _BITS and _BITS[type] <= _BITS[value.type]


def has_opposite(value: Value, type: str | None) -> bool:
    """Return true if every value still has its opposite after its conversion to another type.

    -2147483648 is an int, but 2147483648 is not. As an int it wraps around and is its own opposite;
    as a bigint it is not.
    """
    most = most_of(value)
    if value.type not in _BITS or (most is not None and most < 2 ** (_BITS[value.type] - 1)):
        return True
    return type in _BITS and _BITS[type] <= _BITS[value.type]


def of_sum(value: Value) -> int | None:
    """Return the bound of a sum of values."""
    most = most_of(value)
    return None if most is None else most * MOST_ROWS


def of_row(most: int | None, type: str | None) -> int | None:
    """Return the bound of an expression of one row, whose type has room for it or makes it NULL."""
    room = largest(type)
    return room if most is None or room is None else min(most, room)


def of_sums(node: exp.Expr, parts: Sequence[Value]) -> int | None:
    """Return the bound of an expression with these parts; None if only its type bounds it."""
    if isinstance(node, exp.Literal):
        return None if type_of(node, ()) is None else ceil(Decimal(node.name))
    most = [most_of(part) for part in parts]
    chosen = [
        0 if isinstance(child.unnest(), exp.Null) else most_of(part)
        for child, part in answers(node, parts)
    ]
    name = dialect.name_of(node)
    if name in COUNTED:
        return _MOST_COUNTED
    known = [amount for amount in chosen or most if amount is not None]
    if not known or len(known) < len(chosen or most):
        return None
    if chosen:
        return max(known)
    if isinstance(node, exp.Mul):
        return known[0] * known[1]
    if isinstance(node, (exp.Add, exp.Sub)):
        return known[0] + known[1]
    if isinstance(node, exp.Neg) or name in SAME_NUMBER:
        return known[0]
    return known[0] + 1 if name in ROUNDED else None
