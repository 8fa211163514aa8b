"""Test that one process holds a place, and that it notices when another one took over."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from obstore.store import LocalStore, MemoryStore

from headwaters.platform import lake as lakes
from headwaters.platform import leases
from headwaters.platform import relocate as relocation
from headwaters.platform.errors import WorkError
from headwaters.platform.leases import InUse, Lease
from headwaters.platform.places import Bucket, FileFacts, RemotePath
from headwaters.platform.relocate import relocate

Make = Callable[..., Lease]


@dataclass
class Clock:
    """The clock of a process."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> RemotePath:
    """Return a place in a store whose files are in the test's folder, so that they can age."""
    (tmp_path / "store").mkdir()
    return RemotePath(Bucket("s3a://b", opened=LocalStore(tmp_path / "store")), "lake/lease")


class Began(Exception):
    """A relocation got as far as its Java."""


def age(place: RemotePath, seconds: float, folder: Path) -> None:
    """Make the files of a lease older."""
    for file in (folder / "store" / place.key).glob("*.json"):
        then = file.stat().st_mtime - seconds
        os.utime(file, (then, then))


def names(place: RemotePath) -> list[str]:
    return sorted(file.name for file in place.glob("*.json"))


def test_one_of_two_has_a_lease_until_it_gives_it_up(store: RemotePath) -> None:
    first, second = Lease(store, "ann"), Lease(store, "bob")
    first.take()
    with pytest.raises(InUse) as caught:
        second.take()
    assert caught.value.holder == "ann"
    assert 55 < (caught.value.expires or 0) <= 60
    first.check()
    first.release()
    assert first.is_lost
    second.take()
    second.check()
    assert leases.is_held(store.parent)


def test_a_lease_that_is_not_renewed_is_taken_over_and_its_owner_notices(
    store: RemotePath, tmp_path: Path
) -> None:
    clock = Clock()
    first, second = Lease(store, "ann", clock=clock), Lease(store, "bob")
    first.take()
    age(store, 50, tmp_path)
    with pytest.raises(InUse):
        second.take()
    age(store, 11, tmp_path)
    second.take()
    clock.now += 3  # less than a minute by its own clock, which may have stood still
    with pytest.raises(WorkError, match=r"HW_LEASE_LOST.*the lease in s3a://b/lake/lease expired"):
        first.check()
    assert first.is_lost
    first.release()  # it changes nothing
    second.check()


@pytest.mark.parametrize("apart", [-300, 300], ids=["store is behind", "store is ahead"])
def test_a_clock_that_is_five_minutes_off_neither_takes_nor_loses_a_lease(
    apart: int, store: RemotePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat = RemotePath.stat

    def by_its_own_clock(self: RemotePath) -> FileFacts:
        facts = stat(self)
        return FileFacts(facts.st_size, facts.st_mtime_ns + apart * 1_000_000_000)

    monkeypatch.setattr(RemotePath, "stat", by_its_own_clock)
    clock = Clock()
    first, second = Lease(store, "ann", clock=clock), Lease(store, "bob")
    first.take()
    for older in (0, 50):
        age(store, older, tmp_path)
        with pytest.raises(InUse) as caught:
            second.take()
        assert 55 < (caught.value.expires or 0) + older <= 60
        clock.now += older
        assert not first.is_lost
    first.check()  # it adds a fresh file
    with pytest.raises(InUse):
        second.take()
    age(store, 61, tmp_path)
    second.take()
    clock.now += 3
    with pytest.raises(WorkError, match="HW_LEASE_LOST"):
        first.check()
    second.check()


def test_an_owner_that_stood_still_for_a_minute_does_not_trust_its_lease(store: RemotePath) -> None:
    clock = Clock()
    lease = Lease(store, "ann", clock=clock)
    lease.take()
    clock.now += 57.1
    assert lease.is_lost
    with pytest.raises(WorkError, match="HW_LEASE_LOST"):
        lease.check()


def test_a_lease_is_renewed_by_new_files_and_old_ones_are_removed(store: RemotePath) -> None:
    clock = Clock()
    lease = Lease(store, "ann", clock=clock)
    lease.take()
    for _ in range(3):
        clock.now += 40
        lease.check()
    assert names(store) == ["000000000004.json"]
    clock.now += 1
    lease.check()  # the store has just answered
    assert names(store) == ["000000000004.json"]


def test_a_file_under_an_old_number_is_no_lease(store: RemotePath) -> None:
    first, slow = Lease(store, "ann"), Lease(store, "bob")
    first.take()
    assert slow.holder()
    first.renew()
    first.renew()
    # it has seen the first file, which is gone now, and takes the number after that
    assert not slow._add(2)
    assert slow.is_lost
    first.check()


def test_of_many_that_begin_at_once_one_has_the_lease() -> None:
    for _ in range(30):
        place = RemotePath(Bucket("s3a://b", opened=MemoryStore()), "lease")
        start, taken = threading.Barrier(8), list[int]()

        def compete(number: int, place: Any = place, start: Any = start, won: Any = taken) -> None:
            lease = Lease(place, str(number))
            start.wait()
            try:
                lease.take()
            except InUse:
                return
            won.append(number)

        threads = [threading.Thread(target=compete, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(taken) == 1


def test_a_store_that_does_not_answer_takes_no_lease_away_at_once(
    store: RemotePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    lease = Lease(store, "ann", clock=clock)
    lease.take()
    create = RemotePath.create

    def away(self: RemotePath, data: bytes) -> bool:
        raise WorkError("HW_STORE_AWAY", "away")

    def lost_answer(self: RemotePath, data: bytes) -> bool:
        create(self, data)
        raise WorkError("HW_STORE_AWAY", "away")

    for fault in (away, lost_answer):
        monkeypatch.setattr(RemotePath, "create", fault)
        clock.now += 40
        lease.check()
        monkeypatch.setattr(RemotePath, "create", create)
        clock.now += 10
        lease.check()  # it finds the file of the lost answer, and adds another one
        assert not lease.is_lost
    monkeypatch.setattr(RemotePath, "create", away)
    clock.now += 58
    with pytest.raises(WorkError, match="HW_LEASE_LOST"):
        lease.check()


def test_a_process_that_ended_on_this_machine_is_followed_at_once(
    store: RemotePath, tmp_path: Path
) -> None:
    place, here = store.parent, tmp_path / "here"
    held = leases.held(place, "ann", here)
    held.__enter__()
    with pytest.raises(InUse, match="ann"), leases.held(place, "bob", here):
        pass
    # after kill -9, its lock is free, and its lease is not
    (lock,) = (here / "leases").iterdir()
    signed = lock.read_text()
    lock.unlink()
    with pytest.raises(InUse, match="ann"), leases.held(place, "bob", here):
        pass
    lock.write_text(signed)
    with leases.held(place, "bob", here) as hold:
        hold.check()
        with pytest.raises(InUse, match="bob"), leases.held(place, "cyd", tmp_path / "there"):
            pass
    with leases.held(place, "cyd", tmp_path / "there"):
        pass


def test_two_relocations_of_a_lake_in_a_store_exclude_each_other(
    store: RemotePath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = store.parent
    lakes.remember(lake, store / "before")
    here, there = (
        SimpleNamespace(lake=lake, local=tmp_path / name, spark_settings=dict[str, str])
        for name in ("here", "there")
    )
    refused: list[str] = []

    @contextmanager
    def java(project: Any) -> Iterator[None]:
        """Begin the second relocation, on another machine, while the first one is at work."""
        if project is here:
            with pytest.raises(WorkError) as caught:
                relocate(there)  # type: ignore[arg-type]
            refused.append(str(caught.value))
        raise Began

    monkeypatch.setenv("HEADWATERS_UMASK", "022")
    monkeypatch.setattr(relocation, "_java", java)
    with pytest.raises(Began):
        relocate(here)  # type: ignore[arg-type]
    assert refused == [
        f"[HW_RELOCATION] headwaters relocate is at work on the lake {lake}: wait for it"
    ]
    with pytest.raises(Began):  # the first one has ended
        relocate(there)  # type: ignore[arg-type]


def test_a_folder_of_this_machine_is_held_by_its_lock(tmp_path: Path) -> None:
    with leases.held(tmp_path / "orders", "ann") as hold:
        hold.check()
        assert not hold.is_lost
        assert leases.is_held(tmp_path / "orders")
        with pytest.raises(InUse, match="ann"), leases.held(tmp_path / "orders", "bob"):
            pass
    assert not leases.is_held(tmp_path / "orders")
    assert sorted(path.name for path in (tmp_path / "orders").iterdir()) == [".lock"]
