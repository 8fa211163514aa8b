"""Expressions over one row that cannot fail, so that they are safe on rows that a query drops.

Under ANSI rules an addition may overflow and a cast may fail, so a text is only compared with
texts. Expressions that this module does not name are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from sqlglot import exp

from headwaters.analysis import dialect
from headwaters.analysis.exact_types import decimal_of
from headwaters.analysis.relations import Column

# Kinds of comparable values; a `literal` compares with all kinds, and `other` with none.
Kind = Literal["text", "number", "date", "bool", "literal", "other"]
_COMPARED = (
    *(exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In),
    *(exp.Like, exp.ILike),
)
_PLAIN = (exp.Literal, exp.Cast, exp.Interval, exp.Var, exp.DataType, exp.Add, exp.Sub, exp.Paren)
_CHOICES = {"coalesce", "nvl", "ifnull", "greatest", "least", "nullif"}
_OF_TEXT = {"upper", "lower", "ucase", "lcase", "trim", "ltrim", "rtrim", "substring", "substr"}
_OF_TEXT |= {"left", "right", "concat"}
_LENGTHS = {"length", "char_length", "character_length"}
_OF_DATE: dict[str, Kind] = {
    **dict.fromkeys(("year", "month", "day", "dayofmonth", "quarter", "hour", "minute"), "number"),
    **dict.fromkeys(("second", "weekday", "dayofweek", "dayofyear", "weekofyear"), "number"),
    **dict.fromkeys(("date", "to_date", "last_day", "trunc", "date_trunc"), "date"),
    "date_format": "text",
}
_DATES = (exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPLTZ)


def rendered(node: exp.Expr, column_of: Callable[[exp.Column], Column | None]) -> str | None:
    """Return the expression with its columns numbered by `column_of`; None if it may fail."""
    found: dict[int, Column] = {}
    for part in dialect.found(node, exp.Column):
        column = column_of(part)
        if column is None:
            return None
        found[id(part)] = column
    # checking the kind first rejects most expressions without building their text
    if _kind(node, found) is None or isinstance(node.unnest(), exp.Null):
        return None
    words = (part.name for part in dialect.found(node, exp.Identifier, exp.Literal, exp.Var))
    if any(mark in word for word in words for mark in ("\x01", "\x02", "/*", "hw_")):
        return None
    written = _text(node, {place: f"\x02{column.id}\x02" for place, column in found.items()})
    # a rewritten escape may absorb the digits after it
    return None if "\\" in written else f"({written})"


def kind_of(column: Column) -> Kind:
    """Return the kind of values that a column compares with."""
    type = column.type or ""
    if type == "string":
        return "text"
    if decimal_of(type) is not None or type in ("double", "float"):
        return "number"
    if type == "date" or type.startswith("timestamp"):
        return "date"
    return "bool" if type == "boolean" else "other"


def _text(node: exp.Expr, marks: dict[int, str]) -> str:
    if isinstance(node, exp.Column):
        return marks[id(node)]
    copied = node.copy()
    for original, copy in zip(dialect.walked(node), dialect.walked(copied), strict=True):
        copy.pop_comments()
        if isinstance(original, exp.Column):
            copy.replace(exp.Var(this=marks[id(original)]))
    return dialect.whole_text(copied, is_own=True)


def _kind(node: exp.Expr, columns: dict[int, Column]) -> Kind | None:
    def kinds(*parts: exp.Expr) -> set[Kind] | None:
        """Return the kinds of comparable parts; None if they do not compare or one may fail."""
        every = {_kind(part, columns) for part in parts}
        apart = every - {"literal"}
        if None in every or len(apart) > 1 or (apart == {"other"} and len(parts) > 1):
            return None
        return {kind for kind in apart if kind}

    def same(*parts: exp.Expr) -> Kind | None:
        found = kinds(*parts)
        return None if found is None else found.pop() if found else "literal"

    if isinstance(node, exp.Column):
        return kind_of(columns[id(node)])
    if isinstance(node, exp.Paren):
        return _kind(node.this, columns)
    if isinstance(node, exp.Null):
        return "literal"
    if isinstance(node, exp.Boolean):
        return "bool"
    if isinstance(node, (exp.Literal, exp.Interval, exp.Add, exp.Sub)):
        return _kind_of_constant(node)
    if isinstance(node, (exp.And, exp.Or)):
        return "bool" if kinds(node.this, node.expression) == {"bool"} else None
    if isinstance(node, exp.Not):
        return "bool" if _kind(node.this, columns) == "bool" else None
    if isinstance(node, exp.Is):
        is_null = isinstance(node.expression, exp.Null)
        return "bool" if is_null and _kind(node.this, columns) else None
    if isinstance(node, _COMPARED):
        if node.args.get("query") is not None or node.args.get("unnest") is not None:
            return None
        parts = list(node.iter_expressions())
        found = kinds(*parts)
        is_like = isinstance(node, (exp.Like, exp.ILike))
        if is_like and found != {"text"}:
            return None
        return "bool" if found is not None else None
    if isinstance(node, exp.Cast):
        return _kind_of_cast(node, columns)
    if isinstance(node, exp.Case):
        ifs = node.args["ifs"]
        heads = [node.this] if node.this is not None else []
        tests = [part.this for part in ifs]
        if kinds(*heads, *tests) is None or (
            not heads and any(_kind(test, columns) != "bool" for test in tests)
        ):
            return None
        default = node.args.get("default")
        return same(*(part.args["true"] for part in ifs), *([default] if default else []))
    if isinstance(node, (exp.Mod, exp.IntDiv)):
        is_positive = isinstance(node.expression, exp.Literal) and node.expression.name.isdigit()
        is_number = (
            _kind(node.this, columns) == "number" and int(node.expression.name or 0) > 0
            if (is_positive)
            else False
        )
        return "number" if is_number else None
    if isinstance(node, exp.Extract):
        return "number" if _kind(node.expression, columns) == "date" else None
    if isinstance(node, (exp.Substring, exp.Trim)):
        rest = [part for name, part in node.args.items() if name != "this" and part]
        is_plain = all(isinstance(part, (exp.Literal, exp.Neg)) for part in rest)
        return "text" if is_plain and _kind(node.this, columns) == "text" else None
    if isinstance(node, exp.Anonymous):
        return _kind_of_function(node, columns, same)
    return None


def _kind_of_constant(node: exp.Expr) -> Kind | None:
    """Return the kind of literals, and of dates with intervals."""
    if not all(isinstance(part, _PLAIN) for part in dialect.walked(node)):
        return None
    if isinstance(node, exp.Literal):
        return "literal" if node.is_string else "number"
    if isinstance(node, exp.Interval):
        return "other"
    return "date" if any(node.find_all(exp.Cast)) else "number"


def _kind_of_cast(node: exp.Cast, columns: dict[int, Column]) -> Kind | None:
    to = node.args["to"]
    kind = _kind(node.this, columns)
    if to.this in (exp.DType.TEXT, exp.DType.VARCHAR) and not to.expressions:
        return "text" if kind in ("text", "number", "date", "bool", "literal") else None
    if to.this in _DATES:
        return "date" if kind == "date" or isinstance(node.this, exp.Literal) else None
    return None


def _kind_of_function(
    node: exp.Anonymous,
    columns: dict[int, Column],
    same: Callable[..., Kind | None],
) -> Kind | None:
    name, arguments = node.name.lower(), node.expressions
    if not arguments:
        return None
    if name in _CHOICES:
        return same(*arguments)
    if name == "if" and len(arguments) == 3:
        return same(*arguments[1:]) if _kind(arguments[0], columns) == "bool" else None
    if name == "concat":
        return "text" if same(*arguments) == "text" else None
    if name in _OF_TEXT | _LENGTHS:
        is_plain = all(isinstance(part, (exp.Literal, exp.Neg)) for part in arguments[1:])
        is_text = is_plain and _kind(arguments[0], columns) == "text"
        return ("number" if name in _LENGTHS else "text") if is_text else None
    if name in _OF_DATE:
        rest = [part for part in arguments if not isinstance(part, exp.Literal)]
        is_date = len(rest) == 1 and _kind(rest[0], columns) == "date"
        return _OF_DATE[name] if is_date else None
    if name in ("pmod", "mod") and len(arguments) == 2:
        divisor = arguments[1].name if isinstance(arguments[1], exp.Literal) else ""
        is_number = divisor.isdigit() and int(divisor) > 0
        return "number" if is_number and _kind(arguments[0], columns) == "number" else None
    return None
