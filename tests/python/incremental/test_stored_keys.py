"""Test keys and feeds that are stored in tables, as for many rows."""

from __future__ import annotations

import pytest

from headwaters.runs import bounds
from headwaters.runs import decisions as plan
from incremental.world import World


@pytest.mark.slow
def test_stored_keys_may_have_the_character_that_stands_for_bytes(
    worlds: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read a feed with U+FFFD once in vain; then read the stored rows without a guard."""
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
