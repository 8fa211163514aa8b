"""Test `explain_refresh`, which prints the plan of the next run and the proof of the SQL."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from incremental.world import HERE

# No rule of the analysis covers `qualify`.
PICKED = """
{{ config(incremental_strategy='affected_keys', unique_key='id') }}

select id, note from {{ affected(source('inputs', 'events'), key='id') }}
qualify row_number() over (partition by id order by moment) = 1
"""


def test_explain_refresh_tells_plan_and_proof(
    dbt: Callable[..., Any],
    new_project: Callable[[dict[str, str]], Path],
    spark: Any,
    schema: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kept = ["dbt_project.yml", "models/inputs.yml", "models/latest.sql"]
    files = {name: (HERE / "project" / name).read_text() for name in kept}
    folder = new_project({**files, "models/picked.sql": PICKED})
    events = f"{schema}_inputs.events"
    spark.sql(f"create schema {schema}_inputs")
    spark.sql(
        f"create table {events} (id int, moment int, val int, note string) using delta"
        " tblproperties ('delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(f"insert into {events} values (1, 1, 10, 'x'), (2, 1, null, 'y')")
    dbt("run", "--select", "latest", project_dir=folder, schema=schema)

    def explained(model: str) -> list[str]:
        capsys.readouterr()
        arguments = ("--args", json.dumps({"model": model}))
        dbt("run-operation", "explain_refresh", *arguments, project_dir=folder, schema=schema)
        return capsys.readouterr().out.splitlines()

    spark.sql(f"insert into {events} values (4, 1, 8, 'z')")
    assert explained("latest") == [
        f"{schema}.latest (change_feed, unique_key id)",
        f"  changes {events}: applied 1, newest 2, 1 commits, 1 rows waiting",
        "  proof: its SQL proves that change_feed maintains it",
        "  next run: incremental, 1 rows changed",
    ]
    assert explained("picked") == [
        f"{schema}.picked (affected_keys, unique_key id)",
        f"  affected {events} by id: applied -, newest 2, not read yet",
        "  proof: [HW_NOT_UNDERSTOOD]"
        " `QUALIFY row_number() OVER (PARTITION BY id ORDER BY moment) = 1`"
        " (line 2 of the compiled SQL): qualify is not analysed. Write it in another way, or say"
        " incremental_proof: sample, which tries a thousand rows in place of a proof.",
        "  next run: replace, first run",
    ]
