"""Kill a broker under 200 clients: accepted records are there once, the others are not."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest
from deltalake import DeltaTable
from ingestion import ROOT
from processes import environment
from serving import command, source

from headwaters.devkit import broker as brokers
from headwaters.devkit.samples.send import make_topic
from headwaters.platform.project import Project

CLIENTS, SECONDS, RECORDS = 200, 60, 5
KILLED_AT, AWAY = 20.0, 5.0


def resident(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def clients(address: str, until: float) -> dict[tuple[int, int], int]:
    """Return the code of each request, by client and number; 0 without an answer."""
    answers: dict[tuple[int, int], int] = {}
    limits = httpx.Limits(max_connections=CLIENTS, max_keepalive_connections=CLIENTS)

    async def send(client: httpx.AsyncClient, who: int) -> None:
        number = 0
        while time.monotonic() < until:
            records = [{"id": f"{who}-{number}-{one}"} for one in range(RECORDS)]
            try:
                answer = await client.post("/streams/orders", json=records)
                answers[who, number] = answer.status_code
                if answer.status_code != 201:
                    assert answer.status_code in (429, 503), answer.text
                    await asyncio.sleep(float(answer.headers["retry-after"]))
            except httpx.TransportError:
                answers[who, number] = 0
            number += 1

    async with httpx.AsyncClient(base_url=address, timeout=90, limits=limits) as client:
        await asyncio.gather(*(send(client, who) for who in range(CLIENTS)))
    return answers


@pytest.mark.slow
def test_what_was_accepted_is_in_bronze_once_though_the_broker_was_killed(
    broker_lake: Path, tmp_path: Path
) -> None:
    project = Project(ROOT)
    broker = brokers.start(project)
    make_topic(broker.servers, "orders")
    streams = [
        source(
            "orders",
            {"id": "string"},
            **{"from": "kafka", "topics": ["orders"], "format": "json"},
        )
    ]
    memory: list[tuple[float, int]] = []
    lake = tmp_path / "lake"
    variables = {"KAFKA_BOOTSTRAP_SERVERS": broker.servers}
    with command(tmp_path / "project", lake, streams, **variables) as (process, _, address):

        async def run() -> dict[tuple[int, int], int]:
            begun = time.monotonic()
            sent = asyncio.create_task(clients(address, begun + SECONDS))
            killed = restarted = False
            while not sent.done():
                await asyncio.sleep(1)
                now = time.monotonic() - begun
                memory.append((now, resident(process.pid)))
                if not killed and now > KILLED_AT:
                    os.kill(broker.pid, signal.SIGKILL)
                    killed = True
                if not restarted and now > KILLED_AT + AWAY:
                    again = await asyncio.to_thread(brokers.start, project)
                    assert again.servers == broker.servers
                    restarted = True
            return await sent

        answers = asyncio.run(run())
        with httpx.Client(base_url=address) as client:
            assert client.get("/health").status_code == 200
    subprocess.run(
        [sys.executable, "-m", "headwaters.cli", "ingest", "--once"],
        cwd=tmp_path / "project",
        env={**environment(lake), **variables},
        check=True,
    )
    bronze = lake / "warehouse" / "bronze.db"
    found = Counter(
        DeltaTable(bronze / "orders").to_pyarrow_table(columns=["id"])["id"].to_pylist()
    )
    assert DeltaTable(bronze / "orders_quarantine").to_pyarrow_table().num_rows == 0
    codes = Counter(answers.values())
    print(f"codes {dict(codes)}, records {found.total():,}, memory {memory[5]} to {memory[-1]}")
    wrong = []
    for (who, number), code in answers.items():
        times = {found.pop(f"{who}-{number}-{one}", 0) for one in range(RECORDS)}
        if times not in ([{1}] if code == 201 else [{0}, {1}]):
            wrong.append((who, number, code, times))
    assert wrong == []
    assert not found
    assert codes[201] > 1000
    early = max(size for at, size in memory if at < KILLED_AT)
    late = max(size for at, size in memory if at >= KILLED_AT)
    assert late < early + 50_000_000
