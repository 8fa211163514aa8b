"""Our errors as dbt's."""

from __future__ import annotations

from typing import NoReturn

from dbt_common.exceptions import CompilationError


class OneLineError(CompilationError):
    """An error of a node or an operation without the list of macros that led to it."""

    def process_stack(self) -> list[str]:
        """Return no lines: the macros are those of this package."""
        return []


def refuse(text: str) -> NoReturn:
    """Raise an error from a macro."""
    raise OneLineError(text)
