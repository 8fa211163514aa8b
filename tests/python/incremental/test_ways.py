"""Test that every way of writing leaves the rows of plain SQL, under any session settings."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROJECT = """
name: ways
version: 0.1.0
profile: headwaters
models:
  ways:
    +materialized: incremental
    +file_format: delta
    +incremental_strategy: change_feed
    +unique_key: [id, part]
    +tblproperties:
      delta.enableChangeDataFeed: "true"
      delta.enableDeletionVectors: "true"
"""
SOURCES = """
sources:
  - name: inputs
    schema: "{{ target.schema }}_inputs"
    tables: [{name: fed}]
"""
FED = "{{ changes(source('inputs', 'fed')) }}"
COPY = f"select id, part, val from {FED}"
PLAIN = "select id, part, val from fed"
SUMS = (
    "{{ config(incremental_strategy='signed_sum', unique_key='part') }}\n"
    "select part, sum(_weight) as n, sum(cast(val as bigint) * _weight) as total"
    " from {{ signed(source('inputs', 'fed')) }} group by part"
)
TOTALS = "select part, count(*), sum(val) from fed group by part"
OLD = "{{ config(tblproperties={'delta.enableDeletionVectors': 'false'}) }}\n"

# Each model with its plain SQL, and the reason for merging deletions with other rows.
WAYS: dict[str, tuple[str, str, str]] = {
    "composite": (COPY, PLAIN, ""),
    "partitioned": (
        "{{ config(partition_by='part') }}\n" + COPY + " where id % 8 not in (3, 5)",
        PLAIN + " where id % 8 not in (3, 5)",
        "",
    ),
    "old_readers": (OLD + COPY, PLAIN, ""),
    "odd_names": (
        "{{ config(unique_key=['the id', 'fröm'], allow_protocol_upgrade=true,"
        " tblproperties={'delta.columnMapping.mode': 'name',"
        " 'delta.enableChangeDataFeed': 'false'}) }}\n"
        f"select id as `the id`, part as `fröm`, val as `_t``arget` from {FED}",
        PLAIN,
        "",
    ),
    "totals": (
        "{{ config(incremental_strategy='affected_keys', unique_key='part') }}\n"
        "select part, count(*) as n, sum(val) as total"
        " from {{ affected(source('inputs', 'fed'), key='part') }} group by part",
        TOTALS,
        "",
    ),
    "sums": (SUMS, TOTALS, ""),
    "merged": ("{{ config(apply_by='merge') }}\n" + COPY, PLAIN, "as apply_by says"),
    "dotted": (
        "{{ config(partition_by='a.b', unique_key='id') }}\n"
        f"select id, part as `a.b`, val from {FED} where id % 8 not in (3, 5)",
        PLAIN + " where id % 8 not in (3, 5)",
        "",
    ),
    "dotted_merged": (
        "{{ config(partition_by='a.b', unique_key=['id', 'a.b'], apply_by='merge') }}\n"
        f"select id, part as `a.b`, val from {FED} where id % 8 not in (3, 5)",
        PLAIN + " where id % 8 not in (3, 5)",
        "as apply_by says",
    ),
    "reals": (
        "{{ config(unique_key=['num', 'part']) }}\n"
        f"select cast(id as double) / 2 as num, part, val from {FED}",
        "select cast(id as double) / 2, part, val from fed",
        "",
    ),
    "followed": (COPY, PLAIN, ""),
    **{
        f"follower_{n}": (
            "select id, part, val from {{ changes(ref('followed')) }} where id % 4 = " + str(n),
            f"select id, part, val from fed where id % 4 = {n}",
            "",
        )
        for n in range(4)
    },
}
PARTS = ["null", "'a'", "'it''s'", "''", "concat('$', '{x}')", "'\\u2028'", "'\\n\\\\'", "'ü'"]
FIRST = "insert into {inputs}.fed values " + ", ".join(
    f"({n}, cast({part} as string), {n})" for n, part in enumerate(PARTS * 4)
)
MIXED = (
    "merge into {inputs}.fed using (select * from values (0, 'update'), (1, 'update'),"
    " (2, 'delete'), (3, 'delete'), (4, 'delete'), (8, 'delete'), (13, 'update'),"
    " (16, 'delete'), (24, 'delete'), (40, 'insert'), (41, 'insert'), (42, 'insert'),"
    " (43, 'insert') as v (key, what)) as s"
    " on id = key when matched and what = 'delete' then delete"
    " when matched then update set val = val + 100, part = if(id = 1, 'moved', part)"
    " when not matched then insert (id, part, val) values (key, 'new', key)"
)
STEPS = [
    FIRST,
    MIXED,
    "delete from {inputs}.fed where id in (5, 6, 7, 9, 40)",
    "insert into {inputs}.fed values (60, 'b', 1), (61, null, 2), (62, 'c', 3), (63, 'c', 3)",
    MIXED.replace("(0, ", "(17, ").replace("(4, ", "(12, ").replace("(16, ", "(60, "),
]


@pytest.fixture
def overwrites_partitions(set_spark: Callable[[str, str], None]) -> None:
    """Set the session so that Delta ignores `replaceOn` of an `insert overwrite`."""
    set_spark("spark.sql.sources.partitionOverwriteMode", "dynamic")


@pytest.mark.slow
def test_each_way_of_writing_leaves_what_the_sql_says(
    dbt: Callable[..., Any],
    new_project: Callable[..., Path],
    spark: Any,
    schema: str,
    overwrites_partitions: None,
) -> None:
    inputs = f"{schema}_inputs"
    spark.sql(f"create schema {inputs}")
    spark.sql(
        f"create table {inputs}.fed (id int, part string, val int) using delta"
        " tblproperties ('delta.enableChangeDataFeed' = 'true')"
    )
    files = {f"models/{name}.sql": text for name, (text, _, _) in WAYS.items()}
    folder = new_project({"dbt_project.yml": PROJECT, "models/inputs.yml": SOURCES, **files})
    for step, statement in enumerate(STEPS):
        spark.sql(statement.replace("{inputs}", inputs))
        ran = dbt("run", project_dir=folder, schema=schema)
        said = {answer.node.name: str(answer.message) for answer in ran.result.results}
        wrong = {}
        for name, (_, plain, reason) in WAYS.items():
            want = plain.replace("from fed", f"from {inputs}.fed")
            got = f"select * from {schema}.{name}"
            both = f"({got} except all ({want})) union all (({want}) except all {got})"
            if differences := spark.sql(both).collect():
                wrong[name] = f"{said[name]}: {differences}"
            made = spark.sql(f"describe history {schema}.{name}").where(
                "operationParameters.predicate like '%headwaters run%'"
                " or operationParameters.replaceOnCond is not null or version = 0"
            )
            newest = made.orderBy("version", ascending=False).first()
            by_merge = re.findall(r", by MERGE \((.*)\),", said[name])
            if statement.startswith("merge") and by_merge != ([reason] if reason else []):
                wrong[name] = said[name]
            if statement.startswith("merge") and newest.operation != (
                "MERGE" if reason else "WRITE"
            ):
                wrong[name] = f"{newest.operation}: {said[name]}"
            if step and not said[name].startswith(("merge", "append", "no changes")):
                wrong[name] = said[name]
        assert wrong == {}, statement


@pytest.mark.slow
def test_without_metrics_the_rows_are_counted(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    inputs = f"{schema}_inputs"
    spark.sql(f"create schema {inputs}")
    spark.sql(
        f"create table {inputs}.fed (id int, part string, val int) using delta"
        " tblproperties ('delta.enableChangeDataFeed' = 'true')"
    )
    files = {"models/composite.sql": COPY}
    folder = new_project({"dbt_project.yml": PROJECT, "models/inputs.yml": SOURCES, **files})
    setting = "spark.databricks.delta.history.metricsEnabled"
    # with inserted rows, the run first queries the target for their keys and the others'
    nothing_new = MIXED.split(" when not matched")[0].replace("(1, ", "(17, ")
    for statement in [FIRST, nothing_new]:
        spark.sql(statement.replace("{inputs}", inputs))
        spark.conf.set(setting, "false")
        try:
            ran = dbt("run", project_dir=folder, schema=schema)
        finally:
            spark.conf.unset(setting)
    said = {answer.node.name: str(answer.message) for answer in ran.result.results}
    message = said["composite"]
    assert re.sub(r"[\d.]+ .?B", "…", message) == (
        "merge: 0 inserted, 3 updated, 6 deleted, …, of 9 changed input rows"
    )
