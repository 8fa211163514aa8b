"""Test that a server listens at a free port, even if other programs take ports at its start."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from headwaters.devkit.servers import free_ports, starting
from headwaters.platform import servers
from headwaters.platform.errors import UserError, WorkError
from headwaters.platform.servers import Server, alive, listens_itself

LISTEN = (
    "import socket, sys, time\n"
    "held = [socket.create_server(('127.0.0.1', int(port))) for port in sys.argv[1:]]\n"
    "time.sleep(60)"
)


class Beside:
    """Other programs that take a server's ports between their choice and its start."""

    def __init__(self, stack: contextlib.ExitStack, takes: Sequence[int], program: str) -> None:
        """Take the ports that `takes` gives by the number of the try."""
        self._stack, self._takes, self._program = stack, takes, program
        self.tried: list[tuple[int, ...]] = []

    def command(self, *ports: int) -> list[str]:
        """Return the server's command, after taking the port."""
        tries = len(self.tried)
        self.tried.append(ports)
        if tries < len(self._takes):
            address = ("127.0.0.1", ports[self._takes[tries]])
            self._stack.enter_context(socket.create_server(address))
        return [sys.executable, "-c", self._program, *map(str, ports)]


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.mark.parametrize(
    "takes", [pytest.param([], id="no"), [0], pytest.param([1, 0], id="another, then the first")]
)
def test_a_server_whose_port_was_taken_meanwhile_is_started_at_others(
    takes: list[int], stack: contextlib.ExitStack, tmp_path: Path
) -> None:
    beside = Beside(stack, takes, LISTEN)
    with (
        pytest.raises(KeyboardInterrupt),
        (tmp_path / "log").open("wb") as log,
        starting(beside.command, "a server", log, 20, ports=2) as (pid, port),
    ):
        assert [len(set(ports)) for ports in beside.tried] == [2] * (len(takes) + 1)
        assert port == beside.tried[-1][0]
        Server(pid, port).remember(tmp_path / "server.json")
        assert Server.running(tmp_path / "server.json") == Server(pid, port)
        raise KeyboardInterrupt
    assert not alive(pid)
    assert Server.running(tmp_path / "server.json") is None


def test_a_port_that_another_listens_at_is_not_the_servers_own(
    stack: contextlib.ExitStack, tmp_path: Path
) -> None:
    beside = Beside(stack, [0], "import time; time.sleep(60)")
    with (
        pytest.raises(WorkError, match=r"\[HW_SERVER\] a server does not listen after 1 seconds"),
        (tmp_path / "log").open("wb") as log,
        starting(beside.command, "a server", log, 1),
    ):
        raise AssertionError("it was given with the port of another")
    [(port,)] = beside.tried
    assert listens_itself(os.getpid(), port)
    Server(os.getppid(), port).remember(tmp_path / "server.json")
    assert Server.running(tmp_path / "server.json") is None


def test_a_system_that_does_not_tell_whose_port_it_is_is_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(process: Path) -> Iterator[str]:
        raise PermissionError

    monkeypatch.setattr(servers, "_sockets", refused)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert listens_itself(os.getpid(), port)
    assert not listens_itself(os.getpid(), port)


def test_a_server_is_not_tried_for_ever(stack: contextlib.ExitStack, tmp_path: Path) -> None:
    beside = Beside(stack, [0] * 9, LISTEN)
    with (
        pytest.raises(WorkError, match=r"a server ended while it started: .*Address already in"),
        (tmp_path / "log").open("wb") as log,
        starting(beside.command, "a server", log, 20),
    ):
        raise AssertionError("it was given with the port of another")
    assert len(beside.tried) == 3


def test_a_port_that_is_named_is_the_only_one_that_is_tried(
    stack: contextlib.ExitStack, tmp_path: Path
) -> None:
    [named] = free_ports()
    beside = Beside(stack, [0], LISTEN)
    with (
        pytest.raises(UserError, match=rf"\[HW_PORT\] port {named} is taken: choose another"),
        (tmp_path / "log").open("wb") as log,
        starting(beside.command, "a server", log, 20, port=named),
    ):
        raise AssertionError("it was given with the port of another")
    assert beside.tried == [(named,)]


def test_the_usual_port_is_taken_where_it_is_free() -> None:
    [usual] = free_ports()
    assert free_ports(usual=usual) == [usual]
    with socket.create_server(("127.0.0.1", usual)):
        assert free_ports(usual=usual) != [usual]
