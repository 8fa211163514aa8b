"""A warehouse over the tables of TPC-H: 11 models brought up to date, and what people do without

The tables are those of `tpchgen-cli` at TPCH_SCALE (1: six million lines). The models in
`decision_support/` are those of a small warehouse: they clean, join and sum lines and orders.
SHARES of the orders, with their lines, are inserted, updated, deleted and moved to another customer
and supplier, a quarter of the share each: `spread` over all files, or `recent`, the newest keys.
Then each variant brings the same change into the models: `full refresh` rebuilds every table, and
`headwaters` is `dbt run`. `stock merge` is dbt's merge of the last 30 days. `DuckDB` builds the
same tables from Parquet files. After each headwaters run, the benchmark compares every table with
its full refresh. `TPCH_SCALE=5 SHARES=0.003 PLACES=spread` before `make bench-decision-support`
choose cells; `STOCK=0` leaves out dbt's merges, which take longest.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import jinja2

from benchmarks.runner import (
    Bench,
    Clock,
    DbtRuns,
    Headline,
    clock,
    dbt_project,
    files_of,
    shared_engine,
    statements_of_dbt,
)

HEADLINES = [
    Headline(
        "0.3 % of the rows changed under 11 models over 6 million line items",
        "a full refresh",
        "spread, 0.30%",
        0.63,
        settings="SHARES=0.003",
    ),
    Headline(
        "the same over 30 million line items",
        "a full refresh",
        "spread, 0.30%, scale 5",
        0.33,
        settings="TPCH_SCALE=5 SHARES=0.003 STOCK=0",
    ),
]
NOTES = """
Measured on 2026-11-27, when runs computed tables of up to 200,000 rows in full, not two million.

Goal: a full refresh of at least twice the CPU if 0.3 % is spread over all files. It takes 1.30
times, and 1.46 for changes of the newest keys, after one round that does not count. dbt's own
merges of the last 30 days take 1.57 and 1.54 of a full refresh, and leave ten of the eleven tables
wrong.

A third run on one engine, with one thread, 0.3 % spread and Spark's event log, took 103 CPU seconds
for 138 statements. Spark's tasks on rows took 36 of them, so the rows alone would take a quarter of
a full refresh. Tasks that read Delta's log took 5, Java's compiler 20, the garbage collector 6. The
other 36 analyse, optimise, generate and submit.

| statements | number | CPU seconds | largest tasks on rows |
|---|--:|--:|---|
| change sets | 10 | 36.5 | wide_lines with its recomputed rows 2.2, part_months 1.2 |
| writes | 10 | 20.2 | the keys of each table of five or six million rows 1.2 to 1.3 |
| parts that are stored | 11 | 14.5 | the feed of the lines 3.0, the rows that lead to others 1.5 |
| a replacement: suppliers | 1 | 7.7 | six million lines added up 4.5, their sums 1.3 |
| `describe history` | 32 | 5.8 | |
| bounds of affected keys, shares that changed | 12 | 5.1 | the feed's keys 0.3 |
| inspections of change sets | 10 | 4.9 | |
| search for rows that are to be replaced | 2 | 4.5 | the keys of the lines 1.2 |
| properties written, read; tables dropped | 53 | 4.0 | |

At scale 5, of 30 million line items, a full refresh takes 2.64 times the CPU; the goal is 3. It
took 1.65 while runs merged change sets with more than 5,000 deletions, which reads all columns: six
of eleven tables had such change sets (docs/decisions/0037-deleted-keys-from-the-change-set.md). The
run replaces one table: its change affects 90 % of the keys of the suppliers.

At scale 1 more than half of the time does not depend on the number of rows. At a fiftieth of the
size, with 300 changed lines, the fifth run on an engine still takes 59 CPU seconds for its 120
statements, 8 of them in Java's compiler. The 11 change sets take 27, the writes 11, 32 times
`describe history` 5, inspections of change sets 4, bounds 4, the search for rows 2.5, 22 times
`alter table` 2. The first run takes 103, 42 of them in Java's compiler, the second 69.

Such a round has 519 jobs of Spark with 834 tasks. Generated code has 5 % of the samples of its Java
threads (JFR, without compiler and garbage collection), and Parquet and JSON 1 %: this is the work
on rows. Spark generates code in 28 % (19 in tasks, most for the columns of Delta's log), analyses
plans in 15, optimises or makes them in 13, submits jobs in 14 and reads them in tasks in 8. By
owner, Delta has 29: 15 look for the files of a query, 5 for the newest version, 3 for the history,
3 commit. The metastore has 8, mostly because Hive's client reads its configuration again in the new
thread of each Spark Connect statement.

Staging from two tables that were written spends 2.1 of its 3.8 seconds on finding the files of both
tables, before it reads a row: each commit makes a version whose state Delta reconstructs by jobs of
Spark. Each read of a table with deletion vectors takes 0.17 CPU seconds more than a read of the
same rows in Parquet, regardless of their number (0.30 and 0.13). Delta lists the files of the
query, and then all files, to find those with deletion vectors, each time by a job over the table's
state. A round has some fifty such reads.

Settings do not change that: without adaptive execution, generated code or the use of statistics,
with one partition, or with code for wide rows, the time stays between 65 and 74. Room for the code
of 20,000 plans does not help either: each round compiles 434 classes (3.5 seconds), which are new
because literals are part of the code. Fewer versions would help, but the two commits of properties
around each write protect it (docs/decisions/0026-one-question-a-table.md).

By statement, on a warm engine and a table of 20,000 rows with deletion vectors: the first read of a
new version takes 8 jobs and 1.0 CPU seconds, the next read 5 and 0.45, a write 7 and 0.9, its
change feed 2 and 0.25, `describe history` 1 and 0.14, `alter table` 0.06 to 0.2. Files in Delta's
checksums, no checksums, no validation of them or one partition change the sum by less than its
noise, a tenth.
"""

SCALE = float(os.environ.get("TPCH_SCALE", "1"))
SHARES = [float(share) for share in os.environ.get("SHARES", "0.0001 0.001 0.003 0.01").split()]
PLACES = os.environ.get("PLACES", "spread recent").split()
STOCK_MERGES = os.environ.get("STOCK", "1") != "0"
ORDERS = round(1_500_000 * SCALE)
NEWEST = 4 * ORDERS  # keys of orders are sparse: 8 of 32

TABLES = ("lineitem", "orders", "customer", "part", "supplier", "nation")
UNIQUE = {"orders": "o_orderkey"}  # as the sources' tests declare
SQL = {
    file.stem: file.read_text()
    for file in sorted((Path(__file__).parent / "decision_support").glob("*.sql"))
}
# the dates that usually restrict a merge; a table without one is merged as a whole
DATES = {
    "order_lines": "l_shipdate",
    "order_headers": "o_orderdate",
    "orders_enriched": "o_orderdate",
    "wide_lines": "l_shipdate",
}
STOCK = """
select * from (
    {sql}
)
{{% if is_incremental() %}}
where {date} >= (select date_sub(max({date}), 30) from {{{{ this }}}})
{{% endif %}}
"""


def run(bench: Bench) -> None:
    """Create the tables, build both projects, and measure cell by cell."""
    parquet = bench.work / "tpch"
    generator = [str(Path(sys.executable).parent / "tpchgen-cli"), "parquet", "-s", str(SCALE)]
    subprocess.run([*generator, "--output-dir", str(parquet)], check=True)
    ours = dbt_project(bench.work / "ours", warehouse_files())
    stock = dbt_project(
        bench.work / "stock",
        {"models/sources.yml": sources()}
        | {f"models/gold/{name}.sql": stock_model(name) for name in SQL},
    )
    with shared_engine(bench, "8g") as (spark, pid):
        spark.sql("create schema if not exists tpch")
        for table in TABLES:
            spark.sql(
                f"create table tpch.{table} using delta tblproperties ("
                "'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true')"
                f" as select * from parquet.`{parquet / table}.parquet`"
            )
        shutil.rmtree(parquet)
        warehouse = Warehouse(bench, spark, pid, ours, stock)
        warehouse.dbt(ours)
        if STOCK_MERGES:
            warehouse.dbt(stock)
        warehouse.measure("spread", 0.001, kept=False)  # Java compiles
        for place in PLACES:
            for share in SHARES:
                warehouse.measure(place, share)


def sources() -> str:
    """Return the YAML of the tables of TPC-H, with the tests of their keys."""
    tables = [
        {"name": table, "columns": [{"name": UNIQUE[table], "data_tests": ["unique", "not_null"]}]}
        if table in UNIQUE
        else {"name": table}
        for table in TABLES
    ]
    return json.dumps({"sources": [{"name": "tpch", "tables": tables}]})


def warehouse_files() -> dict[str, str]:
    """Return the files of a project with the models of the warehouse."""
    models = {f"models/silver/{name}.sql": sql for name, sql in SQL.items()}
    return {"models/sources.yml": sources(), **models}


def stock_model(name: str) -> str:
    """Return the model with dbt's merge strategy."""
    config, _, sql = SQL[name].partition("\n")
    key = config[config.index("unique_key") : config.index(") }}")]
    # the layer's contracts would ask for every column in YAML
    settings = f"incremental_strategy='merge', contract={{'enforced': false}}, {key}"
    merge = f"{{{{ config(materialized='incremental', {settings}) }}}}\n"
    sql = plain(sql)
    return merge + (STOCK.format(sql=sql, date=DATES[name]) if name in DATES else sql)


def plain(sql: str) -> str:
    """Return the SQL of a model without the input macro of sums."""
    sql = sql.replace("{{ signed(ref('order_lines')) }}", "{{ ref('order_lines') }}")
    return sql.replace("_weight * ", "").replace("sum(_weight)", "count(*)")


class Warehouse:
    """The tables on the engine, and the variants."""

    def __init__(
        self, bench: Bench, spark: Any, pid: int, ours: list[str], stock: list[str]
    ) -> None:
        self.bench, self.spark, self.pid, self.ours, self.stock = bench, spark, pid, ours, stock
        self.runs = DbtRuns()
        self.round = 0

    def measure(self, place: str, share: float, kept: bool = True) -> None:
        """Measure one cell: change the tables, then run every variant."""
        self.round += 1
        self.change(place, share)
        before = {name: files_of(self.spark, f"silver.{name}") for name in SQL}
        with statements_of_dbt() as statements:
            incremental = clock(lambda: self.dbt(self.ours), [self.pid])
        after = {name: files_of(self.spark, f"silver.{name}") for name in SQL}
        left = {name: self.rows(f"silver.{name}") for name in SQL}
        merged = clock(lambda: self.dbt(self.stock), [self.pid]) if STOCK_MERGES else None
        with statements_of_dbt() as refreshing:
            full = clock(lambda: self.dbt(self.ours, "--full-refresh"), [self.pid])
        rebuilt = {name: files_of(self.spark, f"silver.{name}") for name in SQL}
        wanted = {name: self.rows(f"silver.{name}") for name in SQL}
        assert left == wanted, [name for name in SQL if left[name] != wanted[name]]
        if not kept:
            return

        def written(new: dict[str, dict[Path, int]], old: dict[str, dict[Path, int]]) -> int:
            return sum(new[name][file] for name in SQL for file in new[name].keys() - old[name])

        case = f"{place}, {share:.2%}" + ("" if SCALE == 1 else f", scale {SCALE:g}")

        def record(variant: str, took: Clock, **counts: int) -> None:
            lines = int(wanted["order_lines"][0])
            self.bench.record(case, variant, took.wall, took.cpu, rows=lines, share=share, **counts)

        record(
            "full refresh",
            full,
            bytes_written=written(rebuilt, after),
            statements=len(refreshing),
        )
        record(
            "headwaters",
            incremental,
            bytes_written=written(after, before),
            statements=len(statements),
        )
        if merged:
            wrong = sum(self.rows(f"gold.{name}") != wanted[name] for name in SQL)
            record(f"stock merge ({wrong} of {len(SQL)} tables differ)", merged)
        record("DuckDB, full refresh", self.duckdb())

    def change(self, place: str, share: float) -> None:
        """Insert, update, delete and move orders with their lines, a quarter of the share each."""
        buckets = round(4 / share)

        def chosen(key: str, kind: int) -> str:
            if place == "spread":
                bucket = (4 * self.round + kind) % buckets
                return f"pmod(xxhash64({key}), {buckets}) = {bucket}"
            last = NEWEST * (1 - kind * share / 4)
            return f"{key} > {last - NEWEST * share / 4:.0f} and {key} <= {last:.0f}"

        new = 10 * NEWEST * self.round
        for statement in (
            "update tpch.lineitem set l_quantity = l_quantity + 1,"
            f" l_extendedprice = l_extendedprice + 1 where {chosen('l_orderkey', 0)}",
            f"delete from tpch.lineitem where {chosen('l_orderkey', 1)}",
            f"delete from tpch.orders where {chosen('o_orderkey', 1)}",
            f"update tpch.orders set o_custkey = 1 + pmod(o_custkey * 7, {ORDERS // 10})"
            f" where {chosen('o_orderkey', 2)}",
            f"update tpch.lineitem set l_suppkey = 1 + pmod(l_suppkey * 7, {ORDERS // 150})"
            f" where {chosen('l_orderkey', 2)}",
            f"insert into tpch.orders select o_orderkey + {new}, * except (o_orderkey)"
            f" from tpch.orders where {chosen('o_orderkey', 3)}",
            f"insert into tpch.lineitem select l_orderkey + {new}, * except (l_orderkey)"
            f" from tpch.lineitem where {chosen('l_orderkey', 3)}",
        ):
            self.spark.sql(statement).collect()

    def rows(self, table: str) -> tuple[Any, ...]:
        """Return a table's row count and the sum of its hashes."""
        hashes = "sum(cast(xxhash64(*) as decimal(38, 0)))"
        return tuple(self.spark.sql(f"select count(*), {hashes} from {table}").first())

    def dbt(self, options: list[str], *arguments: str) -> None:
        """Run `dbt run` of a project and print each model's message."""
        for done in self.runs(options, *arguments):
            print(f"  {done.execution_time:5.1f} s {done.node.name}: {done.message}", flush=True)

    def duckdb(self) -> Clock:
        """Build the same tables in DuckDB, from Parquet files that are written beforehand."""
        folder = self.bench.work / "duckdb"
        shutil.rmtree(folder, ignore_errors=True)
        for table in TABLES:
            self.spark.table(f"tpch.{table}").write.parquet(str(folder / table))
        with duckdb.connect(str(folder / "warehouse.duckdb")) as connection:
            connection.sql("set threads = 2")
            for table in TABLES:
                files = folder / table / "*.parquet"
                connection.sql(f"create view {table} as select * from '{files}'")
            return clock(lambda: self.build(connection.sql))

    def build(self, sql: Callable[[str], Any]) -> None:
        """Build every model, each after those that it reads."""
        built: set[str] = set()

        def table(name: str) -> str:
            if name in SQL and name not in built:
                create(name)
            return name

        def create(name: str) -> None:
            query = plain(SQL[name].partition("\n")[2])
            query = jinja2.Template(query).render(ref=table, source=lambda _, table: table)
            sql(f"create table {name} as {query}")
            built.add(name)

        for name in SQL:
            table(name)
