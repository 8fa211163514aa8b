"""Test that runs notice changes that the feed lacks or misreports, and rebuild the table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

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

# Each model's reaction to a foreign write to its table.
FOREIGN = {"keeps": "fail", "warns": "warn", "rebuilds": "rebuild"}

# Inputs other than (id int, val int) with a feed, and how to make them. They have the same rows.
ROWS = "select /*+ coalesce(1) */ * from values (1, 10{more}), (2, 20{more}), (3, 30{more})"
MOMENT = ", timestamp '2026-01-01 00:00:00.123456'"
VARIANTS = ", parse_json('1'), named_struct('part', parse_json('[1]')), map(1, parse_json('{}'))"
NO_VECTORS = FEED_ON.replace(")", ", 'delta.enableDeletionVectors' = 'false')")
VECTORS = FEED_ON.replace(")", ", 'delta.enableDeletionVectors' = 'true')")
MADE: dict[str, list[str]] = {
    "restored_off": [
        "create table {it} (id int, val int) using delta",
        "insert into {it} values (1, 10), (2, 20)",
        "alter table {it} set tblproperties ('delta.enableChangeDataFeed' = 'true')",
    ],
    "ghost": [
        f"create table {{it}} (id int, val int, moment timestamp) {NO_VECTORS}",
        f"insert into {{it}} {ROWS.format(more=MOMENT)}",
        "delete from {it} where id = 3",
    ],
    "cut": [
        f"create table {{it}} (id int, val int, moment timestamp) {NO_VECTORS}",
        f"insert into {{it}} values (1, 10{MOMENT})",
        f"insert into {{it}} values (2, 20{MOMENT})",
    ],
    "without_vectors": [
        f"create table {{it}} (id int, val int) {VECTORS}",
        f"insert into {{it}} {ROWS.format(more='')}",
        "delete from {it} where id = 3",
    ],
    "variants": [
        "create table {it} (id int, val int, one variant, parts struct<part: variant>,"
        f" more map<int, variant>) {FEED_ON}",
        f"insert into {{it}} values (1, 10{VARIANTS}), (2, 20{VARIANTS})",
    ],
    "maps": [
        f"create table {{it}} (id int, val int, more map<string, int>, x double) {FEED_ON}",
        "insert into {it} values (1, 10, map('b', 2, 'a', 1), 1), (2, 20, map('b', 2, 'a', 1), 1)",
    ],
}


def newest_commit(table: Path) -> Path:
    """Return the newest commit's file for rewriting, and remove its checksum."""
    commit = max((table / "_delta_log").glob("*.json"))
    (commit.parent / f".{commit.name}.crc").unlink(missing_ok=True)
    return commit


def written_by(engine: dict[str, str], *left_out: str) -> Callable[[Path], None]:
    """Return a function that rewrites the newest commit as another engine writes it."""

    def rewrite(table: Path) -> None:
        commit = newest_commit(table)
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            if told := action.get("commitInfo"):
                for name in ("engineInfo", *left_out):
                    told.pop(name, None)
                told.update(engine)
            if image := action.get("cdc"):
                cut_to_milliseconds(table / image["path"])
                image["size"] = (table / image["path"]).stat().st_size
        commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions))

    return rewrite


def cut_to_milliseconds(file: Path) -> None:
    """Rewrite a file of change images as an engine without microseconds writes it."""
    images = parquet.read_table(file)
    for index, field in enumerate(images.schema):
        if pa.types.is_timestamp(field.type):
            cut = images.column(index).cast(pa.timestamp("ms", field.type.tz), safe=False)
            images = images.set_column(index, field.name, cut.cast(field.type))
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    parquet.write_table(images, file, use_deprecated_int96_timestamps=True)  # as Spark does


def without_commit_info(table: Path) -> None:
    """Rewrite the newest commit without its description, which Delta's protocol allows."""
    commit = newest_commit(table)
    lines = commit.read_text().splitlines(keepends=True)
    commit.write_text("".join(line for line in lines if "commitInfo" not in line))


TRINO = written_by({"clusterId": "trino-476-a"}, "operationParameters", "operationMetrics")

# The change of each input (or table, `{schema}.…`), and the line of the model's next run.
HAPPENS: dict[str, tuple[list[str | Callable[[Path], None]], str]] = {
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
    "restored_off": (
        [
            "restore table {it} to version as of 1",
            "alter table {it} set tblproperties ('delta.enableChangeDataFeed' = 'true')",
            "insert into {it} values (5, 5)",
        ],
        "the change feed of {it} cannot be read, it was off in between",
    ),
    "cloned": (
        [
            "truncate table {it}",
            "create or replace table {it} shallow clone {inputs}.unfed",
            "alter table {it} set tblproperties ('delta.enableChangeDataFeed' = 'true')",
            "insert into {it} values (5, 5)",
        ],
        "{it} was partitioned by other columns, or mapped otherwise",
    ),
    "off_by_trino": (
        [
            "alter table {it} set tblproperties ('delta.enableChangeDataFeed' = 'false')",
            TRINO,
            "insert into {it} values (5, 5)",
            "alter table {it} set tblproperties ('delta.enableChangeDataFeed' = 'true')",
            TRINO,
        ],
        "the change feed of {it} cannot be read, it was off in between",
    ),
    "nameless": (
        ["insert into {it} values (5, 5)", without_commit_info],
        "{it} was changed by an engine that does not say its name (no operation at version 2)",
    ),
    "vacuumed_silently": (
        [
            "update {it} set val = 7 where id = 1",
            "set spark.databricks.delta.vacuum.logging.enabled = false",
            "vacuum {it} retain 0 hours",
            "reset spark.databricks.delta.vacuum.logging.enabled",
        ],
        "the change feed of {it} cannot be read, files of it are missing or damaged",
    ),
    "vacuumed_after_appends": (
        ["insert into {it} values (5, 5)", "vacuum {it} retain 0 hours"],
        "append: 1 inserted",
    ),
    "vacuumed_after_compaction": (
        ["insert into {it} values (5, 5)", "optimize {it}", "vacuum {it} retain 0 hours"],
        "the change files of {it} at version 2 were vacuumed",
    ),
    "without_vectors": (
        ["delete from {it} where id = 2", "alter table {it} drop feature deletionVectors"],
        "the change feed of {it} is wrong before version",
    ),
    "widened": (
        [
            "alter table {it} add columns (more int)",
            written_by({"operation": "ADD COLUMN", "engineInfo": "delta-rs:py-1.6.6"}),
        ],
        "no changes",
    ),
    "ghost": (
        [
            "update {it} set moment = moment + interval 1 second where id = 1",
            "delete from {it} where id = 1",
            TRINO,
        ],
        "{it} was changed by trino-476-a (DELETE at version 4), whose change images",
    ),
    "cut": (
        ["optimize {it}", TRINO],
        "{it} was changed by trino-476-a (OPTIMIZE at version 3), whose change images",
    ),
    "updated_by_trino": (
        ["update {it} set val = 7 where id = 1", TRINO, "insert into {it} values (5, 5)", TRINO],
        "merge: 1 inserted, 1 updated, 0 deleted",
    ),
    "inserted_by_trino": (["insert into {it} values (5, 5)", TRINO], "append: 1 inserted"),
    "variants": (
        [
            "update {it} set val = 11, one = parse_json('1.0') where id = 1",
            "update {it} set val = 10 where id = 1",
            "update {it} set val = 21, one = parse_json('2') where id = 2",
        ],
        "merge: 0 inserted, 1 updated, 0 deleted",
    ),
    "maps": (  # only the order of the entries differs; a number has a sign
        [
            "update {it} set more = map('a', 1, 'b', 2) where id = 1",
            "insert into {it} values (5, 5, map('d', 4, 'c', 3), -0.0d)",
        ],
        "merge: 1 inserted, 1 updated, 0 deleted",
    ),
    "written": (
        ["insert into {it} values (6, 6)", "delete from {schema}.written where id = 2"],
        "the table was changed by DELETE of version 1, which is no run of its model",
    ),
    "unread": (
        ["delete from {schema}.unread where id = 2"],
        "the table was changed by DELETE of version 1, which is no run of its model",
    ),
    "more_columns": (
        ["alter table {schema}.more_columns add columns (more int)"],
        "the table was changed by ADD COLUMNS of version 1, which is no run of its model",
    ),
    "moved_column": (
        ["alter table {schema}.moved_column alter column val first"],
        "the table was changed by CHANGE COLUMN of version 1, which is no run of its model",
    ),
    "commented": (
        ["alter table {schema}.commented alter column val comment 'net'"],
        "no changes",
    ),
}


def test_what_a_feed_cannot_tell_is_noticed_and_rebuilt(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    inputs = f"{schema}_inputs"
    spark.sql(f"create schema {inputs}")
    plainly = [
        f"create table {{it}} (id int, val int) {FEED_ON}",
        "insert into {it} values (1, 10), (2, 20)",
    ]
    for name in [*HAPPENS, "lookups", "unfed"]:
        for making in MADE.get(name, plainly):
            spark.sql(making.replace("{it}", f"{inputs}.{name}"))
    spark.sql(f"alter table {inputs}.unfed unset tblproperties ('delta.enableChangeDataFeed')")
    tables = ", ".join(f"{{name: {name}}}" for name in [*HAPPENS, "lookups"])
    schema_of_inputs = "{{ target.schema }}_inputs"
    models = {name: MODEL % name for name in HAPPENS} | {
        "refuses": "{{ config(on_gap='fail') }}" + MODEL % "made_anew",
        "looks_up": LOOKUP,
        "looks_away": "{{ config(on_lookup_change='ignore') }}" + LOOKUP,
        "periods": "{{ config(on_gap='rebuild') }}" + PERIODS % "came_and_went",
        "formatted": "{{ 'SELECT *\n  from' if var('key', '') else 'select * from' }}"
        " {{ changes(source('inputs', 'plain')) }} where ID>0",
        "evolves": "{{ config(latest_by='val') }}"
        "select * from {{ changes(source('inputs', 'evolved')) }}",
        "kept": PERIODS % "came_and_went",
        "begins": "{{ config(unique_key=var('key', 'id')) }}" + PERIODS % "vacuumed",
        "begins_anew": "{{ config(unique_key=var('key', 'id')) }}" + PERIODS % "plain",
        "widens": "select * from {{ changes(source('inputs', 'widened')) }}",
        "lost_silently": PERIODS % "vacuumed_silently",
        "periods_silently": "{{ config(on_gap='rebuild') }}" + PERIODS % "vacuumed_silently",
        "periods_restored": "{{ config(on_gap='rebuild') }}" + PERIODS % "restored_off",
        "periods_varied": PERIODS % "variants",
        "maps": "select id, val, array_join(map_keys(more), ' ') || ' ' || x as names"
        " from {{ changes(source('inputs', 'maps')) }}",
        "twice": "{{ config(incremental_strategy='auto', unique_key=['id', 'part']) }}"
        "select id, 1 as part from {{ source('inputs', 'maps') }} union all"
        " select id, 2 as part from {{ source('inputs', 'maps') }} where val > 5",
        "settings": "{{ config(unique_key=var('key', 'id')) }}" + MODEL % "plain",
        **{
            name: f"{{{{ config(on_foreign_write='{choice}') }}}}" + MODEL % "plain"
            for name, choice in FOREIGN.items()
        },
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
    for name in FOREIGN:
        spark.sql(f"delete from {schema}.{name} where id = 2")
    spark.sql("set spark.databricks.delta.retentionDurationCheck.enabled = false")
    for name, (statements, _) in HAPPENS.items():
        for statement in statements:
            if isinstance(statement, str):
                spark.sql(statement.format(it=f"{inputs}.{name}", schema=schema, inputs=inputs))
            else:
                located = spark.sql(f"describe detail {inputs}.{name}").collect()[0]["location"]
                statement(Path(located.removeprefix("file:")))
    spark.sql("set spark.databricks.delta.retentionDurationCheck.enabled = true")
    spark.sql(f"update {inputs}.lookups set val = 30 where id = 1")

    key = "{key: [id, val]}"
    ran = dbt("run", "--vars", key, project_dir=folder, schema=schema, expect=False)
    said = {
        answer.node.name: answer.message
        for answer in ran.result.results
        if answer.node.resource_type != "operation"
    }
    for name, (_, words) in HAPPENS.items():
        assert words.format(it=f"{inputs}.{name}") in said[name]
        got = spark.sql(f"select id, val from {schema}.{name} order by id").collect()
        assert got == spark.sql(f"select id, val from {inputs}.{name} order by id").collect()
    assert "on_gap is fail, so the table was left as it is" in said["refuses"]
    assert "was replaced by a table of other columns" in said["kept"]
    assert (
        "is id, val) and lose periods: it begins with version 0 of"
        f" {inputs}.vacuumed, whose feed can be read from version 2 on" in said["begins"]
    )
    assert (
        f"the change feed of {inputs}.vacuumed_silently cannot be read, files of it are missing"
        " or damaged. on_gap is fail" in said["lost_silently"]
    )
    for name in ("refuses", "kept", "begins", "lost_silently"):
        left = spark.sql(f"select id, val from {schema}.{name} order by id").collect()
        assert [tuple(row) for row in left] == [(1, 10), (2, 20)]
    assert "changed settings: unique_key was id and is id, val" in said["begins_anew"]
    assert (
        said["evolves"].startswith("replace: 3 rows")
        and "an input has a new column or type, more" in said["evolves"]
    )
    evolves = spark.sql(f"select id, val, more from {schema}.evolves order by id").collect()
    assert [tuple(row) for row in evolves] == [(1, 10, None), (2, 20, None), (5, 5, 5)]
    assert "was replaced by a table of other columns" in said["periods"]
    periods = spark.sql(f"select id, val from {schema}.periods where is_current order by id")
    assert [tuple(row) for row in periods.collect()] == [(1, 10), (2, 20), (8, 8)]
    for name, rows in {
        "periods_silently": [(1, 7), (2, 20)],
        "periods_restored": [(1, 10), (2, 20), (5, 5)],
        "periods_varied": [(1, 10), (2, 21)],
    }.items():
        current = spark.sql(f"select id, val from {schema}.{name} where is_current order by id")
        assert [tuple(row) for row in current.collect()] == rows
    assert spark.sql(f"select * from {schema}.periods_varied").count() == 5
    names = spark.sql(f"select id, names from {schema}.maps order by id").collect()
    assert [tuple(row) for row in names] == [(1, "a b 1.0"), (2, "b a 1.0"), (5, "d c -0.0")]
    assert ": 1 inserted, 0 updated, 0 deleted" in said["twice"]
    twice = spark.sql(f"select id, part from {schema}.twice order by id, part").collect()
    assert [tuple(row) for row in twice] == [(1, 1), (1, 2), (2, 1), (2, 2), (5, 1)]
    assert "an input has a new column" in said["widens"]
    for name in ("more_columns", "moved_column"):
        assert spark.table(f"{schema}.{name}").columns == ["id", "val"]
    stages = spark.sql(f"show tables in {schema} like '*__stage_*'").collect()
    assert stages == []
    assert "changed settings: unique_key was id and is id, val" in said["settings"]
    assert f"lookup {inputs}.lookups changed" in said["looks_up"]
    assert said["looks_away"] == said["formatted"] == "no changes"
    others = f"select id, other from {schema}.%s order by id"
    assert [tuple(row) for row in spark.sql(others % "looks_up").collect()] == [(1, 30), (2, 20)]
    assert [tuple(row) for row in spark.sql(others % "looks_away").collect()] == [(1, 10), (2, 20)]

    calls = spark.sql(f"select id, val from {schema}.calls order by id").collect()
    assert [tuple(row) for row in calls] == [(1, 21), (2, 41)]
    assert "are not what built the table" in said["calls"]
    built_by = spark.sql(f"show tblproperties {schema}.calls ('headwaters.sql')").collect()[0][1]
    assert '"spark.sql.session.timeZone": "' in built_by
    changed = {
        name: f"{schema}.{name} was changed by DELETE of version 1, which is no run of its model"
        for name in FOREIGN
    }
    assert said["keeps"].splitlines()[1].strip() == (
        f"[HW_FOREIGN_WRITE] {changed['keeps']}. on_foreign_write is fail, so the table was left as"
        " it is; `dbt run --full-refresh --select keeps` replaces it by what its SQL gives."
    )
    assert [message for message in ran.messages if "on_foreign_write is warn" in message] == [
        f"{changed['warns']}: its rows may differ from what a full refresh gives"
        " (on_foreign_write is warn)"
    ]
    assert said["warns"] == "no changes"
    assert re.sub(r"[\d.]+ (Bytes|\w?B)", "…", said["rebuilds"]) == (
        "replace: 2 rows, …, the table was changed by DELETE of version 1, which is no run of its"
        " model"
    )
    first, second = (1, 10), (2, 20)
    for name in FOREIGN:
        left = spark.sql(f"select id, val from {schema}.{name} order by id").collect()
        assert [tuple(row) for row in left] == ([first, second] if name == "rebuilds" else [first])

    refused = ["--exclude", "refuses", "kept", "begins", "keeps", "lost_silently"]
    again = dbt("run", "--vars", key, *refused, project_dir=folder, schema=schema)
    told = {
        answer.node.name: answer.message
        for answer in again.result.results
        if answer.node.resource_type != "operation"
    }
    assert set(told.values()) == {"no changes"}
