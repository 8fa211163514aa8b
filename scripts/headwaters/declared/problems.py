"""What somebody declared wrongly, with the code by which docs/errors.md explains it."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Problem:
    """One cause: its stable code, and what is wrong and what to write."""

    code: str
    text: str

    def __str__(self) -> str:
        """As an error shows it."""
        return f"[{self.code}] {self.text}" if self.code else self.text

    def at(self, place: str) -> Problem:
        """The problem of one file and node."""
        return replace(self, text=f"{place}: {self.text}")
