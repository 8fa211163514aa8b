"""Test that a review marks the models that leave incremental maintenance."""

from __future__ import annotations

from typing import Any

import pytest

from headwaters.review.facts import Finding, ModelReview, Review, Revision
from headwaters.review.maintenance import maintenance_finding
from headwaters.review.verdict import verdict

WHY = "`sum(n) OVER ()` (line 4 of the compiled SQL): the window is over all rows"
FOLLOWED: dict[str, Any] = {"strategy": "affected_keys", "reason": None}
PARTLY: dict[str, Any] = {"strategy": "affected_keys", "reason": WHY}
REPLACED: dict[str, Any] = {"strategy": "replace", "reason": WHY}
LEAVES = Finding("maintenance", f"leaves incremental maintenance: {WHY}", fails=False)
STRICT = Finding(
    "maintenance",
    f"refresh is strict, and a change of its inputs replaces the table: {WHY}",
    fails=True,
)


@pytest.mark.parametrize(
    ("before", "after", "refresh", "finding"),
    [
        (FOLLOWED, FOLLOWED, "auto", None),
        (FOLLOWED, REPLACED, "auto", LEAVES),
        (FOLLOWED, PARTLY, "incremental", LEAVES),
        (REPLACED, REPLACED, "auto", None),
        (REPLACED, FOLLOWED, "strict", None),
        (None, REPLACED, "auto", None),
        (FOLLOWED, None, "strict", None),
        (None, None, "strict", None),
        (None, REPLACED, "strict", STRICT),
        (REPLACED, REPLACED, "strict", STRICT),
        (FOLLOWED, PARTLY, "strict", STRICT),
    ],
)
def test_a_model_that_leaves_incremental_maintenance_is_marked(
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    refresh: str,
    finding: Finding | None,
) -> None:
    assert maintenance_finding(before, after, refresh) == finding


@pytest.mark.parametrize(("finding", "fails"), [(LEAVES, False), (STRICT, True)])
def test_a_strict_model_fails_the_review(finding: Finding, fails: bool) -> None:
    model = ModelReview("m", "orders", "gold", "gold.orders", ("text",), (), findings=(finding,))
    revision = Revision("c", "b", "t")
    found = verdict(Review(revision, revision, (model,)))
    assert found.fails is fails
    told = "a strict model is not maintained incrementally: gold.orders"
    assert (told in (found.text, *found.also)) is fails
