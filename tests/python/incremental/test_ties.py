"""Run models whose order lets rows tie: each table is one answer of a full refresh."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

PROJECT = """
name: ties
version: 1.0.0
profile: headwaters
models:
  +materialized: incremental
  +incremental_strategy: auto
"""
SOURCE = """
sources:
  - name: inputs
    schema: "{{ target.schema }}_inputs"
    tables: [{name: rows}]
"""
NUMBERED = """
select grp, id, val, row_number() over (partition by grp order by val) as n
from {{ source('inputs', 'rows') }}
"""
LATEST = """
select grp, id, val from (
  select *, row_number() over (partition by grp order by val desc) as n
  from {{ source('inputs', 'rows') }}
) where n = 1
"""


EQUAL = """
models:
  - name: numbered
    data_tests: [{equals_full_refresh: {config: {store_failures: true, alias: differing}}}]
"""


def test_each_table_is_an_answer_of_a_full_refresh(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    folder = new_project(
        {
            "dbt_project.yml": PROJECT,
            "models/inputs.yml": SOURCE,
            "models/numbered.sql": NUMBERED,
            "models/latest.sql": LATEST,
            "models/numbered.yml": EQUAL,
        }
    )
    rows = f"{schema}_inputs.rows"
    spark.sql(f"create schema {schema}_inputs")
    spark.sql(
        f"create table {rows} using delta tblproperties ('delta.enableChangeDataFeed' = 'true') "
        "as select int(id) as id, concat('g', id % 7) as grp, int(id % 3) as val "
        "from range(0, 210, 1, 4)"
    )

    def run() -> tuple[list[str], dict[str, list[tuple[int, int, int]]]]:
        """Run dbt. Return the choices, and the rows of `numbered` by group, once both are right."""
        ran = dbt("run", project_dir=folder, schema=schema)
        built = [it for it in ran.result.results if it.node.resource_type == "model"]
        choices = sorted(f"{it.node.name} {it.message.partition(':')[0]}" for it in built)
        found: dict[str, list[tuple[int, int, int]]] = {}
        for row in spark.sql(f"select * from {schema}.numbered order by grp, n").collect():
            found.setdefault(row.grp, []).append((row.n, row.val, row.id))
        wanted: dict[str, set[tuple[int, int]]] = {}
        for row in spark.sql(f"select * from {rows}").collect():
            wanted.setdefault(row.grp, set()).add((row.val, row.id))
        for group in found.values():
            values = [val for _, val, _ in group]
            assert ([n for n, _, _ in group], values) == (
                [*range(1, len(group) + 1)],
                sorted(values),
            )
        assert {grp: {row[1:] for row in found[grp]} for grp in found} == wanted
        latest = {
            row.grp: (row.val, row.id)
            for row in spark.sql(f"select * from {schema}.latest").collect()
        }
        assert latest.keys() == wanted.keys()
        for grp, (val, id) in latest.items():
            assert (val, id) in wanted[grp] and val == max(wanted[grp])[0]
        return choices, found

    choices, before = run()
    assert choices == ["latest replace", "numbered replace"]
    spark.sql(f"insert into {rows} values (1000, 'g1', 1), (1001, 'new', 1), (1002, 'new', 1)")
    spark.sql(f"delete from {rows} where grp = 'g2' and val = 2 or id = 5")
    spark.sql(f"update {rows} set val = 2 where grp = 'g3' and val = 1")
    choices, after = run()
    assert choices == ["latest merge", "numbered merge"]
    untouched = ["g0", "g4", "g6"]
    assert {grp: after[grp] for grp in untouched} == {grp: before[grp] for grp in untouched}

    # a difference names the order that lets rows tie
    spark.sql(f"delete from {schema}.numbered where id = 1000")
    dbt("test", project_dir=folder, schema=schema, expect=False)
    differing = spark.sql(f"select distinct _ties from {schema}_dbt_test__audit.differing")
    assert [row[0] for row in differing.collect()] == [
        "row_number() OVER (PARTITION BY grp ORDER BY val)"
    ]
