"""Test what a review says of an incremental run whose rows it compared with a full computation."""

from __future__ import annotations

import pytest
from pages.examples import model, review

from headwaters.review.dbt_runs import BuildOutcome
from headwaters.review.facts import Stays
from headwaters.review.markdown import render
from headwaters.review.proof import Trial, followed_of, in_groups, stays_of
from headwaters.review.run import summary
from headwaters.review.verdict import verdict
from headwaters.runs.inputs import marked

REPLACED = "replace: 28739 rows, 409.7 kB, 100 % of the affected keys"
COMPARED = (
    "compare: 10 rows differed, 0 inserted, 10 updated, 0 deleted, 1.2 kB staged, 60 % of the keys"
)
NO_EFFECT = "the changed rows have no effect on the table, so this proves little"
NOTHING = "merge: 0 inserted, 0 updated, 0 deleted, 1.1 kB staged"
MERGED = "merge: 2 inserted, 1 updated, 0 deleted, 4.1 kB staged"


def outcome(code: str, message: str, **response: int) -> BuildOutcome:
    return BuildOutcome("success", message, 1.0, {"code": code, **response})


MERGE = outcome("merge", f"{MERGED}, of 20 changed input rows", input_rows=20)


@pytest.mark.parametrize(
    ("ran", "differing", "stays"),
    [
        (MERGE, 0, Stays(MERGED, 0, 20)),
        (MERGE, 3, Stays(MERGED, 3, 20)),
        # two full computations are equal, whatever the incremental path does
        (
            outcome("replace", REPLACED),
            0,
            Stays(f"replaced, not proven: {REPLACED}", None),
        ),
        (
            outcome("compare", COMPARED, input_rows=10),
            0,
            Stays(f"computed in full, not proven: {COMPARED}", None, 10),
        ),
        (outcome("replace", REPLACED), 7, Stays(REPLACED, 7)),
        (outcome("skip", "no changes"), 0, Stays(f"no changes; {NO_EFFECT}", 0)),
        (
            outcome("merge", NOTHING, input_rows=2, rows_affected=0),
            0,
            Stays(f"{NOTHING}; {NO_EFFECT}", 0, 2),
        ),
    ],
)
def test_equal_rows_prove_a_run_that_was_incremental(
    ran: BuildOutcome, differing: int, stays: Stays
) -> None:
    assert stays_of(ran, differing) == stays


def test_a_sample_and_ties_are_named() -> None:
    how = f"{MERGED}; rows that tie in `day` may differ"
    assert stays_of(MERGE, 2, "sample", ["day"]) == Stays(how, 2, 20, "sample")


def test_a_run_that_replaced_the_table_is_no_green_proof() -> None:
    found = review(model(stays=stays_of(outcome("replace", REPLACED), 0)))
    assert verdict(found).also == ("the incremental path of gold.sessions is not proven",)
    assert f"- incremental run: `replaced, not proven: {REPLACED}`" in render(found).splitlines()


def test_the_proof_is_a_line_of_the_output() -> None:
    lines = summary(review(model(stays=stays_of(MERGE, 0)), model(stays=stays_of(MERGE, 3))))
    over = "  incremental run over 20 changed input rows: "
    assert [line for line in lines if line.startswith(" ")] == [
        f"{over}equal to a full refresh",
        f"{over}3 rows differ from a full refresh",
    ]
    lines = summary(review(model(stays=Stays("not tried: it has no inputs", None))))
    assert "  incremental run: not tried: it has no inputs" in lines


def test_a_lookup_stays_at_its_version_while_followed_inputs_move() -> None:
    parents = {"orders": "`raw`.`Orders`", "regions": "review_x__in_reference.regions"}
    followed = marked({"kind": "changes", "source": "raw.orders", "version": 1, "at": 1})
    looked_up = marked({"kind": "lookup", "source": parents["regions"], "version": 1, "at": 1})
    assert followed_of(parents, f"select * from {followed} join {looked_up}") == ["orders"]
    # an input that is also followed, and a table without a note
    again = looked_up.replace("lookup", "signed")
    assert followed_of(parents, f"from {followed} join {looked_up} join {again}") == [*parents]
    assert followed_of(parents, None) == [*parents]
    # a table that follows nothing: the run names why it replaces it
    del parents["orders"]
    assert followed_of(parents, f"from {looked_up}") == [*parents]


def test_models_that_need_one_table_at_two_versions_are_tried_apart() -> None:
    one = Trial("one", frozenset({"orders"}), frozenset({"regions"}))
    other = Trial("other", frozenset({"regions"}))
    third = Trial("third", frozenset({"orders", "customers"}))
    assert in_groups([one, other, third]) == [[one, third], [other]]
    assert in_groups([]) == []
