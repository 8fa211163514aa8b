"""Test the inputs of a proof besides the SQL: expectations that drop rows, derived settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headwaters.analysis.model import Patch, derivation, helpful_declaration, patch_of, refusal_of
from headwaters.platform.problems import Problem

GRAPH: dict[str, dict[str, Any]] = {"nodes": {}, "sources": {}}
COLUMNS = {"id": "int", "val": "int", "day": "date"}
ORDERS: dict[str, Any] = {
    "text": "<orders>",
    "source": "s.orders",
    "has_feed": True,
    "columns": [SimpleNamespace(name=name, dtype=dtype) for name, dtype in COLUMNS.items()],
}
# The expression of an expectation, and the refusal's words if it drops rows.
EXPECTED = {
    "val > 0 and day is not null": "",
    "day <= current_date": "HW_NONDETERMINISTIC: `expectation: current_date`:",
    "day <= 'today'": "HW_NONDETERMINISTIC: `expectation: day <= 'today'`:",
    "val in (select val from others)": "HW_UNMARKED_INPUT: `expectation: others`",
    "total > 0": "HW_NOT_UNDERSTOOD: `expectation: total`",
}


def _expecting(expression: str, on_failure: str, **config: Any) -> dict[str, Any]:
    rule = {"name": "good", "expression": expression, "on_failure": on_failure}
    return {"unique_key": "id", "meta": {"expectations": [rule]}, **config}


@pytest.mark.parametrize("expression", EXPECTED)
def test_what_expectations_drop_is_proven_with_the_sql(expression: str) -> None:
    sql, wanted = "select id, val, day -- all\nfrom <orders> -- of them", EXPECTED[expression]
    changes = [{**ORDERS, "kind": "changes"}]
    config = _expecting(expression, "drop", incremental_strategy="change_feed")
    found = refusal_of(sql, changes, config, GRAPH, {})
    told = f"{found.code}: {found.text}" if found else ""
    assert told.startswith(wanted) and bool(told) == bool(wanted), told
    assert refusal_of(sql, changes, config | _expecting(expression, "warn"), GRAPH, {}) is None

    config = _expecting(expression, "drop", incremental_strategy="auto")
    derived = derivation(sql, [{**ORDERS, "kind": "lookup"}], config, GRAPH, {})
    if wanted:
        code = "HW_NO_SUCH_COLUMN" if expression == "total > 0" else wanted.split(":")[0]
        assert isinstance(derived, Problem) and derived.code == code
    else:
        assert not isinstance(derived, Problem) and derived["strategy"] == "change_feed"


OTHERS: dict[str, Any] = ORDERS | {"text": "<others>", "source": "s.others"}
CHOSEN = (
    "with c as (select *, row_number() over (partition by id % 10 order by {0}) as n from <others>)"
    " select o.id, c.val from <orders> o join c on c.id = o.id and c.n = 1"
)
# SQL, and the declaration that lets runs follow it.
HELPED = {
    CHOSEN.format("val"): "unique and not_null on s.others.val",
    CHOSEN.format("val, day"): "unique and not_null on s.others.val",
    CHOSEN.format("val, day, id"): None,
    "select id, val / (select sum(val) from <orders>) as share from <orders>": None,
    "select id, val from <orders>": None,
}


@pytest.mark.parametrize("sql", HELPED)
def test_the_declaration_that_helps_is_named(sql: str) -> None:
    inputs = [{**one, "kind": "lookup"} for one in (ORDERS, OTHERS) if str(one["text"]) in sql]
    assert helpful_declaration(sql, inputs, {}, GRAPH, {}) == HELPED[sql]


@pytest.mark.parametrize(
    ("sql", "allowed", "is_refused"),
    [
        ("select id, val from <orders>", "zzz", True),
        ("select id, ask_zzz(val) as v from <orders>", ["ask_zzz", "zzz"], True),
        ("select id, `ZZZ`(val) as v from <orders>", ["zzz"], False),
        ("select id, outer_one(val) as v from <orders>", ["zzz"], False),
        ("select id, val from <orders> where day < '12:30'", ["today"], False),
        ("select id, val from <orders>", ["current_date", "row_number"], False),
    ],
)
def test_a_function_that_the_sql_does_not_call_is_not_allowed(
    sql: str, allowed: str | list[str], is_refused: bool
) -> None:
    functions = {"outer_one": "zzz(x)"} if "outer_one" in sql else {}
    config = {"unique_key": "id", "allow_nondeterministic": allowed}
    problems = [
        refusal_of(
            sql,
            [{**ORDERS, "kind": "changes"}],
            config | {"incremental_strategy": "change_feed"},
            GRAPH,
            functions,
        ),
        derivation(
            sql,
            [{**ORDERS, "kind": "lookup"}],
            config | {"incremental_strategy": "auto"},
            GRAPH,
            functions,
        ),
    ]
    told = (
        "[HW_SETTING] allow_nondeterministic: the SQL calls no function 'zzz'. Remove it, or "
        "correct its name."
    )
    assert [str(one) == told for one in problems] == [is_refused] * 2, problems


def test_what_is_derived_is_proven_with_the_sums() -> None:
    sql = "select id, sum(_weight) as n from <orders> group by id"
    weight = SimpleNamespace(name="_weight", dtype="int")
    signed = [{**ORDERS, "kind": "signed", "columns": [*ORDERS["columns"], weight]}]
    config = {"incremental_strategy": "signed_sum", "unique_key": "id"}
    assert refusal_of(sql, signed, config | {"derived": {"twice": "n * 2"}}, GRAPH, {}) is None
    found = refusal_of(sql, signed, config | {"derived": {"of": "sum(n) over ()"}}, GRAPH, {})
    assert found and found.code == "HW_NOT_LINEAR" and "`derived: sum(n) OVER ()`" in found.text


def test_a_refusal_names_the_line_of_the_compiled_text() -> None:
    sql = "select id,\n rand() as r from <orders>"
    compiled = f"\n-- of the first day\n\n{sql}"
    config = {"incremental_strategy": "change_feed", "unique_key": "id"}
    changes = [{**ORDERS, "kind": "changes"}]
    for given, line in ((None, 2), (compiled, 5)):
        found = refusal_of(sql, changes, config, GRAPH, {}, given)
        assert found and f"`rand()` (line {line} of the compiled SQL)" in found.text


def test_a_condition_that_is_required_elsewhere_patches_nothing() -> None:
    def patch(sql: str) -> Patch | str | None:
        before = "with o as (select * from <orders> where val > 1) select id, day from o"
        config = {"incremental_strategy": "change_feed", "unique_key": "id"}
        old, new = (f"/* built by [] */\n{text}" for text in (before, sql))
        return patch_of(old, new, [{**ORDERS, "kind": "changes"}], config, ORDERS["columns"])

    moved = "with o as (select * from <orders>) select id, day from o where val > 1"
    assert patch(moved) is None
    assert patch(f"{moved} and id > 1") == Patch([], "(`id` > 1)", "", "added condition id > 1")
    assert patch(f"{moved} and 1 = 2") == "the condition 1 = 2 is over no column of the table"
