"""Test that a review shows the most telling rows, and only of tables whose layer permits it."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwaters.review.difference import EXAMPLES, OF_A_KIND, Alike, telling
from review.shop import Shop
from review.test_pull_requests import KINDS, ORDERS
from review.test_review import Reviewed, reviewed, shop

__all__ = ["reviewed", "shop"]


def test_each_change_and_column_comes_before_what_is_frequent() -> None:
    most, both, second = (
        Alike("changed", "100", 900),
        Alike("changed", "110", 800),
        Alike("changed", "010", 700),
    )
    added, rare = Alike("added", "", 3), Alike("changed", "001", 1)
    chosen = telling([most, both, second, added, rare])
    assert list(chosen.items()) == [(most, 6), (both, 5), (added, 3), (rare, 1), (second, 5)]


def test_of_one_kind_are_a_few() -> None:
    one = Alike("changed", "1", 9_000)
    assert telling([one]) == {one: OF_A_KIND}
    assert telling([]) == {}


@st.composite
def kinds(draw: st.DrawFn) -> list[Alike]:
    """Return kinds of differences of up to 17 columns: with added and removed, 19 rows show all."""
    columns = draw(st.integers(6, 17))
    # the first column differs in rows of one kind only
    usual = draw(st.sets(st.integers(1, 2 ** (columns - 1) - 1), min_size=21, max_size=31))
    names = [("changed", f"{one:0{columns}b}") for one in usual]
    names.append(("changed", "1".ljust(columns, "0")))
    names += [(one, "") for one in draw(st.sets(st.sampled_from(["added", "removed"])))]
    found = [Alike(*name, draw(st.integers(1, 50))) for name in names]
    return sorted(found, key=lambda one: -one.rows)


def told(found: Collection[Alike]) -> set[str | int]:
    columns = {n for one in found for n, digit in enumerate(one.columns) if digit == "1"}
    return {one.change for one in found} | columns


@given(kinds())
def test_what_is_shown_has_each_change_and_each_column(found: list[Alike]) -> None:
    chosen = telling(found)
    assert told(chosen) == told(found)
    assert len(chosen) == min(EXAMPLES, len(found))
    assert sum(chosen.values()) == min(EXAMPLES, sum(min(OF_A_KIND, n.rows) for n in chosen))
    assert all(1 <= count <= min(OF_A_KIND, one.rows) for one, count in chosen.items())


@pytest.mark.slow
def test_examples_show_each_column_masked_and_none_where_the_project_forbids_it(
    shop: Shop, reviewed: Reviewed
) -> None:
    forbids = (
        (shop.folder / KINDS)
        .read_text()
        .replace("='auto')", "='auto', meta={'review_examples': false})")
    )
    shop.commit({KINDS: forbids}, "no examples of kinds")
    shop.branch(
        "examples",
        {
            ORDERS: (
                "id, customer, amount, amount * 2 as twice",
                "id, if(id > 5, 'cyd', customer) as customer, amount,"
                " if(id in (1, 2, 3, 7), 0, amount * 2) as twice",
            ),
            KINDS: ("left join", "join"),
        },
    )
    code, found = reviewed("orders", "kinds", clean=True)
    orders, of_kinds = (found["models"][name]["difference"] for name in ("orders", "kinds"))
    assert code == 0
    assert (of_kinds["removed"], of_kinds["examples"]) == (2, [])
    assert of_kinds["why_no_examples"] == (
        "the project does not permit them: review_examples is not true in base and branch"
    )
    # three in `twice`, one in `customer`, one in both: one of each, then the others
    assert [(one["key"]["id"], one["before"], one["after"]) for one in orders["examples"]] == [
        ("1", {"twice": "20"}, {"twice": "0"}),
        ("6", {"customer": None}, {"customer": None}),
        ("7", {"customer": None, "twice": "140"}, {"customer": None, "twice": "0"}),
        ("2", {"twice": "40"}, {"twice": "0"}),
        ("3", {"twice": "60"}, {"twice": "0"}),
    ]
