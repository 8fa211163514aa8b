"""Kill the processes of the platform while a project runs on it: nothing is lost, twice or wrong.

KILLS sets how many processes are killed (default: 10).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from platforms import Platform

from headwaters.devkit import cluster as local_cluster
from headwaters.devkit import objects, services
from headwaters.platform import cluster, hive_metastore
from headwaters.platform.delta_rs import rows_of
from headwaters.platform.places import RemotePath, open_uri
from headwaters.platform.servers import Server

pytestmark = pytest.mark.platform

KILLS = int(os.environ.get("KILLS") or 10)
FILES = {
    "models/bronze.yml": """
sources:
  - name: bronze
    schema: bronze
    tables:
      - name: orders
        config:
          meta:
            stream: {from: files, path: landing/orders, format: json, batch: {max_files: 2}}
        columns:
          - {name: id, data_type: bigint}
          - {name: customer, data_type: int}
          - {name: amount, data_type: int}
""",
    "models/totals.sql": """
{{ config(materialized='incremental', incremental_strategy='auto', whole_below=0) }}
select customer, count(*) as orders, sum(amount) as amount
from {{ source('bronze', 'orders') }}
group by customer
""",
}
# Executors are started again by Spark, the others by this test, as a supervisor would.
VICTIMS = {
    **{"executor": 8, "ingestion": 4, "dbt": 4, "S3": 4},
    **{"connect": 4, "worker": 2, "metastore": 2, "master": 2},
}


class Storm:
    """A project whose ingestion and models run on, while processes are killed."""

    def __init__(self, platform: Platform, rng: Random) -> None:
        """Begin with no orders."""
        self.platform, self.rng = platform, rng
        self.orders: list[tuple[int, int, int | None]] = []
        self.running: dict[str, subprocess.Popen[str]] = {}
        self.killed: Counter[str] = Counter()
        self.ended: list[str] = []

    @property
    def lake(self) -> RemotePath:
        """Return the lake in the store."""
        place = open_uri(services.LAKE, {})
        assert isinstance(place, RemotePath)
        return place

    def land(self) -> None:
        """Land a file of orders; each tenth amount is not a number."""
        first = len(self.orders)
        made = []
        for number in range(first, first + self.rng.randrange(5, 60)):
            customer, amount = self.rng.randrange(20), self.rng.randrange(100)
            is_bad = self.rng.randrange(10) == 0
            self.orders.append((number, customer, None if is_bad else amount))
            values = {"id": number, "customer": customer, "amount": "many" if is_bad else amount}
            made.append(json.dumps(values))
        file = self.lake / "landing" / "orders" / f"{first}.json"
        file.write_bytes("".join(f"{line}\n" for line in made).encode())

    def keep_running(self) -> None:
        """Start what ended: the consumer, which runs on, and runs of dbt."""
        words = {
            "ingestion": ("headwaters", "ingest", "--every", "1s", "--target", "ingestion"),
            "dbt": ("dbt", "run", "--target", "cluster"),
        }
        for name, command in words.items():
            process = self.running.get(name)
            if process is None or process.poll() is not None:
                if process is not None and process.returncode > 0:
                    self.ended.append(name)
                with (self.platform.folder / f"{name}.txt").open("a") as output:
                    self.running[name] = self.platform.start(*command, output=output)

    def kill(self) -> None:
        """Kill a process of a random kind, and start it again if it is a server."""
        [name] = self.rng.choices([*VICTIMS], [*VICTIMS.values()])
        if name in self.running:
            os.killpg(self.running[name].pid, signal.SIGKILL)
            self.running[name].wait()
        else:
            pids = self.pids(name)
            if not pids:
                return
            os.kill(self.rng.choice(pids), signal.SIGKILL)
        self.killed[name] += 1
        if name in ("S3", "connect", "worker", "metastore", "master"):
            time.sleep(self.rng.uniform(0, 3))
            self.platform.run("headwaters", "platform", "start")

    def pids(self, name: str) -> list[int]:
        """Return the running processes of a kind."""
        lake = self.platform.lake
        if name == "executor":
            return executors(cluster.folder(lake))
        if name in ("connect", "worker", "master"):
            parts = local_cluster.parts(lake).items()
            return [server.pid for part, server in parts if part.startswith(name)]
        found = objects.find(lake) if name == "S3" else Server.running(hive_metastore.record(lake))
        return [found.pid] if found else []

    def stop(self) -> None:
        """End the consumer and the run of dbt."""
        for process in self.running.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(120)

    def check(self) -> None:
        """Bring everything up to date, and compare bronze, quarantine and model with the orders."""
        self.platform.run("headwaters", "ingest", "--once", "--target", "ingestion")
        right = [order for order in self.orders if order[2] is not None]
        bad = len(self.orders) - len(right)
        read = f"orders: {len(self.orders):,} read"
        total = f"{read} = {len(right):,} bronze + {bad:,} quarantined: right"
        assert total in self.platform.run("headwaters", "audit", "--target", "ingestion")
        bronze = self.lake / "warehouse" / "bronze.db" / "orders"
        rows = rows_of(bronze, "select id, customer, amount from t order by id")
        assert [tuple(row.values()) for row in rows] == right
        self.platform.run("dbt", "run", "--target", "cluster")
        expected: dict[int, tuple[int, int]] = {}
        for _, customer, amount in right:
            orders, before = expected.get(customer, (0, 0))
            expected[customer] = orders + 1, before + (amount or 0)
        totals = rows_of(
            self.lake / "warehouse" / "gold.db" / "totals",
            "select customer, orders, amount from t order by customer",
        )
        assert [tuple(row.values()) for row in totals] == [
            (customer, *expected[customer]) for customer in sorted(expected)
        ]


def executors(folder: Path) -> list[int]:
    """Return the processes of executors whose applications have their folders below this one."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_one = b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes()
            if is_one and (process / "cwd").resolve().is_relative_to(folder):
                found.append(int(process.name))
        except OSError:
            continue  # it has ended, or is another user's
    return found


@pytest.fixture
def platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Platform]:
    started = Platform(tmp_path, FILES)
    try:
        started.run("headwaters", "platform", "start")
        for name, value in started.variables().items():
            if name.startswith("AWS_"):
                monkeypatch.setenv(name, value)
        yield started
    finally:
        list(services.stop(started.lake, services.ALL))


def test_nothing_is_lost_twice_or_wrong_after_kills(platform: Platform) -> None:
    storm = Storm(platform, Random(KILLS))
    storm.land()
    platform.run("headwaters", "ingest", "--once", "--target", "ingestion")
    checked = 0
    try:
        while storm.killed.total() < KILLS:
            storm.land()
            storm.keep_running()
            time.sleep(storm.rng.uniform(0.5, 8))
            storm.kill()
            print(dict(storm.killed), len(storm.orders), storm.ended, flush=True)
            if storm.killed.total() >= checked + 40:
                storm.stop()
                storm.check()
                checked = storm.killed.total()
                print(f"right after {checked} kills", flush=True)
    finally:
        storm.stop()
    if storm.killed.total() > checked:
        storm.check()
