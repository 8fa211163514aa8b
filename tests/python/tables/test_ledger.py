"""The rows that operations deleted, by the ledger, and the user of an operation."""

from __future__ import annotations

import json
import os
import pwd
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headwaters.platform.names import user_name
from headwaters.tables.delta_log import created_at
from headwaters.tables.ledger import removed_from, removed_rows


def entry(at_version: int, operation: str, **arguments: Any) -> dict[str, Any]:
    return {
        "operation": operation,
        "version_after": at_version,
        "arguments": json.dumps(arguments),
    }


def test_rows_that_operations_removed_are_counted_until_a_restore_takes_them_back() -> None:
    entries = [
        entry(4, "maintain"),
        entry(3, "erase", rows=2),
        entry(1, "delete_where", predicate="id = 1", rows=1),
    ]
    assert removed_from(entries) == {"delete_where": 1, "erase": 2}
    back = entry(5, "restore", version=2)
    assert removed_from([back, *entries]) == {"delete_where": 1}
    assert removed_from([entry(6, "restore", version=4), back, *entries]) == {
        "delete_where": 1,
        "erase": 2,
    }


def test_operations_on_an_earlier_table_of_the_name_do_not_count(tmp_path: Path) -> None:
    table, ledger = tmp_path / "orders", tmp_path / "operations"
    write_deltalake(table, pa.table({"id": [1]}))
    created = created_at(table)
    assert abs(datetime.now(UTC) - created) < timedelta(minutes=1)
    rows = [
        {"at": at, "state": state, "table_name": name, **entry(1, "erase", rows=count)}
        for at, state, name, count in [
            (created - timedelta(days=1), "done", "bronze.orders", 1),
            (created + timedelta(days=1), "started", "bronze.orders", 10),
            (created + timedelta(days=1), "done", "bronze.Orders", 100),
            (created + timedelta(days=1), "done", "bronze.others", 1000),
        ]
    ]
    later = {"at": created + timedelta(days=2), "state": "done", "table_name": "bronze.orders"}
    # a restore to a version that has the erasure, and an operation that leaves no version
    rows.append(later | {"version_after": None, "operation": "drop", "arguments": "{}"})
    rows.append(later | {"at": created + timedelta(days=3)} | entry(5, "restore", version=3))
    write_deltalake(ledger, pa.Table.from_pylist(rows))
    assert removed_rows(ledger, {"bronze.orders": table}) == {"erase": 100}


def test_an_operation_has_the_user_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATERS_USER", "ada")
    assert user_name() == "ada"
    for name in ("HEADWATERS_USER", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    assert user_name() == pwd.getpwuid(os.getuid()).pw_name
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)  # a container's user without a name
    assert user_name() == f"uid {os.getuid()}"
