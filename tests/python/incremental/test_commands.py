"""Test dbt's commands and ours over models of `auto`, and over names that are keywords."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import run_command

Dbt = Callable[..., Any]
NewProject = Callable[[dict[str, str]], Path]
pytestmark = pytest.mark.slow

PROJECT = """
name: words
version: 0.1.0
profile: headwaters
models:
  words:
    +materialized: incremental
    +incremental_strategy: auto
    +persist_docs: {relation: true, columns: true}
"""
AT = "timestamp'2026-01-0%d'"
FEED = "tblproperties ('delta.enableChangeDataFeed' = 'true')"


def messages(ran: Any) -> dict[str, str]:
    """Return the messages of a command's nodes by name."""
    return {one.node.name: str(one.message) for one in ran.result.results}


ORDERS = "{{ config(materialized='table', event_time='at') }}\nselect * from values %s"
ORDERS += " as (id, customer, amount, at)"
FIRST = f"(1, 'ann', 10, {AT % 1}), (2, 'bob', 20, {AT % 2}), (3, 'ann', 30, {AT % 2})"
TOTALS = "select customer, count(*) as n, sum(amount) as amount from {{ ref('%s') }} group by 1"
DEFERRED = {
    "models/orders.sql": ORDERS % FIRST,
    "models/seen.sql": "{{ config(materialized='view') }}\nselect * from {{ ref('orders') }}",
    "models/totals.sql": TOTALS % "orders",
    "models/through_view.sql": TOTALS % "seen",
    "dbt_project.yml": PROJECT,
}
FOLLOWING = ["totals", "through_view"]


def test_defer_empty_and_sample_do_with_auto_as_dbt_documents(
    dbt: Dbt, new_project: NewProject, spark: Any, schema: str, tmp_path: Path
) -> None:
    project = new_project(DEFERRED)
    state = tmp_path / "state"

    def run(*arguments: str, to: str, command: str = "run", **more: Any) -> Any:
        where: dict[str, Any] = {"project_dir": project, "schema": f"{schema}_{to}"}
        return dbt(command, *arguments, **where, **more)

    def rows(to: str) -> list[tuple[Any, ...]]:
        first, second = (
            sorted(map(tuple, spark.table(f"{schema}_{to}.{name}").collect())) for name in FOLLOWING
        )
        assert first == second
        return first

    def tables(to: str) -> set[str]:
        return {row["tableName"] for row in spark.sql(f"show tables in {schema}_{to}").collect()}

    run(to="prod", artifacts=True)
    (tmp_path / "target").rename(state)
    right = [("ann", 2, 40), ("bob", 1, 20)]
    assert rows("prod") == right

    # the inputs are production's, and the runs after it follow them
    deferred = ("--select", *FOLLOWING, "--defer", "--state", str(state))
    run(*deferred, to="dev")
    assert (rows("dev"), tables("dev")) == (right, set(FOLLOWING))
    (project / "models/orders.sql").write_text(ORDERS % f"{FIRST}, (4, 'cyd', 5, {AT % 3})")
    run("--select", "orders", to="prod")
    run(*deferred, to="dev")
    more = [*right, ("cyd", 1, 5)]
    assert (rows("dev"), tables("dev")) == (more, set(FOLLOWING))
    assert set(messages(run(*deferred, to="dev")).values()) == {"no changes"}
    asked = run(
        "explain_refresh",
        "--args",
        "{model: totals}",
        to="dev",
        command="run-operation",
        expect=None,
    )
    print("ASKED", asked.success, asked.messages)

    # a table of the developer comes before production's, unless the state is favoured
    (project / "models/orders.sql").write_text(ORDERS % f"(9, 'dan', 1, {AT % 1})")
    run("--select", "orders", "seen", to="dev")
    run(*deferred, to="dev")
    assert rows("dev") == [("dan", 1, 1)]
    run(*deferred, "--favor-state", to="dev")
    assert rows("dev") == more

    # new tables without rows, and then with all of them
    (project / "models/orders.sql").write_text(ORDERS % FIRST)
    run("--empty", to="empty")
    assert rows("empty") == []
    run(to="empty")
    assert rows("empty") == right

    # --sample filters by the event time of `orders`; `seen` declares none
    period = "{'start': '2026-01-02', 'end': '2026-01-03'}"
    run("--sample", period, to="sample")
    assert rows("sample") == [("ann", 1, 30), ("bob", 1, 20)]
    run(to="sample")
    assert rows("sample") == right

    # a retry goes on with the deferred tables
    (project / "models/totals.sql").write_text(TOTALS % "orders" + "\nhaving assert_true(false)")
    run(*deferred, to="retry", expect=False, artifacts=True)
    (project / "models/totals.sql").write_text(TOTALS % "orders")
    run(to="retry", command="retry")
    assert (rows("retry"), tables("retry")) == (more, set(FOLLOWING))


GRANTS = "{words: {+grants: {select: [reader]}}}"
WORDS = {
    "dbt_project.yml": f"{PROJECT}seeds: {GRANTS}\nsnapshots: {GRANTS}\n",
    "seeds/where.csv": "customer,kind\nann,new\nbob,old\n",
    "models/raw.yml": "sources: [{name: raw, schema: from, tables: [{name: table}]}]\n",
    "models/group.sql": "select customer, count(*) as n, sum(amount) as amount"
    " from {{ source('raw', 'table') }} group by customer",
    "models/order.sql": "select sold.id, kinds.kind from {{ source('raw', 'table') }} as sold"
    " left join {{ ref('where') }} as kinds on sold.customer = kinds.customer",
    "models/limit.sql": "{{ config(materialized='view') }}\nselect * from {{ ref('group') }}",
    "models/having.sql": "select kinds.kind, sum(seen.amount) as amount from {{ ref('limit') }}"
    " as seen join {{ ref('where') }} as kinds on seen.customer = kinds.customer group by 1",
    "models/table.sql": "{{ config(materialized='table') }}\nselect * from {{ ref('order') }}",
    "models/join.sql": "{{ config(incremental_strategy='merge', unique_key='id') }}\n"
    "select id, kind from {{ ref('order') }}",
    "models/all.yml": """
models:
  - name: group
    config: {persist_docs: {columns: true}}
    data_tests: [equals_full_refresh]
    columns: [{name: n, description: Orders.}]
  - {name: order, data_tests: [equals_full_refresh]}
  - {name: having, data_tests: [equals_full_refresh]}
unit_tests:
  - name: sums
    model: group
    given: [{input: "source('raw', 'table')", rows: [{id: 1, customer: ann, amount: 2}]}]
    expect: {rows: [{customer: ann, n: 1, amount: 2}]}
""",
    "snapshots/values.yml": """
snapshots:
  - name: values
    relation: ref('group')
    config: {unique_key: customer, strategy: check, check_cols: all}
""",
}
# what the tables have at first, and after a change
OF_WORDS = {
    "select * from `select`.`group`": (
        [("ann", 2, 40), ("bob", 1, 20)],
        [("ann", 2, 31), ("cyd", 1, 5)],
    ),
    "select * from `select`.`having`": ([("new", 40), ("old", 20)], [("new", 31)]),
    "select * from `select`.`table`": (
        [(1, "new"), (2, "old"), (3, "new")],
        [(1, "new"), (3, "new"), (4, None)],
    ),
    "select * from `select`.`join`": (
        [(1, "new"), (2, "old"), (3, "new")],
        [(1, "new"), (2, "old"), (3, "new"), (4, None)],
    ),
    "select customer, n, amount, dbt_valid_to is null from `select`.`values`": (
        [("ann", 2, 40, True), ("bob", 1, 20, True)],
        [("ann", 2, 31, True), ("ann", 2, 40, False), ("bob", 1, 20, True), ("cyd", 1, 5, True)],
    ),
}
OPERATIONS: dict[str, dict[str, Any]] = {
    "explain_refresh": {"model": "group"},
    "plan_tables": {},
    "apply_tables": {"reason": "test", "dry_run": False},
    "maintain": {"reason": "test", "dry_run": False},
    "backup": {"table": "select.group", "reason": "test", "dry_run": False},
    "list_backups": {},
    "restore": {"table": "select.group", "version": 1, "reason": "test", "dry_run": False},
    "rebuild": {"model": "group", "reason": "test", "dry_run": False},
    "replace_where": {
        "model": "group",
        "predicate": "customer = 'ann'",
        "reason": "test",
        "dry_run": False,
    },
    "drop": {"table": "select.join", "reason": "test", "dry_run": False},
    "expire_backups": {"reason": "test", "dry_run": False},
}
COMMANDS = (
    ["explain"],
    ["lineage", "having.amount"],
    ["report"],
    ["sql", "select count(*) from `select`.`group`"],
)
SCHEMAS = ("select", "from", "table", "select_ops", "table_ops")


@pytest.fixture
def words(spark: Any) -> Iterator[None]:
    """Make the source of the keywords, and drop all their schemas afterwards."""
    spark.sql("create schema `from`")
    columns = "(id int, customer string, amount int)"
    spark.sql(f"create table `from`.`table` {columns} using delta {FEED}")
    spark.sql("insert into `from`.`table` values (1, 'ann', 10), (2, 'bob', 20), (3, 'ann', 30)")
    yield
    for name in SCHEMAS:
        spark.sql(f"drop schema if exists `{name}` cascade")


def test_every_command_takes_a_schema_and_tables_named_by_keywords(
    dbt: Dbt, new_project: NewProject, spark: Any, words: None, tmp_path: Path
) -> None:
    project = new_project(WORDS)

    def run(*arguments: str, schema: str = "select", **more: Any) -> Any:
        return dbt(*arguments, project_dir=project, schema=schema, **more)

    def rows() -> dict[str, list[tuple[Any, ...]]]:
        return {sql: sorted(map(tuple, spark.sql(sql).collect()), key=str) for sql in OF_WORDS}

    warnings = run("build").messages
    assert sum("HW_NO_GRANTS" in text for text in warnings) == 1  # of a seed and a snapshot
    assert rows() == {sql: first for sql, (first, _) in OF_WORDS.items()}
    spark.sql("delete from `from`.`table` where id = 2")
    spark.sql("update `from`.`table` set amount = 1 where id = 1")
    spark.sql("insert into `from`.`table` values (4, 'cyd', 5)")
    said = messages(run("build", artifacts=True))
    after = {sql: sorted(second, key=str) for sql, (_, second) in OF_WORDS.items()}
    assert rows() == after
    followed = {name: said[name].partition(":")[0] for name in ("group", "order", "having")}
    assert followed == dict.fromkeys(followed, "merge")
    state = tmp_path / "state"
    (tmp_path / "target").rename(state)

    run("docs", "generate", artifacts=True)
    catalog = json.loads((tmp_path / "target" / "catalog.json").read_text())
    described = {one["metadata"]["name"]: one for one in catalog["nodes"].values()}
    tables = {"where", "group", "order", "having", "table", "join", "values"}
    assert described.keys() == {*tables, "limit"}  # which is a view
    assert {n for n, one in described.items() if one["stats"]["has_stats"]["value"]} == tables
    assert described["group"]["columns"]["n"]["comment"] == "Orders."
    assert list(catalog["sources"]) == ["source.words.raw.table"]
    for command in ("compile", "show"):
        run(command, "--select", "having")
    run("clone", "--state", str(state), schema="table")
    cloned = spark.sql("select * from `table`.`group` order by all").collect()
    assert [tuple(row) for row in cloned] == after["select * from `select`.`group`"]
    assert set(messages(run("run", "--select", "group", schema="table")).values()) == {"no changes"}
    deferred = ("--select", "having", "--defer", "--state", str(state))
    run("run", "--full-refresh", *deferred, schema="table")

    spark.sql("drop schema `table` cascade")  # `drop` refuses a table with a shallow clone
    for name, arguments in OPERATIONS.items():
        run("run-operation", name, "--args", json.dumps(arguments))
    run("run", "--select", "group")
    run("run", "--full-refresh")
    joined = "select * from `select`.`join`"
    assert rows() == {**after, joined: after["select * from `select`.`table`"]}
    places = {"DBT_TARGET_PATH": str(tmp_path / "target"), "DBT_LOG_PATH": str(tmp_path / "logs")}
    for words_of in COMMANDS:
        ran = run_command(
            "headwaters",
            [*words_of, "--target", "engine"],
            {**os.environ, **places, "HEADWATERS_SCHEMA": "select", "DBT_PROFILES_DIR": "profiles"},
            project,
        )
        assert ran.returncode == 0, (words_of, ran.stdout + ran.stderr)
