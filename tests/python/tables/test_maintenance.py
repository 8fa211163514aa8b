"""Maintenance does what pays, keeps what others need, and changes no row."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tables.conftest import SMALL_FILES, Orders

STREAM = """
sources:
  - name: streams
    schema: "{{{{ target.schema }}}}_streams"
    tables:
      - name: copies
        config: {{meta: {{stream: {{from: delta, path: warehouse/{folder}/silver_orders}}}}}}
"""


@pytest.mark.slow
def test_vacuum_keeps_what_others_need(shared: Orders) -> None:
    orders = shared
    orders.sql("update {bronze} set amount = amount + 1")
    orders.dbt("run")
    orders.sql("optimize {silver}")

    # gold has not read this one yet, and a clone stands on the version before
    held = orders.version(orders.silver)
    orders.operation("backup", table="silver_orders", reason="to compare", shallow=True)
    copy = f"{orders.silver}_version_{held}"
    orders.sql("update {bronze} set amount = 100 where id = 1")
    orders.dbt("run", "--select", "silver_orders")
    with keeping_nothing(orders):
        printed = orders.operation("maintain", select="silver", dry_run=False)
        assert f" are kept: the shallow clone silver.silver_orders_version_{held}" in printed
        orders.sql("refresh table " + copy)
        amounts = [row[3] for row in orders.sql(f"select * from {copy} order by id")]
        assert amounts == [11, 21, 31, 41, 51]
        orders.sql(f"drop table {copy}")
        printed = orders.operation("maintain", select="silver", dry_run=False)
        assert " are kept: gold.customer_totals has read up to version " in printed
        # a stream that reads silver says in its checkpoint how far it is
        orders.write("models/bronze/copies.yml", STREAM.format(folder=f"{orders.schema}_silver.db"))
        offsets = Path(os.environ["HEADWATERS_LAKE"]) / "checkpoints/copies/offsets"
        offsets.mkdir(parents=True)
        (offsets / "0").write_text('v1\n{}\n{"sourceVersion":1,"reservoirVersion":1,"index":-1}\n')
        printed = orders.operation("maintain", select="silver")
        assert " are kept: the stream copies has read up to version 0" in printed
        shutil.rmtree(offsets.parent)

    # nobody needs them any more
    said = orders.answers(orders.dbt("run"))["customer_totals"]
    assert said.startswith("merge: 0 inserted, 1 updated, 0 deleted")
    files = data_files(orders, orders.silver)
    with keeping_nothing(orders):
        printed = orders.operation("maintain", select="silver", dry_run=False)
        assert "silver.silver_orders: vacuum\n" in printed
        assert len(data_files(orders, orders.silver)) < len(files)
        again = orders.operation("maintain", select="silver", dry_run=False)
        assert again.endswith("1 tables, nothing to do")
    assert orders.sql("select customer, orders, amount from {gold} order by customer") == [
        ("ann", 2, 131),
        ("bob", 2, 72),
        ("cyd", 1, 41),
    ]


@contextmanager
def keeping_nothing(orders: Orders) -> Iterator[None]:
    """Silver for a moment as if the time that it keeps its files for were over."""
    name = "'delta.deletedFileRetentionDuration'"
    orders.sql(f"alter table {{silver}} set tblproperties ({name} = 'interval 0 hours')")
    try:
        yield
    finally:
        orders.sql(f"alter table {{silver}} unset tblproperties ({name})")


def test_a_write_does_not_fail_because_of_maintenance(shared: Orders) -> None:
    """A merge that began before an OPTIMIZE and ends after it is repeated."""
    orders = shared
    orders.sql("insert into {silver} values (6, 'dan', date'2026-01-05', 60)")
    slow = (
        f"merge into {orders.silver} as t using (select 1 as id, 11 as amount,"
        " java_method('java.lang.Thread', 'sleep', 4000L) as waited) as s on t.id = s.id"
        " when matched then update set amount = s.amount + length(coalesce(waited, ''))"
    )
    failed: list[BaseException] = []

    def merge() -> None:
        try:
            cursor().execute(slow)
        except BaseException as error:  # shown by the test
            failed.append(error)

    before = orders.version(orders.silver)
    thread = threading.Thread(target=merge)
    thread.start()
    time.sleep(1.5)
    orders.sql("optimize {silver}")
    assert orders.version(orders.silver) == before + 1
    thread.join()
    assert failed == []
    assert orders.sql("select min(amount) from {silver} where id = 1") != [(10,)]


@pytest.mark.slow
def test_it_does_what_pays_and_then_nothing(shared: Orders) -> None:
    orders = shared
    orders.write("models/bronze/orders.yml", SMALL_FILES)
    orders.sql("alter table {bronze} set tblproperties ('delta.enableDeletionVectors' = 'true')")
    orders.sql(
        "insert into {bronze} select /*+ repartition(12) */ cast(id + 10 as int), 'dan',"
        " date'2026-01-05', 1 from range(1200)"
    )
    orders.sql("delete from {bronze} where id % 2 = 0 and id > 9")
    rows = orders.sql("select * from {bronze} order by id")
    before, files = orders.versions(), data_files(orders, orders.bronze)

    plan = orders.operation("maintain").splitlines()
    assert plan[0].startswith(f"bronze.orders (version {before[orders.bronze]}: ")
    assert plan[0].endswith("605 rows, 600 marked as deleted)")
    assert plan[1] == "  purge: 50 % of its rows are only marked as deleted"
    assert plan[3].startswith("  compact: ")
    assert plan[-1] == "maintain: 3 tables, 1 to be maintained; dry_run: false does it"
    assert orders.versions() == before
    assert data_files(orders, orders.bronze) == files

    done = orders.operation("maintain", dry_run=False, reason="nightly").splitlines()
    assert any(
        line.startswith("  after:  ") and line.endswith("605 rows, 0 marked as deleted")
        for line in done
    )
    assert orders.spark.sql(f"describe detail {orders.bronze}").collect()[0]["numFiles"] < 6
    assert orders.sql("select * from {bronze} order by id") == rows
    after = orders.versions()
    assert orders.operation("maintain", dry_run=False) == "maintain: 3 tables, nothing to do"
    assert orders.versions() == after
    states = orders.sql(
        "select deleted_rows, row_count from {schema}_ops.table_state"
        " where table_name like '%_bronze.orders' order by version"
    )
    assert states == [(600, 605), (0, 605)]
    # what reads the table sees that no row changed
    orders.dbt("run")
    assert orders.answers(orders.dbt("run")) == {
        "silver_orders": "no changes",
        "customer_totals": "no changes",
    }


def cursor() -> Any:
    """What dbt runs its statements with."""
    from dbt.adapters.spark import session

    from headwaters import dbt_session

    dbt_session.install_cursor()
    return session.Cursor(server_side_parameters={"spark.remote": os.environ["HEADWATERS_ENGINE"]})


def data_files(orders: Orders, table: str) -> set[str]:
    """The data files that lie in a table's folder."""
    location = orders.spark.sql(f"describe detail {table}").collect()[0]["location"]
    folder = Path(location.removeprefix("file:"))
    return {str(path) for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts}
