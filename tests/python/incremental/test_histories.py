"""N incremental runs leave what the models' SQL says, whatever happened to their inputs."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, given, settings

from incremental.histories import follow, histories
from incremental.world import World

# A round takes seconds: a few histories, always the same, without shrinking. Each goes on where the
# one before it ended, and a failure tells the whole story. `make soak` runs hundreds.
few = settings(
    max_examples=2,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def test_tables_equal_their_sql_after_every_run(world: World) -> None:
    @few
    @given(histories(rounds=2))
    def check(history: list[list[str]]) -> None:
        follow(world, history)

    check()
