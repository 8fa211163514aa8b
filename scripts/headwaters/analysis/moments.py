"""Texts that Spark reads as the time of the run, such as `'today'` as a date, also without a cast.

As a timestamp, a text without a date, such as `'12:30'`, means today.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sqlglot import exp

from headwaters.analysis import dialect
from headwaters.analysis.exact_types import answers
from headwaters.analysis.relations import Input

# The text may end with a time zone.
_NAMED = re.compile(r"\s*(now|today|tomorrow|yesterday)(?:\s+\S+|[^a-z\s]\S*)?\s*", re.IGNORECASE)
_TIME = re.compile(r"\s*T?\d{1,2}:")
# Operators that compare their operands with each other or with patterns and return neither.
_COMPARED = (
    *(exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.GT, exp.GTE, exp.LT, exp.LTE),
    *(exp.Between, exp.In, exp.Like, exp.ILike, exp.RegexpLike),
)
_TEXTS = (exp.DType.TEXT, exp.DType.VARCHAR, exp.DType.CHAR)
# Functions from text to text.
_TEXT = {"concat", "concat_ws", "upper", "lower", "ucase", "lcase", "initcap", "trim", "ltrim"}
_TEXT |= {"rtrim", "btrim", "replace", "substring", "substr", "left", "right", "lpad", "rpad"}
_TEXT |= {"regexp_replace", "split_part", "regexp_extract", "translate", "reverse", "md5"}
# Functions that convert a date, or any value, to text.
_TO_TEXT = {"date_format", "to_json", "get_json_object", "string", "hex", "typeof"}
# Functions of texts that return other types.
_OF_TEXT = {"length", "char_length", "contains", "startswith", "endswith", "instr", "locate"}
_OF_TEXT |= {"split", "regexp_like", "find_in_set", "levenshtein"}


def refuse_moments(
    nodes: Sequence[exp.Expr], inputs: Sequence[Input], allowed: Sequence[str]
) -> None:
    """Refuse texts that Spark may read as a moment; `nodes` are all nodes of the query."""
    texts: frozenset[str] | None = None
    for node in nodes:
        if type(node) in dialect.ATOMS and type(node) is not exp.Literal:
            continue
        text = dialect.text_of(node)
        if text is None:
            continue
        moment = moment_of(text)
        if moment is None or moment in allowed:
            continue
        texts = _names_of_texts(nodes, inputs) if texts is None else texts
        if not _stays_text(node, texts):
            raise dialect.refused(
                node.parent or node,
                "HW_NONDETERMINISTIC",
                f"to Spark, '{text}' is a moment of the run where a date or a timestamp is "
                "wanted, so rows that no input affects would go stale",
                "Take the moment from a column of the input, compare cast(… as string) with a "
                f"text, or say allow_nondeterministic: [{moment}] if rows may keep the answer of "
                "the run that wrote them",
            )


def moment_of(text: str) -> str | None:
    """Return the moment that a text names, or None."""
    if _TIME.match(text):
        return "today"
    found = _NAMED.fullmatch(text)
    return found[1].lower() if found else None


def _may_be_moment(type: str) -> bool:
    """Return true if a type is or contains a date or a timestamp."""
    return re.search("date|timestamp", type, re.IGNORECASE) is not None


def _names_of_texts(nodes: Sequence[exp.Expr], inputs: Sequence[Input]) -> frozenset[str]:
    """Return names that no column with a date or a timestamp has."""
    of_inputs: dict[str, bool] = {}
    for source in inputs:
        for name, type in source.columns.items():
            is_text = not _may_be_moment(type)
            of_inputs[name.lower()] = of_inputs.get(name.lower(), True) and is_text
    given: dict[str, list[exp.Expr]] = {}
    renamed: set[str] = set()
    for node in nodes:
        if isinstance(node, exp.Alias) and not _hands_on(node):
            given.setdefault(node.alias.lower(), []).append(node.this)
        elif isinstance(node, exp.TableAlias):
            renamed.update(column.name.lower() for column in node.columns)
        elif isinstance(node, exp.Aliases):
            renamed.update(name.name.lower() for name in node.args["expressions"])
    texts = {name for name, is_text in of_inputs.items() if is_text} - given.keys() - renamed
    left = {name for name in given if of_inputs.get(name, True)} - renamed
    while more := {
        name for name in left if all(_is_text(made, frozenset(texts)) for made in given[name])
    }:
        texts |= more
        left -= more
    return frozenset(texts)


def _hands_on(node: exp.Alias) -> bool:
    """Return true if the query selects a column under its own name."""
    return isinstance(node.this, exp.Column) and node.this.name.lower() == node.alias.lower()


def _stays_text(node: exp.Expr, texts: frozenset[str]) -> bool:
    """Return true if the text, and every value made of it, is used as text."""
    parent = node.parent
    if parent is None or isinstance(parent, (exp.Select, exp.Values)):
        return True
    name = dialect.name_of(parent)
    others = [part for part in dialect.within(parent) if part is not node]
    chosen = _answers(parent)
    is_answer = any(part is node for part in chosen)
    if isinstance(parent, (*_COMPARED, exp.Case)) and not is_answer:
        # `case x when 'today'` compares as well; its branches contain the compared values
        return all(_is_text(part, texts) for part in _compared(parent, others))
    if isinstance(parent, exp.If) and parent.this is node and isinstance(parent.parent, exp.Case):
        compared = parent.parent.this
        return compared is not None and _is_text(compared, texts)
    if name in _OF_TEXT or (isinstance(parent, exp.Bracket) and parent.this is not node):
        return True
    if isinstance(parent, exp.Tuple) and isinstance(parent.parent, exp.Values):
        return True
    is_choice = is_answer and all(_is_text(part, texts) for part in chosen)
    is_text = name in _TEXT or isinstance(parent, (exp.Paren, exp.Alias, exp.DPipe, exp.Substring))
    if isinstance(parent, exp.Cast):
        is_text = parent.args["to"].this in _TEXTS
        if not is_text:
            return not _may_be_moment(dialect.type_text(parent.args["to"]))
    return (is_choice or is_text) and _stays_text(parent, texts)


def _compared(parent: exp.Expr, others: Sequence[exp.Expr]) -> Iterator[exp.Expr]:
    """Yield the operands compared with a part; for CASE, the values of its branches."""
    for part in others:
        if not isinstance(parent, exp.Case):
            yield part
        elif isinstance(part, exp.If):
            yield part.this


def _answers(node: exp.Expr) -> list[exp.Expr]:
    """Return the alternatives of CASE and similar nodes; otherwise an empty list."""
    return [part for part, _ in answers(node, dialect.within(node))]


def _is_text(node: exp.Expr, texts: frozenset[str]) -> bool:
    """Return true if a value is known to be neither a date nor a timestamp."""
    if isinstance(node, (exp.Paren, exp.Alias)):
        return _is_text(node.this, texts)
    if isinstance(node, (exp.Literal, exp.RawString, exp.National, exp.Null, exp.Boolean)):
        return True
    if isinstance(node, (exp.DPipe, exp.Substring, exp.Trim)):
        return True
    if isinstance(node, exp.Column):
        return node.name.lower() in texts
    if isinstance(node, exp.Cast):
        return not _may_be_moment(dialect.type_text(node.args["to"]))
    if dialect.name_of(node) in _TEXT | _TO_TEXT:
        return True
    if isinstance(node, exp.If) and isinstance(node.parent, exp.Case):
        return _is_text(node.args["true"], texts)
    chosen = _answers(node)
    return bool(chosen) and all(_is_text(part, texts) for part in chosen)
