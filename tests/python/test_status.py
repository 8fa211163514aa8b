"""Test the output of `headwaters streams` for people and for programs."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from headwaters.platform.checkpoint import Pending
from headwaters.platform.project import Project
from headwaters.streams.contract import parse_contract
from headwaters.streams.ingestion.status import Status, as_json, show, status
from headwaters.streams.stream import Stream

ROOT = Path(__file__).resolve().parents[2]
STATES = [
    Status(
        name=f"contract_changes_of_{what}",
        source=f"files landing/contract_changes_of_{what}",
        batches=2,
        position="12 files",
        last=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        rows=1234,
        quarantined=None,
        bytes=2_000_000,
        pending=pending,
        interrupted=False,
        error=error,
    )
    for what, pending, error in (
        ("customers", Pending(3, "files", 10, False), None),
        ("suppliers", None, "[HW_NO_INPUT] there is no folder [x]"),
    )
]


def test_a_pipe_gets_whole_names_on_one_line_each() -> None:
    out = io.StringIO()
    show(STATES, Console(file=out, width=80))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert [line.split()[:3] for line in lines[1:3]] == [
        [state.name, "files", f"landing/{state.name}"] for state in STATES
    ]
    assert lines[3:] == [f"{STATES[1].name}: {STATES[1].error}"]


def test_the_error_of_an_earlier_run_has_its_age() -> None:
    out = io.StringIO()
    failed_at = datetime.now(UTC) - timedelta(minutes=5)
    failed = replace(STATES[0], error="[HW_X] full", failed_at=failed_at)
    show([failed], Console(file=out, width=80))
    assert out.getvalue().splitlines()[2] == f"{failed.name} failed 5 min ago: [HW_X] full"


def test_a_program_gets_json() -> None:
    first, second = json.loads(as_json(STATES))
    assert first == {
        "name": "contract_changes_of_customers",
        "source": "files landing/contract_changes_of_customers",
        "batches": 2,
        "position": "12 files",
        "last": "2026-01-02T03:04:05+00:00",
        "rows": 1234,
        "quarantined": None,
        "settled": 0,
        "stale_rows": None,
        "bytes": 2_000_000,
        "pending": {"number": 3, "unit": "files", "size": 10, "unfinished": False},
        "interrupted": False,
        "error": None,
        "has_landed": True,
        "failed_at": None,
    }
    assert (second["pending"], second["error"]) == (None, STATES[1].error)


def test_an_unused_stream_has_never_landed_and_no_error(
    tmp_path: Path, new_project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATERS_LAKE", str(tmp_path / "lake"))
    project = Project(new_project({}), ROOT / "profiles")
    stream = {"from": "files", "path": "landing/orders", "format": "csv"}
    source = {
        **{"name": "orders", "schema": "bronze", "identifier": "orders", "columns": {}},
        **{"original_file_path": "models/bronze/orders.yml", "source_name": "bronze"},
        "config": {"meta": {"stream": stream}},
        "columns": {"id": {"name": "id", "data_type": "bigint"}},
    }
    contract = parse_contract(source)
    unused = status(project, contract)
    assert (unused.has_landed, unused.error, unused.behind) == (False, None, "never landed")
    out = io.StringIO()
    show([unused], Console(file=out, width=80))
    assert "never landed" in out.getvalue() and "HW_" not in out.getvalue()
    folder = tmp_path / "lake" / "landing" / "orders"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text("id\n1\n")
    waiting = status(project, contract)
    assert (waiting.has_landed, waiting.error) == (True, None)
    assert waiting.behind.startswith("1 file")
    checkpoint = Stream.of(project, contract).checkpoint
    checkpoint.path.mkdir(parents=True)
    before = datetime.now(UTC) - timedelta(seconds=1)
    checkpoint.keep_error("[HW_X] full")
    failed = status(project, contract)
    assert failed.error == "[HW_X] full"
    assert failed.failed_at is not None and failed.failed_at > before


def test_a_narrow_terminal_cuts_no_name() -> None:
    out = io.StringIO()
    show(STATES, Console(file=out, width=80, force_terminal=True, color_system=None))
    cells = out.getvalue().split(f"{STATES[1].name}: ")[0]
    assert "…" not in cells
    first = "".join(line.split(" ")[0] for line in cells.splitlines())
    assert all(state.name in first for state in STATES)
