"""What cannot be right is refused in words that help, and the table stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

CHANGE_FEED = "{{ config(incremental_strategy='change_feed', unique_key='id') }}\n"
SIGNED_SUM = "{{ config(incremental_strategy='signed_sum', unique_key='id') }}\n"
FEED_ON = "tblproperties ('delta.enableChangeDataFeed' = 'true')"

# Each model with what its error has to say.
REFUSED = {
    "bare": (
        CHANGE_FEED + "select id from {{ changes(source('inputs', 'fed')) }}"
        " where id in (select id from {{ source('inputs', 'repeated') }})",
        ["source('inputs', 'repeated')", "lookup("],
    ),
    "by_name": (
        CHANGE_FEED + "select id from {{ changes(source('inputs', 'fed')) }}"
        " where id in (select id from {{ target.schema }}_INPUTS.repeated) -- not '",
        ["source('inputs', 'repeated')", "lookup("],
    ),
    "through_a_model": (
        CHANGE_FEED + "select id from {{ changes(source('inputs', 'fed')) }}"
        " where id in (select id from {{ ref('hidden') }})",
        ["source('inputs', 'repeated')", "lookup("],
    ),
    "itself": (
        CHANGE_FEED + "select id from {{ changes(source('inputs', 'fed')) }}"
        " where id not in (select id from {{ this }})",
        ["reads its own table"],
    ),
    "summed": (
        CHANGE_FEED + "select id % 2 as id from {{ changes(source('inputs', 'fed')) }} group by 1",
        ["`group by`", "affected_keys"],
    ),
    "counted": (
        SIGNED_SUM + "select id, sum(_weight) as rows, count(*) as others\n"
        "from {{ signed(source('inputs', 'fed')) }} group by id",
        ["`count`", "derived"],
    ),
    "unweighed": (
        SIGNED_SUM + "select id, sum(_weight) as rows, sum(abs(id)) as total\n"
        "from {{ signed(source('inputs', 'fed')) }} group by id",
        ["sum(abs(id) * _weight)"],
    ),
    "other_macro": (
        "{{ config(incremental_strategy='affected_keys', unique_key='id') }}\n"
        "select id from {{ changes(source('inputs', 'fed')) }}",
        ["affected_keys", "affected()"],
    ),
    "clock": (
        CHANGE_FEED + "select id, now() as seen from {{ changes(source('inputs', 'fed')) }}",
        ["now()", "allow_nondeterministic"],
    ),
    "day": (
        CHANGE_FEED + "select id from {{ changes(source('inputs', 'fed')) }}"
        " where date '2026-01-01' < date 'today'",
        ["date 'today", "changes by itself"],
    ),
    "missing_key": (
        CHANGE_FEED.replace("'id'", "'nothing'")
        + "select id from {{ changes(source('inputs', 'fed')) }}",
        ["unique_key", "nothing"],
    ),
    "no_feed": (
        CHANGE_FEED + "select id from {{ changes(source('inputs', 'unfed')) }}",
        ["no change data feed", "delta.enableChangeDataFeed"],
    ),
    "float_sum": (
        SIGNED_SUM + "select id, sum(_weight) as rows, sum(cast(id as double) * _weight) as total\n"
        "from {{ signed(source('inputs', 'fed')) }} group by id",
        ["total", "double", "decimal"],
    ),
    "repeated_key": (
        CHANGE_FEED + "select id from {{ changes(source('inputs', 'repeated')) }}",
        ["not unique", "unique_key"],
    ),
    "repeated_group": (
        "{{ config(incremental_strategy='affected_keys', unique_key=['id', 'half']) }}\n"
        "select id, id / 2 as half from {{ affected(source('inputs', 'repeated'), key='id') }}",
        ["unique_key id, half of", "more than one row for 1, 0.5. The table was left as it is."],
    ),
}

SOURCES = """
sources:
  - name: inputs
    schema: "{{ target.schema }}_inputs"
    tables: [{name: fed}, {name: unfed}, {name: repeated}]
"""


def test_models_that_cannot_be_right_are_refused(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    inputs = f"{schema}_inputs"
    spark.sql(f"create schema {inputs}")
    for name, rows, feed in [
        ("fed", "(1), (2)", FEED_ON),
        ("unfed", "(1), (2)", ""),
        ("repeated", "(1), (1), (2)", FEED_ON),
    ]:
        spark.sql(f"create table {inputs}.{name} (id int) using delta {feed}")
        spark.sql(f"insert into {inputs}.{name} values {rows}")
    models = {name: model for name, (model, _) in REFUSED.items()}
    models["kept"] = CHANGE_FEED + "select id from {{ changes(source('inputs', 'fed')) }}"
    folder = new_project(
        {
            "models/inputs.yml": SOURCES,
            "dbt_project.yml": PROJECT,
            "models/hidden.sql": "{{ config(materialized='ephemeral') }}"
            " select id from {{ source('inputs', 'repeated') }}",
            **{f"models/{name}.sql": text for name, text in models.items()},
        }
    )

    result = dbt("run", project_dir=folder, schema=schema, expect=False)
    said = {answer.node.name: answer.message for answer in result.result.results}
    assert said["kept"].startswith("replace: 2 rows")
    for name, (_, words) in REFUSED.items():
        assert [word for word in words if word not in said[name]] == [], (name, said[name])
        assert not spark.catalog.tableExists(f"{schema}.{name}")

    # a key that repeats later: the run fails and the table stays
    spark.sql(f"insert into {inputs}.fed values (2), (3)")
    result = dbt("run", "--select", "kept", project_dir=folder, schema=schema, expect=False)
    assert "not unique" in result.result.results[0].message
    assert sorted(row.id for row in spark.table(f"{schema}.kept").collect()) == [1, 2]
    assert [row.tableName for row in spark.sql(f"show tables in {schema}").collect()] == ["kept"]


PROJECT = """
name: refused
version: 0.1.0
profile: headwaters
models:
  refused:
    +materialized: incremental
    +file_format: delta
"""
