"""Test dbt's documented features on Delta: its own incremental strategies, and other commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Dbt = Callable[..., Any]
NewProject = Callable[[dict[str, str]], Path]

SOURCES = """
sources:
  - name: inputs
    schema: %s_inputs
    tables:
      - name: rows
        config: {event_time: day}
"""


class Inputs:
    """The one table that every model here reads: id, `the-value`, day."""

    def __init__(self, spark: Any, schema: str) -> None:
        self.spark, self.schema = spark, schema
        spark.sql(f"create schema {schema}_inputs")
        self.become("(1, 10, date'2026-01-01'), (2, 20, date'2026-01-02'), (null, 30, null)")

    def become(self, values: str) -> None:
        """Replace all rows in one commit."""
        self.spark.sql(
            f"create or replace table {self.schema}_inputs.rows using delta"
            " tblproperties ('delta.enableChangeDataFeed' = 'true') as"
            f" select * from values {values} as (id, `the-value`, day)"
        )

    def rows(self, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
        """Return the rows of a model's table, in order."""
        found = self.spark.sql(f"select {columns} from {self.schema}.{table} order by all")
        return [tuple(str(value) for value in row) for row in found.collect()]


@pytest.fixture
def inputs(spark: Any, schema: str) -> Inputs:
    return Inputs(spark, schema)


def model(sql: str = "select * from {{ source('inputs', 'rows') }}", **config: Any) -> str:
    """Return a model's text, incremental by default."""
    settings = {"materialized": "incremental", **config}
    return f"{{{{ config(**{settings!r}) }}}}\n{sql}"


def said(result: Any) -> dict[str, str]:
    """Return the messages of a dbt command's nodes by name."""
    return {answer.node.name: str(answer.message) for answer in result.result.results}


STOCK: dict[str, dict[str, Any]] = {
    "appended": {"incremental_strategy": "append"},
    "merged": {"incremental_strategy": "merge", "unique_key": "id"},
    "merged_some": {
        "incremental_strategy": "merge",
        "unique_key": "id",
        "merge_exclude_columns": ["the-value"],
    },
    "merged_when": {
        "incremental_strategy": "merge",
        "unique_key": "id",
        "matched_condition": "DBT_INTERNAL_SOURCE.`the-value` > 100",
        "delete_condition": "DBT_INTERNAL_SOURCE.`the-value` < 0",
        "not_matched_by_source_action": "delete",
    },
    "overwritten": {"incremental_strategy": "insert_overwrite"},
    "overwritten_days": {"incremental_strategy": "insert_overwrite", "partition_by": "day"},
    "a_view": {"materialized": "view"},
    "a_table": {"materialized": "table"},
}


@pytest.mark.slow
def test_stock_strategies_do_what_dbt_documents(
    dbt: Dbt, new_project: NewProject, inputs: Inputs
) -> None:
    project = new_project(
        {
            **{f"models/{name}.sql": model(**config) for name, config in STOCK.items()},
            "models/sources.yml": SOURCES % inputs.schema,
        }
    )
    first = [("1", "10", "2026-01-01"), ("2", "20", "2026-01-02"), ("None", "30", "None")]
    dbt("run", project_dir=project, schema=inputs.schema)
    first.sort()
    for name in STOCK:
        assert sorted(inputs.rows(name)) == first, name
    # a new row, a changed one, one with a null key, one that the conditions delete; 2 is deleted
    inputs.become(
        "(1, -1, date'2026-01-01'), (3, 40, date'2026-01-03'), (null, 300, date'2026-01-01')"
    )
    dbt("run", project_dir=project, schema=inputs.schema)
    _one, two, none = first
    one_new, three, none_new = (
        ("1", "-1", "2026-01-01"),
        ("3", "40", "2026-01-03"),
        ("None", "300", "2026-01-01"),
    )
    batch = [one_new, three, none_new]
    assert {name: sorted(inputs.rows(name)) for name in STOCK} == {
        "appended": sorted([*first, *batch]),
        "merged": sorted([two, *batch]),
        "merged_some": sorted(
            [("1", "10", "2026-01-01"), two, three, ("None", "30", "2026-01-01")]
        ),
        "merged_when": sorted([three, none_new]),
        "overwritten": sorted(batch),
        "overwritten_days": sorted([one_new, none_new, three, two, none]),
        "a_view": sorted(batch),
        "a_table": sorted(batch),
    }
    tables = inputs.spark.sql(f"show tables in {inputs.schema}").collect()
    assert {row["tableName"] for row in tables} == set(STOCK), "something was left behind"


MICROBATCH = model(
    incremental_strategy="microbatch",
    event_time="day",
    begin="2026-01-01",
    batch_size="day",
    lookback=0,
    partition_by="day",
)


@pytest.mark.slow
def test_microbatch_replaces_the_days_that_it_is_asked_for(
    dbt: Dbt, new_project: NewProject, inputs: Inputs
) -> None:
    inputs.become("(1, 10, date'2026-01-01'), (2, 20, date'2026-01-02'), (3, 30, date'2026-01-03')")
    project = new_project(
        {"models/daily.sql": MICROBATCH, "models/sources.yml": SOURCES % inputs.schema}
    )
    days = ("--event-time-start", "2026-01-01", "--event-time-end", "2026-01-04")
    dbt("run", *days, project_dir=project, schema=inputs.schema)
    inputs.become("(1, 11, date'2026-01-01'), (2, 21, date'2026-01-02'), (4, 31, date'2026-01-03')")
    days = ("--event-time-start", "2026-01-02", "--event-time-end", "2026-01-04")
    dbt("run", *days, project_dir=project, schema=inputs.schema)
    assert inputs.rows("daily") == [
        ("1", "10", "2026-01-01"),
        ("2", "21", "2026-01-02"),
        ("4", "31", "2026-01-03"),
    ]


FOLLOW = {"incremental_strategy": "change_feed", "unique_key": "id"}
FOLLOWED = "select id, `the-value` as val, day from {{ changes(source('inputs', 'rows')) }}"
CONTRACT = """
models:
  - name: followed
    config: {contract: {enforced: true}, on_schema_change: append_new_columns}
    columns:
      - {name: id, data_type: int, description: The key.}
      - {name: val, data_type: int}
      - {name: day, data_type: date}
"""
SNAPSHOT = """
snapshots:
  - name: versions
    relation: ref('followed')
    config: {unique_key: "coalesce(id, -1)", strategy: check, check_cols: [VAL], file_format: delta}
"""


@pytest.mark.slow
def test_commands_beside_run_leave_a_followed_table_right(
    dbt: Dbt, new_project: NewProject, inputs: Inputs, tmp_path: Path
) -> None:
    """Run --empty, --sample, snapshot, clone, retry and hooks around a model of changes."""
    schema = inputs.schema
    hooks = {
        "pre_hook": f"create table if not exists {schema}.hooked (word string) using delta",
        "post_hook": f"insert into {schema}.hooked values ('after')",
    }
    project = new_project(
        {
            "models/followed.sql": model(FOLLOWED, **FOLLOW, **hooks),
            "models/followed.yml": CONTRACT,
            "models/sources.yml": SOURCES % inputs.schema,
            "snapshots/versions.yml": SNAPSHOT,
        }
    )
    first = [("1", "10", "2026-01-01"), ("2", "20", "2026-01-02"), ("None", "30", "None")]

    def run(*arguments: str, expect: bool | None = True, artifacts: bool = False) -> Any:
        where: dict[str, Any] = {"project_dir": project, "schema": schema}
        return dbt(*arguments, **where, expect=expect, artifacts=artifacts)

    run("run", "--empty")
    assert inputs.rows("followed") == []
    run("run")
    assert sorted(inputs.rows("followed")) == first
    run("run", "--empty")
    assert sorted(inputs.rows("followed")) == first, "--empty emptied a table that had rows"
    run("run", "--sample", "{'start': '2026-01-02', 'end': '2026-01-03'}")
    assert inputs.rows("followed") == [("2", "20", "2026-01-02")]
    run("run")
    assert sorted(inputs.rows("followed")) == first
    assert set(inputs.rows("hooked")) == {("after",)}

    run("snapshot")
    inputs.spark.sql(f"update {schema}_inputs.rows set `the-value` = 11 where id = 1")
    inputs.spark.sql(f"delete from {schema}_inputs.rows where id = 2")
    merged = said(run("run"))["followed"]
    assert merged.startswith("merge: 0 inserted, 1 updated, 1 deleted, ")
    assert merged.endswith(", of 2 changed input rows")
    run("snapshot", artifacts=True)
    versions = inputs.rows("versions", "id, val, dbt_valid_to is null as current")
    assert versions == [
        ("None", "30", "True"),
        ("1", "10", "False"),
        ("1", "11", "True"),
        ("2", "20", "True"),
    ]

    # a clone continues from its original's applied versions, and does not change the original
    (tmp_path / "state").mkdir()
    (tmp_path / "target" / "manifest.json").rename(tmp_path / "state" / "manifest.json")
    state = ("--select", "followed", "--state", str(tmp_path / "state"))
    dbt("clone", *state, project_dir=project, schema=f"{schema}_clone")
    inputs.spark.sql(f"insert into {schema}_inputs.rows values (5, 50, null)")
    ran = dbt("run", "--select", "followed", project_dir=project, schema=f"{schema}_clone")
    assert said(ran)["followed"].startswith("append: 1 inserted")
    assert inputs.rows("followed") == [("None", "30", "None"), ("1", "11", "2026-01-01")]
    cloned = inputs.rows("followed")
    inputs.schema = f"{schema}_clone"
    assert inputs.rows("followed") == [*cloned, ("5", "50", "None")]
    # and a new clone replaces it on request
    dbt("clone", *state, project_dir=project, schema=f"{schema}_clone")
    assert len(inputs.rows("followed")) == 3
    dbt("clone", "--full-refresh", *state, project_dir=project, schema=f"{schema}_clone")
    assert inputs.rows("followed") == cloned
    ran = dbt("run", "--select", "followed", project_dir=project, schema=f"{schema}_clone")
    assert said(ran)["followed"].startswith("append: 1 inserted")


COUNTS = "select id, count(*) as n from {{ affected(ref('later'), key='id') }} group by id"


@pytest.mark.slow
def test_retry_goes_on_where_a_run_failed(
    dbt: Dbt, new_project: NewProject, inputs: Inputs
) -> None:
    project = new_project(
        {
            "models/followed.sql": model(FOLLOWED, **FOLLOW),
            "models/later.sql": "select id from {{ this.schema }}_inputs.later",
            "models/after.sql": model(
                COUNTS, incremental_strategy="affected_keys", unique_key="id"
            ),
            "models/sources.yml": SOURCES % inputs.schema,
        }
    )
    dbt("run", project_dir=project, schema=inputs.schema, expect=False, artifacts=True)
    inputs.spark.sql(f"create table {inputs.schema}_inputs.later using delta as select 7 as id")
    retried = dbt("retry", project_dir=project, schema=inputs.schema)
    assert {"later", "after"} <= set(said(retried)) and "followed" not in said(retried)
    assert inputs.rows("after") == [("7", "1")]


@pytest.mark.slow
def test_a_run_sees_what_its_own_hook_wrote_to_an_input(
    dbt: Dbt, new_project: NewProject, inputs: Inputs
) -> None:
    hook = f"insert into {inputs.schema}_inputs.rows values (%s, 50, date'2026-01-04')"
    changes = "select * from {{ changes(source('inputs', 'rows')) }}"
    copied = {"incremental_strategy": "change_feed", "unique_key": "id"}
    project = new_project(
        {
            "models/followed.sql": model(incremental_strategy="auto", pre_hook=hook % 4),
            "models/named.sql": model(changes, pre_hook=hook % 5, **copied),
            "models/sources.yml": SOURCES % inputs.schema,
        }
    )
    inputs.become("(1, 10, date'2026-01-01')")
    for run in (1, 2):
        for name, written in (("followed", "4"), ("named", "5")):
            inputs.spark.sql(f"delete from {inputs.schema}_inputs.rows where id > 1")
            dbt("run", "--select", name, project_dir=project, schema=inputs.schema)
            assert [row[0] for row in inputs.rows(name)] == ["1", written], (name, run)


HALF = (
    "{% call set_sql_header(config) %}"
    "create or replace temporary function half(x int) returns int return x div 2;\n"
    "create or replace temporary view one as select 1 as b;"
    "{% endcall %}"
)


def test_the_statements_of_a_header_run_before_the_model(
    dbt: Dbt, new_project: NewProject, inputs: Inputs
) -> None:
    sql = HALF + "select half(`the-value`) as a, b from {{ source('inputs', 'rows') }}, one"
    contract = "models: [{name: tabled, config: {contract: {enforced: true}}, columns: [%s]}]"
    columns = "{name: a, data_type: int}, {name: b, data_type: int}"
    project = new_project(
        {
            "models/tabled.sql": model(sql, materialized="table"),
            "models/added.sql": model(sql, incremental_strategy="append"),
            "models/contracts.yml": contract % columns,
            "models/sources.yml": SOURCES % inputs.schema,
        }
    )
    dbt("run", project_dir=project, schema=inputs.schema)
    inputs.spark.sql("drop view one")  # other tests list the tables of the session
    inputs.spark.sql("drop temporary function half")
    expected = [("5", "1"), ("10", "1"), ("15", "1")]
    assert {name: inputs.rows(name) for name in ("tabled", "added")} == {
        "tabled": expected,
        "added": expected,
    }


def test_a_hook_does_not_change_the_session_of_models_beside_it(
    dbt: Dbt, new_project: NewProject, inputs: Inputs
) -> None:
    hook = "set spark.sql.session.timeZone = UTC"
    files = {"models/zoned.sql": model("select 1 as a", materialized="table", pre_hook=hook)}
    project = new_project(files)
    run = ("run", "--threads", "2")
    failed = dbt(*run, project_dir=project, schema=inputs.schema, expect=False)
    assert said(failed)["zoned"].strip().splitlines()[-1].strip() == (
        "[HW_SESSION_SETTING] models/zoned.sql: its hook or header changes the session "
        f"({hook}), which the models on all 2 threads share. Set it in the target's "
        "server_side_parameters or in on-run-start, or run with --threads 1"
    )
    dbt("run", "--threads", "1", project_dir=project, schema=inputs.schema)
    assert inputs.rows("zoned") == [("1",)]


def test_a_partition_value_that_delta_would_make_null_is_refused(
    dbt: Dbt, new_project: NewProject, spark: Any, schema: str
) -> None:
    rows = "select * from values ('__HIVE_DEFAULT_PARTITION__', 1), (null, 2) as (word, n)"
    kinds: dict[str, dict[str, Any]] = {
        "a_table": {"materialized": "table"},
        "added": {"incremental_strategy": "append"},
        "merged": {"incremental_strategy": "merge", "unique_key": "n"},
    }
    project = new_project(
        {
            f"models/{name}.sql": model(rows, partition_by="word", **kind)
            for name, kind in kinds.items()
        }
    )
    lines = said(dbt("run", project_dir=project, schema=schema, expect=False))
    assert {name for name in kinds if "[HW_PARTITION_VALUE]" in lines[name]} == set(kinds)
    assert spark.sql(f"show tables in {schema}").count() == 0


AUTO = {"incremental_strategy": "auto"}


@pytest.mark.slow
def test_auto_builds_a_calendar_once_for_each_text(
    dbt: Dbt, new_project: NewProject, spark: Any, schema: str
) -> None:
    text = "select explode(sequence(date'2026-01-01', date'2026-01-%02d')) as day"
    days = model("select day, day(day) as n from {{ ref('calendar') }}", **AUTO)
    files = {"models/days.sql": days, "models/all.yml": "models: [{name: days}]"}
    project = new_project(files | {"models/calendar.sql": model(text % 3, **AUTO)})
    lines, found = [], []
    for last in (3, 3, 5):
        (project / "models/calendar.sql").write_text(model(text % last, **AUTO))
        lines.append(said(dbt("run", project_dir=project, schema=schema))["calendar"])
        found.append(spark.table(f"{schema}.days").count())
    assert [line.partition(":")[0] for line in lines] == ["replace", "no changes", "replace"]
    assert found == [3, 3, 5]


@pytest.mark.slow
def test_an_empty_text_in_a_partition_column_is_one_key_with_null(
    dbt: Dbt, new_project: NewProject, spark: Any, schema: str
) -> None:
    first = "(cast(null as string), 1), ('x', 2)"
    rows = f"select * from values {{% if is_incremental() %}} ('', 5) {{% else %}} {first}"
    rows += " {% endif %} as (word, amount)"
    merge = {"incremental_strategy": "merge", "unique_key": "word", "partition_by": "word"}
    snapshot = (
        "{% snapshot words %}{{ config(unique_key='id', strategy='check', check_cols='all', "
        "partition_by='word') }}"
        "select 1 as id, cast('' as string) as word{% endsnapshot %}"
    )
    project = new_project(
        {
            "models/merged.sql": model(rows, **merge),
            "models/deleted.sql": model(rows, **merge, delete_condition="true"),
            "models/kept.sql": model(rows, **merge, skip_matched_step=True),
            "snapshots/words.sql": snapshot,
        }
    )
    for _ in range(2):
        dbt("build", project_dir=project, schema=schema)
    found = {
        name: sorted(map(tuple, spark.table(f"{schema}.{name}").collect()), key=str)
        for name in ("merged", "deleted", "kept")
    }
    assert found == {
        "merged": [("x", 2), (None, 5)],
        "deleted": [("x", 2)],
        "kept": [("x", 2), (None, 1)],
    }
    assert spark.table(f"{schema}.words").count() == 1


@pytest.mark.slow
def test_hooks_outside_of_a_transaction_run(
    dbt: Dbt, new_project: NewProject, spark: Any, schema: str
) -> None:
    spark.sql(f"create schema {schema}")
    spark.sql(f"create table {schema}.log (node string, hook string) using delta")
    insert = f"insert into {schema}.log values ('{{{{ this.name }}}}', '%s')"
    hooks = {
        when: [insert % f"{when} in", {"sql": insert % f"{when} out", "transaction": False}]
        for when in ("pre_hook", "post_hook")
    }
    config = f"{{{{ config(**{hooks!r}) }}}}"
    kinds: dict[str, dict[str, Any]] = {
        "a_table": {"materialized": "table"},
        "a_view": {"materialized": "view"},
        "merged": {"incremental_strategy": "append"},
        "followed": AUTO,
    }
    settings = {"unique_key": "id", "strategy": "check", "check_cols": "all"}
    files = {f"models/{name}.sql": model("select 1 as id", **kind) for name, kind in kinds.items()}
    files = {name: config + text for name, text in files.items()}
    files["snapshots/kept.sql"] = (
        f"{{% snapshot kept %}}{{{{ config(**{settings!r}) }}}}{config}"
        "select 1 as id{% endsnapshot %}"
    )
    files["seeds/sown.csv"] = "id\n1\n"
    files["seeds/all.yml"] = json.dumps({"seeds": [{"name": "sown", "config": hooks}]})
    dbt("build", "--threads", "1", project_dir=new_project(files), schema=schema)
    found = spark.sql(f"select node, collect_list(hook) from {schema}.log group by node").collect()
    order = ["post_hook in", "post_hook out", "pre_hook in", "pre_hook out"]
    assert {node: sorted(ran) for node, ran in found} == dict.fromkeys(
        [*kinds, "kept", "sown"], order
    )
