"""Test what a review says of a model that dbt does not build."""

from __future__ import annotations

import copy

import pytest
from dbt.exceptions import ContractError
from pages.examples import review

from headwaters.review import changes as changing
from headwaters.review.dbt_runs import BuildOutcome, told
from headwaters.review.facts import ModelReview
from headwaters.review.lint import Linted
from headwaters.review.markdown import render
from headwaters.review.models import model_of
from headwaters.review.results import Results
from headwaters.review.verdict import verdict
from review.test_changes import project

KEY = "model.p.d"


def reviewed(message: str, before: str | None = None) -> ModelReview:
    """Return the review of a model whose build failed with a message of dbt."""
    base, head = project(), copy.deepcopy(project())
    for side in (base, head):
        node = dict(side.nodes[KEY])
        side.nodes[KEY] = {**node, "fqn": ["p", "silver", "d"]}  # type: ignore[index]  # a dict
    changed = {"raw_code": "select 2 as id", "compiled_code": "select 2 as id"}
    head.nodes[KEY] = {**head.nodes[KEY], **changed}  # type: ignore[index]  # a dict
    found = changing.changes(base, head)
    results = Results(after={KEY: BuildOutcome("error", told(message), 1.0, {})}, problem="no rows")
    if before is not None:
        results.before = {KEY: BuildOutcome("error", told(before), 1.0, {})}
    return model_of(KEY, base, head, found, results, Linted({}))


def contract(*rows: tuple[str, str | None, str | None]) -> str:
    """Return dbt's message of a contract: columns with the types of the SQL and of the YAML."""
    of_yaml = [{"name": name, "data_type": kind} for name, _, kind in rows if kind]
    of_sql = [{"name": name, "data_type": kind} for name, kind, _ in rows if kind]
    return str(ContractError(of_yaml, of_sql))  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([("id", "INT", "INT"), ("credits", None, "BIGINT")], "column credits is missing"),
        (
            [("id", "INT", "BIGINT"), ("more", "STRING", None)],
            "column id is int, the contract says bigint; column more is not in the contract",
        ),
        (
            [("amount", "DECIMAL(38,2)", "DECIMAL(38,6)"), ("id", "INT", "INT")],
            "column amount is decimal(38,2), the contract says decimal(38,6)",
        ),
    ],
)
def test_a_contract_that_the_sql_breaks_names_its_columns(
    rows: list[tuple[str, str | None, str | None]], text: str
) -> None:
    message = contract(*rows)
    assert "This model has an enforced contract that failed." in message
    found = reviewed(message)
    assert [(one.kind, one.text, one.fails) for one in found.findings] == [("contract", text, True)]
    assert verdict(review(found)).text == f"breaks the contract of silver.d: {text}"


def test_the_reason_of_a_model_that_does_not_build_is_whole_in_the_comment() -> None:
    reason = (
        "[HW_ROWS_DIFFER] models/d.sql: a row of its result depends on rows of other keys, so a "
        "run would leave other rows than a full refresh: of the 1,000 rows that were compared, 12 "
        "differ, the first with the key claim_id = 17. Give the window a PARTITION BY with the "
        "unique_key, or set incremental_strategy: replace. Nothing was written."
    )
    found = reviewed(f"Runtime Error in model d (models/d.sql)\n  {reason}\n  (more in spark.log)")
    assert [(one.kind, one.text) for one in found.findings] == [
        ("build", f"does not build: {reason}")
    ]
    made = review(found)
    assert verdict(made).text == "silver.d does not build"
    assert f"- **build** `silver.d`: `does not build: {reason}`" in render(made).splitlines()


def test_what_the_base_does_not_build_either_is_no_failure_of_the_branch() -> None:
    (finding,) = reviewed("no table t", "no table t").findings
    assert (finding.fails, finding.text) == (False, "the base does not build either: no table t")
