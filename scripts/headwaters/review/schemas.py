"""Names of the schemas that reviews make, by which others tell them from production's."""

from __future__ import annotations

import hashlib
import re
from typing import Literal, get_args

# What a schema of production's stands for in a review: clones of inputs, the base's and the
# branch's tables, the branch's by which few rows are changed, those at earlier versions, and the
# rows that differ.
Part = Literal["in", "base", "head", "now", "past", "difference"]
RECORDS = "records"  # what runs note of themselves
_MADE = re.compile(rf"review_\w+?__(?:(?:{'|'.join(get_args(Part))})_\w+|{RECORDS})")


def is_of_review(schema: str) -> bool:
    """Whether a schema has a name that a review gives."""
    return _MADE.fullmatch(schema) is not None


def shortened(name: str, longest: int, of: str = "") -> str:
    """A name of at most so many characters: long ones begin alike, and a hash tells them apart.

    `of` is what the name was made of, where that tells more apart than the name.
    """
    if len(name) <= longest:
        return name
    return f"{name[: longest - 9]}_{hashlib.sha256((of or name).encode()).hexdigest()[:8]}"
