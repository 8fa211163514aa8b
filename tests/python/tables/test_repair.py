"""Test that each repair shows its plan first, can be undone, and reaches gold."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from dbt.adapters.spark.connections import SparkConnectionManager
from pyspark.sql import SparkSession

from tables.conftest import BUILT, FILES, GOLD, Orders

pytestmark = pytest.mark.slow

# A condition as a person writes it, with `or`.
ANN = "customer = 'ann' or customer = 'anna'"


def dry(shared: Orders, operation: str, **arguments: Any) -> list[str]:
    """Return the plan of an operation, and check that it changed nothing."""
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
    """Return gold after the next run."""
    shared.dbt("run")
    return shared.sql(GOLD)


def of_silver(shared: Orders) -> list[tuple[Any, ...]]:
    """Compute gold from the present silver; a run of silver would undo foreign changes."""
    shared.dbt("run", "--select", "customer_totals")
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


def test_the_plan_of_a_restore_lists_each_version_that_it_takes_back(shared: Orders) -> None:
    before = shared.version(shared.bronze)
    shared.sql("alter table {bronze} set tblproperties ('made' = 'yes')")
    shared.sql("delete from {bronze} where id = 1")
    plan = dry(shared, "restore", table="bronze.orders", version=before)
    deleted, altered = plan[2:4]
    assert deleted.startswith(f"  - version {before + 2}, ") and deleted.endswith(": DELETE")
    assert altered.startswith(f"  - version {before + 1}, ")
    assert altered.endswith(": SET TBLPROPERTIES, without a change of rows")
    shared.sql(f"restore table {{bronze}} to version as of {before}")
    assert gold(shared) == BUILT


def test_restore_to_a_time_as_the_manual_writes_it(shared: Orders) -> None:
    before = shared.version(shared.bronze)
    time.sleep(0.1)
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    time.sleep(0.1)
    shared.sql("delete from {bronze}")
    # without quotes, YAML reads a time
    given = f"{{table: bronze.orders, timestamp: {moment}, reason: oops, dry_run: false}}"
    shared.dbt("run-operation", "restore", "--args", given)
    assert shared.version(shared.bronze) == before + 2
    assert shared.sql("select count(*) from {bronze}") == [(5,)]
    assert gold(shared) == BUILT


def test_an_undo_takes_back_the_operation_s_own_commits(shared: Orders) -> None:
    """Let another process write between the plan and the deletion."""
    execute = SparkConnectionManager.execute
    # dbt signs its commits, and it shares the tests' session
    somebody = SparkSession.builder.remote(os.environ["HEADWATERS_ENGINE"]).create()
    insert = f"insert into {shared.bronze} values (6, 'dan', date'2026-01-04', 60)"

    def writing(manager: Any, sql: str, *more: Any, **options: Any) -> Any:
        if sql.strip().startswith("delete from"):
            somebody.sql(insert)
        return execute(manager, sql, *more, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkConnectionManager, "execute", writing)
        printed = shared.operation(
            "delete_where", table="bronze.orders", predicate="id = 1", reason="x", dry_run=False
        )
    somebody.stop()
    shared.undo(printed)
    assert [row[0] for row in shared.sql("select id from {bronze} order by id")] == [*range(1, 7)]
    undo = "select count(distinct undo) from {ops} where operation = 'delete_where'"
    assert shared.sql(undo) == [(2,)]
    shared.sql("delete from {bronze} where id = 6")
    assert gold(shared) == BUILT


def test_rows_are_not_repaired_before_a_run_that_was_cut_short_is_completed(
    shared: Orders,
) -> None:
    before = shared.version(shared.silver)
    pending = '{"x": {"version": 1, "at": 1}}'
    shared.sql(f"alter table {{silver}} set tblproperties ('headwaters.pending' = '{pending}')")
    arguments: dict[str, Any] = {"reason": "x", "dry_run": False, "predicate": "id = 1"}
    for operation, name in (("delete_where", "table"), ("replace_where", "model")):
        said = shared.operation(operation, expect=False, **{name: "silver_orders"}, **arguments)
        assert f"{operation}: a run of silver.silver_orders was interrupted: `dbt run" in said
    assert shared.version(shared.silver) == before + 1
    shared.sql(f"restore table {{silver}} to version as of {before}")
    assert gold(shared) == BUILT


def test_delete_where_takes_every_row_only_where_that_is_meant(shared: Orders) -> None:
    arguments: dict[str, Any] = {"table": "bronze.orders", "predicate": "true", "allow_all": True}
    assert dry(shared, "delete_where", **arguments)[1].startswith("  - 5 rows: ")
    printed = shared.operation("delete_where", reason="to begin anew", dry_run=False, **arguments)
    assert gold(shared) == []
    shared.undo(printed)
    assert gold(shared) == BUILT


def test_delete_where_reaches_gold_and_can_be_undone(shared: Orders) -> None:
    plan = dry(shared, "delete_where", table="bronze.orders", predicate=ANN)
    assert plan[1].startswith("  - 2 rows: ")
    printed = shared.operation(
        "delete_where",
        table="bronze.orders",
        predicate=ANN,
        reason="a test account",
        dry_run=False,
    )
    assert gold(shared) == BUILT[1:]
    shared.undo(printed)
    assert gold(shared) == BUILT


def test_replace_where_fills_again_from_the_model_s_own_sql(shared: Orders) -> None:
    shared.sql("update {silver} set amount = 0 where day = date'2026-01-01'")
    assert of_silver(shared) == [("ann", 2, 30), ("bob", 2, 50), ("cyd", 1, 40)]
    arguments: dict[str, Any] = {
        "model": "silver_orders",
        "predicate": "day = date'2026-01-01' or id = 0",
    }
    plan = dry(shared, "replace_where", **arguments)
    assert plan[1].endswith(" are replaced by the 2 that its SQL gives")
    printed = shared.operation("replace_where", reason="by hand", dry_run=False, **arguments)
    assert gold(shared) == BUILT
    shared.undo(printed)
    assert of_silver(shared) == [("ann", 2, 30), ("bob", 2, 50), ("cyd", 1, 40)]
    shared.operation("replace_where", reason="after all", dry_run=False, **arguments)
    assert gold(shared) == BUILT


def test_rebuild_compares_before_it_replaces(shared: Orders) -> None:
    # a constraint and a comment added by hand
    shared.sql("alter table {silver} add constraint by_hand check (amount >= 0)")
    shared.sql("alter table {silver} change column amount comment 'in EUR'")
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
    held = dict(shared.sql("show tblproperties {silver}"))
    assert held["delta.constraints.by_hand"] == "amount >= 0"
    assert ("amount", "int", "in EUR") in shared.sql("describe table {silver}")
    shared.undo(printed)
    assert of_silver(shared) == [("ann", 2, 30), ("bob", 1, 50), ("cyd", 1, 40)]
    shared.operation("rebuild", model="silver_orders", reason="after all", dry_run=False)
    assert gold(shared) == BUILT
    assert [row[1] for row in shared.sql("show tables in {schema}_silver")] == ["silver_orders"]


def test_backups_are_listed_and_go_when_their_day_has_come(shared: Orders) -> None:
    version = shared.version(shared.gold)
    arguments: dict[str, Any] = {"table": "customer_totals", "expires": "1 second"}
    plan = dry(shared, "backup", **arguments)
    assert plan[1].startswith(
        f"  + gold.customer_totals_version_{version}: version {version} until"
    )
    shared.operation("backup", reason="it's; why", dry_run=False, **arguments)
    copy = f"{shared.gold}_version_{version}"
    assert shared.sql(GOLD.replace("{gold}", copy)) == BUILT
    assert "exists already" in shared.operation(
        "backup", expect=False, reason="again", dry_run=False, **arguments
    )
    listed = shared.operation("list_backups").splitlines()
    assert listed[0].startswith(
        f"gold.customer_totals_version_{version}: version {version} of gold.customer_totals, until"
    )
    assert listed[0].endswith("(expired), it's; why")
    dry_run = shared.operation("expire_backups")
    assert dry_run.endswith("dry_run: false and a reason drop 1 tables for good")
    assert shared.spark.catalog.tableExists(copy)
    assert "say why" in shared.operation("expire_backups", expect=False, dry_run=False)
    # a clone has the properties of the backup, and its files: it is neither dropped nor broken
    clone = f"{shared.gold}_version_999"
    shared.sql(f"create table {clone} shallow clone {copy}")
    kept = shared.operation("expire_backups", dry_run=False, reason="expired").splitlines()
    assert kept[0].endswith("is kept: gold.customer_totals_version_999 is a shallow clone of it")
    assert kept[1:] == ["expire_backups: nothing to do"]
    assert shared.sql(GOLD.replace("{gold}", clone)) == BUILT
    shared.sql(f"drop table {clone}")
    shared.operation("expire_backups", dry_run=False, reason="expired")
    assert not shared.spark.catalog.tableExists(copy)
    assert shared.operation("list_backups") == "0 backups, 0 expired"


def test_drop_refuses_what_is_needed_and_sets_the_rest_aside(shared: Orders) -> None:
    # a follower in a schema that this project does not know
    follows = dict(shared.sql("show tblproperties {gold}"))["headwaters.inputs"]
    shared.sql("create schema {schema}_of_somebody")
    shared.sql(
        "create table {schema}_of_somebody.totals (id int) using delta"
        f" tblproperties ('headwaters.inputs' = '{follows}')"
    )
    said = shared.operation("drop", expect=False, table="silver_orders", reason="x", dry_run=False)
    assert (
        "silver.silver_orders is needed by model customer_totals, of_somebody.totals, which follows"
    ) in said
    shared.sql("drop schema {schema}_of_somebody cascade")
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
    ("backup", {"table": "silver_orders", "expires": "soon"}, "length of time"),
    ("restore", {"tabel": "silver_orders"}, "tabel"),
    (
        "delete_where",
        {"table": "orders", "predicate": "id = 1"},
        "the name of bronze.orders and of",
    ),
    (
        "delete_where",
        {"table": "{schema}_bronze.plain", "predicate": "id = 1"},
        "table of another format",
    ),
    (
        "delete_where",
        {"table": "{schema}_bronze.seen", "predicate": "id = 1"},
        "bronze.seen is a view",
    ),
    ("drop", {"table": "bronze.orders"}, "is needed by model silver_orders"),
]


def test_bad_input_is_refused_and_changes_nothing(shared: Orders) -> None:
    before = shared.versions()
    shared.write("models/silver/orders.sql", "{{ config(materialized='table') }} select 1 as id")
    shared.sql("create table {schema}_bronze.plain using parquet as select 1 as id")
    shared.sql("create view {schema}_bronze.seen as select 1 as id")
    for operation, arguments, words in BAD:
        if "tabel" not in arguments:
            arguments = {**arguments, "reason": "x", "dry_run": False}
        arguments = json.loads(json.dumps(arguments).replace("{schema}", shared.schema))
        said = shared.operation(operation, expect=False, **arguments)
        assert words in said.replace("\n", " "), (operation, arguments, said)
    assert shared.versions() == before
    (shared.folder / "models/silver/orders.sql").unlink()
    shared.write("models/bronze/orders.yml", FILES["models/bronze/orders.yml"])
