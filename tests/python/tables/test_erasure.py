"""A person is forgotten in every table and every file, and there is a proof."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tables.conftest import Orders

PERSON = "config: {meta: {pii: customer}}"
DECLARED = {
    "models/bronze/orders.yml": f"""
sources:
  - name: bronze
    schema: "{{{{ target.schema }}}}_bronze"
    tables:
      - name: orders
        columns: [{{name: customer, {PERSON}}}]
""",
    "models/silver/silver_orders.yml": f"""
models: [{{name: silver_orders, columns: [{{name: customer, {PERSON}}}]}}]
""",
    "models/gold/customer_totals.yml": f"""
models: [{{name: customer_totals, columns: [{{name: customer, {PERSON}}}]}}]
""",
}
ANN: dict[str, Any] = {"subject": {"customer": "ann"}}


@pytest.mark.slow
def test_a_person_is_erased_from_rows_and_files(orders: Orders) -> None:
    for path, text in DECLARED.items():
        orders.write(path, text)
    orders.sql(
        "create table {bronze}_quarantine using delta as select 'type' as reason,"
        """ cast(record as binary) as record from values ('{"customer": "ann", "id": "x"}'),"""
        """ ('{"customer": "anna"}') as records(record)"""
    )
    orders.sql("update {bronze} set amount = 11 where id = 1")
    orders.dbt("run")
    orders.operation("backup", table="silver_orders", reason="before")
    copy = f"silver_orders_version_{orders.version(orders.silver)}"

    before = orders.versions()
    dry = orders.operation("erase", **ANN).splitlines()
    assert dry[1:] == [
        "  - bronze.orders: 2 rows",
        "  - bronze.orders_quarantine: 1 rows",
        "  - gold.customer_totals: 1 rows (follows its inputs: dbt run)",
        "  - silver.silver_orders: 2 rows (follows its inputs: dbt run)",
        f"  - silver.{copy}: 2 rows",
        "erase: a dry run, nothing was changed; dry_run: false and a reason delete the rows of"
        f" bronze.orders, bronze.orders_quarantine, silver.{copy}",
    ]
    assert "say why" in orders.operation("erase", expect=False, dry_run=False, **ANN)
    assert orders.versions() == before

    done = {**ANN, "reason": "asked on 2026-03-01", "dry_run": False}
    deleted = orders.operation("erase", **done)
    assert "now `dbt run`, then run erase again" in deleted
    assert "`dbt run` takes the deletion to gold.customer_totals, silver.silver_orders" in (
        orders.operation("erase", **done)
    )
    orders.dbt("run")
    assert orders.sql("select customer, orders, amount from {gold} order by customer") == [
        ("bob", 2, 70),
        ("cyd", 1, 40),
    ]

    # retention keeps the files of older versions, and the report says until when
    kept = orders.operation("erase", **done)
    assert "that older versions need until " in kept
    assert "run erase again after the dates above" in kept
    with keeping_nothing(orders, copy):
        proof = orders.operation("erase", **done).splitlines()
    assert proof[-1] == "erase: proven: no row and no file has the value"
    looked = [line for line in proof if "looked into" in line]
    assert len(looked) == 5
    assert all(line.endswith("looked into, the value is in none") for line in looked)
    assert orders.sql(
        "select count(*), sum(files_left), count_if(files > 0) > 3 from {schema}_ops.erasures"
        " where invocation_id = (select max_by(invocation_id, at) from {schema}_ops.erasures)"
    ) == [(5, 0, True)]

    # the value itself is in no record and in no commit's predicate
    told = "select count(*) from {ops} where concat_ws(' ', arguments, undo, reason) like '%ann%'"
    assert orders.sql(told) == [(0,)]
    history = orders.spark.sql(f"describe history {orders.bronze}").collect()
    assert not any("'ann'" in str(commit["operationParameters"]) for commit in history)


@contextmanager
def keeping_nothing(orders: Orders, copy: str) -> Iterator[None]:
    """Every table for a moment as if the time that it keeps its files for were over."""
    tables = [orders.bronze, f"{orders.bronze}_quarantine", orders.silver, orders.gold]
    tables.append(f"{orders.schema}_silver.{copy}")
    name = "'delta.deletedFileRetentionDuration'"
    for table in tables:
        orders.sql(f"alter table {table} set tblproperties ({name} = 'interval 0 hours')")
    try:
        yield
    finally:
        for table in tables:
            orders.sql(f"alter table {table} unset tblproperties ({name})")


def test_a_copy_that_says_nothing_of_itself_stops_the_erasure(unbuilt: Orders) -> None:
    for path, text in DECLARED.items():
        gold = path.startswith("models/gold")
        unbuilt.write(path, text.replace(f", {PERSON}", "") if gold else text)
    said = unbuilt.operation("erase", expect=False, **ANN)
    assert "customer_totals.customer has the name of a column with personal data" in said
    said = unbuilt.operation("erase", expect=False, subject={"shoe size": 42})
    assert "is no kind of personal data and no column of one" in said
    assert "Columns declare theirs in meta.pii: customer." in said
    said = unbuilt.operation("erase", expect=False, subject={"customer": ""})
    assert "subject must name one column or kind and its value" in said
