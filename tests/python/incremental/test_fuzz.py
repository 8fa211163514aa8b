"""Play random histories: every run leaves the table that a full refresh would have left.

`make soak-incremental` plays 1,000 of them, `python -m incremental.fuzz --only 7` one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from incremental.fuzz.draw import drawn
from incremental.fuzz.history import Change, History, Model, Step
from incremental.fuzz.lot import Course, Lot
from incremental.fuzz.shrink import smaller

SEED = 1


def test_a_seed_and_a_number_draw_the_same_history_again() -> None:
    histories = [drawn(SEED, number, 4) for number in range(50)]
    assert histories == [drawn(SEED, number, 4) for number in range(50)]
    assert len({history.script() for history in histories}) == 50


def test_a_smaller_history_is_smaller_and_reads_no_table_that_it_lacks() -> None:
    for number in range(50):
        history = drawn(SEED, number, 4)
        for less in smaller(history):
            assert len(less.script()) < len(history.script())
            names = {model.name for model in less.models}
            names |= {change.text.split("[")[1][0] for change in less.tables}
            assert {read for model in less.models for read in model.reads.values()} <= names


ROWS = History(
    tables=(
        Change(
            "create table [t] using delta tblproperties ('delta.enableChangeDataFeed' = 'true')"
            " as select * from values {rows} as s (id, val)",
            ("(1, 1.5D)", "(2, -0.0D)", "(3, double('NaN'))"),
        ),
    ),
    models=(
        Model("m1", {"incremental_strategy": "auto"}, "select id, val from [t] as t", {"t": "t"}),
    ),
    steps=(Step((Change("insert into [t] values {rows}", ("(4, null)", "(5, 0.0D)")),)),),
)

FEED = "tblproperties ('delta.enableChangeDataFeed' = 'true')"
OF_NOTES = Change(
    f"create table [t] using delta {FEED} as select * from values {{rows}} as s (id, note)",
    ("(1, cast(x'ff41' as string))", "(2, 'b')"),
)
PARTITIONED = {"incremental_strategy": "auto", "partition_by": "note"}
BY_GROUP = "select note, count(*) as n from [t] as t group by note"


def of_notes(model: Model, *steps: Step) -> History:
    """Return a history of one model over a table with a text that is not UTF-8."""
    return History((OF_NOTES,), (replace(model, name="m1", reads={"t": "t"}),), steps)


# Shrunk from histories that failed.
FOUND = {
    "bytes": of_notes(
        Model("", {"incremental_strategy": "auto"}, "select id, note from [t] as t", {}),
        Step(
            (
                Change("alter table [t] add columns (more string)"),
                Change("update [t] set id = id + 10 where id = 1"),
            )
        ),
    ),
    "vacuumed": of_notes(
        Model(
            "",
            {"incremental_strategy": "history", "unique_key": "id", "on_gap": "rebuild"},
            "select id, note, _image from [t] as t",
            {},
            {"t": "images({})"},
        ),
        Step((Change("vacuum [t] retain 0 hours"), Change("delete from [t] where id = 2"))),
    ),
    # found by an attack: the structs of table and rows cannot be compared
    "nested": History(
        (
            Change(
                f"create table [t] using delta {FEED} as select id, struct(id as a) as s"
                " from values {rows} as s (id)",
                ("(1)", "(2)"),
            ),
        ),
        (Model("m1", {"incremental_strategy": "auto"}, "select * from [t] as t", {"t": "t"}),),
        (
            Step(
                (
                    Change("alter table [t] add columns (s.b string)"),
                    Change("update [t] set s = named_struct('a', 5, 'b', 'x') where id = 1"),
                )
            ),
        ),
    ),
    # Delta would read other bytes back
    "partitioned": of_notes(
        Model("", {"materialized": "table", "partition_by": "note"}, "select id, note from [t]", {})
    ),
    "clustered": of_notes(
        Model("", {"incremental_strategy": "auto", "cluster_by": "note"}, BY_GROUP, {}),
        Step((), (Model("m1", PARTITIONED, BY_GROUP, {"t": "t"}),)),
    ),
}


def test_histories(spark: Any, tmp_path: Path) -> None:
    """Play four short histories, and find three whose SQL differs."""
    histories = {f"h{number}": drawn(SEED, number, 1, most_models=1) for number in range(1, 5)}
    differing = {
        "value": "select id, if(id = 5, 1.0D, val) as val from [t] as t",
        "copies": "select id, val from [t] as t union all select id, val from [t] as t",
        "type": "select id, cast(val as float) as val from [t] as t",
    }
    for name, reference in differing.items():
        histories[name] = replace(
            ROWS, models=tuple(replace(model, reference=reference) for model in ROWS.models)
        )
    courses = Lot(spark, tmp_path / "project", histories).play()
    found = {name: courses.pop(name).failure for name in differing}
    assert {name: failure.kind for name, failure in found.items() if failure} == {
        "value": "wrong",
        "copies": "wrong",
        "type": "columns",
    }
    assert not failures(courses.values())


def failures(courses: Iterable[Course]) -> str:
    """Return the scripts of the histories that failed."""
    return "\n\n".join(
        f"{course.history.script()}\n-- {course.failure}" for course in courses if course.failure
    )


@pytest.mark.slow
def test_short_histories_and_those_that_once_failed(spark: Any, tmp_path: Path) -> None:
    histories = {f"h{number}": drawn(SEED, number, 1, most_models=1) for number in range(5, 21)}
    lot = Lot(spark, tmp_path / "project", histories | FOUND)
    assert not failures(lot.play().values())


@pytest.mark.slow
@pytest.mark.parametrize("how", ["alone", "killed", "paired"])
def test_more_histories(spark: Any, tmp_path: Path, how: str) -> None:
    """Play forty that store their keys and feeds, and ten with kills or with two runs at once."""
    numbers = range(40, 80) if how == "alone" else range(80, 90)
    histories = {f"h{number}": drawn(SEED, number, 4) for number in numbers}
    lot = Lot(spark, tmp_path / "project", histories, stored=how == "alone", how=how)
    assert not failures(lot.play().values())
