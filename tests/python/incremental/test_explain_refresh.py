"""`explain_refresh` prints the plan of the next run, and whether the model's SQL is proven."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from incremental.world import HERE, World

# No rule of the analysis covers `qualify`.
PICKED = """
{{ config(incremental_strategy='affected_keys', unique_key='id') }}

select id, note from {{ affected(source('inputs', 'events'), key='id') }}
qualify row_number() over (partition by id order by moment) = 1
"""


def test_explain_refresh_tells_plan_and_proof(
    dbt: Callable[..., Any],
    fresh_world: World,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    world = fresh_world
    project = shutil.copytree(HERE / "project", tmp_path / "project")
    (project / "models" / "picked.sql").write_text(PICKED)

    def explained(model: str) -> list[str]:
        capsys.readouterr()
        arguments = ("--args", json.dumps({"model": model}))
        dbt(
            *("run-operation", "explain_refresh", *arguments),
            project_dir=project,
            schema=world.schema,
        )
        return capsys.readouterr().out.splitlines()

    world.change("insert into {inputs}.events values (4, 1, 8, 'z')")
    assert explained("latest") == [
        "world.latest (change_feed, unique_key id)",
        "  changes world_inputs.events: applied 1, newest 2, 1 commits, 1 rows waiting",
        "  proof: its SQL proves that change_feed maintains it",
        "  next run: incremental, 1 rows changed",
    ]
    assert explained("picked") == [
        "world.picked (affected_keys, unique_key id)",
        "  affected world_inputs.events by id: applied -, newest 2, not read yet",
        "  proof: [HW_NOT_UNDERSTOOD]"
        " `QUALIFY row_number() OVER (PARTITION BY id ORDER BY moment) = 1`"
        " (line 2 of the compiled SQL): qualify is not analysed. Write it in another way, or say"
        " incremental_proof: sample, which tries a thousand rows in place of a proof.",
        "  next run: replace, first run",
    ]
