"""Maintenance: by policy, after every write, and none

A keyed table of ROWS rows (2 million) takes MERGES small merges (200) of CHANGES rows (1,000) each.
Half of these rows are updates spread over the table, and half are new. `none` never maintains it.
`optimize each time` runs OPTIMIZE after every merge, as teams do today. `policy` calls `maintain`
after every EVERY merges (20), which does the work that pays. At the end each table answers a
standard query, a sum by day over all rows, next to a newly optimised table (`fresh`). The CPU is
that of Spark and dbt together.
"""

from __future__ import annotations

import os
from typing import Any

from benchmarks.runner import Bench, Clock, clock, dbt_project, median, shared_engine

NOTES = """
60 merges into 1 million rows (MERGES=60 ROWS=1000000). The run meets the goals: less CPU in all
than both others, and a read at the end within 1.2 of a freshly optimised table. If a table is no
larger than one compacted file, a compaction takes out rows that are only marked as deleted. A
larger table keeps them up to `purge_above`; measured apart, they make a read a third slower,
regardless of their number.
"""

ROWS = int(os.environ.get("ROWS", "2000000"))
MERGES = int(os.environ.get("MERGES", "200"))
CHANGES = int(os.environ.get("CHANGES", "1000"))
EVERY = int(os.environ.get("EVERY", "20"))
VARIANTS = ["none", "optimize each time", "policy"]
PROPERTIES = "'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true'"
QUERY = "select day, count(*), sum(amount), max(note) from {table} group by day"


def run(bench: Bench) -> None:
    """Run each variant on a separate table, one after the other on one engine."""
    tables = ", ".join(f"{{name: {_identifier(variant)}}}" for variant in VARIANTS)
    options = dbt_project(
        bench.work / "project",
        {"models/sources.yml": f"sources: [{{name: bench, tables: [{tables}]}}]\n"},
    )
    with shared_engine(bench, "4g") as (spark, pid):
        spark.sql("create schema bench")
        for variant in VARIANTS:
            _measure(bench, spark, options, pid, variant)
        spark.sql(
            f"create table bench.fresh using delta tblproperties ({PROPERTIES})"
            f" as select * from bench.{VARIANTS[-1]}"
        )
        spark.sql("optimize bench.fresh").collect()
        for _ in range(2):  # the first run warms up
            reads = {name: _reading(spark, name, pid) for name in ["fresh", *VARIANTS]}
    for variant, read in reads.items():
        bench.record("read at the end", variant, read.wall, read.cpu, rows=ROWS)


def _measure(bench: Bench, spark: Any, options: list[str], pid: int, variant: str) -> None:
    table = f"bench.{_identifier(variant)}"
    spark.sql(
        f"create table {table} using delta tblproperties ("
        f"{PROPERTIES}) as "
        "select id, date_add(date'2026-01-01', cast(id % 100 as int)) as day,"
        " cast(id % 1000 as decimal(18, 2)) as amount, md5(cast(id as string)) as note"
        f" from range(0, {ROWS}, 1, 4)"
    )

    def work() -> None:
        for number in range(1, MERGES + 1):
            _merge(spark, table, number)
            if variant == "optimize each time":
                spark.sql(f"optimize {table}").collect()
            elif variant == "policy" and number % EVERY == 0:
                _maintain(options, variant)

    took = clock(work, [pid])
    bench.record(
        f"{MERGES} merges",
        variant,
        took.wall,
        took.cpu,
        rows=ROWS,
        bytes_written=_bytes_written(spark, table),
    )


def _merge(spark: Any, table: str, number: int) -> None:
    half = CHANGES // 2
    spark.sql(
        f"merge into {table} as t using ("
        f" select cast(pmod(xxhash64(id, {number}), {ROWS}) as bigint) as id, {number} as added"
        f" from range({half}) group by all union all"
        f" select {ROWS} + {number * half} + id as id, {number} as added from range({half})"
        ") as s on t.id = s.id when matched then update set amount = t.amount + s.added"
        " when not matched then insert (id, day, amount, note)"
        " values (s.id, date_add(date'2026-01-01', cast(s.id % 100 as int)), 1, 'new')"
    ).collect()


def _reading(spark: Any, variant: str, pid: int) -> Clock:
    query = spark.sql(QUERY.format(table=f"bench.{_identifier(variant)}"))
    return median(lambda: clock(query.collect, [pid]), times=5)


def _bytes_written(spark: Any, table: str) -> int:
    """Return the bytes that all commits wrote, by their own metrics."""
    total = 0
    for commit in spark.sql(f"describe history {table}").collect():
        metrics = commit["operationMetrics"] or {}
        names = ("numTargetBytesAdded", "numAddedBytes", "numOutputBytes")
        total += int(next((metrics[name] for name in names if name in metrics), 0))
    return total


def _maintain(options: list[str], variant: str) -> None:
    from dbt.cli.main import dbtRunner

    arguments = f"{{select: {_identifier(variant)}, dry_run: false, reason: measured}}"
    command = ["--quiet", "run-operation", "maintain", "--args", arguments]
    outcome = dbtRunner().invoke([*command, *options])
    assert outcome.success, outcome.exception


def _identifier(variant: str) -> str:
    return variant.replace(" ", "_")
