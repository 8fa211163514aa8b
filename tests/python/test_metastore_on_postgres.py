"""Test that a lake looks the same on its metastore in Derby, in PostgreSQL, and by the service."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from processes import ROOT, environment

pytestmark = pytest.mark.platform

FILES = {
    "dbt_project.yml": "name: shop\nversion: 1.0.0\nprofile: shop\n",
    "profiles.yml": "shop: {target: dev, outputs: {dev: {type: headwaters, schema: gold, "
    "threads: 1}}}\n",
    "models/sources.yml": "sources: [{name: shop, tables: [{name: orders}]}]\n",
    "models/totals.sql": "{{ config(materialized='incremental', incremental_strategy='auto') }}\n"
    "select orders.customer, sum(orders.amount) as amount, count(*) as orders\n"
    "from {{ source('shop', 'orders') }} as orders group by orders.customer\n",
    "models/big.sql": "{{ config(materialized='view') }}\n"
    "select * from {{ ref('totals') }} where amount > 20 -- é\n",
}
FEED = "'delta.enableChangeDataFeed' = 'true'"


def statements(folder: Path) -> list[str]:
    return [
        "create schema shop comment 'the shop''s own' with dbproperties (kept_by = 'ann')",
        "create table shop.orders (id bigint comment 'a key', customer string, amount int) "
        f"using delta comment 'one row per order' tblproperties ({FEED}, 'x.y' = 'z')",
        "insert into shop.orders values (1, 'ann', 10), (2, 'bob', 30), (3, 'ann', 20)",
        f"create table shop.elsewhere using delta location '{folder}/elsewhere' as select 1 as id",
        "create table shop.days (id int, day date) using parquet partitioned by (day)",
        "insert into shop.days values (1, date '2026-01-01'), (2, date '2026-01-02')",
    ]


class Lake:
    """A project of one lake, and commands on it by the metastore that is named."""

    def __init__(self, folder: Path, address: str) -> None:
        """Write the project's files."""
        self.folder, self.address = folder, address
        for name, text in FILES.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)

    def put_tables_in(self, warehouse: str) -> None:
        """Change the profile: another warehouse, and a target on the engine."""
        settings = f"server_side_parameters: {{spark.sql.warehouse.dir: '{warehouse}'}}"
        there = "server_side_parameters: {spark.remote: 'the engine of this lake'}"
        common = "type: headwaters, schema: gold, threads: 1"
        outputs = f"dev: {{{common}, {settings}}}, engine: {{{common}, {there}}}"
        (self.folder / "profiles.yml").write_text(
            f"shop: {{target: dev, outputs: {{{outputs}}}}}\n"
        )

    def run(self, named: str, *command: str, code: int = 0) -> str:
        """Run a command of Python, and return what it prints."""
        ran = subprocess.run(
            [sys.executable, *command],
            cwd=self.folder,
            env={**environment(self.folder / "lake"), "HEADWATERS_METASTORE": named},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == code, ran.stdout + ran.stderr
        return ran.stdout + ran.stderr

    def headwaters(self, named: str, *words: str, code: int = 0) -> str:
        """Run a headwaters command."""
        return self.run(named, "-m", "headwaters.cli", *words, code=code)

    def build(self, named: str, *statements: str) -> Any:
        """Run dbt, and return its answers and the descriptions of all tables."""
        out = self.folder / "found.json"
        worker = str(ROOT / "tests" / "python" / "metastore_worker.py")
        self.run(named, worker, str(out), *statements)
        return json.loads(out.read_text())


@pytest.fixture
def lake(tmp_path: Path, postgres: str) -> Iterator[Lake]:
    made = Lake(tmp_path, postgres)
    yield made
    made.headwaters("thrift", "metastore", "stop")


def test_a_lake_is_the_same_on_every_metastore(lake: Lake, tmp_path: Path) -> None:
    database = lake.address
    first = lake.build("derby", *statements(tmp_path))
    assert first["success"] and first["answers"].keys() == {"totals", "big"}
    described = first["described"]
    assert described["gold.totals: rows"] == [["ann", "30", "2"], ["bob", "30", "1"]]
    assert described["gold.big: rows"] == described["gold.totals: rows"]

    refused = lake.headwaters(database, "metastore", "check", code=2)
    assert "is empty: `headwaters metastore init`" in refused
    assert "Hive schema 2.3.0, 0 schemas, 0 tables" in lake.headwaters(
        database, "metastore", "init"
    )
    assert "nothing to do" in lake.headwaters(database, "metastore", "init")

    plan = lake.headwaters(database, "metastore", "move", "--to", "postgresql")
    assert "4 tables, 1 views, 2 partitions\nnothing was changed" in plan
    assert "0 schemas, 0 tables" in lake.headwaters(database, "metastore", "check")
    done = lake.headwaters(database, "metastore", "move", "--to", "postgresql", "--apply")
    assert "done: set HEADWATERS_METASTORE" in done
    again = lake.headwaters(database, "metastore", "move", "--to", "postgresql", code=2)
    assert "and the target names another one" in again
    old = lake.run("derby", str(ROOT / "tests/python/metastore_worker.py"), "none", code=1)
    assert "[HW_METASTORE] the metastore of the lake" in old

    second = lake.build(database)
    assert second["answers"]["totals"] == "no changes"
    assert changed(first, second) == {}

    started = lake.headwaters(database, "metastore", "serve", "--port", "0")
    assert started.startswith("metastore service at thrift://127.0.0.1:")
    address = started.split()[-1]
    assert f"{address}, process " in lake.headwaters("thrift", "metastore", "status")
    assert f"metastore {address}: 3 schemas" in lake.headwaters("thrift", "metastore", "check")
    served = lake.build("thrift", "insert into shop.orders values (4, 'cyd', 50)")
    assert served["described"]["gold.totals: rows"][-1] == ["cyd", "50", "1"]

    # a lake whose tables are in a store may not enter the metastore of this one
    guest = Lake(tmp_path / "guest", database)
    guest.put_tables_in("s3a://nowhere/warehouse")
    worker = str(ROOT / "tests" / "python" / "metastore_worker.py")
    assert f"[HW_METASTORE] the metastore {address} is that of the tables in file:" in (
        guest.run(address, worker, "none", code=1)
    )
    guest.headwaters(address, "engine", "start", "--port", "0")
    by_engine = guest.run(address, "-m", "dbt.cli.main", "run", "--target", "engine", code=2)
    guest.headwaters(address, "engine", "stop")
    assert f"[HW_METASTORE] the metastore {address} is that of the tables in file:" in by_engine
    lake.headwaters("thrift", "metastore", "stop")

    back = lake.headwaters(database, "metastore", "move", "--to", "derby", "--apply")
    assert "done: unset HEADWATERS_METASTORE" in back
    assert (tmp_path / "lake" / "metastore.before").is_dir()
    third = lake.build("")
    assert third["answers"]["totals"] == "no changes"
    assert changed(served, third) == {}

    password = psycopg.conninfo.conninfo_to_dict(database)["password"]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if str(password).encode() in path.read_bytes()] == []


def changed(one: Any, other: Any) -> dict[str, Any]:
    """Return the rows that differ in the descriptions of each object."""
    ours, theirs = one["described"], other["described"]
    differing = {}
    for name in sorted(ours.keys() | theirs.keys()):
        before, after = stable(ours.get(name, [])), stable(theirs.get(name, []))
        if before != after:
            differing[name] = [
                row for row in [*before, *after] if row not in before or row not in after
            ]
    return differing


def stable(rows: Any) -> Any:
    """Return a description without the times of a view, which dbt makes again at each run."""
    times = ("Created Time", "Last Access")
    return [row for row in rows if row[0] not in times and "transient_lastDdlTime" not in str(row)]
