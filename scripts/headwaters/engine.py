"""The engine: a local Spark Connect server, so that many processes share one warm Spark.

`<lake>/engine/engine.json` says where it listens and which process it is. That the engine runs is
told by the metastore's lock, which the server inherits, never by that file alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from headwaters import metastore
from headwaters.environment import find_java
from headwaters.errors import UserError, WorkError
from headwaters.project import Project

DEFAULT_PORT = 15002


@dataclass(frozen=True)
class Engine:
    """A running engine: its process and the port on 127.0.0.1 where it listens."""

    pid: int
    port: int

    @property
    def address(self) -> str:
        """What Spark's `spark.remote` takes."""
        return f"sc://127.0.0.1:{self.port}"


def find(lake: Path) -> Engine | None:
    """The engine that runs on this lake, or None."""
    try:
        engine = Engine(**json.loads((lake / "engine" / "engine.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return engine if _listens(engine.port) and _alive(engine.pid) else None


def answers(address: str) -> bool:
    """Whether something listens at a `spark.remote`; the client itself would retry for minutes."""
    url = urlsplit(address.split(";")[0])
    with socket.socket() as probe:
        probe.settimeout(10)
        return probe.connect_ex((url.hostname or "", url.port or DEFAULT_PORT)) == 0


def start(project: Project, port: int | None = None, patience: float = 90.0) -> Engine:
    """Start the engine with the Spark settings of the target `local`, and wait until it listens.

    `port` None takes 15002, or a free port when that is taken. An engine that already runs is
    returned as it is. Raises WorkError when another process holds the metastore, or Spark ends.
    """
    lake = project.lake
    if (running := find(lake)) is not None:
        return running
    find_java()
    lock = metastore.hold(lake, "headwaters engine")
    chosen = _free_port(port)
    log = lake / "logs" / "engine.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            _command(project, chosen),
            cwd=project.root,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=[lock],
        )
    metastore.sign(lock, "headwaters engine", process.pid)  # the server has inherited the lock
    metastore.release(lake)
    try:
        _await_start(process, chosen, log, patience)
    except BaseException:
        _end(process.pid)
        raise
    engine = Engine(pid=process.pid, port=chosen)
    record = lake / "engine" / "engine.json"
    record.parent.mkdir(parents=True, exist_ok=True)
    draft = record.with_suffix(".draft")
    draft.write_text(json.dumps(asdict(engine)))
    draft.replace(record)
    return engine


def stop(project: Project) -> Engine | None:
    """Stop the engine of this lake and wait until its metastore is free; None if none runs."""
    engine = find(project.lake)
    if engine is not None:
        _end(engine.pid)
    (project.lake / "engine" / "engine.json").unlink(missing_ok=True)
    return engine


def _command(project: Project, port: int) -> list[str]:
    import pyspark

    settings = {
        **project.spark_settings("local"),
        "spark.sql.catalogImplementation": "hive",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
    ]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    return [*command, "spark-internal"]


def _await_start(process: subprocess.Popen[bytes], port: int, log: Path, patience: float) -> None:
    until = time.monotonic() + patience
    while not _listens(port):
        if process.poll() is not None:
            said = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
            reason = said[-1].strip() if said else f"exit code {process.returncode}"
            raise WorkError(f"the engine ended while it started: {reason} (see {log})")
        if time.monotonic() > until:
            raise WorkError(f"the engine does not listen after {patience:.0f} seconds (see {log})")
        time.sleep(0.1)


def _free_port(port: int | None) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", DEFAULT_PORT if port is None else port))
        except OSError:
            if port is not None:
                raise UserError(
                    f"port {port} is taken: choose another --port, or none to get a free one"
                ) from None
            probe.bind(("127.0.0.1", 0))
        chosen: int = probe.getsockname()[1]
        return chosen


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _end(pid: int, patience: float = 20.0) -> None:
    """End a server, kindly and then not, and wait until it is gone."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + patience
        try:
            os.kill(pid, number)
            while time.monotonic() < until:
                with contextlib.suppress(ChildProcessError):  # it may be the child of another
                    os.waitpid(pid, os.WNOHANG)
                os.kill(pid, 0)
                time.sleep(0.05)
        except ProcessLookupError:
            return
    raise WorkError(f"process {pid} does not end")
