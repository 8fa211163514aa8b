"""Exchange data with a real Flink: a published topic, and files that ingestion reads.

PyFlink is installed once into an environment of its own, in the cache of downloads (828 MB).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from ingestion import Ingester, node, wait_for
from publishing import Gold, to_kafka

from headwaters.devkit.flink import LOCK
from headwaters.platform.jars import CachedJars, cache_folder

pytestmark = pytest.mark.platform

FLINK = "apache-flink==2.2.1"
WORKER = Path(__file__).with_name("flink_worker.py")
ROWS = 2_000


@pytest.fixture(scope="module")
def flink() -> Path:
    """Return the Python that has PyFlink, installed if needed."""
    folder = cache_folder() / FLINK.replace("apache-", "").replace("==", "-")
    python, stamp = folder / "bin" / "python", folder / "installed"
    if not stamp.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", FLINK], check=True)
        stamp.touch()
    return python


def start(python: Path, log: Path, *words: object) -> subprocess.Popen[bytes]:
    """Start a job, with its Java in the same group of processes."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with log.open("ab") as output:
        return subprocess.Popen(
            [str(python), str(WORKER), *map(str, words)],
            env=variables,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def test_flink_reads_the_topic_of_a_published_table_as_the_table(
    flink: Path, broker: str, topic: str, tmp_path: Path
) -> None:
    (jar,) = [one for one in CachedJars(LOCK).fetch() if "kafka" in one.name]
    table = Gold(tmp_path / "t", *[(n, f"n{n}", None) for n in range(50)])
    target, rng = to_kafka(broker, topic), Random(1)
    target.publish(table.source)
    table.put((1_000, "é", None))
    for _ in range(6):  # with deletions, updates and a compaction
        table.step(rng)
        target.publish(table.source)
    log = tmp_path / "flink.log"
    assert start(flink, log, "topic", jar, broker, topic).wait(400) == 0, log.read_text()
    found = json.loads(log.read_text().splitlines()[-1])
    assert [tuple(row) for row in found] == [
        (key, name, None if amount is None else str(amount)) for key, name, amount in table.rows()
    ]


def test_files_of_a_killed_flink_are_ingested_exactly_once(
    flink: Path, ingester: Ingester, tmp_path: Path
) -> None:
    declared = node({"id": "bigint", "name": "string"})
    folder, log = ingester.lake / "landing" / "orders", tmp_path / "flink.log"
    folder.mkdir(parents=True)

    def complete() -> int:
        return sum(1 for file in folder.glob("part-*") if file.stat().st_size)

    job = ("files", folder, tmp_path / "checkpoints", ROWS)
    process = start(flink, log, *job)
    try:
        wait_for(lambda: complete() >= 3 or process.poll() is not None, 300)
        assert process.poll() is None, log.read_text()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
        ingester.run(declared)
        before = len(ingester.rows("orders", "id"))
        assert 0 < before < ROWS
        process = start(flink, log, *job)
        assert process.wait(400) == 0, log.read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert "restored chk-" in log.read_text()
    ingester.run(declared)
    assert ingester.rows("orders", "id, name") == [[n, f"n{n}"] for n in range(1, ROWS + 1)]
