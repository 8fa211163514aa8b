"""Test that a review has no path of a machine, and that rows and SQL do not change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pages.examples import model, review

from headwaters.review.facts import Difference, Example, Finding
from headwaters.review.local_places import places_of, without_places

PLACES = places_of(Path("/srv/shop"), Path("/var/tmp/review/base"), Path("/srv/shop/lake"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "[PATH_NOT_FOUND] file:/srv/shop/lake/warehouse/a.db/t does not exist",
            "[PATH_NOT_FOUND] <lake>/warehouse/a.db/t does not exist",
        ),
        ("file:///srv/shop/lake is full", "<lake> is full"),
        ("/srv/shop/models/a.sql, line 3", "<project>/models/a.sql, line 3"),
        ("in /var/tmp/review/base/models/a.sql", "in <project>/models/a.sql"),
        ("of /srv/shop.", "of <project>."),
        ("s3://bucket/srv/shop/x and /srv/shopping", "s3://bucket/srv/shop/x and /srv/shopping"),
    ],
)
def test_paths_of_the_machine_are_renamed(text: str, shown: str) -> None:
    example = Example("added", {"id": text}, {}, {"path": text})
    made = model(
        why_not=text,
        findings=(Finding("test", text, True, text),),
        difference=Difference(1, 1, 1, 0, 0, True, examples=(example,)),
        diff_of_sql=text,
    )
    before = review(made, notes=(text,), not_compared=(text,), does_not_parse=text)
    after = without_places(before, PLACES)
    assert after == replace(
        before,
        models=(replace(made, why_not=shown, findings=(Finding("test", shown, True, shown),)),),
        notes=(shown,),
        not_compared=(shown,),
        does_not_parse=shown,
    )
