"""`dbt run` of 4 trivial models and of 50 that have nothing to do

Four models of one row each measure the time of dbt and Spark alone: start, parsing, metadata. They
run with a Spark inside dbt and with the warm engine. 50 incremental models with unchanged inputs
run on the engine: each is planned, or the findings of an earlier run still hold.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.runner import ROOT, Bench, Clock, Headline, clock_process, median
from headwaters.devkit import engine
from headwaters.platform.project import Project

COPY = (
    "{{{{ config(materialized='incremental', incremental_strategy='change_feed',"
    " unique_key='id') }}}}\nselect id from {{{{ changes(ref('{source}')) }}}}\n"
)
HEADLINES = [
    Headline(
        "50 models that have nothing to do",
        "planning each of them",
        "50 models, no changes",
        0.5,
        variant="kept",
    ),
]
NOTES = """
Goal: 50 models without changes within a second, in addition to dbt's own start.

With the findings of an earlier run, dbt sends three statements beyond its own two, which take the
engine less than two CPU seconds of the seven. The rest is dbt's: its start, its parse and its
artifacts. If dbt plans each model, it sends 104 statements.
"""


def run(bench: Bench) -> None:
    """Run both targets on one small project and lake, after one unmeasured run each."""
    import os

    four = {name: "{{ config(materialized='table') }}\nselect 1 as id\n" for name in "abcd"}
    project = _project(bench.work / "project", four)
    os.environ["HEADWATERS_LAKE"] = str(bench.work / "lake")
    command = [sys.executable, "-m", "dbt.cli.main", "--quiet", "run", "--profiles-dir", "profiles"]
    variables = {"HEADWATERS_LAKE": str(bench.work / "lake")}
    clock_process(command, project, variables)
    embedded = median(lambda: clock_process(command, project, variables))
    bench.record("4 models", "embedded", embedded.wall, embedded.cpu, rows=4)
    served = engine.start(Project(ROOT))
    try:
        command += ["--target", "engine"]
        pids = [served.pid]
        clock_process(command, project, variables, pids)
        warm = median(lambda: clock_process(command, project, variables, pids))
        bench.record("4 models", "engine", warm.wall, warm.cpu, rows=4)
        _unchanged(bench, command, variables, pids)
    finally:
        engine.stop(Project(ROOT))


def _unchanged(
    bench: Bench, command: list[str], variables: dict[str, str], pids: Sequence[int]
) -> None:
    """Run 50 models that follow one table or each other, without a change."""
    project = _project(bench.work / "unchanged", fifty_models())
    clock_process(command, project, variables, pids)
    command = [*command, "--exclude", "orders"]
    kept = project / "target" / "headwaters_unchanged.json"

    def planned() -> Clock:
        kept.unlink(missing_ok=True)
        return clock_process(command, project, variables, pids)

    planned()
    every = median(planned)
    bench.record("50 models, no changes", "planned", every.wall, every.cpu, rows=50)
    glance = median(lambda: clock_process(command, project, variables, pids))
    bench.record("50 models, no changes", "kept", glance.wall, glance.cpu, rows=50)


def fifty_models() -> dict[str, str]:
    """Return a table, and 50 models that follow it or each other, as SQL by name."""
    models = {"orders": "{{ config(materialized='table') }}\nselect id from range(100)\n"}
    for number in range(25):
        models[f"copy_{number}"] = COPY.format(source="orders")
        models[f"copy_of_{number}"] = COPY.format(source=f"copy_{number}")
    return models


def _project(folder: Path, models: dict[str, str]) -> Path:
    (folder / "models" / "silver").mkdir(parents=True)
    (folder / "project_macros").symlink_to(ROOT / "project_macros")
    (folder / "profiles").symlink_to(ROOT / "profiles")
    shutil.copy(ROOT / "dbt_project.yml", folder / "dbt_project.yml")
    for name, sql in models.items():
        (folder / "models" / "silver" / f"{name}.sql").write_text(sql)
    return folder
