"""Stand-ins for the macros that models and tests call, for linting.

sqlfluff adds every public name of this package to its templates. The linter reports any other macro
as undefined: add a stand-in when a model calls a new one.
"""

from __future__ import annotations

from typing import Any


def changes(relation: Any) -> str:
    """Return the relation that the macro marks as an input."""
    return str(relation)


def affected(relation: Any, key: Any, via: Any = None, on: Any = None) -> str:
    """Return the relation that the macro marks as an input."""
    return str(relation)


def signed(relation: Any) -> str:
    """Return the relation that the macro marks as an input."""
    return str(relation)


def images(relation: Any, at: str | None = None) -> str:
    """Return the relation that the macro marks as an input."""
    return str(relation)


def lookup(relation: Any) -> str:
    """Return the relation that the macro marks as an input."""
    return str(relation)


def as_of(relation: Any, version: int | None = None, timestamp: str | None = None) -> str:
    """Return the relation, without its version."""
    return str(relation)


def surrogate_key(columns: list[str]) -> str:
    """Return an expression over the columns."""
    return f"md5(concat_ws('|', {', '.join(columns)}))"


def change_events(
    relation: Any, key: Any, columns: list[str], unavailable: list[str] | None = None
) -> str:
    """Return the relation, which has the columns of the events."""
    return f"select * from {relation}"
