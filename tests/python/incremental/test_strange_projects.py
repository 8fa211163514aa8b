"""Test what projects of others bring: names, long SQL, packages, and questions about the target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwaters.runs.state import TableState, sql_properties

AUTO = "{{ config(materialized='incremental', incremental_strategy='auto') }}\n"
MANY = ", ".join(str(number) for number in range(100_000, 108_000))
MODELS = {
    "comment": "select id, body from {{ source('jira', 'comment') }}",
    "history": "select id, body, 1 as one from {{ ref('comment') }}",
    "version": "select count(*) as comments from {{ source('jira', 'comment') }}",
    "long": f"select id from {{{{ source('jira', 'comment') }}}} where id not in ({MANY})",
}
PACKAGE = {
    "dbt_project.yml": "name: states\nversion: 0.1.0\nmodel-paths: [models]\n"
    "macro-paths: [macros]\n",
    "macros/columns.sql": "{% macro state_columns() %}id, upper(body) as state{% endmacro %}",
    "models/states.sql": AUTO + "select {{ state_columns() }}, '{{ target.type }}' as engine,"
    " '{{ flags.WHICH }}' as command\nfrom {{ source('jira', 'comment') }}",
}


@pytest.mark.slow
def test_names_that_delta_reserves_long_sql_and_macros_of_packages(
    dbt: Callable[..., Any],
    new_project: Callable[..., Path],
    spark: Any,
    schema: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spark.sql(f"create schema {schema}_in")
    source = f"{schema}_in.comment"
    spark.sql(
        f"create table {source} using delta tblproperties ('delta.enableChangeDataFeed' = 'true')"
        " as select * from values (1, 'a'), (2, 'b') as t (id, body)"
    )
    declared = f"sources: [{{name: jira, schema: {schema}_in, tables: [{{name: comment}}]}}]\n"
    folder = new_project(
        {
            "models/sources.yml": declared,
            **{f"models/{name}.sql": AUTO + sql for name, sql in MODELS.items()},
            **{f"dbt_packages/states/{name}": text for name, text in PACKAGE.items()},
        }
    )

    def rows(table: str) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, spark.sql(f"select * from {schema}.`{table}`").collect()))

    def are_right(bodies: dict[int, str]) -> bool:
        got = {name: rows(name) for name in (*MODELS, "states")}
        ids = sorted(bodies)
        return got == {
            "comment": sorted(bodies.items()),
            "history": [(number, bodies[number], 1) for number in ids],
            "version": [(len(ids),)],
            "long": [(number,) for number in ids],
            "states": [(number, bodies[number].upper(), "spark", "run") for number in ids],
        }

    dbt("run", project_dir=folder, schema=schema)
    assert are_right({1: "a", 2: "b"})
    spark.sql(f"insert into {source} values (3, 'c')")
    spark.sql(f"delete from {source} where id = 1")
    dbt("run", project_dir=folder, schema=schema)
    assert are_right({2: "b", 3: "c"})
    # Derby's metastore would refuse the text of `long` when its table is replaced
    for _ in range(2):
        dbt("run", "--full-refresh", project_dir=folder, schema=schema)
    assert are_right({2: "b", 3: "c"})
    capsys.readouterr()
    for model in (*MODELS, "states"):
        dbt(
            *("run-operation", "explain_refresh", "--args", f"{{model: {model}}}"),
            project_dir=folder,
            schema=schema,
        )
        told = capsys.readouterr().out
        assert "no changes" in told and "the SQL" not in told, told
    arguments = "{reason: nightly, dry_run: false}"
    dbt("run-operation", "maintain", "--args", arguments, project_dir=folder, schema=schema)
    assert are_right({2: "b", 3: "c"})


@pytest.mark.parametrize(
    "text",
    ["select 1", "x" * 30_000, "x" * 30_001, "a line of sql\n" * 9_000, "/* 1 of 2 */\n" * 5_000],
)
def test_a_long_text_is_kept_in_several_properties(text: str) -> None:
    properties = sql_properties(text)
    assert TableState({**properties, "headwaters.sql.9": "of an older text"}).sql == text
    assert max(map(len, properties.values())) < 30_100
    assert len(properties) == max(1, -(-len(text) // 29_990) if len(text) > 30_000 else 1)


SYNTAX = {
    "by_struct": "select struct(body, id) as k, count(*) as many"
    " from {{ source('jira', 'comment') }} group by struct(body, id)",
    "by_part": "select body, count_if(id << 1 >> 1 > 2) as high,"
    " max(id >>> 1) as half, max(doc:a.b[0]::string) as first"
    " from {{ source('jira', 'comment') }} group by body",
    "piped": "from {{ source('jira', 'comment') }} |> where id > 1\n"
    "|> aggregate count(*) as many group by body |> extend many * 2 as twice",
    "newest": "select id, body from {{ source('jira', 'comment') }}"
    " where id = (select max(id) from {{ source('jira', 'comment') }})",
    "alike": "select a.id, b.id as other, b.body from {{ source('jira', 'comment') }} a"
    " join {{ source('jira', 'comment') }} b on a.body like concat('%', b.body, '%')",
    "numbered": "select a.id, b.body from {{ source('jira', 'comment') }} a"
    " join {{ source('jira', 'comment') }} b on b.body = a.id",
}


@pytest.mark.slow
def test_syntax_of_spark_alone_is_followed(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    spark.sql(f"create schema {schema}_in")
    source = f"{schema}_in.comment"
    spark.sql(
        f"create table {source} using delta tblproperties ('delta.enableChangeDataFeed' = 'true')"
        " as select id, body, parse_json(doc) as doc from values (1, 'a', '{\"a\": {\"b\": [1]}}'),"
        " (2, 'b', null), (3, null, '{}'), (4, 'a', '{\"a\": {\"b\": [\"x\"]}}')"
        " as t (id, body, doc)"
    )
    declared = f"sources: [{{name: jira, schema: {schema}_in, tables: [{{name: comment}}]}}]\n"
    models = {f"models/{name}.sql": AUTO + sql for name, sql in SYNTAX.items()}
    folder = new_project({"models/sources.yml": declared, **models})

    def differ() -> list[str]:
        found = []
        for name, sql in SYNTAX.items():
            plain = sql.replace("{{ source('jira', 'comment') }}", source)
            both = [spark.sql(text) for text in (f"select * from {schema}.{name}", plain)]
            rows = [sorted(map(str, one.collect())) for one in both]
            found += [name] if rows[0] != rows[1] else []
        return found

    dbt("run", project_dir=folder, schema=schema)
    assert differ() == []
    for changes in (
        [f"insert into {source} select 5, 'c', parse_json('{{\"a\": {{\"b\": [7]}}}}')"],
        [f"delete from {source} where id = 1", f"update {source} set body = null where id = 2"],
        [f"update {source} set body = ' 4.5' where id = 3", f"delete from {source} where id = 5"],
        [
            f"update {source} set id = 6, body = 'a_' where id = 4",
            f"insert into {source} values (6, 'ab', null), (6, 'a_', null), (2, '6', null)",
        ],
    ):
        for change in changes:
            spark.sql(change)
        done = dbt("run", project_dir=folder, schema=schema)
        assert differ() == [], changes
        told = {one.node.name: str(one.message) for one in done.result}
        assert not any(message.startswith("replace") for message in told.values()), told
