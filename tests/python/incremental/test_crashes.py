"""A run that stops anywhere does no harm: the next one leaves what the models' SQL says."""

from __future__ import annotations

import pytest

from incremental.world import World

# The first lot changes rows of every model, the second takes exactly that back.
CHANGE = [
    "update {inputs}.items set val = val + 1",
    "insert into {inputs}.items (id, grp, val) values (77, 'a', 3)",
    "insert into {inputs}.events values (77, 99, 1, 'x'), (1, 99, 2, 'x')",
]
UNDO = [
    "update {inputs}.items set val = val - 1",
    "delete from {inputs}.items where id = 77",
    "delete from {inputs}.events where moment = 99",
]


def is_commit(sql: str) -> bool:
    """Whether a statement changes rows of a model's table."""
    return sql.strip().startswith(("merge into", "insert into"))


def is_watermark(sql: str) -> bool:
    """Whether a statement says that a model's table holds what was pending."""
    return "'headwaters.pending' = 'null'" in sql


MOMENTS = {"before the commit": is_commit, "before the watermark": is_watermark}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_stopped_run_and_a_source_that_takes_its_change_back(world: World, moment: str) -> None:
    for statement in CHANGE:
        world.change(statement)
    stops = MOMENTS[moment]
    stopped = world.run(stop=lambda model, number, sql: stops(sql), expect=False)
    assert "stopped by the test" in world.answers(stopped)["sums"]
    world.story.append(f"(stopped {moment})")
    for statement in UNDO:
        world.change(statement)
    world.run()
    world.check()
