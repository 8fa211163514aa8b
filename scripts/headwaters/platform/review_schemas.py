"""Names of the schemas that reviews make, which distinguish them from production's."""

from __future__ import annotations

import hashlib
import re
from typing import Literal, get_args

# The roles of schemas in a review, in this order: clones of inputs, tables of the base, tables of
# the branch, clones that the branch patches, tables at earlier versions, inputs with a change that
# the review made, differing rows.
Part = Literal["in", "base", "head", "now", "past", "made", "difference"]
RECORDS = "records"  # the notes of runs
_MADE = re.compile(rf"review_\w+?__(?:(?:{'|'.join(get_args(Part))})_\w+|{RECORDS})")


def is_of_review(schema: str) -> bool:
    """Return true if a schema has a name that reviews use."""
    return _MADE.fullmatch(schema) is not None


def shortened(name: str, longest: int, of: str = "") -> str:
    """Shorten a name to so many characters: a prefix, and a hash if it is longer.

    `of` is hashed instead of the name if it distinguishes more.
    """
    if len(name) <= longest:
        return name
    return f"{name[: longest - 9]}_{hashlib.sha256((of or name).encode()).hexdigest()[:8]}"
