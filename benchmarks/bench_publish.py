"""Publishing into PostgreSQL, and COPY of the same rows

A table of 300,000 rows (`bigint`, two of `string`, `decimal(12, 2)`, `date`, `timestamp`), written
by delta-rs. `COPY` reads lines that were made before, from memory, into a table with the same
columns and unique index; `publish` is `headwaters publish` of the table: it reads Delta, makes the
lines and writes the version. Then a tenth of the rows is updated, all over the files: `COPY` of
these rows into a staging table, and `publish`, which finds them and upserts them.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from random import Random

import psycopg
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from benchmarks.runner import ROOT, Bench
from headwaters.devkit import postgres as databases
from headwaters.platform.project import Project
from headwaters.publish.changes import PublishedTable
from headwaters.publish.postgres import PostgresTarget
from headwaters.publish.values import csv_expressions, csv_lines

ROWS = 300_000
TIMES = int(os.environ.get("HEADWATERS_BENCH_TIMES", "3"))
NOTES = """
Goal: at least 0.5 of COPY's rows per second for the first publication of a table. An update finds
the changed rows in the files of both versions, and upserts them by the unique index; COPY into a
staging table does neither. Profiled, 30,000 of 300,000 rows: the comparison of all rows of both
versions' files takes about 40 % of the time, the upsert 30 %, the check for repeated keys 10 %,
`analyze` of the staging table 10 %, and its COPY 5 %. Every part is necessary: the comparison keeps
equal rows from being sent, and the statistics keep the plan of the upsert from being a guess.
""".strip()
_COLUMNS = (
    "id bigint, name text, city text, amount numeric(12,2), day date, at timestamp with time zone"
)


def run(bench: Bench) -> None:
    """Run one server; each measurement has a table and a database table."""
    os.chdir(ROOT)
    os.environ["HEADWATERS_LAKE"] = str(bench.work / "lake")
    project = Project(ROOT)
    server = databases.start(project)
    try:
        first: dict[str, list[float]] = {"COPY": [], "publish": []}
        later: dict[str, list[float]] = {"COPY": [], "publish": []}
        for number in range(TIMES):
            path = bench.work / f"table_{number}"
            write_deltalake(path, _rows(ROWS), target_file_size=2**22)
            source = PublishedTable("gold.bench", path, ["id"])
            target = PostgresTarget(
                f"public.t{number}", "BENCH", partial(getattr, server, "url"), 60
            )
            first["COPY"].append(_measured(_copy(server.url, _lines(source), index=True)))
            first["publish"].append(_measured(partial(target.publish, source)))
            DeltaTable(path).update({"amount": "amount + 1"}, predicate="id % 10 = 3")
            changed = _source_of(path, bench.work / f"changed_{number}")
            later["COPY"].append(_measured(_copy(server.url, _lines(changed), index=False)))
            source = PublishedTable("gold.bench", path, ["id"])
            later["publish"].append(_measured(partial(target.publish, source)))
        for case, found, rows in (
            (f"the first time, {ROWS:,} rows", first, ROWS),
            (f"{ROWS // 10:,} of {ROWS:,} rows updated", later, ROWS // 10),
        ):
            for variant, clocks in found.items():
                wall = statistics.median(clocks)
                bench.record(case, variant, wall, rows=rows)
                print(f"  {rows / wall:,.0f} rows/s")
    finally:
        databases.stop(project.local)


def _measured(work: Callable[[], object]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start


def _copy(url: str, lines: Sequence[bytes], index: bool) -> Callable[[], None]:
    def work() -> None:
        with psycopg.connect(url) as connection, connection.cursor() as cursor:
            cursor.execute("drop table if exists copied")
            cursor.execute(f"create table copied ({_COLUMNS})".encode())
            with cursor.copy("copy copied from stdin (format csv)") as copy:
                for part in lines:
                    copy.write(part)
            if index:
                cursor.execute("create unique index on copied (id) nulls not distinct")

    return work


def _lines(source: PublishedTable) -> list[bytes]:
    with source.at(source.position.version, csv_expressions(source.fields)) as rows:
        return list(csv_lines(rows, source))


def _source_of(path: Path, folder: Path) -> PublishedTable:
    """Return a table of the updated rows."""
    write_deltalake(folder, DeltaTable(path).to_pyarrow_table())
    DeltaTable(folder).delete("id % 10 != 3")
    return PublishedTable("gold.changed", folder, ["id"])


def _rows(number: int) -> pa.Table:
    rng = Random(7)
    first, begin = date(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)
    return pa.table(
        {
            "id": pa.array(range(number), pa.int64()),
            "name": [f"customer {rng.randrange(10**9)}" for _ in range(number)],
            "city": [rng.choice(("Bonn", "Lyon", "Porto, north", "Åre")) for _ in range(number)],
            "amount": pa.array(
                [Decimal(rng.randrange(10**7)).scaleb(-2) for _ in range(number)],
                pa.decimal128(12, 2),
            ),
            "day": [first + timedelta(days=one % 365) for one in range(number)],
            "at": pa.array(
                [begin + timedelta(seconds=one) for one in range(number)],
                pa.timestamp("us", "UTC"),
            ),
        }
    )
