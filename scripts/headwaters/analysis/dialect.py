"""Spark's SQL as a syntax tree that keeps every function name as written."""

from __future__ import annotations

import functools
import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, TypeVar

from sqlglot import TokenType, exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token

from headwaters.analysis.pipes import unpiped
from headwaters.analysis.refusal import Refused
from headwaters.analysis.shifts import FUNCTIONS, REMEDY, right_shifts, shifts_as_functions
from headwaters.analysis.spark_tokens import as_spark_reads, name_functions

# Functions whose arguments have a special syntax.
_SPECIAL = {
    *("CAST", "TRY_CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTRING", "SUBSTR", "TRIM"),
    *("AND", "OR"),
}
# Functions that sqlglot has a class for. A class may cover several functions of Spark.
_CLASSES = (SparkParser.FUNCTIONS.keys() | SparkParser.FUNCTION_PARSERS.keys()) - _SPECIAL
# Words that are functions only if they are quoted, such as CASE.
_WORDS = SparkParser.NO_PAREN_FUNCTION_PARSERS.keys()
# A prefix that hides a name from sqlglot.
_MARK = "\x00"
# After these words a name with brackets is a type, as in `cast(a as char(9))`.
_BEFORE_TYPES = {TokenType.ALIAS, TokenType.DCOLON, TokenType.LT, TokenType.COLON}
_TYPES = SparkParser.TYPE_TOKENS - {TokenType.STRUCT, TokenType.ARRAY, TokenType.MAP}
# Operators whose precedence differs between sqlglot and Spark.
_BITWISE: tuple[type[exp.Expr], ...] = (
    *(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.DPipe, exp.BitwiseLeftShift),
)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_PREDICATES = (
    *(exp.Between, exp.In, exp.Is, exp.Like, exp.ILike, exp.RegexpLike, exp.Escape, exp.Not),
)
_NULL_SAFE = (exp.NullSafeEQ, exp.NullSafeNEQ)
_LOOSE = {*_BITWISE, *_COMPARISONS, *_NULL_SAFE}
AT_ITS_VERSION = "each input is read at the version that its run begins with"
_WITHOUT_VERSION = "Leave it out, or make the model a table (materialized: table)"
_DOUBTED = {exp.Interval, exp.Parameter, exp.Version, exp.Where, exp.Having, *_LOOSE}
# Nodes without calls or tables below them. Half of all nodes have no children.
ATOMS = {exp.Column, exp.Literal, exp.Identifier, exp.Null, exp.Boolean, exp.DataType}
NAMES = {exp.Identifier, exp.Literal}
_MARKED = {exp.Anonymous, exp.Identifier, exp.Var, exp.DataType}
_OTHER_TEXTS = {exp.RawString, exp.National}
_OTHERWISE = "which operands belong to which operator is read in two ways"

_Told = TypeVar("_Told")
_Node = TypeVar("_Node", bound=exp.Expr)


class _Spark(Spark):
    """sqlglot's Spark with the escapes of Spark 4."""

    class Tokenizer(Spark.Tokenizer):
        # a doubled quote is one quote, as in `'it''s'`
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']


# The dialect of all trees, those with sqlglot's classes of functions too.
SPARK = _Spark


@dataclass(frozen=True)
class Text:
    """A parsed query: its text, tree, tokens, and all nodes of the tree.

    The text has no pipe syntax, but queries that mean the same. The nodes are those of `walked`,
    shared by all callers that visit every node.
    """

    sql: str
    tree: exp.Query
    tokens: Sequence[Token]
    nodes: Sequence[exp.Expr]

    def holders(self, *types: type[exp.Expr]) -> set[int]:
        """Return the ids of the nodes of these types and of their ancestors."""
        return self.around(node for node in self.nodes if isinstance(node, types))

    def around(self, nodes: Iterable[exp.Expr]) -> set[int]:
        """Return the ids of these nodes and of their ancestors."""
        found: set[int] = set()
        for node in nodes:
            inner: exp.Expr | None = node
            while inner is not None and id(inner) not in found:
                found.add(id(inner))
                inner = inner.parent
        return found


def parsed(sql: str) -> exp.Query:
    """Return the tree of SQL that is one query. Raises Refused if it cannot be read."""
    return read(sql).tree


def read(sql: str) -> Text:
    """Parse SQL that is one query. Raises Refused if it cannot be read."""
    tree, tokens, text = _parsed(sql)
    nodes = walked(tree)
    for node in nodes:
        _check(node)
    if name_functions(nodes):
        nodes = walked(tree)
    return Text(text, tree, tokens, nodes)


def unchecked(sql: str) -> exp.Query:
    """Parse SQL that may name versions and parameters. Raises Refused if it cannot be parsed."""
    tree, _, _ = _parsed(sql)
    nodes = walked(tree)
    for node in nodes:
        if type(node) in _MARKED:
            _unmark(node)
    name_functions(nodes)
    return tree


def _parsed(sql: str) -> tuple[exp.Query, Sequence[Token], str]:
    """Return the tree of one query, with marked names, its tokens, and its text without pipes."""
    try:
        sql, tokens = _tokens(sql, is_strict=True)
        with _as_written(tokens):
            trees = [tree for tree in _Spark().parser().parse(tokens, sql) if tree is not None]
    except (ParseError, TokenError) as error:
        details = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
        near = f"{details.get('highlight') or ''}"
        reason = f"it cannot be parsed: {details.get('description') or error}"
        raise Refused("HW_NOT_UNDERSTOOD", near, details.get("line"), reason) from None
    except SqlglotError as error:
        raise Refused("HW_NOT_UNDERSTOOD", "", None, f"it cannot be parsed: {error}") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise Refused("HW_NOT_UNDERSTOOD", "", None, "it is not one query")
    return trees[0], tokens, sql


def statements(sql: str) -> list[exp.Expr]:
    """Parse SQL with sqlglot's classes of functions. Raises SqlglotError and Refused."""
    text, tokens = _tokens(sql, is_strict=False)
    trees = [tree for tree in _Spark().parser().parse(tokens, text) if tree is not None]
    for tree in trees:
        name_functions(walked(tree))
    return trees


def _tokens(sql: str, is_strict: bool) -> tuple[str, list[Token]]:
    """Return the tokens as Spark reads them, and their text, without pipes. Raises Refused.

    With `is_strict`, refuse tokens that sqlglot reads differently from Spark.
    """
    return _tokens_of(without_shifts(sql), is_strict)


@functools.lru_cache(maxsize=64)
def without_shifts(sql: str) -> str:
    """Return the text with functions for `>>` and `>>>`. Raises Refused and SqlglotError.

    sqlglot has to read both texts as the same trees.
    """
    if ">>" not in sql:
        return sql
    tokens = _Spark().tokenize(sql)
    shifts = right_shifts(tokens)
    if not shifts:
        return sql
    written = shifts_as_functions(sql, tokens)
    if _with_operators(sql) != _with_operators(written):
        first = min(shifts)
        raise Refused("HW_NOT_UNDERSTOOD", ">>", tokens[first].line, _OTHERWISE, REMEDY)
    return written


def _with_operators(sql: str) -> list[exp.Expr | None]:
    """Return the trees of SQL that may have right shifts, with calls of functions for them."""
    text, tokens = _tokens_of(sql, is_strict=False)
    for place, many in reversed(right_shifts(tokens).items()):
        if many == 3:
            # `??` has the same rank, and Spark lacks it
            operator = tokens[place]
            operator.text, operator.token_type = "??", TokenType.DQMARK
            del tokens[place + 1 : place + 3]
    with _as_written(tokens):
        trees = _Spark().parser().parse(tokens, text)
    for tree in trees:
        for node in walked(tree) if tree is not None else []:
            if type(node) in _MARKED:
                _unmark(node)
            # no function `coalesce`, which remains a name in the tree
            if isinstance(node, (exp.BitwiseRightShift, exp.Coalesce)):
                is_signed = isinstance(node, exp.BitwiseRightShift)
                other = node.expression if is_signed else node.expressions[0]
                name = FUNCTIONS[2 if is_signed else 3]
                node.replace(exp.Anonymous(this=name, expressions=[node.this, other]))
    return trees


def _tokens_of(sql: str, is_strict: bool) -> tuple[str, list[Token]]:
    """Return the tokens of a text without right shifts. Raises Refused."""
    tokens = _Spark().tokenize(sql)
    if is_strict:
        _refuse_words(sql, tokens)
    if "|>" in sql and any(token.token_type is TokenType.PIPE_GT for token in tokens):
        parts = unpiped(sql, tokens)
        sql = "".join(text for text, _ in parts)
        tokens = _Spark().tokenize(sql)
        _number_lines(tokens, parts)
    return sql, as_spark_reads(sql, tokens)


def _number_lines(tokens: Iterable[Token], parts: Sequence[tuple[str, int]]) -> None:
    """Give the tokens of a text the lines of the text that its parts are made of."""
    ends = list(itertools.accumulate(len(text) for text, _ in parts))
    for token in tokens:
        place = bisect_right(ends, token.start)
        text, first = parts[place]
        begin = ends[place] - len(text)
        token.line = first + text.count("\n", 0, token.start - begin)


def _check(node: exp.Expr) -> None:
    """Unmark a node, or refuse one that sqlglot may read differently from Spark."""
    if type(node) in _MARKED:
        _unmark(node)
    if type(node) not in _DOUBTED:
        return
    if type(node) is exp.Parameter:
        # also as the alias of a table, `t@v1`, which Delta reads as another version of it
        raise refused(node, "HW_NOT_UNDERSTOOD", "a parameter, or a version of a table")
    if type(node) is exp.Version:
        raise refused(node, "HW_NOT_UNDERSTOOD", AT_ITS_VERSION, _WITHOUT_VERSION)
    if type(node) is exp.Interval and not node.args.get("unit"):
        reason = "an interval without a unit may be a column"
        raise refused(node, "HW_NOT_UNDERSTOOD", reason)
    if type(node) in (exp.Where, exp.Having) and _may_be_alias(node):
        reason = (
            "to Spark, this is an alias of the table with the name of its column, and no filter"
        )
        raise refused(node, "HW_NOT_UNDERSTOOD", reason, "Leave out the brackets")
    if type(node) in _LOOSE and any(_is_grouped_otherwise(node, part) for part in within(node)):
        raise refused(node, "HW_NOT_UNDERSTOOD", _OTHERWISE, "Put brackets")


def _may_be_alias(node: exp.Expr) -> bool:
    """Return true for brackets around nothing but names, after a table without an alias."""
    bracketed = node.this
    names = bracketed.expressions if type(bracketed) is exp.Tuple else [bracketed.this]
    if type(bracketed) not in (exp.Paren, exp.Tuple) or not all(
        type(name) is exp.Column and len(name.parts) == 1 for name in names
    ):
        return False
    select = node.parent
    if select is None or not select.args.get("from_"):
        return True
    before = (select.args.get("joins") or [select.args["from_"]])[-1]
    return not (before.args.get("on") or before.args.get("using") or before.this.alias)


@contextmanager
def _as_written(tokens: Sequence[Token]) -> Iterator[None]:
    """Keep the names of functions, which sqlglot would replace by classes.

    Inside the context the names carry a mark, and `current_date` without brackets is a name,
    possibly of a column. The compiled parser does not allow a subclass with another configuration.
    """
    changed: list[tuple[Token, str, TokenType]] = []
    before: Token | None = None
    for token, after in itertools.pairwise([*tokens, None]):
        assert token is not None
        is_called = after is not None and after.token_type is TokenType.L_PAREN
        kind = token.token_type
        name = token.text.upper() if is_called and kind is not TokenType.STRING else ""
        is_word = name in _WORDS and kind is not TokenType.IDENTIFIER
        if not is_word and (name in _CLASSES or name in _WORDS):
            is_type = kind in _TYPES and before is not None and before.token_type in _BEFORE_TYPES
            if not is_type:
                changed.append((token, token.text, kind))
                token.text = _MARK + token.text
        elif kind in SparkParser.NO_PAREN_FUNCTIONS:
            changed.append((token, token.text, kind))
            token.token_type = TokenType.VAR
        before = token
    try:
        yield
    finally:
        for token, text, kind in changed:
            token.text, token.token_type = text, kind


def _unmark(node: exp.Expr) -> None:
    """Remove the mark, and name the type TIME, which sqlglot writes as TIMESTAMP."""
    if type(node) is exp.DataType:
        if node.this is exp.DType.TIME:
            precision = [part.name for part in node.expressions]
            kind = f"TIME({precision[0]})" if precision else "TIME"
            node.args.clear()
            node.args.update(this=exp.DType.USERDEFINED, kind=kind)
        return
    name = node.args.get("this")
    if type(name) is str and name.startswith(_MARK):
        node.args["this"] = name.removeprefix(_MARK)


def _refuse_words(sql: str, tokens: Sequence[Token]) -> None:
    """Refuse tokens that sqlglot reads differently from Spark."""
    may_be_hexadecimal = "0x" in sql.lower()
    if not may_be_hexadecimal and "\\" not in sql:
        return
    for token in tokens:
        if may_be_hexadecimal and sql[token.start : token.start + 2].lower() == "0x":
            reason = "to Spark it is a name, and to others a number"
            clause = sql[token.start : token.end + 1]
            raise Refused("HW_NOT_UNDERSTOOD", clause, token.line, reason, "Quote it")
        if token.comments and any(comment.endswith("\\") for comment in token.comments):
            reason = "to Spark, the next line is part of a comment that ends with a backslash"
            raise Refused("HW_NOT_UNDERSTOOD", token.text, token.line, reason)


def text_of(node: exp.Expr) -> str | None:
    """Return the text of a string literal; None for other nodes."""
    if type(node) is exp.Literal:
        return node.name if node.is_string else None
    return node.name if type(node) in _OTHER_TEXTS else None


def within(node: exp.Expr) -> list[exp.Expr]:
    """Return the children of a node in order, like `iter_expressions` in half the time."""
    below: list[exp.Expr] = []
    if type(node) in NAMES:
        return below
    for value in node.args.values():
        if isinstance(value, exp.Expr):
            below.append(value)
        elif type(value) is list:
            for part in value:
                if isinstance(part, exp.Expr):
                    below.append(part)
    return below


def walked(node: exp.Expr) -> list[exp.Expr]:
    """Return the node and all its descendants, level by level, like `walk` in half the time."""
    every = [node]
    for one in every:
        if type(one) in NAMES:
            continue
        for value in one.args.values():
            if isinstance(value, exp.Expr):
                every.append(value)
            elif type(value) is list:
                every += [part for part in value if isinstance(part, exp.Expr)]
    return every


def found(node: exp.Expr, *types: type[_Node]) -> Iterator[_Node]:
    """Yield the nodes of these types, in the order of `walked`."""
    return (one for one in walked(node) if isinstance(one, types))


def name_of(node: object) -> str:
    """Return the name of a function in lower case; an empty text for other nodes."""
    if type(node) is not exp.Anonymous:
        return ""
    name = node.args["this"]  # a text unless the name is quoted
    return (name if type(name) is str else node.name).lower()


def _is_grouped_otherwise(node: exp.Expr, part: exp.Expr) -> bool:
    """Return true if Spark may attach an operand to a different operator than sqlglot does.

    Spark ranks `&` before `^` before `|`, `||` with `+`, and comparisons before LIKE and similar
    predicates.
    """
    if type(part) in ATOMS:
        return False
    is_right = part is node.args.get("expression")
    if isinstance(node, _BITWISE):
        is_sum = is_right and isinstance(node, exp.DPipe) and isinstance(part, (exp.Add, exp.Sub))
        return is_sum or (isinstance(part, _BITWISE) and type(part) is not type(node))
    if is_right and isinstance(node, _NULL_SAFE):
        part = part.unnest()  # sqlglot may have added the brackets
    compared = (*_COMPARISONS, *_NULL_SAFE) if is_right else ()
    return isinstance(part, (*_PREDICATES, *compared))


def refused(node: exp.Expr, code: str, reason: str, remedy: str = "") -> Refused:
    """Return a refusal of a clause, with its text and place."""
    clause, place = partial(_of_alone, text, node), partial(_of_alone, line, node)
    return Refused(code, clause, place, reason, remedy)


def _of_alone(tell: Callable[[exp.Expr], _Told], node: exp.Expr) -> _Told:
    """Call a function on a query without its WITH clause, which is not part of the clause."""
    clause = node.args.get("with_")
    if clause is not None:
        node.args["with_"] = None
    try:
        return tell(node)
    finally:
        if clause is not None:
            node.args["with_"] = clause


def text(node: exp.Expr) -> str:
    """Return the node as SQL, shortened for a message."""
    copied = exp.Paren(this=node.copy())
    name_functions(walked(copied))
    sql = whole_text(copied.this, is_own=True)
    return sql if len(sql) <= 80 else sql[:77] + "…"


def line(node: exp.Expr) -> int | None:
    """Return the line on which the node begins; None if none of its names has a line."""
    lines = [part.meta["line"] for part in walked(node) if "line" in part.meta]
    return min(lines) if lines else None


def whole_text(node: exp.Expr, is_own: bool = False) -> str:
    """Return the node as SQL. With `is_own`, the generator may change the node."""
    written = _Spark().generator(normalize_functions=False)
    return str(written.generate(node, copy=not is_own))


def type_text(node: exp.Expr) -> str:
    """Return a type as SQL, in a tenth of the time of `whole_text` if it has no parts."""
    others = (value for name, value in node.args.items() if name != "this")
    if type(node.this) is exp.DType and not any(others):
        return _plain_type(node.this)
    return whole_text(node)


@functools.cache
def _plain_type(kind: exp.DType) -> str:
    return whole_text(exp.DataType(this=kind))
