"""Each repair shows its plan first, can be undone, and reaches gold."""

from __future__ import annotations

from typing import Any

import pytest

from tables.conftest import BUILT, GOLD, Orders

pytestmark = pytest.mark.slow


def dry(shared: Orders, operation: str, **arguments: Any) -> list[str]:
    """The plan of an operation, and that it changed nothing."""
    before = shared.versions()
    printed = shared.operation(operation, **arguments).splitlines()
    assert shared.versions() == before
    assert printed.pop() == (
        f"{operation}: a dry run, nothing was changed; dry_run: false and a reason do it"
    )
    said = shared.operation(operation, expect=False, dry_run=False, **arguments)
    assert f"{operation}: say why" in said
    assert shared.versions() == before
    return printed


def gold(shared: Orders) -> list[tuple[Any, ...]]:
    """Gold after the next run."""
    shared.dbt("run")
    return shared.sql(GOLD)


def test_restore_after_an_accidental_overwrite(shared: Orders) -> None:
    before = shared.version(shared.bronze)
    shared.sql("insert overwrite {bronze} values (9, 'eve', date'2026-02-01', 1)")
    assert gold(shared) == [("eve", 1, 1)]
    plan = dry(shared, "restore", table="bronze.orders", version=before)
    assert plan[1:3] == [
        f"  ~ back to version {before}, which has 5 rows",
        plan[2],
    ]
    assert plan[2].startswith(f"  - version {before + 1}, ") and plan[2].endswith(": WRITE")
    assert plan[3] == "  the next run takes it to silver.silver_orders"
    printed = shared.operation(
        "restore", table="bronze.orders", version=before, reason="oops", dry_run=False
    )
    assert gold(shared) == BUILT
    shared.undo(printed)
    assert gold(shared) == [("eve", 1, 1)]
    recorded = "select state from {ops} where operation = 'restore' order by at"
    assert shared.sql(recorded) == [("started",), ("done",)]
    metadata = shared.spark.sql(f"describe history {shared.bronze}").collect()[1]["userMetadata"]
    assert '"reason": "oops"' in metadata
    shared.sql(f"restore table {{bronze}} to version as of {before}")
    assert gold(shared) == BUILT


def test_delete_where_reaches_gold_and_can_be_undone(shared: Orders) -> None:
    plan = dry(shared, "delete_where", table="bronze.orders", predicate="customer = 'ann'")
    assert plan[1].startswith("  - 2 rows: ")
    printed = shared.operation(
        "delete_where",
        table="bronze.orders",
        predicate="customer = 'ann'",
        reason="a test account",
        dry_run=False,
    )
    assert gold(shared) == BUILT[1:]
    shared.undo(printed)
    assert gold(shared) == BUILT


def test_replace_where_fills_again_from_the_model_s_own_sql(shared: Orders) -> None:
    shared.sql("update {silver} set amount = 0 where day = date'2026-01-01'")
    assert gold(shared) == [("ann", 2, 30), ("bob", 2, 50), ("cyd", 1, 40)]
    arguments: dict[str, Any] = {"model": "silver_orders", "predicate": "day = date'2026-01-01'"}
    plan = dry(shared, "replace_where", **arguments)
    assert plan[1].endswith(" are replaced by the 2 that its SQL gives")
    printed = shared.operation("replace_where", reason="by hand", dry_run=False, **arguments)
    assert gold(shared) == BUILT
    shared.undo(printed)
    assert gold(shared) == [("ann", 2, 30), ("bob", 2, 50), ("cyd", 1, 40)]
    shared.operation("replace_where", reason="after all", dry_run=False, **arguments)
    assert gold(shared) == BUILT


def test_rebuild_compares_before_it_replaces(shared: Orders) -> None:
    before = shared.version(shared.silver)
    same = shared.operation("rebuild", model="silver_orders", reason="sure?", dry_run=False)
    assert same.endswith("rebuild: the table is what a full refresh gives, nothing to do")
    assert shared.version(shared.silver) == before
    shared.sql("update {silver} set amount = 0 where id = 1")
    shared.sql("delete from {silver} where id = 2")
    plan = dry(shared, "rebuild", model="silver_orders")
    assert plan[1:3] == [
        "  - 1 rows that a full refresh does not give",
        "  + 2 rows that only a full refresh gives",
    ]
    printed = shared.operation("rebuild", model="silver_orders", reason="by hand", dry_run=False)
    assert gold(shared) == BUILT
    assert shared.answers(shared.dbt("run"))["silver_orders"] == "no changes"
    assert shared.operation("plan_tables", select="silver").endswith("1 as declared")
    shared.undo(printed)
    assert gold(shared) == [("ann", 2, 30), ("bob", 1, 50), ("cyd", 1, 40)]
    shared.operation("rebuild", model="silver_orders", reason="after all", dry_run=False)
    assert gold(shared) == BUILT
    assert [row[1] for row in shared.sql("show tables in {schema}_silver")] == ["silver_orders"]


def test_backups_are_listed_and_go_when_their_day_has_come(shared: Orders) -> None:
    version = shared.version(shared.gold)
    shared.operation("backup", table="customer_totals", reason="it's; why", expires="1 second")
    copy = f"{shared.gold}_version_{version}"
    assert shared.sql(GOLD.replace("{gold}", copy)) == BUILT
    assert "exists already" in shared.operation(
        "backup", expect=False, table="customer_totals", reason="again"
    )
    listed = shared.operation("list_backups").splitlines()
    assert listed[0].startswith(
        f"gold.customer_totals_version_{version}: version {version} of gold.customer_totals, until"
    )
    assert listed[0].endswith("(expired), it's; why")
    dry_run = shared.operation("expire_backups")
    assert dry_run.endswith("dry_run: false drops 1 tables for good")
    assert shared.spark.catalog.tableExists(copy)
    shared.operation("expire_backups", dry_run=False)
    assert not shared.spark.catalog.tableExists(copy)
    assert shared.operation("list_backups") == "0 backups, 0 expired"


def test_drop_refuses_what_is_needed_and_sets_the_rest_aside(shared: Orders) -> None:
    said = shared.operation("drop", expect=False, table="silver_orders", reason="x", dry_run=False)
    assert "silver.silver_orders is needed by model customer_totals" in said
    dry(shared, "drop", table="customer_totals")
    printed = shared.operation("drop", table="customer_totals", reason="unread", dry_run=False)
    assert not shared.spark.catalog.tableExists(shared.gold)
    assert "1 backups, 0 expired" in shared.operation("list_backups")
    shared.undo(printed)
    assert gold(shared) == BUILT
    assert shared.operation("plan_tables", select="gold").endswith("1 as declared")


def test_as_of_reads_a_version_and_says_which_there_are(shared: Orders) -> None:
    version = shared.version(shared.silver)
    shared.sql("delete from {silver}")
    show = "select count(*) as n from {{ as_of(ref('silver_orders'), version=%s) }}"
    result = shared.dbt("show", "--inline", show % version, "--output", "json")
    assert result.result.results[0].agate_table.rows[0][0] == 5
    result = shared.dbt("show", "--inline", show % 99, expect=False)
    said = " ".join([str(result.exception), *result.messages])
    assert "has no version 99; its history has versions 0 (" in said
    shared.sql(f"restore table {{silver}} to version as of {version}")
    assert gold(shared) == BUILT


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("restore", {"table": "silver_order", "version": 1}, "did you mean 'silver.silver_orders'"),
    ("restore", {"table": "a'b; drop table x", "version": 1}, "there is no table 'a'b; drop"),
    ("restore", {"table": "silver.`x`; y", "version": 1}, "there is no table"),
    ("restore", {"table": "silver_orders", "version": 99}, "its history has versions 0 ("),
    ("restore", {"table": "silver_orders", "timestamp": "yesterday"}, "write it as 2026-01-31"),
    ("restore", {"table": "silver_orders"}, "name either a version or a timestamp"),
    ("delete_where", {"table": "silver_orders", "predicate": "id > 99"}, "no row of"),
    ("delete_where", {"table": "silver_orders", "predicate": "true"}, "takes all 5 rows"),
    ("delete_where", {"table": "silver_orders", "predicate": "nothing = 1"}, "nothing"),
    ("delete_where", {"table": "silver_orders", "predicate": "1=1; drop table x"}, "';'"),
    ("replace_where", {"model": "bronze.orders", "predicate": "id = 1"}, "is not a table that"),
    ("backup", {"table": "silver_orders", "reason": "x", "expires": "soon"}, "length of time"),
    ("restore", {"tabel": "silver_orders"}, "tabel"),
]


def test_bad_input_is_refused_and_changes_nothing(shared: Orders) -> None:
    before = shared.versions()
    for operation, arguments, words in BAD:
        if operation != "backup" and "tabel" not in arguments:
            arguments = {**arguments, "reason": "x", "dry_run": False}
        said = shared.operation(operation, expect=False, **arguments)
        assert words in said.replace("\n", " "), (operation, arguments, said)
    assert shared.versions() == before
