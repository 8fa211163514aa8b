"""A change of SQL that needs no rebuild leaves the table that a full refresh would have left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SOURCES = """
sources:
  - name: inputs
    schema: "{{ target.schema }}_inputs"
    tables: [{name: orders}, {name: lines}]
"""
FOLLOWED = "{{ changes(source('inputs', 'orders')) }}"
KEYED = "{{ affected(source('inputs', 'lines'), key='region') }}"
FEED = "{{ config(materialized='incremental', incremental_strategy='change_feed', unique_key='id') }}\n"
BAG = "{{ config(materialized='incremental', incremental_strategy='change_feed') }}\n"
AUTO = "{{ config(materialized='incremental', incremental_strategy='auto') }}\n"
GROUPS = (
    "{{ config(materialized='incremental', incremental_strategy='affected_keys',"
    " unique_key='region') }}\n"
)
SUMS = (
    "{{ config(materialized='incremental', incremental_strategy='signed_sum',"
    " unique_key='region') }}\n"
)
LATEST = (
    "{{ config(materialized='incremental', incremental_strategy='change_feed', latest_by='id',"
    " unique_key='region') }}\n"
)
DAILY = (
    "{{ config(materialized='incremental', incremental_strategy='change_feed', unique_key='id',"
    " partition_by='day') }}\n"
)
SIGNED = "from {{ signed(source('inputs', 'orders')) }}"


@dataclass(frozen=True)
class Case:
    """A model's SQL before and after, and what its run says that it did."""

    before: str
    after: str
    said: str


CASES = {
    "computed": Case(
        f"{FEED}select id, region, amount from {FOLLOWED}",
        f"{FEED}select id, cast(amount * 1.2 as decimal(12, 2)) as gross, region, amount\n"
        f"from {FOLLOWED}",
        "patch: added column gross from amount, 5 rows",
    ),
    "less": Case(
        f"{FEED}select id, region, amount from {FOLLOWED}",
        f"{FEED}select id, amount from {FOLLOWED} where region <> 'north'",
        "patch: removed column region; added condition region <> 'north', 2 rows",
    ),
    "narrowed": Case(
        f"{FEED}with f as (select id, region, amount from {FOLLOWED}) select * from f",
        f"{FEED}with f as (select id, region, amount from {FOLLOWED}) select * from f\n"
        "where amount > 15",
        "patch: added condition amount > 15, 0 inserted, 2 deleted",
    ),
    "widened": Case(
        f"{FEED}select id, region, amount from {FOLLOWED} where amount > 15 and id < 9",
        f"{FEED}select id, region, amount from {FOLLOWED} where id < 9",
        "patch: removed condition amount > 15, 2 inserted, 0 deleted",
    ),
    "moved": Case(
        f"{BAG}select region, amount from {FOLLOWED} where amount > 15",
        f"{BAG}select region, amount from {FOLLOWED} where amount < 45",
        "patch: added condition amount < 45; removed condition amount > 15, 2 inserted, 1 deleted",
    ),
    "both": Case(
        f"{AUTO}select region, amount from {{{{ source('inputs', 'orders') }}}} where amount > 15",
        f"{AUTO}select amount, region, amount + 1 as more from {{{{ source('inputs', 'orders') }}}}",
        "patch: added column more from amount; removed condition amount > 15, 5 rows",
    ),
    "grouped": Case(
        f"{GROUPS}select region, sum(val) as total, count(*) as n from {KEYED} group by region",
        f"{GROUPS}select region, sum(val) as total, count(*) as n, sum(val) / count(*) as mean\n"
        f"from {KEYED} where region is not null group by region having n > 1",
        "patch: added column mean from total, n; added conditions NOT region IS NULL and n > 1,"
        " 1 rows",
    ),
    "summed": Case(
        f"{SUMS}select region, sum(_weight) as n, sum(amount * _weight) as total {SIGNED}\n"
        "where region <> 'south' group by region",
        f"{SUMS}select region, sum(_weight) as n, sum(amount * _weight) as total {SIGNED}\n"
        "group by region",
        "patch: removed condition region <> 'south', 1 inserted, 0 deleted",
    ),
    "latest": Case(
        f"{LATEST}select id, region, amount from {FOLLOWED}",
        f"{LATEST}select id, region, amount, amount * 2 as twice from {FOLLOWED}",
        "patch: added column twice from amount, 3 rows",
    ),
    "partitioned": Case(
        f"{DAILY}select id, day, amount from {FOLLOWED}",
        f"{DAILY}select id, day, amount, amount > 15 as is_large from {FOLLOWED}\n"
        "where day > date'2026-01-01'",
        "patch: added column is_large from amount; added condition"
        " day > CAST('2026-01-01' AS DATE), 3 rows",
    ),
}
# What no rule takes.
REBUILT = {
    "sums_more": Case(
        f"{SUMS}select region, sum(_weight) as n, sum(amount * _weight) as total {SIGNED}\n"
        "group by region",
        f"{SUMS}select region, sum(_weight) as n, sum(amount * _weight) as total,\n"
        f"sum(_weight) + 1 as more {SIGNED} group by region",
        "column more is computed",
    ),
}


@pytest.fixture
def inputs(spark: Any, schema: str) -> str:
    """Two inputs, with a change data feed."""
    name = f"{schema}_inputs"
    spark.sql(f"create schema {name}")
    spark.sql(
        f"create table {name}.orders (id int, region string, amount decimal(10, 2), day date)"
        " using delta tblproperties ('delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(
        f"create table {name}.lines (region string, val int)"
        " using delta tblproperties ('delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(
        f"insert into {name}.orders select id, element_at(array('north', 'south', null), id % 3 + 1),"
        " id * 10, date_add(date'2025-12-31', id % 4) from range(1, 6)"
    )
    spark.sql(
        f"insert into {name}.lines values ('north', 1), ('north', 2), ('south', 3), (null, 4),"
        " (null, 5)"
    )
    return name


@dataclass
class Project:
    """A project of the cases' models, and what a full refresh of them leaves."""

    spark: Any
    dbt: Callable[..., Any]
    folder: Path
    schema: str

    def write(self, models: dict[str, str]) -> None:
        for name, sql in models.items():
            (self.folder / f"models/patched/{name}.sql").write_text(sql)

    def run(self, *arguments: str, expect: bool | None = True, schema: str = "") -> dict[str, str]:
        done = self.dbt(
            "run",
            *arguments,
            project_dir=self.folder,
            schema=schema or self.schema,
            expect=expect,
        )
        return {found.node.name: found.message for found in done.result.results}

    def table(self, name: str, schema: str = "") -> tuple[list[str], list[str]]:
        found = self.spark.table(f"{schema or self.schema}.{name}")
        return found.dtypes, sorted(map(str, found.collect()))


@pytest.fixture
def project(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> Project:
    """Without models."""
    files = {"models/patched/sources.yml": SOURCES}
    return Project(spark, dbt, new_project(files), schema)


CHANGES = [
    "insert into {}.orders values (6, 'south', 60, date'2026-01-02'), (7, null, 5, null)",
    "update {}.orders set amount = amount + 1 where id = 2",
    "delete from {}.orders where id = 3",
    "insert into {}.lines values ('south', 7)",
]


def test_the_table_is_what_a_full_refresh_leaves(
    project: Project, spark: Any, inputs: str, schema: str
) -> None:
    project.write({name: case.before for name, case in (CASES | REBUILT).items()})
    project.run()
    versions = {name: _version(spark, f"{schema}.{name}") for name in CASES}
    project.write({name: case.after for name, case in (CASES | REBUILT).items()})
    said = project.run()
    assert {name: said[name] for name in CASES} == {}
    assert versions == {}


def _version(spark: Any, table: str) -> int:
    found: int = spark.sql(f"describe history {table} limit 1").collect()[0]["version"]
    return found
