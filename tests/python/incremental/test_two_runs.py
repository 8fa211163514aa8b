"""Test two runs of one model at a time, and foreign writes to its table."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import pytest
from processes import run_command

from incremental.test_stopped import CHANGE, before_commit, before_watermark
from incremental.world import World

# One appends or replaces rows by a condition, one merges.
MODELS = ("linear", "sums")
CHOSEN = ("--select", *MODELS)
NOTES = "'headwaters.pending' = '{"


@pytest.fixture
def world(worlds: World) -> World:
    """Return a world with these models up to date."""
    return worlds.sound(MODELS)


def before_note(model: str, number: int, sql: str) -> bool:
    return NOTES in sql


def other_run(world: World, model: str) -> str:
    """Run a whole dbt process on a model."""
    with world.environment():
        ran = run_command("dbt", ["run", *world.options(), "--select", model], os.environ)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def while_running(
    world: World, point: Callable[[str, int, str], bool], act: Callable[[str], object]
) -> Callable[[str, int, str], bool]:
    """Call a function at the first statement of each model that `point` matches, and continue."""
    done: set[str] = set()

    def act_once(model: str, number: int, sql: str) -> bool:
        if model not in done and point(model, number, sql):
            done.add(model)
            act(model)
        return False

    return act_once


@pytest.mark.parametrize(
    ("point", "first_wins", "models"),
    [
        pytest.param(before_commit, False, ["sums"], id="one model"),
        pytest.param(before_commit, False, MODELS, marks=pytest.mark.slow, id="before commit"),
        pytest.param(before_note, False, MODELS, marks=pytest.mark.slow, id="before note"),
        pytest.param(before_watermark, True, MODELS, marks=pytest.mark.slow, id="watermark"),
    ],
)
def test_of_two_runs_at_once_one_applies_the_changes(
    world: World,
    point: Callable[[str, int, str], bool],
    first_wins: bool,
    models: Sequence[str],
) -> None:
    chosen = ("--select", *models)
    for statement in CHANGE:
        world.change(statement)
    between = while_running(world, point, lambda model: other_run(world, model))
    ran = world.run(*chosen, "--threads", "1", stop=between, expect=first_wins)
    if not first_wins:
        for model, said in world.answers(ran).items():
            assert "came in between, so this run wrote nothing" in said, (model, said)
    world.check(*models)
    world.run(*CHOSEN)
    world.check(*MODELS)


AGAIN, OF_OTHER_KEYS = "*", "100000 + id as id, * except (id)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "rows"),
    [
        (before_commit, AGAIN),  # the run finds more rows of its keys than expected
        pytest.param(before_note, AGAIN, marks=pytest.mark.slow),
        # the next run finds a foreign commit
        pytest.param(before_commit, OF_OTHER_KEYS, marks=pytest.mark.slow, id="of other keys"),
        pytest.param(before_watermark, AGAIN, marks=pytest.mark.slow),
    ],
)
def test_rows_that_somebody_else_writes_into_a_table_do_not_stay(
    world: World, point: Callable[[str, int, str], bool], rows: str
) -> None:
    """Write before, during and after a run, and after a killed run, as if it had committed."""
    for statement in CHANGE:
        world.change(statement)

    def append(model: str) -> None:
        table = f"{world.schema}.{model}"
        world.spark.sql(f"insert into {table} select {rows} from {table}")

    world.run(*CHOSEN, "--threads", "1", stop=while_running(world, point, append))
    ran = world.run(*CHOSEN)
    world.check(*MODELS)
    if point is before_watermark or rows == OF_OTHER_KEYS:
        told = world.answers(ran)
        assert all("which is no run of its model" in said for said in told.values()), told


@pytest.mark.slow
def test_an_append_after_a_killed_run_is_not_taken_for_its_commit(world: World) -> None:
    for statement in CHANGE:
        world.change(statement)
    world.run(*CHOSEN, stop=before_commit, expect=False)
    for model in MODELS:
        world.spark.sql(
            f"insert into {world.schema}.{model} select * from {world.schema}.{model} limit 1"
        )
    told = world.answers(world.run(*CHOSEN))
    assert all("which is no run of its model" in said for said in told.values()), told
    world.check(*MODELS)
