"""Test the strategy `history`: periods of validity from every image, in any order of arrival."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROJECT = """
name: history
version: 0.1.0
profile: headwaters
models:
  history:
    +materialized: incremental
    +file_format: delta
"""
SOURCES = """
sources:
  - name: inputs
    schema: "{{ target.schema }}_inputs"
    tables: [{name: members}]
"""
MODEL = """
{{ config(incremental_strategy='history', unique_key='id') }}

select id, plan, _image
from {{ images(source('inputs', 'members'), at='since') }}
where plan <> 'test'
"""
PERIODS = """
    select id, plan, cast(to_date(valid_from) as string), cast(to_date(valid_to) as string),
        is_current
    from {schema}.periods order by id, valid_from
"""


@pytest.mark.slow
def test_late_deleted_and_filtered_images_land_in_their_periods(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    members = f"{schema}_inputs.members"
    spark.sql(f"create schema {schema}_inputs")
    spark.sql(
        f"create table {members} (id int, plan string, since timestamp) using delta"
        " tblproperties ('delta.enableChangeDataFeed' = 'true')"
    )
    folder = new_project(
        {
            "dbt_project.yml": PROJECT,
            "models/inputs.yml": SOURCES,
            "models/periods.sql": MODEL,
        }
    )

    def periods(*statements: str) -> list[tuple[Any, ...]]:
        for statement in statements:
            spark.sql(statement)
        dbt("run", project_dir=folder, schema=schema)
        return [tuple(row) for row in spark.sql(PERIODS.format(schema=schema)).collect()]

    today = str(spark.sql("select cast(current_date() as string)").collect()[0][0])

    assert periods(
        f"insert into {members} values (1, 'free', timestamp '2026-01-01'),"
        " (null, 'free', timestamp '2026-01-05'), (3, 'test', timestamp '2026-01-01')"
    ) == [(None, "free", "2026-01-05", None, True), (1, "free", "2026-01-01", None, True)]

    # a change, and then a late image: it is valid before the earlier change
    assert periods(
        f"update {members} set plan = 'pro', since = timestamp '2026-03-01' where id = 1",
    ) == [
        (None, "free", "2026-01-05", None, True),
        (1, "free", "2026-01-01", "2026-03-01", False),
        (1, "pro", "2026-03-01", None, True),
    ]
    late = [
        (None, "free", "2026-01-05", None, True),
        (1, "free", "2026-01-01", "2026-02-01", False),
        (1, "trial", "2026-02-01", "2026-03-01", False),
        (1, "pro", "2026-03-01", None, True),
    ]
    assert (
        periods(
            f"update {members} set plan = 'trial', since = timestamp '2026-02-01' where id = 1",
        )
        == late
    )

    # the validity of deleted or filtered rows ends at the moment of the commit
    ended = [
        (None, "free", "2026-01-05", today, False),
        *late[1:3],
        (1, "pro", "2026-03-01", today, False),
    ]
    assert (
        periods(
            f"delete from {members} where id is null",
            f"update {members} set plan = 'test' where id = 1",
        )
        == ended
    )
    # of two rows of one key and moment, in one commit, the greater is valid
    ended.append((9, "b", "2026-04-01", None, True))
    moment = "timestamp '2026-04-01'"
    assert periods(f"insert into {members} values (9, 'b', {moment}), (9, 'a', {moment})") == ended
    # a full refresh reads the whole feed, which has a new column by now
    assert periods(f"alter table {members} add columns (notes array<string>)") == ended
    dbt("run", "--full-refresh", project_dir=folder, schema=schema)
    assert [tuple(row) for row in spark.sql(PERIODS.format(schema=schema)).collect()] == ended
