"""Texts as they stand in a statement of Spark SQL."""

from __future__ import annotations


def identifier(name: str) -> str:
    """A name of a column or a table."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A text as a literal, as the macro `hw_literal` writes it.

    Besides the quote, Spark reads escapes after a backslash, and before it parses a statement it
    replaces ${names} in it, those inside literals too.
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
    return f"'{escaped}'"
