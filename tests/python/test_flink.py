"""Exchange data with a real Flink: a published topic, and files that ingestion reads.

PyFlink is installed once into an environment of its own, in the cache of downloads (828 MB).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from ingestion import Ingester, node
from publishing import Gold, to_kafka

from headwaters.devkit.flink import LOCK
from headwaters.platform.jars import CachedJars, cache_folder

pytestmark = pytest.mark.platform

FLINK = "apache-flink==2.2.1"
WORKER = Path(__file__).with_name("flink_worker.py")
ROWS = 5_000


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
    folder = ingester.lake / "landing" / "orders"
    folder.mkdir(parents=True)
    job = ("files", folder, tmp_path / "checkpoints", ROWS)
    ingest_from_a_killed_job(Job(flink, tmp_path / "flink.log", job), ingester, {})


def test_a_topic_of_a_killed_flink_is_ingested_exactly_once(
    flink: Path, ingester: Ingester, broker: str, topic: str, tmp_path: Path
) -> None:
    (jar,) = [one for one in CachedJars(LOCK).fetch() if "kafka" in one.name]
    stream = {"from": "kafka", "path": None, "topics": [topic], "servers": broker}
    job = ("sink", jar, broker, topic, tmp_path / "checkpoints", ROWS)
    ingest_from_a_killed_job(Job(flink, tmp_path / "flink.log", job), ingester, stream)


@dataclass
class Job:
    """A job of Flink, which is killed and started again."""

    python: Path
    log: Path
    words: Sequence[object]

    def start(self) -> subprocess.Popen[bytes]:
        """Start it, from its newest checkpoint on if there is one."""
        return start(self.python, self.log, *self.words)


def ingest_from_a_killed_job(job: Job, ingester: Ingester, stream: dict[str, Any]) -> None:
    """Kill a job after some of its rows are in bronze; all rows of its next run are there once."""
    declared = node({"id": "bigint", "name": "string"}, stream)
    process = job.start()
    try:
        before: list[Any] = []
        while not before:
            assert process.poll() is None, job.log.read_text()
            ingester.run(declared)
            before = ingester.rows("orders", "id")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
        assert len(before) < ROWS
        process = job.start()
        assert process.wait(400) == 0, job.log.read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert "restored chk-" in job.log.read_text()
    ingester.run(declared)
    assert ingester.rows("orders", "id, name") == [[n, f"n{n}"] for n in range(1, ROWS + 1)]
