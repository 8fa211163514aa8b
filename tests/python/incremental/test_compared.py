"""Test runs that compute a whole table, and write only the rows that differ from it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwaters.runs import decisions

PROJECT = """
name: compared
version: 0.1.0
profile: headwaters
models:
  compared:
    +materialized: incremental
    +file_format: delta
    +tblproperties: {delta.enableChangeDataFeed: "true"}
"""
SOURCES = """
sources:
  - name: inputs
    schema: "{{ target.schema }}_inputs"
    tables:
      - {name: items, columns: [{name: id, data_tests: [unique, not_null]}]}
      - {name: rates}
"""
PRICED = """
{{ config(incremental_strategy='change_feed', unique_key='id'MORE) }}
select items.id, items.grp, items.val, rates.rate
from {{ changes(source('inputs', 'items')) }} as items
left join {{ lookup(source('inputs', 'rates')) }} as rates on items.grp = rates.grp
"""
AUTO = "{{ config(incremental_strategy='auto') }}\n"
SMALL = "{{ config(incremental_strategy='auto', whole_below=1000) }}\n"
MODELS = {
    # followed by `above`, so that a lookup that changes does not replace it
    "priced": PRICED.replace("MORE", ""),
    "alone": PRICED.replace("MORE", ""),
    "strict": PRICED.replace("MORE", ", refresh='strict'"),
    "above": AUTO + "select id, rate from {{ ref('priced') }} where rate > 1",
    "small": SMALL + "select grp, count(*) as n, sum(val) as total"
    " from {{ source('inputs', 'items') }} group by grp",
    "copies": SMALL + "select grp, val from {{ source('inputs', 'items') }} where val > 5",
    "kept": SMALL + "select id, val from {{ source('inputs', 'items') }}",
    "totals": SMALL + "select n, count(*) as groups from {{ ref('small') }} group by n",
}
MEANT = {
    "priced": "select items.id, items.grp, items.val, rates.rate from {inputs}.items as items"
    " left join {inputs}.rates as rates on items.grp = rates.grp",
    "above": "select items.id, rates.rate from {inputs}.items as items"
    " join {inputs}.rates as rates on items.grp = rates.grp where rate > 1",
    "small": "select grp, count(*) as n, sum(val) as total from {inputs}.items group by grp",
    "copies": "select grp, val from {inputs}.items where val > 5",
    "kept": "select id, val from {inputs}.items",
    "totals": "select n, count(*) as groups from (select count(*) as n from {inputs}.items"
    " group by grp) group by n",
}
MEANT["alone"] = MEANT["priced"]


@pytest.mark.slow
def test_only_rows_that_differ_are_written_and_handed_on(
    dbt: Callable[..., Any],
    new_project: Callable[..., Path],
    spark: Any,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inputs = f"{schema}_inputs"
    feed = "using delta tblproperties ('delta.enableChangeDataFeed' = 'true')"
    spark.sql(f"create schema {inputs}")
    spark.sql(f"create table {inputs}.items (id int, grp string, val int) {feed}")
    spark.sql(f"create table {inputs}.rates (grp string, rate int) {feed}")
    spark.sql(f"insert into {inputs}.items select id, chr(97 + id % 3), id from range(30)")
    spark.sql(f"insert into {inputs}.rates values ('a', 1), ('b', 2)")
    files = {f"models/{name}.sql": text for name, text in MODELS.items()}
    folder = new_project({"dbt_project.yml": PROJECT, "models/inputs.yml": SOURCES, **files})

    def ran(expect: bool | None = True) -> dict[str, str]:
        found = dbt("run", project_dir=folder, schema=schema, expect=expect).result.results
        return {
            one.node.name: re.sub(r"[\d.]+ (Bytes|kB)", "N", one.message or "skipped")
            for one in found
            if one.node.resource_type == "model"
        }

    def wrong() -> list[str]:
        return [
            name
            for name, sql in MEANT.items()
            if sorted(map(str, spark.sql(sql.format(inputs=inputs)).collect()))
            != sorted(map(str, spark.sql(f"select * from {schema}.{name}").collect()))
        ]

    ran()
    assert wrong() == []
    spark.sql(f"insert into {inputs}.rates values ('c', 3)")
    said = ran(expect=False)
    changed = f"lookup {inputs}.rates changed"
    assert said["priced"] == (
        f"compare: 10 rows differed, 0 inserted, 10 updated, 0 deleted, N, {changed}"
    )
    assert said["above"].startswith("append: 10 inserted, 0 updated, 0 deleted, N, of ")
    assert said["alone"] == f"replace: 30 rows, N, {changed}"
    assert "[HW_STRICT]" in said["strict"] and changed in said["strict"]
    assert said["small"] == said["copies"] == said["totals"] == said["kept"] == "no changes"
    assert wrong() == []

    spark.sql(f"delete from {inputs}.items where id in (3, 4)")
    spark.sql(f"insert into {inputs}.items values (30, 'a', 100), (31, 'd', 7), (31, 'd', 7)")
    spark.sql(f"delete from {inputs}.items where id = 31")
    spark.sql(f"insert into {inputs}.items values (32, 'd', 7)")
    said = ran(expect=False)
    # the logs tell that `totals`, which follows it, is small, too
    assert said["small"] == "replace: 4 rows, N, computed in full from 30 rows"
    assert said["copies"] == "replace: 26 rows, N, computed in full from 30 rows"
    assert said["totals"].startswith("replace: ")
    assert wrong() == []

    monkeypatch.setattr(decisions, "MOST_ROWS_WHOLE", 1000)
    spark.sql(f"insert into {inputs}.items values (40, 'a', 9)")
    said = ran(expect=False)
    assert said["priced"].startswith("append: 1 inserted, ")
    assert said["above"] == "replace: 19 rows, N, computed in full from 31 rows"
    assert said["small"] == "replace: 4 rows, N, computed in full from 31 rows"
    assert said["copies"] == "replace: 27 rows, N, computed in full from 31 rows"
    assert said["totals"].endswith(", computed in full from 4 rows")
    assert wrong() == []

    spark.sql(f"alter table {inputs}.items add column more int")
    spark.sql(f"insert into {inputs}.items values (41, 'b', 9, 1)")
    said = ran(expect=False)
    assert said["small"] == "replace: 4 rows, N, computed in full from 32 rows"
    assert wrong() == []

    # the statement that writes a small table also counts its keys
    spark.sql(f"insert into {inputs}.items values (50, 'b', 1, 1), (50, 'b', 2, 1)")
    said = ran(expect=False)
    assert "[HW_REPEATED_KEYS]" in said["kept"] and " 50" in said["kept"]
    assert spark.sql(f"select * from {schema}.kept where id = 50").collect() == []
    assert said["small"] == "replace: 4 rows, N, computed in full from 34 rows"
