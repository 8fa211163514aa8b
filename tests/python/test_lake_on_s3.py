"""Test a lake in an object store, by commands of a project on a real S3 gateway."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ingestion import Ingester, kill, node, start_worker, wait_for
from processes import QUICK_JAVA, ROOT, environment
from s3_gateway import SECRET, Faults, Gateway, free_port, running_gateway, running_proxy

from headwaters.devkit.objects import BUCKET
from headwaters.platform import leases
from headwaters.platform.delta_rs import rows_of
from headwaters.platform.places import RemotePath, open_uri

pytestmark = pytest.mark.platform

LAKE = f"s3a://{BUCKET}/the/lake"
FILES = {
    "dbt_project.yml": "name: shop\nversion: 1.0.0\nprofile: shop\n",
    "profiles.yml": f"""
shop:
  target: dev
  outputs:
    dev: &dev
      type: headwaters
      schema: gold
      threads: 2
      lake: {LAKE}
      server_side_parameters: &settings
        spark.master: local[2]
        spark.driver.memory: 1g
        spark.driver.extraJavaOptions: "{QUICK_JAVA}"
    cluster:
      <<: *dev
      server_side_parameters: {{spark.remote: "sc://localhost:1"}}
    spark:
      <<: *dev
      server_side_parameters:
        <<: *settings
        spark.master: "{{{{ env_var('MASTER', 'spark://127.0.0.1:1') }}}}"
        spark.driver.host: 127.0.0.1
        spark.cores.max: "1"
        spark.executor.memory: 600m
    wrong:
      <<: *dev
      lake: s3a://absent/lake
""",
    "models/sources.yml": """
sources:
  - name: bronze
    schema: bronze
    tables:
      - name: orders
        config:
          meta:
            stream: {from: files, path: landing/orders, format: json, batch: {max_files: 2}}
        columns:
          - {name: id, data_type: string}
          - {name: amount, data_type: int}
      - name: visits
        config: {meta: {stream: {from: files, path: landing/visits, format: parquet}}}
        columns:
          - {name: page, data_type: string}
""",
    "models/totals.sql": """
{{ config(materialized='incremental', incremental_strategy='auto') }}
select orders.amount % 2 as kind, sum(orders.amount) as amount, count(*) as orders
from {{ source('bronze', 'orders') }} as orders
group by orders.amount % 2
""",
}


class Shop:
    """A project whose lake is in a bucket, and commands on it."""

    def __init__(self, folder: Path, gateway: Gateway, lake: str = LAKE) -> None:
        """Write the project's files."""
        self.folder, self.gateway = folder, gateway
        for name, text in FILES.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text.replace(LAKE, lake))
        paths = [str(ROOT / "scripts"), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.variables = {
            **environment(),
            **gateway.variables(),
            "PYTHONPATH": os.pathsep.join(paths),
        }
        self.lake = open_uri(lake, {})

    def start(self, *words: str, **more: str) -> subprocess.Popen[str]:
        """Start a command in a process group of its own."""
        program = ["dbt.cli.main"] if words[0] == "dbt" else ["headwaters.cli", words[0]]
        return subprocess.Popen(
            [sys.executable, "-m", *program, *words[1:]],
            cwd=self.folder,
            env={**self.variables, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *words: str, code: int = 0, **more: str) -> str:
        """Run a command, and return what it prints."""
        process = self.start(*words, **more)
        output, _ = process.communicate(timeout=300)
        assert process.returncode == code, output
        return output

    def land(self, stream: str, name: str, contents: bytes) -> None:
        """Put a file into the landing folder of a stream."""
        (self.lake / "landing" / stream / name).write_bytes(contents)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Yield a gateway that this process also finds by its environment."""
    with (
        running_gateway(tmp_path_factory.mktemp("gateway") / "buckets") as started,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in started.variables().items():
            patch.setenv(name, value)
        yield started


def orders(first: int, number: int) -> bytes:
    """Return lines of orders, of which each fifth has no number as its amount."""
    lines = (
        json.dumps({"id": f"o{one}", "amount": "many" if one % 5 == 4 else one})
        for one in range(first, first + number)
    )
    return "".join(f"{line}\n" for line in lines).encode()


def visits(*pages: str) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"page": list(pages)}), file)
    return file.getvalue()


def lines(output: str) -> list[str]:
    """Return the lines of an output, without durations."""
    return [line.partition(" in 0.")[0] for line in output.splitlines()]


def test_a_lake_in_a_bucket_works_from_landing_to_a_model(gateway: Gateway, tmp_path: Path) -> None:
    shop = Shop(tmp_path, gateway)
    for number in range(3):
        shop.land("orders", f"ä {number}.jsonl", orders(10 * number, 10))
    shop.land("visits", "1.parquet", visits("a", "b"))
    assert "3 files" in shop.run("streams")
    first = shop.run("ingest", "--once")
    assert "orders  24 rows, 6 quarantined (type amount 6)" in first
    assert "visits  2 rows" in first
    assert "nothing new" in shop.run("ingest", "--once")
    assert "orders: 30 read = 24 bronze + 6 quarantined: right" in shop.run("audit")
    assert "orders: 6 in quarantine" in shop.run("quarantine")

    assert "Completed successfully" in shop.run("dbt", "run")
    totals = shop.lake / "warehouse" / "gold.db" / "totals"
    query = "select kind, amount, orders from t order by kind"
    even = [one for one in range(30) if one % 5 != 4 and one % 2 == 0]
    odd = [one for one in range(30) if one % 5 != 4 and one % 2 == 1]
    assert list(rows_of(totals, query)) == [
        {"kind": 0, "amount": sum(even), "orders": len(even)},
        {"kind": 1, "amount": sum(odd), "orders": len(odd)},
    ]
    shop.land("orders", "3.jsonl", orders(30, 10))
    assert "8 rows, 2 quarantined" in shop.run("ingest", "--once")
    assert "computed in full from 32 rows" in shop.run("explain")
    shop.run("dbt", "run")
    assert sum(row["orders"] for row in rows_of(totals, query)) == 32
    shop.run("report")
    assert "gold.totals" in (tmp_path / "report.html").read_text()

    local = tmp_path / ".headwaters" / "s3a-lake-the-lake"
    assert {"logs", "metastore", "of.json"} <= {path.name for path in local.iterdir()}
    assert (local / "logs" / "ingest.jsonl").is_file()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


INGEST = ("ingest", "--once", "--select", "orders")


def test_a_lake_in_a_bucket_is_mended_and_copied(gateway: Gateway, tmp_path: Path) -> None:
    named = f"s3a://{BUCKET}/mended"
    shop = Shop(tmp_path, gateway, named)
    sources = tmp_path / "models" / "sources.yml"
    corrected = sources.read_text()
    check = "{name: amount, data_type: int, constraints: [{type: check, expression: amount < 6}]}"
    sources.write_text(corrected.replace("{name: amount, data_type: int}", check))
    shop.land("orders", "1.jsonl", orders(0, 10))
    assert "5 rows, 5 quarantined" in shop.run(*INGEST)

    sources.write_text(corrected)
    assert "3 would move to bronze" in shop.run("replay", "--select", "orders")
    shop.run("replay", "--select", "orders", "--apply")
    settle = ("quarantine", "settle", "orders", "--where", "reason = 'type'", "--reason", "known")
    shop.run(*settle, "--apply")
    assert shop.run("quarantine") == "no record is open\n"
    assert "orders: 10 read = 8 bronze + 2 quarantined" in shop.run("audit")
    shop.run("dbt", "run")

    copied = open_uri(f"{named}-copy", {})
    stored = gateway.bucket / "mended"
    for file in (path for path in stored.rglob("*") if path.is_file()):
        (copied / str(file.relative_to(stored))).write_bytes(file.read_bytes())
    copy = Shop(tmp_path, gateway, str(copied))
    assert f"[HW_LAKE_MOVED] the lake {copied} was copied" in copy.run(*INGEST, code=2)
    assert "nothing was changed: --apply does it" in copy.run("relocate")
    assert copy.run("relocate", "--apply").splitlines()[-1] == "done"
    assert "nothing new" in copy.run(*INGEST)
    copy.land("orders", "2.jsonl", orders(10, 10))
    assert "8 rows, 2 quarantined" in copy.run(*INGEST)
    copy.run("dbt", "run")
    for lake, number in ((shop.lake, 8), (copied, 16)):
        totals = rows_of(
            lake / "warehouse" / "gold.db" / "totals", "select sum(orders) as n from t"
        )
        assert list(totals) == [{"n": number}]


def test_a_lake_that_cannot_be_used_is_one_line_before_spark_starts(
    gateway: Gateway, tmp_path: Path
) -> None:
    shop = Shop(tmp_path, gateway)
    shop.land("orders", "unread.jsonl", orders(0, 1))  # without new files, no Spark would start
    shop.land("visits", "1.parquet", visits("a", "b"))
    away = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}"}
    cases: list[tuple[list[str], dict[str, str], int, str]] = [
        (["--target", "wrong"], {}, 2, "[HW_STORE_BUCKET] there is no bucket absent"),
        (["--target", "cluster"], {}, 2, "[HW_PROFILE] the target cluster is a Spark elsewhere"),
        ([], {"AWS_SECRET_ACCESS_KEY": "wrong"}, 2, "[HW_STORE_KEYS] the store of lake does not"),
        ([], {"AWS_ACCESS_KEY_ID": "nobody"}, 2, "[HW_STORE_KEYS] the store of lake does not"),
        ([], away, 1, "[HW_STORE_AWAY] the store of lake does not answer"),
    ]
    for words, variables, code, text in cases:
        output = shop.run("ingest", "--once", *words, code=code, **variables)
        assert text in output
        assert "Traceback" not in output
        assert output.count("\n") == 1, output


def test_a_bucket_that_is_read_only_is_one_line_and_is_read(
    gateway: Gateway, tmp_path: Path
) -> None:
    """The first write of a command finds out, so commands without one work as before."""
    lake = f"s3a://{BUCKET}/read-only"
    place = open_uri(lake, {})
    faults = Faults()
    with running_proxy(gateway.port, faults) as port:
        shop = Shop(tmp_path, gateway)
        profile = tmp_path / "profiles.yml"
        profile.write_text(profile.read_text().replace(LAKE, lake))
        shop.variables["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{port}"
        shop.lake = place
        shop.land("orders", "1.jsonl", orders(0, 10))
        shop.land("visits", "1.parquet", visits("a"))
        shop.run("ingest", "--once")
        shop.land("orders", "2.jsonl", orders(10, 10))
        faults.deny = lambda method, path: method in ("PUT", "POST", "DELETE")
        log = tmp_path / ".headwaters" / "s3a-lake-read-only" / "logs" / "spark.log"
        before = log.stat().st_size
        refused = shop.run("ingest", "--once", code=2)
        assert [line.partition("/lease/")[0] for line in refused.splitlines()] == [
            f"{name}  failed: [HW_STORE_READ_ONLY] these keys may not write to "
            f"{lake}/checkpoints/{name}"
            for name in ("orders", "visits")
        ]
        assert log.stat().st_size == before  # no Spark has started
        assert "1 files, 0.0 MB" in shop.run("streams")
        no_schema = shop.run("dbt", "run", code=2)
        faults.clear()
        shop.run("dbt", "run")
        faults.deny = lambda method, path: method in ("PUT", "POST", "DELETE")
        assert "no changes" in shop.run("dbt", "run")
        no_rows = shop.run("dbt", "run", "--full-refresh", code=1)
    refusal = "[HW_STORE_READ_ONLY] these keys may not write to "
    assert f"{refusal}read-only/warehouse/gold.db: permit it, or name another" in no_schema
    assert f"{refusal}{lake}/warehouse/gold.db/totals/part-" in no_rows


WORKED: dict[str, Any] = {
    "columns": {"id": "string", "amount": "int"},
    "stream": {"batch": {"max_files": 1}},
}


def variables_of(gateway: Gateway, lake: str, folder: Path) -> dict[str, str]:
    """Return the environment of a worker on a lake in the bucket."""
    paths = [str(ROOT / "scripts"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **gateway.variables(),
        "HEADWATERS_LAKE": lake,
        "HEADWATERS_LOCAL": str(folder / "local"),
        "PYTHONPATH": os.pathsep.join(paths),
    }


def expected(number: int) -> list[dict[str, Any]]:
    return [{"id": f"o{one}", "amount": one} for one in range(number) if one % 5 != 4]


def in_bronze(lake: RemotePath) -> list[dict[str, Any]]:
    table = lake / "warehouse" / "bronze.db" / "orders"
    return list(rows_of(table, "select id, amount from t order by amount"))


def test_an_ingester_that_is_killed_is_followed_and_nothing_is_repeated(
    gateway: Gateway, tmp_path: Path
) -> None:
    named = f"s3a://{BUCKET}/killed"
    lake, declared = open_uri(named, {}), [node(**WORKED)]
    variables = variables_of(gateway, named, tmp_path)
    points = ("bronze", "quarantine", "checkpoint")
    for number, point in enumerate(points):
        for file in range(2):
            at = 20 * number + 10 * file
            (lake / "landing" / "orders" / f"{at}.json").write_bytes(orders(at, 10))
        how = {"point": point, "batch": 1, "after": None}
        assert kill(named, declared, tmp_path / "scratch", how, **variables), point
    with start_worker(tmp_path / "scratch", **variables) as process:
        worker = Ingester(process, tmp_path)
        done = worker.ask(lake=named, nodes=declared)
        assert done["code"] == 0, done
        [verdict] = worker.ask(lake=named, audit=declared)
        assert verdict == "orders: 60 read = 48 bronze + 12 quarantined: right"
        assert in_bronze(lake) == expected(60)
        checkpoint = lake / "checkpoints" / "orders"
        assert [file.name for file in checkpoint.glob("*/*.tmp")] == []

        (lake / "landing" / "orders" / "60.json").write_bytes(orders(60, 10))
        with leases.held(checkpoint, "a process elsewhere", tmp_path / "elsewhere"):
            refused = worker.ask(lake=named, nodes=declared)
        assert refused["code"] == 1
        assert "[HW_STREAM_IN_USE] a process elsewhere is ingesting this" in refused["lines"][0]

        lost = lose_lease_in_a_batch(worker, named, gateway, tmp_path)
        assert lost["code"] == 1, lost
        assert "HW_LEASE_LOST" in lost["lines"][0]
        assert worker.ask(lake=named, nodes=declared)["code"] == 0
        assert in_bronze(lake) == expected(70)
        [verdict] = worker.ask(lake=named, audit=declared)
        assert verdict == "orders: 70 read = 56 bronze + 14 quarantined: right"


def lose_lease_in_a_batch(worker: Ingester, named: str, gateway: Gateway, folder: Path) -> Any:
    """Let another process take a stream over while a batch is written; return the run's answer."""
    pause, held = folder / "paused", gateway.bucket / "killed" / "checkpoints" / "orders" / "lease"
    assert worker.process.stdin and worker.process.stdout
    request = {"lake": named, "nodes": [node(**WORKED)], "pause_before": str(pause)}
    worker.process.stdin.write(json.dumps(request) + "\n")
    worker.process.stdin.flush()
    wait_for(pause.exists)
    then = time.time() - 120
    for file in held.glob("*.json"):
        os.utime(file, (then, then))
    place = open_uri(f"{named}/checkpoints/orders", {})
    with leases.held(place, "a process elsewhere", folder / "elsewhere"):
        wait_for(lambda: time.time() > then + 120 + leases._FRESH)
        pause.unlink()
        return json.loads(worker.process.stdout.readline())
