"""Test that runs refuse wrong input with a helpful message and leave the table unchanged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwaters.runs import bounds
from headwaters.runs import decisions as plan

CHANGE_FEED = "{{ config(incremental_strategy='change_feed', unique_key='id') }}\n"
AFFECTED = "{{ config(incremental_strategy='affected_keys', unique_key='id') }}\n"
SIGNED_SUM = "{{ config(incremental_strategy='signed_sum', unique_key='id') }}\n"
HISTORY = "{{ config(incremental_strategy='history', unique_key='id') }}\n"
FEED_ON = "tblproperties ('delta.enableChangeDataFeed' = 'true')"

# Each model with the words that its error must have.
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
    "by_three_names": (
        CHANGE_FEED + "select id from {{ changes(source('inputs', 'fed')) }}"
        " where id in (select id from"
        " SPARK_catalog.`{{ target.schema }}_inputs` . /* so */ repeated)",
        ["reads source('inputs', 'repeated') unmarked", "lookup("],
    ),
    "as_a_table": (
        CHANGE_FEED + "select id from {{ changes(source('inputs', 'fed')) }}"
        " where id in (table {{ target.schema }}_inputs.repeated)",
        ["reads source('inputs', 'repeated') unmarked", "lookup("],
    ),
    "by_path": (
        CHANGE_FEED + "select id from {{ changes(source('inputs', 'fed')) }}"
        " where id in (select id from delta.`/nowhere`)",
        ["reads delta./nowhere, which no source and no model declares", "lookup("],
    ),
    "undeclared": (
        CHANGE_FEED + "select fed.id from {{ changes(source('inputs', 'fed')) }},"
        " {{ target.schema }}_inputs.hidden_one",
        ["_inputs.hidden_one, which no source and no model declares", "lookup("],
    ),
    "column_of_a_schema": (
        CHANGE_FEED + "select {{ target.schema }}_inputs.fed.id\n"
        "from {{ changes(source('inputs', 'fed')) }}",
        ["_inputs.fed.id, and an incremental run", "Write fed.id, or give the input an alias"],
    ),
    "operation": (
        CHANGE_FEED + "select id, 1 as _Operation from {{ changes(source('inputs', 'fed')) }}",
        ["the engine uses the name _Operation itself", "`_Operation` as Operation"],
    ),
    "metadata": (
        AFFECTED + "select id, max(id) as _metadata\n"
        "from {{ affected(source('inputs', 'fed'), key='id') }} group by id",
        ["the engine uses the name _metadata itself"],
    ),
    "validity": (
        HISTORY + "select id, id as valid_from, _image from {{ images(source('inputs', 'fed')) }}",
        ["the engine uses the name valid_from itself"],
    ),
    "weighed_before": (
        SIGNED_SUM + "select id, sum(_weight) as rows\n"
        "from {{ signed(source('inputs', 'weighed')) }} group by id",
        ["_inputs.weighed with signed(), which adds the column _weight"],
    ),
    "kept_by_a_lookup": (
        CHANGE_FEED.replace(") }}", ", on_lookup_change='ignore') }}")
        + "select fed.id from {{ changes(source('inputs', 'fed')) }} as fed\n"
        "inner join {{ lookup(source('inputs', 'more')) }} as more on fed.id = more.id",
        ["on_lookup_change: ignore, and a lookup says which rows", "as for ", "left join"],
    ),
    "of_an_ephemeral_model": (
        CHANGE_FEED + "select id from {{ changes(ref('hidden')) }}",
        ["changes(ref('hidden')): an ephemeral model is no table", "Write changes() in it"],
    ),
    "of_a_parquet_table": (
        CHANGE_FEED + "select id from {{ lookup(source('inputs', 'parquet')) }}",
        ["lookup(): ", "_inputs.parquet is not a Delta table", "file_format: delta"],
    ),
    "of_a_view": (
        SIGNED_SUM + "select id, sum(_weight) as rows from {{ signed(source('inputs', 'one')) }}",
        ["signed(): ", "_inputs.one is a view, which has no changes", "ephemeral"],
    ),
    "of_a_view_of_two": (
        CHANGE_FEED + "select id from {{ changes(source('inputs', 'two')) }}",
        ["_inputs.two is a view that reads more than one table", "ephemeral"],
    ),
    "of_a_view_with_names": (
        CHANGE_FEED + "select id from {{ changes(source('inputs', 'renamed')) }}",
        ["_inputs.renamed is a view that renames the columns of its query", "ephemeral"],
    ),
    "of_a_view_with_a_sum": (
        CHANGE_FEED + "select id from {{ changes(source('inputs', 'summed')) }}",
        ["[HW_NOT_LINEAR]", "`GROUP BY id`", "several rows of the input", "affected_keys"],
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
        ["[HW_NOT_LINEAR]", "`GROUP BY 1`", "several rows of the input", "affected_keys"],
    ),
    "counted": (
        SIGNED_SUM + "select id, sum(_weight) as rows, count(*) as others\n"
        "from {{ signed(source('inputs', 'fed')) }} group by id",
        ["[HW_NOT_A_SUM]", "`count(*)`", "derived"],
    ),
    "unweighed": (
        SIGNED_SUM + "select id, sum(_weight) as rows, sum(abs(id)) as total\n"
        "from {{ signed(source('inputs', 'fed')) }} group by id",
        ["[HW_SUM_WITHOUT_WEIGHT]", "`sum(abs(id))`", "Multiply what is summed by _weight"],
    ),
    "weighed_by_name": (
        SIGNED_SUM + "select id, sum(_weight) as rows, sum(net_weight) as total\n"
        "from {{ signed(source('inputs', 'fed')) }} group by id",
        ["there is no such column in its inputs"],
    ),
    "averaged": (
        SIGNED_SUM + "select id % 1 as id, sum(_weight) as rows,\n"
        "cast(sum(cast(id as bigint) * _weight) / sum(_weight) as decimal(18, 2)) as average\n"
        "from {{ signed(source('inputs', 'fed')) }} group by 1",
        ["[HW_NOT_A_SUM] ", "`average`: it is no sum of", "derived"],
    ),
    "filtered_sums": (
        SIGNED_SUM + "with sums as (select id, sum(_weight) as rows\n"
        "from {{ signed(source('inputs', 'fed')) }} group by id)\n"
        "select * from sums where rows > 0",
        ["[HW_NOT_A_SUM] ", "`rows > 0`", "a condition on sums"],
    ),
    "empty_groups": (
        SIGNED_SUM + "select more.id, sum(fed._weight) as rows\n"
        "from {{ lookup(source('inputs', 'more')) }} as more\n"
        "left join {{ signed(source('inputs', 'fed')) }} as fed on more.id = fed.id group by 1",
        ["[HW_NOT_LINEAR] ", "left join keeps rows of a lookup", "affected_keys"],
    ),
    "renamed_count": (
        SIGNED_SUM + "with sums as (select id, sum(_weight) as rows\n"
        "from {{ signed(source('inputs', 'fed')) }} group by id)\n"
        "select id, rows as orders from sums",
        ["sum(_weight) names the column rows, which the model does not have"],
    ),
    "joined_with_itself": (
        CHANGE_FEED + "with fed as (select * from {{ changes(source('inputs', 'fed')) }}),\n"
        "big as (select id from fed where id > 1)\n"
        "select fed.id, big.id as other from fed left join big on fed.id = big.id",
        ["[HW_READ_TWICE] ", "`LEFT JOIN big ON fed.id = big.id` (line 3", "affected_keys"],
    ),
    "summed_beside_a_lookup": (
        CHANGE_FEED + "select 1 as id, count(*) as rows\n"
        "from {{ changes(source('inputs', 'fed')) }} as fed\n"
        "inner join {{ lookup(source('inputs', 'more')) }} as more on fed.id = more.id",
        ["[HW_NOT_LINEAR] ", "several rows of the input", "affected_keys"],
    ),
    "all_of_a_lookup": (
        CHANGE_FEED + "select more.id, fed.id as other\n"
        "from {{ lookup(source('inputs', 'more')) }} as more\n"
        "left join {{ changes(source('inputs', 'fed')) }} as fed on fed.id = more.id",
        ["[HW_NOT_LINEAR] ", "left join keeps rows of a lookup", "affected_keys"],
    ),
    "of_all_rows": (
        AFFECTED + "with fed as (select * from {{ affected(source('inputs', 'fed'), key='id') }})\n"
        "select id, id / (select sum(id) from fed) > 0.5 as is_large from fed",
        ["[HW_ACROSS_KEYS] ", "an aggregate over all rows, of every key", "lookup()"],
    ),
    "across_keys": (
        AFFECTED + "with fed as (select * from {{ affected(source('inputs', 'fed'), key='id') }})\n"
        "select fed.id, next.id as next_id from fed left join fed as next on next.id = fed.id + 1",
        ["[HW_ACROSS_KEYS] ", "left join does not equate the key of both sides", "lookup()"],
    ),
    "all_keys_of_a_lookup": (
        AFFECTED + "select more.id, count(fed.id) as rows\n"
        "from {{ lookup(source('inputs', 'more')) }} as more left join\n"
        "{{ affected(source('inputs', 'fed'), key='id') }} as fed on fed.id = more.id group by 1",
        ["[HW_ACROSS_KEYS] ", "left join keeps rows of a lookup, whatever the keys"],
    ),
    "ranked": (
        AFFECTED + "select id, rank() over (order by id) as place\n"
        "from {{ affected(source('inputs', 'fed'), key='id') }}",
        ["[HW_ACROSS_KEYS] ", "PARTITION BY lacks the key (id)"],
    ),
    "moved": (
        AFFECTED + "select abs(id) as id, count(*) as rows\n"
        "from {{ affected(source('inputs', 'fed'), key='id') }} group by id",
        ["[HW_ACROSS_KEYS] ", "id is not the key of the affected() inputs, as it is"],
    ),
    "tied": (
        AFFECTED + "select id, half, row_number() over (partition by id order by id) as place\n"
        "from (select *, id / 2 as half from {{ affected(source('inputs', 'fed'), key='id') }})",
        ["[HW_NONDETERMINISTIC] ", "nothing proves that its order tells all rows apart"],
    ),
    "with_a_jvm_function": (
        CHANGE_FEED + "select id, reflect('java.util.UUID', 'randomUUID') as token\n"
        "from {{ changes(source('inputs', 'fed')) }}",
        ["[HW_NONDETERMINISTIC] ", "allow_nondeterministic: [reflect]"],
    ),
    "by_a_pipe": (
        CHANGE_FEED + "select id from {{ changes(source('inputs', 'fed')) }} |> set id = 1",
        ["[HW_NOT_UNDERSTOOD] ", "`|> set", "incremental_proof: sample"],
    ),
    "mapped": (
        CHANGE_FEED + "select id, map('a', id) as attributes\n"
        "from {{ changes(source('inputs', 'fed')) }}",
        ["attributes is a map<string,int>", "map_entries"],
    ),
    "padded": (
        CHANGE_FEED + "select id, code from {{ changes(source('inputs', 'coded')) }}",
        [
            "[HW_CHAR_COLUMN] ",
            "code is a char(5). The run that builds the table could",
            "cast(`code` as string) as `code`",
        ],
    ),
    "other_macro": (
        "{{ config(incremental_strategy='affected_keys', unique_key='id') }}\n"
        "select id from {{ changes(source('inputs', 'fed')) }}",
        ["affected_keys", "affected()"],
    ),
    "clock": (
        CHANGE_FEED + "select id, now() as seen from {{ changes(source('inputs', 'fed')) }}",
        ["`now()`", "allow_nondeterministic: [now]"],
    ),
    "day": (
        CHANGE_FEED + "select id from {{ changes(source('inputs', 'fed')) }}"
        " where date '2026-01-01' < date 'today'",
        ["`CAST('today' AS DATE)`", "'today' is a moment of the run"],
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
        ["such as double, do not add up exactly", "to an integer or a decimal"],
    ),
    "repeated_key": (
        CHANGE_FEED + "select id from {{ changes(source('inputs', 'repeated')) }}",
        ["not unique", "unique_key"],
    ),
    "repeated_text": (
        CHANGE_FEED.replace("'id'", "'name'")
        + "select cast(id as string) as name from {{ changes(source('inputs', 'repeated')) }}",
        ["unique_key name of", "more than one row for 1. The table was left as it is."],
    ),
    "repeated_pair": (
        CHANGE_FEED.replace("'id'", "['name', 'id']")
        + "select id, cast(id as string) as name from {{ changes(source('inputs', 'repeated')) }}",
        ["unique_key name, id of", "more than one row for 1, 1. The table was left as it is."],
    ),
    "repeated_group": (
        "{{ config(incremental_strategy='affected_keys', unique_key=['id', 'half']) }}\n"
        "select id, id / 2 as half from {{ affected(source('inputs', 'repeated'), key='id') }}",
        ["unique_key id, half of", "more than one row for 1, 0.5. The table was left as it is."],
    ),
}

# Names that a model's column may not have, and those that a strategy adds.
RESERVED = [
    *("_operation", "_row", "_copies", "_metadata", "_balance", "_side", "_net", "_stray"),
    *("_target", "_staged", "_is_touched", "_replaced", "_before_1"),
    *("_change_type", "_commit_version", "_commit_timestamp"),
]
NAMED = {
    "changes": (
        CHANGE_FEED + "select id, %s from {{ changes(source('inputs', 'fed')) }}",
        [*RESERVED, "_image"],
    ),
    "signed": (
        SIGNED_SUM + "select id, %s from {{ signed(source('inputs', 'fed')) }} group by id",
        [*RESERVED, "_here", "_stays"],
    ),
    "images": (
        HISTORY + "select id, _image, %s from {{ images(source('inputs', 'fed')) }}",
        [*RESERVED, "valid_to", "is_current", "_superseded", "_cut", "_until", "_next"],
    ),
}
REFUSED |= {
    f"names_in_{name}": (
        sql % ", ".join(f"{'sum(_weight)' if name == 'signed' else 'id'} as {n}" for n in names),
        ["[HW_RESERVED_COLUMN] ", f": the engine uses the name {', '.join(names)} itself"],
    )
    for name, (sql, names) in NAMED.items()
}

SOURCES = """
sources:
  - name: inputs
    schema: "{{ target.schema }}_inputs"
    tables: [{name: fed}, {name: unfed}, {name: repeated}, {name: more}, {name: weighed},
      {name: parquet}, {name: one}, {name: two}, {name: renamed}, {name: summed}, {name: coded}]
"""


@pytest.mark.slow
def test_models_that_cannot_be_right_are_refused(
    dbt: Callable[..., Any],
    new_project: Callable[..., Path],
    spark: Any,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inputs = f"{schema}_inputs"
    spark.sql(f"create schema {inputs}")
    for name, rows, feed in [
        ("fed", "(1), (2)", FEED_ON),
        ("unfed", "(1), (2)", ""),
        ("repeated", "(1), (1), (2)", FEED_ON),
        ("more", "(1), (2), (3)", ""),
    ]:
        spark.sql(f"create table {inputs}.{name} (id int) using delta {feed}")
        spark.sql(f"insert into {inputs}.{name} values {rows}")
    spark.sql(f"create table {inputs}.weighed (id int, _weight int) using delta {FEED_ON}")
    spark.sql(f"create table {inputs}.coded (id int, code char(5)) using delta {FEED_ON}")
    spark.sql(f"create table {inputs}.parquet using parquet as select 1 as id")
    for query in {
        "one as select id from {}.fed",
        "two as select a.id from {0}.fed a join {0}.more b on a.id = b.id",
        "renamed (id) as select id + 1 as next from {}.fed",
        "summed as select id from {}.fed group by id",
    }:
        spark.sql(f"create view {inputs}.{query.format(inputs)}")
    models = {name: model for name, (model, _) in REFUSED.items()}
    models["kept"] = CHANGE_FEED + "select id from {{ changes(source('inputs', 'fed')) }}"
    models["strayed"] = (
        AFFECTED.replace(") }}", ", incremental_proof='sample') }}")
        + "select abs(id) as id, count(*) as rows\n"
        "from {{ affected(source('inputs', 'fed'), key='id') }} group by 1"
    )
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

    # a key that repeats later, or that no change leads to: the run fails, the table is unchanged,
    # and the staged change set is dropped
    monkeypatch.setattr(plan, "ROWS_WORTH_STORING", 0)
    monkeypatch.setattr(bounds, "MOST_VALUES", 0)
    spark.sql(f"insert into {inputs}.fed values (2), (-3)")
    chosen = ["--select", "kept", "strayed"]
    result = dbt("run", *chosen, project_dir=folder, schema=schema, expect=False)
    said = {answer.node.name: answer.message for answer in result.result.results}
    assert "not unique" in said["kept"]
    assert sorted(row.id for row in spark.table(f"{schema}.kept").collect()) == [1, 2]
    assert "a row of id that comes from no row of an affected() input" in said["strayed"]
    assert sorted(map(tuple, spark.table(f"{schema}.strayed").collect())) == [(1, 1), (2, 1)]
    tables = spark.sql(f"show tables in {schema}").collect()
    assert sorted(row.tableName for row in tables) == ["kept", "strayed"]


PROJECT = """
name: refused
version: 0.1.0
profile: headwaters
models:
  refused:
    +materialized: incremental
    +file_format: delta
"""
