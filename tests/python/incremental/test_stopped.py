"""Test that the run after a stop at any statement leaves the rows of the models' SQL."""

from __future__ import annotations

import pytest
from dbt.adapters.headwaters import client_rows

from incremental.world import World

# One model of each way to write; the random histories stop before any statement.
MODELS = ("latest", "linear", "sums", "totals")
CHOSEN = ("--select", *MODELS)

# The first batch changes rows of every model; the second takes it back after two such batches.
CHANGE = [
    "update {inputs}.items set val = val + 1",
    "insert into {inputs}.items (id, grp, val) select 77, 'a', 3"
    " where not exists (select 1 from {inputs}.items where id = 77)",
    "insert into {inputs}.events values (77, 99, 1, 'x'), (1, 99, 2, 'x')",
]
UNDO = [
    "update {inputs}.items set val = val - 2",
    "delete from {inputs}.items where id = 77",
    "delete from {inputs}.events where moment = 99",
]


@pytest.fixture
def world(worlds: World) -> World:
    """Return a world with these models up to date."""
    return worlds.sound(MODELS)


def before_commit(model: str, number: int, sql: str) -> bool:
    """Return whether the statement changes rows of a model's table."""
    return sql.strip().startswith(("merge into", "insert into"))


def before_watermark(model: str, number: int, sql: str) -> bool:
    """Return whether the statement notes that a model's table has applied the pending versions."""
    return "'headwaters.pending' = 'null'" in sql


def test_stopped_runs_and_a_source_that_takes_its_change_back(world: World) -> None:
    """Stop two runs, one before its commit and one between its commit and its note."""
    for stop in (before_commit, before_watermark):
        for statement in CHANGE:
            world.change(statement)
        stopped = world.run(*CHOSEN, stop=stop, expect=False)
        assert "stopped by the test" in world.answers(stopped)["sums"]
        world.story.append(f"(stopped by {stop.__name__})")
    for statement in UNDO:
        world.change(statement)
    world.run(*CHOSEN)
    world.check(*MODELS)


@pytest.mark.slow
def test_change_sets_that_turn_out_to_be_large_take_a_staging_table(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_rows, "MOST_ROWS", 1)
    for statement in CHANGE:
        world.change(statement)
    world.run(*CHOSEN)
    world.check(*MODELS)
    staged = {
        model
        for model, statements in world.statements.items()
        if any(sql.startswith(f"create table {world.schema}.{model}__stage") for sql in statements)
    }
    assert staged == set(MODELS)
    left = (
        "show tables in {schema} like '*__stage_*'",
        "show views in global_temp like '*__stage_*'",
    )
    assert [world.sql(statement) for statement in left] == [[], []]
