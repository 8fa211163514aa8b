"""What the macros that models and tests call stand for while SQL is linted.

sqlfluff puts every public name of this package into its templates. A macro that is not here is an
undefined name for the lint: add it when a model calls a new one.
"""

from __future__ import annotations

from typing import Any


def changes(relation: Any) -> str:
    """An input is the relation that it marks."""
    return str(relation)


def affected(relation: Any, key: Any, via: Any = None, on: Any = None) -> str:
    """An input is the relation that it marks."""
    return str(relation)


def signed(relation: Any) -> str:
    """An input is the relation that it marks."""
    return str(relation)


def images(relation: Any, at: str | None = None) -> str:
    """An input is the relation that it marks."""
    return str(relation)


def lookup(relation: Any) -> str:
    """An input is the relation that it marks."""
    return str(relation)


def as_of(relation: Any, version: int | None = None, timestamp: str | None = None) -> str:
    """A version of a relation is the relation."""
    return str(relation)


def surrogate_key(columns: list[str]) -> str:
    """An expression over the columns."""
    return f"md5(concat_ws('|', {', '.join(columns)}))"


def change_events(
    relation: Any, key: Any, columns: list[str], unavailable: list[str] | None = None
) -> str:
    """The events have the columns of the relation."""
    return f"select * from {relation}"
