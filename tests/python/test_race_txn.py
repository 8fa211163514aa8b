"""Race Delta transactions of three drivers and delta-rs for one table on S3: none is lost.

TRANSACTIONS sets their number in all (default: 60).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
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
TABLE = f"s3a://{BUCKET}/warehouse/raced"
PATIENCE = 1200.0


def test_no_transaction_of_four_writers_is_lost_or_written_twice(tmp_path: Path) -> None:
    each = int(os.environ.get("TRANSACTIONS") or 60) // (len(DRIVERS) + 1)
    with running_gateway(tmp_path / "buckets") as gateway:
        options = storage_options(gateway)
        DeltaTable.create(
            TABLE,
            Schema([Field("i", PrimitiveType("integer"))]),
            configuration={"delta.checkpointInterval": "1000"},
            storage_options=options,
        )
        reported = race(each, gateway, options, tmp_path)
        committed = transactions(gateway.bucket / "warehouse" / "raced" / "_delta_log")
    assert len(reported) == each * (len(DRIVERS) + 1)
    assert Counter(reported) == committed


def race(each: int, gateway: Gateway, options: dict[str, str], folder: Path) -> list[str]:
    """Return the transactions that Spark and delta-rs reported as committed."""
    variables = {**environment(), **gateway.variables(), "PYTHONPATH": str(ROOT / "scripts")}
    program = Path(__file__).with_name("txn_driver.py")
    outputs = {name: folder / f"{name}.out" for name in DRIVERS}
    drivers = []
    try:
        for name, output in outputs.items():
            command = [sys.executable, str(program), name, str(each), TABLE, str(folder)]
            with output.open("w") as out, output.with_suffix(".err").open("w") as err:
                drivers.append(
                    subprocess.Popen(command, stdout=out, stderr=err, env=variables, cwd=folder)
                )
        until = time.monotonic() + PATIENCE
        while not all((folder / f"{name}.ready").exists() for name in DRIVERS):
            assert all(driver.poll() is None for driver in drivers), errors(outputs)
            assert time.monotonic() < until, "the drivers do not start"
            time.sleep(0.1)
        (folder / "go").touch()
        rust = [append(number, options) for number in range(each)]
        assert [driver.wait(PATIENCE + 2 * each) for driver in drivers] == [0, 0, 0], errors(
            outputs
        )
    finally:
        for driver in drivers:
            if driver.poll() is None:
                driver.kill()
    return [*rust, *(line for output in outputs.values() for line in output.read_text().split())]


def errors(outputs: dict[str, Path]) -> str:
    """Return the ends of the drivers' error outputs."""
    return "\n".join(output.with_suffix(".err").read_text()[-2000:] for output in outputs.values())


def append(number: int, options: dict[str, str]) -> str:
    """Append a row with delta-rs, and return its transaction."""
    properties = CommitProperties(
        app_transactions=[Transaction(f"rust-{number}", 1)], max_commit_retries=100_000
    )
    rows = pa.table({"i": pa.array([number], pa.int32())})
    write_deltalake(
        TABLE, rows, mode="append", storage_options=options, commit_properties=properties
    )
    return f"rust-{number}"


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
