"""Test which version of a table the arguments of an operation mean, without Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from headwaters.platform.errors import UserError
from headwaters.tables.commits import Commit, milliseconds
from headwaters.tables.versions import FoundVersion, found_version, wanted_version


def commit(version: int, at: str, operation: str = "WRITE") -> Commit:
    return Commit(version, milliseconds(at), operation, {}, {}, "", None, None)


# newest first
HISTORY = [
    commit(5, "2026-02-03 10:00"),
    commit(4, "2026-02-02 10:30", "VACUUM END"),
    commit(3, "2026-02-02 10:00", "VACUUM START"),
    commit(2, "2026-02-01 12:00:00.500"),
    commit(1, "2026-01-31 00:00"),
]
NOON = datetime(2026, 2, 1, 12, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("version", "timestamp", "found"),
    [
        (5, None, FoundVersion(5, is_vacuumed=False)),
        (4, None, FoundVersion(4, is_vacuumed=False)),
        (2, None, FoundVersion(2, is_vacuumed=True)),
        (None, "2026-02-04", FoundVersion(5, is_vacuumed=False)),
        (None, "2026-02-03T09:59:59Z", FoundVersion(4, is_vacuumed=False)),
        (None, "2026-02-01 12:00", FoundVersion(1, is_vacuumed=True)),
        (None, "2026-02-01 12:00:00.5", FoundVersion(2, is_vacuumed=True)),
        (None, NOON, FoundVersion(2, is_vacuumed=True)),
        (None, date(2026, 1, 31), FoundVersion(1, is_vacuumed=True)),
    ],
)
def test_a_version_is_found_by_number_and_by_time(
    version: object, timestamp: object, found: FoundVersion
) -> None:
    wanted = wanted_version("restore", version, timestamp)
    assert found_version(wanted, "`gold`.`days`", HISTORY) == found


EITHER = "name either a version or a timestamp."
WRITE_IT = "write it as 2026-01-31 or 2026-01-31T12:00:00Z, in UTC."


@pytest.mark.parametrize(
    ("version", "timestamp", "text"),
    [
        (None, None, EITHER),
        (1, "2026-01-31", EITHER),
        ("1", None, "version is '1', it must be a whole number."),
        (True, None, "version is 'True', it must be a whole number."),
        (1.0, None, "version is '1.0', it must be a whole number."),
        (None, "yesterday", f"timestamp is 'yesterday': {WRITE_IT}"),
        (None, "2026-02-30", f"timestamp is '2026-02-30': {WRITE_IT}"),
        (
            None,
            "2026-01-31 12:00:00+01:00",
            f"timestamp is '2026-01-31 12:00:00+01:00': {WRITE_IT}",
        ),
    ],
)
def test_arguments_that_name_no_version_are_refused(
    version: Any, timestamp: Any, text: str
) -> None:
    with pytest.raises(UserError) as error:
        wanted_version("as_of", version, timestamp)
    assert str(error.value) == f"[HW_VERSION] as_of: {text}"


@pytest.mark.parametrize(
    ("version", "timestamp", "missing"),
    [(6, None, "version 6"), (0, None, "version 0"), (None, "2026-01-30", "version of 2026-01-30")],
)
def test_a_version_that_the_history_lacks_is_refused(
    version: object, timestamp: object, missing: str
) -> None:
    with pytest.raises(UserError) as error:
        found_version(wanted_version("restore", version, timestamp), "`gold`.`days`", HISTORY)
    assert str(error.value) == (
        f"[HW_NO_SUCH_VERSION] restore: `gold`.`days` has no {missing}; its history has versions "
        "1 (2026-01-31 00:00 UTC) to 5 (2026-02-03 10:00 UTC). Nothing was changed."
    )
