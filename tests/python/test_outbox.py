"""Test change events that a trigger of a real PostgreSQL writes, as pg_recvlogical receives them.

The trigger emits each change as a message in the write-ahead log, in Debezium's envelope. This is
an outbox without a table. `pgoutput` is the only output plugin that each build of PostgreSQL has.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest
from ingestion import Ingester, audit, node

from headwaters.platform.postgres import Postgres

pytestmark = pytest.mark.slow  # PostgreSQL and an ingestion: 20 s

LONG = "x" * 2100
TABLE = """
create table items (
    id int primary key, note text, body text, amount numeric(12, 2), ratio float8, ok boolean,
    day date, at timestamptz, placed timestamp, scan bytea, tags text[], doc jsonb
);
alter table items alter body set storage external;
"""
TRIGGER = """
create function tell() returns trigger language plpgsql as $$
begin
    perform pg_logical_emit_message(true, 'changes', json_build_object(
        'op', case tg_op when 'INSERT' then 'c' when 'UPDATE' then 'u' when 'DELETE' then 'd'
            else 't' end,
        'before', row_to_json(old),
        'after', row_to_json(new),
        'source', json_build_object('lsn', pg_current_wal_insert_lsn() - '0/0')
    )::text);
    return null;
end $$;
create trigger tell after insert or update or delete on items
    for each row execute function tell();
create trigger tell_truncate after truncate on items for each statement execute function tell();
create publication nothing;
"""
SLOT = "select pg_create_logical_replication_slot('changes', 'pgoutput')"
CHANGES = [
    f"insert into items (id, note, body) values (1, 'before', '{LONG}')",
    r"""insert into items values (
        2, E'Zoë, "Z"\nC:\\new', 'short', 1.50, 0.1, true, '2026-02-03',
        '2026-02-03 04:05:06.123456+02', '2026-02-03 04:05:06', '\x00ff',
        array['a,b', null, '"q"', ''], '{"n": 1.10, "s": "x"}'
    )""",
    "insert into items values (3, '', null, null, 'NaN', false, null, null, null, '', '{}', '7')",
    "insert into items (id, amount) values (4, 'NaN')",
    "insert into items (id, day) values (5, 'infinity')",
    "insert into items (id, at) values (6, '-infinity')",
    "insert into items (id, day) values (7, '0044-03-15 BC')",
    "update items set amount = 20 where id = 1",
    "update items set note = null where id = 2",
    "update items set id = 8 where id = 3",
    "delete from items where id = 2",
    "alter table items replica identity full",
    "delete from items where id = 1",
    "truncate items",
    "begin; insert into items (id) values (9); rollback",
    "begin; insert into items (id) values (10); update items set note = 'a'; commit",
]
COLUMNS = {
    "id": "bigint",
    "note": "string",
    "body": "string",
    "amount": "decimal(12, 2)",
    "ratio": "double",
    "ok": "boolean",
    "day": "date",
    "at": "timestamp",
    "placed": "timestamp_ntz",
    "scan_text": "string",
    "tags": "array<string>",
    "doc": "variant",
    "scan": "binary",
    "is_deletion": "boolean",
    "sequence": "bigint",
}
COMPUTED = {
    "scan": "unhex(substr(scan_text, 3))",
    "is_deletion": "payload.op = 'd'",
    "sequence": "try_cast(payload.source['lsn'] as bigint)",
}


def received(server: Postgres, file: Path) -> list[str]:
    """Return the messages that pg_recvlogical receives."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        asked = "select setting, pg_current_wal_flush_lsn() from pg_config where name = 'BINDIR'"
        row = connection.execute(asked).fetchone()
    assert row is not None
    options = ["proto_version=1", "publication_names=nothing", "messages=true"]
    subprocess.run(
        [
            f"{row[0]}/pg_recvlogical",
            *(f"--dbname={server.url}", "--slot=changes", "--start", f"--file={file}"),
            *(f"--endpos={row[1]}", "--no-loop", *(f"--option={option}" for option in options)),
        ],
        check=True,
        timeout=60,
    )
    return messages(file.read_bytes())


def messages(data: bytes) -> list[str]:
    """Return the messages among records of pgoutput, each with a line break after it.

    https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
    """
    found, at = [], 0
    while at < len(data):
        kind, end = data[at : at + 1], at + {b"B": 21, b"C": 26}.get(data[at : at + 1], 0)
        if kind == b"M":
            size = data.index(b"\0", at + 10) + 1
            end = size + 4 + int.from_bytes(data[size : size + 4])
            found.append(data[size + 4 : end].decode())
        assert data[end : end + 1] == b"\n", (kind, at)
        at = end + 1
    return found


def test_messages_of_a_trigger_are_the_rows_that_they_were(
    logical: Postgres, ingester: Ingester, tmp_path: Path
) -> None:
    with psycopg.connect(logical.url, autocommit=True) as connection:
        for statement in (TABLE, TRIGGER, SLOT, "set time zone 'Europe/Berlin'", *CHANGES):
            connection.execute(statement.encode())
    events = received(logical, tmp_path / "changes")
    ingester.land("changes.json", *events, stream="items")
    changes = {"changes": {"key": ["id"], "envelope": "debezium"}}
    declared = node(COLUMNS, changes, "items", expressions=COMPUTED)
    declared["columns"]["scan_text"]["config"]["meta"]["from"] = "scan"
    ingester.run(declared)

    two: list[Any] = [
        *("short", "1.50", "0.1", True, "2026-02-03", "2026-02-03 02:05:06.123456"),
        *("2026-02-03 04:05:06", "00FF", ["a,b", None, '"q"', ""], '{"n":1.1,"s":"x"}'),
    ]
    nothing = [*[None] * 7, "null"]  # a variant has the null of JSON
    shown = (
        "id, is_deletion, note, body, amount, cast(ratio as string), ok, day, at, placed, "
        "hex(scan), tags, to_json(doc), _unavailable"
    )
    assert [row[1:] for row in ingester.rows("items", f"sequence, {shown}")] == [
        [1, False, "before", LONG, None, *nothing, None],
        [2, False, 'Zoë, "Z"\nC:\\new', *two, None],
        [3, False, "", None, None, "NaN", False, None, None, None, "", [], "7", None],
        [1, False, "before", LONG, "20.00", *nothing, None],
        [2, False, None, *two, None],
        [2, True, None, *two, None],
        [1, True, "before", LONG, "20.00", *nothing, None],
        [10, False, None, None, None, *nothing, None],
        [10, False, "a", None, None, *nothing, None],
    ]
    refused = sorted(message[:34] for _, _, message, _ in ingester.quarantine("items"))
    assert refused == [
        "'-infinity' is not a timestamp",
        "'0044-03-15 BC' is not a date",
        "'NaN' is not a decimal(12, 2)",
        "'infinity' is not a date",
        "is changed by an update, which has",
        "is t: the source emptied its table",
    ]
    assert audit(ingester, declared) == ["items: 15 read = 9 bronze + 6 quarantined: right"]
