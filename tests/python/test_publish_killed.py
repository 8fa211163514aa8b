"""A publisher is killed in the middle, and what is published equals the table at its version."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from ingestion import ROOT
from processes import environment
from publishing import Gold, to_kafka, to_postgres

KILLS = int(os.environ.get("KILLS", "50"))


@pytest.mark.slow
def test_a_killed_publisher_leaves_a_version_and_nothing_else(
    tmp_path: Path, postgres: str, broker: str
) -> None:
    rng, topic = Random(23), f"p_{time.time_ns()}"
    table = Gold(tmp_path / "value", *[(one, f"n{one}", None) for one in range(5_000)])
    to = to_postgres(postgres, patience=30), to_kafka(broker, topic, patience=60)
    paths = os.pathsep.join(str(ROOT / one) for one in ("scripts", "tests/python"))
    command = [sys.executable, str(Path(__file__).with_name("publish_worker.py")), str(table.path)]
    places = [postgres, ""], [broker, topic]
    versions: list[set[int]] = [set(), set()]
    for number in range(KILLS):
        which = number % 2
        with subprocess.Popen(
            command + places[which],
            env={**environment(), "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            text=True,
        ) as worker:
            assert worker.stdout
            # killed at its start, or once it publishes what changes meanwhile
            assert worker.stdout.readline()
            if number % 4 > 1:
                table.put((10_000 + number, "k", None))
                assert worker.stdout.readline()
            until = time.monotonic() + rng.random()
            while time.monotonic() < until:
                some = rng.randint(1, 5)
                table.table.update({"name": f"'u{rng.random()}'"}, predicate=f"id % {some} = 0")
                table.table.delete(f"id % 1009 = {rng.randrange(1009)}")
            worker.kill()
        found = to[which].compare(table.source)
        assert found is None or found.equal, found
        versions[which].add(found.version if found else -1)
    for target in to:
        target.publish(table.source)
        found = target.compare(table.source)
        assert found and found.equal
        assert (found.version, found.rows) == (table.table.version(), len(table.rows()))
    # kills came at many versions
    assert all(len(seen) > KILLS / 6 for seen in versions), versions
