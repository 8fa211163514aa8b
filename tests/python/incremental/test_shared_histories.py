"""Test that all models of an invocation share a table's history until a write to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwaters.runs.histories import SECONDS, Histories, StatementTarget, written_by
from headwaters.tables.commits import Commit

ORDERS = ("silver", "orders")


def commits(newest: int, oldest: int) -> list[Commit]:
    return [Commit(version, version, "WRITE", {}, {}) for version in range(newest, oldest - 1, -1)]


class Clock:
    """A clock that moves only when the test moves it."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def told(histories: Histories, newest: int, oldest: int, limit: int = 3) -> None:
    histories.answer(histories.question("silver.orders", limit), commits(newest, oldest))


def test_an_answer_serves_whoever_names_the_table_and_needs_no_more_of_it() -> None:
    histories = Histories(Clock())
    assert histories.find("silver.orders") is None
    told(histories, 9, 7)
    for name in ("silver.orders", "`Silver`.`orders`", "spark_catalog.silver.orders"):
        assert histories.find(name) == commits(9, 7)
    assert histories.find("gold.orders") is None
    assert histories.find("silver.orders", back_to=7, up_to=9) == commits(9, 7)
    assert histories.find("silver.orders", back_to=6) is None
    assert histories.find("silver.orders", up_to=10) is None  # pinned by a newer answer


def test_what_a_log_no_longer_has_is_not_asked_for_again() -> None:
    histories = Histories(Clock())
    told(histories, 9, 8)
    assert histories.find("silver.orders", back_to=0) == commits(9, 8)


def test_an_answer_is_discarded_after_its_time_by_the_next_invocation_and_by_a_write() -> None:
    clock = Clock()
    histories = Histories(clock)
    histories.begin("a")
    told(histories, 9, 7)
    clock.now = SECONDS
    assert histories.find("silver.orders") is not None
    clock.now = SECONDS + 1
    assert histories.find("silver.orders") is None

    told(histories, 9, 7)
    histories.begin("a")
    assert histories.find("silver.orders") is not None
    histories.begin("b")
    assert histories.find("silver.orders") is None

    for written in (ORDERS, None):
        told(histories, 9, 7)
        histories.discard(("gold", "orders"))
        assert histories.find("silver.orders") is not None
        histories.discard(written)
        assert histories.find("silver.orders") is None


@pytest.mark.parametrize("written", [ORDERS, None])
def test_an_answer_to_a_question_from_before_a_write_is_not_kept(
    written: tuple[str, ...] | None,
) -> None:
    histories = Histories(Clock())
    question = histories.question("silver.orders", 3)
    histories.discard(written)
    histories.answer(question, commits(9, 7))
    assert histories.find("silver.orders") is None


@pytest.mark.parametrize(
    "sql",
    [
        "describe history silver.orders limit 20",
        '/* {"app": "dbt"} */\nselect * from silver.orders',
        "with new as (select 1) select * from new",
        "(select 1) union all (select 2)",
        "show tables in silver",
        "set spark.sql.ansi.enabled",
        "-- insert into silver.orders\nselect 1",
    ],
)
def test_a_statement_that_reads_leaves_what_is_known(sql: str) -> None:
    assert written_by(sql) is None


@pytest.mark.parametrize(
    "sql",
    [
        "insert into silver.orders with ('userMetadata' = 'x') select * from gold.other",
        "INSERT OVERWRITE TABLE `Silver`.`Orders` select 1",
        "merge into silver.orders as _target using gold.other as s on true",
        "update silver.orders set id = 1",
        "delete from silver.orders where id in (select id from gold.other)",
        "delete from silver.orders",
        "truncate table silver.orders",
        "alter table silver.orders set tblproperties ('a' = 'b')",
        "/* dbt */ create or replace table silver.orders using delta as select * from gold.other",
        "create table if not exists spark_catalog.silver.orders (id int) using delta",
        "create or replace view silver.orders as select 1",
        "drop table if exists silver.orders",
        "optimize silver.orders zorder by (id)",
        "vacuum silver.orders retain 0 hours",
        "restore table silver.orders to version as of 3",
        "reorg table silver.orders apply (purge)",
    ],
)
def test_a_statement_that_writes_names_its_table(sql: str) -> None:
    moves = sql.startswith("drop")
    assert written_by(sql) == StatementTarget(ORDERS, moves)


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "insert into orders select 1",
        "insert into delta.`/lake/orders` select 1",
        "alter table silver.orders rename to silver.old",
        "with new as (select 1) insert into silver.orders select * from new",
        "from gold.other insert into silver.orders select *",
        "create schema silver",
        "create function silver.orders as 'a.B'",
        "merge with schema evolution into silver.orders using gold.other on true",
        "execute immediate 'delete from silver.orders'",
        "begin delete from silver.orders; end",
        "call orders()",
        "insert into identifier('silver.orders') select 1",
        "insert into table silver",
    ],
)
def test_a_statement_that_does_not_name_its_table_may_write_to_any(sql: str) -> None:
    assert written_by(sql) == StatementTarget(None)


SOURCES = """
sources: [{name: inputs, schema: "{{ target.schema }}_inputs", tables: [{name: orders}]}]
"""
FIRST = """
{{ config(materialized='incremental', incremental_strategy='change_feed', unique_key='id') }}
select id, val from {{ changes(source('inputs', 'orders')) }}
"""


@pytest.mark.slow
def test_models_follow_what_the_same_invocation_wrote(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    orders = f"{schema}_inputs.orders"
    spark.sql(f"create schema {schema}_inputs")
    spark.sql(
        f"create table {orders} using delta tblproperties ('delta.enableChangeDataFeed' = 'true')"
        " as select 1 as id, 10 as val"
    )
    folder = new_project(
        {
            "models/inputs.yml": SOURCES,
            "models/first.sql": FIRST,
            "models/second.sql": FIRST.replace("source('inputs', 'orders')", "ref('first')"),
            "models/third.sql": FIRST.replace("source('inputs', 'orders')", "ref('second')"),
        }
    )

    dbt("run", project_dir=folder, schema=schema)
    spark.sql(f"insert into {orders} values (2, 10)")
    ran = dbt("run", project_dir=folder, schema=schema)
    models = [answer for answer in ran.result.results if answer.node.resource_type == "model"]
    assert [str(answer.message).split(" updated")[0] for answer in models] == [
        "append: 1 inserted, 0"
    ] * 3
    third = spark.sql(f"select id, val from {schema}.third order by id").collect()
    assert [tuple(row) for row in third] == [(1, 10), (2, 10)]
