"""Expressions over one row that cannot fail, so that they are safe on rows that a query drops.

Under ANSI rules an addition may overflow and a cast may fail, so a text is only compared with
texts, and whole numbers are only added if their bounds prove that the result fits. Expressions that
this module does not name are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from sqlglot import exp

from headwaters.analysis import dialect
from headwaters.analysis.exact_types import decimal_of, is_exact
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
_OF_TEXT |= {"left", "right", "replace", "translate", "initcap", "lpad", "rpad", "substring_index"}
_OF_TEXT |= {"regexp_replace", "md5", "sha", "sha1", "sha2", "get_json_object"}
_LENGTHS = {"length", "char_length", "character_length"}
_OF_DATE: dict[str, Kind] = {
    **dict.fromkeys(("year", "month", "day", "dayofmonth", "quarter", "hour", "minute"), "number"),
    **dict.fromkeys(("second", "weekday", "dayofweek", "dayofyear", "weekofyear"), "number"),
    **dict.fromkeys(("date", "to_date", "last_day", "trunc", "date_trunc"), "date"),
    "date_format": "text",
}
# The largest amounts of functions that count.
_COUNTS = {
    **{"year": 10**7, "quarter": 4, "month": 12, "day": 31, "dayofmonth": 31, "dayofyear": 366},
    **{"weekofyear": 53, "dayofweek": 7, "weekday": 6, "hour": 23, "minute": 59},
    **dict.fromkeys(_LENGTHS, 2**31 - 1),
}
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_MOST_DAYS = 10**6
_WHOLE = {exp.DType.INT: "int", exp.DType.BIGINT: "bigint"}
# Patterns that Java and Python read alike: no escapes, nested classes, named groups or flags.
_PATTERN = re.compile(
    r"(?:\[\^?[\w .,:;/@#%=<>!-]+\]|\(\?:|\((?!\?)|[\w\s.,:;/@#%&=<>!+*?|^$)-])*", re.ASCII
)
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


def implied_text(node: exp.Expr, column_of: Callable[[exp.Column], Column | None]) -> str | None:
    """Return a condition that cannot fail and holds wherever this one does; None if none is known.

    - LIKE fails for a pattern with an escape before another character: it then takes every text.
    - A text that equals a whole number is blanks and control characters, a sign, digits, and
      perhaps a point with more digits, which the cast cuts off. Without all others, and with 0 for
      no digits, it is this number. Other texts may become one, so that too many rows meet it.
    """
    if isinstance(node, (exp.Like, exp.ILike)):
        text, pattern = rendered(node.this, column_of), rendered(node.expression, column_of)
        if text is None or pattern is None or node.args.get("negate"):
            return None
        operator = "like" if isinstance(node, exp.Like) else "ilike"
        columns = _columns(node, column_of)
        if _kind(node.this, columns) != "text" or _kind(node.expression, columns) != "text":
            return None
        any_text = f"case when instr({pattern}, chr(92)) > 0 then '%' else {pattern} end"
        return f"({text} {operator} {any_text})"
    if isinstance(node, exp.EQ):
        sides = [_whole_number(side, column_of) for side in (node.this, node.expression)]
        is_known = None not in sides and any("try_cast" in str(side) for side in sides)
        return f"({sides[0]} = {sides[1]})" if is_known else None
    return None


def _whole_number(node: exp.Expr, column_of: Callable[[exp.Column], Column | None]) -> str | None:
    """Return a whole number, or the number that a text may be cast to, in an equality."""
    node = node.unnest()
    if isinstance(node, exp.Cast) and node.args["to"].this in _WHOLE:
        inner = node.this
        if _is_text(inner, column_of):
            return _number_of(inner, column_of)
    if _is_text(node, column_of):
        return _number_of(node, column_of)
    text = rendered(node, column_of)
    return text if text is not None and _bound(node, _columns(node, column_of)) else None


def _number_of(node: exp.Expr, column_of: Callable[[exp.Column], Column | None]) -> str:
    digits = f"regexp_replace({rendered(node, column_of)}, '[.][0-9]*|[^0-9+-]', '')"
    return f"coalesce(try_cast({digits} as decimal(38, 0)), 0)"


def _is_text(node: exp.Expr, column_of: Callable[[exp.Column], Column | None]) -> bool:
    text = rendered(node, column_of)
    return text is not None and _kind(node, _columns(node, column_of)) == "text"


def _columns(node: exp.Expr, column_of: Callable[[exp.Column], Column | None]) -> dict[int, Column]:
    columns = ((id(part), column_of(part)) for part in dialect.found(node, exp.Column))
    return {place: column for place, column in columns if column is not None}


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
        if dialect.name_of(copy) == "struct":
            # a lead reads columns by other names than the query does
            copy.set("expressions", list(_named_fields(copy, original)))
        if isinstance(copy, exp.TryCast) and copy.args["to"].this is exp.DType.DATE:
            copy.set("safe", True)
        if isinstance(original, exp.Column):
            copy.replace(exp.Var(this=marks[id(original)]))
    return dialect.whole_text(copied, is_own=True)


def _named_fields(copy: exp.Expr, struct: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the fields of a struct with the names that Spark gives them."""
    for number, (field, original) in enumerate(
        zip(copy.expressions, struct.expressions, strict=True), 1
    ):
        name = original.name if isinstance(original, exp.Column) else f"col{number}"
        is_named = isinstance(original, exp.Alias)
        yield field if is_named else exp.alias_(field, exp.to_identifier(name, quoted=True))


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
    if isinstance(node, (exp.Literal, exp.Interval)):
        return _kind_of_constant(node)
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul, exp.Neg)):
        return "number" if _bound(node, columns) else _kind_of_constant(node)
    if isinstance(node, exp.DPipe):
        return _kind_of_concatenation(node.flatten(), columns)
    if isinstance(node, exp.Bracket):
        # a split text has one part at least
        is_first = dialect.name_of(node.this) == "split" and [
            part.name for part in node.expressions
        ] == ["0"]
        return "text" if is_first and element_of(node.this, columns.get) is not None else None
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
        # a pattern with a lone escape at its end fails
        if is_like and (found != {"text"} or not isinstance(node.expression, exp.Literal)):
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


def _kind_of_concatenation(parts: Iterable[exp.Expr], columns: dict[int, Column]) -> Kind | None:
    """Return text if every part is a value that Spark casts to a text."""
    texts = {"text", "number", "date", "bool", "literal"}
    return "text" if all(_kind(part, columns) in texts for part in parts) else None


def _bound(node: exp.Expr, columns: dict[int, Column]) -> tuple[int, str] | None:
    """Return the largest amount of a whole number and its type; None if it is none or may fail."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        type = columns[id(node)].type or ""
        return (2 ** (_BITS[type] - 1), type) if type in _BITS else None
    if isinstance(node, exp.Literal):
        is_int = not node.is_string and node.name.isdigit() and int(node.name) < 2**31
        return (int(node.name), "int") if is_int else None
    if isinstance(node, exp.Neg):
        return _fitting(_bound(node.this, columns))
    if isinstance(node, (exp.Add, exp.Sub, exp.Mul)):
        one, other = _bound(node.this, columns), _bound(node.expression, columns)
        if one is None or other is None:
            return None
        wider = max(one[1], other[1], key=lambda type: _BITS[type])
        most = one[0] * other[0] if isinstance(node, exp.Mul) else one[0] + other[0]
        return _fitting((most, wider))
    if isinstance(node, exp.Mod):
        one, other = _bound(node.this, columns), _bound(node.expression, columns)
        if one is None or other is None or not _is_positive(node.expression):
            return None
        return other[0], max(one[1], other[1], key=lambda type: _BITS[type])
    if isinstance(node, exp.Anonymous):
        name, arguments = node.name.lower(), node.expressions
        if name in _COUNTS and _kind_of_function(node, columns, lambda *_: None) == "number":
            return _COUNTS[name], "int"
        if name in ("floor", "ceil", "ceiling") and len(arguments) == 1:
            inner = arguments[0].unnest()
            # a quotient of whole numbers is a double
            if isinstance(inner, exp.Div) and _is_positive(inner.expression):
                inner = inner.this
            found = _bound(inner, columns)
            return (found[0] + 1, "bigint") if found and found[0] < 2**62 else None
    return None


def _fitting(found: tuple[int, str] | None) -> tuple[int, str] | None:
    """Return the bound if its type has room for it and its opposite."""
    return found if found is not None and found[0] < 2 ** (_BITS[found[1]] - 1) else None


def _is_positive(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.name.isdigit() and int(node.name) > 0


def _kind_of_cast(node: exp.Cast, columns: dict[int, Column]) -> Kind | None:
    to = node.args["to"]
    kind = _kind(node.this, columns)
    if to.this is exp.DType.DATE and kind == "text":
        return "date"  # `_text` writes TRY_CAST: a query with the text of no date fails or is NULL
    bound = _bound(node.this, columns)
    if to.this in _WHOLE and bound is not None:
        return "number" if bound[0] < 2 ** (_BITS[_WHOLE[to.this]] - 1) else None
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
    if name == "struct":
        return "other" if all(_is_exact_field(part, columns) for part in arguments) else None
    if name == "if" and len(arguments) == 3:
        return same(*arguments[1:]) if _kind(arguments[0], columns) == "bool" else None
    if name == "concat":
        return _kind_of_concatenation(arguments, columns)
    if name == "concat_ws":
        is_plain = isinstance(arguments[0], exp.Literal)
        return _kind_of_concatenation(arguments[1:], columns) if is_plain else None
    if name in ("date_add", "date_sub", "datediff") and len(arguments) == 2:
        return _kind_of_days(name, arguments, columns)
    if name in ("floor", "ceil", "ceiling"):
        return "number" if _bound(node, columns) else None
    if name == "split":
        return "other" if element_of(node, columns.get) is not None else None
    if name in ("split_part", "regexp_extract"):
        return _kind_of_piece(name, arguments, columns)
    if name in _OF_TEXT | _LENGTHS:
        is_plain = all(isinstance(part, (exp.Literal, exp.Neg)) for part in arguments[1:])
        if name == "regexp_replace":
            # `$1` is a group
            is_plain = (
                is_plain
                and len(arguments) == 3
                and _groups(arguments[1]) is not None
                and "$" not in arguments[2].name
            )
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


def _is_exact_field(node: exp.Expr, columns: dict[int, Column]) -> bool:
    """Return true for a field whose equal values are the same, so that equal structs are.

    Two structs are equal if each of their fields is, also where both are NULL; `struct()` is never
    NULL itself. Numbers may be floating point numbers, unless they are whole or of an exact type.
    """
    node = node.unalias()
    if isinstance(node, exp.Column):
        return is_exact(columns[id(node)].type)
    if isinstance(node, exp.Literal):
        return node.is_string
    kind = _kind(node, columns)
    return kind in ("text", "date", "bool") or (kind == "number" and bool(_bound(node, columns)))


def _kind_of_days(name: str, arguments: list[exp.Expr], columns: dict[int, Column]) -> Kind | None:
    """Return the kind of additions of a few days, and of differences of dates."""
    if _kind(arguments[0], columns) != "date":
        return None
    if name == "datediff":
        return "number" if _kind(arguments[1], columns) in ("date", "literal") else None
    days = _bound(arguments[1], columns)
    return "date" if days is not None and days[0] <= _MOST_DAYS else None


def _kind_of_piece(name: str, arguments: list[exp.Expr], columns: dict[int, Column]) -> Kind | None:
    """Return text for a piece of a text, by a number that every text has."""
    if not 2 <= len(arguments) <= 3 or _kind(arguments[0], columns) != "text":
        return None
    number = arguments[2] if len(arguments) == 3 else exp.Literal.number(1)
    if not isinstance(number, exp.Literal) or not number.name.isdigit():
        return None
    if name == "split_part":
        is_text = isinstance(arguments[1], exp.Literal) and arguments[1].is_string
        return "text" if is_text and int(number.name) > 0 else None
    groups = _groups(arguments[1])
    return "text" if groups is not None and int(number.name) <= groups else None


def _groups(pattern: exp.Expr) -> int | None:
    """Return the number of groups of a pattern; None if Java may read it differently."""
    if not isinstance(pattern, exp.Literal) or not _PATTERN.fullmatch(pattern.name):
        return None
    try:
        return re.compile(pattern.name).groups
    except re.error:
        return None


def element_of(node: exp.Expr, column_of: Callable[[int], Column | None]) -> tuple[str, ...] | None:
    """Return the types of what an array or a map consists of; None if the expression may fail."""
    if isinstance(node, exp.Column):
        column = column_of(id(node))
        return _parts_of(column.type or "") if column is not None else None
    if dialect.name_of(node) == "split" and len(node.expressions) == 2:
        text, pattern = node.expressions
        names = {
            id(part): found
            for part in dialect.found(text, exp.Column)
            if (found := column_of(id(part))) is not None
        }
        is_text = len(names) == sum(1 for _ in dialect.found(text, exp.Column)) and (
            _kind(text, names) == "text"
        )
        return ("string",) if is_text and _groups(pattern) is not None else None
    return None


def _parts_of(type: str) -> tuple[str, ...] | None:
    found = re.fullmatch(r"array<(.*)>", type)
    if found:
        return (found[1],)
    found = re.fullmatch(r"map<(\w+(?:\(\d+(?:,\d+)?\))?),(.*)>", type)
    return (found[1], found[2]) if found else None
