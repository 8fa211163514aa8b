"""Test inputs with new partition columns: Delta's feed then lacks values of older files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROJECT = """
name: repartitioned
version: 0.1.0
profile: headwaters
models:
  repartitioned:
    +materialized: incremental
    +file_format: delta
    +incremental_strategy: auto
    +tblproperties: {delta.enableChangeDataFeed: "true"}
"""
FEED = "tblproperties ('delta.enableChangeDataFeed' = 'true')"
MADE = [
    f"create table {{it}} (id int, grp string, val int) using delta {FEED}",
    "insert into {it} values (1, 'a', 10), (2, 'b', 20)",
]
AGAIN = f"create or replace table {{it}} using delta partitioned by (grp) {FEED} as select "
# An input whose column has a default, which a model's table does not get.
DEFAULTS = [
    MADE[0]
    .replace("val int)", "val int default 7)")
    .replace(
        "tblproperties (", "tblproperties ('delta.feature.allowColumnDefaults' = 'supported', "
    ),
    MADE[1],
]
# An input whose column is dropped and added again before the first run.
DROPPED = [
    MADE[0].replace("tblproperties (", "tblproperties ('delta.columnMapping.mode' = 'name', "),
    MADE[1],
    "alter table {it} drop column val",
    "alter table {it} add column val int",
]
# The change of each input.
HAPPENS = {
    "same": AGAIN + "* from {it}",
    "fewer": AGAIN + "* from {it} where grp <> 'b'",
    "moved": AGAIN + "id, 'a' as grp, val from {it}",
    "restored": "restore table {it} to version as of 1",
    "dropped": "restore table {it} to version as of 1",
    "looked_up": AGAIN + "id, grp, val + 1 as val from {it}",
}


def source(name: str, how: str = "") -> str:
    call = f"source('inputs', '{name}')"
    return f"{{{{ {how}({call}) }}}}" if how else f"{{{{ {call} }}}}"


def config(**settings: Any) -> str:
    written = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    return f"{{{{ config({written}) }}}} "


SUMS = "count(*) as n, sum(val) as val"
# Each model: its text, and the plain SQL of its rows.
MODELS: dict[str, tuple[str, str]] = {
    "without_key": (
        f"select id, grp from {source('same')} where grp is not null",
        "select id, grp from {inputs}.same",
    ),
    "by_group": (
        f"select grp, {SUMS} from {source('fewer')} group by grp",
        f"select grp, {SUMS} from {{inputs}}.fewer group by grp",
    ),
    "by_key": (
        config(unique_key="id") + f"select id, val from {source('moved')} where grp = 'b'",
        "select id, val from {inputs}.moved where grp = 'b'",
    ),
    "signed": (
        config(incremental_strategy="signed_sum", unique_key="grp")
        + "select grp, sum(_weight) as n, sum(cast(val as bigint) * _weight) as val"
        + f" from {source('same', 'signed')} group by grp",
        f"select grp, {SUMS} from {{inputs}}.same group by grp",
    ),
    "below": (
        "{{ config(partition_by=var('parts', none)) }}" + f" select * from {source('plain')}",
        "select * from {inputs}.plain",
    ),
    "above": (
        "select id, grp from {{ ref('below') }} where grp is not null",
        "select id, grp from {inputs}.plain",
    ),
    "table_below": (
        "{{ config(materialized='table', partition_by=var('parts', none)) }}"
        f" select id, grp, val + 0 as val from {source('plain')}",
        "select * from {inputs}.plain",
    ),
    "table_above": (
        f"select grp, {SUMS} from {{{{ ref('table_below') }}}} group by grp",
        f"select grp, {SUMS} from {{inputs}}.plain group by grp",
    ),
    "of_restored": (
        f"select id, grp from {source('restored')} where grp is not null",
        "select id, grp from {inputs}.restored",
    ),
    "of_dropped": (
        f"select id, val from {source('dropped')} where id > 0",
        "select id, val from {inputs}.dropped",
    ),
    "of_frame": (
        f"select id, grp from {source('frame')} where grp is not null",
        "select id, grp from {inputs}.frame",
    ),
    "changed": (
        config(incremental_strategy="change_feed", unique_key="id")
        + f"select id, grp from {source('moved', 'changes')} where grp = 'b'",
        "select id, grp from {inputs}.moved where grp = 'b'",
    ),
    "affected": (
        config(incremental_strategy="affected_keys", unique_key="grp")
        + f"select grp, {SUMS} from {{{{ affected(source('inputs', 'fewer'), key='grp') }}}}"
        " group by grp",
        f"select grp, {SUMS} from {{inputs}}.fewer group by grp",
    ),
    "looking_up": (
        config(incremental_strategy="change_feed", unique_key="id")
        + f"select p.id, l.val from {source('plain', 'changes')} as p"
        f" left join {source('looked_up', 'lookup')} as l on p.grp = l.grp",
        "select p.id, l.val from {inputs}.plain as p left join {inputs}.looked_up as l using (grp)",
    ),
    "periods": (
        config(incremental_strategy="history", unique_key="id", on_gap="rebuild")
        + f"select id, grp, _image from {source('moved', 'images')}",
        "select id, grp, null, true from {inputs}.moved",
    ),
}
OTHERWISE = {
    "below": "the table is not partitioned as the model says",
    "table_below": "OK",
    "looking_up": "looked_up changed",
}


@pytest.mark.slow
def test_an_input_that_is_partitioned_anew_is_a_gap(
    dbt: Callable[..., Any],
    new_project: Callable[..., Path],
    spark: Any,
    schema: str,
) -> None:
    inputs = f"{schema}_inputs"
    names = ("plain", "frame", *HAPPENS)
    tables = ", ".join(f"{{name: {name}}}" for name in names)
    sources = (
        f"sources: [{{name: inputs, schema: '{{{{ target.schema }}}}_inputs', tables: [{tables}]}}]"
    )
    files = {f"models/{name}.sql": text for name, (text, _) in MODELS.items()}
    folder = new_project({"dbt_project.yml": PROJECT, "models/inputs.yml": sources, **files})
    spark.sql(f"create schema {inputs}")
    for name in names:
        for statement in {"plain": DEFAULTS, "dropped": DROPPED}.get(name, MADE):
            spark.sql(statement.format(it=f"{inputs}.{name}"))
    spark.sql(HAPPENS["same"].format(it=f"{inputs}.restored"))

    def run(*arguments: str) -> dict[str, str]:
        answers = dbt("run", *arguments, project_dir=folder, schema=schema).result.results
        return {it.node.name: it.message for it in answers if it.node.resource_type == "model"}

    def rows_of(sql: str) -> Counter[tuple[Any, ...]]:
        return Counter(map(tuple, spark.sql(sql).collect()))

    run()
    for name in names:
        if name in HAPPENS:
            spark.sql(HAPPENS[name].format(it=f"{inputs}.{name}"))
    frame = spark.table(f"{inputs}.frame")
    writer = spark.createDataFrame(frame.collect(), frame.schema).write.format("delta")
    writer.mode("overwrite").option("overwriteSchema", "true").partitionBy("grp").saveAsTable(
        f"{inputs}.frame"
    )
    messages = run("--vars", "{parts: [grp]}")
    for name in MODELS:
        assert OTHERWISE.get(name, "was partitioned by other columns") in messages[name]
        columns = "id, grp, valid_to, is_current" if name == "periods" else "*"
        got = rows_of(f"select {columns} from {schema}.{name}")
        assert got == rows_of(MODELS[name][1].format(inputs=inputs)), name
    again = run("--vars", "{parts: [grp]}")
    assert {
        message for name, message in again.items() if name not in ("table_below", "table_above")
    } == {"no changes"}
