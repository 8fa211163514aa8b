"""Test texts that Delta keeps as null."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

PROJECT = """
name: types
version: 0.1.0
profile: headwaters
models:
  types:
    +materialized: incremental
    +file_format: delta
"""
SOURCES = """
sources:
  - name: inputs
    schema: "{{ target.schema }}_inputs"
    tables: [{name: items}]
"""


def test_an_empty_text_in_a_partition_column(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    inputs = f"{schema}_inputs"
    spark.sql(f"create schema {inputs}")
    spark.sql(
        f"create table {inputs}.items (id int, grp string, val int) using delta"
        " tblproperties ('delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(f"insert into {inputs}.items values (1, '', 1), (2, 'b', 1), (3, 'c', 1)")
    folder = new_project(
        {
            "dbt_project.yml": PROJECT,
            "models/inputs.yml": SOURCES,
            "models/parts.sql": "{{ config(incremental_strategy='change_feed', unique_key='id',"
            " partition_by='grp') }} select * from {{ changes(source('inputs', 'items')) }}",
        }
    )
    dbt("run", project_dir=folder, schema=schema)

    spark.sql(f"update {inputs}.items set val = 2, grp = if(id = 2, '', grp) where id < 3")
    ran = dbt("run", project_dir=folder, schema=schema)
    [said] = [done.message for done in ran.result.results if done.node.resource_type == "model"]
    assert said.startswith("merge: 0 inserted, 2 updated, 0 deleted")
    assert sorted(map(tuple, spark.table(f"{schema}.parts").collect())) == [
        (1, None, 2),
        (2, None, 2),
        (3, "c", 1),
    ]
