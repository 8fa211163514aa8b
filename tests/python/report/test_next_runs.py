"""Test the order, the chain and the costs of next runs, over made plans and a made lake."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from ingestion import bare_project
from rich.console import Console
from typer.testing import CliRunner

from headwaters import cli
from headwaters.platform.errors import UserError
from headwaters.report import next_runs
from headwaters.report.next_runs import ExplainedRun, PredictedCost, explained, without_plan
from headwaters.tables.delta_log import state
from report.small import SmallLake, ago, size


def model(name: str, *reads: str, materialized: str = "incremental", **config: Any) -> Any:
    node: dict[str, Any] = {"name": name, "schema": "gold", "alias": name, "language": "sql"}
    node["config"] = {"materialized": materialized, **config}
    return node | {"depends_on": {"nodes": list(reads)}}


def plan(action: str, reason: str = "why", **facts: Any) -> dict[str, Any]:
    return {"action": action, "reason": reason, "strategy": "change_feed", "pending": [], **facts}


MODELS = {
    "z": model("orders", "seed"),
    "v": model("seen", "z", materialized="view"),
    "e": model("inlined", "v", materialized="ephemeral"),
    "a": model("totals", "e", "v"),
    "b": model("others", "seed"),
    "c": model("last", "a", "b"),
}
PLANS = {
    "z": plan("append"),
    "v": {"action": "view", "reason": "its rows are computed when it is read"},
    "a": plan("no changes"),
    "b": plan("no changes"),
    "c": plan("merge"),
}


def test_a_model_says_which_runs_before_it_change_its_inputs() -> None:
    runs = explained(MODELS, PLANS, lambda table: None)
    assert [(run.name, run.action, run.reason, run.after) for run in runs.values()] == [
        ("others", "no changes", "why", ()),
        ("orders", "append", "why", ()),
        ("seen", "view", "its rows are computed when it is read", ("orders",)),
        ("totals", "follow", "after orders", ("orders",)),
        ("last", "merge", "why; more after totals", ("totals",)),
    ]


def test_a_seed_that_will_be_loaded_moves_the_models_below_it() -> None:
    seed = {"s": model("names", materialized="seed")}
    models = {"a": model("totals", "s"), "b": model("others")}
    plans = {"s": plan("load"), "a": plan("no changes"), "b": plan("no changes")}
    runs = explained(models, plans, lambda table: None, seed)
    assert [(run.name, run.action, run.reason) for run in runs.values()] == [
        ("names", "load", "why"),
        ("others", "no changes", "why"),
        ("totals", "follow", "after names"),
    ]
    assert runs["s"].cost == PredictedCost()


def test_a_seed_that_is_a_lookup_will_compute_the_whole_table() -> None:
    seeds = {"s": model("names", materialized="seed")}
    plans = {"s": plan("load"), "a": plan("no changes", lookups=["`gold`.`names`"])}
    runs = explained({"a": model("totals", "s")}, plans, lambda table: None, seeds)
    assert runs["a"].action == "follow"
    assert runs["a"].reason == (
        "after names; if rows of the lookup names change, the whole table is computed"
    )


@pytest.mark.parametrize("action", ["no changes", "refused"])
def test_a_run_that_changes_no_rows_moves_nothing_after_it(action: str) -> None:
    runs = explained(MODELS, {**PLANS, "z": plan(action)}, lambda table: None)
    assert runs["a"].after == ()
    assert runs["a"].action == "no changes"


def test_costs_are_those_of_the_pending_commits_or_of_whole_tables(tmp_path: Path) -> None:
    lake = SmallLake(tmp_path)
    lake.write("raw.orders", {"n": [1, 2, 3]}, ago(hours=3))
    before = size(lake.folder("raw.orders"))
    lake.write("raw.orders", {"n": [4, 5]}, ago(hours=2))
    lake.write("gold.orders", {"n": [1, 2, 3]}, ago(hours=1))
    whole, own = (size(lake.folder(name)) for name in ("raw.orders", "gold.orders"))

    def explained_one(planned: dict[str, Any]) -> tuple[int | None, int | None, PredictedCost]:
        states = {name: state(lake.folder(name)) for name in ("raw.orders", "gold.orders")}
        run = explained({"m": model("orders")}, {"m": planned}, states.get)["m"]
        return run.changed_rows, run.table_rows, run.cost

    pending = [{"source": "raw.orders", "applied": 0, "newest": 1, "rows": 2}]
    facts: dict[str, Any] = {"reads": ["raw.orders"], "rows": 2}
    assert explained_one(plan("append", pending=pending, **facts)) == (
        *(2, 3),
        PredictedCost(2, whole - before, None),
    )
    assert explained_one(plan("replace", pending=pending, is_whole=True, **facts)) == (
        *(2, 3),
        PredictedCost(5, whole, own),
    )
    assert explained_one(plan("no changes", rows=0, reads=["raw.orders"])) == (
        0,
        3,
        PredictedCost(),
    )
    uncounted = [pending[0] | {"rows": None}]
    assert explained_one(plan("merge", pending=uncounted, **facts))[0] is None
    assert explained_one(plan("first build", is_whole=True, reads=[]))[2] == PredictedCost()
    missing = plan("first build", is_whole=True, reads=["raw.orders", "raw.other"])
    assert explained_one(missing)[2] == PredictedCost(None, None, None)


def test_the_models_that_no_strategy_maintains() -> None:
    models = {
        "t": model("t", materialized="table"),
        "v": model("v", materialized="view"),
        "d": model("d", incremental_strategy="merge"),
        "p": model("p", incremental_strategy="auto") | {"language": "python"},
        "r": model("r", incremental_strategy="auto"),
        "e": model("e", materialized="ephemeral"),
        "a": model("a", incremental_strategy="auto"),
    }
    assert without_plan(models, {"r": "it asks Spark"}) == {
        "t": {"action": "replace", "reason": "materialized: table"},
        "v": {"action": "view", "reason": "its rows are computed when it is read"},
        "d": {"action": "unknown", "reason": "merge is dbt's own strategy"},
        "p": {"action": "replace", "reason": "no rule says what Python code reads"},
        "r": {"action": "unknown", "reason": "it asks Spark"},
    }


RUNS = [
    ExplainedRun(
        *("orders", "gold.orders", "change_feed", "append", "1,200 rows changed", (), 1200, 9000),
        PredictedCost(1200, 14_000, None),
    ),
    ExplainedRun(
        "n" * 90, "t", "auto", "refused", "refresh is strict", (), None, None, PredictedCost()
    ),
]


def test_a_line_for_each_model_and_whole_names_in_a_pipe() -> None:
    out = io.StringIO()
    next_runs.show(RUNS, Console(file=out, width=60))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert [line.split() for line in lines] == [
        ["model", "next", "run", "changed", "reads", "writes", "rows", "why"],
        ["orders", "append", "1,200", "14.0", "kB", "9,000", "1,200", "rows", "changed"],
        ["n" * 90, "refused", "refresh", "is", "strict"],
    ]
    assert json.loads(next_runs.as_json(RUNS))[0] == {
        "name": "orders",
        "table": "gold.orders",
        "strategy": "change_feed",
        "action": "append",
        "reason": "1,200 rows changed",
        "after": [],
        "changed_rows": 1200,
        "table_rows": 9000,
        "cost": {"reads_rows": 1200, "reads_bytes": 14_000, "writes_bytes": None},
        "may_replace": False,
    }
    assert (next_runs.refused(RUNS), next_runs.refused(RUNS[:1])) == (True, False)


def test_a_selection_without_a_model_is_one_line(tmp_path: Path) -> None:
    project = bare_project(tmp_path)
    (tmp_path / "models").mkdir(exist_ok=True)
    (tmp_path / "models" / "orders.sql").write_text("select 1 as id")
    with pytest.raises(UserError) as caught:
        next_runs.explain(project, ["ordrs"], [])
    assert str(caught.value) == "[HW_NO_SUCH_MODEL] no model in ordrs, did you mean 'orders'"


def test_tables_elsewhere_are_one_line(tmp_path: Path) -> None:
    project = bare_project(tmp_path)
    profile = (tmp_path / "profiles.yml").read_text()
    place = "server_side_parameters: {spark.sql.warehouse.dir: hdfs://lake/warehouse}"
    (tmp_path / "profiles.yml").write_text(profile.replace("lake: lake", f"lake: lake, {place}"))
    with pytest.raises(UserError) as caught:
        next_runs.explain(project, [], [])
    assert str(caught.value) == (
        "[HW_TABLES_ELSEWHERE] explain reads the logs of tables, and the target dev has its tables "
        "in hdfs://lake/warehouse: put the `lake` of that Spark into the target, choose another "
        "target with --target, or run `dbt run-operation explain_refresh`, which asks Spark for "
        "one model"
    )


def test_the_command_explains_a_project_without_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = SmallLake(tmp_path)
    orders = lake.write("raw.orders", {"id": [1, 2, 3], "n": [4, 5, 6]}, ago(hours=3))
    lake.set("raw.orders", ago(hours=2), delta__enableChangeDataFeed="true")
    models = tmp_path / "models"
    models.mkdir()
    (models / "raw.yml").write_text("sources: [{name: raw, tables: [{name: orders}]}]\n")
    incremental = "{{ config(materialized='incremental', incremental_strategy='auto') }}\n"
    (tmp_path / "seeds").mkdir()
    (tmp_path / "seeds" / "names.csv").write_text("id,name\n1,x\n")
    for name, sql in {
        "copied": incremental + "select id, n from {{ source('raw', 'orders') }}",
        "drawn": incremental + "select id, rand() as n from {{ source('raw', 'orders') }}",
        "later": incremental + "select id from {{ ref('copied') }}",
        "whole": "{{ config(materialized='table') }}\nselect id from {{ ref('copied') }}",
    }.items():
        (models / f"{name}.sql").write_text(sql)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADWATERS_LAKE", raising=False)
    for name, folder in {"PATH": "bin", "JAVA_HOME": "bin", "DBT_LOG_PATH": "logs"}.items():
        monkeypatch.setenv(name, str(tmp_path / folder))

    def ran(*options: str) -> tuple[int, list[list[str]]]:
        done = CliRunner().invoke(cli.app, ["explain", "--check", *options])
        return done.exit_code, [line.split() for line in done.stdout.splitlines()]

    title = ["model", "next", "run", "changed", "reads", "writes", "rows", "why"]
    read = ["first", "build", str(size(orders)), "Bytes", "first", "run"]
    code, lines = ran("--exclude", "drawn")
    assert (code, lines) == (
        0,
        [
            title,
            ["copied", *read],
            ["names", "load", "first", "load"],
            ["later", "first", "build", "first", "run"],
            ["whole", "replace", "materialized:", "table"],
        ],
    )
    code, lines = ran("--select", "drawn")
    assert (code, lines[0]) == (1, title)
    assert lines[1][:3] == ["drawn", "refused", "[HW_NONDETERMINISTIC]"]
