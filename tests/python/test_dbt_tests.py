"""Test the page of dbt's published tests, and the translation of their texts for Spark."""

from __future__ import annotations

import pytest

from tests.adapter.page import PAGE, RECORD, page
from tests.adapter.record import message_of, read
from tests.adapter.spark import statements_for_spark, text_for_spark


def test_the_page_shows_the_record() -> None:
    assert PAGE.read_text() == page(read(RECORD)), "run tests/adapter/page.py"


def test_a_page_counts_results_and_gives_each_reason_once() -> None:
    reason = "Spark has no | of this kind."
    record = {
        "hooks::TestA::test_a": {"result": "passed", "reason": ""},
        "hooks::TestA::test_b": {"result": "failed", "reason": "one\n  line"},
        "hooks::TestB::test_a": {"result": "not applicable", "reason": reason},
        "hooks::TestB::test_b": {"result": "not applicable", "reason": reason},
        "empty::TestC::test_a": {"result": "not run", "reason": ""},
    }
    results = page(record).partition("## Results")[2].split("\n")
    assert [line for line in results if line] == [
        "| folder | passed | failed | not applicable | not run |",
        "|---|--:|--:|--:|--:|",
        "| empty |  |  |  | 1 |",
        "| hooks | 1 | 1 | 2 |  |",
        "| **all** | 1 | 1 | 2 | 1 |",
        "Of the 2 tests that ran and apply, 50.0 % passed.",
        "## Failed",
        "| folder | tests | reason |",
        "|---|---|---|",
        "| hooks | `TestA.test_b` | one line |",
        "## Not applicable",
        "| folder | tests | reason |",
        "|---|---|---|",
        "| hooks | `TestB.test_a`, `TestB.test_b` | Spark has no \\| of this kind. |",
    ]


def test_a_failure_is_the_first_error_of_dbt_or_the_assertion() -> None:
    output = (
        "10:02:26  1 of 1 ERROR creating sql view model s.a ... [\x1b[31mERROR\x1b[0m in 1s]\n"
        "10:02:26  \x1b[31mFailure in model a (models/a.sql)\x1b[0m\n"
        "10:02:26    Runtime Error in model a (models/a.sql)\n"
        "  [PARSE_SYNTAX_ERROR] Syntax error\n"
    )
    dbt = "x.py:3: in run_dbt\nE   AssertionError: dbt exit state did not match expected\n"
    assert message_of(dbt, output) == "[PARSE_SYNTAX_ERROR] Syntax error"
    assert message_of(dbt, "") == "dbt failed"
    assert message_of("E   assert 1 == 2\nE    +  where\n", output) == "assert 1 == 2"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select null::{{ dbt.type_int() }}", "select cast(null as {{ dbt.type_int() }})"),
        ("5.0::double precision as d", "cast(5.0 as double) as d"),
        ("'8'::varchar(20) as v", "cast('8' as string) as v"),
        ("'7'::text as t", "cast('7' as string) as t"),
        ("create table a ( db text, s text )", "create table a ( db string, s string )"),
        ("data_type: text\n", "data_type: string\n"),
        ("from {{ target.database }}.{{ target.schema }}.seed", "from {{ target.schema }}.seed"),
        ("select text from {{ ref('a') }}", "select text from {{ ref('a') }}"),
    ],
)
def test_files_of_a_project_are_translated(text: str, expected: str) -> None:
    assert text_for_spark("a.sql", text) == expected
    assert text_for_spark("a.csv", text) == text


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ('select "a" from {schema}.t', "SELECT `a` FROM s.t"),
        ("drop table {database}.{schema}.t", "DROP TABLE s.t"),
        ("create table s.t (id text)", "CREATE TABLE s.t (id STRING)"),
        (
            "alter table s.t add column x varchar(200) default null",
            "ALTER TABLE s.t ADD COLUMN x VARCHAR(200)",
        ),
        ("create table a (b int); drop table a;", "CREATE TABLE a (b INT); DROP TABLE a"),
        ("describe history `s`.t", "describe history `s`.t"),
    ],
)
def test_statements_of_a_test_are_translated(sql: str, expected: str) -> None:
    assert statements_for_spark(sql, "s") == expected.split("; ")
