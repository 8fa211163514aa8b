"""Names and literals in statements of Spark SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping

from headwaters.platform.delta_version import RESERVED_NAMES
from headwaters.platform.spark_version import QUOTED_NAMES


def identifier(name: str) -> str:
    """Quote a name of a column or a table."""
    return "`" + name.replace("`", "``") + "`"


def accepted(name: str) -> str:
    """Quote a name of a schema or a table if Delta's grammar or a parser of SQL reserves it."""
    is_reserved = name.lower() in RESERVED_NAMES | QUOTED_NAMES
    return identifier(name) if is_reserved else name


def quoted_table(name: str) -> str:
    """Quote the parts of a table's name that are reserved, unless it has quotes."""
    return name if "`" in name else ".".join(map(accepted, name.split(".")))


def literal(text: str) -> str:
    """Quote a text as a literal, like the macro `hw_literal`.

    In addition to the quote, Spark reads escapes after a backslash. Before it parses a statement it
    replaces ${names} in it, also inside literals.
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
    return f"'{escaped}'"


def ended(condition: str) -> str:
    """Return a condition that text may follow, as the macro `hw_ended` writes it.

    A comment at its end takes no more than its own line.
    """
    return f"{condition}\n" if "--" in condition else condition


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Rename tables in a text: `names` in lower case, each with its new name."""
    if not names:
        return text
    longest_first = sorted(names, key=len, reverse=True)
    pattern = rf"(?<![\w`.])(?:{'|'.join(map(re.escape, longest_first))})(?![\w`])"
    return re.sub(pattern, lambda match: names[match[0].lower()], text, flags=re.IGNORECASE)
