"""Build lakes for the tests of renderings: a usual one, and a large one."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta

from headwaters.report.facts import (
    Backlog,
    Batch,
    Behind,
    Evaluation,
    ExpectationHistory,
    Freshness,
    Lake,
    Need,
    Operation,
    ReportedModel,
    ReportedOutcome,
    ReportedRun,
    ReportedStream,
    ReportedTable,
    TableChange,
)
from report.small import NOW, ago

WEEK = 7 * 86400.0


def table(name: str, **more: object) -> ReportedTable:
    """Return a small table that needs nothing."""
    changes = (TableChange(1, ago(days=2), 1000, 40_000), TableChange(2, ago(hours=5), 20, 900))
    made = ReportedTable(
        name=name,
        place=f"/lake/warehouse/{name.replace('.', '.db/')}",
        kind="model",
        owner="payments",
        version=2,
        rows=1020,
        deleted_rows=0,
        files=2,
        small_files=2,
        bytes=40_900,
        last_change=ago(hours=5),
        retention=WEEK,
        columns=(("id", "long"), ("tags", '{"type":"array"}')),
        changes=changes,
    )
    return replace(made, **more)  # type: ignore[arg-type]  # fields by name


def usual() -> Lake:
    """Return a lake with one of each finding."""
    batches = (
        Batch(ago(days=2), 1000, 12, 4.0),
        Batch(ago(hours=5), 15, 5, 2.0),
    )
    orders = ReportedStream(
        name="orders",
        table="bronze.orders",
        source="files landing/orders",
        rows=1015,
        quarantine={"type": 12, "malformed": 5},
        backlog=Backlog(3, "files", 3_100_000),
        interrupted=False,
        error=None,
        last_batch=ago(hours=5),
        batches=batches,
    )
    clicks = replace(
        orders,
        name="clicks",
        table="bronze.clicks",
        source="kafka clicks",
        quarantine={},
        backlog=None,
        error="[HW_BROKER_AWAY] no broker answers",
        batches=(),
        last_batch=None,
    )
    paid = ReportedModel(
        name="paid",
        table="silver.paid",
        strategy="change_feed",
        owner="payments",
        is_built=True,
        rows=1020,
        runs=(
            ReportedRun(1, ago(days=2), "replace", 1000, 40_000),
            ReportedRun(2, ago(hours=5), "merge", 20, 900, 450.0),
        ),
        outcome=ReportedOutcome("success", ago(hours=5), 20.4, "merge: 20 updated"),
        behind=(Behind("bronze.orders", 4, 6, 35, ago(days=2)),),
        runs_every=86400.0,
        reads=("bronze.orders",),
    )
    spend = replace(
        paid,
        name="spend",
        table="gold.spend",
        strategy="affected_keys",
        is_built=False,
        rows=None,
        runs=(),
        outcome=ReportedOutcome("error", ago(hours=5), 0.4, "[HW_REPEATED_KEYS] two rows of a key"),
        behind=(),
        reads=("silver.paid",),
    )
    rules = (
        ExpectationHistory(
            "silver.paid",
            "positive",
            "amount > 0",
            "warn",
            (Evaluation(ago(days=2), 1000, 0), Evaluation(ago(hours=5), 20, 3)),
        ),
        ExpectationHistory("gold.spend", "known", "currency is not null", "fail"),
    )
    undo = "restore table silver.paid to version as of 1"
    operations = (
        Operation(
            *("o2", ago(hours=3), "maintain", "silver.paid", "grace", "small files", "started")
        ),
        Operation(
            *("o1", ago(days=1), "restore", "silver.paid", "ada", "wrong rates", "done"),
            *(ago(days=1), 1, 2, undo),
        ),
    )
    due = (("compact", "23 files are smaller than 16 MB, 30 came since the last time"),)
    tables = (
        table("bronze.orders", kind="stream", needs=(Need("silver.paid", ago(days=2)),)),
        table("silver.paid", deleted_rows=180, due=due, needs=(Need("gold.spend", ago(days=9)),)),
        table("ops.operations", kind="ops", owner="data platform"),
    )
    return Lake(
        project="shop",
        target="local",
        place="/lake",
        at=NOW,
        streams=(clicks, orders),
        models=(paid, spend),
        tables=tables,
        expectations=rules,
        operations=operations,
        freshness=(
            Freshness("bronze.clicks", None, 3600.0, 86400.0),
            Freshness("bronze.orders", ago(hours=5), 3600.0, 86400.0),
        ),
        problems=("[HW_TABLE_DAMAGED] the log of /lake/warehouse/gold.db/old has no version 3",),
        edges=(("bronze.orders", "silver.paid"), ("silver.paid", "gold.spend")),
    )


def large(models: int = 200) -> Lake:
    """Return this many models, each with its runs, its table and its readers."""
    draw = random.Random(7)
    lake = usual()
    made, tables, edges = [], [], []
    for index in range(models):
        name = f"{('silver', 'gold')[index % 2]}.model_{index:03}_of_a_longer_name"
        runs = tuple(
            ReportedRun(
                day, _days(draw, 30 - day), "merge", 1 + draw.randrange(900), 40 * day + 99, 900.0
            )
            for day in range(30)
        )
        changes = tuple(TableChange(run.version, run.at, run.rows, run.bytes) for run in runs)
        tables.append(table(name, changes=changes, bytes=draw.randrange(10**9)))
        made.append(replace(lake.models[0], name=name, table=name, runs=runs))
        for _ in range(2 if index > 5 else 0):
            edges.append((made[draw.randrange(max(0, index - 40), index)].table, name))
    return replace(lake, models=tuple(made), tables=tuple(tables), edges=tuple(edges))


def _days(draw: random.Random, count: int) -> datetime:
    return NOW - timedelta(days=count, minutes=draw.randrange(600))


def full_of(value: str) -> Lake:
    """Return a lake that has a value at every place that a value can reach."""
    lake = usual()
    stream = replace(
        lake.streams[0],
        name=value,
        table=value,
        source=value,
        quarantine={value: 3, "type": 1},
        error=value,
    )
    outcome = ReportedOutcome("error", NOW, 1.0, value)
    behind = (Behind(value, 1, 2, 3, ago(days=3)),)
    model = replace(
        lake.models[0],
        name=value,
        table=value,
        strategy=value,
        owner=value,
        outcome=outcome,
        behind=behind,
    )
    its = table(
        value,
        owner=value,
        due=(("compact", value),),
        kept=value,
        needs=(Need(value, ago(days=9)),),
        columns=((value, value),),
    )
    rule = replace(
        lake.expectations[0], table=value, name=value, expression=value, on_failure=value
    )
    operation = replace(
        lake.operations[1], operation=value, table=value, user=value, reason=value, undo=value
    )
    return Lake(
        project=value,
        target=value,
        place=value,
        at=NOW,
        streams=(stream,),
        models=(model,),
        tables=(its,),
        expectations=(rule,),
        operations=(operation,),
        freshness=(Freshness(value, ago(days=3), 60.0, 120.0),),
        problems=(value,),
        edges=((value, f"{value}2"),),
    )
