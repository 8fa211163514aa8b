"""Test `headwaters quarantine`: records are shown, settled, counted and opened again."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from ingestion import ROOT, Ingester, bare_project, node
from typer.testing import CliRunner

from headwaters.cli import app
from headwaters.platform.project import Project
from headwaters.platform.sql import literal
from headwaters.streams.contract import parse_contract
from headwaters.streams.ingestion import reconcile
from headwaters.streams.ingestion.reconcile import summarise
from headwaters.streams.ingestion.settle import Settled
from headwaters.streams.ingestion.status import status
from headwaters.streams.quarantine import Bad, Quarantine, counted, read_quarantine
from headwaters.streams.showing import lines, settlement
from headwaters.streams.sources.base import Balance
from headwaters.streams.stream import Stream

ORDERS = node({"id": "int", "price": "decimal(6,2)"})


def write_quarantine(stream: Stream, *records: tuple[str, bytes, str | None]) -> None:
    """Write records with a field, their bytes, and the reason of their settlement."""
    count = len(records)
    columns: dict[str, Any] = {
        "reason": ["type"] * count,
        "field": [field for field, _, _ in records],
        "message": [f"is not a {field}" for field, _, _ in records],
        "record": [record for _, record, _ in records],
        "contract": ["c"] * count,
        "_source_file": [f"landing/orders/{number}.json" for number in range(count)],
        "_ingested_at": [datetime(2026, 3, 1, hour, tzinfo=UTC) for hour in range(count)],
        "_batch_id": pa.array([0] * count, pa.int64()),
    }
    if any(settled for _, _, settled in records):
        columns["settled"] = [settled for _, _, settled in records]
    table = str(stream.quarantine)
    write_deltalake(table, pa.table(columns), mode="overwrite", schema_mode="overwrite")


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    return Stream.of(bare_project(tmp_path), parse_contract(ORDERS))


def shown(stream: Stream, settled: bool = False, limit: int = 20) -> list[str]:
    return list(lines([(stream.contract, read_quarantine(stream, settled, limit))]))


def test_records_are_shown_newest_first_with_the_next_steps(stream: Stream) -> None:
    assert shown(stream) == ["orders: 0 in quarantine"]
    write_quarantine(stream, ("id", b"{\x1b[31m", None), ("price", b"{\xff", None))
    steps = [
        "contract too strict: change it in models/bronze/orders.yml, then "
        "`headwaters replay --select orders --apply`",
        "record wrong: land a corrected one, then settle those that it replaces:",
    ]
    settle = (
        "  headwaters quarantine settle orders --where \"reason = 'type' and field = '{}'\" "
        '--reason "sent again"'
    )
    by_price, by_id = settle.format("price"), settle.format("id")
    newest = [
        "  type price: is not a price",
        "    record  {\\xff",
        "    place   landing/orders/1.json",
    ]
    assert shown(stream) == [
        "orders: 2 in quarantine",
        *newest,
        "  type id: is not a id",
        "    record  {\\x1b[31m",
        "    place   landing/orders/0.json",
        *steps,
        by_price,
        by_id,
    ]
    older = "  … and 1 older ones (--limit 0 shows all)"
    assert shown(stream, limit=1) == ["orders: 2 in quarantine", *newest, older, *steps, by_price]


def test_several_streams_with_their_next_steps() -> None:
    contracts = [
        SimpleNamespace(name=name, file=f"models/bronze/{name}.yml") for name in ("orders", "paid")
    ]

    def said(*found: Quarantine) -> list[str]:
        return list(lines(cast(Any, list(zip(contracts, found, strict=True)))))

    strict = (
        "contract too strict: change it in models/bronze/{0}.yml, then "
        "`headwaters replay --select {0} --apply`"
    )
    wrong = "record wrong: land a corrected one, then settle those that it replaces:"
    assert said(Quarantine(1, 0), Quarantine(2, 0))[-3:] == [
        strict.format("orders"),
        strict.format("paid"),
        wrong,
    ]
    assert said(Quarantine(0, 0), Quarantine(2, 0))[-2:] == [strict.format("paid"), wrong]
    assert said(Quarantine(0, 0), Quarantine(0, 0)) == ["no record is in quarantine"]
    at = datetime(2026, 3, 1, tzinfo=UTC)
    settled = Bad(at, "type", "id", "", "{", "landing/paid/1.json", "sent again")
    assert said(Quarantine(0, 0), Quarantine(0, 1, (settled,))) == [
        "paid: 0 in quarantine, 1 settled",
        "  type id",
        "    record  {",
        "    place   landing/paid/1.json",
        "    settled sent again",
        "no record is open",
    ]


def test_a_printed_settlement_can_be_typed_as_it_is(stream: Stream) -> None:
    odd = 'it\'s "$HOME" `x`'
    write_quarantine(stream, (odd, b"{", None))
    *_, command = shown(stream)
    words = shlex.split(command)
    assert words[:5] == ["headwaters", "quarantine", "settle", "orders", "--where"]
    assert words[5] == f"reason = 'type' and field = {literal(odd)}"
    assert words[6:] == ["--reason", "sent again"]


def test_settled_records_are_counted_apart_and_shown_on_request(stream: Stream) -> None:
    assert counted(stream.quarantine) == Quarantine(0, 0)
    write_quarantine(stream, ("id", b"a", None), ("id", b"b", "sent again"))
    assert counted(stream.quarantine) == Quarantine(1, 1)
    assert shown(stream)[:2] == ["orders: 1 in quarantine, 1 settled", "  type id: is not a id"]
    assert shown(stream, settled=True)[1:5] == [
        "  type id: is not a id",
        "    record  b",
        "    place   landing/orders/1.json",
        "    settled sent again",
    ]
    write_quarantine(stream, ("id", b"a", "x"))
    assert shown(stream) == ["orders: 0 in quarantine, 1 settled"]


def test_a_settlement_prints_the_command_that_undoes_it() -> None:
    assert list(settlement("orders", Settled(3))) == [
        "orders: 3 would be settled (--apply settles them)"
    ]
    at = datetime(2026, 3, 1, 8, 9, 10, 11, tzinfo=UTC)
    assert list(settlement("orders", Settled(3, at))) == [
        "orders: 3 settled",
        "undo: headwaters quarantine reopen orders "
        "--where \"settled_at = timestamp'2026-03-01T08:09:10.000011Z'\" --apply",
    ]


def test_the_reconciliation_names_settled_records() -> None:
    balances = [Balance("a.json", 3, 1, 2, 0, 0)]
    assert summarise("orders", balances, 1) == [
        "orders: 3 read = 1 bronze + 2 quarantined (1 settled): right"
    ]


def test_the_reconciliation_names_rows_that_operations_removed() -> None:
    balances = [Balance("a.json", 3, 1, 0, 2, 0)]
    assert summarise("orders", balances, removed={"erase": 1, "delete_where": 1}) == [
        "orders: 3 read = 1 bronze + 0 quarantined + 2 removed (delete_where 1, erase 1): right"
    ]
    assert summarise("orders", balances, removed={"erase": 1}) == [
        "orders: 3 read = 1 bronze + 0 quarantined + 1 removed (erase 1): "
        "WRONG: 2 missing, 0 extra",
        "  a.json: 3 read, 1 bronze, 0 quarantined, 2 missing, 0 extra",
    ]
    # the source no longer has the records of four erased rows
    assert summarise("orders", balances, removed={"erase": 5, "delete_where": 1}) == [
        "orders: 3 read = 1 bronze + 0 quarantined + 2 removed (by delete_where and erase): right"
    ]
    assert summarise("orders", balances, removed={"erase": 3}) == [
        "orders: 3 read = 1 bronze + 0 quarantined + 2 removed (by erase): right"
    ]


@pytest.mark.parametrize(("erased", "code"), [({"erase": 2}, 0), ({"erase": 1}, 1), ({}, 1)])
def test_an_audit_asks_for_removed_rows_where_records_are_missing(
    monkeypatch: pytest.MonkeyPatch, erased: dict[str, int], code: int
) -> None:
    asked: list[list[str]] = []

    def removed(project: object, contracts: Any) -> dict[str, dict[str, int]]:
        asked.append([one.name for one in contracts])
        return {"orders": erased} if erased else {}

    contracts = [SimpleNamespace(name=name) for name in ("orders", "returns")]
    found = {"orders": [Balance("a", 3, 1, 0, 2, 0)], "returns": [Balance("b", 1, 1, 0, 0, 0)]}
    monkeypatch.setattr("headwaters.cli._contracts", lambda *_: (None, contracts, 0))
    monkeypatch.setattr(reconcile, "audit", lambda *_, **__: found)
    monkeypatch.setattr(reconcile, "settled_records", lambda *_: 0)
    monkeypatch.setattr(reconcile, "removed_records", removed)
    done = CliRunner().invoke(app, ["audit"])
    assert (done.exit_code, asked) == (code, [["orders"]]), done.output
    assert done.output.splitlines()[0].endswith("right" if code == 0 else "2 missing, 0 extra")


def test_the_first_argument_may_be_a_stream() -> None:
    def usage(*arguments: str) -> str:
        return CliRunner().invoke(app, ["quarantine", *arguments, "--nope"]).output

    assert "quarantine show [OPTIONS]" in usage("orders")
    assert "quarantine show [OPTIONS]" in usage()
    assert "quarantine settle [OPTIONS]" in usage("settle")


def test_settled_records_stay_and_no_longer_count(
    ingester: Ingester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settle(where: str, reason: str | None, apply: bool = True) -> Any:
        request = {"settle": ORDERS, "where": where, "reason": reason, "apply": apply}
        return ingester.ask(lake=str(ingester.lake), **request)

    def state() -> tuple[int | None, int]:
        found = status(Project(ROOT), parse_contract(ORDERS))
        return found.quarantined, found.settled

    def audited() -> list[str]:
        found: list[str] = ingester.ask(lake=str(ingester.lake), audit=[ORDERS])
        return found

    monkeypatch.setenv("HEADWATERS_LAKE", str(ingester.lake))
    bad = ['{"id": "x", "price": 1}', '{"id": 2, "price": "much"}', '{"id": 3, "price": "more"}']
    ingester.land("a.jsonl", '{"id": 1, "price": 1.5}', *bad)
    ingester.run(ORDERS)
    assert settle("field = 'weight'", "sent again") == [
        "[HW_NO_ROW_MATCHES] orders: no open record in quarantine matches field = 'weight': "
        "`headwaters quarantine orders` shows the records"
    ]
    assert settle("no_such", "x")[0].startswith(
        "[HW_SQL] --where no_such: there is no column `no_such`; the nearest are "
    )
    assert settle("field = 'price' and", "x")[0].startswith(
        "[HW_SQL] --where field = 'price' and: Syntax error at or near "
    )
    assert settle("field = 'price' one", "x")[0].startswith("[HW_SQL] ")
    (at_run_time,) = settle("element_at(array(field), 0) = 'x'", "x")
    assert at_run_time.startswith("[HW_SQL] --where element_at(array(field), 0) = 'x': ")
    assert "[INVALID_INDEX_OF_ZERO]" in at_run_time
    assert settle("field = 'price'", "sent again", apply=False) == [
        "orders: 2 would be settled (--apply settles them)"
    ]
    assert state() == (3, 0)
    done, undo = settle("cast(record as string) like '%much%' -- one", "sent again")
    assert done == "orders: 1 settled"
    assert state() == (2, 1)
    # the stream goes on, and a contract that accepts the records moves only the open ones
    ingester.land("b.jsonl", '{"id": 4, "price": 2}', '{"id": "y", "price": 2}')
    assert ingester.run(ORDERS) == ["orders  1 rows, 1 quarantined (type id 1)"]
    looser = node({"id": "int"})
    request = {"replay": [looser], "dry_run": True}
    assert ingester.ask(lake=str(ingester.lake), **request) == {"orders": [1, {"type id": 2}]}
    assert state() == (3, 1)
    (line,) = audited()
    assert line == "orders: 6 read = 2 bronze + 4 quarantined: right"
    where = re.search('--where "(.*)" --apply', undo)
    assert where
    assert settle(where[1], None)[0] == "orders: 1 settled"
    assert state() == (4, 0)


def test_rows_with_an_open_event_are_counted_once(stream: Stream) -> None:
    keys = ['{"id":1}', '{"id":1}', '{"id":2}', None, '{"id":3}']
    table = pa.table({"row_key": keys, "settled": [None, None, None, None, "sent again"]})
    folder = str(stream.quarantine)
    write_deltalake(folder, table)
    assert counted(stream.quarantine) == Quarantine(4, 1, rows=2)
    write_deltalake(folder, table.select(["row_key"]), mode="overwrite", schema_mode="overwrite")
    assert counted(stream.quarantine) == Quarantine(5, 0, rows=3)


@pytest.mark.slow  # an engine, and four commands of dbt
def test_a_data_test_names_the_rows_that_may_be_out_of_date(
    spark: Any, new_project: Any, dbt: Any, schema: str
) -> None:
    test = """{has_no_event_in_quarantine: {arguments: {
        stream: "source('bronze', 'changes')", key: id}}}"""
    source = f"{{name: bronze, schema: {schema}_b, tables: [{{name: changes}}]}}"
    project = new_project(
        {
            "models/customers.sql": "select explode(array(1, 2, 3)) as id",
            "models/customers.yml": f"models: [{{name: customers, data_tests: [{test}]}}]",
            "models/sources.yml": f"sources: [{source}]",
        }
    )
    spark.sql(f"create database {schema}_b")
    quarantine = f"{schema}_b.changes_quarantine"
    spark.sql(f"create table {quarantine} (row_key string) using delta")
    dbt("run", project_dir=project, schema=schema)
    dbt("test", project_dir=project, schema=schema)
    spark.sql(f"insert into {quarantine} values ('{{\"id\":2}}'), ('{{\"id\":9}}'), (null)")
    failed = dbt("test", project_dir=project, schema=schema, expect=False)
    assert "Got 1 result, configured to fail if != 0" in "\n".join(failed.messages)
    spark.sql(f"alter table {quarantine} add column settled string")
    spark.sql(f"update {quarantine} set settled = 'sent again'")
    dbt("test", project_dir=project, schema=schema)
