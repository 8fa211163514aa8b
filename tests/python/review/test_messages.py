"""Test that messages show Spark's errors of statements, but never the values of rows."""

from __future__ import annotations

import pytest

from headwaters.review.spark import without_values

REST = "the rest of the message may have values"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            "Runtime Error in model plain (models/silver/plain.sql) [CAST_INVALID_INPUT] The value "
            '\'ann@example.com\' of the type "STRING" cannot be cast to "INT" because it is '
            "malformed. Correct the value as per the syntax. SQLSTATE: 22018",
            "Runtime Error in model plain (models/silver/plain.sql) [CAST_INVALID_INPUT] in a row "
            f"(SQLSTATE 22018; {REST})",
        ),
        (
            "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint known (mail is not null) "
            "violated by row with values: - mail : ann@example.com SQLSTATE: 23001 (more in log)",
            f"[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] in a row (SQLSTATE 23001; {REST}) "
            "(more in log)",
        ),
        (
            "[USER_RAISED_EXCEPTION] ann is twice in [regions] SQLSTATE: P0001",
            f"[USER_RAISED_EXCEPTION] in a row (SQLSTATE P0001; {REST})",
        ),
        (
            "[HW_REPEATED_KEYS] unique_key mail of gold.totals is not unique: its SQL gives "
            "more than one row for ann. The table was left as it is; bob. The table was left as it "
            "is. Make the SQL give one row a key.",
            "[HW_REPEATED_KEYS] unique_key mail of gold.totals is not unique: its SQL gives "
            "more than one row for some keys. The table was left as it is. Make the SQL give one "
            "row a key.",
        ),
        (
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `maill` cannot be resolved. "
            "Did you mean `mail`? SQLSTATE: 42703",
            None,
        ),
        (
            "[TABLE_OR_VIEW_NOT_FOUND] The table `raw`.`orders` cannot be found. SQLSTATE: 42P01",
            None,
        ),
        ("", None),
    ],
)
def test_a_message_without_values(message: str, shown: str | None) -> None:
    assert without_values(message) == (message if shown is None else shown)
