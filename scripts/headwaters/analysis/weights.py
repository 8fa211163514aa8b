"""The dependence of expressions on `_weight`, which makes a measure of `signed_sum` additive."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headwaters.analysis import dialect
from headwaters.analysis.refusal import Refused
from headwaters.analysis.relations import Weight
from headwaters.analysis.scopes import Value

# Functions that treat x and -x alike, such as rounding.
_ODD_FUNCTIONS = {"round", "bround", "negative", "positive"}
_CHOICES = {"coalesce", "nvl", "if", "ifnull"}
_FIRST_FILLED = {"coalesce", "nvl", "ifnull"}
_NEVER_NULL = {exp.Literal, exp.Boolean}
_NULL_OF_NULL = {exp.Add, exp.Sub, exp.Mul, exp.Neg}


def joined(*parts: Value) -> Value:
    """Return the value of an expression whose parts have an unknown effect."""
    plain = all(part.weight is Weight.PLAIN for part in parts)
    return Value(Weight.PLAIN if plain else Weight.OTHER)


def weighed(parts: Sequence[Value]) -> list[Weight]:
    """Return the weights of the parts that depend on `_weight`."""
    return [part.weight for part in parts if part.weight is not Weight.PLAIN]


def weight_of(
    node: exp.Expr, parts: Sequence[Value], is_summed: bool = False, is_exact: bool = True
) -> Weight:
    """Return the weight of an expression with these parts.

    An expression of a row must change its sign with `_weight`. Above the aggregate (`is_summed`) it
    must add up as well, which excludes rounding: `is_exact` guarantees that.
    """
    weights = weighed(parts)
    if not weights:
        return Weight.PLAIN
    if any(weight is Weight.OTHER for weight in weights):
        return Weight.OTHER
    odd = [part.weight is Weight.ODD for part in parts]
    name = dialect.name_of(node)
    if isinstance(node, exp.Mul):
        is_odd = sum(odd) == 1 and (is_exact or not is_summed)
    elif isinstance(node, (exp.Div, exp.IntDiv)):
        is_odd = odd == [True, False] and not is_summed
    elif isinstance(node, (exp.Add, exp.Sub)):
        # an empty sum is NULL and counts as 0, but NULL plus another sum is NULL
        adds_up = is_exact and all(part.is_filled for part in parts)
        is_odd = all(odd) and (adds_up or not is_summed)
    elif isinstance(node, exp.Neg):
        is_odd = True
    elif name in _ODD_FUNCTIONS:
        is_odd = odd[0] and not any(odd[1:]) and (name in ("negative", "positive") or not is_summed)
    elif isinstance(node, (exp.Case, exp.If)) or name in _CHOICES:
        is_odd = _is_odd_choice(node, parts)
    else:
        is_odd = False
    return Weight.ODD if is_odd else Weight.OTHER


def is_filled(node: exp.Expr, parts: Sequence[Value]) -> bool:
    """Return true if an expression with these parts is never NULL."""
    kind, name = type(node), dialect.name_of(node)
    if kind in _NEVER_NULL:
        return True
    if kind in _NULL_OF_NULL:
        return all(part.is_filled for part in parts)
    if name in _FIRST_FILLED:
        return any(part.is_filled for part in parts)
    if kind is exp.Case and node.args.get("this") is None:
        return bool(node.args.get("default")) and all(part.is_filled for part in parts)
    if kind is exp.If or name == "if":
        # a branch of CASE has one alternative
        return all(part.is_filled for part in parts[1:])
    return False


def _is_odd_choice(node: exp.Expr, parts: Sequence[Value]) -> bool:
    """Check a choice: conditions without a weight, alternatives that are odd, 0 or NULL."""
    answers = list(zip(node.iter_expressions(), parts, strict=True))
    name = dialect.name_of(node)
    if isinstance(node, exp.Case):
        # its branches are `If`s with a known weight; `case x when …` compares x
        if node.args.get("this") is not None:
            return False
    elif isinstance(node, exp.If) or name == "if":
        if answers[0][1].weight is not Weight.PLAIN:
            return False
        answers = answers[1:]
    elif answers[0][1].weight is not Weight.ODD:
        return False
    return all(value.weight is Weight.ODD or _is_nothing(child) for child, value in answers)


def _is_nothing(node: exp.Expr) -> bool:
    """Return true for 0, NULL, or a branch of CASE that returns one of them."""
    node = node.unnest()
    if isinstance(node, exp.If):
        return all(
            _is_nothing(found) for name, found in node.args.items() if name != "this" and found
        )
    if isinstance(node, exp.Cast):
        return _is_nothing(node.this)
    return isinstance(node, exp.Null) or (
        isinstance(node, exp.Literal) and not node.is_string and float(node.name) == 0
    )


def weight_column(sql: str) -> str | None:
    """Return the column that holds `sum(_weight)`, plain or cast; None without one.

    Examples: `sum(_weight) as n`, `cast(sum(o._weight) as int) as n`, `coalesce(sum(_weight), 0) as
    n`.
    """
    try:
        tree = dialect.unchecked(sql)
    except Refused:  # the proof refuses the query as well, with the reason
        return None
    for alias in dialect.found(tree, exp.Alias):
        if isinstance(alias.parent, exp.Select) and _is_count(alias.this):
            return str(alias.alias)
    return None


def _is_count(node: exp.Expr) -> bool:
    """Return true for the sum of `_weight`, also in conversions that keep its value."""
    node = node.unnest()
    if isinstance(node, exp.Cast):
        return _is_count(node.this)
    name, arguments = dialect.name_of(node), node.expressions
    if name in ("bigint", "int"):
        return len(arguments) == 1 and _is_count(arguments[0])
    if name == "coalesce":
        is_zero = len(arguments) == 2 and arguments[1].sql(dialect.SPARK) in ("0", "0L")
        return is_zero and _is_count(arguments[0])
    is_column = name == "sum" and len(arguments) == 1 and isinstance(arguments[0], exp.Column)
    return is_column and arguments[0].name.lower() == "_weight"
