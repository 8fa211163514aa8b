"""A brokerage warehouse: 49 models after two daily batches, and recomputing them all

The models are those of `tests/python/analysis/brokerage`, modelled on TPC-DI, over generated inputs
(`benchmarks/brokerage.py`): 170,000 rows at BROKERAGE_SCALE 1, and 1,200 rows for each of two
batches. `table` recomputes every model. `headwaters` is `dbt run` of the same SQL with `auto`, and
`changes applied` the same with `whole_below: 0`. `stock merge` is dbt's `merge` by the declared
keys, and recomputes models without one. `DuckDB` recomputes every model from tables in its own
database. After each batch, the benchmark compares every table with the plain one by `except all`,
both ways. A round without changes follows. BROKERAGE_MODELS selects models as dbt's `--select`
does, and BROKERAGE_VARIANTS the variants. There is one thread, so that each model's CPU is its own.
The output has each model's CPU, statements and rows read: those of the data files that Spark scans.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
from deltalake import DeltaTable

from benchmarks import rows_read
from benchmarks.brokerage import CHANGES, ROWS, generate
from benchmarks.runner import (
    ROOT,
    Bench,
    Clock,
    Headline,
    clock,
    cpu_of,
    dbt_project,
    shared_engine,
    statements_of_dbt,
)
from headwaters.platform import delta_rs

sys.path.insert(0, str(ROOT / "tests" / "python"))
from analysis import queries, warehouse  # whose models these are

SCALE = float(os.environ.get("BROKERAGE_SCALE", "1"))
MODELS = os.environ.get("BROKERAGE_MODELS", "").split()
BATCHES = int(os.environ.get("BROKERAGE_BATCHES", "2"))
SCHEMAS = {
    "table": "plain",
    "headwaters": "kept",
    "changes applied": "applied",
    "stock merge": "merged",
}
VARIANTS = os.environ.get("BROKERAGE_VARIANTS", "table,stock merge,headwaters").split(",")
FOLDER = ROOT / "tests" / "python" / "analysis" / "brokerage"
HEADLINES = [
    Headline(
        "the next day's rows in 49 models over 170,000 rows",
        "all 49 as plain tables",
        "all batches",
        1.0,
    ),
    Headline(
        "the same over 2.1 million rows",
        "all 49 as plain tables",
        "all batches, scale 17.65",
        0.6,
        settings="BROKERAGE_SCALE=17.65",
    ),
]
NOTES = """
Goals: at most the CPU of the plain tables at 170,000 rows, and 0.60 of it at three million; at most
200 statements for a batch, and no more rows read. `headwaters` took 1.04 of their CPU over 170,000
rows and 1.02 over 2.1 million (some inputs do not grow with the scale), with 45 to 55 statements,
and read 0.97 to 0.99 of their rows. All tables equalled the plain ones. In an earlier run over
170,000 rows, dbt's merges took 2.05 and 1.66 of the CPU of the two batches, and left one and two
tables wrong.

The variant that is first in a batch compiles its queries, which are much the same for the other
one: `table` was first in batch 1, `headwaters` in batch 2. So the sum of both is the fair figure.

All models with changes were computed in full, by one statement each, since they and their inputs
have fewer than two million rows. Of 24 of these models in one batch, measured by the calls of Spark
Connect, the engine used 45.9 CPU seconds: 43.9 for 75 statements and 1.5 for 45 questions for
columns. Of the statements, 24 write a table, and the others ask for settings, histories and
properties. dbt's process used 2.3. As plain tables the same models took 36.9 and 1.5, as the second
variant of that batch. The models without changes took 0.1 to 0.4 seconds, and a run without any
changes 2.3 and 4.0 seconds.

When the limit was 200,000 rows, 31 of the models over 2.1 million rows applied the changes of a
batch, by 5 to 12 statements each. They took 2.65 of the CPU of the plain tables, and read 1.85 of
their rows. `account_positions` took 38 CPU seconds, and 5.5 as a plain table; `fact_trades` 25 and
7.3, `current_accounts` 23 and 4.8, `trade_totals` 10 and 2.5. A plain table over 2.1 million rows
takes 4.3 seconds in the mean, and one over 170,000 rows 2.2 to 3.1. A run of changes takes eight at
least, so 0.60 is out of reach at this size, and computing everything is the cheaper way
(docs/decisions/0064-compute-two-million-rows-in-full.md).

A run that applies changes to such tables pays for its statements, not for rows. The first one after
the history, with 37 statements for four models (account_versions, daily_market, cash_transactions,
security_daily_returns), took 93 CPU seconds of the engine. Java's compiler had 43 of them, the
garbage collector 3.

| statements | number | CPU seconds | of them Java's compiler |
|---|--:|--:|--:|
| change sets | 4 | 52.1 | 22.6 |
| histories, with the columns that follow them | 13 | 12.1 | 6.4 |
| affected keys | 4 | 11.8 | 6.2 |
| writes: three inserts, a merge | 4 | 10.2 | 4.8 |
| notes of the run | 8 | 4.3 | 2.0 |
| properties of the table | 4 | 1.0 | 0.5 |

Of 2,800 samples of the threads besides compiler and collector, over one model, 40 % generate code,
26 of them in tasks, and 2 % run it. Analysis has 12 %, Delta 11, the Hive metastore 10, planning 5,
the optimizer 3. JFR discards compiled code when it starts, so that run cost twice as much.

Comparing two of the tables with their whole results took 43 and 38 CPU seconds after JFR; one batch
later their replacements took 19 and 20. So a run does not compare small tables.
"""
PROPERTIES = {
    "delta.enableChangeDataFeed": "true",
    "delta.enableDeletionVectors": "true",
}


@dataclass
class Model:
    """The cost of one model in one round: its message, CPU, wall seconds and statements."""

    name: str
    message: str = ""
    cpu: float = 0.0
    wall: float = 0.0
    statements: int = 0
    begun: float = 0.0
    ended: float = 0.0


@dataclass
class Round:
    """The costs of the models in one round."""

    models: dict[str, Model] = field(default_factory=dict)

    @property
    def clock(self) -> Clock:
        """Return the sums of all models."""
        models = self.models.values()
        return Clock(sum(one.wall for one in models), sum(one.cpu for one in models))

    @property
    def statements(self) -> int:
        """Return the statements of all models."""
        return sum(one.statements for one in self.models.values())


def run(bench: Bench) -> None:
    """Play the rounds, and print each model's costs beside those of its plain table."""
    rounds, read = play(bench)
    for case, took in rounds.items():
        for variant in VARIANTS[1:]:
            print(f"{case}, {variant}", flush=True)
            compare(took["table"], took[variant], read)


def play(bench: Bench) -> tuple[dict[str, dict[str, Round]], rows_read.RowsRead]:
    """Load the history, then bring each batch into the models of all projects.

    Return the costs by batch and variant, and the rows that Spark read.
    """
    inputs = bench.work / "inputs"
    rows = generate(inputs, SCALE, BATCHES)
    projects = {variant: project(bench.work / SCHEMAS[variant], variant) for variant in VARIANTS}
    events = bench.work / "events"
    rounds: dict[str, dict[str, Round]] = {}
    with shared_engine(bench, "3g", rows_read.settings(events)) as (spark, pid):
        load(spark, inputs)
        runs = Warehouse(spark, pid, projects)
        for variant in projects:
            runs.dbt("seed", variant, *(f"--select=+{name}" for name in MODELS))
            record(bench, "history", variant, runs.run(variant), rows=rows)
        for number in range(1, BATCHES + 1):
            case = f"batch {number}"
            change(spark, inputs, number)
            # the first variant of a batch compiles, so that an even number of batches is fair
            order = sorted(projects, reverse=number % 2 == 1)
            took = rounds[case] = {variant: runs.run(variant) for variant in order}
            for variant in VARIANTS[1:]:
                different = runs.differences(took["table"].models, SCHEMAS[variant])
                print(f"{case}, {variant}: {len(different)} tables differ", different, flush=True)
                assert variant == "stock merge" or not different
            for variant in projects:
                record(bench, case, variant, took[variant], rows=rows)
            recomputed = in_duckdb(bench.work / "lake", list(took["table"].models))
            bench.record(named(case), "DuckDB", recomputed.wall, recomputed.cpu, rows=rows)
        for variant in projects:
            every = (took[variant] for took in rounds.values())
            record(bench, "all batches", variant, *every, rows=rows)
        record(bench, "no changes", "headwaters", runs.run("headwaters"), rows=rows)
    return rounds, rows_read.read(events)


def record(bench: Bench, case: str, variant: str, *rounds: Round, rows: int) -> None:
    """Record the sums of one or more rounds."""
    clocks = [took.clock for took in rounds]
    wall, cpu = sum(one.wall for one in clocks), sum(one.cpu for one in clocks)
    statements = sum(took.statements for took in rounds) or None
    bench.record(named(case), variant, wall, cpu, rows=rows, statements=statements)


def named(case: str) -> str:
    """Return the name of a case at this scale."""
    return case if SCALE == 1 else f"{case}, scale {SCALE:g}"


def in_duckdb(lake: Path, models: Sequence[str]) -> Clock:
    """Recompute models in DuckDB, from the tables of the lake that no model has built."""
    with duckdb.connect() as db:
        for schema in ("main_inputs", SCHEMAS["table"]):
            for folder in (lake / "warehouse" / f"{schema}.db").iterdir():
                if folder.name not in models:
                    rows = delta_rs.read(delta_rs.query(t=DeltaTable(folder)), "select * from t")
                    db.register("read", rows)
                    db.execute(f"create table {folder.name} as select * from read")

        def recompute() -> None:
            for model in warehouse.in_order():
                if model in models:
                    sql = queries.in_duckdb(warehouse.rendered(model))
                    db.execute(f"create table {model} as {sql}")

        return clock(recompute)


def compare(plain: Round, ours: Round, read: rows_read.RowsRead) -> None:
    """Print each model's CPU and rows beside its plain table's, the greatest ratio first."""

    def ratio(name: str) -> float:
        return ours.models[name].cpu / max(plain.models[name].cpu, 0.01)

    for name in sorted(ours.models, key=ratio, reverse=True):
        one, other = ours.models[name], plain.models[name]
        rows, others = (read.between(done.begun, done.ended) for done in (one, other))
        print(
            f"  {ratio(name):5.2f} {name}: {one.cpu:.1f} s and {one.statements} statements beside "
            f"{other.cpu:.1f} s, {rows:,} rows read beside {others:,}: {one.message}",
            flush=True,
        )
    whole, others = (
        sum(read.between(model.begun, model.ended) for model in took.models.values())
        for took in (ours, plain)
    )
    print(f"  rows read: {whole:,} beside {others:,}", flush=True)


def project(folder: Path, variant: str) -> list[str]:
    """Make the dbt project of a variant; return dbt's options for it."""
    models = [*FOLDER.glob("*/*.sql"), *FOLDER.glob("*.yml"), *FOLDER.glob("[gs]*[dr]/*.yml")]
    files = {f"models/{path.relative_to(FOLDER)}": path.read_text() for path in models}
    files |= {f"seeds/{path.name}": path.read_text() for path in FOLDER.glob("seeds/*")}
    kind: dict[str, Any] = {"+materialized": "incremental", "+incremental_strategy": "auto"}
    if variant == "changes applied":
        kind["+whole_below"] = 0
    settings: dict[str, Any] = {
        "+schema": SCHEMAS[variant],
        "+file_format": "delta",
        "+tblproperties": PROPERTIES,
    }
    if variant in ("table", "stock merge"):
        kind = {"+materialized": "table"}
    settings |= kind
    if variant == "stock merge":
        settings["silver"], settings["gold"] = merged("silver"), merged("gold")
    seeds = {"+schema": SCHEMAS[variant], "+tblproperties": PROPERTIES}
    options = dbt_project(folder, files)
    declared = {
        "name": "brokerage",
        "version": "0.1.0",
        "profile": "headwaters",
        "macro-paths": ["project_macros"],
        "seeds": {"brokerage": seeds},
        "models": {"brokerage": settings},
    }
    (folder / "dbt_project.yml").write_text(json.dumps(declared))
    return [*options, "--threads", "1"]


def merged(layer: str) -> dict[str, Any]:
    """Return the settings of dbt's merge for each model of a layer that declares a key."""
    keys = {path.stem: warehouse.key_of(path.stem) for path in (FOLDER / layer).glob("*.sql")}
    merge = {"+materialized": "incremental", "+incremental_strategy": "merge"}
    return {name: {**merge, "+unique_key": key} for name, key in keys.items() if key}


def load(spark: Any, inputs: Path) -> None:
    """Create the tables of the history."""
    spark.sql("create schema if not exists main_inputs")
    properties = ", ".join(f"'{name}' = '{value}'" for name, value in PROPERTIES.items())
    for table in ROWS:
        spark.sql(
            f"create table main_inputs.{table} using delta tblproperties ({properties})"
            f" as select * from parquet.`{inputs / '0' / table}.parquet`"
        )


def change(spark: Any, inputs: Path, number: int) -> None:
    """Bring a batch into the inputs."""
    for table, (_, more) in ROWS.items():
        if more:
            file = inputs / str(number) / f"{table}.parquet"
            spark.sql(f"insert into main_inputs.{table} select * from parquet.`{file}`")
    for statement in CHANGES:
        spark.sql(statement.format(number=number).replace("inputs.", "main_inputs."))


class Warehouse:
    """Both projects on one engine."""

    def __init__(self, spark: Any, pid: int, projects: dict[str, list[str]]) -> None:
        from dbt.cli.main import dbtRunner

        self.spark, self.pid, self.projects = spark, pid, projects
        self.manifests: dict[str, Any] = {
            variant: dbtRunner().invoke(["--quiet", "parse", *without_threads(options)]).result
            for variant, options in projects.items()
        }

    def run(self, variant: str) -> Round:
        """Run the models of a project, one after the other."""
        select = ["--select", *MODELS] if MODELS else []
        return self.dbt("run", variant, *select)

    def dbt(self, command: str, variant: str, *arguments: str) -> Round:
        """Run a command of dbt and return the costs of its models."""
        from dbt.cli.main import dbtRunner

        took = Round()
        begun: dict[str, tuple[float, int, float]] = {}

        with statements_of_dbt() as counts:

            def note(event: Any) -> None:
                if event.info.name not in ("NodeStart", "NodeFinished"):
                    return
                node = event.data.node_info
                if node.resource_type != "model":
                    return
                name, cpu = node.node_name, cpu_of(os.getpid(), self.pid)
                if event.info.name == "NodeStart":
                    begun[name] = cpu, len(counts), time.time()
                else:
                    before, statements, since = begun[name]
                    print(f"  {command} {variant}: {name} {cpu - before:.1f} s", flush=True)
                    took.models[name] = Model(
                        name,
                        cpu=cpu - before,
                        statements=len(counts) - statements,
                        begun=since,
                        ended=time.time(),
                    )

            runner = dbtRunner(manifest=self.manifests[variant], callbacks=[note])
            outcome = runner.invoke(["--quiet", command, *arguments, *self.projects[variant]])
        results: Any = outcome.result
        failed = [one.message for one in getattr(results, "results", []) if one.status == "error"]
        assert outcome.success, failed or outcome.exception
        for done in results.results:
            if done.node.resource_type == "model":
                model = took.models[done.node.name]
                model.message, model.wall = done.message, done.execution_time
        return took

    def differences(self, models: Any, schema: str) -> list[str]:
        """Return the models whose tables differ from the plain ones."""
        plain = SCHEMAS["table"]
        return [name for name in models if self._differs(f"{plain}.{name}", f"{schema}.{name}")]

    def _differs(self, one: str, other: str) -> bool:
        sql = (
            f"select 1 from (select * from {one} except all select * from {other})"
            f" union all select 1 from (select * from {other} except all select * from {one})"
        )
        return bool(self.spark.sql(f"{sql} limit 1").collect())


def without_threads(options: list[str]) -> list[str]:
    """Return dbt's options without those of running."""
    return options[: options.index("--threads")]
