"""The models that leave incremental maintenance, by the derivations that both tables note."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwaters.review.facts import Finding

Note = Mapping[str, Any]


def maintenance_finding(before: Note | None, after: Note | None, refresh: str) -> Finding | None:
    """Return the finding of a table that its runs replace after changes, or None.

    `before` and `after` are the derivations of production's table and of the branch's; None if the
    table notes none. A model with `refresh: strict` fails the review.
    """
    reason = _unfollowed(after)
    if reason is None:
        return None
    if refresh == "strict":
        text = f"refresh is strict, and a change of its inputs replaces the table: {reason}"
        return Finding("maintenance", text, fails=True)
    if before is None or _unfollowed(before) is not None:
        return None
    return Finding("maintenance", f"leaves incremental maintenance: {reason}", fails=False)


def _unfollowed(note: Note | None) -> str | None:
    """Return the reason that the runs do not follow every input, or None."""
    reason = note.get("reason") if note else None
    return str(reason) if reason else None
