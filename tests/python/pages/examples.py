"""Build reviews for the tests of pages: a usual one, and the largest one."""

from __future__ import annotations

import random
from dataclasses import replace

from headwaters.review.facts import (
    ComparedColumn,
    Cost,
    Difference,
    Edge,
    Effort,
    Example,
    Finding,
    ModelReview,
    Review,
    Revision,
    Stays,
)

BASE = Revision("09515e3f2b6f1d7f", "main", "Models that follow the same invocation")
HEAD = Revision("4be21c07aa90ffde", "fx-rounding", "Round amounts after the conversion")

SQL = """@@ -14,7 +14,7 @@ converted as (
     select
         transactions.account_id,
         transactions.transaction_date,
-        sum(round(transactions.amount * rates.rate_to_eur, 2)) as amount_eur
+        round(sum(transactions.amount * rates.rate_to_eur), 2) as amount_eur
     from transactions
     left join rates using (currency)"""


def model(name: str = "sessions", layer: str = "gold", **more: object) -> ModelReview:
    """Return an edited model without differing rows."""
    made = ModelReview(
        unique_id=f"model.headwaters.{name}",
        name=name,
        layer=layer,
        relation=f"{layer}.{name}",
        causes=("text",),
        what_changed=("the query differs",),
        difference=Difference(329, 329, 0, 0, 0, by_key=True),
    )
    return replace(made, **more)  # type: ignore[arg-type]  # any field


def review(*models: ModelReview, **more: object) -> Review:
    """Return a review of these models."""
    return replace(Review(BASE, HEAD, models, seconds=42.4), **more)  # type: ignore[arg-type]  # any


def spend_examples(count: int, seed: int = 1) -> tuple[Example, ...]:
    """Return changed, added and removed rows of account_daily_spend."""
    draw = random.Random(seed)
    found = []
    for index in range(count):
        key = {
            "account_id": f"A{draw.randrange(5000):06}",
            "transaction_date": f"2026-01-{1 + index % 28:02}",
            "currency": draw.choice(["CHF", "EUR", "GBP", "JPY"]),
        }
        cents = draw.randrange(100, 900_000)
        before: dict[str, str | None] = {"amount_eur": f"{cents / 100:.2f}", "payer": None}
        after: dict[str, str | None] = {"amount_eur": f"{(cents + 1) / 100:.2f}", "payer": None}
        if index % 3 == 0:
            before["fee"], after["fee"] = None, "0.00"
        if index % 40 == 7:
            found.append(Example("added", dict(key), {}, after))
        elif index % 40 == 19:
            found.append(Example("removed", dict(key), before, {}))
        else:
            found.append(Example("changed", dict(key), before, after))
    return tuple(found)


def usual() -> Review:
    """Return a pull request that changes the rounding of amounts, with every part of a review."""
    source = "source.headwaters.bronze.financial_transactions"
    silver = model(
        "silver_financial_transactions",
        "silver",
        what_changed=("a common table expression was renamed",),
        difference=Difference(19_300, 19_300, 0, 0, 0, by_key=True),
        stays=Stays("over production's last 3 commits", 0, 1_204),
        cost=Cost("nothing", "the rows are the same", "change_feed, as before"),
        columns=(ComparedColumn("transaction_id", "string", "string"),),
    )
    spend = model(
        "account_daily_spend",
        columns=(
            ComparedColumn("account_id", "string", "string"),
            ComparedColumn("amount_eur", "decimal(38,6)", "decimal(38,2)", 289),
            ComparedColumn("fee", "decimal(18,2)", "decimal(18,2)", 104),
            ComparedColumn("payer", "string", "string", 12, is_masked=True),
            ComparedColumn("booked_by", None, "string"),
        ),
        difference=Difference(14_282, 14_282, 8, 8, 296, by_key=True, examples=spend_examples(240)),
        stays=Stays("over production's last 3 commits", 0, 1_204),
        cost=Cost(
            "rebuild",
            "a column is added",
            "affected_keys, as before",
            3.8,
            218_489,
            Effort(None, 215_300, 604_112, "the sizes of the table and of what it reads"),
            Effort(1.9, 12_040, None, "the median of its last 10 runs"),
            Effort(2.4, 13_118),
        ),
        diff_of_sql=SQL,
        pinned={"silver.silver_financial_transactions": 41, "reference.exchange_rates": 3},
    )
    contract = Finding(
        "contract",
        "amount_eur is decimal(38,2), and the contract says decimal(38,6)",
        True,
        "models/gold/account_daily_spend.yml:31",
    )
    broken = replace(
        spend,
        findings=(
            contract,
            Finding("test", "unique_combination_of_columns passes", False),
            Finding("lint", "RF03 references are qualified", False, "account_daily_spend.sql:9"),
        ),
    )
    statement = model(
        "account_monthly_statement",
        causes=("upstream",),
        what_changed=(),
        columns=(ComparedColumn("total_eur", "decimal(38,6)", "decimal(38,6)", 71),),
        difference=Difference(940, 940, 0, 0, 71, by_key=True, examples=spend_examples(71, 5)),
        cost=Cost("patch", "71 keys", "affected_keys, as before", 1.2, 18_200),
    )
    merchants = model(
        "merchant_activity",
        causes=("upstream",),
        what_changed=(),
        difference=Difference(2_516, 2_516, 0, 0, 0, by_key=False),
    )
    forecast = model(
        "spend_forecast",
        causes=("upstream",),
        what_changed=(),
        difference=None,
        why_not="it is a Python model, which is not computed in a review",
    )
    models = (silver, broken, merchants, statement, forecast)
    edges = (
        Edge(source, silver.unique_id),
        Edge(silver.unique_id, broken.unique_id),
        Edge("seed.headwaters.exchange_rates", broken.unique_id),
        Edge(silver.unique_id, merchants.unique_id),
        Edge(broken.unique_id, statement.unique_id),
        Edge(statement.unique_id, forecast.unique_id),
        Edge(merchants.unique_id, forecast.unique_id),
    )
    notes = ("spend_forecast: no unit tests are declared",)
    exposures = ("account_spending_statement", "finance_dashboard")
    return review(*models, edges=edges, exposures=exposures, notes=notes)


def large(models: int = 200, rows: int = 10_000) -> Review:
    """Return two hundred models in layers, and ten thousand differing rows."""
    draw = random.Random(7)
    per_model = rows // 50
    found, edges = [], []
    for index in range(models):
        differs = index < 50
        examples = spend_examples(per_model, index) if differs else ()
        counts = (0, 0, per_model) if differs else (0, 0, 0)
        found.append(
            model(
                f"model_{index:03}_of_a_longer_name",
                ("silver", "gold")[index % 2],
                causes=("text",) if index % 9 == 0 else ("upstream",),
                columns=(ComparedColumn("amount_eur", "double", "double", counts[2]),),
                difference=Difference(
                    100_000 + index, 100_000 + index, *counts, by_key=True, examples=examples
                ),
            )
        )
        for _ in range(2 if index > 5 else 0):
            other = draw.randrange(max(0, index - 40), index)
            edges.append(Edge(found[other].unique_id, found[index].unique_id))
    return review(*found, edges=tuple(edges))
