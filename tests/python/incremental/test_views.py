"""Test that the analysis reads through a view only if its query means the same in the run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwaters.analysis import columns_alone, with_relations
from headwaters.platform.spark_version import SETTINGS_OF_RESULTS
from headwaters.runs.view_definitions import (
    OtherSetting,
    are_of_expressions,
    has_casts,
    other_columns,
    other_function,
    other_settings,
    view,
)

ANSI, ZONE = "spark.sql.ansi.enabled", "spark.sql.session.timeZone"
CASE, LAST = "spark.sql.caseSensitive", "spark.sql.mapKeyDedupPolicy"


def described(query: str, columns: str, names: list[str] | None, **more: Any) -> str:
    """Return a view as `describe extended … as json` shows it."""
    given = [{"name": name, "type": {"name": "int"}, "nullable": True} for name in columns.split()]
    return json.dumps(
        {"columns": given, "view_text": query, "view_query_output_columns": names, **more}
    )


def test_a_view_is_its_query_over_tables() -> None:
    query = "with c as (select * from Spark_Catalog.a.b), d as (from c) select * from d, `a`.`x y`;"
    found = view(
        described(query, "id v`l", ["id", "v`l"], view_creation_spark_configuration={ZONE: "UTC"})
    )
    assert (found.relations, found.obstacle) == (["a.b", "a.`x y`"], None)
    assert found.settings == {ZONE: "UTC", ANSI: "false"}
    assert with_relations(found.text, {"a.b": "FIRST", "a.`x y`": "SECOND"}) == (
        "(select `id`, `v``l` from (\nwith c as (select * from FIRST), d as (from c)"
        " select * from d, SECOND\n))"
    )


def test_a_view_whose_columns_evolve_has_those_of_its_query() -> None:
    found = view(described("select * from a.b", "id", ["id"], view_schema_mode="EVOLUTION"))
    assert found.text == "(select * from (\nselect * from a.b\n))"


@pytest.mark.parametrize(
    ("query", "names", "obstacle"),
    [
        ("select id from a.b", ["key"], "renames the columns of its query"),
        ("select id from a.b", None, "renames the columns of its query"),
        ("select id from b", ["id"], "reads b, which has no schema"),
        ("select 1 as id", ["id"], "reads no table"),
    ],
)
def test_what_stands_between_a_view_and_its_tables(
    query: str, names: list[str] | None, obstacle: str
) -> None:
    assert view(described(query, "id", names)).obstacle == obstacle


def test_a_view_with_a_collation_of_its_own_is_not_its_query() -> None:
    given = ("select id, if('A' = 'a', 1, 2) as z from a.b", "id z", ["id", "z"])
    assert view(described(*given, collation="UTF8_BINARY")).obstacle is None
    found = view(described(*given, collation="UTF8_LCASE"))
    assert found.obstacle == "has the default collation UTF8_LCASE"


@pytest.mark.parametrize(
    ("known", "found"),
    [
        ([], None),
        (["spark_catalog.a.f", "spark_catalog.b.g"], None),
        (["spark_catalog.b.h", "spark_catalog.b.F"], "spark_catalog.b.F"),
        (["f"], "f"),  # of the session alone, so no view finds it
    ],
)
def test_a_function_of_another_schema(known: list[str], found: str | None) -> None:
    query = "select f (id) as id, b.h(1) as h from a.b where 'g(1)' <> 's'"
    given = view(described(query, "id", ["id"], view_catalog_and_namespace="spark_catalog.a"))
    assert other_function(given, known) == found


# The settings that a view stores, those of the run's session, and their difference.
SETTINGS: list[tuple[dict[str, str], dict[str, str], list[str]]] = [
    ({ZONE: "UTC", ANSI: "false"}, {ZONE: "UTC", ANSI: "FALSE"}, []),
    ({ZONE: "America/New_York"}, {ZONE: "UTC"}, [f"{ZONE} = America/New_York (UTC …)"]),
    # if no session sets it, Spark's default is the value
    ({ZONE: "UTC", ANSI: "true"}, {}, [f"{ANSI} = true (false …)"]),
    ({CASE: "true"}, {}, [f"{CASE} = true (false …)"]),
    ({CASE: "false"}, {}, []),
    # a setting that the view does not store has Spark's default, which is unknown here
    ({}, {LAST: "LAST_WIN"}, [f"{LAST} not set (LAST_WIN …)"]),
    ({"spark.sql.new": "1"}, {"spark.sql.new": "2"}, ["spark.sql.new = 1 (2 …)"]),
    ({"com.firm": "1"}, {"com.firm": "2"}, ["com.firm = 1 (2 …)"]),
    ({}, {"spark.app.id": "app", "spark.executor.memory": "4g"}, []),
    (
        {"spark.databricks.delta.lastCommitVersionInSession": "7", "spark.sql.artifact.x": "1"},
        {"spark.sql.shuffle.partitions": "7", "spark.sql.warehouse.dir": "x"},
        [],
    ),
]


@pytest.mark.parametrize(("stored", "given", "differing"), SETTINGS)
def test_settings_that_a_view_has_otherwise(
    stored: dict[str, str], given: dict[str, str], differing: list[str]
) -> None:
    defaults = {ZONE: "UTC", ANSI: "false", CASE: "false"}
    found = other_settings(stored, given, defaults.__getitem__)
    assert [str(one).replace("in the run", "…") for one in found] == differing


def test_settings_of_expressions_are_settings_that_tables_note() -> None:
    def others(*names: str) -> list[OtherSetting]:
        return [OtherSetting(name, None, "x") for name in names]

    assert are_of_expressions(others(*set(SETTINGS_OF_RESULTS) - {CASE}))
    assert not are_of_expressions(others(ANSI, CASE))
    assert not are_of_expressions(others("spark.sql.legacy.charVarcharAsString"))


QUERIES = {
    "columns": [
        "(select `id`, `val` from (\nselect * from a.b\n))",
        "select x.id as k, s.f from a.b as x",
        "with q as (select * except (a) from a.b) select * from q",
    ],
    "conditions": [
        "select id from a.b where deleted is null and (not x or y)",
        "select id from a.b where id <> 2 and state = 'paid'",
    ],
    None: [
        "select id, id = '2' as x from a.b",
        "select cast(id as string) as id from a.b",
        "select id from a.b where day > date'2026-01-01'",
        "select id from a.b where id in ('1')",
        "select upper(id) as id from a.b",
        "select id + 1 as id from a.b",
        "select 1 as id from a.b",
        "select current_date as day from a.b",
        "select current_timestamp from a.b",
        "select id from a.b union all select id from a.c",
        "select id from a.b join a.c using (id)",
        "select id from a.b, a.c",
        "select distinct id from a.b",
        "select id from a.b order by id limit 3",
        "select id from a.b version as of 3",
        "select m['a'] as a from a.b",
        "select id from a.b lateral view explode(x) y as z",
        "select id from",
    ],
}


@pytest.mark.parametrize(
    ("kind", "sql"), [(kind, sql) for kind in QUERIES for sql in QUERIES[kind]]
)
def test_a_query_of_columns_alone(kind: str | None, sql: str) -> None:
    assert columns_alone(sql) == kind


def test_casts_are_looked_for_in_what_spark_analyzed() -> None:
    plan = (
        "== Parsed Logical Plan ==\n'Filter cast('x as int)\n== Analyzed Logical Plan ==\n"
        "Filter {}\n== Optimized Logical Plan ==\nProject [cast(x#1 as date)]"
    )
    assert not has_casts(plan.format("(id#1 = 2)"))
    assert has_casts(plan.format("(cast(id#1 as int) = 2)"))
    assert has_casts("== Physical Plan ==")


@pytest.mark.parametrize(
    ("columns", "difference"),
    [
        ("id int, v int, id int, v int", None),
        ("id int, v int, id int, v bigint", "v int, which its query gives as v bigint"),
        ("id int, V int, id int, v int", "V int, which its query gives as v int"),
        ("id int, v int, id int", "more or fewer columns than its query gives today"),
    ],
)
def test_columns_of_a_view_and_of_its_query(columns: str, difference: str | None) -> None:
    pairs = [column.split(" ") for column in columns.split(", ")]
    found = other_columns([SimpleNamespace(name=name, dtype=dtype) for name, dtype in pairs])
    assert found == difference


PROJECT = """
name: views
version: 0.1.0
profile: headwaters
models:
  views:
    +materialized: incremental
    +incremental_strategy: auto
"""
TABLES = [
    *("days", "grown", "plain", "compared", "coerced", "over_plain", "evolved", "retyped"),
    *("collated", "calling"),
]
SOURCES = "sources: [{{name: inputs, schema: '{{{{ target.schema }}}}_inputs', tables: [{}]}}]"
VIEWS = {
    "days": "select id, cast(date_trunc('day', at) as string) as day from {0}.rows",
    "plain": "select id, state as is_state, name from {0}.rows where at is not null",
    "compared": "select id, state from {0}.rows where state <> 'x' and id < 9",
    "coerced": "select id, state from {0}.rows where state <> 5",
    "over_plain": "select id from {0}.plain",
}
OTHERWISE = (
    f"{ANSI} = true (false in the run), {ZONE} = America/New_York (UTC in the run). Create it again"
)
REFUSED = {
    "days": f"[HW_VIEW_SETTINGS] auto(): {{}}.days is a view that Spark evaluates with {OTHERWISE}",
    "coerced": f"[HW_VIEW_SETTINGS] auto(): {{}}.coerced is a view that Spark evaluates with"
    f" {OTHERWISE}",
    "calling": "[HW_VIEW_AS_INPUT] auto(): {}.calling is a view that calls a function without its"
    " schema, which is spark_catalog.default.numbered in the run and another one in the view. ",
    "collated": "[HW_VIEW_AS_INPUT] auto(): {}.collated is a view that has the default collation"
    " UTF8_LCASE, ",
    "grown": "[HW_VIEW_COLUMNS] auto(): {}.grown is a view that has v int, which its query gives as"
    " v bigint: ",
}


@pytest.mark.slow
def test_a_view_of_another_session_is_read_through_only_where_that_makes_no_difference(
    dbt: Callable[..., Any],
    new_project: Callable[..., Path],
    spark: Any,
    schema: str,
    set_spark: Callable[[str, str], None],
) -> None:
    inputs = f"{schema}_inputs"
    feed = "'delta.enableChangeDataFeed' = 'true', 'delta.enableTypeWidening' = 'true'"
    spark.sql(f"create schema {inputs}")
    spark.sql(
        f"create table {inputs}.rows (id int, at timestamp, state string, name varchar(9))"
        f" using delta tblproperties ({feed})"
    )
    spark.sql(
        f"insert into {inputs}.rows values (1, timestamp'2026-01-01 02:00:00Z', 'a', 'n'),"
        " (2, timestamp'2026-01-01 12:00:00Z', '5', 'n'), (3, null, 'x', 'n')"
    )
    spark.sql(f"create table {inputs}.widened (id int, v int) using delta tblproperties ({feed})")
    spark.sql(f"insert into {inputs}.widened values (1, 7)")
    # as in a session that does not belong to dbt
    set_spark(ANSI, "true")
    set_spark(ZONE, "America/New_York")
    for name, query in VIEWS.items():
        spark.sql(f"create view {inputs}.{name} as {query.format(inputs)}")
    set_spark(ANSI, "false")
    set_spark(ZONE, "UTC")
    spark.sql(f"create view {inputs}.grown as select * from {inputs}.widened")
    spark.sql(
        f"create view {inputs}.collated default collation UTF8_LCASE as"
        f" select id, if('A' = 'a', 1, 2) as z from {inputs}.rows"
    )
    for of, number in (("default", 1), (inputs, 2)):
        spark.sql(f"create function {of}.numbered(x int) returns int return {number}")
    spark.sql(f"use {inputs}")
    spark.sql(f"create view {inputs}.calling as select numbered(id) as n from {inputs}.rows")
    spark.sql("use default")
    for name, mode in (("evolved", "evolution"), ("retyped", "type evolution")):
        spark.sql(
            f"create view {inputs}.{name} with schema {mode} as select * from {inputs}.widened"
        )
    spark.sql(f"alter table {inputs}.widened alter column v type bigint")
    spark.sql(f"alter table {inputs}.widened add columns (w string)")

    folder = new_project(
        {
            "dbt_project.yml": PROJECT,
            # the view that dbt builds reads the source `rows`
            "models/inputs.yml": SOURCES.format(
                ", ".join(f"{{name: {name}}}" for name in ["rows", *TABLES])
            ),
            "models/staged.sql": "{{ config(materialized='view') }} select day, count(*) as n from"
            " (select cast(at as date) as day from {{ source('inputs', 'rows') }}) group by day",
            "models/of_staged.sql": "select day, n from {{ ref('staged') }}",
            **{
                f"models/of_{name}.sql": f"select * from {{{{ source('inputs', '{name}') }}}}"
                for name in TABLES
            },
        }
    )

    def run(expect: bool) -> dict[str, str]:
        ran = dbt("run", project_dir=folder, schema=schema, expect=expect)
        return {found.node.name.removeprefix("of_"): found.message for found in ran.result.results}

    def check(name: str, of: str) -> None:
        mine, whole = (spark.table(table) for table in (f"{schema}.of_{name}", of))
        assert mine.dtypes == whole.dtypes, name
        assert sorted(map(str, mine.collect())) == sorted(map(str, whole.collect())), name

    said = run(expect=False)
    for name, message in REFUSED.items():
        assert message.format(inputs) in said[name], said[name]
    for _ in range(2):
        for name in set(TABLES) - set(REFUSED):
            assert said[name].split(":")[0] in ("replace", "append", "merge"), said[name]
            check(name, f"{inputs}.{name}")
        check("staged", f"{schema}.staged")
        spark.sql(
            f"insert into {inputs}.rows values (4, timestamp'2026-01-02 02:00:00Z', 'b', 'm')"
        )
        spark.sql(f"insert into {inputs}.widened values (2, 9000000000, 'w')")
        said = run(expect=False)

    # the words of the message
    for name in ("days", "coerced"):
        query = VIEWS[name].format(inputs)
        spark.sql(f"create or replace view {inputs}.{name} as {query}")
    spark.sql(f"create or replace view {inputs}.grown as select * from {inputs}.widened")
    spark.sql(f"create or replace view {inputs}.collated as select id, 2 as z from {inputs}.rows")
    query = f"select {inputs}.numbered(id) as n from {inputs}.rows"
    spark.sql(f"create or replace view {inputs}.calling as {query}")
    run(expect=True)
    for name in REFUSED:
        check(name, f"{inputs}.{name}")
    spark.sql("drop function default.numbered")
