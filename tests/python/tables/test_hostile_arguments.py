"""Test that wrong arguments of an operation give one line, and start nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tables.conftest import PERSONAL, Orders

pytestmark = pytest.mark.slow

# Each operation with arguments to act at once.
ACTS: dict[str, dict[str, Any]] = {
    "apply_tables": {"select": "gold", "rewrite": True},
    "backup": {"table": "silver_orders", "expires": "1 day", "shallow": False},
    "delete_where": {"table": "bronze.orders", "predicate": "id = 1", "allow_all": False},
    "drop": {"table": "customer_totals", "expires": "1 day"},
    "erase": {"subject": {"customer": {"env": "SUBJECT"}}, "keep": []},
    "expire_backups": {},
    "maintain": {"select": "bronze"},
    "rebuild": {"model": "silver_orders"},
    "replace_where": {"model": "silver_orders", "predicate": "id = 1", "allow_all": False},
    "restore": {"table": "silver_orders", "version": 0},
}
# Those that change nothing, or nothing of the tables here.
READS: dict[str, dict[str, Any]] = {
    "check_tables": {},
    "explain_refresh": {"model": "silver_orders"},
    "list_backups": {},
    "plan_tables": {"select": "gold"},
    "register_sources": {},
}
NO_BOOLEANS: list[Any] = [0, 1, None, "false", "no", "", []]
NO_NAMES: list[Any] = [
    *(None, "", 7, {"a": "b"}),
    *("silver_orders'", "silver_orders; drop table x", "`silver_orders`", "silver_orders\n"),
    *("{{ ref('silver_orders') }}", "silver.silver_orders version as of 0", "${user.name}"),
    *("silver.orders", "nowhere.silver_orders", "silver.silver_orders.id", "silver_orders."),
]
NO_PREDICATES: list[Any] = [
    *(None, "", True, "id = 1; drop table x", "id = 1 -- x", "id = 1) or (true", "id = 'x"),
    *("id in (select id from x)", "id = (select(max(id)) from x)", "exists (table x)", "`id = 1"),
    "{{ target }} = 1",
]
NO_NUMBERS: list[Any] = ["1", True, None, 1.5, -1, 99]
WRONG: dict[str, list[Any]] = {
    **dict.fromkeys(("dry_run", "allow_all", "rewrite", "shallow"), NO_BOOLEANS),
    **dict.fromkeys(("table", "model"), NO_NAMES),
    # blanks separate names here
    "select": [name for name in NO_NAMES if not str(name).endswith("\n")],
    "predicate": NO_PREDICATES,
    "version": NO_NUMBERS,
    "timestamp": [
        *(None, "", True, 7, 1.5, "yesterday", "2026-02-30", "1999-01-01"),
        *("2026-01-01'; drop table x", "2026-01-01\n", "current_timestamp()", "{{ target }}"),
    ],
    "expires": [None, "", 30, "soon", "1 day; drop table x", "1 day\n'"],
    "subject": [
        *(None, "", 7, [], {}, {"customer": None}, {"customer": 7}, {"x'; y": {"env": "SUBJECT"}}),
        *({"customer": "ann"}, {"customer": {"env": "NOT_SET"}}, {"customer": {"file": "no/file"}}),
        *({"customer": {"env": None}}, {"customer": {"env": "SUBJECT", "file": "x"}}),
    ],
    "keep": [None, "abc", [""], ["0' or '1"]],
}


def state(orders: Orders) -> dict[str, Any]:
    """Return the tables, their versions, and every present file."""
    schemas = [row[0] for row in orders.sql(f"show databases like '{orders.schema}*'")]
    tables = [
        f"{schema}.{row[1]}" for schema in schemas for row in orders.sql(f"show tables in {schema}")
    ]
    places = {table: orders.sql(f"describe detail {table}")[0][4] for table in tables}
    return {
        table: [
            (str(file), file.stat().st_size, file.stat().st_mtime_ns)
            for file in sorted(Path(place.removeprefix("file:")).rglob("*"))
        ]
        for table, place in places.items()
    }


def test_no_operation_begins_with_what_it_does_not_understand(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUBJECT", "ann")
    for path, text in PERSONAL.items():
        orders.write(path, text)
    # the plan of each, and one expired backup, so that there is something to do
    orders.operation("backup", table="silver_orders", expires="1 second", reason="x", dry_run=False)
    orders.sql("update {silver} set amount = 0 where id = 1")
    orders.sql("alter table {gold} set tblproperties ('delta.enableDeletionVectors' = 'false')")
    declared = orders.arguments()
    acting = {name for name, arguments in declared.items() if "dry_run" in arguments}
    assert acting == ACTS.keys(), "an operation that this test does not know"

    before = state(orders)
    for operation, right in (ACTS | READS).items():
        done = {"reason": "x", "dry_run": False, **right} if operation in ACTS else right
        wrong = [
            {**without(done, name), name: value}
            for name in declared[operation]
            if name != "reason"
            for value in WRONG[name]
        ]
        if operation in ACTS:
            wrong += [{**done, "reason": value} for value in (None, "", " \n")]
        wrong += [{**done, "dryrun": True}, {**done, "x'; `y`\n{{ z }}": 1}]
        for arguments in wrong:
            said = orders.operation(operation, expect=False, **arguments)
            assert "Traceback" not in said and said, (operation, arguments)
        assert state(orders) == before, operation


def without(arguments: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the arguments, without the version if a time gives it."""
    replaced = "version" if name == "timestamp" else ""
    return {key: value for key, value in arguments.items() if key != replaced}
