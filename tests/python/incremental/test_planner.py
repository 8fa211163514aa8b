"""Large changes: the planner computes anew only what is less work than the whole."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwaters.incremental import plan

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


@pytest.fixture
def shares_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs take here, beside other work, decides nothing."""
    monkeypatch.setattr(plan, "FEWEST_SECONDS", float("inf"))


def without_numbers(message: str) -> str:
    """What dbt said of a model, without what differs from run to run."""
    message = re.sub(r"\b[\d.]+ s\b", "N s", message)
    return re.sub(r"[\d.]+ [kM]B", "N bytes", message)


@pytest.mark.slow
@pytest.mark.usefixtures("shares_decide")
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
            "why": re.sub(r"\d+ %", "N %", found["totals"].split(", in ")[0].rpartition(", ")[2])
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
    # as many, in every group
    assert said(f"insert into {orders} select id + 60000, id % 1000 from range(12000)") == {
        "totals": "replace",
        "sums": "merge",
        "copy": "append",
        "why": "N % of the affected keys",
    }
    # more than there were
    assert said(f"update {orders} set grp = grp + 1 where id < 55000") == {
        "totals": "replace",
        "sums": "replace",
        "copy": "replace",
        "why": "N % of the affected keys",
    }


@pytest.mark.slow
@pytest.mark.usefixtures("shares_decide")
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
        "merge: 0 inserted, 12122 updated, 0 deleted, N bytes, of 12122 changed input rows,"
        " in N s (predicted N s, a replacement N s)"
    )
    assert said(f"update {orders} set grp = -3 where id % 10 = 0") == (
        "replace: 400000 rows, N bytes, 10 % of the rows changed,"
        " in N s (predicted N s, an incremental run N s)"
    )
    assert said(f"delete from {orders} where id % 150 = 0 or id = 1") == (
        "merge: 0 inserted, 0 updated, 2668 deleted, N bytes, by MERGE (rows are only deleted),"
        " of 2668 changed input rows"
    )


@pytest.mark.slow
def test_the_cheaper_way_by_the_tables_own_history_is_taken(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    orders, copy = f"{schema}_inputs.orders", f"{schema}.copy"
    spark.sql(f"create schema {schema}_inputs")
    spark.sql(
        f"create table {orders} using delta tblproperties ('delta.enableChangeDataFeed' = 'true')"
        " as select id, id % 1000 as grp from range(400000)"
    )
    folder = new_project({"models/inputs.yml": SOURCES, "models/copy.sql": COPY})
    now = int(time.time())

    def costs() -> Any:
        [[_, text]] = spark.sql(f"show tblproperties {copy} ('headwaters.costs')").collect()
        return json.loads(text)

    def run_over(where: str, costs: str | None = None) -> Any:
        """dbt's answer after some rows of the input changed; the table equals its full refresh."""
        if costs is not None:
            spark.sql(f"alter table {copy} set tblproperties ('headwaters.costs' = '{costs}')")
        spark.sql(f"update {orders} set grp = grp + 1 where {where}")
        answers = dbt("run", project_dir=folder, schema=schema).result.results
        [answer] = [one for one in answers if one.node.name == "copy"]
        for one, other in (
            (f"table {copy}", f"select id, grp from {orders}"),
            (f"select id, grp from {orders}", f"table {copy}"),
        ):
            assert spark.sql(f"{one} except all {other}").collect() == []
        return answer

    def forged(rows: int, incremental: float, replacement: float) -> str:
        return json.dumps(
            {
                "rows": 400_000,
                "replaced": [[2, 400_000, replacement, now]],
                "changes": [[2, rows, incremental, now]],
            }
        )

    first = run_over("false")
    assert first.message.endswith(", first run")
    assert first.adapter_response["seconds"] > 0
    assert costs().keys() == {"rows", "begun"}
    assert costs()["rows"] is None

    # 10 % of the rows: by their share the table is replaced
    by_share = run_over("id < 40000", "of no use")
    assert without_numbers(by_share.message) == (
        "replace: 400000 rows, N bytes, 10 % of the rows changed"
    )
    taken = run_over("id < 40000", forged(40_000, 3.0, 90.0))
    assert without_numbers(taken.message) == (
        "merge: 0 inserted, 40000 updated, 0 deleted, N bytes, of 40000 changed input rows,"
        " in N s (predicted N s, a replacement N s)"
    )
    assert taken.message.endswith(" s (predicted 3.0 s, a replacement 90.0 s)")
    assert taken.adapter_response["predicted_seconds"] == 3.0
    [[runs, rows, seconds, at]] = costs()["changes"]
    assert (runs, rows) == (3, 40_000)
    assert seconds == pytest.approx(2 + taken.adapter_response["seconds"] / 3, abs=0.2)
    assert at >= now
    assert costs()["rows"] == 400_000

    # 3 % of the rows, in one place: by their share they are applied
    by_share = run_over("id < 12000", "of no use")
    assert without_numbers(by_share.message) == (
        "merge: 0 inserted, 12000 updated, 0 deleted, N bytes, of 12000 changed input rows"
    )
    taken = run_over("id < 12000", forged(12_000, 90.0, 3.0))
    assert without_numbers(taken.message) == (
        "replace: 400000 rows, N bytes, 12000 rows changed,"
        " in N s (predicted N s, an incremental run N s)"
    )
    assert taken.message.endswith(" s (predicted 3.0 s, an incremental run 90.0 s)")
    assert taken.adapter_response["predicted_seconds"] == 3.0

    # the next run measures that replacement by its commit
    run_over("id < 12")
    found = costs()
    assert found["rows"] == 400_000
    [[runs, rows, seconds, at]] = found["replaced"]
    assert (runs, rows) == (3, 400_000)
    assert seconds == pytest.approx(2 + taken.adapter_response["seconds"] / 3, abs=0.5)
    assert [one[:2] for one in found["changes"]] == [[1, 12], [2, 12_000]]
