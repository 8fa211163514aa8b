"""A person is forgotten in every table and every file, and there is a proof."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tables.conftest import PERSON, PERSONAL, Orders

ANN: dict[str, Any] = {"subject": {"customer": "ann"}}


# A stock strategy does not follow deletions; a source is partitioned by persons; one has an orphan.
MORE = {
    "models/gold/visitors.sql": """
{{ config(incremental_strategy='append') }} select customer from {{ ref('silver_orders') }}
""",
    "models/gold/visitors.yml": f"""
models: [{{name: visitors, columns: [{{name: customer, {PERSON}}}]}}]
""",
    "models/bronze/visits.yml": f"""
sources:
  - name: more
    schema: "{{{{ target.schema }}}}_bronze"
    tables:
      - {{name: kept, columns: [{{name: customer, {PERSON}}}]}}
      - {{name: visits, columns: [{{name: customer, {PERSON}}}]}}
""",
}
ORPHAN = "part-of-a-killed-write.parquet"


@pytest.mark.slow
def test_a_person_is_erased_from_rows_and_files(orders: Orders) -> None:
    for path, text in {**PERSONAL, **MORE}.items():
        if path != "models/gold/customer_totals.yml":
            orders.write(path, text)
    # the table has the column, whatever its YAML leaves out
    said = orders.operation("erase", expect=False, **ANN)
    assert "customer_totals.customer has the name of a column with personal data" in said
    orders.write(path := "models/gold/customer_totals.yml", PERSONAL[path])

    orders.sql(
        "create table {bronze}_quarantine using delta as select 'type' as reason,"
        """ cast(record as binary) as record from values ('{"customer": "ann", "id": "x"}'),"""
        """ ('{"customer": "anna"}') as records(record)"""
    )
    orders.sql(
        """create table {silver}_quarantine using delta as select '{"customer":"ann"}' as record"""
    )
    orders.sql(
        "create table {schema}_bronze.visits using delta partitioned by (customer) as"
        " select * from values (1, 'ann'), (2, 'bob') as visits(id, customer)"
    )
    orders.sql("create table {schema}_bronze.kept using delta as select 'bob' as customer")
    shutil.copy(files(orders, orders.bronze)[0], folder(orders, "{schema}_bronze.kept") / ORPHAN)
    aside = "{schema}_gold.old__dropped_20260101000000"
    notes = {"of": f"{orders.schema}_gold.old", "version": 1, "expires": "2099", "reason": "x"}
    listed = ", ".join(f"'headwaters.backup.{name}' = '{value}'" for name, value in notes.items())
    orders.sql(
        f"create table {aside} using delta tblproperties ({listed}) as select 'ann' customer"
    )
    orders.sql("update {bronze} set amount = 11 where id = 1")
    orders.dbt("run")
    orders.operation("backup", table="silver_orders", reason="before", dry_run=False)
    copy = f"silver_orders_version_{orders.version(orders.silver)}"

    before = orders.versions()
    dry = orders.operation("erase", **ANN).splitlines()
    assert dry[1:] == [
        "    bronze.kept: 0 rows",
        "  - bronze.orders: 2 rows",
        "  - bronze.orders_quarantine: 1 rows",
        "  - bronze.visits: 1 rows",
        "  - gold.customer_totals: 1 rows (follows its inputs: dbt run)",
        "  - gold.old__dropped_20260101000000: 1 rows",
        "  - gold.visitors: 2 rows",
        "  - silver.silver_orders: 2 rows (follows its inputs: dbt run)",
        "  - silver.silver_orders_quarantine: 1 rows",
        f"  - silver.{copy}: 2 rows",
        "erase: a dry run, nothing was changed; dry_run: false and a reason delete the rows of"
        " bronze.orders, bronze.orders_quarantine, bronze.visits, gold.old__dropped_20260101000000,"
        f" gold.visitors, silver.silver_orders_quarantine, silver.{copy}",
    ]
    assert "say why" in orders.operation("erase", expect=False, dry_run=False, **ANN)
    # what nobody has is a typing error, and no reason to rewrite and vacuum
    wrong = {"subject": {"customer": "an"}, "reason": "x", "dry_run": False}
    said = orders.operation("erase", expect=False, **wrong)
    assert "no table has this customer, in no row and in no file; nothing was changed" in said
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
    with keeping_nothing(orders, f"{{schema}}_silver.{copy}", aside):
        proof = orders.operation("erase", **done).splitlines()
    assert proof[-1] == "erase: proven: no row and no file has the value"
    looked = [line for line in proof if "looked into" in line]
    assert len(looked) == 10
    assert all(line.endswith("looked into, the value is in none") for line in looked)
    assert orders.sql(
        "select count(*), sum(files_left), count_if(files > 0) > 3 from {schema}_ops.erasures"
        " where invocation_id = (select max_by(invocation_id, at) from {schema}_ops.erasures)"
    ) == [(10, 0, True)]
    assert ORPHAN not in {file.name for file in files(orders, "{schema}_bronze.kept")}
    assert not (folder(orders, "{schema}_bronze.visits") / "customer=ann").exists()

    # the value itself is in no record and in no commit's predicate
    told = "select count(*) from {ops} where concat_ws(' ', arguments, undo, reason) like '%ann%'"
    assert orders.sql(told) == [(0,)]
    history = orders.spark.sql(f"describe history {orders.bronze}").collect()
    assert not any("'ann'" in str(commit["operationParameters"]) for commit in history)


@contextmanager
def keeping_nothing(orders: Orders, *copies: str) -> Iterator[None]:
    """Every table for a moment as if the time that it keeps its files for were over."""
    tables = [orders.bronze, f"{orders.bronze}_quarantine", orders.silver, orders.gold]
    tables += ["{silver}_quarantine", "{schema}_gold.visitors", "{schema}_bronze.visits"]
    tables += ["{schema}_bronze.kept", *copies]
    name = "'delta.deletedFileRetentionDuration'"
    for table in tables:
        orders.sql(f"alter table {table} set tblproperties ({name} = 'interval 0 hours')")
    try:
        yield
    finally:
        for table in tables:
            orders.sql(f"alter table {table} unset tblproperties ({name})")


def folder(orders: Orders, table: str) -> Path:
    """Where a table's files are."""
    return Path(str(orders.sql(f"describe detail {table}")[0][4]).removeprefix("file:"))


def files(orders: Orders, table: str) -> list[Path]:
    """The data files that lie there."""
    return sorted(folder(orders, table).glob("*.parquet"))


@pytest.mark.slow
def test_a_copy_that_says_nothing_of_itself_stops_the_erasure(unbuilt: Orders) -> None:
    for path, text in PERSONAL.items():
        gold = path.startswith("models/gold")
        unbuilt.write(path, text.replace(f", {PERSON}", "") if gold else text)
    said = unbuilt.operation("erase", expect=False, **ANN)
    assert "customer_totals.customer has the name of a column with personal data" in said
    said = unbuilt.operation("erase", expect=False, subject={"shoe size": 42})
    assert "is no kind of personal data and no column of one" in said
    assert "Columns declare theirs in meta.pii: customer." in said
    said = unbuilt.operation("erase", expect=False, subject={"customer": 7})
    assert "the value of customer is not a text: without quotes YAML makes 7 of 007" in said
    said = unbuilt.operation("erase", expect=False, subject={"customer": ""})
    assert "subject must name one column or kind and its value" in said
