"""Test that models of one alias in two schemas, refreshed at once, keep their tables apart."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

PROJECT = """
name: aliases
version: 0.1.0
profile: headwaters
models:
  aliases:
    +materialized: incremental
    +file_format: delta
"""
SOURCES = """
sources:
  - name: inputs
    schema: "{{ target.schema }}_inputs"
    tables: [{name: left}, {name: right}]
"""
MODEL = """
{{{{ config(
    schema='{side}', alias='same', incremental_strategy='{strategy}', unique_key='id',
) }}}}
select id, '{side}' as side, {measure} from {{{{ {macro} }}}}{group}
"""
SIDES = {
    "left": MODEL.format(
        side="left",
        strategy="change_feed",
        measure="val",
        macro="changes(source('inputs', 'left'))",
        group="",
    ),
    "right": MODEL.format(
        side="right",
        strategy="affected_keys",
        measure="sum(val) as val",
        macro="affected(source('inputs', 'right'), key='id')",
        group=" group by id",
    ),
}


def test_one_alias_in_two_schemas(
    dbt: Callable[..., Any],
    new_project: Callable[..., Path],
    spark: Any,
    schema: str,
) -> None:
    inputs = f"{schema}_inputs"
    spark.sql(f"create schema {inputs}")
    for side in SIDES:
        spark.sql(
            f"create table {inputs}.{side} (id int, val int) using delta"
            " tblproperties ('delta.enableChangeDataFeed' = 'true')"
        )
    folder = new_project(
        {
            "dbt_project.yml": PROJECT,
            "models/inputs.yml": SOURCES,
            **{f"models/{side}_model.sql": text for side, text in SIDES.items()},
        }
    )
    for number in range(int(os.environ.get("ALIAS_ROUNDS", "3"))):
        spark.sql(f"insert into {inputs}.left values ({number}, 1)")
        spark.sql(f"insert into {inputs}.right values ({number}, 2), (0, 2)")
        dbt("run", "--threads", "4", project_dir=folder, schema=schema)
        for side in SIDES:
            want = spark.sql(f"select id, '{side}', sum(val) from {inputs}.{side} group by id")
            got = spark.table(f"{schema}_{side}.same")
            assert sorted(map(tuple, got.collect())) == sorted(map(tuple, want.collect()))
