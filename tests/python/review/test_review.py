"""Test that a review compares two texts over the same inputs, and does not change production."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headwaters.platform.project import Project
from headwaters.review import run
from review.shop import ROOT, Shop, facts

pytestmark = pytest.mark.slow

Reviewed = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def shop(
    spark: Any, schema: str, new_project: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shop]:
    monkeypatch.setenv("HEADWATERS_SCHEMA", schema)
    made = Shop(new_project({}), schema, spark)
    made.build(tmp_path)
    yield made
    drop(spark, "review_*")


def drop(spark: Any, schemas: str) -> None:
    """Drop schemas, with their tables."""
    for (name,) in spark.sql(f"show schemas like '{schemas}'").collect():
        spark.sql(f"drop schema {name} cascade")


@pytest.fixture
def reviewed(shop: Shop, tmp_path: Path) -> Reviewed:
    project = Project(shop.folder, ROOT / "profiles", "engine")

    def review(
        *select: str, clean: bool = False, largest: int = 10**8
    ) -> tuple[int, dict[str, Any]]:
        code = run.review(
            project,
            tmp_path / "out",
            run.ReviewOptions("main", select, largest, clean),
            lambda line: None,
        )
        return code, facts(tmp_path / "out")

    return review


def counted(found: dict[str, Any]) -> dict[str, Any]:
    """Return each model's causes, and its numbers of added, removed and changed rows."""
    return {
        name: (
            tuple(model["causes"]),
            model["why_not"]
            if (one := model["difference"]) is None
            else (one["added"], one["removed"], one["changed"]),
        )
        for name, model in found["models"].items()
    }


def test_a_change_of_rows_is_shown_and_production_is_left_alone(
    shop: Shop, reviewed: Reviewed
) -> None:
    shop.branch(
        "Feature/Twice!",
        {
            "models/silver/orders.sql": ("amount * 2", "if(id = 3, 0, amount * 2)"),
            "macros/doubled.sql": ("* 2", "+ {{ column }}"),
            "models/silver/kinds.sql": ("select orders.id", "select\n    orders.id"),
        },
    )
    week = 8 * 86_400
    for name, made in (("old", time.time() - week), ("young", time.time() - 60)):
        marks = f"'headwaters.review' = 'x', 'headwaters.review.at' = '{made:.0f}'"
        shop.spark.sql(f"create schema review_{name} with dbproperties ({marks})")
    shop.spark.sql("create schema review_of_mine")  # not created by a review
    before = shop.state()
    shop_rows = shop.spark.table(f"{shop.schema}_silver.orders").count()
    code, found = reviewed()
    assert counted(found) == {
        "orders": (("text",), (0, 0, 1)),
        "plain": (("macro",), (0, 0, 0)),
        "totals": (("upstream",), (0, 0, 0)),
    }
    orders = found["models"]["orders"]
    left = {row[0] for row in shop.spark.sql("show schemas like 'review_*'").collect()}
    assert {"review_young", "review_of_mine"} < left
    assert "review_old" not in left
    # downstream models follow the one row that differs
    assert found["models"]["totals"]["cost"]["one_off"] == "nothing"
    assert (
        orders["difference"]["bytes_read"] > found["models"]["totals"]["difference"]["bytes_read"]
    )
    assert orders["difference"]["rows_before"] == shop_rows
    assert orders["difference"]["examples"] == [
        {
            "change": "changed",
            "key": {"id": "3"},
            "before": {"twice": "60"},
            "after": {"twice": "0"},
            "skipped": {},
        }
    ]
    assert {column["name"]: column["changed"] for column in orders["columns"]} == {
        "id": 0,
        "customer": 0,
        "amount": 0,
        "twice": 1,
    }
    assert orders["stays"]["differing"] == 0, orders["stays"]
    assert orders["stays"]["changed_input_rows"] == 1
    assert orders["cost"]["one_off"] == "rebuild"
    assert orders["cost"]["one_off_reason"] == (
        "changed SQL: its expectations are evaluated on all rows; small: 2 of 6 rows (warn)"
    )
    # production has one incremental run, over one row
    cost = orders["cost"]
    for name, basis in (
        ("next_predicted", "its last run, without planning"),
        ("next_measured", ""),
    ):
        assert (cost[name]["basis"], cost[name]["bytes_written"] > 0) == (basis, True)
        assert 0 < cost[name]["seconds"] < 600
    # the base started from production's table without a build, so the review timed none
    assert cost["predicted"]["seconds"] is None
    assert cost["predicted"]["basis"] == "the sizes of the table and of what it reads"
    assert cost["predicted"]["bytes_written"] > cost["next_predicted"]["bytes_written"]
    built = found["models"]["plain"]["cost"]
    assert built["predicted"]["basis"].endswith(", the time of the base's full computation")
    assert found["exposures"] == ["board"]
    assert code == 0
    assert shop.state() == before
    # without differences the review builds nothing, and --clean drops old schemas
    marks = f"'headwaters.review' = 'x', 'headwaters.review.at' = '{time.time() - week:.0f}'"
    shop.spark.sql(f"create schema review_older with dbproperties ({marks})")
    shop.git("checkout", "-q", "--force", "main")
    code, found = reviewed(clean=True)
    assert (code, found["models"], found["notes"]) == (0, {}, [])
    assert {row[0] for row in shop.spark.sql("show schemas like 'review_*'").collect()} == left


def test_added_removed_and_broken_models_are_told(shop: Shop, reviewed: Reviewed) -> None:
    shop.branch(
        "shapes",
        {
            "models/silver/plain.sql": None,
            "models/silver/named.sql": "{{ config(materialized='table') }}\n"
            "select id, customer from {{ ref('orders') }} where customer is not null",
            # a join that doubles rows, and another type than the contract's
            "models/gold/totals.sql": ("count(*) as orders", "cast(count(*) as int) as orders"),
            "models/silver/kinds.sql": ("left join", "inner join"),
            "models/silver/orders.yml": (
                "[not_null]",
                "[not_null, {accepted_values: {arguments: {values: [1, 2], quote: false}}}]",
            ),
        },
    )
    before = shop.state()
    code, found = reviewed(clean=True)
    said = counted(found)
    assert said["plain"] == (("removed",), (0, 6, 0))
    assert said["named"] == (("added",), (5, 0, 0))
    assert said["kinds"] == (("text",), (0, 2, 0))
    assert said["totals"][0] == ("text",)
    assert "contract" in said["totals"][1]
    assert said["orders"] == (("properties",), (0, 0, 0))
    (broken,) = found["models"]["orders"]["findings"]
    assert (broken["kind"], broken["fails"]) == ("test", True)
    assert broken["text"].startswith("accepted_values_orders_id")
    assert [(one["kind"], one["fails"]) for one in found["models"]["totals"]["findings"]] == [
        ("contract", True)
    ]
    assert code == 1
    assert shop.spark.sql("show schemas like 'review_*'").collect() == []
    assert shop.state() == before
