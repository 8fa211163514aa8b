"""Test plain SQL that the analysis cannot read: replaced at every change, or Spark's error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROJECT = """
name: unread
version: 0.1.0
profile: headwaters
vars: {headwaters_hooks: false}
flags: {send_anonymous_usage_stats: false}
models:
  unread: {+materialized: incremental, +incremental_strategy: auto}
"""
SOURCE = """
sources:
  - name: inputs
    schema: "{{ target.schema }}_inputs"
    tables: [{name: rows}, {name: names}]
"""
ROWS = "{{ source('inputs', 'rows') }}"
NAMES = "{{ source('inputs', 'names') }}"
# Each model, and the query that a full refresh would run.
REPLACED = {
    "paths": (
        f"{{{{ config(tags='it') }}}}\nselect\n    id,\n    v:a::string as x\nfrom {ROWS}",
        "select id, v:a::string as x from {i}.rows",
    ),
    "pipes": (
        f"/* two\nlines */\nfrom {ROWS} as r\n|> join {NAMES} as n on r.id = n.id\n"
        "|> extend r.id + 1 as y, n.name as z\n|> select y, z",
        "select r.id + 1, n.name from {i}.rows r join {i}.names n on r.id = n.id",
    ),
    "shifts": (
        f"select id >>> 1 as x from {ROWS}",
        "select shiftrightunsigned(id, 1) from {i}.rows",
    ),
}
WRONG = {
    "typo": f"{{{{ config(tags='it') }}}}\nselect id, nam from {NAMES}",
    "comma": f"{{{{ config(tags='it') }}}}\nselect\n    id\n    id is null as x\nfrom {ROWS}",
    "moment": f"select id >>> 1 as x, current_date as y from {ROWS}",
    "hidden": f"from {ROWS} |> select id |> union all (select id from hw_unlisted)",
}


@pytest.mark.slow
def test_sql_that_spark_alone_reads_is_replaced_and_equal_to_a_full_refresh(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    inputs = f"{schema}_inputs"
    folder = new_project(
        {
            "dbt_project.yml": PROJECT,
            "models/inputs.yml": SOURCE,
            **{f"models/{name}.sql": sql for name, (sql, _) in REPLACED.items()},
        }
    )
    feed = "using delta tblproperties ('delta.enableChangeDataFeed' = 'true')"
    spark.sql(f"create schema {inputs}")
    spark.sql(f"create table {inputs}.rows (id int, v variant) {feed}")
    spark.sql(f"create table {inputs}.names (id int, name string) {feed}")
    spark.sql(f"""insert into {inputs}.rows select 1, parse_json('{{"a": "x"}}')""")
    spark.sql(f"insert into {inputs}.names values (1, 'Ann'), (2, 'Bob')")

    def run(*, expect: bool = True) -> dict[str, str]:
        ran = dbt("run", project_dir=folder, schema=schema, expect=expect)
        return {
            it.node.name: str(it.message)
            for it in ran.result.results
            if it.node.resource_type == "model"
        }

    def compare() -> None:
        for name, (_, query) in REPLACED.items():
            found = spark.sql(f"select * from {schema}.{name}").collect()
            assert sorted(found) == sorted(spark.sql(query.format(i=inputs)).collect()), name

    lines = run()
    assert [lines[name].partition("auto: ")[2] for name in REPLACED] == [
        "replaced at every change: line 4: `v:a::string as x` is not analysed",
        "replaced at every change: line 4: `|> join "
        f"{inputs}.names as n on r.id = n.id` is not analysed",
        "replaced at every change: line 1: `select id >>> 1 as x from "
        f"{inputs}.rows` is not analysed",
    ]
    compare()
    spark.sql(f"""insert into {inputs}.rows select 2, parse_json('{{"a": "y"}}')""")
    lines = run()
    assert {line.partition(":")[0] for line in lines.values()} == {"replace"}
    assert "which is not followed: line 4: `v:a::string as x`" in lines["paths"]
    compare()
    spark.sql(f"update {inputs}.names set name = 'Bea' where id = 2")
    lines = run()
    assert [lines[name].partition(":")[0] for name in REPLACED] == [
        *("no changes", "replace", "no changes"),
    ]
    compare()

    for name in REPLACED:
        (folder / f"models/{name}.sql").unlink()
    for name, sql in WRONG.items():
        (folder / f"models/{name}.sql").write_text(sql)
    spark.sql("create or replace temporary view hw_unlisted as select 7 as id")
    lines = run(expect=False)
    spark.catalog.dropTempView("hw_unlisted")
    assert (
        "[HW_NO_SUCH_COLUMN] models/typo.sql:2: there is no column `nam`, did you mean `name`?"
    ) in lines["typo"]
    assert "[HW_SQL_SYNTAX] models/comma.sql:4: Syntax error at or near 'is'" in lines["comma"]
    assert "[HW_NONDETERMINISTIC]" in lines["moment"]
    assert "[HW_UNDECLARED_INPUT]" in lines["hidden"] and "hw_unlisted" in lines["hidden"]
