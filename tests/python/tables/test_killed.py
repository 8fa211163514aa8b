"""Test that a killed operation happened or did not, and can be repeated."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import environment

from tables.conftest import BUILT, FILES, GOLD, PERSONAL, SMALL_FILES, Orders

pytestmark = pytest.mark.slow

# The fault in silver, and the operation that repairs it.
WRONG = "update {silver} set amount = 0 where id = 1"
OPERATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "restore": (WRONG, {"table": "silver_orders"}),
    "replace_where": (WRONG, {"model": "silver_orders", "predicate": "id = 1"}),
    "rebuild": (WRONG, {"model": "silver_orders"}),
    "delete_where": (
        "insert into {silver} values (6, 'ann', date'2026-01-03', 1)",
        {"table": "silver_orders", "predicate": "id = 6"},
    ),
}


def kill(orders: Orders, statement: int | str, operation: str, arguments: dict[str, Any]) -> None:
    """Run the operation in a separate process, which dies before this statement of its change."""
    script = Path(__file__).with_name("killed.py")
    answered = subprocess.run(
        [
            *(sys.executable, str(script), str(statement), "run-operation", operation),
            *("--args", json.dumps(arguments), *orders.options()),
        ],
        cwd=orders.folder,
        env=environment(orders.folder) | orders.variables(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert answered.returncode == -signal.SIGKILL, answered.stdout + answered.stderr


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_killed_repair_is_done_or_not_and_can_be_repeated(shared: Orders, operation: str) -> None:
    orders = shared
    wrong, named = OPERATIONS[operation]
    right = orders.version(orders.silver)
    if operation == "restore":
        named = {**named, "version": right}
    arguments: dict[str, Any] = {**named, "reason": "by hand", "dry_run": False}
    rows = "select * from {silver} order by id"
    wanted = orders.sql(rows)
    orders.sql(wrong)
    before, version = orders.sql(rows), orders.version(orders.silver)
    assert before != wanted

    kill(orders, 2, operation, arguments)
    assert orders.sql(rows) == before
    assert orders.version(orders.silver) == version
    kill(orders, 3, operation, arguments)
    assert orders.sql(rows) == wanted
    states = f"select state from {{ops}} where operation = '{operation}'"
    assert orders.sql(states) == [("started",), ("started",)]

    # a repetition completes it
    orders.sql(f"restore table {{silver}} to version as of {version}")
    orders.operation(operation, **arguments)
    assert orders.sql(rows) == wanted
    assert sorted(orders.sql(states)) == [("done",), ("started",), ("started",), ("started",)]
    orders.dbt("run")
    assert orders.sql(GOLD) == BUILT


def test_a_killed_drop_leaves_the_table_in_its_place_or_aside(shared: Orders) -> None:
    orders = shared
    arguments: dict[str, Any] = {"table": "customer_totals", "reason": "unread", "dry_run": False}
    # 1 signs the commits, 2 notes the operation on the table, 3 sets the table aside
    kill(orders, 3, "drop", arguments)
    assert orders.operation("list_backups") == "0 backups, 0 expired"
    printed = orders.operation("drop", **arguments)
    assert not orders.spark.catalog.tableExists(orders.gold)
    assert orders.operation("list_backups").endswith("1 backups, 0 expired")
    orders.undo(printed)
    kill(orders, 4, "drop", arguments)
    assert not orders.spark.catalog.tableExists(orders.gold)
    # the record has the undo of an operation that died before printing it
    undo = orders.sql(
        "select undo from {ops} where operation = 'drop' and state = 'started' order by at desc"
    )
    orders.undo(f"undo:\n  headwaters sql --write {shlex.quote(undo[0][0])}")
    orders.dbt("run")
    assert orders.sql(GOLD) == BUILT


def test_a_killed_maintenance_is_made_good_by_the_next(shared: Orders) -> None:
    orders = shared
    orders.write("models/bronze/orders.yml", SMALL_FILES)
    for number in range(9):
        orders.sql(f"insert into {{bronze}} values ({number + 10}, 'x', date'2026-01-04', 1)")
    arguments: dict[str, Any] = {"select": "bronze", "reason": "night", "dry_run": False}
    rows = "select * from {bronze} order by id"
    before, version = orders.sql(rows), orders.version(orders.bronze)
    kill(orders, 2, "maintain", arguments)
    assert orders.version(orders.bronze) == version
    kill(orders, 3, "maintain", arguments)
    assert orders.sql(rows) == before
    orders.operation("maintain", **arguments)
    assert orders.sql(rows) == before
    assert orders.operation("maintain", **arguments).endswith("1 tables, nothing to do")
    orders.sql("delete from {bronze} where customer = 'x'")
    orders.write("models/bronze/orders.yml", FILES["models/bronze/orders.yml"])


def test_a_killed_backup_is_there_or_not(shared: Orders) -> None:
    orders = shared
    arguments: dict[str, Any] = {"table": "customer_totals", "reason": "x", "dry_run": False}
    copy = f"{orders.gold}_version_{orders.version(orders.gold)}"
    kill(orders, 2, "backup", arguments)
    assert orders.operation("list_backups") == "0 backups, 0 expired"
    kill(orders, 3, "backup", arguments)
    assert orders.sql(GOLD.replace("{gold}", copy)) == BUILT
    assert orders.operation("list_backups").endswith("1 backups, 0 expired")
    assert "exists already" in orders.operation("backup", expect=False, **arguments)
    orders.sql(f"drop table {copy}")
    orders.operation("backup", **arguments)
    assert orders.sql(GOLD.replace("{gold}", copy)) == BUILT
    orders.sql(f"drop table {copy}")


def test_a_killed_rewrite_has_its_checks_and_is_completed_by_the_next(shared: Orders) -> None:
    orders = shared
    orders.sql("alter table {gold} add constraint by_hand check (orders > 0)")
    path = "models/gold/customer_totals.sql"
    orders.write(path, FILES[path].replace(") }}\n", ", partition_by='customer') }}\n", 1))
    arguments: dict[str, Any] = {"select": "gold", "rewrite": True, "reason": "x", "dry_run": False}
    version = orders.version(orders.gold)
    kill(orders, 2, "apply_tables", arguments)
    assert orders.version(orders.gold) == version
    kill(orders, 3, "apply_tables", arguments)
    assert orders.version(orders.gold) == version + 1
    assert orders.sql(GOLD) == BUILT
    held = dict(orders.sql("show tblproperties {gold}"))
    assert held["delta.constraints.by_hand"] == "orders > 0"
    orders.operation("apply_tables", **arguments)
    assert orders.operation("plan_tables", select="gold").endswith("1 as declared")
    orders.sql(f"restore table {{gold}} to version as of {version}")
    orders.write(path, FILES[path])
    orders.dbt("run")
    assert orders.sql(GOLD) == BUILT


def test_a_killed_erasure_resumes_where_it_stopped(
    shared: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = shared
    monkeypatch.setenv("SUBJECT", "ann")
    for path, text in PERSONAL.items():
        orders.write(path, text)
    arguments: dict[str, Any] = {
        "subject": {"customer": {"env": "SUBJECT"}},
        "reason": "x",
        "dry_run": False,
    }
    orders.sql(
        "create table {bronze}_quarantine using delta as"
        """ select 'type' as reason, cast('{"customer": "ann"}' as binary) as record"""
    )
    anns = (
        "select (select count(*) from {bronze} where customer = 'ann'),"
        " (select count(*) from {bronze}_quarantine)"
    )
    kill(orders, 2, "erase", arguments)
    assert orders.sql(anns) == [(2, 1)]
    kill(orders, 3, "erase", arguments)
    assert orders.sql(anns) == [(0, 1)]
    kill(orders, 2, "erase", arguments)
    assert orders.sql(anns) == [(0, 1)]
    assert "deleted from bronze.orders_quarantine;" in orders.operation("erase", **arguments)
    assert orders.sql(anns) == [(0, 0)]
    assert "`dbt run` propagates the deletion to " in orders.operation("erase", **arguments)
    orders.dbt("run")
    assert orders.sql(GOLD) == BUILT[1:]
    # an interrupted search proves nothing, however many tables it had searched
    kill(orders, f"start of {orders.silver}", "erase", arguments)
    searched = "arguments like '%\"files\"%' and state = 'done'"
    assert orders.sql(f"select count(*) from {{ops}} where {searched}") == [(3,)]
    assert orders.sql("show tables in {schema}_ops like 'erasures'") == []
    assert "no row has the value; " in orders.operation("erase", **arguments)
    proof = "select table_name from {schema}_ops.erasures order by 1"
    tables = (orders.bronze, f"{orders.bronze}_quarantine", orders.gold, orders.silver)
    assert orders.sql(proof) == [(table,) for table in tables]
