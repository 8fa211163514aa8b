"""Test a real Debezium on a real PostgreSQL: its events, ingested by the contract of the page."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from ingestion import ROOT, Ingester, audit, node, wait_for

from headwaters.platform.jars import CachedJars, find_java
from headwaters.platform.postgres import Postgres

# downloads Debezium (20 MB) and starts it; its program is compiled, which needs a JDK
pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("DebeziumToFile.java")
LONG, OTHER = (random.Random(seed).randbytes(6000).hex() for seed in (1, 2))
TABLE = """
create table articles (
    id int primary key, body text, tags text[], doc jsonb, scan bytea, amount numeric(12, 2),
    ratio float8, ends date, until timestamptz, placed timestamp, free numeric
)
"""
COLUMNS = {
    "id": "bigint",
    "body": "string",
    "tags": "array<string>",
    "doc": "string",
    "scan": "binary",
    "amount_text": "string",
    "ratio": "double",
    "days": "int",
    "until_text": "string",
    "micros": "bigint",
    "free": "string",
    "amount": "decimal(12, 2)",
    "ends": "date",
    "until": "timestamp",
    "placed": "timestamp",
    "is_deletion": "boolean",
    "lsn": "bigint",
}
FROM = {"amount_text": "amount", "days": "ends", "until_text": "until", "micros": "placed"}
COMPUTED = {
    "amount": "try_cast(amount_text as decimal(12, 2))",
    "ends": "case when days in (-622191234, -2147472692) or days > 2932896 then date'9999-12-31' "
    "else date_from_unix_date(days) end",
    "until": "case until_text when 'infinity' then timestamp'9999-12-31 23:59:59.999999Z' "
    "else try_cast(until_text as timestamp) end",
    "placed": "if(micros > 253402300799999999, timestamp'9999-12-31 23:59:59.999999Z', "
    "timestamp_micros(micros))",
    "is_deletion": "payload.op = 'd'",
    "lsn": "try_cast(payload.source['lsn'] as bigint)",
}


@contextmanager
def debezium(server: Postgres, folder: Path, **more: str) -> Iterator[Path]:
    """Run Debezium, and yield the file of its events."""
    jars = CachedJars(ROOT / "conf" / "debezium")
    jars.fetch()
    settings = {
        "name": "articles",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
        "topic.prefix": "shop",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "headwaters",
        "database.password": server.password,
        "database.dbname": "postgres",
        "plugin.name": "pgoutput",
        "table.include.list": "public.articles",
        "decimal.handling.mode": "string",
        "skipped.operations": "none",
        "value.converter.schemas.enable": "false",
        **more,
    }
    file, events = folder / "debezium.properties", folder / "events.jsonl"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    java = [str(find_java().path), "-Xmx256m", "-cp", f"{jars.folder}/*"]
    with (folder / "debezium.log").open("wb") as log:
        process = subprocess.Popen(
            [*java, str(PROGRAM), str(file), str(events)],
            stdin=subprocess.PIPE,
            stderr=log,
            stdout=log,
        )
        try:
            yield events
        finally:
            assert process.stdin
            process.stdin.close()
            process.wait(60)


def number_of(events: Path) -> int:
    return events.read_bytes().count(b"\n") if events.exists() else 0


def test_events_of_debezium_and_postgresql_are_the_rows_that_they_were(
    logical: Postgres, ingester: Ingester, tmp_path: Path
) -> None:
    with psycopg.connect(logical.url, autocommit=True) as connection:
        run = connection.execute
        run(TABLE)
        run("alter table articles alter body set storage external, alter tags set storage external")
        run("alter table articles alter doc set storage external, alter scan set storage external")
        insert = b"insert into articles values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
        doc = {"text": LONG}
        first = (LONG, [LONG, None], json.dumps(doc), bytes.fromhex(LONG))
        run(
            insert,
            (
                1,
                *first,
                "1.50",
                0.1,
                "2026-02-03",
                "2026-02-03 04:05:06.123456+02",
                "1969-12-31 23:59:59.999999",
                "1.10",
            ),
        )
        run(
            insert,
            (
                2,
                "short",
                [],
                '{"n": 1.10}',
                b"",
                "NaN",
                "NaN",
                "infinity",
                "infinity",
                "infinity",
                "NaN",
            ),
        )
        with debezium(logical, tmp_path) as events:
            wait_for(lambda: number_of(events) >= 2)
            run("update articles set amount = 2, ends = null where id = 1")
            run("update articles set body = %s where id = 1", (OTHER,))
            run("update articles set id = 3 where id = 2")
            run(insert, (4, *[None] * 10))
            run(
                insert,
                (
                    5,
                    "old",
                    None,
                    None,
                    None,
                    None,
                    None,
                    "0001-01-01",
                    "-infinity",
                    "-infinity",
                    "-Infinity",
                ),
            )
            run("delete from articles where id = 4")
            run("truncate articles")
            run(insert, (6, "last", *[None] * 9))
            # a deletion has a tombstone after it; a changed key is a deletion and an insertion
            wait_for(lambda: number_of(events) >= 13)
            lines = [line for line in events.read_text().splitlines() if line != "null"]
    ingester.land("events.json", *lines, stream="articles")
    declared = node(
        COLUMNS,
        {"changes": {"key": ["id"], "envelope": "debezium"}},
        "articles",
        expressions=COMPUTED,
    )
    for column, field in FROM.items():
        declared["columns"][column]["config"]["meta"]["from"] = field
    ingester.run(declared)
    shown = (
        "id, is_deletion, body, tags, doc, lower(hex(scan)) as scan, amount, cast(ratio as string) "
        "as ratio, ends, until, placed, free, _unavailable"
    )
    found = ingester.rows("articles", shown, "lsn, id, is_deletion desc")
    open_end = "9999-12-31 23:59:59.999999"
    times = ["2026-02-03", "2026-02-03 02:05:06.123456", "1969-12-31 23:59:59.999999", "1.10"]
    one = [LONG, [LONG, None], json.dumps(doc), LONG]
    lacks = ["body", "tags", "doc", "scan"]
    two: list[Any] = [
        "short",
        [],
        '{"n": 1.10}',
        "",
        None,
        "NaN",
        "9999-12-31",
        open_end,
        open_end,
        "NAN",
    ]
    nothing = [None] * 10
    right: list[list[Any]] = [
        [1, False, *one, "1.50", "0.1", *times, None],
        [2, False, *two, None],
        [1, False, None, None, None, None, "2.00", "0.1", None, *times[1:], lacks],
        [1, False, OTHER, None, None, None, "2.00", "0.1", None, *times[1:], lacks[1:]],
        [2, True, *nothing, None],
        [3, False, *two, None],
        [4, False, *nothing, None],
        [4, True, *nothing, None],
        [6, False, "last", *nothing[1:], None],
    ]
    refused = ingester.quarantine("articles")
    said = sorted(
        (reason, field, " ".join(message.split()[-3:])) for reason, field, message, _ in refused
    )
    assert said == [("check", "op", "of one row"), ("type", "placed", "1 to 9999")]

    def told(row: list[Any]) -> str:
        return str(row).replace(LONG, "LONG").replace(OTHER, "OTHER")

    assert sorted(map(told, found)) == sorted(map(told, right))
    assert audit(ingester, declared) == ["articles: 11 read = 9 bronze + 2 quarantined: right"]
