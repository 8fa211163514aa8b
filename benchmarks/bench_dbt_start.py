"""`dbt run` of 4 trivial models: Spark inside dbt, and the warm engine

Four models of one row each, so that the time is dbt's and Spark's own: start, parse, metadata.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from benchmarks.runner import ROOT, Bench, clock_process, median
from headwaters.dev import engine
from headwaters.project import Project


def run(bench: Bench) -> None:
    """Both targets on one small project and lake, after one run each that is not measured."""
    import os

    project = _project(bench.work / "project")
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
    finally:
        engine.stop(Project(ROOT))
    bench.record("4 models", "engine", warm.wall, warm.cpu, rows=4)


def _project(folder: Path) -> Path:
    (folder / "models" / "silver").mkdir(parents=True)
    (folder / "project_macros").symlink_to(ROOT / "project_macros")
    (folder / "profiles").symlink_to(ROOT / "profiles")
    shutil.copy(ROOT / "dbt_project.yml", folder / "dbt_project.yml")
    for name in ("a", "b", "c", "d"):
        config = "{{ config(materialized='table') }}"
        (folder / "models" / "silver" / f"{name}.sql").write_text(f"{config}\nselect 1 as id\n")
    return folder
