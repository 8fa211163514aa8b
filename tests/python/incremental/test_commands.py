"""Test dbt's commands over models of `auto`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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
