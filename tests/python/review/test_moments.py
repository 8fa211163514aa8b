"""Test rows that differ although the branch does not change them."""

from __future__ import annotations

import pytest

from headwaters.review.changes import Changed, Changes
from headwaters.review.compare_sides import Rows
from headwaters.review.facts import ComparedColumn, Difference
from headwaters.review.models import moments
from headwaters.review.results import Results
from headwaters.review.sides import Side
from review.test_changes import model

SAME, ONE = (Difference(3, 3, 0, 0, changed, by_key=True) for changed in (0, 1))
MOMENT = "nothing that it reads differs: two runs of the same SQL give other rows"
READS = "it reads silver.b, of which each run makes other rows"


@pytest.mark.parametrize(
    ("a", "told"),
    [
        (Rows(difference=SAME), {"model.p.b": MOMENT, "model.p.c": READS}),
        (Rows(difference=ONE), {}),
        (Rows(why_not="it is not built"), {}),
        (Rows((ComparedColumn("id", "int", "bigint"),), SAME), {}),
        (Rows(difference=Difference(3, 3, 0, 0, 0, True, "sample")), {}),
    ],
)
def test_rows_differ_by_themselves_where_nothing_that_is_read_differs(
    a: Rows, told: dict[str, str]
) -> None:
    reads = {"a": [], "b": ["a"], "c": ["b"]}
    nodes = {f"model.p.{name}": model(name, "", above) for name, above in reads.items()}
    keys = tuple(nodes)
    changed = {keys[0]: Changed(keys[0], ("text",), (), rows=True)}
    found = Changes(changed, keys, (), (), keys, keys)
    one = Rows(difference=ONE)
    results = Results(rows={keys[0]: a, keys[1]: one, keys[2]: one})
    assert moments(Side(nodes, {}, {}), found, results) == told
    # incremental rows are those of a full refresh
    for key in keys:
        nodes[key]["config"]["incremental_strategy"] = "change_feed"
    assert moments(Side(nodes, {}, {}), found, results) == {}
