"""The data tests and unit tests of the branch's tables, compared with the base's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwaters.review.build_sides import BothSides, BuiltSide
from headwaters.review.dbt_runs import BuildOutcome, redirected, run
from headwaters.review.facts import Finding
from headwaters.review.sides import has_tests


def failed_tests(sides: BothSides) -> dict[str, list[Finding]]:
    """Test the branch's tables, and return the failures by table, marked if the base has them.

    Sources whose tests the branch changed are tested in production, where ingestion writes them.
    """
    head, base = sides.head, sides.base
    failures: dict[str, list[Finding]] = {}
    tested = (*head.keys, *sides.changes.tested)
    if not has_tests(tested, head.side):
        return failures
    outcomes = _run_tests(sides, head, tested)
    manifest = head.side.manifest
    nodes: dict[str, Any] = {**manifest.nodes, **manifest.unit_tests}
    found = {
        key: outcome
        for key, outcome in outcomes.items()
        if outcome.status not in ("pass", "skipped", "success")
        # the build has already reported tables that failed
        and not any(sides.is_lost(parent) for parent in nodes[key].depends_on.nodes)
    }
    failed = [key for key, outcome in found.items() if outcome.status != "warn"]
    known = _run_tests(sides, base, [key for key in failed if key in base.side.nodes])
    for key, outcome in found.items():
        node = nodes[key]
        before = known.get(key)
        was_so = before is not None and before.message == outcome.message
        text = f"{node.name}: {outcome.message or outcome.status}"
        text = f"fails in the base as well: {text}" if was_so else text
        fails = key in failed and not was_so
        finding = Finding("test", text, fails, node.original_file_path)
        for parent in node.depends_on.nodes:
            failures.setdefault(parent, []).append(finding)
    return failures


def _run_tests(sides: BothSides, half: BuiltSide, keys: Sequence[str]) -> dict[str, BuildOutcome]:
    """Run all tests of a side, or only those of some tables."""
    places = {**sides.head.inputs, **half.inputs, **half.places}
    manifest = redirected(half.side.manifest, places, sides.schemas.records)
    return run(
        f"testing {half.name}", half.side.project, manifest, ["test"], keys, sides.pinned.versions
    )
