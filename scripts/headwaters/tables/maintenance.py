"""The maintenance that a table's policy requires now, from its log. Pure.

The macro `maintain` executes it; `headwaters report` shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from headwaters.tables.policy import Policy

_CLONE = "headwaters.clone"  # a property: "source,version", then those of its source after `;`


@dataclass(frozen=True)
class Due:
    """A rewrite of a table that its policy requires, and the reason."""

    what: Literal["purge", "compact"]
    why: str


def rewrites_due(
    policy: Policy, rows: int, deleted_rows: int, small_files: int, files_added: int
) -> list[Due]:
    """Return REORG if many rows are only marked as deleted, OPTIMIZE if many files were added.

    `rows` are without those marked as deleted. `small_files` are smaller than the policy's
    `small_file`. `files_added` counts from the last OPTIMIZE.
    """
    found = []
    share = deleted_rows / max(rows + deleted_rows, 1)
    if deleted_rows and share > policy.purge_above:
        found.append(Due("purge", f"{share * 100:.0f} % of its rows are only marked as deleted"))
    if small_files >= policy.compact_above and files_added >= policy.compact_above:
        found.append(
            Due(
                "compact",
                f"{small_files} files are smaller than {policy.small_file}, "
                f"{files_added} came since the last time",
            )
        )
    return found


def has_removed(removals: Iterable[int], vacuumed_before: int | None, moment: int) -> bool:
    """Return true if files that left a table before a moment still exist, in milliseconds.

    `removals` are the moments of commits that took files out of the table.
    """
    since = vacuumed_before or 0
    return any(since <= at < moment for at in removals)


@dataclass(frozen=True)
class CloneOrigin:
    """The origin of a clone: a table's name or its path, and the version."""

    source: str
    version: int


def origins_of(
    cloned_from: str | None, version: int | str | None, properties: Mapping[str, str]
) -> list[CloneOrigin]:
    """Return a clone's origins, from its newest CLONE (`source`, `sourceVersion`) and its note.

    The log does not retain the commit; the properties retain the note.
    """
    found: list[CloneOrigin] = []
    if cloned_from:
        path = re.fullmatch(r"delta\.`(.*)`", cloned_from)
        source = path[1] if path else ".".join(cloned_from.split(".")[-2:])
        found.append(CloneOrigin(source, int(version or 0)))
    for note in filter(None, properties.get(_CLONE, "").split(";")):
        source, _, at = note.rpartition(",")
        found.append(CloneOrigin(source, int(at)))
    return list(dict.fromkeys(found))
