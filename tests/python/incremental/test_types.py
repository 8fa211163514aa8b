"""Keys whose types differ from input to input."""

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
    tables: [{name: orders}, {name: customers}]
"""
MODEL = """
{{ config(incremental_strategy='affected_keys', unique_key='id') }}
select orders.id, orders.val, customers.name
from {{ affected(source('inputs', 'orders'), key='id') }} as orders
left join {{ affected(source('inputs', 'customers'), key='id') }} as customers
    on orders.id = customers.id
"""


def test_a_number_in_one_input_and_a_text_in_another(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    inputs = f"{schema}_inputs"
    spark.sql(f"create schema {inputs}")
    for name, columns in (
        ("orders", "id string, val int"),
        ("customers", "id bigint, name string"),
    ):
        spark.sql(
            f"create table {inputs}.{name} ({columns}) using delta"
            " tblproperties ('delta.enableChangeDataFeed' = 'true')"
        )
    spark.sql(f"insert into {inputs}.orders values ('9', 1), ('10', 1), ('11', 1)")
    spark.sql(f"insert into {inputs}.customers values (9, 'Ann'), (10, 'Bob'), (11, 'Cleo')")
    folder = new_project(
        {
            "dbt_project.yml": PROJECT,
            "models/inputs.yml": SOURCES,
            "models/named_orders.sql": MODEL,
        }
    )
    dbt("run", project_dir=folder, schema=schema)

    # as texts '10' comes before '9', as numbers it does not
    spark.sql(f"update {inputs}.orders set val = 2 where id in ('9', '10')")
    ran = dbt("run", project_dir=folder, schema=schema)
    assert ran.result.results[0].message.startswith("merge: 0 inserted, 2 updated, 0 deleted")
    assert sorted(map(tuple, spark.table(f"{schema}.named_orders").collect())) == [
        ("10", 2, "Bob"),
        ("11", 1, "Cleo"),
        ("9", 2, "Ann"),
    ]
