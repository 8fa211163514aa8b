"""Kill publishers, and compare the published rows with the table at its published version.

Plain SQL and a plain consumer read the published rows.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from ingestion import ROOT
from processes import environment
from psycopg.rows import dict_row
from publishing import SCHEMA, Gold, as_records, compacted, to_kafka, to_postgres

KILLS = int(os.environ.get("KILLS", "50"))  # of the publishers to each of the two targets


def in_postgres(url: str) -> tuple[int | None, list[dict[str, Any]]]:
    """Return the published version and the whole table, as a reader has them in one transaction."""
    with psycopg.connect(url, row_factory=dict_row) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        made = "select from pg_tables where tablename in ('value', 'headwaters_published')"
        if not connection.execute(made).fetchall():
            return None, []
        state = connection.execute("select version from headwaters_published").fetchall()
        rows = connection.execute("select * from value order by id").fetchall()
        (version,) = (one["version"] for one in state)
        return version, rows


def in_kafka(broker: str, topic: str) -> tuple[int | None, dict[str, Any]]:
    """Return the published version and the compacted topic.

    End the transaction of the killed publisher first, as its successor does: the broker writes the
    end of a transaction into one partition after the other.
    """
    left = {"bootstrap.servers": broker, "transactional.id": f"headwaters-publish-{topic}"}
    Producer(left).init_transactions(60)
    state = compacted(broker, f"{topic}.published")
    return state.get("gold.value", {}).get("version"), compacted(broker, topic)


@pytest.mark.slow
def test_a_killed_publisher_leaves_a_version_and_nothing_else(
    tmp_path: Path, postgres: str, broker: str
) -> None:
    rng, topic = Random(23), f"p_{time.time_ns()}"
    rows = [(one, f"n{one}", Decimal(one + 1).scaleb(-2)) for one in range(5_000)]
    table = Gold(tmp_path / "value", *rows)
    paths = os.pathsep.join(str(ROOT / one) for one in ("scripts", "tests/python"))
    command = [sys.executable, str(Path(__file__).with_name("publish_worker.py")), str(table.path)]
    places = [postgres, ""], [broker, topic]
    versions: list[set[int | None]] = [set(), set()]

    def see_equal(which: int) -> int | None:
        """Compare the target with the table at the published version, and return that version."""
        version, found = in_kafka(broker, topic) if which else in_postgres(postgres)
        held = [] if version is None else table.at(version)
        assert found == (as_records(held) if which else held), (which, version)
        return version

    for number in range(2 * KILLS):
        which = number % 2
        with subprocess.Popen(
            command + places[which],
            env={**environment(), "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            text=True,
        ) as worker:
            assert worker.stdout
            # killed at its start, or while it publishes new changes
            assert worker.stdout.readline()
            if number % 4 > 1:
                table.put((10_000 + number, "k", None))
                assert worker.stdout.readline()
            if number == KILLS:
                wider = pa.field("note", pa.string())
                table.put((20_000, "k", None, "new"), schema=SCHEMA.append(wider))
            until = time.monotonic() + rng.random()
            while time.monotonic() < until:
                some = rng.randint(1, 5)
                table.table.update({"name": f"'u{rng.random()}'"}, predicate=f"id % {some} = 0")
                table.table.delete(f"id % 1009 = {rng.randrange(1009)}")
            worker.kill()
        versions[which].add(see_equal(which))
    for which, target in enumerate((to_postgres(postgres), to_kafka(broker, topic))):
        target.publish(table.source)
        assert see_equal(which) == table.table.version()
    assert "note" in table.at(table.table.version())[0]
    # kills came at many versions
    assert all(len(seen) > KILLS / 3 for seen in versions), versions
