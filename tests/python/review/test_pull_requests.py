"""Twenty prepared pull requests: no false difference, none missed, and production as it was."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from review.shop import ROOT, Shop
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
        {"orders": (("properties",), None)},
    ),
    "retention": (
        {
            ORDERS: (
                "unique_key='id'",
                "unique_key='id', tblproperties={'delta.logRetentionDuration': 'interval 9 days'}",
            )
        },
        {"orders": (("properties",), None)},
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


def checked(
    shop: Shop, reviewed: Reviewed, requests: dict[str, tuple[dict[str, Any], dict[str, Any]]]
) -> None:
    """Each of the pull requests gives what is expected of it, and leaves production alone."""
    before = shop.state()
    found: dict[str, Any] = {}
    for name, (edits, _) in requests.items():
        shop.branch(name.replace(" ", "-"), edits)
        code, review = reviewed(clean=True)
        proofs = [one["stays"] for one in review["models"].values() if one["stays"]]
        wrong = [proof for proof in proofs if proof["differing"] not in (0, None)]
        found[name] = (code, review["notes"], wrong, counted(review))
    assert found == {name: (0, [], [], expected) for name, (_, expected) in requests.items()}
    assert shop.state() == before


def test_a_refactoring_changes_no_row(shop: Shop, reviewed: Reviewed) -> None:
    checked(shop, reviewed, REFACTORINGS)


def test_an_error_is_seen(shop: Shop, reviewed: Reviewed) -> None:
    checked(shop, reviewed, ERRORS)


def test_a_change_of_shape_is_told(shop: Shop, reviewed: Reviewed) -> None:
    checked(shop, reviewed, SHAPES)


def test_production_that_moves_meanwhile_makes_no_difference(
    shop: Shop, reviewed: Reviewed
) -> None:
    requests = REFACTORINGS | ERRORS
    found: dict[str, Any] = {}
    with moving(shop) as commits:
        for name in ("cte", "sum", "case", "lost rows", "null handling"):
            shop.branch(name.replace(" ", "-"), requests[name][0])
            _, review = reviewed(clean=True)
            found[name] = counted(review)
    assert found == {name: requests[name][1] for name in found}
    assert len(commits) > 15


@contextmanager
def moving(shop: Shop) -> Iterator[list[int]]:
    """Orders come in, and somebody changes a table of production, all the time."""
    ended, commits = threading.Event(), list[int]()

    def move() -> None:
        while not ended.wait(3):
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


# What a review makes, in this order: clones of inputs, the base's tables, the branch's, the rows
# that differ, the branch's tables at earlier versions.
POINTS = ("in", "base", "head", "difference", "past")


def test_a_killed_review_leaves_production_and_the_next_one_cleans_up(
    shop: Shop, reviewed: Reviewed, tmp_path: Path
) -> None:
    edits, expected = ERRORS["lost rows"]
    shop.branch("killed", edits)
    before = shop.state()
    for point in POINTS:
        killed(shop, tmp_path, f"review_killed__{point}_*")
        assert shop.state() == before, point
        assert shop.spark.sql("show schemas like 'review_killed*'").collect() != []
    code, found = reviewed(clean=True)
    assert (code, counted(found)) == (0, expected)
    assert shop.spark.sql("show schemas like 'review_*'").collect() == []
    assert len(shop.git("worktree", "list").splitlines()) == 1
    assert shop.state() == before


def killed(shop: Shop, out: Path, schemas: str) -> None:
    """A review that is killed as soon as it has made these schemas."""
    command = [sys.executable, "-m", "headwaters.cli", "review", "--out", str(out / "out")]
    options = ["--profiles-dir", str(ROOT / "profiles"), "--target", "engine"]
    for (name,) in shop.spark.sql(f"show schemas like '{schemas}'").collect():
        shop.spark.sql(f"drop schema {name} cascade")
    with subprocess.Popen(
        [*command, *options],
        cwd=shop.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "scripts")},
    ) as process:
        until = time.monotonic() + 600
        while process.poll() is None and time.monotonic() < until:
            if shop.spark.sql(f"show schemas like '{schemas}'").collect():
                break
            time.sleep(0.1)
        assert process.poll() is None
        process.kill()
