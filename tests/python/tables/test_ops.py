"""Test the tables of the schema `ops`: models/ops/ops.yml creates them, its tests check them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tables.conftest import ROOT, Orders

[SOURCE] = yaml.safe_load((ROOT / "models/ops/ops.yml").read_text())["sources"]
DECLARED: dict[str, dict[str, Any]] = {table["name"]: table for table in SOURCE["tables"]}


def columns(orders: Orders, table: str) -> list[tuple[Any, ...]]:
    """Return name, type and comment of each column of a table."""
    described = orders.sql(f"describe table {{schema}}_ops.{table}")
    return [row for row in described if row[0] and not row[0].startswith("#")]


def declared(table: str) -> list[tuple[str, str, str]]:
    return [(c["name"], c["data_type"], c["description"]) for c in DECLARED[table]["columns"]]


@pytest.mark.slow
def test_ops_tables_are_made_as_they_are_declared(orders: Orders) -> None:
    # an older release had no undo; the table gets it, and keeps its rows
    orders.sql("create schema {schema}_ops")
    orders.sql(
        "create table {ops} (at timestamp, operation_id string, STATE string, operation string,"
        " table_name string, user string, reason string, arguments string, version_before bigint,"
        " version_after bigint, files bigint, bytes bigint, invocation_id string) using delta"
    )
    orders.sql("insert into {ops} (operation_id, state, table_name) values ('a', 'started', 't')")
    orders.operation("backup", table="gold.customer_totals", reason="x", dry_run=False)
    assert orders.sql("select state, undo is null from {ops} order by at") == [
        ("started", True),
        ("started", False),
        ("done", False),
    ]
    assert orders.sql("show tables in {schema}_ops like 'erasures'") == []

    # a run creates tables without rows, if their tests are on
    project = (orders.folder / "dbt_project.yml").read_text()
    orders.write("dbt_project.yml", project + "vars: {ops_tests: true}\n")
    orders.dbt("test", "--select", "source:ops")
    for table in DECLARED:
        if table != "operations":
            assert columns(orders, table) == declared(table)
            [detail] = orders.spark.sql(f"describe detail {orders.schema}_ops.{table}").collect()
            assert detail["description"] == DECLARED[table]["description"]

    orders.sql("update {ops} set state = 'done' where operation_id = 'a'")
    failed = orders.dbt("test", "--select", "source:ops", expect=False)
    wrong = [done.node.name for done in failed.result.results if done.status == "fail"]
    assert wrong == ["ops_operations_were_started"]


RULES = """
models:
  - name: silver_orders
    config: {meta: {expectations: [{name: known, expression: customer <> 'cyd', on_failure: drop}]}}
"""


@pytest.mark.slow
def test_ops_tables_of_a_later_release_are_written_by_name(unbuilt: Orders) -> None:
    """Write by name: a column of a later release stays NULL at any place."""
    orders = unbuilt
    orders.write("models/silver/silver_orders.yml", RULES)
    orders.sql("create schema {schema}_ops")
    orders.sql("create schema {schema}_silver")
    later = {
        f"{{schema}}_ops.{table}": [(name, type_) for name, type_, _ in declared(table)]
        for table in DECLARED
    }
    kept_out = [("at", "timestamp"), ("expectations", "array<string>")]
    kept_out += [("record", "string"), ("invocation_id", "string")]
    for table, columns_ in {**later, "{silver}_quarantine": kept_out}.items():
        text = ", ".join(f"{name} {type_}" for name, type_ in reversed(columns_))
        orders.sql(f"create table {table} (later string, {text}) using delta")

    orders.dbt("run")
    orders.sql("delete from {silver} where id > 1")
    done = orders.operation("maintain", select="silver_orders", dry_run=False, reason="nightly")
    assert "purge" in done
    assert orders.sql(
        "select later, table_name, expectation, rows_asked, rows_broken, at < now()"
        " from {schema}_ops.expectations"
    ) == [(None, f"{orders.schema}_silver.silver_orders", "known", 5, 1, True)]
    assert orders.sql("select later, expectations, record from {silver}_quarantine") == [
        (None, ["known"], '{"id":4,"customer":"cyd","day":"2026-01-02","amount":40}')
    ]
    assert orders.sql(
        "select later, table_name, row_count, deleted_rows > 0 from {schema}_ops.table_state"
        " order by version"
    ) == [(None, orders.silver, 1, True), (None, orders.silver, 1, False)]
    assert orders.sql("select later, operation, state from {ops} order by at") == [
        (None, "maintain", "started"),
        (None, "maintain", "done"),
    ]


@pytest.mark.slow
def test_ops_tables_are_planned_where_they_are_named(orders: Orders) -> None:
    orders.operation("backup", table="gold.customer_totals", reason="x", dry_run=False)
    everything = orders.operation("plan_tables")
    assert "operations" not in everything and "erasures" not in everything
    settings = (
        "sources: {dbt_headwaters: {+tblproperties: {catalog.table.classification: internal}}}\n"
    )
    project = (orders.folder / "dbt_project.yml").read_text()
    orders.write("dbt_project.yml", project + settings)
    plan = orders.operation("plan_tables", select="ops").splitlines()
    assert plan[:2] == ["ops.operations", "  + catalog.table.classification: internal"]
    orders.operation("apply_tables", select="ops.operations", reason="x", dry_run=False)
    assert orders.operation("plan_tables", select="ops").endswith("1 as declared")


@pytest.mark.slow
def test_a_build_without_ops_tests_makes_no_ops_table(orders: Orders) -> None:
    orders.dbt("build")
    assert orders.sql("show databases like '{schema}_ops'") == []
    docs = orders.dbt("docs", "generate")
    assert docs.success
    assert Path(orders.folder, "target", "catalog.json").is_file()
