"""Exclusive use of a place by one process: a lock of this machine, or a lease in the store.

A folder of this machine is held by `flock`, which dies with its process. A place in a store is held
by a lease: a chain of numbered files in its folder `lease`, each created by a conditional put. The
newest one names the owner, who adds a file every 20 seconds. If it adds none for a minute, the
next process adds a file and takes over.

The store's clock alone decides: a process compares the times that the store gave to the newest file
and to a file that it writes itself. The owner counts the minute from before its last request, by a
clock that also runs while the machine sleeps.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from headwaters.platform.errors import CodedError, WorkError
from headwaters.platform.places import Place, RemotePath

EXPIRES = 60.0  # seconds without a new file
_FRESH = 2.0  # seconds since the last file, for which a check does not ask the store
_SURE = 0.95  # the share of it on which the owner relies: times of stores have whole seconds


class Hold(Protocol):
    """The exclusive use of a place."""

    @property
    def is_lost(self) -> bool:
        """Return true if another process may use the place."""

    def check(self) -> None:
        """Raise WorkError if another process may use the place: call it before each commit."""


class InUse(Exception):
    """Another process has the place: its description, and the seconds until its lease expires."""

    def __init__(self, holder: str, expires: float | None = None) -> None:
        """Name the holder."""
        super().__init__(holder)
        self.holder, self.expires = holder, expires


@contextmanager
def held(place: Place, who: str, local: Path | None = None) -> Iterator[Hold]:
    """Hold a place for this process until the context ends. Raises InUse if another one has it.

    `who` describes this process to others. `local` is this machine's folder of a lake in
    a store.
    """
    if isinstance(place, Path):
        place.mkdir(parents=True, exist_ok=True)
        with _locked(place / ".lock") as lock:
            _sign(lock, who)
            yield _Lock()
        return
    assert local is not None
    digest = hashlib.sha256(str(place).encode()).hexdigest()[:16]
    (local / "leases").mkdir(parents=True, exist_ok=True)
    # The lock of this machine proves that the process that it names has ended.
    with _locked(local / "leases" / f"{digest}.lock") as lock:
        lock.seek(0)
        lease = Lease(place / "lease", who, ended=lock.read())
        _sign(lock, f"{who}\n{lease.ended}{lease.id}\n")
        lease.take()
        _sign(lock, f"{who}\n{lease.id}\n")
        try:
            with lease.renewed():
                yield lease
        finally:
            lease.release()


def is_held(place: Place) -> bool:
    """Return true if a process holds a place."""
    if isinstance(place, RemotePath):
        return Lease(place / "lease", "").holder() is not None
    try:
        with (place / ".lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False


@dataclass(frozen=True)
class _Lock:
    """A lock of this machine, which is never lost."""

    is_lost: bool = False

    def check(self) -> None:
        """Accept."""


@contextmanager
def _locked(file: Path) -> Iterator[IO[str]]:
    with file.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise InUse(lock.readline().strip() or "another process") from None
        yield lock


def _sign(lock: IO[str], text: str) -> None:
    lock.truncate(0)
    lock.write(text)
    lock.flush()


def awake_or_asleep() -> float:
    """Return seconds of a clock that also runs while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass
class Lease:
    """A lease in a store: the files `<number>.json` of a folder. The newest one counts.

    `ended` contains the ids of processes that have ended.
    """

    folder: RemotePath
    who: str
    ended: str = ""
    expires: float = EXPIRES
    clock: Callable[[], float] = awake_or_asleep
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    _newest: int = 0  # the number of the newest file, when it was looked for
    _number: int = 0  # the number of our newest file
    _renewed: float = 0.0
    _is_taken: bool = False
    _guard: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def take(self) -> None:
        """Take the lease. Raises InUse if another process has it."""
        if holder := self.holder():
            raise holder
        if not self._add(self._newest + 1):
            raise InUse("another process, which began at the same moment,")
        if self._newest:
            self._file(self._newest).unlink()

    def holder(self) -> InUse | None:
        """Return the process that has the lease, or None if it is free."""
        self._newest = max(self._files(), default=0)
        if not self._newest:
            return None
        file = self._file(self._newest)
        try:
            noted = json.loads(file.read_text())
            written = file.stat().st_mtime
        except FileNotFoundError:  # its owner has added another one
            return InUse("another process")
        if noted["released"] or noted["id"] in self.ended:
            return None
        left = self.expires - (self._now() - written)
        return InUse(noted["who"], left) if left > 0 else None

    def _now(self) -> float:
        """Return the time of the store."""
        clock = self.folder / "clock"
        clock.write_bytes(self.id.encode())
        return clock.stat().st_mtime

    def _add(self, number: int, released: bool = False) -> bool:
        """Add a file; return false if another process has the lease.

        The owner removes old files. A file that was created under the number of a removed one is
        not the newest.
        """
        before = self.clock()
        noted = {"id": self.id, "who": self.who, "released": released, "nonce": uuid.uuid4().hex}
        if not self._file(number).create(json.dumps(noted).encode()):
            # an earlier attempt, of unknown outcome, may have created it: its time is older
            return self._is_ours(number) and self._add(number + 1, released)
        if max(self._files(), default=0) > number:
            return False
        old, self._number = self._number, number
        self._renewed = before
        self._is_taken = not released
        if old:
            self._file(old).unlink()
        return True

    def _is_ours(self, number: int) -> bool:
        try:
            return bool(json.loads(self._file(number).read_text())["id"] == self.id)
        except FileNotFoundError:
            return False

    def _file(self, number: int) -> RemotePath:
        return self.folder / f"{number:012}.json"

    def _files(self) -> list[int]:
        names = [file.stem for file in self.folder.glob("*.json")]
        return [int(name) for name in names if name.isdigit()]

    @property
    def is_lost(self) -> bool:
        """Return true if another process has the lease, or may have it by now."""
        return not self._is_taken or self.clock() > self._renewed + self.expires * _SURE

    def check(self) -> None:
        """Raise WorkError if the lease is lost. Ask the store, unless it has just answered.

        The clock of a virtual machine may stand still with it.
        """
        if not self.is_lost and self.clock() > self._renewed + _FRESH:
            self.renew()
        if self.is_lost:
            raise lost(self.folder)

    def renew(self) -> None:
        """Add a file. A failure of the store is not an error while the lease lasts."""
        with self._guard:
            if self.is_lost:
                return
            with suppress(CodedError):
                self._is_taken = self._add(self._number + 1)

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew the lease until the context ends, in a thread."""
        ended = threading.Event()

        def work() -> None:
            while not ended.wait(self.expires / 3) and self._is_taken:
                self.renew()

        thread = threading.Thread(target=work, daemon=True, name="lease")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def release(self) -> None:
        """Give the lease up, if it is not lost; after a failure of the store, it expires."""
        with self._guard:
            if not self.is_lost:
                try:
                    self._add(self._number + 1, released=True)
                except CodedError:
                    self._is_taken = False


def lost(folder: Place) -> WorkError:
    """Return the error of a process whose lease was taken over."""
    return WorkError(
        "HW_LEASE_LOST",
        f"the lease in {folder} expired, since the store did not answer or this process stood "
        "still for a minute, so this run wrote nothing more: run it again",
    )
