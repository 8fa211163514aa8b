"""Servers that outlive the command that started them: the engine, Kafka, PostgreSQL.

A file records each one's address and process.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from headwaters.platform import atomic_write
from headwaters.platform.errors import UserError

LOOPBACK = ("127.0.0.1", "::1", "localhost")
LISTEN = "0A"  # a socket's state in /proc


@dataclass(frozen=True)
class Server:
    """A server: its process and its port on 127.0.0.1."""

    pid: int
    port: int

    @classmethod
    def last(cls, record: Path) -> Self | None:
        """Return the last started server, whether it runs or not."""
        try:
            return cls(**json.loads(record.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    @classmethod
    def running(cls, record: Path) -> Self | None:
        """Return the running server, or None."""
        found = cls.last(record)
        return found if found and listens_itself(found.pid, found.port) else None

    def remember(self, record: Path) -> None:
        """Record the server in one step, for its owner alone."""
        record.parent.mkdir(parents=True, exist_ok=True)
        atomic_write.write_private(record, json.dumps(asdict(self)))


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Return true if a process listens there."""
    try:
        with socket.create_connection((host, port), 1 if host in LOOPBACK else 10):
            return True
    except OSError:
        return False


def listens_itself(pid: int, port: int) -> bool:
    """Return true if this user's process listens there, and not another one.

    Without a readable /proc, return true if the process runs and any process listens.
    """
    process = Path(f"/proc/{pid}")
    try:
        if Path("/proc/self").exists():
            return not _listening(process, port).isdisjoint(_sockets(process))
    except PermissionError:
        pass
    except OSError:  # the process has ended
        return False
    return alive(pid) and listens(port)


def _listening(process: Path, port: int) -> set[str]:
    """Return the listening sockets of a port, by the names of the process's descriptors."""
    found = set()
    for table in ("tcp", "tcp6"):  # Java binds 127.0.0.1 by the latter
        with contextlib.suppress(FileNotFoundError):  # a system without IPv6
            for line in (process / "net" / table).read_text().splitlines()[1:]:
                _, local, _, state, *_, inode = line.split()[:10]
                if state == LISTEN and int(local.rpartition(":")[2], 16) == port:
                    found.add(f"socket:[{inode}]")
    return found


def _sockets(process: Path) -> Iterator[str]:
    for descriptor in (process / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since then
            yield str(descriptor.readlink())


def check_port(port: int | None, option: str) -> None:
    """Raise UserError if an option names an impossible port."""
    if port is not None and not 0 <= port <= 65535:
        raise UserError(
            "HW_PORT", f"{option} {port} is not a port: choose one from 1 to 65535, or 0 for any"
        )


def alive(pid: int) -> bool:
    """Return true if a process of this user runs."""
    with contextlib.suppress(ChildProcessError):  # it may be the child of another process
        os.waitpid(pid, os.WNOHANG)
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
