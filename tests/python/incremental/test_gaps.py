"""Changes that the feed cannot tell: noticed before anything is read, and the table rebuilt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

PROJECT = """
name: gaps
version: 0.1.0
profile: headwaters
models:
  gaps:
    +materialized: incremental
    +file_format: delta
    +incremental_strategy: change_feed
    +unique_key: id
"""
FEED_ON = "using delta tblproperties ('delta.enableChangeDataFeed' = 'true')"
MODEL = "select id, val from {{ changes(source('inputs', '%s')) }}"
PERIODS = (
    "{{ config(incremental_strategy='history') }}"
    "select id, val, _image from {{ images(source('inputs', '%s')) }}"
)
LOOKUP = (
    "select items.id, items.val, lookups.val as other from {{ changes(source('inputs', 'plain')) }}"
    " as items left join {{ lookup(source('inputs', 'lookups')) }} as lookups"
    " on items.id = lookups.id"
)

# What happens to each input (or table, `{schema}.…`), and what the run of the model then says.
HAPPENS: dict[str, tuple[list[str], str]] = {
    "plain": ([], "no changes"),
    "feed_off": (
        [
            "alter table {it} set tblproperties ('delta.enableChangeDataFeed' = 'false')",
            "insert into {it} values (5, 5)",
            "alter table {it} set tblproperties ('delta.enableChangeDataFeed' = 'true')",
        ],
        "was without its change data feed (version 2)",
    ),
    "vacuumed": (
        ["update {it} set val = 7 where id = 1", "vacuum {it} retain 0 hours"],
        "the change files of {it} at version 2 were vacuumed",
    ),
    "made_anew": (
        [
            "drop table {it}",
            f"create table {{it}} (id int, val int) {FEED_ON}",
            "insert into {it} values (8, 8)",
            "insert into {it} values (9, 9)",
        ],
        "{it} is another table than the one that was read last",
    ),
    "shorter": (
        ["drop table {it}", f"create table {{it}} {FEED_ON} as select 1 as id, 2 as val"],
        "{it} is at version 0, behind the 1 that was read last",
    ),
    "other_columns": (
        [f"create or replace table {{it}} {FEED_ON} as select 1 as id, 2L as val, 3 as more"],
        "{it} was replaced by a table of other columns",
    ),
    "came_and_went": (
        [
            "alter table {it} add columns (more int)",
            "insert into {it} values (7, 7, 7)",
            "restore table {it} to version as of 1",
            "insert into {it} values (8, 8)",
        ],
        "{it} was replaced by a table of other columns",
    ),
    "reordered": (
        ["alter table {it} alter column val first", "insert into {it} (id, val) values (6, 6)"],
        "{it} changed the types or the order of its columns",
    ),
    "evolved": (
        [
            "set spark.databricks.delta.schema.autoMerge.enabled = true",
            "insert into {it} select 5 as id, 5 as val, 5 as more",
            "reset spark.databricks.delta.schema.autoMerge.enabled",
        ],
        "append: 1 inserted",
    ),
    "restored": (
        ["update {it} set val = 9", "restore table {it} to version as of 1"],
        "no changes, of 8 changed input rows",
    ),
    "written": (
        ["insert into {it} values (6, 6)", "delete from {schema}.written where id = 2"],
        "the table was changed by DELETE of version 1, which is no run of its model",
    ),
    "unread": (
        ["delete from {schema}.unread where id = 2"],
        "the table was changed by DELETE of version 1, which is no run of its model",
    ),
}


def test_what_a_feed_cannot_tell_is_noticed_and_rebuilt(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    inputs = f"{schema}_inputs"
    spark.sql(f"create schema {inputs}")
    for name in [*HAPPENS, "lookups"]:
        spark.sql(f"create table {inputs}.{name} (id int, val int) {FEED_ON}")
        spark.sql(f"insert into {inputs}.{name} values (1, 10), (2, 20)")
    tables = ", ".join(f"{{name: {name}}}" for name in [*HAPPENS, "lookups"])
    schema_of_inputs = "{{ target.schema }}_inputs"
    models = {name: MODEL % name for name in HAPPENS} | {
        "refuses": "{{ config(on_gap='fail') }}" + MODEL % "made_anew",
        "looks_up": LOOKUP,
        "looks_away": "{{ config(on_lookup_change='ignore') }}" + LOOKUP,
        "periods": "{{ config(on_gap='rebuild') }}" + PERIODS % "came_and_went",
        "evolves": "{{ config(latest_by='val') }}"
        "select * from {{ changes(source('inputs', 'evolved')) }}",
        "kept": PERIODS % "came_and_went",
        "begins": "{{ config(unique_key=var('key', 'id')) }}" + PERIODS % "vacuumed",
        "begins_anew": "{{ config(unique_key=var('key', 'id')) }}" + PERIODS % "plain",
        "settings": "{{ config(unique_key=var('key', 'id')) }}" + MODEL % "plain",
        "keeps": "{{ config(on_foreign_write='fail') }}" + MODEL % "plain",
        "warns": "{{ config(on_foreign_write='warn') }}" + MODEL % "plain",
        "calls": "select id, {{ target.schema }}_inputs.outer_one(val) as val"
        " from {{ changes(source('inputs', 'plain')) }}",
    }
    folder = new_project(
        {
            "dbt_project.yml": PROJECT,
            "models/inputs.yml": "sources: [{name: inputs, schema: "
            f"'{schema_of_inputs}', tables: [{tables}]}}]\n",
            **{f"models/{name}.sql": text for name, text in models.items()},
        }
    )
    function = f"create or replace function {inputs}.%s(x int) returns int return %s"
    spark.sql(function % ("inner_one", "x"))
    spark.sql(function % ("outer_one", f"{inputs}.inner_one(x) + 1"))
    dbt("run", project_dir=folder, schema=schema)

    spark.sql(function % ("inner_one", "x * 2"))
    for name in ("keeps", "warns"):
        spark.sql(f"delete from {schema}.{name} where id = 2")
    spark.sql("set spark.databricks.delta.retentionDurationCheck.enabled = false")
    for name, (statements, _) in HAPPENS.items():
        for statement in statements:
            spark.sql(statement.format(it=f"{inputs}.{name}", schema=schema))
    spark.sql("set spark.databricks.delta.retentionDurationCheck.enabled = true")
    spark.sql(f"update {inputs}.lookups set val = 30 where id = 1")

    key = "{key: [id, val]}"
    ran = dbt("run", "--vars", key, project_dir=folder, schema=schema, expect=False)
    said = {answer.node.name: answer.message for answer in ran.result.results}
    for name, (_, words) in HAPPENS.items():
        assert words.format(it=f"{inputs}.{name}") in said[name]
        got = spark.sql(f"select id, val from {schema}.{name} order by id").collect()
        assert got == spark.sql(f"select id, val from {inputs}.{name} order by id").collect()
    assert "on_gap is fail, so the table was left as it is" in said["refuses"]
    assert "was replaced by a table of other columns" in said["kept"]
    assert (
        "are not what built the table) and lose periods: it begins with version 0 of"
        f" {inputs}.vacuumed, whose feed can be read from version 3 on" in said["begins"]
    )
    for name in ("refuses", "kept", "begins"):
        left = spark.sql(f"select id, val from {schema}.{name} order by id").collect()
        assert [tuple(row) for row in left] == [(1, 10), (2, 20)]
    assert "settings of the model are not what built the table" in said["begins_anew"]
    assert (
        said["evolves"].startswith("replace: 3 rows") and "the columns changed" in said["evolves"]
    )
    evolves = spark.sql(f"select id, val, more from {schema}.evolves order by id").collect()
    assert [tuple(row) for row in evolves] == [(1, 10, None), (2, 20, None), (5, 5, 5)]
    assert "was replaced by a table of other columns" in said["periods"]
    periods = spark.sql(f"select id, val from {schema}.periods where is_current order by id")
    assert [tuple(row) for row in periods.collect()] == [(1, 10), (2, 20), (8, 8)]
    assert "settings of the model are not what built the table" in said["settings"]
    assert f"lookup {inputs}.lookups changed" in said["looks_up"]
    assert said["looks_away"] == "no changes"
    others = f"select id, other from {schema}.%s order by id"
    assert [tuple(row) for row in spark.sql(others % "looks_up").collect()] == [(1, 30), (2, 20)]
    assert [tuple(row) for row in spark.sql(others % "looks_away").collect()] == [(1, 10), (2, 20)]

    calls = spark.sql(f"select id, val from {schema}.calls order by id").collect()
    assert [tuple(row) for row in calls] == [(1, 21), (2, 41)]
    assert "are not what built the table" in said["calls"]
    built_by = spark.sql(f"show tblproperties {schema}.calls ('headwaters.sql')").collect()[0][1]
    assert '"spark.sql.session.timeZone": "' in built_by
    assert "on_foreign_write is fail, so the table was left as it is" in said["keeps"]
    assert said["warns"] == "no changes"
    for name in ("keeps", "warns"):
        left = spark.sql(f"select id, val from {schema}.{name}").collect()
        assert [tuple(row) for row in left] == [(1, 10)]

    refused = ["--exclude", "refuses", "kept", "begins", "keeps"]
    again = dbt("run", "--vars", key, *refused, project_dir=folder, schema=schema)
    told = {answer.node.name: answer.message for answer in again.result.results}
    assert set(told.values()) == {"no changes"}
