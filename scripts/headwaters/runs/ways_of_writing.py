"""How a staged change set is written into its table, and why: pure functions.

A merge reads every column of each file in which a changed row may lie. An insert with the option
`replaceOn` finds the old rows by the columns of its condition alone, and is one commit
as well; it writes no change files where old rows are marked as deleted beside their files, so that
each reader of the change data feed computes them. See docs/decisions/0019-replace-by-keys.md and
0037-deleted-keys-from-the-change-set.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

# Delta takes an option that it does not know for none, and would overwrite the whole table: so the
# option is used where the engine is known to have it.
_DELTA = re.compile(r"Apache-Spark/\S+ Delta-Lake/(\d+)\.(\d+)")
_HAS_REPLACE_ON = (4, 4)

# A merge's change files are cheaper to read: that counts where many models do.
MOST_FOLLOWERS = 3


@dataclass(frozen=True)
class Write:
    """How the rows are written; `reason`: why by a merge."""

    way: Literal["insert", "replace", "merge"]
    reason: str = ""


def way_of_writing(
    look: Mapping[str, Any], apply_by: str | None, engine: str, followers: int
) -> Write:
    """Return how to write a change set, by a look at its staging table.

    `apply_by` is the model's setting; `engine` what wrote the table's newest commit, which is the
    one that writes now; `followers`: how many models read this commit in the change data feed.
    """
    if look["rows"] == look["inserted"]:
        return Write("insert")
    if apply_by == "merge":
        return Write("merge", "as apply_by says")
    if not has_replace_on(engine):
        return Write("merge", f"{engine or 'the engine'} is not known to replace by keys")
    if followers > MOST_FOLLOWERS:
        return Write("merge", f"{followers} models follow the table")
    if look["deleted"] == look["rows"]:
        return Write("merge", "rows are only deleted")
    return Write("replace")


def has_replace_on(engine: str) -> bool:
    """Whether a commit's `engineInfo` is of an engine with the option `replaceOn`."""
    match = _DELTA.match(engine)
    return match is not None and (int(match[1]), int(match[2])) >= _HAS_REPLACE_ON
