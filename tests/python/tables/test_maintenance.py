"""Test that maintenance does the work that pays, keeps files in use, and changes no row."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tables.conftest import FILES, SMALL_FILES, Orders

STREAM = """
sources:
  - name: streams
    schema: "{{{{ target.schema }}}}_streams"
    tables:
      - name: copies
        config: {{meta: {{stream: {{from: delta, path: warehouse/{folder}/silver_orders}}}}}}
"""


@pytest.mark.slow
def test_a_table_is_not_vacuumed_while_others_need_its_files(shared: Orders) -> None:
    orders = shared
    orders.sql("update {bronze} set amount = amount + 1")
    orders.dbt("run")
    orders.sql("optimize {silver}")

    # clones use this version: one of ours, one by path elsewhere, one whose log lost its origin
    held = orders.version(orders.silver)
    arguments: dict[str, Any] = {"table": "silver_orders", "reason": "to compare", "shallow": True}
    orders.operation("backup", dry_run=False, **arguments)
    copy = f"{orders.silver}_version_{held}"
    location = orders.spark.sql(f"describe detail {orders.silver}").collect()[0]["location"]
    orders.sql("create schema {schema}_of_somebody")
    orders.sql("create table {schema}_of_somebody.a shallow clone delta.`" + location + "`")
    note = f"'headwaters.clone' = '{orders.silver},{held}'"
    orders.sql(f"create table {{schema}}_of_somebody.b (id int) using delta tblproperties ({note})")
    assert orders.sql(f"show tblproperties {copy} ('headwaters.clone')")[0][1] == (
        f"{orders.silver},{held}"
    )
    # and gold has not read the next commits
    orders.sql("update {bronze} set amount = 100 where id = 1")
    orders.dbt("run", "--select", "silver_orders")
    files = data_files(orders, orders.silver)
    with keeping_nothing(orders):
        clones = [
            f"the shallow clone {name} stands on version {held}"
            for name in (f"silver.silver_orders_version_{held}", "of_somebody.a", "of_somebody.b")
        ]
        said = maintained(orders)
        assert "silver.silver_orders: not vacuumed: gold.customer_totals has read up to " in said
        assert all(clone in said for clone in clones)
        assert data_files(orders, orders.silver) == files
        orders.sql("refresh table " + copy)
        amounts = [row[3] for row in orders.sql(f"select * from {copy} order by id")]
        assert amounts == [11, 21, 31, 41, 51]
        orders.sql(f"drop table {copy}")
        orders.sql("drop schema {schema}_of_somebody cascade")
        assert "stands on version" not in maintained(orders)
        # a stream's checkpoint has its position: planned files are not read yet
        orders.write("models/bronze/copies.yml", STREAM.format(folder=f"{orders.schema}_silver.db"))
        checkpoint = Path(os.environ["HEADWATERS_LAKE"]) / "checkpoints/copies"
        for folder in ("offsets", "commits"):
            (checkpoint / folder).mkdir(parents=True)
        for batch, version in enumerate((1, held + 9)):
            end = f'{{"reservoirVersion":{version},"index":-1,"isStartingVersion":false}}'
            (checkpoint / f"offsets/{batch}").write_text(f"v1\n{{}}\n{end}\n")
        (checkpoint / "commits/0").write_text("v1\n{}\n")
        assert "; the stream copies has read up to version 0" in maintained(orders)
        shutil.rmtree(checkpoint)
        said = orders.operation(
            "drop", expect=False, table="silver_orders", reason="x", dry_run=False
        )
        assert "the stream copies, which reads it" in said
    (orders.folder / "models/bronze/copies.yml").unlink()
    orders.write("models/bronze/orders.yml", FILES["models/bronze/orders.yml"])

    # no reader needs them any more; a VACUUM killed at its start has removed nothing
    said = orders.answers(orders.dbt("run"))["customer_totals"]
    assert said.startswith("merge: 0 inserted, 1 updated, 0 deleted")
    with keeping_nothing(orders):
        begin_vacuum(orders)
        printed = maintained(orders)
        assert "silver.silver_orders: vacuum\n" in printed
        assert "Versions of silver.silver_orders that needed the vacuumed files" in printed
        assert len(data_files(orders, orders.silver)) < len(files)
        assert maintained(orders).endswith("1 tables, nothing to do")
        said = orders.operation("restore", expect=False, table="silver_orders", version=held - 1)
        assert f"files of version {held - 1} of `silver`.`silver_orders` were vacuumed" in said
        # LITE would fail on a log that does not start at version 0
        orders.sql("alter table {silver} set tblproperties ('delta.checkpointInterval' = '1')")
        orders.sql("update {bronze} set amount = amount + 1")
        orders.dbt("run")
        orders.sql("vacuum {silver}")
        orders.sql("optimize {silver}")
        orders.sql("update {bronze} set amount = amount - 1")
        orders.dbt("run")
        log = Path(location.removeprefix("file:")) / "_delta_log"
        (log / f"{0:020}.json").unlink()
        assert "\n    vacuum `silver`.`silver_orders`\n" in orders.operation(
            "maintain", select="silver"
        )
        maintained(orders)
        assert maintained(orders).endswith("1 tables, nothing to do")
    assert orders.sql("select customer, orders, amount from {gold} order by customer") == [
        ("ann", 2, 131),
        ("bob", 2, 72),
        ("cyd", 1, 41),
    ]


def maintained(orders: Orders) -> str:
    """Return the messages of maintenance of silver."""
    return orders.operation("maintain", select="silver", dry_run=False, reason="nightly")


def begin_vacuum(orders: Orders) -> None:
    """Write the first commit of a VACUUM of silver."""
    location = orders.spark.sql(f"describe detail {orders.silver}").collect()[0]["location"]
    log = Path(location.removeprefix("file:")) / "_delta_log"
    commit = {
        "timestamp": int(time.time() * 1000),
        "operation": "VACUUM START",
        "operationParameters": {"retentionCheckEnabled": "true", "defaultRetentionMillis": "0"},
        "isBlindAppend": True,
    }
    version = orders.version(orders.silver) + 1
    (log / f"{version:020}.json").write_text(json.dumps({"commitInfo": commit}) + "\n")


@contextmanager
def keeping_nothing(orders: Orders) -> Iterator[None]:
    """Expire the retained files of silver for a moment."""
    name = "'delta.deletedFileRetentionDuration'"
    orders.sql(f"alter table {{silver}} set tblproperties ({name} = 'interval 0 hours')")
    try:
        yield
    finally:
        orders.sql(f"alter table {{silver}} unset tblproperties ({name})")


@pytest.mark.slow
def test_a_write_does_not_fail_because_of_maintenance(shared: Orders) -> None:
    """Run a merge that begins before an OPTIMIZE and ends after it: it is repeated."""
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
def test_writes_and_maintenance_side_by_side_for_minutes(orders: Orders) -> None:
    """Send merges as dbt does, without a pause, while maintenance works."""
    orders.write("models/bronze/orders.yml", SMALL_FILES)
    orders.sql("alter table {bronze} set tblproperties ('delta.enableDeletionVectors' = 'true')")
    failed: list[BaseException] = []
    written, ended = [0], threading.Event()

    def write() -> None:
        writer = cursor()
        while not ended.is_set() and not failed:
            number = written[0] + 1
            try:
                writer.execute(
                    f"merge into {orders.bronze} as t using (select 10 + {number} as id,"
                    f" 1 as amount union all select 1 + {number} % 5, {number}) as s on t.id = s.id"
                    " when matched then update set amount = s.amount when not matched then"
                    " insert (id, customer, day, amount) values (s.id, 'x', null, s.amount)"
                )
            except BaseException as error:  # shown by the test
                failed.append(error)
            else:
                written[0] = number

    thread = threading.Thread(target=write)
    thread.start()
    try:
        until = time.monotonic() + 120
        while time.monotonic() < until:
            orders.operation("maintain", dry_run=False, reason="while others write")
    finally:
        ended.set()
        thread.join()
    assert failed == []
    last = written[0]
    assert last > 20
    rows = {1 + number % 5: number for number in range(1, last + 1)}
    rows |= {10 + number: 1 for number in range(1, last + 1)}
    assert dict(orders.sql("select id, amount from {bronze}")) == rows
    assert orders.sql("select count(*) from {bronze}") == [(len(rows),)]
    done = {row[4] for row in orders.sql("describe history {bronze}")}
    assert {"MERGE", "OPTIMIZE"} <= done


@pytest.mark.slow
def test_a_table_that_fails_does_not_stop_the_others(orders: Orders) -> None:
    names = ", ".join(
        f"{{name: {name}, config: {{meta: {{maintenance: {{compact_above: 2}}}}}}}}"
        for name in ("broken", "orders")
    )
    source = (
        f"sources: [{{name: bronze, schema: '{{{{ target.schema }}}}_bronze', tables: [{names}]}}]"
    )
    orders.write("models/bronze/orders.yml", source)
    orders.sql("create table {schema}_bronze.broken (id int) using delta")
    for table in ("{schema}_bronze.broken", "{bronze}"):
        for number in range(3):
            columns = "id" if "broken" in table else "id, amount"
            values = f"{number}" if "broken" in table else f"{number + 10}, 1"
            orders.sql(f"insert into {table} ({columns}) values ({values})")
    lost = sorted(data_files(orders, f"{orders.schema}_bronze.broken"))[0]
    Path(lost).unlink()
    said = orders.operation(
        "maintain", expect=False, select="bronze", dry_run=False, reason="nightly"
    )
    assert "maintain: failed for bronze.broken, see above; 1 other tables are done" in said
    states = "select table_name, state from {ops} where state <> 'started' order by 1"
    assert [(name.split("_")[-1], state) for name, state in orders.sql(states)] == [
        ("bronze.broken", "failed"),
        ("bronze.orders", "done"),
    ]
    assert orders.spark.sql(f"describe detail {orders.bronze}").collect()[0]["numFiles"] == 1
    assert orders.operation("maintain", select="orders").endswith("1 tables, nothing to do")


@pytest.mark.slow
def test_it_does_what_pays_and_then_nothing(shared: Orders) -> None:
    orders = shared
    orders.operation("maintain", dry_run=False, reason="what the test before left")
    orders.write("models/bronze/orders.yml", SMALL_FILES)
    orders.sql("alter table {bronze} set tblproperties ('delta.enableDeletionVectors' = 'true')")
    orders.sql(
        "insert into {bronze} select /*+ repartition(12) */ cast(id + 10 as int), 'dan',"
        " date'2026-01-05', 1 from range(1200)"
    )
    orders.sql("delete from {bronze} where id % 2 = 0 and id > 9")
    rows = orders.sql("select * from {bronze} order by id")
    before, files = orders.versions(), data_files(orders, orders.bronze)

    with counted_statements() as statements:
        plan = orders.operation("maintain").splitlines()
    assert len([sql for sql in statements if not sql.strip().startswith("show ")]) == 2 * 3
    assert plan[0].startswith(f"bronze.orders (version {before[orders.bronze]}: ")
    assert plan[0].endswith("605 rows, 600 marked as deleted)")
    assert plan[1] == "  purge: 50 % of its rows are only marked as deleted"
    assert plan[3].startswith("  compact: ")
    assert plan[-1] == ("maintain: 3 tables, 1 to be maintained; dry_run: false and a reason do it")
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
    assert (
        orders.operation("maintain", dry_run=False, reason="again")
        == "maintain: 3 tables, nothing to do"
    )
    assert orders.versions() == after
    states = orders.sql(
        "select deleted_rows, row_count from {schema}_ops.table_state"
        " where table_name like '%_bronze.orders' order by version"
    )
    assert states[-2:] == [(600, 605), (0, 605)]
    # a reader of the table sees that no row changed
    orders.dbt("run")
    assert orders.answers(orders.dbt("run")) == {
        "silver_orders": "no changes",
        "customer_totals": "no changes",
    }


@pytest.mark.slow
def test_nine_thousand_files_become_one(shared: Orders) -> None:
    """Write one data file under many names, which takes only a second."""
    orders = shared
    orders.sql("create table {schema}_bronze.many (id int) using delta")
    orders.sql("insert into {schema}_bronze.many values (1)")
    detail = orders.spark.sql(f"describe detail {orders.schema}_bronze.many").collect()[0]
    folder = Path(detail["location"].removeprefix("file:"))
    (first,) = folder.glob("*.parquet")
    lines = [{"commitInfo": {"timestamp": int(time.time() * 1000), "operation": "WRITE"}}]
    for number in range(8_999):
        os.link(first, folder / f"part-{number}.parquet")
        add: dict[str, Any] = {"path": f"part-{number}.parquet", "partitionValues": {}}
        add |= {"size": first.stat().st_size, "modificationTime": 0, "dataChange": True}
        lines.append({"add": {**add, "stats": '{"numRecords":1}'}})
    lines[0]["commitInfo"]["operationMetrics"] = {"numFiles": "8999"}
    log = folder / "_delta_log" / f"{2:020}.json"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    text = FILES["models/bronze/orders.yml"]
    orders.write("models/bronze/orders.yml", text.replace("orders}]", "orders}, {name: many}]"))
    said = orders.operation("maintain", select="many", dry_run=False, reason="nightly")
    assert "bronze.many (version 2: 9000 files, 9000 of them small, " in said
    assert "\n  after:  1 files, 1 of them small, " in said
    assert orders.sql("select count(*), sum(id) from {schema}_bronze.many") == [(9000, 9000)]
    again = orders.operation("maintain", select="many", dry_run=False, reason="nightly")
    assert again.endswith("1 tables, nothing to do")
    orders.write("models/bronze/orders.yml", text)


@contextmanager
def counted_statements() -> Iterator[list[str]]:
    """Record the statements that dbt sends to Spark within the context."""
    from dbt.adapters.spark.connections import SparkConnectionManager

    execute, sent = SparkConnectionManager.execute, []

    def counting(manager: Any, sql: str, *more: Any, **options: Any) -> Any:
        sent.append(sql)
        return execute(manager, sql, *more, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkConnectionManager, "execute", counting)
        yield sent


def cursor() -> Any:
    """Return the cursor that dbt runs its statements with."""
    from dbt.adapters.headwaters.session import HeadwatersCursor

    settings = {"spark.remote": os.environ["HEADWATERS_ENGINE"]}
    return HeadwatersCursor(settings, Path(os.environ["HEADWATERS_LAKE"]))


def data_files(orders: Orders, table: str) -> set[str]:
    """Return the data files in a table's folder."""
    location = orders.spark.sql(f"describe detail {table}").collect()[0]["location"]
    folder = Path(location.removeprefix("file:"))
    return {str(path) for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts}
