"""The models that leave incremental maintenance, by the derivations that both tables note."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headwaters.analysis import strategy_of
from headwaters.review.build_sides import BothSides
from headwaters.review.facts import Finding

Note = Mapping[str, Any]


def lost_maintenance(sides: BothSides) -> Iterator[tuple[str, Finding]]:
    """Yield the findings of models that leave incremental maintenance, by id."""
    head, base = sides.head, sides.base
    for key in head.keys:
        node = head.side.nodes[key]
        if node["resource_type"] != "model" or not strategy_of(node["config"]):
            continue
        if key not in sides.changes.changed or not head.outcomes[key].is_built:
            continue
        production = base.side.nodes.get(key) and sides.spark.derivation(base.side.table(key))
        derived = sides.spark.derivation(head.table(key))
        refresh = node["config"].get("refresh") or "auto"
        finding = maintenance_finding(production or None, derived, refresh)
        if finding:
            yield key, finding


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
