"""Test two runs of one model at a time, of the strategies that test_two_runs.py leaves out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from incremental.test_stopped import CHANGE, before_commit, before_watermark
from incremental.test_two_runs import other_run, while_running
from incremental.world import World

pytestmark = pytest.mark.slow

# The latest of a key, a key's rows, periods, rows without a key, a cut query over hidden tables.
MODELS = ("latest", "totals", "part_totals", "tracked", "tracked_anew", "auto_copies", "auto_sizes")


@pytest.mark.parametrize(
    ("point", "first_wins"), [(before_commit, False), (before_watermark, True)]
)
def test_of_two_runs_at_once_one_applies_the_changes(
    small_world: World, point: Callable[[str, int, str], bool], first_wins: bool
) -> None:
    world = small_world
    for statement in CHANGE:
        world.change(statement)
    met: set[str] = set()

    def other(model: str) -> None:
        met.add(model)
        other_run(world, model)

    between = while_running(world, point, other)
    ran = world.run("--threads", "1", stop=between, expect=first_wins or None)
    assert met == {*MODELS} - {"tracked_anew"}
    if not first_wins:
        said = world.answers(ran)
        assert [m for m in met if "came in between, so this run wrote nothing" not in said[m]] == []
    world.check()
    world.run()
    world.check()
