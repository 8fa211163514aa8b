"""Review unusual pull requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from review.shop import Shop
from review.test_pull_requests import OF_ORDERS, ORDERS, PLAIN, SAME, TOTALS, production
from review.test_review import Reviewed, counted, reviewed

__all__ = ["reviewed"]

pytestmark = pytest.mark.slow

OF_TOTALS = "models/gold/totals.yml"
LATE, LEAST, DRAWN = (f"models/silver/{name}.sql" for name in ("orders/late", "least", "drawn"))
LONG = "long_" * 22 + "name"
OTHERS = {
    LEAST: "{{ config(materialized='table') }}\n"
    "select id from {{ ref('orders') }} where amount > {{ var('least', 0) }}\n",
    DRAWN: "{{ config(materialized='table', unique_key='id') }}\n"
    "select id, rand() as drawn from {{ ref('orders') }}\n",
    "models/silver/of_drawn.sql": "{{ config(materialized='table') }}\n"
    "select round(sum(drawn), 9) as drawn from {{ ref('drawn') }}\n",
    f"models/silver/{LONG}.sql": "{{ config(incremental_strategy='change_feed', unique_key='id') }}"
    "\nselect id, amount as `Größe€` from {{ changes(ref('orders')) }}\n",
    "snapshots/kept.yml": "snapshots: [{name: kept, relation: ref('orders'), config: {"
    "strategy: check, check_cols: all, unique_key: id, file_format: delta}}]\n",
}
# Readers of orders that do not differ; `drawn` is drawn in each run.
BELOW = {name: (("upstream",), SAME) for name in ("kept", "least", LONG, "plain", "totals")}


@pytest.fixture(scope="module")
def shop(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Yield a built production, which a review does not change."""
    yield from production(spark, tmp_path_factory.mktemp("shop"), OTHERS)


def findings(found: dict[str, Any]) -> dict[str, list[tuple[str, str, bool]]]:
    """Return the findings of each model, and whether it fails the review."""
    return {
        name: [(one["kind"], one["text"], one["fails"]) for one in model["findings"]]
        for name, model in found["models"].items()
        if model["findings"]
    }


def test_a_table_in_another_schema_has_the_same_rows(shop: Shop, reviewed: Reviewed) -> None:
    shop.branch("moved", {ORDERS: ("unique_key='id'", "unique_key='id', schema='archive'")})
    before = shop.state()
    code, found = reviewed(clean=True)
    said = counted(found)
    of_drawn = (("upstream",), "not compared: all its columns have the time or chance of its run")
    compared = {"orders": (("properties",), SAME), "drawn": (("upstream",), SAME), **BELOW}
    assert (code, said) == (0, {**compared, "of_drawn": of_drawn})
    assert found["models"]["drawn"]["what_changed"] == [
        "column drawn has the time or chance of its run: not compared"
    ]
    assert found["models"]["orders"]["what_changed"] == [
        "schema: silver → archive",
        f"table: {shop.schema}_silver.orders → {shop.schema}_archive.orders",
    ]
    assert shop.state() == before


def test_a_column_and_its_model_under_other_names(shop: Shop, reviewed: Reviewed) -> None:
    sql, yml = ((shop.folder / file).read_text() for file in (TOTALS, OF_TOTALS))
    shop.branch(
        "renamed",
        {
            TOTALS: None,
            OF_TOTALS: None,
            "models/gold/sums.sql": sql.replace("as amount", "as total"),
            "models/gold/sums.yml": yml.replace("totals", "sums").replace(": amount", ": total"),
        },
    )
    code, found = reviewed(clean=True)
    assert (code, counted(found)) == (
        1,
        {"sums": (("added",), (3, 0, 0)), "totals": (("removed",), (0, 3, 0))},
    )
    assert findings(found) == {"totals": [("contract", "the table is removed", True)]}


def test_tables_that_become_views_ephemeral_or_disabled(shop: Shop, reviewed: Reviewed) -> None:
    shop.branch(
        "other-kinds",
        {
            PLAIN: ("materialized='table'", "materialized='view'"),
            LEAST: ("materialized='table'", "materialized='ephemeral'"),
            LATE: ("materialized='table'", "materialized='table', enabled=false"),
        },
    )
    code, found = reviewed(clean=True)
    assert (code, findings(found), counted(found)) == (
        0,
        {},
        {
            "late": (("removed",), (0, 1, 0)),
            "least": (("removed",), (0, 6, 0)),
            "plain": (("properties",), SAME),
        },
    )


def test_an_input_that_becomes_ephemeral_has_no_changes_to_follow(
    shop: Shop, reviewed: Reviewed
) -> None:
    ephemeral = "{{ config(materialized='ephemeral', incremental_strategy=none) }}"
    shop.branch(
        "ephemeral",
        {
            ORDERS: f"{ephemeral}\nselect id, customer, amount, amount * 2 as twice\n"
            "from {{ source('raw', 'orders') }} where amount > 0\n",
            OF_ORDERS: None,
        },
    )
    code, found = reviewed("orders", "plain", "totals", clean=True)
    said = counted(found)
    assert (code, said["orders"], said["plain"]) == (
        1,
        (("removed",), (0, 6, 0)),
        (("macro",), SAME),
    )
    ((_, text, fails),) = findings(found)["totals"]
    assert (text.startswith("does not build: [HW_"), "ephemeral" in text, fails) == (True,) * 3


def test_a_contract_that_is_widened_breaks_it(shop: Shop, reviewed: Reviewed) -> None:
    shop.branch(
        "widened",
        {
            TOTALS: ("sum(amount) as amount", "cast(sum(amount) as decimal(38, 0)) as amount"),
            OF_TOTALS: (
                "{name: amount, data_type: bigint}",
                "{name: amount, data_type: 'decimal(38,0)'}",
            ),
        },
    )
    code, found = reviewed(clean=True)
    assert (code, counted(found)) == (1, {"totals": (("text", "properties"), SAME)})
    assert findings(found) == {
        "totals": [("contract", "column amount was bigint, is decimal(38,0)", True)]
    }


def test_another_value_of_a_variable(shop: Shop, reviewed: Reviewed) -> None:
    settings = (shop.folder / "dbt_project.yml").read_text()
    assert "\nvars:\n" in settings
    changed = settings.replace("\nvars:\n", "\nvars:\n  least: 25\n")
    shop.branch("variable", {"dbt_project.yml": changed})
    code, found = reviewed(clean=True)
    assert (code, counted(found)) == (0, {"least": (("macro",), (0, 2, 0))})


def test_descriptions_are_told_and_nothing_is_built(shop: Shop, reviewed: Reviewed) -> None:
    shop.branch("docs", {"README.md": "# A shop\n"})
    assert reviewed(clean=True)[1]["models"] == {}
    described = ("{name: id, data_tests", "{name: id, description: Of an order., data_tests")
    shop.branch("docs", {OF_ORDERS: described})
    code, found = reviewed(clean=True)
    (orders,) = found["models"].values()
    assert (code, orders["what_changed"]) == (0, ["column id: description: none → Of an order."])
    assert (orders["difference"], orders["why_not"], orders["cost"]) == (None, None, None)


def test_a_merge_that_was_not_finished(shop: Shop, reviewed: Reviewed) -> None:
    marks = "<<<<<<< HEAD\nwhere amount > 0\n=======\nwhere amount > 1\n>>>>>>> other"
    shop.branch("conflict", {ORDERS: ("where amount > 0", marks)})
    code, found = reviewed("orders", "totals", clean=True)
    ((kind, text, fails),) = findings(found)["orders"]
    assert (code, kind, fails) == (1, "build", True)
    assert text.startswith("does not build: [")
    assert counted(found)["totals"][1].startswith("the branch does not build it: ")


def test_a_snapshot_below_differs_where_its_input_does(shop: Shop, reviewed: Reviewed) -> None:
    shop.branch("one-row", {ORDERS: ("amount * 2 as", "if(id = 3, 0, amount * 2) as")})
    code, found = reviewed("orders", "kept", LONG, clean=True)
    assert (code, counted(found)) == (
        0,
        {
            "orders": (("text",), (0, 0, 1)),
            "kept": (("upstream",), (0, 0, 1)),
            LONG: (("upstream",), SAME),
        },
    )


# Production has orders of 20 and more, too.
REFUSED = "[not_null, {accepted_values: {arguments: {values: [1, 2], quote: false}}}]"


def test_a_test_that_fails_in_the_base_as_well_is_not_the_branch_s(
    shop: Shop, reviewed: Reviewed
) -> None:
    shop.git("checkout", "-q", "--force", "main")
    text = (shop.folder / OF_ORDERS).read_text()
    shop.commit({OF_ORDERS: text.replace("[not_null]", REFUSED)}, "a test that fails")
    try:
        shop.branch("sum", {ORDERS: ("amount * 2", "amount + amount")})
        code, found = reviewed("orders", clean=True)
        ((kind, said, fails),) = findings(found)["orders"]
        assert (code, kind, fails) == (0, "test", False)
        assert said.startswith("fails in the base as well: accepted_values_orders_id")
        # more rows fail
        shop.branch("more", {ORDERS: ("amount > 0", "amount >= 0")})
        code, found = reviewed("orders", clean=True)
        ((kind, said, fails),) = findings(found)["orders"]
        assert (code, kind, fails) == (1, "test", True)
        assert said.startswith("accepted_values_orders_id")
    finally:
        shop.git("checkout", "-q", "--force", "main")
        shop.commit({OF_ORDERS: text}, "without it")


# The last test of this module, since it changes production.
def test_a_table_that_was_changed_by_hand_makes_no_difference(
    shop: Shop, reviewed: Reviewed
) -> None:
    shop.spark.sql(f"update {shop.schema}_silver.orders set amount = 1 where id = 2")
    shop.spark.sql(f"delete from {shop.schema}_gold.totals where customer = 'bob'")
    before = shop.state()
    shop.branch("negated", {ORDERS: ("amount > 0", "not amount <= 0")})
    code, found = reviewed("orders", "plain", "totals", clean=True)
    assert (code, found["notes"], counted(found)) == (
        0,
        [],
        {
            "orders": (("text",), SAME),
            "plain": (("upstream",), SAME),
            "totals": (("upstream",), SAME),
        },
    )
    assert shop.state() == before
