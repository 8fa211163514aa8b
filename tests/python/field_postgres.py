"""Changes that pg_recvlogical received from a PostgreSQL with the plugin wal2json.

No package index has wal2json. The files in `tests/data/field/wal2json` were received from Debian's
PostgreSQL 15.20 with wal2json 2.5, and `receive.sh` there has the statements and the commands.
A run of `test_outbox.py` receives the events of a trigger from its own server.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from field_programs import Write, file

RECEIVED = Path(__file__).resolve().parents[1] / "data" / "field" / "wal2json"
LONG = "x" * 2100

TABLE = {
    "id": "int",
    "note": "string",
    "body": "string",
    "amount": "decimal(12, 2)",
    "ratio": "double",
    "ok": "boolean",
    "day": "date",
    "at": "timestamp",
    "placed": "timestamp_ntz",
    "scan": "binary",
    "tags": "string",
    "doc": "string",
}
FIELDS = "array<struct<name: string, type: string, value: variant>>"


def received(name: str) -> Write:
    return lambda path: path.write_bytes((RECEIVED / name).read_bytes())


def text(name: str, *places: str) -> str:
    """Return the expression of a field's text: from the new values, or else from the old ones."""
    places = places or ("columns", "identity")
    found = [f"get(filter({place}, c -> c.name = '{name}'), 0)" for place in places]
    return f"coalesce({', '.join(found)}).value::string"


NOTHING: list[Any] = [None] * 11
BEGIN, COMMIT = ["B", None, None, *NOTHING], ["C", None, None, *NOTHING]
SHORT = [
    *("short", "1.50", 0.1, True, "2026-02-03", "2026-02-03 02:05:06.123456"),
    *("2026-02-03 04:05:06", "00FF", '{"a,b",NULL,"\\"q\\"",""}', '{"n": 1.10, "s": "x"}'),
]

# the text of a number in a variant has no zeros at its end: 1.50 is 1.5
VALUES = "|short|1.5|0.1|true|2026-02-03|2026-02-03 02:05:06.123456+00|2026-02-03 04:05:06|00ff"
OTHERS = '|{"a,b",NULL,"\\"q\\"",""}|{"n": 1.10, "s": "x"}'
TRANSACTIONS: list[list[Any]] = [
    [[f'insert items 2|Zoë, "Z"\nC:\\new{VALUES}{OTHERS}']],
    [["insert items 3||-|-|-|false|-|-|-||{}|null"]],
    [["insert items 8|-|-|-|-|-|infinity|-infinity|infinity|-|-|-"]],
    [[f"insert items 4{'|-' * 11}"]],
    [[f"update items 1|before|20{'|-' * 8} 1"]],
    [[f"update items 5{'|-' * 11} 4"]],
    [["delete items 5"]],
    [[f"update kept 1|before|2{'|-' * 8} 1|before|{LONG}"]],
    [[f"delete kept 1|before|{LONG}|2"]],
    [[f"update items 2|-{VALUES}{OTHERS} 2"]],
    [[]],  # a delete without a replica identity
    [[]],  # a truncate
    [[f"insert items 6|a{'|-' * 10}", f"insert items 7|b{'|-' * 10}", "message"]],
]

CHANGES: list[dict[str, Any]] = [
    {
        "stream": "wal2json_version_2",
        "columns": {
            "action": "string",
            "lsn": "string",
            "schema": "string",
            "table": "string",
            "columns": FIELDS,
            "identity": FIELDS,
            "prefix": "string",
            "content": "string",
            **{
                name: {"data_type": kind, "check": f"{name} is not null or {text(name)} is null"}
                for name, kind in TABLE.items()
            },
            "old_id": "int",  # the key before an update of the key
        },
        "computed": {
            **{name: text(name) for name in TABLE},
            "scan": f"unhex({text('scan')})",
            "old_id": text("id", "identity"),
        },
        "declared": {},
        "select": "action, old_id, id, note, body, amount, ratio, ok, day, at, placed, hex(scan), "
        "tags, doc",
        "files": {
            "inserts, updates, deletes": file(
                received("version-2.jsonl"),
                [
                    *([BEGIN] * 13),
                    *([COMMIT] * 13),
                    ["I", None, 2, 'Zoë, "Z"\nC:\\new', *SHORT],
                    # NaN and Infinity are null: JSON has no such numbers
                    ["I", None, 3, "", *[None] * 3, False, *[None] * 3, "", "{}", "null"],
                    ["I", None, 4, *NOTHING[1:], None],
                    # `body` is unchanged and large, so that the event lacks it
                    ["U", 1, 1, "before", None, "20.00", *[None] * 8],
                    ["U", 4, 5, *NOTHING[1:], None],
                    ["D", 5, 5, *NOTHING[1:], None],
                    # replica identity full
                    ["U", 1, 1, "before", LONG, "2.00", *[None] * 8],
                    ["D", 1, 1, "before", LONG, "2.00", *[None] * 8],
                    ["U", 2, 2, None, *SHORT],
                    ["T", None, None, *NOTHING],
                    ["I", None, 6, "a", *NOTHING[1:]],
                    ["I", None, 7, "b", *NOTHING[1:]],
                    ["M", None, None, *NOTHING],
                ],
                "breaks day is not null or ",
            ),
        },
    },
    {
        "stream": "wal2json_of_texts",
        "columns": {
            "action": "string",
            "columns": "array<struct<name: string, type: string, value: string>>",
            "identity": "array<struct<name: string, type: string, value: string>>",
        },
        "declared": {},
        "select": "action, get(columns, 0).value",
        "files": {
            "numbers in fields that are declared as texts": file(
                received("version-2.jsonl"),
                [
                    *([["B", None]] * 13),
                    *([["C", None]] * 13),
                    *(["I", key] for key in ("3", "4", "6", "7", "8")),
                    ["U", "5"],
                    *([action, None] for action in "DTM"),
                ],
                "has the number 1.50, which would change",
                "has the number 20.00, which would change",
                "has the number 2.00, which would change",
                "has the number 2.00, which would change",
                "has the number 1.50, which would change",
            ),
        },
    },
    *(
        {
            "stream": f"wal2json_version_1_{layout}",
            "columns": {
                "change": "array<struct<kind: string, schema: string, table: string, "
                "columnnames: array<string>, columntypes: array<string>, "
                "columnvalues: array<variant>, oldkeys: struct<keynames: array<string>, "
                "keytypes: array<string>, keyvalues: array<variant>>>>"
            },
            "declared": {"layout": layout},
            "select": "transform(change, c -> array_join(array(c.kind, c.table, "
            "array_join(transform(c.columnvalues, v -> v::string), '|', '-'), "
            "array_join(transform(c.oldkeys.keyvalues, v -> v::string), '|', '-')), ' '))",
            "files": {"transactions": file(received(name), TRANSACTIONS)},
        }
        for layout, name in (
            ("lines", "version-1.jsonl"),
            ("object", "version-1-pretty.json"),
        )
    ),
]
