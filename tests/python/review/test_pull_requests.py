"""Review twenty pull requests: every difference, no false one, and production unchanged."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from projects import make_project

from review.shop import FILES, GENERATED, ROOT, Shop
from review.test_review import Reviewed, counted, drop, reviewed

__all__ = ["reviewed"]

pytestmark = pytest.mark.slow

ORDERS, TOTALS = "models/silver/orders.sql", "models/gold/totals.sql"
KINDS, PLAIN = "models/silver/kinds.sql", "models/silver/plain.sql"
OF_ORDERS = "models/silver/orders.yml"
SAME = (0, 0, 0)

# Amounts of production's orders by their keys, and `amount` of `plain` in the order of customers.
AMOUNTS = {1: 10, 2: 20, 3: 30, 4: 40, 6: 60, 7: 70}
DOUBLED = [80, 20, 60, 140, 40, 120]


def replaced(before: Sequence[float], after: Sequence[float]) -> list[str]:
    """Return the expected replacements of rows of `plain`."""
    return [
        line
        for one, other in zip(before, after, strict=True)
        for line in (
            f"removed: customer=* amount={one} → ",
            f"added:  → customer=* amount={other}",
        )
    ]


# The edits, and the expected result of each model: its causes, the numbers of added, removed and
# changed rows, and the rows themselves.
Edits = dict[str, Any]
Request = tuple[Edits, dict[str, tuple[Any, ...]]]

# The first rows: (1, ann, 10), (2, bob, 20), (3, ann, 30), (4, null, 40), (5, cyd, 0), (6, bob,
# 60), (7, ann, 70).
REFACTORINGS: dict[str, Request] = {
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
ERRORS: dict[str, Request] = {
    "lost rows": (
        {ORDERS: ("amount > 0", "amount > 10")},
        {
            "orders": (("text",), (0, 1, 0), "removed id=1: customer=* amount=10 twice=20 → "),
            "plain": (("upstream",), (0, 1, 0), "removed: customer=* amount=20 → "),
            "totals": (
                *(("upstream",), (0, 0, 1)),
                "changed customer=*: orders=3 amount=110 → orders=2 amount=100",
            ),
        },
    ),
    "changed type": (
        {PLAIN: ("as amount", "/ 4 as amount")},
        # as texts, by customer
        {
            "plain": (
                *(("text",), (6, 6, 0)),
                *replaced([80, 140, 20, 60, 120, 40], [20.0, 15.0, 35.0, 5.0, 10.0, 30.0]),
            )
        },
    ),
    "moved key": (
        {ORDERS: ("select id, customer", "select id + 100 as id, customer")},
        {
            "orders": (
                *(("text",), (6, 6, 0)),
                *(
                    line
                    for key, amount in AMOUNTS.items()
                    for line in (
                        f"removed id={key}: customer=* amount={amount} twice={2 * amount} → ",
                        f"added id={key + 100}:  → customer=* amount={amount} twice={2 * amount}",
                    )
                ),
            ),
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
        {
            "plain": (
                *(("text",), (6, 0, 0)),
                *(f"added:  → customer=* amount={one}" for one in DOUBLED),
            )
        },
    ),
    "null handling": (
        {ORDERS: ("id, customer,", "id, coalesce(customer, 'ann') as customer,")},
        {
            "orders": (("text",), (0, 0, 1), "changed id=4: customer=* → customer=*"),
            "plain": (("upstream",), (1, 1, 0), *replaced([80], [80])),
            "totals": (
                *(("upstream",), (0, 1, 1)),
                "removed customer=*: orders=1 amount=40 → ",
                "changed customer=*: orders=3 amount=110 → orders=4 amount=150",
            ),
        },
    ),
}
SHAPES: dict[str, Request] = {
    "new column": (
        {ORDERS: ("amount * 2 as twice", "amount * 2 as twice, amount * 3 as thrice")},
        {
            "orders": (("text",), SAME, "column thrice: None → int"),
            "plain": (("upstream",), SAME),
            "totals": (("upstream",), SAME),
        },
    ),
    "owner": (
        {ORDERS: ("unique_key='id'", "unique_key='id', meta={'owner': 'sales'}")},
        {"orders": (("properties",), None, "meta.owner: none → sales")},
    ),
    "retention": (
        {
            ORDERS: (
                "unique_key='id'",
                "unique_key='id', tblproperties={'delta.logRetentionDuration': 'interval 9 days'}",
            )
        },
        {
            "orders": (
                *(("properties",), None),
                "tblproperties.delta.logRetentionDuration: none → interval 9 days",
            )
        },
    ),
    "seed": (
        {"seeds/regions.csv": ("bob,south", "bob,west")},
        {
            "regions": (
                *(("seed",), (1, 1, 0)),
                "removed: customer=* region=south → ",
                "added:  → customer=* region=west",
            ),
            "kinds": (
                *(("upstream",), (2, 2, 0)),
                *("removed: id=2 region=south → ", "added:  → id=2 region=west"),
                *("removed: id=6 region=south → ", "added:  → id=6 region=west"),
            ),
        },
    ),
    "macro of rows": (
        {"macros/doubled.sql": ("* 2", "* 3")},
        {
            "plain": (
                *(("macro",), (6, 6, 0)),
                *replaced(DOUBLED, [3 * one // 2 for one in DOUBLED]),
            )
        },
    ),
}
# While production changes: two refactorings and three errors.
MOVING: dict[str, Request] = {
    "negated": (
        {ORDERS: ("amount > 0", "not amount <= 0")},
        {
            "orders": (("text",), SAME),
            "plain": (("upstream",), SAME),
            "totals": (("upstream",), SAME),
        },
    ),
    "count": (
        {TOTALS: ("count(*) as orders", "count(1) as orders")},
        {"totals": (("text",), SAME)},
    ),
    "lost group": (
        {TOTALS: ("group by customer", "where customer is not null\ngroup by customer")},
        {"totals": (("text",), (0, 1, 0), "removed customer=*: orders=1 amount=40 → ")},
    ),
    "boundary": (
        {ORDERS: ("amount > 0", "amount >= 0")},
        {
            "orders": (("text",), (1, 0, 0), "added id=5:  → customer=* amount=0 twice=0"),
            "plain": (("upstream",), (1, 0, 0), "added:  → customer=* amount=0"),
            "totals": (("upstream",), (1, 0, 0), "added customer=*:  → orders=1 amount=0"),
        },
    ),
    "inner join": (
        {KINDS: ("left join", "inner join")},
        {
            "kinds": (
                *(("text",), (0, 2, 0)),
                *("removed: id=4 region=* → ", "removed: id=5 region=* → "),
            )
        },
    ),
}


def whole(found: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return each model's causes, counts of rows, and the rows that differ.

    A table that was not computed has the differences of its declaration instead of rows.
    """
    return {
        name: (
            *counted({"models": {name: model}})[name],
            *(
                f"column {one['name']}: {one['before']} → {one['after']}"
                for one in model["columns"]
                if None in (one["before"], one["after"])
            ),
            *(
                map(_line, difference["examples"])
                if (difference := model["difference"])
                else model["what_changed"]
            ),
        )
        for name, model in found["models"].items()
    }


def _line(example: dict[str, Any]) -> str:
    key, before, after = (
        " ".join(f"{name}={'*' if value is None else value}" for name, value in part.items())
        for part in (example["key"], example["before"], example["after"])
    )
    return f"{example['change']} {key}".rstrip() + f": {before} → {after}"


def production(spark: Any, folder: Path, files: dict[str, str]) -> Iterator[Shop]:
    """Yield a shop that also has these files, in separate schemas."""
    made = Shop(make_project(folder, {}), f"t_{uuid.uuid4().hex[:8]}", spark)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADWATERS_SCHEMA", made.schema)
        made.build(folder, {**FILES, **files})
        yield made
    drop(spark, "review_*")
    drop(spark, f"{made.schema}*")


@pytest.fixture(scope="module")
def shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Yield a built production of 50 tables, which a review does not change."""
    yield from production(spark, tmp_path_factory.mktemp("shop"), GENERATED)


def checked(shop: Shop, reviewed: Reviewed, requests: dict[str, Request]) -> None:
    """Check that each pull request gives its expected result, and does not change production."""
    before = shop.state()
    found: dict[str, Any] = {}
    for name, (edits, _) in requests.items():
        shop.branch(name.replace(" ", "-"), edits)
        code, review = reviewed(clean=True)
        proofs = [one["stays"] for one in review["models"].values() if one["stays"]]
        wrong = [proof for proof in proofs if proof["differing"] not in (0, None)]
        found[name] = (code, review["notes"], wrong, whole(review))
    assert found == {name: (0, [], [], expected) for name, (_, expected) in requests.items()}
    assert shop.state() == before


def test_there_are_twenty_of_them_on_fifty_models() -> None:
    edits = [
        str(edit)
        for requests in (REFACTORINGS, ERRORS, SHAPES, MOVING)
        for edit, _ in requests.values()
    ]
    assert len(set(edits)) == len(edits) == 20
    files = [*FILES, *GENERATED]
    assert sum(one.startswith("models/") and one.endswith(".sql") for one in files) == 50


def test_a_refactoring_changes_no_row(shop: Shop, reviewed: Reviewed) -> None:
    checked(shop, reviewed, REFACTORINGS)


def test_an_error_is_seen(shop: Shop, reviewed: Reviewed) -> None:
    checked(shop, reviewed, ERRORS)


def test_a_change_of_shape_is_told(shop: Shop, reviewed: Reviewed) -> None:
    checked(shop, reviewed, SHAPES)


def test_a_macro_of_twenty_models(shop: Shop, reviewed: Reviewed) -> None:
    shop.branch("numbered", {"macros/numbered.sql": ("{{ number }}", "{{ number + 1 }}")})
    code, found = reviewed(clean=True)
    assert (code, found["notes"]) == (0, [])
    assert counted(found) == {f"part_{n}": (("macro",), (3, 3, 0)) for n in range(25, 45)}


FAILING_UNIT_TEST = """
unit_tests:
  - name: twice_is_more
    model: orders
    given:
      - input: source('raw', 'orders')
        rows: [{id: 1, customer: ann, amount: 10}]
    expect:
      rows: [{id: 1, customer: ann, amount: 10, twice: 21}]
"""


def test_a_unit_test_that_fails_fails_the_review(shop: Shop, reviewed: Reviewed) -> None:
    text = (shop.folder / OF_ORDERS).read_text()
    shop.branch("unit", {OF_ORDERS: text + FAILING_UNIT_TEST})
    code, found = reviewed("orders", clean=True)
    orders = found["models"]["orders"]
    assert (code, counted(found)) == (1, {"orders": (("properties",), SAME)})
    assert orders["what_changed"] == ["test twice_is_more: added"]
    (finding,) = orders["findings"]
    assert finding["text"].startswith("twice_is_more: ")
    assert (finding["kind"], finding["fails"], finding["place"]) == ("test", True, OF_ORDERS)
    shop.commit({OF_ORDERS: text + FAILING_UNIT_TEST.replace("21", "20")}, "right")
    code, found = reviewed("orders", clean=True)
    assert (code, found["models"]["orders"]["findings"]) == (0, [])


def test_a_contract_an_owner_and_a_retention_fail_the_review(
    shop: Shop, reviewed: Reviewed, tmp_path: Path
) -> None:
    properties = "{'catalog.team_name': none, 'delta.logRetentionDuration': 'interval 6 hours'}"
    shop.branch(
        "broken",
        {
            ORDERS: ("unique_key='id'", f"unique_key='id', tblproperties={properties}"),
            TOTALS: ("count(*) as orders, ", ""),
            "models/gold/totals.yml": ("      - {name: orders, data_type: bigint}\n", ""),
        },
    )
    code, found = reviewed(clean=True)
    silver, gold = f"{shop.schema}_silver", f"{shop.schema}_gold"
    assert (code, found["notes"]) == (1, [])
    assert {
        name: [(one["kind"], one["text"], one["place"]) for one in model["findings"]]
        for name, model in found["models"].items()
    } == {
        "orders": [
            ("property", "no owner, it was data platform: name one in catalog.team_name", ORDERS)
        ],
        "totals": [
            ("contract", "column orders is removed", TOTALS),
            (
                "property",
                f"[HW_SHORT_RETENTION] {gold}.totals runs every 1 day and follows the changes of "
                f"{silver}.orders, which keeps them for interval 6 hours only "
                "(delta.logRetentionDuration): what changed in between would be lost. Retain them "
                "longer, or run more often.",
                TOTALS,
            ),
        ],
    }
    comment = (tmp_path / "out" / "review.md").read_text()
    assert f"## ❌ breaks the contract of `{gold}.totals`" in comment
    assert f"- breaks the policies of `{silver}.orders` and `{gold}.totals`" in comment


# The schemas that a review creates, in order: clones of inputs, the tables of the base and of the
# branch, the rows that differ, the branch's tables at earlier versions.
POINTS = ("in", "base", "head", "difference", "past")


def test_a_killed_review_leaves_production_and_the_next_one_cleans_up(
    shop: Shop, reviewed: Reviewed, tmp_path: Path
) -> None:
    shop.branch("killed", {PLAIN: ("as amount", "+ 1 as amount"), TOTALS: ("count(*)", "count(1)")})
    expected = {
        "plain": (("text",), (6, 6, 0), *replaced(DOUBLED, [one + 1 for one in DOUBLED])),
        "totals": (("text",), SAME),
    }
    before = shop.state()
    for point in POINTS:
        killed(shop, tmp_path, f"review_killed__{point}_*")
        assert shop.state() == before, point
        assert shop.spark.sql("show schemas like 'review_killed*'").collect() != []
    code, found = reviewed(clean=True)
    assert (code, whole(found)) == (0, expected)
    assert shop.spark.sql("show schemas like 'review_*'").collect() == []
    assert len(shop.git("worktree", "list").splitlines()) == 1
    assert shop.state() == before


def killed(shop: Shop, out: Path, schemas: str) -> None:
    """Kill a review as soon as it has created these schemas."""
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


@contextmanager
def moving(shop: Shop) -> Iterator[list[int]]:
    """Insert orders and change a table of production, all the time."""
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


# The last test of this module, since it changes production.
def test_production_that_moves_meanwhile_makes_no_difference(
    shop: Shop, reviewed: Reviewed
) -> None:
    found: dict[str, Any] = {}
    with moving(shop) as commits:
        for name, (edits, _) in MOVING.items():
            shop.branch(name.replace(" ", "-"), edits)
            _, review = reviewed(clean=True)
            found[name] = whole(review)
    assert found == {name: expected for name, (_, expected) in MOVING.items()}
    assert len(commits) > 15
