"""Test that a large change recomputes affected rows only if that is less work than a rebuild."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SOURCES = """
sources:
  - name: inputs
    schema: "{{ target.schema }}_inputs"
    tables: [{name: orders}]
"""
TOTALS = """
{{ config(materialized='incremental', incremental_strategy='affected_keys', unique_key='grp') }}
select grp, count(*) as orders
from {{ affected(source('inputs', 'orders'), key='grp') }}
group by grp
"""
SUMS = """
{{ config(materialized='incremental', incremental_strategy='signed_sum', unique_key='grp') }}
select grp, sum(_weight) as orders from {{ signed(source('inputs', 'orders')) }} group by grp
"""
COPY = """
{{ config(materialized='incremental', incremental_strategy='change_feed', unique_key='id') }}
select id, grp from {{ changes(source('inputs', 'orders')) }}
"""


def without_numbers(message: str) -> str:
    """Return dbt's message of a model, without the parts that differ between runs."""
    return re.sub(r"[\d.]+ [kM]B", "N bytes", message)


@pytest.mark.slow
def test_a_large_change_is_weighed_by_keys_by_input_rows_or_by_rows(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    orders = f"{schema}_inputs.orders"
    spark.sql(f"create schema {schema}_inputs")
    spark.sql(
        f"create table {orders} using delta tblproperties ('delta.enableChangeDataFeed' = 'true')"
        " as select id, id % 1000 as grp from range(40000)"
    )
    folder = new_project(
        {
            "models/inputs.yml": SOURCES,
            "models/totals.sql": TOTALS,
            "models/sums.sql": SUMS,
            "models/copy.sql": COPY,
        }
    )

    def said(statement: str) -> dict[str, str]:
        spark.sql(statement)
        result = dbt("run", project_dir=folder, schema=schema)
        models = ("totals", "sums", "copy")
        answers = {answer.node.name: str(answer.message) for answer in result.result.results}
        found = {name: answers[name] for name in models}
        for name in ("totals", "sums"):
            wrong = spark.sql(
                f"select * from {schema}.{name} except all"
                f" select grp, count(*) from {orders} group by grp"
            )
            assert wrong.collect() == []
        return {name: message.split(":")[0] for name, message in found.items()} | {
            "why": re.sub(r"\d+ %", "N %", found["totals"].rpartition(", ")[2])
        }

    first = said(f"delete from {orders} where id < 0")
    assert first == {"totals": "replace", "sums": "replace", "copy": "replace", "why": "first run"}

    # 12,000 new rows, in 100 of 1,000 groups
    assert said(f"insert into {orders} select id + 40000, id % 100 from range(12000)") == {
        "totals": "merge",
        "sums": "merge",
        "copy": "append",
        "why": "of 12000 changed input rows",
    }
    # as many new rows, in every group
    assert said(f"insert into {orders} select id + 60000, id % 1000 from range(12000)") == {
        "totals": "replace",
        "sums": "merge",
        "copy": "append",
        "why": "N % of the affected keys",
    }
    # more new rows than old ones
    assert said(f"update {orders} set grp = grp + 1 where id < 55000") == {
        "totals": "replace",
        "sums": "replace",
        "copy": "replace",
        "why": "N % of the affected keys",
    }


@pytest.mark.slow
def test_where_changed_rows_lie_makes_no_share_large(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    orders = f"{schema}_inputs.orders"
    spark.sql(f"create schema {schema}_inputs")
    spark.sql(
        f"create table {orders} using delta tblproperties ('delta.enableChangeDataFeed' = 'true')"
        " as select id, id % 1000 as grp from range(400000)"
    )
    folder = new_project({"models/inputs.yml": SOURCES, "models/copy.sql": COPY})

    def said(statement: str) -> str:
        spark.sql(statement)
        result = dbt("run", project_dir=folder, schema=schema)
        messages = {answer.node.name: str(answer.message) for answer in result.result.results}
        wrong = spark.sql(f"select * from {schema}.copy except all select id, grp from {orders}")
        assert wrong.collect() == []
        return without_numbers(messages["copy"])

    assert said(f"delete from {orders} where id < 0").startswith("replace: 400000 rows")
    assert said(f"update {orders} set grp = -1 where id >= 388000") == (
        "merge: 0 inserted, 12000 updated, 0 deleted, N bytes, of 12000 changed input rows"
    )
    assert said(f"update {orders} set grp = -2 where id % 33 = 0") == (
        "merge: 0 inserted, 12122 updated, 0 deleted, N bytes, of 12122 changed input rows"
    )
    assert said(f"update {orders} set grp = -3 where id % 10 = 0") == (
        "replace: 400000 rows, N bytes, 10 % of the rows changed"
    )
    assert said(f"delete from {orders} where id % 150 = 0 or id = 1") == (
        "merge: 0 inserted, 0 updated, 2668 deleted, N bytes, by MERGE (rows are only deleted),"
        " of 2668 changed input rows"
    )
