"""Test the first line of a review, for each verdict."""

from __future__ import annotations

import pytest

from headwaters.review.facts import ComparedColumn, Difference, Finding, ModelReview, Stays
from headwaters.review.verdict import Verdict, verdict
from pages.examples import model, review

CONTRACT = Finding("contract", "amount is double", True)


def differs(
    name: str = "sessions", added: int = 0, removed: int = 0, changed: int = 0
) -> ModelReview:
    columns = (
        ComparedColumn("a", "int", "int", changed),
        ComparedColumn("b", "int", "int", min(changed, 1)),
    )
    difference = Difference(1_000, 1_000 + added - removed, added, removed, changed, by_key=True)
    return model(name, columns=columns, difference=difference)


CASES: list[tuple[str, list[ModelReview], Verdict]] = [
    ("nothing", [], Verdict("nothing", "no model changes")),
    (
        "a source that is read in another way",
        [model(difference=None, not_compared=("raw.a is read in another way",))],
        Verdict("unknown", "raw.a is read in another way"),
    ),
    (
        "nothing differs in what was compared",
        [model(), model("raw", difference=None, not_compared=("raw.a is read in another way",))],
        Verdict("unknown", "refactoring: 0 of 329 rows differ", ("raw.a is read in another way",)),
    ),
    (
        "refactoring",
        [
            model(difference=Difference(1_840_000, 1_840_000, 0, 0, 0, by_key=True)),
            model("b", causes=("upstream",), difference=Difference(211, 211, 0, 0, 0, by_key=True)),
        ],
        Verdict("same", "refactoring: 0 of 1,840,211 rows differ"),
    ),
    (
        "properties only",
        [model(causes=("properties",))],
        Verdict("same", "0 of 329 rows differ"),
    ),
    (
        "no rows asked",
        [model(causes=("properties",), difference=None)],
        Verdict("same", "no row was computed: what changed does not reach the rows"),
    ),
    (
        "changed",
        [differs(changed=312)],
        Verdict("differs", "312 rows change in 2 columns of gold.sessions"),
    ),
    (
        "one",
        [
            model(
                difference=Difference(9, 9, 0, 0, 1, True),
                columns=(ComparedColumn("a", "int", "int", 1),),
            )
        ],
        Verdict("differs", "1 row changes in 1 column of gold.sessions"),
    ),
    (
        "all three",
        [differs(added=12, removed=1, changed=312)],
        Verdict(
            "differs",
            "312 rows change in 2 columns of gold.sessions, 12 are added, 1 is removed",
        ),
    ),
    (
        "without a key",
        [model(difference=Difference(9, 9, 3, 3, 0, by_key=False))],
        Verdict("differs", "3 rows are added, 3 are removed in gold.sessions"),
    ),
    (
        "several tables",
        [differs("a", changed=1), differs("b", changed=2), model("c")],
        Verdict("differs", "3 rows change in 4 columns of gold.a and gold.b"),
    ),
    (
        "the edited model before those downstream",
        [
            model(
                name,
                causes=("text",) if name == "c" else ("upstream",),
                difference=Difference(9, 9, 0, 0, 1, True),
            )
            for name in "abcd"
        ],
        Verdict("differs", "4 rows change in gold.c, gold.a and 2 more"),
    ),
    (
        "last digits of sums",
        [model(difference=Difference(60, 60, 0, 0, 0, True, rounded=31))],
        Verdict(
            "same",
            "refactoring: 0 of 60 rows differ",
            ("31 rows differ only in the last digits of floating-point numbers",),
        ),
    ),
    (
        "a model that does not build",
        [model(difference=None, why_not="…", findings=(Finding("build", "no column a", True),))],
        Verdict(
            "broken",
            "gold.sessions does not build",
            ("the rows of gold.sessions could not be compared",),
        ),
    ),
    (
        "a model that leaves incremental maintenance",
        [model(findings=(Finding("maintenance", "leaves incremental maintenance: …", False),))],
        Verdict("differs", "gold.sessions leaves incremental maintenance"),
    ),
    (
        "an incremental path that was not tried",
        [model(stays=Stays("not tried: it has no inputs", None))],
        Verdict(
            "same",
            "refactoring: 0 of 329 rows differ",
            ("the incremental path of gold.sessions is not proven",),
        ),
    ),
    (
        "a sample",
        [model(difference=Difference(9, 9, 0, 2, 0, True, extent="sample"))],
        Verdict("differs", "in a sample, 2 rows are removed in gold.sessions"),
    ),
    (
        "a sample that is equal",
        [model(difference=Difference(9, 9, 0, 0, 0, True, extent="sample"))],
        Verdict("same", "refactoring: in a sample, 0 of 9 rows differ"),
    ),
    (
        "contract, before what differs",
        [differs(changed=312), model("b", findings=(CONTRACT, CONTRACT))],
        Verdict(
            "broken",
            "breaks the contract of gold.b: amount is double",
            ("312 rows change in 2 columns of gold.sessions",),
        ),
    ),
    (
        "many contracts",
        [model(name, findings=(CONTRACT,)) for name in "abcd"],
        Verdict("broken", "breaks the contracts of gold.a, gold.b and 2 more"),
    ),
    (
        "policy",
        [model(findings=(Finding("property", "no owner", True),))],
        Verdict("broken", "breaks the policy of gold.sessions: no owner"),
    ),
    (
        "proof",
        [model(stays=Stays("3 commits", 12, 40))],
        Verdict(
            "broken",
            "gold.sessions does not stay right: an incremental run and a full refresh differ in "
            "12 rows",
        ),
    ),
    (
        "tests",
        [model(findings=(Finding("test", "a", True), Finding("test", "b", True)))],
        Verdict("broken", "2 tests of gold.sessions fail"),
    ),
    (
        "findings that do not fail",
        [model(findings=(Finding("lint", "a", False), Finding("test", "b", False)))],
        Verdict("same", "refactoring: 0 of 329 rows differ"),
    ),
    (
        "columns",
        [
            model(
                columns=(
                    ComparedColumn("a", None, "int"),
                    ComparedColumn("b", "int", None),
                    ComparedColumn("c", "int", "bigint"),
                )
            )
        ],
        Verdict(
            "differs",
            "1 column is added to gold.sessions",
            (
                "1 column is removed from gold.sessions",
                "1 column of gold.sessions changes its type",
            ),
        ),
    ),
    (
        "a new model's rows are no difference",
        [
            model("new", causes=("added",), difference=Difference(0, 9, 9, 0, 0, True)),
            model("old", causes=("removed",), difference=None),
        ],
        Verdict("differs", "gold.new is added with 9 rows", ("gold.old is removed",)),
    ),
    (
        "the proof in a sample",
        [model(stays=Stays("merge", 2, 9, "sample"))],
        Verdict(
            "broken",
            "gold.sessions does not stay right: an incremental run and a full refresh differ in "
            "2 rows of a sample",
        ),
    ),
    (
        "not compared",
        [model(difference=None, why_not="production has no such table")],
        Verdict("unknown", "the rows of gold.sessions could not be compared"),
    ),
    (
        "some not compared",
        [model(), model("b", difference=None, why_not="gone")],
        Verdict(
            "unknown",
            "refactoring: 0 of 329 rows differ",
            ("the rows of gold.b could not be compared",),
        ),
    ),
]


@pytest.mark.parametrize(
    ("models", "expected"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_the_verdict(models: list[ModelReview], expected: Verdict) -> None:
    assert verdict(review(*models)) == expected


def test_only_what_is_broken_fails() -> None:
    fails = {
        verdict(review(*models)).kind: verdict(review(*models)).fails for _, models, _ in CASES
    }
    assert fails == {
        "nothing": False,
        "same": False,
        "differs": False,
        "broken": True,
        "unknown": False,
    }


def test_a_project_that_does_not_parse_has_this_one_line() -> None:
    reason = "models/a.yml: a value is missing"
    assert verdict(review(does_not_parse=reason)) == Verdict(
        "broken", f"the project does not parse: {reason}"
    )


def test_changes_outside_of_tables_take_the_green_sign_away() -> None:
    rest = ("exposure board is removed", "not reviewed: macros/a.sql")
    assert verdict(review(not_compared=rest)) == Verdict(
        "unknown", rest[0], (rest[1], "no model changes")
    )
    assert verdict(review(model(), not_compared=rest)).kind == "unknown"
    changed = verdict(review(differs(changed=1), not_compared=rest))
    assert (changed.kind, changed.also[-2:]) == ("differs", rest)
