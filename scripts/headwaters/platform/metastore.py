"""The lock that gives the embedded metastore to one Spark at a time.

Derby, the metastore's embedded database, belongs to one JVM. A second one dies with pages of Java
text after ten seconds. Each process that starts a Spark on this lake (dbt, ingestion, the engine)
therefore first takes `<lake>/metastore.lock`. The lock is an flock: it dies with its process, also
after kill -9.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from headwaters.platform.errors import WorkError

_held: dict[Path, int] = {}


def hold(lake: Path, who: str) -> int:
    """Take the lake's metastore for this process, for as long as it lives.

    `who` names the holder to others ("dbt run", "headwaters engine"). Returns the lock's file
    descriptor: a child that inherits it keeps the lock. Repeated calls are harmless. Raises
    WorkError, one line, if another process has it.
    """
    path = (lake / "metastore.lock").resolve()
    if path in _held:
        return _held[path]
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)  # less the umask
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 200).decode(errors="replace").strip() or "another process"
        os.close(descriptor)
        raise WorkError(
            "HW_METASTORE_IN_USE",
            f"the metastore in {lake} is in use by {holder}: {_advice(holder)}",
        ) from None
    _await_derby(lake, descriptor)
    sign(descriptor, who, os.getpid())
    _held[path] = descriptor
    return descriptor


def sign(lock: int, who: str, pid: int) -> None:
    """Write the holder into the lock's file."""
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{who} (process {pid})".encode(), 0)


def release(lake: Path) -> None:
    """Give the metastore up before the process ends; children that inherited the lock keep it."""
    descriptor = _held.pop((lake / "metastore.lock").resolve(), None)
    if descriptor is not None:
        os.close(descriptor)


def _advice(holder: str) -> str:
    if holder.startswith("headwaters engine"):
        return "use it with --target engine, or end it with `headwaters engine stop`"
    if holder.startswith("headwaters cluster"):
        return "use it with --target cluster, or end it with `headwaters cluster stop`"
    return (
        "wait until it has ended, or share one Spark (`headwaters engine start`, --target engine)"
    )


def _await_derby(lake: Path, lock: int, patience: float = 15.0) -> None:
    """Wait for a JVM that outlives its killed parent to leave the database."""
    database = lake / "metastore" / "dbex.lck"
    until = time.monotonic() + patience
    while database.exists():
        with database.open("r+b") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                pass
        if time.monotonic() > until:
            os.close(lock)
            raise WorkError(
                "HW_METASTORE_IN_USE",
                f"the metastore in {lake} is in use by a Spark that headwaters did not start: "
                "end that process, then run this again",
            )
        time.sleep(0.2)
