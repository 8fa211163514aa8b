"""Test that a class with hooks, an input macro and a row of the list are enough for a strategy.

The test adds the row and the class while it runs, and writes the macro into a temporary project.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from headwaters.analysis import STRATEGIES as KNOWN
from headwaters.analysis import StrategyFacts
from headwaters.runs.session import DbtColumn
from headwaters.runs.strategies import STRATEGIES
from headwaters.runs.strategies.base import Strategy
from headwaters.runs.work import Work

PROJECT = """
name: added
version: 0.1.0
profile: headwaters
models:
  added:
    +materialized: incremental
    +file_format: delta
"""
SOURCES = """
sources:
  - name: inputs
    schema: "{{ target.schema }}_inputs"
    tables: [{name: items}]
"""
STRATEGY = """
{% macro watched(relation) %}
    {{- return(hw_input('watched', relation)) -}}
{% endmacro %}
"""


class Whole(Strategy):
    """A strategy that computes everything and writes the differences: right for any SQL."""

    def change_set_sql(
        self, work: Work, sql: str, columns: Sequence[DbtColumn], bounds: Sequence[Any]
    ) -> str:
        model = self.model
        beside = model.beside_sql("_old._row")
        return str(self.sql("hw_compared_sql", model.target, sql, model.keys, beside))


MODEL = """
{{ config(incremental_strategy='whole', unique_key='rank') }}
select rank, sum(val) as total
from (
    select *, dense_rank() over (order by val) as rank
    from {{ watched(source('inputs', 'items')) }}
)
group by rank
"""


@pytest.mark.slow
def test_a_strategy_is_added(
    dbt: Callable[..., Any],
    new_project: Callable[[dict[str, str]], Path],
    spark: Any,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = StrategyFacts("whole", "whole", "watched", rules="whole")
    monkeypatch.setitem(KNOWN, "whole", known)
    monkeypatch.setitem(STRATEGIES, "whole", Whole)
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
