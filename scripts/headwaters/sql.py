"""Texts as they stand in a statement of Spark SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping


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


def ended(condition: str) -> str:
    """Return a condition that text may follow, as the macro `hw_ended` writes it.

    A comment at its end takes no more than its own line.
    """
    return f"{condition}\n" if "--" in condition else condition


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A text with other names of tables: `names` in lower case, and what each becomes."""
    if not names:
        return text
    longest_first = sorted(names, key=len, reverse=True)
    pattern = rf"(?<![\w`.])(?:{'|'.join(map(re.escape, longest_first))})(?![\w`])"
    return re.sub(pattern, lambda match: names[match[0].lower()], text, flags=re.IGNORECASE)
