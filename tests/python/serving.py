"""Serve an HTTP endpoint for tests: uvicorn in a thread, and a client."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from ingestion import ROOT, Node, node, wait_for
from processes import environment
from topics import messages

from headwaters.http.app import Application, Endpoint
from headwaters.http.keys import Keys
from headwaters.http.limits import Limits, configured
from headwaters.http.run import ServeOptions, endpoints_of, listening
from headwaters.platform.project import Project
from headwaters.streams.contract import Contract, parse_contract

NOT_NULL = {"type": "not_null"}


@contextmanager
def served(
    endpoints: Sequence[Endpoint], keys: Sequence[str] = (), limits: Limits | None = None
) -> Iterator[httpx.Client]:
    """Serve on a free port, and yield a client."""
    app = Application(endpoints, Keys(keys), limits or Limits()).asgi()
    listener = listening("127.0.0.1", 0)
    server = uvicorn.Server(configured(app))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    wait_for(lambda: server.started or not thread.is_alive())
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        with httpx.Client(base_url=address, timeout=60) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()


def endpoints(*nodes: Node, port: int = 1, **options: Any) -> list[Endpoint]:
    """Return the endpoints of some streams, on the lake of HEADWATERS_LAKE."""
    contracts = [parse_contract(one) for one in nodes]
    return endpoints_of(Project(ROOT), contracts, ServeOptions(**options), port)


def orders(broker: str, *topics: str, **more: Any) -> Node:
    """Return a stream `orders` that reads topics."""
    stream = {"from": "kafka", "path": None, "topics": list(topics), "servers": broker}
    rules = {
        "id": [NOT_NULL],
        "amount": [{"type": "check", "expression": "amount > 0"}],
    }
    return node({"id": "string", "amount": "decimal(8, 2)"}, stream | more, rules=rules)


def inbox(columns: dict[str, str] | None = None, **more: Any) -> Node:
    """Return a stream `orders` that reads a Delta table of the lake."""
    stream = {"from": "delta", "path": "inbox/orders", "format": None}
    rules = {"id": [NOT_NULL]}
    return node(columns or {"id": "string", "amount": "decimal(8, 2)"}, stream | more, rules=rules)


def in_topic(broker: str, topic: str) -> list[tuple[int, int, str | None, str]]:
    """Return partition, offset, key and text of a topic's committed records, without tombstones."""
    found = []
    for partition, offset, key, value in messages(broker, topic):
        assert value is not None
        found.append((partition, offset, key, value))
    return found


def ndjson(*records: object) -> bytes:
    """Return records, one a line."""
    return b"".join(json.dumps(one).encode() + b"\n" for one in records)


@contextmanager
def command(
    folder: Path, lake: Path, streams: Sequence[dict[str, Any]], *options: str, **variables: str
) -> Iterator[tuple[subprocess.Popen[str], list[str], str]]:
    """Run `headwaters serve` in a project of these sources; yield process, output, address."""
    (folder / "models").mkdir(parents=True)
    (folder / "dbt_project.yml").write_text("name: bare\nversion: 1.0.0\nprofile: bare\n")
    target = f"{{type: headwaters, schema: main, lake: '{lake}'}}"
    (folder / "profiles.yml").write_text(f"bare: {{target: dev, outputs: {{dev: {target}}}}}\n")
    declared = {"sources": [{"name": "bronze", "tables": streams}]}
    (folder / "models" / "bronze.yml").write_text(json.dumps(declared))
    with subprocess.Popen(
        [sys.executable, "-m", "headwaters.cli", "serve", "--port", "0", *options],
        cwd=folder,
        env={**environment(lake), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout
        said: list[str] = []
        while not said or "serving at" not in said[-1]:
            said.append(process.stdout.readline())
            assert said[-1], "".join(said)
        try:
            yield process, said, said[-1].split()[2]
        finally:
            process.send_signal(signal.SIGTERM)
            said += process.stdout.readlines()


def source(name: str, columns: dict[str, str], **stream: Any) -> dict[str, Any]:
    """Return a source as a project's YAML has it."""
    return {
        "name": name,
        "config": {"meta": {"stream": stream}},
        "columns": [{"name": one, "data_type": kind} for one, kind in columns.items()],
    }


def contract_of(declared: Node) -> Contract:
    """Return the contract of a stream."""
    return parse_contract(declared)
