"""Twenty prepared pull requests: no false difference, none missed, and production as it was."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from review.shop import Shop
from review.test_review import Reviewed, counted, reviewed, shop

__all__ = ["reviewed", "shop"]

pytestmark = pytest.mark.slow

ORDERS, TOTALS = "models/silver/orders.sql", "models/gold/totals.sql"
KINDS, PLAIN = "models/silver/kinds.sql", "models/silver/plain.sql"
SAME = (0, 0, 0)

# Of the first rows: (1, ann, 10), (2, bob, 20), (3, ann, 30), (4, null, 40), (5, cyd, 0),
# (6, bob, 60), (7, ann, 70).
REFACTORINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "formatting": ({ORDERS: ("select id, customer", "select\n    id,\n    customer")}, {}),
    "cte": (
        {
            TOTALS: (
                "from {{ affected(ref('orders'), key='customer') }}\ngroup by customer",
                "from (select * from {{ affected(ref('orders'), key='customer') }}) as orders\n"
                "group by orders.customer",
            )
        },
        {"totals": (("text",), SAME)},
    ),
    "sum": (
        {ORDERS: ("amount * 2", "amount + amount")},
        {
            "orders": (("text",), SAME),
            "plain": (("upstream",), SAME),
            "totals": (("upstream",), SAME),
        },
    ),
    "case": (
        {KINDS: ("regions.region", "case when true then regions.region end as region")},
        {"kinds": (("text",), SAME)},
    ),
    "macro": (
        {"macros/doubled.sql": ("* 2", "+ {{ column }}")},
        {"plain": (("macro",), SAME)},
    ),
}
ERRORS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "lost rows": (
        {ORDERS: ("amount > 0", "amount > 10")},
        {
            "orders": (("text",), (0, 1, 0)),
            "plain": (("upstream",), (0, 1, 0)),
            "totals": (("upstream",), (0, 0, 1)),
        },
    ),
    "changed type": (
        {PLAIN: ("as amount", "/ 4 as amount")},
        {"plain": (("text",), (6, 6, 0))},
    ),
    "moved key": (
        {ORDERS: ("select id, customer", "select id + 100 as id, customer")},
        {
            "orders": (("text",), (6, 6, 0)),
            "plain": (("upstream",), SAME),
            "totals": (("upstream",), SAME),
        },
    ),
    "doubled join": (
        {
            PLAIN: (
                "from {{ ref('orders') }}",
                "from {{ ref('orders') }} cross join (select explode(array(1, 2)))",
            )
        },
        {"plain": (("text",), (6, 0, 0))},
    ),
    "null handling": (
        {ORDERS: ("id, customer,", "id, coalesce(customer, 'ann') as customer,")},
        {
            "orders": (("text",), (0, 0, 1)),
            "plain": (("upstream",), (1, 1, 0)),
            "totals": (("upstream",), (0, 1, 1)),
        },
    ),
}
SHAPES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "new column": (
        {ORDERS: ("amount * 2 as twice", "amount * 2 as twice, amount * 3 as thrice")},
        {
            "orders": (("text",), SAME),
            "plain": (("upstream",), SAME),
            "totals": (("upstream",), SAME),
        },
    ),
    "owner": (
        {ORDERS: ("unique_key='id'", "unique_key='id', meta={'owner': 'sales'}")},
        {"orders": (("properties",), "what changed says nothing about rows")},
    ),
    "retention": (
        {
            ORDERS: (
                "unique_key='id'",
                "unique_key='id', tblproperties={'delta.logRetentionDuration': 'interval 9 days'}",
            )
        },
        {"orders": (("properties",), "what changed says nothing about rows")},
    ),
    "seed": (
        {"seeds/regions.csv": ("bob,south", "bob,west")},
        {"regions": (("seed",), (1, 1, 0)), "kinds": (("upstream",), (2, 2, 0))},
    ),
    "macro of rows": (
        {"macros/doubled.sql": ("* 2", "* 3")},
        {"plain": (("macro",), (6, 6, 0))},
    ),
}


@pytest.fixture
def checked(shop: Shop, reviewed: Reviewed) -> Any:
    def check(name: str, edits: dict[str, Any], expected: dict[str, Any]) -> None:
        shop.branch(name.replace(" ", "-"), edits)
        before = shop.state()
        code, found = reviewed(clean=True)
        assert counted(found) == expected
        assert [note for note in found["notes"] if "rows were not compared" in note] == []
        assert code == 0, found["models"]
        assert shop.state() == before

    return check


@pytest.mark.parametrize("name", REFACTORINGS)
def test_a_refactoring_changes_no_row(name: str, checked: Any) -> None:
    checked(name, *REFACTORINGS[name])


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_seen(name: str, checked: Any) -> None:
    checked(name, *ERRORS[name])


@pytest.mark.parametrize("name", SHAPES)
def test_a_change_of_shape_is_told(name: str, checked: Any) -> None:
    checked(name, *SHAPES[name])


@pytest.mark.parametrize("name", ["cte", "sum", "case", "lost rows", "null handling"])
def test_production_that_moves_meanwhile_makes_no_difference(
    name: str, shop: Shop, reviewed: Reviewed
) -> None:
    edits, expected = (REFACTORINGS | ERRORS)[name]
    shop.branch(name.replace(" ", "-"), edits)
    with moving(shop) as commits:
        _, found = reviewed(clean=True)
    assert counted(found) == expected
    assert len(commits) > 3


@contextmanager
def moving(shop: Shop) -> Iterator[list[int]]:
    """Orders come in, and somebody changes a table of production, all the time."""
    ended, commits = threading.Event(), list[int]()

    def move() -> None:
        while not ended.wait(1):
            shop.order(f"({100 + len(commits)}, 'new', 100)")
            shop.spark.sql(f"update {shop.schema}_silver.orders set amount = amount + 1")
            commits.append(len(commits))

    mover = threading.Thread(target=move)
    mover.start()
    try:
        yield commits
    finally:
        ended.set()
        mover.join()
