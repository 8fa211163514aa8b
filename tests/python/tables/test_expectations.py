"""Test that expectations check rows before the write: they warn, drop or fail."""

from __future__ import annotations

import pytest

from tables.conftest import Orders

RULES = """
models:
  - name: silver_orders
    config:
      meta:
        expectations:
          - {name: small, expression: "amount < 1000 or day is null -- or"}
          - {name: known, expression: "customer is not null or false -- or", on_failure: drop}
          - {name: sold, expression: amount >= 0, on_failure: fail}
"""
SILVER = "select id, customer, amount from {silver} order by id"


@pytest.mark.slow
def test_rows_are_counted_kept_out_or_stop_the_run(unbuilt: Orders) -> None:
    orders = unbuilt
    orders.write("models/silver/silver_orders.yml", RULES)
    orders.sql("delete from {bronze} where id > 2")
    orders.sql("insert into {bronze} values (3, null, date'2026-01-02', 5000)")
    said = orders.answers(orders.dbt("run"))["silver_orders"]
    assert said.startswith("replace: 2 rows, ")
    assert said.endswith("; known: 1 of 3 rows (drop)")
    assert orders.sql(SILVER) == [(1, "ann", 10), (2, "bob", 20)]
    assert orders.sql("select expectations, record from {silver}_quarantine") == [
        (["known"], '{"id":3,"day":"2026-01-02","amount":5000}')
    ]

    # a row that breaks an expectation leaves the table, and returns when it meets it again
    orders.sql("update {bronze} set customer = null where id = 1")
    orders.sql("update {bronze} set customer = 'cyd' where id = 3")
    said = orders.answers(orders.dbt("run"))["silver_orders"]
    assert said.startswith("merge: 1 inserted, 0 updated, 1 deleted")
    assert said.endswith("; small: 1 of 1 rows (warn); known: 1 of 2 rows (drop)")
    assert orders.sql(SILVER) == [(2, "bob", 20), (3, "cyd", 5000)]
    assert "nothing to do" in orders.operation("rebuild", model="silver_orders")

    # a failing batch never reaches the table, and the next one continues from there
    orders.sql("insert into {bronze} values (4, 'dan', date'2026-01-03', -1)")
    result = orders.dbt("run", "--select", "silver_orders", expect=False)
    said = orders.answers(result)["silver_orders"]
    assert "does not meet sold (amount >= 0): 1 of 1 rows. The table was left as it is" in said
    assert orders.sql(SILVER) == [(2, "bob", 20), (3, "cyd", 5000)]
    said = orders.operation("rebuild", expect=False, model="silver_orders")
    assert "does not meet sold (amount >= 0): 1 rows. Nothing was changed" in said
    orders.sql("update {bronze} set amount = 1 where id = 4")
    orders.dbt("run")
    assert orders.sql(SILVER) == [(2, "bob", 20), (3, "cyd", 5000), (4, "dan", 1)]
    assert orders.sql("select customer, amount from {gold} order by customer") == [
        ("bob", 20),
        ("cyd", 5000),
        ("dan", 1),
    ]
    assert orders.sql(
        "select expectation, sum(rows_asked), sum(rows_broken) from {schema}_ops.expectations"
        " group by 1 order by 1"
    ) == [("known", 7, 2), ("small", 5, 1), ("sold", 5, 1)]
    tables = [row[1] for row in orders.sql("show tables in {schema}_silver")]
    assert sorted(tables) == ["silver_orders", "silver_orders_quarantine"]
