"""The exact types of expressions, as far as they show that a number is not rounded."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from sqlglot import exp

from headwaters.analysis import dialect

_Part = TypeVar("_Part")
_Types = Sequence["str | None"]
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
# Every number with fewer digits fits the type.
_DIGITS_OF_ALL = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_LARGEST = 38
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_WRITTEN_DECIMAL = re.compile(r"decimal(?:\((\d+)(?:, (\d+))?\))?")
_COLLATED = re.compile(
    r"\b(?:string|char|varchar)(?:\s*\(\s*\d+\s*\))?\s+collate\s+(?!utf8_binary\b)", re.IGNORECASE
)
_SAME = {"string", "binary", "boolean", "date", "timestamp", "timestamp_ntz"}
_COUNTS = {"count", "count_if"}
_AVERAGES = {"avg", "mean"}
_DEVIATIONS = {"std", "stddev", "stddev_pop", "stddev_samp", "var_pop", "var_samp", "variance"}
_CHOICES = {"coalesce", "nvl", "ifnull", "if"}
# Functions that return the type of their argument.
SAME_NUMBER = {"abs", "negative", "positive"}
# Functions that return an int, never the least one.
COUNTED = {"length", "char_length", "character_length", "year", "quarter", "month", "day"}
COUNTED |= {"dayofmonth", "dayofyear", "dayofweek", "weekday", "weekofyear", "hour", "minute"}
_DIFFERENCES = {"datediff", "date_diff"}  # of dates; with a unit they return a bigint
ROUNDED = {"round", "bround"}
# Functions from text to text; the type of the first argument decides.
_OF_TEXT = {"upper", "lower", "ucase", "lcase", "trim", "ltrim", "rtrim", "substring", "substr"}
_OF_TEXT |= {"left", "right", "replace", "translate", "lpad", "rpad", "initcap", "split_part"}
_OF_TEXT |= {"substring_index", "regexp_replace", "regexp_extract", "get_json_object"}
# Functions of any arguments that return a text.
_TO_TEXT = {"md5", "sha", "sha1", "sha2", "concat_ws", "date_format", "hex", "base64"}
_DATES = {"date_add", "date_sub", "add_months", "last_day", "to_date", "date"}


def type_of_cast(written: str) -> str:
    """Return Spark's type for a type written after AS; a decimal gets both of its numbers."""
    found = _WRITTEN_DECIMAL.fullmatch(written)
    return f"decimal({found[1] or 10},{found[2] or 0})" if found else written


@functools.lru_cache(maxsize=1000)
def decimal_of(type: str | None) -> tuple[int, int] | None:
    """Return precision and scale of an exact number; None for every other type."""
    if type is None:
        return None
    if type in _DIGITS:
        return _DIGITS[type], 0
    found = _DECIMAL.fullmatch(type)
    return (int(found[1]), int(found[2])) if found else None


def is_exact(type: str | None) -> bool:
    """Return true if equal values of the type are the same value, unlike 0.0 and -0.0."""
    return decimal_of(type) is not None or type in _SAME


def is_comparable(type: str | None) -> bool:
    """Return true if Spark can compare two values of the type, or if the type is unknown."""
    return type is None or not re.search(r"\b(map|variant|interval|geo\w*)\b", type)


def is_collated(type: str | None) -> bool:
    """Return true if a type is or contains a text whose collation equates different texts."""
    return type is not None and "collate" in type.lower() and bool(_COLLATED.search(type))


def is_same_if_equal(one: str | None, other: str | None) -> bool:
    """Return true if a value of the second type is the same value as an equal one of the first.

    A cast breaks this: the texts `1` and `01` both equal the number 1.
    """
    return one is not None and (one == other or _wider(frozenset([one, other])) is not None)


def is_exact_cast(before: str | None, after: str | None) -> bool:
    """Return true if a cast either keeps every number or fails."""
    one, other = decimal_of(before), decimal_of(after)
    return one is not None and other is not None and one[1] <= other[1]


def is_odd_cast(before: str | None, after: str) -> bool:
    """Return true if a cast to a number maps `-x` to the opposite of `x`, even without ANSI rules.

    A decimal that overflows is NULL on both sides. A whole number wraps around, or ends at the
    least number of its type, which has no opposite.
    """
    if after not in _DIGITS:
        return True
    if before in _DIGITS:
        return _DIGITS[before] <= _DIGITS[after]
    number = decimal_of(before)
    return number is not None and number[0] - number[1] < _DIGITS_OF_ALL[after]


def sum_type(type: str | None) -> str | None:
    """Return the type of a sum of such values."""
    if type in _DIGITS:
        return "bigint"
    found = decimal_of(type)
    return f"decimal({min(found[0] + 10, _LARGEST)},{found[1]})" if found else None


def aggregate_type(name: str, type: str | None) -> str | None:
    """Return the type of an aggregate of such values; None if unknown."""
    if name == "sum":
        return sum_type(type)
    if name in _COUNTS:
        return "bigint"
    if name in _DEVIATIONS or (name in _AVERAGES and type in (*_DIGITS, "double", "float")):
        return "double"
    found = decimal_of(type) if name in _AVERAGES else None
    if found is None:
        return None
    return f"decimal({min(found[0] + 4, _LARGEST)},{min(found[1] + 4, _LARGEST)})"


def type_of(node: exp.Expr, parts: Sequence[str | None]) -> str | None:
    """Return the type of an expression with parts of these types; None if inexact or unknown."""
    tell = _TYPES.get(type(node))
    return None if tell is None else tell(node, parts)


def _type_of_function(node: exp.Expr, parts: _Types) -> str | None:
    name, arguments = dialect.name_of(node), node.expressions
    if name in _CHOICES:
        return _type_of_answers(node, parts)
    if name in _OF_TEXT:
        return _type_of_text(node, parts)
    if name in _TO_TEXT:
        return "string"
    if name in _DATES and len(arguments) <= 2:
        return "date"
    if name == "concat":
        return _joined_text(node, parts)
    if name in SAME_NUMBER:
        return parts[0] if len(parts) == 1 and decimal_of(parts[0]) else None
    if name in COUNTED or (name in _DIFFERENCES and len(arguments) == 2):
        return "int"
    return _rounded(arguments, parts[0]) if name in ROUNDED and parts else None


def _type_of_text(_: exp.Expr, parts: _Types) -> str | None:
    return "string" if parts and parts[0] == "string" else None


def _joined_text(node: exp.Expr, parts: _Types) -> str | None:
    """Return the type of a concatenation, which is a text unless it joins binaries or arrays."""
    sides = zip(dialect.within(node), parts, strict=True)
    are_texts = all(
        dialect.text_of(side) is not None or (is_exact(part) and part != "binary")
        for side, part in sides
    )
    return "string" if are_texts and parts else None


def _type_of_answers(node: exp.Expr, parts: _Types) -> str | None:
    found = [one for one in answers(node, parts) if type(one[0].unnest()) is not exp.Null]
    types = {part for child, part in found if dialect.text_of(child.unnest()) is None}
    if len(types) < len({part for _, part in found}) and types == {"string"}:
        return "string"  # next to literals
    types = {part for _, part in found}
    return types.pop() if len(types) == 1 else _wider(frozenset(types))


def _type_within(_: exp.Expr, parts: _Types) -> str | None:
    return parts[0]


def answers(node: exp.Expr, parts: Sequence[_Part]) -> list[tuple[exp.Expr, _Part]]:
    """Return the alternatives of CASE and similar nodes, each with its part; else an empty list."""
    kind, name = type(node), dialect.name_of(node)
    if kind is not exp.Case and kind is not exp.If and name not in _CHOICES:
        return []
    children = dialect.within(node)
    # skip the condition, or the value that `case x when …` compares
    if kind is exp.If or name == "if" or node.args.get("this") is children[0]:
        children, parts = children[1:], parts[1:]
    return list(zip(children, parts, strict=True))


@functools.lru_cache(maxsize=1000)
def _wider(types: frozenset[str | None]) -> str | None:
    """Return the exact number type that holds values of all these types."""
    if all(type in _DIGITS for type in types):
        return max((type for type in types if type), key=lambda type: _DIGITS[type], default=None)
    numbers = [decimal_of(type) for type in types]
    if not numbers or any(number is None for number in numbers):
        return None
    scale = max(number[1] for number in numbers if number)
    precision = max(number[0] - number[1] for number in numbers if number) + scale
    return f"decimal({precision},{scale})" if precision <= _LARGEST else None


def _least_of_literal(node: exp.Expr) -> str | None:
    """Return the type of a whole number next to a decimal: as many digits as are written."""
    node = node.unnest()
    if isinstance(node, exp.Neg):
        node = node.this
    if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdigit():
        return None
    return f"decimal({max(len(node.name.lstrip('0')), 1)},0)"


def _negated(node: exp.Expr, parts: _Types) -> str | None:
    """Return the type of a negated node; the minus belongs to a literal, so least values fit."""
    if parts[0] == "string":
        return "double"
    number = node.this
    is_number = isinstance(number, exp.Literal) and not number.is_string and number.name.isdigit()
    return _whole_of(-int(number.name)) if is_number else parts[0]


def _whole_of(number: int) -> str | None:
    """Return the type of a whole number as written."""
    bits = (number if number >= 0 else ~number).bit_length()
    digits = len(str(abs(number)))
    if bits < 64:
        return "int" if bits < 32 else "bigint"
    return f"decimal({digits},0)" if digits <= _LARGEST else None


def _type_of_literal(node: exp.Expr, _: _Types) -> str | None:
    written: str = node.args["this"]
    if node.args["is_string"]:
        return None
    if written.isdigit():
        return _whole_of(int(written))
    found = re.fullmatch(r"(\d*)\.(\d*)", written)
    if not found:
        return None
    precision = max(len(found[1].lstrip("0")) + len(found[2]), 1)
    return f"decimal({precision},{len(found[2])})" if precision <= _LARGEST else None


def _rounded(arguments: Sequence[exp.Expr], type: str | None) -> str | None:
    """Return the type of a number rounded to some places after the point."""
    number = decimal_of(type)
    places = arguments[1] if len(arguments) == 2 else exp.Literal.number(0)
    if number is None or not isinstance(places, exp.Literal) or not places.name.isdigit():
        return None
    if type in _DIGITS:
        return type
    scale = min(number[1], int(places.name))
    return f"decimal({min(number[0] - number[1] + 1 + scale, _LARGEST)},{scale})"


def _quotient(node: exp.Expr, parts: _Types) -> str | None:
    """Return the type of a quotient with a decimal; whole numbers divide to a double."""
    sides = zip((node.this, node.expression), parts, strict=True)
    if all(type in _DIGITS for type in parts):
        return None
    one, other = (decimal_of(_least_of_literal(side) or type) for side, type in sides)
    if one is None or other is None:
        return None
    scale = max(6, one[1] + other[0] + 1)
    precision = one[0] - one[1] + other[1] + scale
    return f"decimal({precision},{scale})" if precision <= _LARGEST else None


def _combined(node: exp.Expr, parts: _Types) -> str | None:
    """Return the type of a sum or a product."""
    if all(part in _DIGITS for part in parts):
        return max((part for part in parts if part), key=lambda type: _DIGITS[type])
    sides = zip((node.this, node.expression), parts, strict=True)
    numbers = [decimal_of(_least_of_literal(side) or type) for side, type in sides]
    if any(number is None for number in numbers):
        return None
    (p1, s1), (p2, s2) = (number for number in numbers if number)
    if isinstance(node, exp.Mul):
        precision, scale = p1 + p2 + 1, s1 + s2
    else:
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale + 1
    return f"decimal({precision},{scale})" if precision <= _LARGEST else None


# The functions that infer a type, by the class of the expression. Other types are unknown.
_TYPES: dict[type[exp.Expr], Callable[[exp.Expr, _Types], str | None]] = {
    exp.Literal: _type_of_literal,
    exp.Paren: _type_within,
    exp.Neg: _negated,
    exp.Add: _combined,
    exp.Sub: _combined,
    exp.Mul: _combined,
    exp.Div: _quotient,
    exp.Anonymous: _type_of_function,
    exp.DPipe: _joined_text,
    exp.Trim: _type_of_text,
    exp.Substring: _type_of_text,
    exp.Case: _type_of_answers,
    exp.If: _type_of_answers,
}


def are_exact(types: Iterable[str]) -> bool:
    """Return true if values of all these types are equal only if they are the same."""
    return all(map(is_exact, types))
