"""Test that an operation starts only with the arguments that its YAML declares."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwaters.platform.arguments import check_arguments, predicate_problem
from headwaters.platform.errors import UserError

DECLARED: dict[str, str | None] = {
    "table": "string",
    "version": "optional[int]",
    "timestamp": "optional[string]",
    "reason": "optional[string]",
    "dry_run": "bool",
    "allow_all": "bool",
    "select": "any",
    "keep": "list[string]",
    "predicate": "string",
    "of_yesterday": None,
}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"dry_run": 0}, "dry_run is 0: it must be true or false, without quotes"),
        ({"dry_run": None}, "dry_run is empty: give it a value, or leave it out"),
        ({"dry_run": "false"}, "dry_run is 'false': it must be true or false"),
        ({"dry_run": "no"}, "dry_run is 'no': it must be true or false"),
        ({"dry_run": []}, "dry_run is []: it must be true or false"),
        ({"allow_all": 1}, "allow_all is 1: it must be true or false"),
        ({"version": "17"}, "version is '17': it must be a whole number"),
        ({"version": True}, "version is true: it must be a whole number"),
        ({"version": 1.5}, "version is 1.5: it must be a whole number"),
        ({"table": 7}, "table is 7: it must be a text: write it in quotes"),
        ({"table": "  "}, "table is '  ': give it a value, or leave it out"),
        ({"select": ""}, "select is '': give it a value, or leave it out"),
        ({"select": []}, "select is []: give it a value, or leave it out"),
        ({"select": {"a": 1}}, "select is {'a': 1}: it must be a name or a list of names"),
        ({"select": ["gold", None]}, "it must be a name or a list of names"),
        ({"select": None}, "select is empty: give it a value, or leave it out"),
        ({"keep": "abc"}, "keep is 'abc': it must be a list, [a, b]"),
        ({"keep": [1]}, "keep is [1]: it must be a text"),
        ({"of_yesterday": None}, "of_yesterday is empty"),
        ({"tabel": "x"}, "there is no argument 'tabel', did you mean 'table'?"),
        ({"zzz\n": "x"}, r"there is no argument 'zzz\n'. Arguments: table, version"),
        ({7: "x"}, "there is no argument 7."),
        ([1], "--args is [1]: write a mapping"),
        ("table", "--args is 'table': write a mapping"),
    ],
)
def test_an_argument_that_is_not_what_is_declared_is_named(given: Any, words: str) -> None:
    with pytest.raises(UserError) as raised:
        check_arguments("restore", DECLARED, given)
    said = str(raised.value)
    assert said.startswith("[HW_ARGUMENT] restore: ") and words in said and "\n" not in said


def test_what_is_declared_passes() -> None:
    import datetime

    moment = datetime.datetime(2026, 1, 31)
    for right in (
        None,
        {},
        {"table": "a'b; `c`\n{{ d }}", "version": 0, "timestamp": moment, "dry_run": False},
        {"select": "gold silver", "keep": [], "of_yesterday": 3, "reason": "it's; why"},
        {"select": ["gold", "silver_orders"], "predicate": "id = 1"},
    ):
        check_arguments("restore", DECLARED, right)


@pytest.mark.parametrize(
    ("predicate", "problem"),
    [
        ("id = 1; drop table x", "without ';'"),
        ("id = 1 -- and", "has no comments"),
        ("id = 1 /* and */", "has no comments"),
        ("id = 1) or (true", "brackets do not match"),
        ("id in (1, 2", "brackets do not match"),
        ("id = ')'' or (", "a ' is not closed"),
        ("`id = 1", "a ` is not closed"),
        ("id in (select id from x)", "without a subquery"),
        ("id = (SELECT(max(id)) from x)", "without a subquery"),
        ("exists ((\n  with a as (select 1) select 1))", "without a subquery"),
        ("id in (values (1))", "without a subquery"),
        ("id in (table x)", "without a subquery"),
        ("id in (from x select id)", "without a subquery"),
        ("RAND () < 0.5", "RAND() takes other rows each time"),
        ("id = 1 or uuid() > 'a'", "uuid() takes other rows each time"),
        (r"name = r'\' or id in (select 1) or name = '\'", "without a subquery"),
    ],
)
def test_a_predicate_is_one_condition_over_a_row(predicate: str, problem: str) -> None:
    assert problem in str(predicate_problem(predicate))


@pytest.mark.parametrize(
    "predicate",
    [
        "id = 1",
        "name = 'it''s; (select -- /*' and `a;``(b` > 0",
        r"name = 'a\'(; select' or (id between 1 and 2)",
        "extract(year from day) = 2026 and trim(both 'x' from name) in ('select', 'a')",
        "selected and (valuesof > 3) and map('a', 1)['a'] = 1",
        "day = date'2026-01-01' and uuid = 'rand()'",
    ],
)
def test_what_looks_like_sql_within_a_text_is_a_text(predicate: str) -> None:
    assert predicate_problem(predicate) is None


@given(st.text())
def test_any_text_is_a_literal_or_refused(text: str) -> None:
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    assert predicate_problem(f"name = '{quoted}'") is None
    predicate_problem(text)
