"""Starting and ending servers that outlive the command: engine, Kafka broker, PostgreSQL."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from headwaters.errors import UserError, WorkError
from headwaters.servers import alive, check_port, listens


def free_port(port: int | None = None, usual: int = 0) -> int:
    """The port, if it is free, or else, where none is named, the usual one or any.

    Raises UserError when the port that was named is taken, or is none.
    """
    check_port(port, "--port")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", usual if port is None else port))
        except OSError:
            if port:
                raise UserError(
                    "HW_PORT",
                    f"port {port} is taken: choose another --port, or none to get a free one",
                ) from None
            probe.bind(("127.0.0.1", 0))
        chosen: int = probe.getsockname()[1]
        return chosen


def await_start(
    process: subprocess.Popen[bytes], port: int, what: str, log: Path, patience: float
) -> None:
    """Wait until a server listens; it is ended when it does not.

    Raises WorkError, with the last line that the server said.
    """
    until = time.monotonic() + patience
    try:
        while not listens(port):
            if process.poll() is not None:
                said = [
                    line for line in log.read_text(errors="replace").splitlines() if line.strip()
                ]
                reason = said[-1].strip() if said else f"exit code {process.returncode}"
                raise WorkError("HW_SERVER", f"{what} ended while it started: {reason} (see {log})")
            if time.monotonic() > until:
                raise WorkError(
                    "HW_SERVER", f"{what} does not listen after {patience:.0f} seconds (see {log})"
                )
            time.sleep(0.1)
    except BaseException:
        end(process.pid)
        raise


def end(pid: int, patience: float = 20.0, kindly: int = signal.SIGTERM) -> None:
    """End a server, kindly and then not, and wait until it is gone."""
    for number in (kindly, signal.SIGKILL):
        until = time.monotonic() + patience
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        while alive(pid):
            if time.monotonic() > until:
                break
            time.sleep(0.05)
        else:
            return
    raise WorkError("HW_SERVER", f"process {pid} does not end")
