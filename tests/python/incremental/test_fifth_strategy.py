"""A strategy is one file of SQL, one marker and one row of the list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwaters.incremental.strategies import STRATEGIES, Strategy

PROJECT = """
name: fifth
version: 0.1.0
profile: headwaters
models:
  fifth:
    +materialized: incremental
    +file_format: delta
"""
SOURCES = """
sources:
  - name: inputs
    schema: "{{ target.schema }}_inputs"
    tables: [{name: items}]
"""
# Everything is computed, and what differs is written: right for any SQL, and for small tables.
STRATEGY = """
{% macro compared(relation) %}
    {{- return(hw_input('compared', relation)) -}}
{% endmacro %}


{% macro hw_whole__change_set_sql(target, sql, plan, settings, columns, bounds) -%}
    {%- set keys = hw_as_list(settings.get('unique_key')) -%}
with _new as (select struct(*) as _row, {{ hw_quoted(keys) | join(', ') }} from (
{{ sql }}
)),
_present as (select struct(*) as _row, {{ hw_quoted(keys) | join(', ') }} from {{ target }})
{{ hw_classified_sql('_new', '_present', keys, settings) }}
{%- endmacro %}
"""
MODEL = """
{{ config(incremental_strategy='whole', unique_key='rank') }}
select rank, sum(val) as total
from (
    select *, dense_rank() over (order by val) as rank
    from {{ compared(source('inputs', 'items')) }}
)
group by rank
"""


def test_a_fifth_strategy(
    dbt: Callable[..., Any],
    new_project: Callable[[dict[str, str]], Path],
    spark: Any,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(STRATEGIES, "whole", Strategy("whole", "whole", "compared", rules="whole"))
    spark.sql(f"create schema {schema}_inputs")
    items = f"{schema}_inputs.items"
    spark.sql(
        f"create table {items} (id int, val int) using delta"
        " tblproperties ('delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(f"insert into {items} values (1, 10), (2, 20), (3, 20)")
    folder = new_project(
        {
            "dbt_project.yml": PROJECT.replace("models:", "macro-paths: [macros, own]\nmodels:"),
            "models/inputs.yml": SOURCES,
            "models/ranks.sql": MODEL,
            "own/whole.sql": STRATEGY,
        }
    )
    said = []
    changes = ["insert into {t} values (4, 5)", "delete from {t} where val = 10"]
    for statements in ([], changes, []):
        for statement in statements:
            spark.sql(statement.replace("{t}", items))
        ran = dbt("run", project_dir=folder, schema=schema)
        (answer,) = (its for its in ran.result.results if its.node.name == "ranks")
        said.append(str(answer.message).split(":")[0])
        want = spark.sql(
            f"select rank, sum(val) from (select *, dense_rank() over (order by val) as rank"
            f" from {items}) group by rank"
        )
        got = spark.table(f"{schema}.ranks")
        assert sorted(map(tuple, got.collect())) == sorted(map(tuple, want.collect()))
    assert said == ["replace", "merge", "no changes"]
