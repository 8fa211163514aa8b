"""The start and end of servers that outlive the command: engine, Kafka broker, PostgreSQL."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from headwaters.platform.errors import UserError, WorkError
from headwaters.platform.servers import alive, check_port, listens, listens_itself

# Another process may take a free port before the server binds it.
TRIES = 3


def free_ports(port: int | None = None, usual: int = 0, number: int = 1) -> list[int]:
    """Return different free ports: the requested or usual one first, the others arbitrary.

    Raises UserError if the requested port is taken or invalid.
    """
    check_port(port, "--port")
    with contextlib.ExitStack() as bound:  # held until all are chosen
        try:
            first = _bind(bound.enter_context(socket.socket()), usual if port is None else port)
        except OSError:
            if port:
                raise UserError(
                    "HW_PORT",
                    f"port {port} is taken: choose another --port, or none to get a free one",
                ) from None
            first = _bind(bound.enter_context(socket.socket()), 0)
        further = (bound.enter_context(socket.socket()) for _ in range(number - 1))
        return [first, *(_bind(one, 0) for one in further)]


def _bind(probe: socket.socket, port: int) -> int:
    # connections to a stopped server linger and must not block its successor
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1 if port else 0)
    probe.bind(("127.0.0.1", port))
    chosen: int = probe.getsockname()[1]
    return chosen


@contextlib.contextmanager
def starting(
    command: Callable[..., Sequence[str]],
    what: str,
    output: IO[bytes],
    patience: float,
    port: int | None = None,
    usual: int = 0,
    ports: int = 1,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    keeps: Collection[int] = (),
) -> Iterator[tuple[int, int]]:
    """Start a server that outlives this command. Yield its process and port once it listens.

    `command` gets its `ports` from `free_ports`. If the server ends because a port was taken, it
    starts again with others. Its output goes to `output`, and it inherits the file descriptors
    `keeps`. It is killed if it does not listen within `patience` seconds, or if the context raises
    or gets Ctrl-C. Raises UserError if the requested port is taken, or WorkError with the server's
    last line.
    """
    process = None
    tries = 0
    try:
        while True:
            tries += 1
            chosen = free_ports(port, usual, ports)
            made = command(*chosen)
            with _interrupted_later():
                process = subprocess.Popen(
                    made,
                    cwd=cwd,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=keeps,
                )
            try:
                _await(process, chosen[0], what, Path(output.name), patience)
                break
            except WorkError:
                was_taken = process.poll() is not None and any(map(listens, chosen))
                if not was_taken or tries == TRIES:
                    raise
                process = None
        yield process.pid, chosen[0]
    except BaseException:
        if process is not None:
            end(process.pid)
        raise


def page(port: int, path: str) -> dict[str, Any]:
    """Return a JSON object that a server on this machine answers, empty if it does not answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        found = json.loads(connection.getresponse().read())
    except (OSError, ValueError, http.client.HTTPException):
        return {}
    finally:
        connection.close()
    return found if isinstance(found, dict) else {}


@contextlib.contextmanager
def _interrupted_later() -> Iterator[None]:
    """Hold Ctrl-C back: it would interrupt a start before the process's number is known."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
    if pressed:
        signal.raise_signal(signal.SIGINT)


def _await(
    process: subprocess.Popen[bytes], port: int, what: str, log: Path, patience: float
) -> None:
    until = time.monotonic() + patience
    while not listens_itself(process.pid, port):
        if process.poll() is not None:
            said = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
            reason = said[-1].strip() if said else f"exit code {process.returncode}"
            raise WorkError("HW_SERVER", f"{what} ended while it started: {reason} (see {log})")
        if time.monotonic() > until:
            raise WorkError(
                "HW_SERVER", f"{what} does not listen after {patience:.0f} seconds (see {log})"
            )
        time.sleep(0.1)


def end(pid: int, patience: float = 20.0, kindly: int = signal.SIGTERM) -> None:
    """End a server, first gently and then by force, and wait until it is gone."""
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
