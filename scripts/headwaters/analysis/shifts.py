"""Right shifts as functions: `a >> 2` is `shiftright(a, 2)`, `>>>` is `shiftrightunsigned`.

Behind `array`, `map` or `struct` Spark's lexer takes `>>` for the ends of two types, and the
statements of a run have these words before a model's SQL. Spark resolves the operators to the two
functions. Its grammar ranks a shift below sums and products and above `&`, and groups several from
the left, so the operands are sums at the same depth of brackets. The caller compares the trees of
both texts.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import TokenType
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token

from headwaters.analysis.refusal import Refused

FUNCTIONS = {2: "shiftright", 3: "shiftrightunsigned"}
REMEDY = "Write shiftright(…) or shiftrightunsigned(…)"
_SUMS = {
    *(TokenType.PLUS, TokenType.DASH, TokenType.DPIPE, TokenType.STAR, TokenType.SLASH),
    *(TokenType.MOD, TokenType.DIV, TokenType.TILDE),
}
# A name or a bracket after one of these belongs to the operand before it.
_WITHIN = {
    *(TokenType.DOT, TokenType.DCOLON, TokenType.COLON, TokenType.OVER, TokenType.FILTER),
    TokenType.COLLATE,
}
_OPENS = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE}
_CLOSES = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END}
_OPERANDS = (SparkParser.ID_VAR_TOKENS | SparkParser.TYPE_TOKENS) - {TokenType.IS}
_OPERANDS |= {TokenType.NUMBER, TokenType.STRING, TokenType.IDENTIFIER, TokenType.NULL}
# Words before a bracket that call nothing.
_NO_CALLS = {
    *(TokenType.IN, TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.WHEN, TokenType.THEN),
    *(TokenType.ELSE, TokenType.ON, TokenType.USING, TokenType.WHERE, TokenType.HAVING),
    *(TokenType.SELECT, TokenType.DISTINCT, TokenType.FROM, TokenType.JOIN, TokenType.ALIAS),
    *(TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.VALUES, TokenType.BETWEEN),
    *(TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE, TokenType.GROUP_BY, TokenType.ORDER_BY),
    *(TokenType.QUALIFY, TokenType.EXISTS, TokenType.ALL, TokenType.PARTITION_BY, TokenType.COMMA),
}
_WITH_TYPES = {TokenType.ARRAY, TokenType.MAP, TokenType.STRUCT}


@dataclass
class _Parens:
    """The operand that is being read at one depth of brackets.

    `first` is the number of its first token. `is_called`: the right operand of a shift is open.
    `is_whole`: the last token ends a value.
    """

    first: int | None = None
    is_called: bool = False
    is_whole: bool = False


def shifts_as_functions(sql: str, tokens: Sequence[Token]) -> str:
    """Return the text with functions for right shifts. Raises Refused."""
    pieces = [sql[token.start : token.end + 1] for token in tokens]
    shifts = right_shifts(tokens)
    levels, place = [_Parens()], 0

    def ended(level: _Parens) -> None:
        if level.is_called:
            pieces[place - 1] += ")"
        level.is_called = False

    for token in tokens:
        if token.token_type is TokenType.IDENTIFIER and ">>" in token.text:
            reason = "the operator without an alias would get another name"
            raise Refused("HW_NOT_UNDERSTOOD", token.text, token.line, reason, "Add an alias")
    while place < len(tokens):
        kind, level, many = tokens[place].token_type, levels[-1], shifts.get(place, 0)
        if many:
            ended(level)
            if level.first is None or not level.is_whole:
                reason = "its operand is not found"
                raise Refused("HW_NOT_UNDERSTOOD", ">" * many, tokens[place].line, reason, REMEDY)
            pieces[level.first] = f"{FUNCTIONS[many]}({pieces[level.first]}"
            pieces[place : place + many] = [",", *[""] * (many - 1)]
            level.is_called, level.is_whole = True, False
            place += many
            continue
        if _many(tokens, place, TokenType.LT) == 2:
            ended(level)
            level.is_whole = False
            place += 1
        elif kind in _CLOSES and len(levels) > 1:
            ended(level)
            levels.pop()
            levels[-1].is_whole = True
        elif kind in _SUMS or kind in _WITHIN:
            level.first = place if level.first is None else level.first
            level.is_whole = False
        elif kind in _OPENS or kind in _OPERANDS or _is_call(tokens, place):
            is_bracket = kind in (TokenType.L_PAREN, TokenType.L_BRACKET)
            if level.is_whole and not is_bracket and kind is not TokenType.STRING:
                ended(level)  # the name of a column, or another word
                level.first = None
            level.first = place if level.first is None else level.first
            level.is_whole = kind not in _OPENS
            if kind in _OPENS:
                levels.append(_Parens())
        else:
            ended(level)
            levels[-1] = _Parens()
        place += 1
    for level in levels:
        ended(level)
    ends = [0, *(token.end + 1 for token in tokens)]
    between = [sql[end : token.start] for end, token in zip(ends, tokens, strict=False)]
    return "".join(itertools.chain(*zip(between, pieces, strict=True))) + sql[ends[-1] :]


def right_shifts(tokens: Sequence[Token]) -> dict[int, int]:
    """Return the places of right shifts among tokens, each with the number of its tokens.

    The end of `array<array<int>>` is none.
    """
    shifts: dict[int, int] = {}
    depth = place = 0
    while place < len(tokens):
        kind, many = tokens[place].token_type, 1
        if kind is TokenType.LT and place and tokens[place - 1].token_type in _WITH_TYPES:
            depth += 1
        elif kind is TokenType.GT and depth:
            depth -= 1
        elif kind is TokenType.GT:
            many = _many(tokens, place, kind)
            if many in FUNCTIONS:
                shifts[place] = many
        place += many
    return shifts


def _many(tokens: Sequence[Token], place: int, kind: TokenType) -> int:
    """Return the number of tokens of a kind from here on with nothing between them, at most 3."""
    found = list(itertools.takewhile(lambda one: one.token_type is kind, tokens[place : place + 3]))
    starts = (one.start - number for number, one in enumerate(found))
    return len(found) if len(set(starts)) == 1 else min(len(found), 1)


def _is_call(tokens: Sequence[Token], place: int) -> bool:
    """Return true for a word of the grammar that is the name of a function, such as `left`."""
    after = tokens[place + 1].token_type if place + 1 < len(tokens) else None
    token = tokens[place]
    is_word = token.text.isidentifier() and token.token_type not in _NO_CALLS
    return is_word and after is TokenType.L_PAREN
