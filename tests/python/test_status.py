"""Test the output of `headwaters streams` for people and for programs."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime

from rich.console import Console

from headwaters.platform.checkpoint import Pending
from headwaters.streams.ingestion.status import Status, as_json, show

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
        "bytes": 2_000_000,
        "pending": {"number": 3, "unit": "files", "size": 10, "unfinished": False},
        "interrupted": False,
        "error": None,
    }
    assert (second["pending"], second["error"]) == (None, STATES[1].error)
