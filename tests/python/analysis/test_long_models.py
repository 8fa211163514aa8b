"""Test that long models are parsed once and read a few times, even if they are cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from sqlglot import exp

from analysis.long_models import models
from headwaters.analysis import dialect
from headwaters.analysis.derive import Question, derive
from headwaters.analysis.reader import Reader
from headwaters.analysis.relations import F, Input, Relation
from headwaters.analysis.scopes import Names, Scope

LINES = 100
LONG = {kind: (sql, inputs) for kind, sql, inputs in models(LINES)}
# Strategy, the number of parsed lines for each line of the model, and how often each rule book
# reads all common table expressions.
COSTS = {
    "keyed": ("affected_keys", 1, {"Tracing": 1, "KeyedRules": 1}),
    "traced in vain": ("replace", 1, {"Tracing": 1, "KeyedRules": 3, "TracedRules": 1}),
    "cut groups": ("staged", 1, {"Tracing": 1, "TracedRules": 1, "KeyedRules": 1}),
    "cut total": ("staged", 1, {"Tracing": 1, "KeyedRules": 1}),
    "cut average": ("staged", 1, {"Tracing": 1, "KeyedRules": 1}),
    "cut deviation": ("replace", 1, {"Tracing": 1}),
}


@pytest.mark.parametrize("kind", COSTS)
def test_what_is_parsed_and_read(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sql, inputs = LONG[kind]
    assert LINES <= sql.count("\n") + 1 < LINES + 10
    read_text, queried = dialect.read, Reader._query
    lines, readings = list[int](), Counter[str]()

    def parsing(text: str) -> dialect.Text:
        lines.append(text.count("\n") + 1)
        return read_text(text)

    def querying(
        reader: Reader[F], node: exp.Expr, names: Names, outer: Scope[F] | None
    ) -> Relation[F]:
        # the first common table expression
        if isinstance(node.parent, exp.CTE) and node.parent.alias == "s0":
            readings[type(reader._rules).__name__] += 1
        return queried(reader, node, names, outer)

    monkeypatch.setattr(dialect, "read", parsing)
    monkeypatch.setattr(Reader, "_query", querying)
    found = derive(Question(sql, inputs))
    strategy, times, read = COSTS[kind]
    assert (found.strategy, sum(lines) // (LINES - 5), readings) == (strategy, times, read)


def test_a_model_of_each_kind_is_derived() -> None:
    def told(sql: str, inputs: Sequence[Input]) -> str:
        return derive(Question(sql, inputs)).strategy

    assert {kind: told(*asked) for kind, asked in LONG.items()} == {
        **{kind: strategy for kind, (strategy, _, _) in COSTS.items()},
        "union": "affected_keys",
        "cut union": "replace",
        "many cuts": "staged",
        "wide": "change_feed",
        "wide total": "replace",
    }
