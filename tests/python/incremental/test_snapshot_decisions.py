"""Test the decisions about a snapshot before it writes, without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from dbt.adapters.spark.column import SparkColumn

from headwaters.runs.snapshots import snapshot_problems
from headwaters.runs.stock import StockColumn

NODE = {"name": "people", "original_file_path": "snapshots/people.yml"}
HELD = [SparkColumn("id", "int"), SparkColumn("Amount", "int")]
FITS = {"row_key": "7", "copies": 1, "lacks_key": False}


def problems(
    mode: str = "ignore",
    given: dict[str, str] | None = None,
    held: list[SparkColumn] = HELD,
    row: dict[str, Any] | None = None,
    flags: dict[str, Any] | None = None,
) -> list[str]:
    strategy = {"unique_key": ["id", "part"], "updated_at": "at", "hard_deletes": mode}
    columns = [StockColumn(*column) for column in (given or {}).items()]
    rows = [{**FITS, **row}] if row is not None else []
    options = SimpleNamespace(**{"EMPTY": False, "SAMPLE": None, **(flags or {})})
    return [str(p) for p in snapshot_problems(NODE, strategy, options, columns, held, rows)]


@pytest.mark.parametrize("option", ["EMPTY", "SAMPLE"])
def test_a_part_of_the_rows_does_not_record_the_others_as_deleted(option: str) -> None:
    flag = {option: True}
    assert problems("ignore", flags=flag) == problems("invalidate", held=[], flags=flag) == []
    for mode in ("invalidate", "new_record"):
        [text] = problems(mode, flags=flag)
        assert text == (
            "[HW_SNAPSHOT_PART] people (snapshots/people.yml): has hard_deletes: "
            f"{mode}, and --{option.lower()} leaves out rows of its input: it would record them as "
            f"deleted. Exclude the snapshot, or run it without --{option.lower()}."
        )


def test_a_value_that_the_table_cannot_hold_is_refused() -> None:
    assert problems(given={"ID": "int", "amount": "bigint", "note": "string"}) == []
    [text] = problems(given={"amount": "decimal(10,2)"})
    assert "[HW_COLUMNS_DIFFER] people (snapshots/people.yml): gives amount as decimal(10,2), " in (
        text
    )


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (
            {"row_key": "7, None", "copies": 2, "lacks_key": True},
            "[HW_SNAPSHOT_ROWS] people (snapshots/people.yml): gives a row with a NULL in its "
            "unique_key (id, part = 7, None), which each run would record again. ",
        ),
        (
            {"copies": 2},
            "[HW_REPEATED_KEYS] people (snapshots/people.yml): gives 2 rows for a unique_key "
            "(id, part = 7). Nothing was recorded. ",
        ),
        (
            {},
            "[HW_SNAPSHOT_ROWS] people (snapshots/people.yml): gives a row with a NULL in at (id, "
            "part = 7): its changes would not be recorded. ",
        ),
    ],
)
def test_a_row_that_cannot_be_recorded_is_refused(row: dict[str, Any], text: str) -> None:
    assert problems(row=None) == []
    [problem] = problems(row=row)
    assert problem.startswith(text)
