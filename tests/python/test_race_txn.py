"""Race Delta transactions of three drivers and delta-rs for tables on S3: none is lost.

TRANSACTIONS sets their number (default: 60). A table takes 400 at most.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction, write_deltalake
from deltalake.schema import PrimitiveType
from processes import ROOT, environment
from s3_gateway import Gateway, running_gateway

from headwaters.devkit.objects import BUCKET

pytestmark = pytest.mark.platform

DRIVERS = ("a", "b", "c")
PREFIX = f"s3a://{BUCKET}/warehouse/raced"
OF_A_TABLE = 400
PATIENCE = 1200.0
# delta-rs commits this many times for each commit of a driver, which takes ten times as long.
OF_RUST = 17


def test_no_transaction_of_four_writers_is_lost_or_written_twice(tmp_path: Path) -> None:
    wanted = int(os.environ.get("TRANSACTIONS") or 60)
    tables = -(-wanted // OF_A_TABLE)
    each = -(-wanted // (tables * (len(DRIVERS) + OF_RUST)))
    with running_gateway(tmp_path / "buckets") as gateway:
        reported = race(each, tables, gateway, tmp_path)
        logs = [gateway.bucket / "warehouse" / f"raced{n}" / "_delta_log" for n in range(tables)]
        committed = sum(map(transactions, logs), Counter[str]())
    assert len(reported) == each * tables * (len(DRIVERS) + OF_RUST) >= wanted
    assert Counter(reported) == committed


def race(each: int, tables: int, gateway: Gateway, folder: Path) -> list[str]:
    """Return the transactions that Spark and delta-rs reported as committed."""
    variables = {**environment(), **gateway.variables(), "PYTHONPATH": str(ROOT / "scripts")}
    program = Path(__file__).with_name("txn_driver.py")
    outputs = {name: folder / f"{name}.out" for name in DRIVERS}
    drivers = []
    try:
        for name, output in outputs.items():
            words = [name, str(each), str(tables), PREFIX, str(folder)]
            with output.open("w") as out, output.with_suffix(".err").open("w") as err:
                drivers.append(
                    subprocess.Popen(
                        [sys.executable, str(program), *words],
                        stdout=out,
                        stderr=err,
                        env=variables,
                        cwd=folder,
                    )
                )

        def wait_until(condition: Callable[..., bool], *arguments: object) -> None:
            until = time.monotonic() + PATIENCE
            while not condition(*arguments):
                ended = [driver for driver in drivers if driver.poll()]
                assert not ended and time.monotonic() < until, errors(outputs)
                time.sleep(0.05)

        options, rust = storage_options(gateway), []
        for table in range(tables):
            make(f"{PREFIX}{table}", options)
            ready = [folder / f"{name}-{table}" for name in DRIVERS]
            wait_until(are_there, ready)
            (folder / f"go-{table}").touch()
            for number in range(each * OF_RUST):
                least = table * each + number // OF_RUST - 1
                wait_until(have_lines, outputs.values(), least)
                rust.append(append(f"{PREFIX}{table}", f"rust-{table}-{number}", options))
        assert [driver.wait(PATIENCE) for driver in drivers] == [0, 0, 0], errors(outputs)
    finally:
        for driver in drivers:
            if driver.poll() is None:
                driver.kill()
    return [*rust, *(line for output in outputs.values() for line in output.read_text().split())]


def are_there(files: Iterable[Path]) -> bool:
    """Return true if all files exist."""
    return all(file.exists() for file in files)


def have_lines(files: Iterable[Path], least: int) -> bool:
    """Return true if each file has at least so many lines."""
    return all(file.read_bytes().count(b"\n") >= least for file in files)


def make(table: str, options: dict[str, str]) -> None:
    """Make an empty table."""
    DeltaTable.create(
        table,
        Schema([Field("i", PrimitiveType("integer"))]),
        configuration={"delta.checkpointInterval": "5"},
        storage_options=options,
    )


def errors(outputs: dict[str, Path]) -> str:
    """Return the ends of the drivers' error outputs."""
    return "\n".join(output.with_suffix(".err").read_text()[-2000:] for output in outputs.values())


def append(table: str, transaction: str, options: dict[str, str]) -> str:
    """Append a row with delta-rs in a transaction, and return it."""
    properties = CommitProperties(
        app_transactions=[Transaction(transaction, 1)], max_commit_retries=100_000
    )
    rows = pa.table({"i": pa.array([1], pa.int32())})
    write_deltalake(
        table, rows, mode="append", storage_options=options, commit_properties=properties
    )
    return transaction


def storage_options(gateway: Gateway) -> dict[str, str]:
    """Return the options with which delta-rs commits by a conditional put."""
    names = ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    given = {name: gateway.variables()[name] for name in names}
    return {**given, "AWS_ALLOW_HTTP": "true", "aws_conditional_put": "etag"}


def transactions(log: Path) -> Counter[str]:
    """Return how often each transaction is in a log without gaps."""
    files = sorted(log.glob("*.json"))
    assert [int(file.stem) for file in files] == list(range(len(files)))
    actions = (json.loads(line) for file in files for line in file.read_text().splitlines())
    return Counter(action["txn"]["appId"] for action in actions if "txn" in action)
