"""The parts of nested types."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import ParseError

_PARTS = {"array": ["element"], "map": ["key", "value"]}


def parts_of_type(name: str) -> dict[str, str]:
    """Return the types of an array's, a map's or a struct's parts by their names in lower case.

    Other types have none.
    """
    kind = name.partition("<")[0].strip().lower()
    if kind not in (*_PARTS, "struct") or not name.rstrip().endswith(">"):
        return {}
    try:
        parts = exp.DataType.build(name, dialect="spark").expressions
    except ParseError:
        return {}
    if kind in _PARTS:
        return {part: one.sql("spark") for part, one in zip(_PARTS[kind], parts, strict=False)}
    return {part.name.lower(): part.args["kind"].sql("spark") for part in parts}
