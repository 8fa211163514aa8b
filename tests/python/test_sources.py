"""Test that every source and format ends in the same two tables, each record once."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ingestion import Ingester, Node, audit, lose_one_and_repeat_another, node, numbered, wait_for

from headwaters.devkit.samples.send import send

pytestmark = pytest.mark.slow

NAMED = {"id": "int", "name": "string"}


def test_a_delta_table_is_followed_and_its_changes_are_treated_as_declared(
    ingester: Ingester,
) -> None:
    shop = f"delta.`{ingester.lake / 'shop'}`"

    def sql(*statements: str) -> None:
        for statement in statements:
            ingester.ask(sql=statement.format(shop=shop))

    def stream(name: str, source: str = "delta", **how: Any) -> Node:
        return node(NAMED, {"from": source, "path": "shop", **how}, name)

    strict, changes = stream("strict"), stream("changes", "delta_changes")
    skips, ignores = stream("skips", on_change="skip"), stream("ignores", on_change="ignore")
    later = stream("later", start="latest", schema="fail", on_change="skip")
    (line,) = ingester.run(strict, code=2)
    assert line == (
        "[HW_NO_INPUT] models/bronze/strict.yml: strict reads shop, but there is no Delta table "
        f"{ingester.lake / 'shop'}: write it first, or change 'path'"
    )
    sql(
        "create table {shop} (id int, name string, more string) using delta "
        "tblproperties (delta.enableChangeDataFeed = true)",
        "insert into {shop} values (1, 'a', null), (2, 'b', 'x')",
    )
    ingester.run(strict, changes, skips, ignores, later)
    first = [[1, "a", None], [2, "b", '{"more":"x"}']]
    assert ingester.rows("strict", "id, name, _rescued") == first
    assert ingester.rows("later", "id") == []
    appended = "strict: 2 read = 2 bronze + 0 quarantined: {}"
    assert audit(ingester, strict) == [appended.format("right")]
    # as many rows as records, but one of them twice and another missing
    lose_one_and_repeat_another(ingester, "strict", "id = 1", "id = 2")
    assert audit(ingester, strict) == [
        appended.format("WRONG: 1 missing, 1 extra"),
        f"  {ingester.lake / 'shop'}: 2 read, 2 bronze, 0 quarantined, 1 missing, 1 extra",
    ]

    sql(
        "update {shop} set name = 'A' where id = 1",
        "delete from {shop} where id = 2",
        "insert into {shop} values (3, 'c', null)",
    )
    assert ingester.run(later) == ["later  1 rows"]
    assert ingester.rows("later", "id, name") == [[3, "c"]]
    changes_line, _, _, strict_line = sorted(ingester.run(strict, changes, skips, ignores, code=1))
    assert changes_line == "changes  4 rows"
    assert strict_line.startswith(
        "strict   failed: [HW_SOURCE_CHANGED] rows of its source were changed or deleted; "
    )
    assert ingester.rows("skips", "id, name, _rescued") == [*first, [3, "c", None]]
    again = [[1, "A", None], [1, "a", None], [2, "b", '{"more":"x"}'], [3, "c", None]]
    assert ingester.rows("ignores", "id, name, _rescued") == again
    feed = "id, name, _source_change, _source_version"
    assert ingester.rows("changes", feed, "_source_version, _source_change desc, id") == [
        [1, "a", "insert", 1],
        [2, "b", "insert", 1],
        [1, "a", "update_preimage", 2],
        [1, "A", "update_postimage", 2],
        [2, "b", "delete", 3],
        [3, "c", "insert", 4],
    ]
    right = "{}: 6 read = 6 bronze + 0 quarantined: right"
    assert audit(ingester, changes) == [right.format("changes")]
    assert ingester.run(changes) == ["changes  nothing new"]
    # as many rows as records, but one of them twice and another missing
    lose_one_and_repeat_another(ingester, "changes", "_source_change = 'update_preimage'", "id = 3")
    assert audit(ingester, changes) == [
        right.format("changes").replace("right", "WRONG: 1 missing, 1 extra"),
        "  version 2: 2 read, 1 bronze, 0 quarantined, 1 missing, 0 extra",
        "  version 4: 1 read, 2 bronze, 0 quarantined, 0 missing, 1 extra",
    ]
    sql(
        "create or replace table {shop} using delta partitioned by (name) "
        "tblproperties (delta.enableChangeDataFeed = true) as select * from {shop}"
    )
    (line,) = ingester.run(changes, code=1)
    assert "failed: [HW_SOURCE_RECREATED] the Delta table " in line
    assert ingester.rows("changes", "max(_source_version)") == [[4]]


def test_the_rate_source_makes_numbers_without_a_gap(ingester: Ingester) -> None:
    stream = node(
        {"value": "bigint", "amount": "double"},
        {"from": "rate", "rows_per_second": 3},
        rules={"value": [{"type": "check", "expression": "value <> 4"}]},
        expressions={"amount": "_offset / 2"},
    )
    ingester.run(stream)
    time.sleep(2)  # the source's own clock makes the rows
    ingester.run(stream)
    first = ingester.rows("orders", "value, amount, _offset")[:3]
    assert first == [[0, 0, 0], [1, 0.5, 1], [2, 1, 2]]
    assert [row[0] for row in ingester.quarantine()] == ["check"]
    (line,) = audit(ingester, stream)
    assert line.endswith("+ 1 quarantined: right")


SCHEMA = {
    "type": "record",
    "name": "order",
    "fields": [{"name": "id", "type": "string"}, {"name": "amount", "type": ["null", "string"]}],
}


def avro(name: str, amount: str | None) -> bytes:
    """Return a record of SCHEMA: lengths are zigzag numbers, the branch of a union comes first."""
    text = name.encode()
    rest = b"\x00" if amount is None else b"\x02" + bytes([2 * len(amount)]) + amount.encode()
    return bytes([2 * len(text)]) + text + rest


def test_avro_from_files_and_from_a_topic(ingester: Ingester, broker: str, topic: str) -> None:
    columns = {"id": "string", "amount": "decimal(6, 2)"}
    files = node(columns, {"format": "avro"}, "files")
    landing = ingester.lake / "landing" / "files"
    for folder, values in (
        ("old", "'a' as id, '1.5' as amount"),
        ("new [1]", "'b' as id, 'x' as amount"),
        ("new [2]", "'c' as id, 7.25 as amount, named_struct('deep', 1) as more"),
    ):
        into = f"directory '{landing / folder}' using avro"
        ingester.ask(sql=f"insert overwrite {into} select {values}")
    ingester.run(files)
    assert ingester.rows("files", "id, amount, _rescued") == [
        ["a", "1.50", None],
        ["c", "7.25", '{"more":{"deep":1}}'],
    ]
    assert ingester.quarantine("files") == [
        ["type", "amount", "'x' is not a decimal(6, 2)", '{"id":"b","amount":"x"}']
    ]

    how = {"from": "kafka", "topics": [topic], "servers": broker, "format": "avro"}
    records = [avro("a", "1.5"), avro("b", None), avro("c", "x"), b"\xff\xff", None]
    header = b"\x00\x00\x00\x00\x07"
    send(broker, topic, ((None, r if r is None else header + r) for r in records))
    stream = node(columns, {**how, "options": {"avroSchema": SCHEMA, "confluent": True}})
    ingester.run(stream)
    assert ingester.rows("orders", "id, amount") == [["a", "1.50"], ["b", None]]
    assert sorted(row[:3] for row in ingester.quarantine()) == [
        ["malformed", None, "is not a record of the Avro schema"],
        ["malformed", None, "is not a record of the Avro schema"],
        ["type", "amount", "'x' is not a decimal(6, 2)"],
    ]
    assert audit(ingester, stream) == ["orders: 5 read = 2 bronze + 3 quarantined: right"]
    mended = node({"id": "string", "amount": "string"}, stream["config"]["meta"]["stream"])
    request = {"lake": str(ingester.lake), "replay": [mended], "dry_run": True}
    assert ingester.ask(**request) == {
        "orders": "[HW_COLUMN_TYPE] bronze.orders: column amount is decimal(6,2) in the table and "
        "string in the contract: declare the old type, or another column"
    }
    more = node({**columns, "more": "string"}, stream["config"]["meta"]["stream"])
    assert ingester.ask(**{**request, "replay": [more]}) == {
        "orders": [0, {"malformed": 2, "type amount": 1}]
    }


def test_raw_keeps_what_came(ingester: Ingester, broker: str, topic: str) -> None:
    rules = {"body": [{"type": "not_null"}]}
    files = node({"body": "binary"}, {"format": "raw"}, "files", rules)
    ingester.land("a.bin", b"\x00\xff two", b"lines", stream="files")
    ingester.land("nothing.bin", stream="files")  # not a record
    send(broker, topic, [(None, b"\x00\xff"), (None, None)])
    how = {"from": "kafka", "topics": [topic], "servers": broker, "format": "raw"}
    stream = node({"body": "binary"}, how, rules=rules)
    ingester.run(files, stream)
    assert ingester.rows("files", "hex(body), _source_file") == [
        [(b"\x00\xff two\nlines\n").hex().upper(), "landing/files/a.bin"]
    ]
    assert ingester.rows("orders", "hex(body)") == [["00FF"]]
    assert ingester.quarantine() == [["not_null", "body", "is null", None]]
    assert audit(ingester, files) == ["files: 1 read = 1 bronze + 0 quarantined: right"]


def test_new_fields_become_columns(ingester: Ingester) -> None:
    drifting = node({"id": "string"}, {"schema": "add_columns", "batch": {"max_files": 1}})
    ingester.land("a.jsonl", '{"id": "a"}', '{"id": "b", "flag": true, "bad name": 1, "ID": 2}')
    ingester.land("b.jsonl", '{"id": "c", "flag": "no", "deep": {"x": [1]}}')
    os.utime(ingester.lake / "landing" / "orders" / "a.jsonl", (1, 1))  # the first batch
    ingester.run(drifting)
    assert ingester.rows("orders", "id, flag, deep, _rescued, _batch_id", "id") == [
        ["a", None, None, None, 0],
        ["b", "true", None, '{"bad name":"1","ID":"2"}', 0],
        ["c", "no", '{"x":[1]}', None, 1],
    ]
    typed = node({"id": "string"}, {"schema": "add_columns", "format": "parquet"}, "typed")
    folder = ingester.lake / "landing" / "typed"
    folder.mkdir()
    pq.write_table(pa.table({"id": ["a"], "n": [1], "at": [None]}), folder / "a.parquet")
    ingester.run(typed)
    pq.write_table(pa.table({"id": ["b", "c"], "n": ["2", "x"]}), folder / "b.parquet")
    ingester.run(typed)
    assert ingester.rows("typed", "id, n") == [["a", 1], ["b", 2]]
    assert ingester.quarantine("typed")[0][:3] == ["type", "n", "'x' is not a bigint"]


def sale(key: str | None, minute: int, note: str = "") -> str:
    return json.dumps({"id": key, "at": f"2026-01-01T00:{minute:02d}:00Z", "note": note})


def test_a_key_that_comes_again_within_the_time_is_no_new_record(ingester: Ingester) -> None:
    stream = node(
        {"id": "string", "at": "timestamp", "note": "string"},
        {"deduplicate": {"key": ["id"], "event_time": "at", "within": "10m"}},
    )
    timeless = '{"id": "t", "at": null}'
    five = sale(None, 5)
    ingester.land("a.jsonl", sale("a", 0), sale("a", 1), sale("b", 5), five, five, timeless)
    (line,) = ingester.run(stream, code=1, die_before="orders_quarantine")
    assert "failed" in line
    # the batch runs again: its own rows in bronze do not make it a duplicate of itself
    ingester.run(stream)
    assert ingester.rows("orders", "id, at, _batch_id", "id, at") == [
        [None, "2026-01-01 00:05:00", 0],
        [None, "2026-01-01 00:05:00", 0],
        ["a", "2026-01-01 00:00:00", 0],
        ["b", "2026-01-01 00:05:00", 0],
        ["t", None, 0],
    ]
    # the newest event is then of 00:30, and the watermark at 00:20
    ingester.land("b.jsonl", sale("b", 8, "again"), sale("c", 30), sale("d", 7))
    ingester.run(stream)
    again = sale("t", 31)
    ingester.land(
        "c.jsonl", sale("e", 19, "late"), sale("c", 31, "again"), sale("a", 31, "new"), again
    )
    ingester.run(stream, clock=-7200)
    assert ingester.rows("orders", "id, minute(at)", "_batch_id, id")[5:] == [
        ["c", 30],
        ["d", 7],
        ["a", 31],
    ]
    assert ingester.rows("orders_quarantine", "reason, field, cast(record as string)", "1, 3") == [
        ["duplicate", "id", sale("a", 1)],
        ["duplicate", "id", sale("b", 8, "again")],
        ["duplicate", "id", sale("c", 31, "again")],
        ["duplicate", "id", again],
        ["late", "at", sale("e", 19, "late")],
    ]
    assert audit(ingester, stream) == ["orders: 13 read = 8 bronze + 5 quarantined: right"]
    request = {"lake": str(ingester.lake), "replay": [stream], "dry_run": True}
    assert ingester.ask(**request) == {"orders": [0, {"duplicate id": 4, "late": 1}]}


def test_of_equal_lines_a_replay_moves_one_and_leaves_the_other_as_a_duplicate(
    ingester: Ingester,
) -> None:
    rule = {"deduplicate": {"key": ["id"], "event_time": "at", "within": "10m"}}
    columns = {"id": "string", "at": "timestamp", "reason": "string"}

    def wanted(reason: str) -> Node:
        check = {"type": "check", "expression": f"reason = '{reason}'"}
        return node(columns, rule, rules={"reason": [check]})

    line, bad = (
        json.dumps({"id": key, "at": "2026-01-01T00:00:00Z", "reason": why})
        for key, why in (("a", "x"), ("b", "y"))
    )
    ingester.land("a.jsonl", line, line, line, bad)
    ingester.run(wanted("z"))
    mended = wanted("x")
    request = {"lake": str(ingester.lake), "replay": [mended], "dry_run": False}
    stay = {"duplicate id": 2, "check reason": 1}
    assert ingester.ask(**request) == {"orders": [1, stay]}
    assert ingester.ask(**request) == {"orders": [0, stay]}
    assert ingester.rows("orders", "id, reason") == [["a", "x"]]
    why = [row[:2] for row in ingester.quarantine()]
    assert why == [["duplicate", "id"], ["duplicate", "id"], ["check", "reason"]]
    assert audit(ingester, mended) == ["orders: 4 read = 1 bronze + 3 quarantined: right"]


@pytest.mark.parametrize("limit", [0, 100_000], ids=["making the table", "in a batch"])
def test_a_disk_that_is_full_costs_nothing_but_time(ingester: Ingester, limit: int) -> None:
    wide = node({"id": "string", "text": "string"})
    noise = random.Random(1)
    records = [json.dumps({"id": str(n), "text": noise.randbytes(500).hex()}) for n in range(400)]
    ingester.land("a.jsonl", *records, "no record")
    (line,) = ingester.run(wide, code=1, file_limit=limit)
    assert line.startswith("orders  failed: [HW_STREAM_FAILED] File too large")
    begun = ingester.lake / "warehouse" / "bronze.db" / "orders" / "_delta_log"
    assert [path.name for path in begun.glob("*.json")] == ["00000000000000000000.json"][:limit]
    ingester.run(wide)
    assert audit(ingester, wide) == ["orders: 401 read = 400 bronze + 1 quarantined: right"]


def test_small_files_are_joined_between_two_batches(ingester: Ingester) -> None:
    stream = node({"id": "string", "amount": "double"}, {"batch": {"max_files": 1}})
    for number in range(6):
        ingester.land(f"{number}.jsonl", numbered(number)[1])
    ingester.run(stream, compact_at=3)
    table = ingester.lake / "warehouse" / "bronze.db" / "orders"
    history = ingester.ask(sql=f"describe history delta.`{table}`")
    assert [row["operation"] for row in reversed(history)] == [
        *["CREATE TABLE", "WRITE", "WRITE", "WRITE", "WRITE"],
        *["OPTIMIZE", "WRITE", "WRITE"],
    ]
    (detail,) = ingester.ask(sql=f"describe detail delta.`{table}`")
    assert detail["numFiles"] == 3
    log = ingester.lake / "logs" / "ingest.jsonl"
    lines = map(json.loads, log.read_text().splitlines())
    (said,) = (line for line in lines if "compacted" in line)
    assert (said["compacted"], said["files"], said["left"]) == ("orders", 4, 1)
    # readers of an older version, or of its changes, still can
    changes = ingester.ask(
        sql=f"select count(*) as n, count(distinct _commit_version) as v "
        f"from table_changes_by_path('{table}', 0)"
    )
    assert changes == [{"n": 6, "v": 6}]
    assert audit(ingester, stream) == ["orders: 6 read = 6 bronze + 0 quarantined: right"]


def test_files_that_land_while_a_stream_runs_bring_their_own_schema(
    ingester: Ingester, tmp_path: Path
) -> None:
    folder = ingester.lake / "landing" / "orders"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": ["a"]}), folder / "a.parquet")
    stream = node({"id": "string"}, {"format": "parquet"})
    rows = 'rows_total{stream="orders"}'
    with ingester.running(stream, every=0.2) as metrics:
        wait_for(lambda: metrics().get(rows) == 1)
        pq.write_table(pa.table({"id": ["b"], "new": [1]}), tmp_path / "b.parquet")
        (tmp_path / "b.parquet").rename(folder / "b.parquet")
        wait_for(lambda: metrics().get(rows) == 2)
    assert ingester.rows("orders", "id, _rescued") == [["a", None], ["b", '{"new":1}']]
