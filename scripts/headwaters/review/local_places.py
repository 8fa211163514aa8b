"""A review without the paths of the machine that made it, which a public comment must not show."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from headwaters.review.facts import Example

_Fact = TypeVar("_Fact")
_AS_WRITTEN = {"diff_of_sql"}  # the project's own text


def places_of(root: Path, base: Path, local: Path) -> dict[str, str]:
    """Return the folders of this machine that messages name, with a name for each."""
    named = {
        base: "<project>",
        root: "<project>",
        local: "<lake>",
        Path(sys.prefix): "<python>",
        Path(tempfile.gettempdir()): "<temporary>",
        Path.home(): "~",
    }
    both = {str(path): name for one, name in named.items() for path in (one, one.resolve())}
    return {path: name for path, name in both.items() if path != "/"}


def without_places(fact: _Fact, places: Mapping[str, str]) -> _Fact:
    """Rename the folders in the messages of facts; rows and SQL do not change."""
    # the longest first, since a folder may contain another one
    folders = "|".join(re.escape(path) for path in sorted(places, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w.~/-])(?:file:/*(?=/))?({folders})(?![\w-]|\.\w)")
    result: _Fact = _renamed(fact, pattern, places)
    return result


def _renamed(fact: Any, pattern: re.Pattern[str], places: Mapping[str, str]) -> Any:
    if isinstance(fact, str):
        return pattern.sub(lambda found: places[found[1]], fact)
    if isinstance(fact, tuple):
        return tuple(_renamed(one, pattern, places) for one in fact)
    if is_dataclass(fact) and not isinstance(fact, type | Example):
        parts = {one.name: getattr(fact, one.name) for one in fields(fact)}
        renamed = {
            name: _renamed(part, pattern, places)
            for name, part in parts.items()
            if name not in _AS_WRITTEN
        }
        return replace(fact, **renamed)
    return fact
