"""Run the examples of docs/other-programs.md: delta-rs and Polars on the same tables."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from ingestion import ROOT, Ingester, audit, node

BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/other-programs.md").read_text(), re.S)
READ, APPEND, APPEND_BY_POLARS, ENRICH = BLOCKS


def example(block: str, lake: Path) -> dict[str, Any]:
    """Run an example with the test's lake as `lake`, and return its variables."""
    found: dict[str, Any] = {}
    exec(_on(block, lake), found)
    return found


def _on(block: str, lake: Path) -> str:
    return block.replace('"lake/', f'"{lake}/')


def test_gold_tables_are_read_with_filters(spark: Any, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path}/warehouse/gold.db/sales`"
    spark.sql(
        f"create table {table} (sale_id bigint, day date, amount decimal(8, 2)) using delta "
        "partitioned by (day) tblproperties (delta.enableDeletionVectors = true)"
    )
    spark.sql(
        f"insert into {table} select id, date_add(date'2026-01-01', cast(id % 3 as int)), id * 5 "
        "from range(12)"
    )
    spark.sql(f"delete from {table} where sale_id = 4")
    found = example(READ, tmp_path)
    assert found["large"]["sale_id"].to_list() == [7, 10]
    per_day = [tuple(row.values()) for row in _rows(found["per_day"])]
    assert [(str(day), sales) for day, sales in per_day] == [
        ("2026-01-01", 2),
        ("2026-01-02", 1),
        ("2026-01-03", 2),
    ]
    assert all("day=2026-01-02" in one for one in found["files"]) and found["files"]


def _rows(table: Any) -> list[dict[str, Any]]:
    return pa.table(table).to_pylist()  # type: ignore[no-any-return]  # without types


KINDS = {"id": "string", "amount": "decimal(8, 2)"}


def test_an_append_to_a_table_that_is_not_open_is_found(ingester: Ingester) -> None:
    declared = node(KINDS)
    ingester.land("1.json", '{"id": "a", "amount": 5}')
    ingester.run(declared)
    example(APPEND, ingester.lake)
    assert audit(ingester, declared) == [
        "orders: 1 read = 3 bronze + 0 quarantined: WRONG: 0 missing, 2 extra",
        "  rows of another writer: 0 read, 2 bronze, 0 quarantined, 0 missing, 2 extra",
    ]


@pytest.mark.slow
def test_two_programs_append_at_once_while_ingestion_writes_and_nothing_is_lost(
    ingester: Ingester, tmp_path: Path
) -> None:
    # Polars does not find files below a folder with a blank or an umlaut in its name
    ingester = Ingester(ingester.process, tmp_path / "lake")
    declared = node(KINDS, {"writers": ["foreign"]})
    ingester.land("1.json", '{"id": "a", "amount": 5}')
    ingester.run(declared)
    place = ingester.lake / "warehouse" / "bronze.db" / "orders"
    writers = [_appending(block, place, ingester.lake) for block in (APPEND, APPEND_BY_POLARS)]
    for one in writers:  # at once, as soon as both are ready
        assert one.stdout and one.stdout.readline() == "ready\n"
    for one in writers:
        assert one.stdin
        one.stdin.write("go\n")
        one.stdin.flush()
    for number in range(3):
        ingester.land(f"more{number}.json", f'{{"id": "b{number}", "amount": 1}}')
        ingester.run(declared)
    versions = [[int(line) for line in one.communicate(timeout=120)[0].split()] for one in writers]
    assert [one.returncode for one in writers] == [0, 0]
    assert max(seen[0] for seen in versions) < min(seen[-1] for seen in versions)
    assert audit(ingester, declared) == ["orders: 4 read = 4 bronze + 0 quarantined: right"]
    rows = DeltaTable(place).to_pyarrow_table(columns=["id", "amount"]).to_pylist()
    ours = {"a": "5.00", "b0": "1.00", "b1": "1.00", "b2": "1.00"}
    theirs = {"f1": "1.00", "f2": "2.00", "p1": "3.00", "p2": "4.50"}
    assert Counter((row["id"], str(row["amount"])) for row in rows) == Counter(
        [*ours.items(), *[*theirs.items()] * APPENDS]
    )
    named = example(ENRICH, ingester.lake)["named"]
    assert named.rows() == [
        *[("f1", Decimal(1), "first")] * APPENDS,
        *[("f2", Decimal(2), "second")] * APPENDS,
    ]


APPENDS = 40


def _appending(block: str, place: Path, lake: Path) -> subprocess.Popen[str]:
    """Start a process that runs an example again and again, and prints the versions that it sees.

    After the first run, when all imports are done, it waits for a line.
    """
    append = f"exec({_on(block, lake)!r})"
    program = f"""{append}
import deltalake
print("ready", flush=True)
input()
for _ in range({APPENDS - 1}):
    {append}
    print(deltalake.DeltaTable({str(place)!r}).version())"""
    return subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
