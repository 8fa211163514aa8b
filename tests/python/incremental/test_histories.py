"""Incremental runs leave what the models' SQL says, whatever happened to their inputs."""

from __future__ import annotations

import pytest

from headwaters.runs import bounds
from headwaters.runs import decisions as plan
from incremental.histories import drawn, follow
from incremental.world import World

# A sum, the latest of a key, single rows, and rows of a key of one and of two inputs.
MODELS = ("latest", "linear", "people_totals", "sums", "totals")


@pytest.mark.parametrize("rounds", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_tables_equal_their_sql_after_every_run(worlds: World, rounds: int) -> None:
    """One random history, always the same; `make soak-incremental` goes through many."""
    models = MODELS if rounds == 1 else worlds.models
    follow(worlds.sound(models), drawn(number=1, rounds=rounds), models)


@pytest.mark.parametrize("rounds", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_so_they_do_where_keys_feeds_and_sums_are_stored(
    worlds: World, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    """A history of few rows as one of more: none of them is a literal."""
    monkeypatch.setattr(plan, "ROWS_WORTH_STORING", 0)
    monkeypatch.setattr(bounds, "MOST_VALUES", 0)
    models = MODELS if rounds == 1 else worlds.models
    follow(worlds.sound(models), drawn(number=2, rounds=rounds), models)


def test_stored_keys_may_have_the_character_that_stands_for_bytes(
    worlds: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A feed with U+FFFD is read once in vain; what is stored after that, without a guard."""
    monkeypatch.setattr(plan, "ROWS_WORTH_STORING", 0)
    monkeypatch.setattr(bounds, "MOST_VALUES", 0)
    models = ["tag_latest", "tag_totals"]
    world = worlds.sound(models)
    world.change("delete from {inputs}.marks where id = 1")  # its tag is not UTF-8
    world.run("--select", *models)
    world.change("insert into {inputs}.marks values (9, '\ufffd', x'01', null, 1)")
    world.change("update {inputs}.marks set val = val + 1 where tag = '\ufffd'")
    answers = world.answers(world.run("--select", *models))
    assert all(answer.startswith("append: 1 inserted") for answer in answers.values()), answers
    world.check(*models)
