"""Test `explain_refresh`, which prints the plan of the next run and the proof of the SQL."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from projects import ROOT

from headwaters.platform.project import Project
from headwaters.report import next_runs
from incremental.world import HERE

# No rule of the analysis covers `unpivot` of several columns.
PICKED = """
{{ config(incremental_strategy='affected_keys', unique_key='id') }}

select id, note from {{ affected(source('inputs', 'events'), key='id') }}
unpivot ((x, y) for n in ((moment, val)))
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
    early = "{{ config(incremental_strategy='auto') }}\nselect id from {{ ref('picked') }}"
    folder = new_project({**files, "models/picked.sql": PICKED, "models/early.sql": early})
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
        " `UNPIVOT((x, y) FOR n IN ((moment, val)))`"
        " (line 4 of the compiled SQL): unpivot is not analysed. Write it in another way, or say"
        " incremental_proof: sample, which tries a thousand rows in place of a proof.",
        "  next run: replace, first run",
    ]
    assert explained("early") == [
        f"{schema}.early (auto)",
        f"  next run: first build, once {schema}.picked exists: dbt build --select +early",
    ]


@pytest.mark.slow
def test_the_logs_tell_what_the_next_run_does(
    dbt: Callable[..., Any],
    new_project: Callable[[dict[str, str]], Path],
    spark: Any,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compare `headwaters explain` with the run after it, for a model of each kind of action."""
    strict = "{{ config(refresh='strict') }}\n"
    models = {
        "copied": "select id, val from {{ source('inputs', 'events') }}",
        "summed": "select id, sum(val) as val from {{ source('inputs', 'events') }} group by id",
        "chained": "select id, val + 1 as val from {{ ref('summed') }}",
        "named": "select id, name from {{ source('inputs', 'people') }}",
        "kept": f"{strict}select name, id from {{{{ source('inputs', 'people') }}}}",
        "still": "select owner_id, tag from {{ source('inputs', 'tags') }}",
        "later": "select id from {{ source('inputs', 'events') }}",
    }
    files = {name: (HERE / "project" / name).read_text() for name in ("dbt_project.yml",)}
    tables = "".join(f"      - name: {name}\n" for name in ("events", "people", "tags"))
    files["models/inputs.yml"] = (
        'sources:\n  - name: inputs\n    schema: "{{ target.schema }}_inputs"\n'
        f"    tables:\n{tables}"
    )
    files |= {
        f"models/{name}.sql": "{{ config(incremental_strategy='auto') }}\n" + sql
        for name, sql in models.items()
    }
    folder = new_project(files)
    inputs = f"{schema}_inputs"
    spark.sql(f"create schema {inputs}")
    feed = "using delta tblproperties ('delta.enableChangeDataFeed' = 'true')"
    for name, columns, row in (
        ("events", "id int, val int", "1, 1"),
        ("people", "id int, name string", "1, 'x'"),
        ("tags", "owner_id int, tag string", "1, 'x'"),
    ):
        spark.sql(f"create table {inputs}.{name} ({columns}) {feed}")
        spark.sql(f"insert into {inputs}.{name} values ({row})")
    monkeypatch.setenv("HEADWATERS_SCHEMA", schema)
    project = Project(folder, ROOT / "profiles", "engine")

    def told(*select: str) -> dict[str, tuple[str, str]]:
        runs = next_runs.explain(project, select, ())
        return {run.name: (run.action, run.reason) for run in runs}

    assert told("named", "kept") == dict.fromkeys(("named", "kept"), ("first build", "first run"))
    dbt("run", "--exclude", "later", project_dir=folder, schema=schema)
    spark.sql(f"insert into {inputs}.events values (2, 5), (1, 7)")
    spark.sql(f"create or replace table {inputs}.people {feed} as select 1L as id, 'x' as name")
    gap = f"{inputs}.people was replaced by a table of other columns"
    assert told() == {
        "copied": ("append", "2 rows changed"),
        "summed": ("merge", "2 rows changed"),
        "chained": ("follow", "after summed"),
        "named": ("replace", gap),
        "kept": ("refused", f"refresh is strict: {gap}"),
        "still": ("no changes", "no changes"),
        "later": ("first build", "first run"),
    }
    result = dbt("run", project_dir=folder, schema=schema, expect=None).result
    ran = {one.node.name: one.adapter_response.get("code") for one in result.results}
    assert ran == {
        "copied": "append",
        "summed": "merge",
        "chained": "merge",
        "named": "replace",
        "kept": None,
        "still": "skip",
        "later": "replace",
    }
    messages = {one.node.name: one.message for one in result.results}
    assert gap in messages["named"]
    assert "HW_STRICT" in messages["kept"]
    assert set(told().values()) == {
        ("no changes", "no changes"),
        ("refused", f"refresh is strict: {gap}"),
    }
