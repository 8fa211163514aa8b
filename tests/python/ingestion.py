"""Shared parts of the ingestion tests: a worker process with Spark, and sources for it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from processes import environment

from headwaters.platform.project import Project

ROOT = Path(__file__).resolve().parents[2]
Node = dict[str, Any]


@contextmanager
def start_worker(lake: Path, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """Start a worker in a new process group, so that a test can kill it together with its Spark."""
    memory = os.environ.get("HEADWATERS_DRIVER_MEMORY", "1500m")
    script = Path(__file__).with_name("ingest_worker.py")
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**environment(lake), "HEADWATERS_DRIVER_MEMORY": memory, **variables},
        start_new_session=True,
    ) as process:
        try:
            yield process
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
        assert process.stdin
        process.stdin.close()
        process.wait(120)


@dataclass
class Ingester:
    """The worker process: see ingest_worker.py."""

    process: subprocess.Popen[str]
    lake: Path

    def ask(self, **request: Any) -> Any:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def run(self, *nodes: Node, code: int = 0, **more: Any) -> list[str]:
        """Run streams on this lake and return the printed lines."""
        answer = self.ask(lake=str(self.lake), nodes=nodes, **more)
        assert answer["code"] == code, answer
        return [re.sub(r" in [\d.]+ s$", "", line) for line in answer["lines"]]

    @contextmanager
    def running(
        self, *nodes: Node, every: float, code: int = 0, **more: Any
    ) -> Iterator[Callable[[], dict[str, float]]]:
        """Run streams until SIGTERM; the context yields their metrics, by name and reason."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        assert self.process.stdin and self.process.stdout
        request = {
            "lake": str(self.lake),
            "nodes": nodes,
            "trigger": every,
            "metrics_port": port,
            **more,
        }
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

        def metrics() -> dict[str, float]:
            try:
                with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                    lines = answer.read().decode().splitlines()
            except URLError:  # not started yet
                return {}
            pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
            return {name.removeprefix("headwaters_"): float(value) for name, value in pairs}

        try:
            yield metrics
        finally:
            self.process.send_signal(signal.SIGTERM)
            answer = json.loads(self.process.stdout.readline())
        assert answer["code"] == code, answer

    def land(self, name: str, *records: str | bytes, stream: str = "orders") -> Path:
        """Write a file of a stream, one record a line."""
        file = self.lake / "landing" / stream / name
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = [r if isinstance(r, bytes) else r.encode() for r in records]
        file.write_bytes(b"".join(line + b"\n" for line in lines))
        return file

    def rows(self, table: str, columns: str = "*", order: str | None = None) -> list[list[Any]]:
        """Return a table's rows in order."""
        path = self.lake / "warehouse" / "bronze.db" / table
        ordered = order or columns
        rows = self.ask(sql=f"select {columns} from delta.`{path}` order by {ordered}")
        assert isinstance(rows, list), rows
        return [list(row.values()) for row in rows]

    def quarantine(self, stream: str = "orders") -> list[list[Any]]:
        columns = "reason, field, message, record"
        return self.rows(f"{stream}_quarantine", columns, "record, reason")


def bare_project(folder: Path) -> Project:
    """Create a project of a profile alone, for code that needs a lake's place."""
    (folder / "dbt_project.yml").write_text("name: bare\nversion: 1.0.0\nprofile: bare\n")
    target = "{type: headwaters, schema: main, lake: lake}"
    (folder / "profiles.yml").write_text(f"bare: {{target: dev, outputs: {{dev: {target}}}}}\n")
    return Project(folder)


def node(
    columns: dict[str, str],
    stream: dict[str, Any] | None = None,
    name: str = "orders",
    rules: dict[str, list[dict[str, str]]] | None = None,
    expressions: dict[str, str] | None = None,
) -> Node:
    """Return a source of dbt's manifest."""
    return {
        "original_file_path": f"models/bronze/{name}.yml",
        "source_name": "bronze",
        "schema": "bronze",
        "name": name,
        "identifier": name,
        "config": {
            "meta": {
                "stream": {"from": "files", "path": f"landing/{name}", "format": "json"}
                | (stream or {})
            }
        },
        "columns": {
            column: {
                "name": column,
                "data_type": kind,
                "constraints": (rules or {}).get(column, []),
                "config": {"meta": {"expression": (expressions or {}).get(column)}},
            }
            for column, kind in columns.items()
        },
    }


def modes(folder: Path) -> dict[str, int]:
    """Return the permissions of a folder and its contents."""
    return {
        str(path.relative_to(folder.parent)): path.stat().st_mode & 0o777
        for path in [folder, *folder.rglob("*")]
    }


def topic_stream(broker: str, topic: str, batch: int = 100_000, **rules: Any) -> Node:
    """Return a stream `orders` that reads a topic."""
    return node(
        {"id": "string", "amount": "decimal(8, 2)"},
        {
            "from": "kafka",
            "path": None,
            "topics": [topic],
            "servers": broker,
            "batch": {"max_records": batch},
        },
        rules=rules,
    )


def wait_for(condition: Callable[[], bool], patience: float = 90) -> None:
    """Wait until a condition is true."""
    until = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < until, "it does not come about"
        time.sleep(0.1)


def numbered(number: int) -> tuple[str, str]:
    """Return the key and value of a record; every tenth is malformed."""
    amount: Any = "FIVE HUNDRED" if number % 10 == 9 else number / 4
    return f"k{number % 7}", json.dumps({"id": f"r{number}", "amount": amount})


def audit(ingester: Ingester, declared: Node) -> list[str]:
    """Return the lines of `headwaters audit`."""
    lines: list[str] = ingester.ask(lake=str(ingester.lake), audit=[declared])
    return lines


def lose_one_and_repeat_another(ingester: Ingester, table: str, lost: str, again: str) -> None:
    """Delete the rows of one condition from a table of bronze, and repeat a row of the other."""
    bronze = f"delta.`{ingester.lake / 'warehouse' / 'bronze.db' / table}`"
    ingester.ask(sql=f"delete from {bronze} where {lost}")
    ingester.ask(sql=f"insert into {bronze} select * from {bronze} where {again} limit 1")


def kill(
    lake: Path | str, declared: list[Node], scratch: Path, how: dict[str, Any], **variables: str
) -> bool:
    """Run streams in a process and kill it, with its Spark, as `how` demands.

    Returns False if the run had ended before.
    """
    with start_worker(scratch, **variables) as process:
        assert process.stdin and process.stdout
        request = {"lake": str(lake), "nodes": declared, "kill": how}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()  # a killed process prints nothing more
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
    return not answer
