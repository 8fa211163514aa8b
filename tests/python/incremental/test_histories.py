"""Incremental runs leave what the models' SQL says, whatever happened to their inputs."""

from __future__ import annotations

from incremental.histories import drawn, follow
from incremental.world import World


def test_tables_equal_their_sql_after_every_run(world: World) -> None:
    """One random history, always the same; `make soak-incremental` goes through many."""
    follow(world, drawn(number=1, rounds=2))
