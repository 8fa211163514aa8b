"""Test inputs that are replaced as a whole, and keys of rare types.

Views are redefined, tables swapped, recreated and cloned, views become tables and tables views, and
the rule of an expectation changes. Tables equal their SQL after each change.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

PROJECT = """
name: changed_inputs
version: 0.1.0
profile: headwaters
models:
  changed_inputs:
    +materialized: incremental
    +file_format: delta
    +incremental_strategy: change_feed
    +unique_key: id
    +tblproperties:
      delta.enableChangeDataFeed: "true"
"""
SOURCES = """
sources:
  - name: inputs
    schema: "{{ target.schema }}_inputs"
    tables: [{name: one}, {name: two}, {name: shown}, {name: nested}, {name: named}%s]
"""
RULES = """
models:
  - name: kept
    config:
      meta:
        expectations:
          - {name: small, expression: val < %s, on_failure: drop}
"""
# Each type with four key values: two for present rows and two for later ones.
KEYS = {
    "reals": ("double", ["double('nan')", "0.5d", "double('infinity')", "-1e300d"]),
    "structs": (
        "struct<a: int, b: string>",
        [
            "named_struct('a', 1, 'b', 'x')",
            "named_struct('a', cast(null as int), 'b', '')",
            "named_struct('a', 2, 'b', cast(null as string))",
            "null",
        ],
    ),
    "arrays": ("array<string>", ["array('a', null)", "array()", "array('', 'b')", "null"]),
    "long_decimals": ("decimal(38, 0)", ["9" * 38 + "bd", "-1bd", "0bd", "null"]),
}


def source(name: str) -> str:
    return f"source('inputs', '{name}')"


def model(name: str) -> str:
    return f"select id, val from {{{{ changes({source(name)}) }}}}"


# Each model with its plain SQL.
MODELS = {
    "of_view": (model("shown"), "select id, val from {i}.shown"),
    "of_nested": (model("nested"), "select id, val from {i}.nested"),
    "of_table": (model("one"), "select id, val from {i}.one"),
    "kept": (model("one"), "select id, val from {i}.one where val < 25"),
    "with_lookup": (
        f"select f.id, f.val, s.val as other from {{{{ changes({source('one')}) }}}} as f"
        f" left join {{{{ lookup({source('shown')}) }}}} as s on s.id = f.id",
        "select f.id, f.val, s.val from {i}.one f left join {i}.shown s on s.id = f.id",
    ),
    "automatic": (
        "{{ config(incremental_strategy='auto') }}\n"
        f"select id, count(*) as n, sum(val) as total from {{{{ {source('nested')} }}}}"
        " group by id",
        "select id, count(*), sum(val) from {i}.nested group by id",
    ),
    "both": (
        "{{ config(incremental_strategy='affected_keys') }}\n"
        "select a.id, count(*) as n, max(b.val) as most"
        f" from {{{{ affected({source('one')}, key='id') }}}} as a"
        f" left join {{{{ affected({source('two')}, key='id') }}}} as b on a.id = b.id"
        " group by a.id",
        "select a.id, count(*), max(b.val) from {i}.one a left join {i}.two b on a.id = b.id"
        " group by a.id",
    ),
}
TABLE = " using delta tblproperties ('delta.enableChangeDataFeed' = 'true') "
ROWS = "select * from values (1, 10), (2, 20), (3, 30) as v(id, val)"
STEPS = {
    "first": [
        f"create table {{i}}.one{TABLE}as {ROWS}",
        f"create table {{i}}.two{TABLE}as select id, val + 5 as val from ({ROWS})",
        "create view {i}.shown as select id, val from {i}.one where id <> 2",
        "create view {i}.nested as select id, val from {i}.shown",
    ],
    "a view has another filter": [
        "insert into {i}.one values (4, 40)",
        "alter view {i}.shown as select id, val from {i}.one where id <> 3",
    ],
    "a view reads another table": ["alter view {i}.shown as select id, val from {i}.two"],
    "a nested view computes": ["alter view {i}.nested as select id, val + 1 as val from {i}.shown"],
    "a view becomes a table": [
        "drop view {i}.shown",
        f"create table {{i}}.shown{TABLE}as select id, -val as val from {{i}}.one where id = 1",
        "update {i}.one set val = 11 where id = 1",
    ],
    "a table becomes a view": [
        "drop table {i}.shown",
        "create view {i}.shown as select id, val from {i}.two where id > 1",
    ],
    "tables are swapped": [
        "alter table {i}.one rename to {i}.spare",
        "alter table {i}.two rename to {i}.one",
        "alter table {i}.spare rename to {i}.two",
    ],
    "a table is recreated with as many versions": [
        "drop table {i}.two",
        f"create table {{i}}.two{TABLE}as {ROWS}",
        "insert into {i}.two values (9, 90)",
        "update {i}.two set val = 12 where id = 1",
        "drop table {i}.one",
        f"create table {{i}}.one{TABLE}as {ROWS}",
        "delete from {i}.one where id = 2",
        "insert into {i}.one values (7, 5)",
    ],
    "a table is another's clone": [
        "drop table {i}.one",
        "create table {i}.one shallow clone {i}.two",
        "insert into {i}.one values (8, 8)",
    ],
}


def test_inputs_that_become_others_leave_what_the_sql_says(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    inputs = f"{schema}_inputs"
    spark.sql(f"create schema {inputs}")
    files = {f"models/{name}.sql": sql for name, (sql, _) in MODELS.items()}
    files |= {"dbt_project.yml": PROJECT, "models/inputs.yml": SOURCES % ""}
    folder = new_project(files)
    limit = 25
    for step, statements in STEPS.items():
        for statement in statements:
            spark.sql(statement.replace("{i}", inputs))
        limit = 35 if step == "tables are swapped" else limit
        (folder / "models" / "kept.yml").write_text(RULES % limit)
        ran = dbt("run", project_dir=folder, schema=schema)
        said = {answer.node.name: str(answer.message) for answer in ran.result.results}
        wrong = {}
        for name, (_, plain) in MODELS.items():
            want = plain.replace("{i}", inputs).replace("< 25", f"< {limit}")
            if differences(spark, f"select * from {schema}.{name}", want):
                wrong[name] = said[name]
        assert wrong == {}, step


def differences(spark: Any, got: str, want: str) -> list[Any]:
    both = f"({got} except all ({want})) union all (({want}) except all {got})"
    found: list[Any] = spark.sql(both).collect()
    return found


def test_keys_of_rare_types_follow_their_inputs(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    inputs = f"{schema}_inputs"
    spark.sql(f"create schema {inputs}")
    files = {}
    for name, (type_, (first, second, *_)) in KEYS.items():
        table = f"{inputs}.{name}_in"
        spark.sql(f"create table {table} (id {type_}, val int){TABLE}")
        spark.sql(f"insert into {table} values ({first}, 1), ({second}, 2)")
        files[f"models/{name}.sql"] = model(f"{name}_in")
        files[f"models/{name}_sums.sql"] = (
            "{{ config(incremental_strategy='affected_keys') }}\nselect id, sum(val) as val"
            f" from {{{{ affected({source(name + '_in')}, key='id') }}}} group by id"
        )
    sources = SOURCES % "".join(f", {{name: {name}_in}}" for name in KEYS)
    folder = new_project(files | {"dbt_project.yml": PROJECT, "models/inputs.yml": sources})
    for statement in (
        "select 1",
        "insert into {table} values ({2}, 3), ({3}, 4)",
        "update {table} set val = val + 10 where id <=> {0} or id <=> {3}",
        "delete from {table} where id <=> {1}",
    ):
        for name, (_, values) in KEYS.items():
            spark.sql(statement.format(*values, table=f"{inputs}.{name}_in"))
        ran = dbt("run", project_dir=folder, schema=schema)
        said = {answer.node.name: str(answer.message) for answer in ran.result.results}
        wrong = {}
        for name in KEYS:
            for made in (name, f"{name}_sums"):
                got = f"select * from {schema}.{made}"
                replaced = statement != "select 1" and said[made].startswith("replace")
                if replaced or differences(spark, got, f"select * from {inputs}.{name}_in"):
                    wrong[made] = said[made]
        assert wrong == {}, statement
