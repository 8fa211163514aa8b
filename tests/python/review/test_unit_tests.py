"""Test that the difference of a failed unit test is one line that can be read."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import agate  # type: ignore[import-untyped]
import pytest
from dbt.task.test import TestRunner as UnitTests

from headwaters.review.dbt_runs import told

COLUMNS = ["account", "on", "amount", "note"]
ANN: list[Any] = ["ann", date(2026, 1, 1), Decimal("10.00"), None]
BOB: list[Any] = ["bob", date(2026, 1, 2), Decimal("10.50"), "a, b"]


def message(expected: list[list[Any]], actual: list[list[Any]]) -> str:
    """Return dbt's message of the difference, with its colours."""
    runner = cast(Any, SimpleNamespace(config=SimpleNamespace(args=SimpleNamespace(use_colors=1))))
    tables = (agate.Table(rows, COLUMNS) for rows in (expected, actual))
    rendered = UnitTests._render_daff_diff(runner, UnitTests._get_daff_diff(runner, *tables))
    return f"\n\n\x1b[32mactual\x1b[0m differs from \x1b[31mexpected\x1b[0m:\n\n{rendered}\n"


@pytest.mark.parametrize(
    ("expected", "actual", "rows"),
    [
        (
            [ANN, BOB],
            [ANN, [*BOB[:2], Decimal("11.50"), "a, b"]],
            "amount 10.50 → 11.50 (account bob, on 2026-01-02, note a, b)",
        ),
        (
            [ANN, BOB],
            [BOB],
            "missing: account ann, on 2026-01-01, amount 10.00, note null",
        ),
        (
            [BOB],
            [ANN, BOB],
            "not expected: account ann, on 2026-01-01, amount 10.00, note null",
        ),
        (
            [BOB],
            [BOB, *([name, *ANN[1:]] for name in "cdefg")],
            "; ".join(
                f"not expected: account {name}, on 2026-01-01, amount 10.00, note null"
                for name in "cde"
            )
            + "; and 2 more",
        ),
    ],
)
def test_rows_that_differ_are_told_with_the_names_of_their_columns(
    expected: list[list[Any]], actual: list[list[Any]], rows: str
) -> None:
    assert told(message(expected, actual)) == f"actual differs from expected: {rows}"


def test_moments_are_written_as_spark_writes_them() -> None:
    moment = datetime(2026, 1, 1, 2, 3, 4)
    text = told(message([["ann", moment, Decimal(1), None], BOB], [BOB]))
    assert "on 2026-01-01 02:03:04" in text


def test_other_messages_are_left_as_they_are() -> None:
    assert told("Got 5 results,\n configured to fail if != 0") == (
        "Got 5 results, configured to fail if != 0"
    )
