"""The statements of a text, and the decision whether one only reads."""

from __future__ import annotations

from collections.abc import Iterator

from headwaters.analysis import Token, tokens

# The first words of statements that change no table; SET and USE change this session alone.
_QUERIES = {"select", "with", "from", "values", "table", "("}
_DESCRIPTIONS = {"show", "describe", "desc", "explain", "set", "use"}
# After WITH and FROM, these words begin a statement that writes.
_WRITES = {"insert", "update", "delete", "merge"}


def split(text: str) -> list[str]:
    """Return the statements of a text, which semicolons separate, without empty ones."""
    parts: list[list[Token]] = [[]]
    for token in tokens(text):
        if token.word == ";":
            parts.append([])
        else:
            parts[-1].append(token)
    return ["".join(t.text for t in part).strip() for part in parts if any(_code(part))]


def is_complete(text: str) -> bool:
    """Return true if the text ends with a semicolon, or has no code."""
    words = list(_code(tokens(text)))
    return not words or words[-1].word == ";"


def reads(statement: str) -> bool:
    """Return true if the statement changes no table.

    A query must not name INSERT, UPDATE, DELETE or MERGE outside of quotes: Spark accepts them
    after WITH and FROM.
    """
    words = [token.word for token in _code(tokens(statement))]
    if not words or words[0] in _DESCRIPTIONS:
        return True
    return words[0] in _QUERIES and _WRITES.isdisjoint(words)


def _code(found: Iterator[Token] | list[Token]) -> Iterator[Token]:
    return (token for token in found if token.kind not in ("blank", "comment", "marker"))
