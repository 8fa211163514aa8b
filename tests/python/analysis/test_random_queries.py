"""Test that accepted random queries, maintained incrementally, equal the full computation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest

from analysis.queries import KINDS, Oracle, tried, tried_keys, tried_plain, tried_staged
from headwaters.analysis import keyed_rules, linear_rules
from headwaters.analysis import lineage_rules as traced
from headwaters.analysis import stages as cut
from headwaters.analysis.relations import Weight
from headwaters.analysis.safe_expressions import implied_text
from headwaters.analysis.strategies import RuleBook


def drawn(some: int) -> pytest.MarkDecorator:
    """Return the numbers of the queries to draw; `make soak-analysis` draws more."""
    more = pytest.param(range(some, 250), id="more", marks=pytest.mark.slow)
    return pytest.mark.parametrize("numbers", [pytest.param(range(some), id="some"), more])


def until_met(known: int) -> Iterator[int]:
    """Return the query that last exposed a wrong rule, and enough others."""
    return chain([known], range(1000))


@drawn(80)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_accepted_is_right(kind: RuleBook, numbers: range) -> None:
    oracle = Oracle()
    found = [tried(kind, number, oracle) for number in numbers]
    assert [problem for _, problem in found if problem] == []
    assert sum(was for was, _ in found) >= len(numbers) // 20


@drawn(40)
def test_what_is_derived_is_right(numbers: range) -> None:
    oracle = Oracle()
    found = [tried_plain(number, oracle) for number in numbers]
    assert [problem for _, problem in found if problem] == []
    assert sum(strategy != "replace" for strategy, _ in found) >= len(numbers) // 2
    assert sum(strategy == "leads" for strategy, _ in found) >= len(numbers) // 4


BROKEN = {
    "linear": (linear_rules.LinearRules, "distinct", lambda self, relation, node: relation.fact),
    "sums": (linear_rules.LinearRules, "aggregated", lambda *_: Weight.ODD),
    "keyed": (
        keyed_rules.KeyedRules,
        "windowed",
        lambda self, relation, partition, node: relation.fact,
    ),
}


@pytest.mark.parametrize(("kind", "known"), [("linear", 55), ("sums", 22), ("keyed", 143)])
def test_a_wrong_rule_is_found(kind: RuleBook, known: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rules, name, accepts = BROKEN[kind]
    monkeypatch.setattr(rules, name, accepts)
    oracle = Oracle()
    assert any(tried(kind, number, oracle)[1] for number in until_met(known))


def test_a_wrong_trace_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        traced.TracedRules, "_kept", lambda self, relation, ids, node, lacks: relation.fact
    )
    oracle = Oracle()
    assert any(tried_plain(number, oracle)[1] for number in until_met(37))


def test_a_condition_that_holds_for_too_few_rows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_few(*of: Any) -> str | None:
        text = implied_text(*of)
        return text and f"({text} and 1 = 2)"

    monkeypatch.setattr("headwaters.analysis.expressions.implied_text", too_few)
    oracle = Oracle()
    assert any(tried_plain(number, oracle)[1] for number in until_met(49))


@drawn(80)
def test_what_is_cut_is_right(numbers: range) -> None:
    oracle = Oracle()
    found = [tried_staged(number, oracle) for number in numbers[: len(numbers) // 2]]
    assert [problem for _, problem in found if problem] == []
    assert sum(has_stages for has_stages, _ in found) >= len(numbers) // 8


@pytest.mark.parametrize(
    ("name", "again", "known"),
    [
        ("count", "count({part})", 14),
        pytest.param("max", "min({part})", 3, marks=pytest.mark.slow),
    ],
)
def test_a_wrong_cut_is_found(
    name: str, again: str, known: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(cut._AGAIN, name, again)
    oracle = Oracle()
    assert any(tried_staged(number, oracle)[1] for number in until_met(known))


@drawn(80)
def test_what_is_said_to_tell_rows_apart_does(numbers: range) -> None:
    oracle = Oracle()
    found = [tried_keys(number, oracle) for number in numbers]
    assert [problem for _, problem in found if problem] == []
    assert sum(keys > 0 for keys, _ in found) > len(numbers) / 4
