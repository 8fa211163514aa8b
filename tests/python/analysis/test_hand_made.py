"""Test that hand-written queries, maintained as derived, equal the full computation."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from analysis.queries import Oracle, Row, Tables, in_duckdb, maintained
from headwaters.analysis.derive import Question, derive
from headwaters.analysis.relations import Input

QUERIES = (Path(__file__).parent / "hand_made.txt").read_text().splitlines()[1:]
COLUMNS = {
    "orders": {
        **{"id": "int", "customer_id": "int", "placed": "date", "amount": "decimal(10,2)"},
        "status": "string",
    },
    "items": {"order_id": "int", "line": "int", "sku": "string", "qty": "int"},
    "customers": {"id": "int", "name": "string", "region": "string", "boss": "int"},
    "events": {"usr": "int", "tm": "int", "kind": "string", "ref": "int"},
    "spans": {"key": "int", "lo": "int", "hi": "int", "tag": "string"},
    "prices": {"sku": "string", "day": "date", "price": "decimal(10,2)"},
}
# The number of leading columns of a table that identify its rows.
KEYS = {"orders": 1, "items": 2, "customers": 1, "events": 0, "spans": 2, "prices": 2}
INPUTS = [
    Input(name, name, "", columns, [frozenset(list(columns)[: KEYS[name]])] if KEYS[name] else [])
    for name, columns in COLUMNS.items()
]
# Few values, so that rows match.
VALUES: dict[str, list[Any]] = {
    "int": [1, 1, 2, 2, 3, 4, None],
    "string": ["a", "a", "b", "B", "bc", None],
    "date": [date(2024, 1, 1), date(2024, 1, 2), date(2024, 2, 29), None],
    "decimal(10,2)": [Decimal("1.00"), Decimal("2.50"), Decimal("-1.00"), None],
}
# The least number of maintained queries, which exposes a rule that refuses too much.
MAINTAINED = 285


def drawn(chance: random.Random, before: Tables) -> Tables:
    """Return the tables after a change: most of their rows, and some others."""
    found: Tables = {}
    for name, columns in COLUMNS.items():
        rows = [row for row in before.get(name, []) if chance.random() < 0.6]
        for _ in range(chance.randint(0, 4)):
            rows.append(tuple(chance.choice(VALUES[kind]) for kind in columns.values()))
        many = KEYS[name]
        if many:
            rows = list({row[:many]: row for row in rows if None not in row[:many]}.values())
        found[name] = rows
    return found


def wrong(
    oracle: Oracle,
    sql: str,
    question: Question,
    rounds: int,
    draw: Callable[[random.Random, Tables], Tables] = drawn,
    compared: Callable[[Counter[Row]], Counter[Row]] = Counter,
) -> str | None:
    """Return the rows of a run that differ from the query; none if the query is not maintained.

    `draw` changes the tables, and `compared` returns rows in the form that is compared.
    """
    derived = derive(question)
    followed = {source.name for source in derived.inputs if source.is_followed}
    if not followed:
        return ""
    chance = random.Random(sql)
    before: Tables = draw(chance, {})
    for _ in range(rounds):
        changed = draw(chance, before)
        after = before | {name: changed[name] for name in followed}
        whole = oracle.answer(in_duckdb(sql), after)
        left = maintained(oracle, in_duckdb(sql), derived, before, after)
        if compared(left) != compared(whole):
            return f"{derived}\n{before}\n{after}\nwhole {whole}\nleft {left}"
        names = [name.lower() for name in oracle.names(in_duckdb(sql))]
        places = [names.index(name.lower()) for name in derived.unique_key]
        keys = Counter(tuple(row[place] for place in places) for row in whole.elements())
        if places and any(many > 1 for many in keys.values()):
            return f"{derived.unique_key} does not tell the rows apart: {whole}"
        before = changed
    return None


@pytest.mark.slow
def test_what_is_derived_of_queries_that_people_write_is_right() -> None:
    oracle, found = Oracle(COLUMNS), dict[str, str | None]()
    for sql in QUERIES:
        used = [one for one in INPUTS if re.search(rf"\b{one.name}\b", sql)]
        found[sql] = wrong(oracle, sql, Question(sql, used), 6)
        for constant in used:
            # other ways apply if one input seldom changes
            asked = Question(sql, used, frozenset([constant.name]))
            found[sql] = wrong(oracle, sql, asked, 2) or found[sql]
    assert {sql: problem for sql, problem in found.items() if problem} == {}
    assert sum(problem is None for problem in found.values()) >= MAINTAINED
