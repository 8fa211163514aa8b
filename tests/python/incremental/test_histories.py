"""Incremental runs leave what the models' SQL says, whatever happened to their inputs."""

from __future__ import annotations

from incremental.histories import drawn, follow
from incremental.world import World

# A sum, the latest of a key, single rows, and rows of a key of one and of two inputs.
MODELS = ("latest", "linear", "people_totals", "sums", "totals")


def test_tables_equal_their_sql_after_every_run(worlds: World) -> None:
    """One random history, always the same; `make soak-incremental` goes through many."""
    follow(worlds.sound(MODELS), drawn(number=1, rounds=2), MODELS)
