"""Test the derivations of 73 models as analysts write them, over tables with hardly any keys.

`analysts/plans.txt` lists them. If a change of the analysis is intended, rewrite the list and
review it with the change: `UPDATE_GOLDEN=1 pytest tests/python/analysis/test_analysts.py`.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from analysis.queries import Oracle, Row, Tables, rounded
from analysis.test_golden import told
from analysis.test_hand_made import wrong
from headwaters.analysis.derive import Derivation, Question, derive
from headwaters.analysis.relations import Input

FOLDER = Path(__file__).parent / "analysts"
PLANS = FOLDER / "plans.txt"
MODELS = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.sql"))}


def _tables() -> list[Input]:
    """Read the tables: a name, its key if it is declared, and columns with types."""
    found = []
    for line in (FOLDER / "tables.txt").read_text().splitlines():
        head, _, listed = line.partition(": ")
        name, _, key = head.rstrip(")").partition(" (")
        pairs = (column.split(" ", 1) for column in re.split(r", (?=\w+ )", listed))
        columns = dict((column, kind) for column, kind in pairs)
        found.append(Input(name, name, "", columns, [frozenset([key])] if key else []))
    return found


TABLES = _tables()
# Models that replace the table at each change, with the reason: they read all rows for each row of
# the result.
REPLACED = {
    "last_orders": "the first rows of all are chosen",
    "reporting_lines": "a row depends on rows of any distance",
    "salary_quartiles": "a rank of each row among all",
    "share_of_revenue_by_order": "every row has a share of the total",
}
# Models that are maintained in each run of the tests: one of every kind.
SOME = (
    *("signups_by_month", "active_subscriptions_by_day", "coupon_usage", "cohort_retention"),
    *("sessions", "order_tags", "dim_geography_fact", "first_touch", "revenue_grouping_sets"),
    *("monthly_channel_pivot", "customers_with_trouble", "unpaid_amounts", "signup_funnel"),
    *("price_points", "big_orders_piped", "webhook_names", "event_flags", "rates_of_today"),
    *("product_mentions", "tickets_with_order_reference"),
)
# What sqlglot does not translate from Spark.
IN_DUCKDB = {
    ">>> 2": "div 4",
    'X"42"': "X'42'",
    "body:event": "get_json_object(body, '$.event')",
    "body:data.id": "get_json_object(body, '$.data.id')",
}


def question(name: str) -> Question:
    """Return the question of a model without settings."""
    sql = MODELS[name]
    used = [one for one in TABLES if re.search(rf"\b(from|join)\s+{one.name}\b", sql)]
    return Question(sql, used, follows_ties=True)


@cache
def derived(name: str) -> Derivation:
    return derive(question(name))


def test_the_plan_of_each_model_is_as_reviewed() -> None:
    found = [f"{name}: {told(derived(name))}" for name in MODELS]
    if "UPDATE_GOLDEN" in os.environ:
        PLANS.write_text("\n".join(found) + "\n")
    assert found == PLANS.read_text().splitlines()


def test_few_models_and_rounds_replace_the_table() -> None:
    assert len(MODELS) == 73
    assert {name for name in MODELS if derived(name).strategy == "replace"} == REPLACED.keys()
    # a round changes one input
    rounds = [(name, source) for name in MODELS for source in derived(name).inputs]
    lost = [(name, source.name) for name, source in rounds if not source.is_followed]
    assert {name for name, _ in lost} == REPLACED.keys()
    assert (len(rounds), len(lost)) == (112, 4)


MOMENTS = [
    datetime(2024, month, day, 8) + timedelta(minutes=minute)
    for month, day in ((1, 3), (1, 31), (2, 1), (2, 29), (3, 1))
    for minute in range(0, 200, 7)
]
DAYS = [date(2024, 1, 1), date(2024, 1, 3), date(2024, 2, 1), date(2024, 2, 29), date(2024, 3, 1)]
TEXTS: dict[str, list[str | None]] = {
    "status": ["paid", "paid", "ok", "ok", "sent", "cancelled"],
    "channel": ["web", "shop", "", None],
    "method": ["card", "cash", "transfer", None],
    "reason": ["card", "cash", None],
    "priority": ["high", "low"],
    # names that are numbers, since one model equates them with numbers
    "assignee": ["1", " 2", "3 ", None],
    "page": ["/home", "/p/1", "/p/2", None],
    "sku": ["1", "2", None],
    "coupon": ["SALE", None],
}
NAMES: dict[str, list[str | None]] = {
    "events": ["visit", "visit", "signup", "purchase", "page_view", "page_view"],
    "employees": ["1", "2 ", " 3", None],
}
OTHERS: list[str | None] = ["a", "a", "b", None]
VALUES: dict[str, list[Any]] = {
    "int": [1, 1, 2, 2, 3, 4, 5, None],
    "boolean": [True, False],
    "double": [0.5, 1.0, None],
    "date": [*DAYS, None],
    "timestamp": [*MOMENTS, *[None] * (len(MOMENTS) // 2)],
    "array<string>": [("a", "b"), ("b",), ("c", "c"), (), None],
}


def _value(chance: random.Random, table: str, column: str, kind: str) -> Any:
    if kind.startswith("decimal"):
        # few values that match, and others that seldom tie
        return chance.choice([Decimal("2.50"), Decimal(chance.randint(100, 199999)) / 100])
    if column in ("payload", "profile"):
        listed = (f'"{key}": "{chance.choice("ab")}"' for key in ("campaign", "language"))
        return chance.choice(["{" + ", ".join(listed) + "}", None])
    if kind == "variant":
        event, number = chance.choice(["sent", "read"]), chance.randint(1, 2)
        return chance.choice([f'{{"event": "{event}", "data": {{"id": {number}}}}}', "{}", None])
    if column == "name":
        return chance.choice(NAMES.get(table, OTHERS))
    if column == "salary":
        return chance.randint(1, 3000)
    return chance.choice(VALUES[kind] if kind in VALUES else TEXTS.get(column, OTHERS))


def _row(chance: random.Random, source: Input, filled: Sequence[str]) -> Row:
    """Return a row, with values in the columns `filled`."""
    row = []
    for column, kind in source.columns.items():
        value = _value(chance, source.name, column, kind)
        while value is None and column in filled:
            value = _value(chance, source.name, column, kind)
        row.append(value)
    return tuple(row)


def _drawn(name: str, chance: random.Random, before: Tables) -> Tables:
    """Return the tables of a model after a change: most of their rows, and some others.

    No two rows of a table have one moment, so that DuckDB always orders them in the same way.
    """
    found: Tables = {}
    for source in question(name).inputs:
        apart = [column for key in source.unique for column in key]
        apart += [column for column, kind in source.columns.items() if kind == "timestamp"][:1]
        rows = [row for row in before.get(source.name, []) if chance.random() < 0.7]
        many = chance.randint(0, 6) if before else 9
        rows += [_row(chance, source, apart) for _ in range(many)]
        for column in apart:
            place = list(source.columns).index(column)
            rows = list({row[place]: row for row in rows}.values())
        found[source.name] = rows
    return found


def _compared(name: str, rows: Counter[Row]) -> Counter[Row]:
    """Return the rows as they are compared: DuckDB chooses any of the most frequent values."""
    if name == "usual_payment_method":
        rows = Counter((customer, many) for customer, _, many in rows.elements())
    return rounded(rows)


def _wrong(name: str, rounds: int) -> str | None:
    """Return the rows of a run that differ from the model; an empty text if it is replaced."""
    columns = {
        source.name: {
            column: kind.replace("variant", "string") for column, kind in source.columns.items()
        }
        for source in TABLES
    }
    asked = question(name)
    sql = asked.sql
    for written, other in IN_DUCKDB.items():
        sql = sql.replace(written, other)
    drawn, compared = partial(_drawn, name), partial(_compared, name)
    return wrong(Oracle(columns), sql, asked, rounds, drawn, compared)


@pytest.mark.parametrize("name", SOME)
def test_what_is_derived_is_right(name: str) -> None:
    assert _wrong(name, 2) is None


@pytest.mark.slow
def test_what_is_derived_of_every_model_is_right() -> None:
    found = {name: _wrong(name, 8) for name in MODELS}
    assert {name: problem for name, problem in found.items() if problem} == {}
    assert {name for name, problem in found.items() if problem == ""} == REPLACED.keys()
