"""The words of SQL: plain ones, which are most, are read in one go, and all others by sqlglot.

sqlglot looks at each character of a text, which takes a third of the time of reading it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from inspect import signature

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token, TokenizerCore

# Blanks, and a name, a whole number or a sign, before what cannot be more of it; or a line's end.
_PLAIN = re.compile(
    r"[ \t]*(?:([A-Za-z_][A-Za-z0-9_]*(?=[\s,().])|[0-9]+(?=[\s,()])"
    r"|[,()]|[=<>*+/-](?=[ \n])|\.(?=[A-Za-z_]))|\n)",
    re.ASCII,
)
_SETTINGS = tuple(signature(TokenizerCore).parameters)


class WordTypes(dict[str, "TokenType | None"]):
    """The types of plain words; None of those with which something longer may begin."""

    def __init__(
        self,
        keywords: Mapping[str, TokenType],
        signs: Mapping[str, TokenType],
        commands: Collection[TokenType],
    ) -> None:
        """`commands` take the rest of a statement."""
        super().__init__(signs)
        for word, kind in keywords.items():
            first = re.split(r"\W", word)[0]
            is_whole = first == word and kind not in commands
            for written in (first, first.lower()):
                self[written] = kind if is_whole and self.get(written, kind) else None

    def __missing__(self, word: str) -> TokenType | None:
        """Of a word that is no keyword in small or capital letters."""
        if word.isdigit():
            return TokenType.NUMBER
        return self.get(word.upper(), TokenType.VAR)


class Words(TokenizerCore):
    """sqlglot's tokenizer with a short way through plain words."""

    __slots__ = ("_types",)

    def __init__(self, plain: TokenizerCore, types: WordTypes) -> None:
        """`plain` has the settings."""
        super().__init__(**{name: getattr(plain, name) for name in _SETTINGS})
        self._types = types

    def _scan_keywords(self) -> None:
        """The words from this one on, as long as they are plain."""
        sql, tokens, first = self.sql, self.tokens, len(self.tokens)
        # of the line: its number, and where it begins
        at, line, begin = self._start, self._line, self._start - self._col + 1
        # what a name after `@` or `$` is depends on it
        is_plain = not tokens or tokens[-1].token_type is not TokenType.PARAMETER
        types, match = self._types, _PLAIN.match
        while is_plain and (found := match(sql, at)):
            word, end = found[1], found.end()
            if word is None:
                begin, line = end, line + 1
            elif (kind := types[word]) is not None:
                tokens.append(Token(kind, word, line, end - begin, end - len(word), end - 1))
            else:
                break
            at = end
        if len(tokens) == first:
            super()._scan_keywords()
            return
        tokens[first].comments, self._comments = self._comments, []
        last = tokens[-1]
        self._line = self._prev_token_line = last.line
        self._col, self._current, self._char = last.col, last.end + 1, sql[last.end]
        self._end = self._current >= self.size
        self._peek = "" if self._end else sql[self._current]
