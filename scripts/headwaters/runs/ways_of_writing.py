"""The choice of a statement to write a staged change set, and its reason: pure functions.

A merge reads every column of each file that may have a changed row. An insert with the option
`replaceOn` finds the old rows by the columns of its condition alone, and is one commit as well. If
it marks old rows by deletion vectors, it writes no change files, so each reader of the change data
feed computes them. See docs/decisions/0019-replace-by-keys.md and
0037-deleted-keys-from-the-change-set.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from headwaters.platform.delta_version import has_replace_on

# A merge's change files are cheaper to read, which counts if many models read them.
MOST_FOLLOWERS = 3


@dataclass(frozen=True)
class Write:
    """The chosen statement; `reason`: why it is a merge."""

    way: Literal["insert", "replace", "merge"]
    reason: str = ""


def way_of_writing(
    look: Mapping[str, Any], apply_by: str | None, engine: str, followers: int
) -> Write:
    """Choose the statement for a change set, by the inspection of its staging table.

    `apply_by` is the model's setting. `engine` wrote the table's newest commit, and writes this
    one. `followers`: the number of models that read this commit in the change data feed.
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
