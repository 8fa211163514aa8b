"""A wrong declaration, with the code that docs/errors.md explains."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Problem:
    """One cause: its stable code, the mistake and the remedy.

    `setting`: the name in a node's config that it is about, such as `meta.on_gap`, if it is known.
    """

    code: str
    text: str
    setting: str = ""

    def __str__(self) -> str:
        """Return the text of an error."""
        return f"[{self.code}] {self.text}" if self.code else self.text

    def at(self, place: str) -> Problem:
        """Return the problem with a file and node."""
        return replace(self, text=f"{place}: {self.text}")


def first_name(text: str) -> str:
    """Return the name at the beginning of a text: the setting that the text is about."""
    found = re.match(r"\w+", text)
    return found[0] if found else ""
