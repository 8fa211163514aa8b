"""Test that long work says what it is doing, and short work nothing."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from headwaters.platform.waiting import Steps, during


@pytest.fixture(autouse=True)
def printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADWATERS_PROGRESS")


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATERS_PROGRESS", "0")
    lines: list[str] = []
    with during("reading the project", 0.01, 0.01, lines.append) as tell:
        tell("read")
        threading.Event().wait(0.1)
    assert lines == []


def test_short_work_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    with during("reading the project"):
        pass
    assert capsys.readouterr() == ("", "")


def test_long_work_prints_its_newest_text_until_it_ends() -> None:
    lines: list[str] = []
    first, third = threading.Event(), threading.Event()

    def write(line: str) -> None:
        lines.append(line)
        first.set()
        if len(lines) >= 3:
            third.set()

    with during("building", 0.01, 0.01, write) as tell:
        assert first.wait(10)
        tell("built 2 of 7")
        assert third.wait(10)
    printed = len(lines)
    assert lines[0] == "building (0 s)"
    assert lines[2].startswith("built 2 of 7 (")
    assert not third.wait(0.05) or len(lines) == printed


def test_an_error_of_the_work_ends_the_lines() -> None:
    before = threading.active_count()
    with pytest.raises(ValueError, match="no"), during("failing", 0.01, 0.01, lambda line: None):
        raise ValueError("no")
    assert threading.active_count() == before


def test_dbt_says_once_that_it_starts_a_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dbt.adapters.headwaters import session

    said: list[str] = []
    sessions: dict[str | None, Any] = {}

    def session_of(known: dict[str | None, Any], *_: object) -> Any:
        return known.setdefault(None, MagicMock())

    monkeypatch.setattr(session, "AdapterLogger", lambda name: SimpleNamespace(info=said.append))
    monkeypatch.setattr(session, "_sessions", sessions)
    monkeypatch.setattr(session, "session_of", session_of)
    session.HeadwatersCursor({"spark.remote": "sc://host"}, tmp_path).execute("select 1")
    assert said == []
    sessions.clear()
    cursor = session.HeadwatersCursor({}, tmp_path)
    cursor.execute("select 1")
    cursor.execute("select 2")
    assert said == [session.STARTING]


def test_steps_are_told_after_a_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    seconds = iter([0, 1, 5, 9, 14, 16, 26])
    monkeypatch.setattr(time, "monotonic", lambda: next(seconds))
    steps = Steps(lines.append)
    for step in "abcdef":
        steps.tell(step)
    assert lines == ["b", "e", "f"]
