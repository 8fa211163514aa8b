"""Test that any correct SQL is maintained: a table equals plain SQL after every run."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException

SOURCES = """
sources:
  - name: inputs
    schema: "{{ target.schema }}_inputs"
    tables: [{name: fed}, {name: other}]
"""
PROJECT = """
name: plain
version: 0.1.0
profile: headwaters
models:
  plain:
    +materialized: incremental
    +file_format: delta
    +unique_key: id
"""
MACROS = """
{% macro newer() %}{% if is_incremental() %} and fed.val > 25 {% endif %}{% endmacro %}
"""
FEED = "{{ config(incremental_strategy='change_feed') }}\n"
LATEST = "{{ config(incremental_strategy='change_feed', latest_by='val') }}\n"
AFFECTED = "{{ config(incremental_strategy='affected_keys') }}\n"
SIGNED = "{{ config(incremental_strategy='signed_sum') }}\n"
HISTORY = "{{ config(incremental_strategy='history', on_gap='rebuild') }}\n"
NEWER = "{% if is_incremental() %} where val > (select max(val) from {{ this }}) {% endif %}"
RELATION = re.compile(r"(?<=from |join )(fed|other)")
FED = "source('inputs', 'fed')"

OTHER = "source('inputs', 'other')"

# Each model with the plain SQL of its table.
OF_ALL = "{{ config(incremental_strategy='signed_sum', unique_key='k') }}\n"
MODELS = {
    "asks_feed": (
        FEED + "-- was: from {{ changes(source('inputs', 'other')) }}\n"
        f"""select fed.id, fed.val, "group by" as label /* from {{{{ changes({FED}) }}}} */\n"""
        f"from {{{{ changes({FED}) }}}} {NEWER};\n-- the end: {{{{ changes({FED}) }}}}\n;",
        "select id, val, 'group by' from fed",
    ),
    "asks_latest": (
        LATEST
        + f"select fed.* from {{{{ changes({FED}) }}}}"
        + NEWER.replace("is_incremental", "dbt.is_incremental")
        + " limit all",
        "select id, max(val) from fed group by id",
    ),
    "asks_affected": (
        AFFECTED
        + f"select fed.id, sum(other.val) as total from {{{{ affected({FED}, key='id') }}}},\n"
        f"{{{{ affected({OTHER}, key='id') }}}} where fed.id = other.id {{{{ newer() }}}}\n"
        "group by fed.id",
        "select fed.id, sum(other.val) from fed join other on fed.id = other.id group by fed.id",
    ),
    "asks_signed": (
        SIGNED + "select fed.id, cast(sum(fed._weight) as bigint) as n,\n"
        "sum(cast(val as bigint) * _weight) as total\n"
        f"from {{{{ signed({FED}) }}}} {NEWER} group by fed.id;",
        "select id, count(*), sum(val) from fed group by id",
    ),
    "asks_history": (
        HISTORY
        + f"select fed.id, fed.val, fed._image from ({{{{ images({FED}) }}}}) where fed.val > 0\n"
        "{{ plain.newer() }}",
        "select id, val from fed",
    ),
    "asks_beneath": (FEED + "select id, val from {{ ref('beneath') }}", "select id, val from fed"),
    "lateral": (
        FEED + f"select fed.id, e.x, r'\\' as raw from {{{{ changes({FED}) }}}} -- the feed\n"
        "lateral view explode(array(fed.val)) e as x",
        "select id, val, chr(92) from fed",
    ),
    "joined": (
        FEED
        + f"select fed.id, other.val, o.val as more from {{{{ changes({FED}) }}}} -- the feed\n"
        f"left join {{{{ lookup({OTHER}) }}}} on other.id = fed.id\n"
        f"left join {{{{ lookup({OTHER}) }}}} o on o.id = fed.id",
        "select fed.id, other.val, other.val from fed left join other on other.id = fed.id",
    ),
    # the sum of two decimals of 38 digits loses one digit after the point
    "many_digits": (
        SIGNED + "select fed.id, sum(_weight) as n,\n"
        "sum(cast(val * 0.00000001 as decimal(20, 8)) * _weight) as total\n"
        f"from {{{{ signed({FED}) }}}} group by fed.id",
        "select id, count(*), sum(cast(val * 0.00000001 as decimal(20, 8))) from fed group by id",
    ),
    "of_all": (
        OF_ALL + "select 'all' as k, sum(_weight) as n,\n"
        "sum(cast(val as bigint) * _weight) as total\n"
        f"from {{{{ signed({FED}) }}}}",
        "select 'all', count(*), coalesce(sum(val), 0) from fed",
    ),
    "of_all_joined": (
        OF_ALL + "with totals as (select sum(fed._weight) as n,\n"
        "sum(cast(other.val as bigint) * _weight) as total\n"
        f"from {{{{ signed({FED}) }}}}\n"
        f"inner join {{{{ lookup({OTHER}) }}}} on other.id = fed.id)\n"
        "select 'all' as k, n, total from totals",
        "select 'all', count(*), coalesce(sum(other.val), 0)"
        " from fed join other on other.id = fed.id",
    ),
}
STAGED = {
    "stg_fed": "{{ config(materialized='view') }}\n"
    "with fed as (select * from {{ source('inputs', 'fed') }} -- all of it\n"
    ") select id, val * 2 as twice from fed where val <> 20",
    "stg_again": "{{ config(materialized='view') }} select twice, id from {{ ref('stg_fed') }} s",
    "stg_both": "{{ config(materialized='view') }} select o.id, o.val, f.id as fed_id\n"
    "from {{ source('inputs', 'other') }} as o\n"
    "left join {{ source('inputs', 'fed') }} as f on f.id = o.id",
}
MODELS |= {
    "over_a_view": (
        FEED + "select stg_again.* from {{ changes(ref('stg_again')) }} where stg_again.twice > 0",
        "select val * 2, id from fed where val <> 20",
    ),
    "beside_views": (
        FEED + f"select f.id, b.fed_id from {{{{ changes({FED}) }}}} as f\n"
        "left join {{ lookup(ref('stg_both')) }} as b on b.id = f.id",
        "select id, if(id < 3, id, null) from fed",
    ),
}

CHANGES = [
    "insert into {inputs}.fed values (1, 10), (2, 20), (3, 30), (4, 40)",
    "merge into {inputs}.fed using (select * from values (1, 11), (4, 0) as v (key, more)) as s"
    " on id = key when matched and more = 0 then delete when matched then update set val = more",
]


@pytest.mark.slow
def test_right_sql_is_maintained(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    inputs = f"{schema}_inputs"
    spark.sql(f"create schema {inputs}")
    for name in ("fed", "other"):
        spark.sql(
            f"create table {inputs}.{name} (id int, val int) using delta"
            " tblproperties ('delta.enableChangeDataFeed' = 'true')"
        )
    spark.sql(f"insert into {inputs}.other values (1, 10), (2, 20)")
    folder = new_project(
        {
            "dbt_project.yml": PROJECT,
            "models/inputs.yml": SOURCES,
            "macros_here/newer.sql": MACROS,
            "models/beneath.sql": "{{ config(materialized='ephemeral') }}"
            f" select id, val from {{{{ changes({FED}) }}}} {NEWER}",
            **{f"models/{name}.sql": text for name, text in STAGED.items()},
            **{f"models/{name}.sql": text for name, (text, _) in MODELS.items()},
        }
    )
    (folder / "dbt_project.yml").write_text(PROJECT + "macro-paths: [macros_here]\n")

    def run(command: str, models: Iterable[str]) -> None:
        chosen = ("--select", *(f"+{name}" for name in models))
        result = dbt(command, *chosen, project_dir=folder, schema=schema, expect=None)
        said = {answer.node.name: str(answer.message) for answer in result.result.results}
        wrong = {}
        for name in models:
            try:
                got = spark.sql(f"select * from {schema}.{name}").drop("valid_from", "valid_to")
                if "is_current" in got.columns:
                    got = got.where("is_current").drop("is_current")
                want = spark.sql(RELATION.sub(rf"{inputs}.\1", MODELS[name][1]))
                rows = [sorted(map(tuple, table.collect())) for table in (got, want)]
            except AnalysisException as error:
                wrong[name] = f"{said[name]}: {str(error).splitlines()[0]}"
            else:
                if rows[0] != rows[1]:
                    wrong[name] = f"{said[name]}: {rows[0]}, not {rows[1]}"
        assert wrong == {}
        assert result.success
        messages = str(result.messages)
        warned = set(re.findall(r"(\w+) \(models/\w+.sql\) calls is_incremental", messages))
        assert warned == {name for name in models if name.startswith("asks_")} - {"asks_beneath"}

    run("run", MODELS)
    for command, statement in zip(["run", "build"], CHANGES, strict=True):
        spark.sql(statement.replace("{inputs}", inputs))
        run(command, MODELS)
    # SQL keeps one row of an aggregate without a key
    of_all = ["of_all", "of_all_joined"]
    spark.sql(f"delete from {inputs}.fed")
    run("run", ["joined", *of_all])
    spark.sql(f"insert into {inputs}.fed values (1, 5), (7, 70)")
    run("run", of_all)


IGNORING = {
    "feed": "{{ config(incremental_strategy='change_feed', on_lookup_change='ignore') }}\n"
    f"select i.id, i.k, i.val, l.rate from {{{{ changes({FED}) }}}} as i\n"
    "left join {{ lookup(source('inputs', 'other')) }} as l on l.k = i.k",
    "latest": "{{ config(incremental_strategy='change_feed', on_lookup_change='ignore',"
    " latest_by='val') }}\n"
    f"select i.id, i.k, i.val, (select max(l.rate) from {{{{ lookup(source('inputs', 'other')) }}}}"
    f" as l where l.k = i.k) as rate from {{{{ changes({FED}) }}}} as i",
    "periods": "{{ config(incremental_strategy='history', on_lookup_change='ignore',"
    " on_gap='rebuild') }}\n"
    f"select i.id, i.k, i.val, l.rate, i._image from {{{{ images({FED}) }}}} as i\n"
    "left join {{ lookup(source('inputs', 'other')) }} as l on l.k = i.k",
}


# The changes between two runs: (event, key, …). `add` is (id, k, val), `rate` is (k, rate).
Event = tuple[Any, ...]
# A row's input row is deleted after its lookup's row, and returns as another row.
LOOKUP_FIRST: list[list[Event]] = [
    [("add", 1, 1, 1), ("add", 2, 2, 2), ("rate", 1, 10), ("rate", 2, 11)],
    [("no rate", 1), ("rate", 2, 12)],
    [("delete", 1), ("add", 3, 2, 1)],
    [("add", 1, 2, 1), ("no rate", 2), ("delete", 2)],
]


def _drawn(seed: int, rounds: int) -> list[list[Event]]:
    chance = random.Random(seed)

    def event() -> Event:
        key = chance.randint(1, 3)
        happens = chance.choice(["add", "add", "delete", "rate", "no rate"])
        if happens == "add":
            return (happens, key, chance.randint(1, 2), chance.randint(1, 3))
        if happens == "rate":
            return (happens, min(key, 2), chance.randint(10, 12))
        return (happens, key)

    return [[event() for _ in range(chance.randint(1, 4))] for _ in range(rounds)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "history",
    [
        pytest.param(LOOKUP_FIRST, id="lookup first"),
        pytest.param(_drawn(int(os.environ.get("HISTORY_SEED", "7")), 6), id="drawn"),
    ],
)
def test_a_row_goes_with_its_input_row_whatever_became_of_its_lookup(
    dbt: Callable[..., Any],
    new_project: Callable[..., Path],
    spark: Any,
    schema: str,
    history: list[list[Event]],
) -> None:
    """Set `on_lookup_change: ignore`: rows keep the lookup values of the run that wrote them."""
    inputs = f"{schema}_inputs"
    spark.sql(f"create schema {inputs}")
    for name, columns in {"fed": "id int, k int, val int", "other": "k int, rate int"}.items():
        spark.sql(
            f"create table {inputs}.{name} ({columns}) using delta"
            " tblproperties ('delta.enableChangeDataFeed' = 'true')"
        )
    folder = new_project(
        {
            "dbt_project.yml": PROJECT,
            "models/inputs.yml": SOURCES,
            **{f"models/{name}.sql": text for name, text in IGNORING.items()},
        }
    )
    rows: dict[int, tuple[int, int]] = {}
    rates: dict[int, int] = {}
    written: dict[int, tuple[int, int, int | None]] = {}
    for events in history:
        for happens, key, *values in events:
            if happens in ("add", "delete") and key in rows:
                del rows[key]
                spark.sql(f"delete from {inputs}.fed where id = {key}")
            if happens in ("rate", "no rate") and key in rates:
                del rates[key]
                spark.sql(f"delete from {inputs}.other where k = {key}")
            if happens == "add":
                rows[key] = (values[0], values[1])
                spark.sql(f"insert into {inputs}.fed values ({key}, {values[0]}, {values[1]})")
            if happens == "rate":
                rates[key] = values[0]
                spark.sql(f"insert into {inputs}.other values ({key}, {values[0]})")
        result = dbt("run", project_dir=folder, schema=schema)
        said = {answer.node.name: str(answer.message) for answer in result.result.results}
        written = {
            id: before
            if (before := written.get(id)) and before[:2] == (k, val)
            else (k, val, rates.get(k))
            for id, (k, val) in rows.items()
        }
        got = {
            name: sorted(map(tuple, spark.sql(f"select {columns} from {schema}.{name}").collect()))
            for name, columns in [("feed", "*"), ("latest", "id, k, val")]
        }
        now = spark.sql(f"select id, k, val from {schema}.periods where is_current")
        assert got["feed"] == sorted((id, *row) for id, row in written.items()), said
        assert got["latest"] == sorted((id, *row) for id, row in rows.items()), said
        assert sorted(map(tuple, now.collect())) == got["latest"], said
        assert "replace" not in said["feed"] or "first run" in said["feed"]
