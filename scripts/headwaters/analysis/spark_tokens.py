"""Tokens of Spark's SQL that sqlglot does not know, as tokens that its parser groups alike.

| Spark | sqlglot reads | and then the tree has |
|---|---|---|
| `a << 2` | the same | `shiftleft(a, 2)` |
| `v:a.b[0]` | `v['…']`, which binds its operand as tightly | `variant_get(v, '$.a.b[0]')` |
| `a !> 2`, `a !< 2` | `a <= 2`, `a >= 2` | the same |
| `X"1F"` | `X'1F'` | the same |

Spark resolves the operator to this function, and a path to `variant_get` without a type. A cast
behind the path is a cast of the variant. So trees with these functions mean the same, also for
NULL. The text of the query does not change. Right shifts have become functions before: see
`shifts.py`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from sqlglot import TokenType, exp
from sqlglot.tokenizer_core import Token

from headwaters.analysis.refusal import Refused

# One of these is in each text with such a token.
_MAY_HAVE = re.compile(r"""\?\?|![<>]|[xX]"|(?<!:):(?!:)""")
# A prefix that tells paths from the keys of a map: no text of a query contains half a character.
_MARK = "\udfff"
_NEGATED = {TokenType.GT: TokenType.LTE, TokenType.LT: TokenType.GTE}
_WITH_TYPES = {TokenType.ARRAY, TokenType.MAP, TokenType.STRUCT}
# The last token of what a path may follow. A parameter, `:name`, follows other tokens.
_BEFORE_PATHS = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.R_BRACKET}
_KEY = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


def as_spark_reads(sql: str, tokens: list[Token]) -> list[Token]:
    """Return the tokens with those that only Spark knows in a form that sqlglot knows.

    Raises Refused.
    """
    if not _MAY_HAVE.search(sql):
        return tokens
    found: list[Token] = []
    depth = place = 0  # the depth of brackets of types: `array<array<array<int>>>` has no operator
    while place < len(tokens):
        token = tokens[place]
        kinds = [one.token_type for one in tokens[place : place + 2]]
        last = found[-1].token_type if found else None
        if token.token_type is TokenType.DQMARK:
            raise Refused("HW_NOT_UNDERSTOOD", token.text, token.line, "it is no operator of Spark")
        if token.token_type is TokenType.LT and last in _WITH_TYPES:
            depth += 1
        elif token.token_type is TokenType.GT and depth:
            depth -= 1
        elif token.text == "!" and len(kinds) > 1 and kinds[1] in _NEGATED:
            if _is_one(tokens[place : place + 2]):
                found.append(_joined(tokens[place : place + 2], _NEGATED[kinds[1]]))
                place += 2
                continue
        elif token.text in ("x", "X") and kinds[1:2] == [TokenType.STRING]:
            both = tokens[place : place + 2]
            if token.token_type is TokenType.VAR and _is_one(both) and sql[both[1].start] == '"':
                found.append(_joined(both, TokenType.HEX_STRING, both[1].text))
                place += 2
                continue
        elif token.token_type is TokenType.COLON and not depth and last in _BEFORE_PATHS:
            path, end = _path(tokens, place)
            within = tokens[place:end]
            found.append(_joined(within[:1], TokenType.L_BRACKET, "["))
            found.append(_joined(within, TokenType.STRING, f"{_MARK}${path}"))
            found.append(_joined(within[-1:], TokenType.R_BRACKET, "]"))
            place = end
            continue
        found.append(token)
        place += 1
    return found


def _path(tokens: Sequence[Token], begin: int) -> tuple[str, int]:
    """Return the path after a colon as `variant_get` writes it, and the number of its next token.

    Raises Refused.
    """
    path, place = "", begin
    while place < len(tokens):
        kinds = [token.token_type for token in tokens[place : place + 3]]
        texts = [token.text for token in tokens[place : place + 3]]
        starts = (TokenType.COLON,) if place == begin else (TokenType.DOT,)
        is_bracket = kinds[0] is TokenType.L_BRACKET or (
            place == begin and kinds[1:2] == [TokenType.L_BRACKET]
        )
        if is_bracket:
            first = place + (place == begin)
            kinds = [token.token_type for token in tokens[first : first + 3]]
            inner = tokens[first + 1] if len(kinds) == 3 else None
            if inner is None or kinds[2] is not TokenType.R_BRACKET:
                raise _unknown(tokens[begin])
            if kinds[1] is TokenType.NUMBER and inner.text.isdigit():
                path += f"[{inner.text}]"
            elif kinds[1] is TokenType.STRING and not {"'", "\\", '"'} & {*inner.text}:
                path += f"['{inner.text}']"
            else:
                raise _unknown(tokens[begin])
            place = first + 3
        elif kinds[0] in starts:
            is_key = len(kinds) > 1 and kinds[1] not in (TokenType.STRING, TokenType.IDENTIFIER)
            if not is_key or not _KEY.fullmatch(texts[1]):
                raise _unknown(tokens[begin])
            path += f".{texts[1]}"
            place += 2
        else:
            break
    if not path:
        raise _unknown(tokens[begin])
    return path, place


def _unknown(token: Token) -> Refused:
    reason = "the path of a variant consists of names, numbers in brackets and texts in brackets"
    return Refused("HW_NOT_UNDERSTOOD", token.text, token.line, reason)


def _is_one(tokens: Sequence[Token]) -> bool:
    """Return true if there is nothing between the tokens."""
    return all(one.end + 1 == other.start for one, other in itertools.pairwise(tokens))


def _joined(tokens: Sequence[Token], kind: TokenType, text: str | None = None) -> Token:
    """Return one token in the place of some."""
    first, last = tokens[0], tokens[-1]
    written = "".join(token.text for token in tokens) if text is None else text
    comments = [comment for token in tokens for comment in token.comments or []]
    return Token(kind, written, first.line, first.col, first.start, last.end, comments)


def name_functions(nodes: Iterable[exp.Expr]) -> bool:
    """Replace shifts and paths in a tree by calls of functions; return true if there were some.

    The function of a shift is `shiftleft`, that of a path `variant_get`.
    """
    changed = False
    for node in nodes:
        if isinstance(node, exp.BitwiseLeftShift):
            listed = [node.this, node.expression]
            node.replace(exp.Anonymous(this="shiftleft", expressions=listed))
            changed = True
        elif type(node) is exp.Bracket and len(node.expressions) == 1:
            path = node.expressions[0]
            if type(path) is exp.Literal and path.is_string and path.name.startswith(_MARK):
                text = exp.Literal.string(path.name.removeprefix(_MARK))
                node.replace(exp.Anonymous(this="variant_get", expressions=[node.this, text]))
                changed = True
    return changed
