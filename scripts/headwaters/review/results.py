"""The results of a review's steps, by ids of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwaters.review.compare_sides import Rows
from headwaters.review.costs import Past
from headwaters.review.dbt_runs import BuildOutcome
from headwaters.review.facts import Finding
from headwaters.review.inputs import Pinned
from headwaters.review.next_runs import NextRun
from headwaters.review.proof import Proof


@dataclass
class Results:
    """The results so far, with a field for each step. A step that fails keeps what it has found.

    `before` and `after` are dbt's results of the base and of the branch. `notes` are lines for the
    reader. `problem` is the reason if no rows were compared. `moments` has the reason if differing
    rows are not due to the branch.
    """

    pinned: Pinned = field(default_factory=lambda: Pinned({}, {}))
    before: Mapping[str, BuildOutcome] = field(default_factory=dict)
    after: Mapping[str, BuildOutcome] = field(default_factory=dict)
    rows: Mapping[str, Rows] = field(default_factory=dict)
    tests: Mapping[str, list[Finding]] = field(default_factory=dict)
    proofs: dict[str, Proof] = field(default_factory=dict)
    next_runs: dict[str, NextRun] = field(default_factory=dict)
    maintenance: dict[str, Finding] = field(default_factory=dict)
    past: dict[str, Past] = field(default_factory=dict)
    moments: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problem: str | None = None

    def note(self, code: str, text: str) -> None:
        """Add a note about something the review could not find out, and the remedy."""
        self.notes.append(f"[{code}] {text}")
