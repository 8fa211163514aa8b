"""Test that a value that a change event lacks is the previous event's, not a placeholder."""

from __future__ import annotations

import base64
import json
import re
import uuid
from typing import Any

import duckdb
import pytest
from ingestion import Ingester, Node, audit, node
from test_change_streams import _change_events, _in_duckdb

from headwaters.platform.errors import UserError
from headwaters.streams.contract import parse_contract
from headwaters.streams.declared_tables import stream_problem, stream_tables, unavailable_columns
from headwaters.streams.formats import placeholders

P = placeholders.DEFAULT
UUID_OF_P = uuid.UUID("b68a35a7-17ad-35b3-af2a-ae46edb4545a")  # as Java's UUID.nameUUIDFromBytes
BASE64 = base64.b64encode(P.encode()).decode()
COLUMNS = {
    "id": "bigint",
    "body": "string",
    "scan": "binary",
    "scan_text": "string",
    "total": "decimal(38, 2)",
    "tags": "array<string>",
    "scans": "array<string>",
    "counts": "array<int>",
    "ratios": "array<double>",
    "ids": "array<string>",
    "pairs": "map<string, string>",
    "pairs_text": "string",
    "doc": "string",
    "note": "string",
    "length": "int",
    "position": "bigint",
    "sequence": "bigint",
    "changed_at": "timestamp",
    "is_deletion": "boolean",
}
EXPRESSIONS = {
    "length": "length(body)",
    "position": "cast(null as bigint)",
    "sequence": "try_cast(payload.source['lsn'] as bigint)",
    "changed_at": "timestamp_micros(payload.ts_ms * 1000)",
    "is_deletion": "payload.op = 'd'",
}
# every column that an event may lack, and its placeholder
LACKING: dict[str, Any] = {
    "body": P,
    "scan": BASE64,
    "scan_text": BASE64,
    "total": P,
    "tags": [P],
    "scans": [BASE64],
    "counts": list(P.encode()),
    "ratios": [float(byte) for byte in P.encode()],
    "ids": [str(UUID_OF_P)],
    "pairs": {P: P},
    "pairs_text": json.dumps({P: P}, separators=(",", ":")),
    "doc": P,
}


def articles(**changes: Any) -> Node:
    """Return a stream of Debezium's events about articles."""
    declared = {"key": ["id"], "envelope": "debezium", **changes}
    rules = {
        "body": [{"type": "not_null"}, {"type": "check", "expression": "coalesce(body, '') > ''"}]
    }
    return node(COLUMNS, {"changes": declared}, "orders", rules, EXPRESSIONS)


def event(op: str, lsn: int, **fields: Any) -> str:
    image = {("before" if op == "d" else "after"): fields}
    whole = {"before": None, "after": None, **image, "op": op, "ts_ms": lsn}
    return json.dumps(whole | {"source": {"lsn": lsn}})


def test_a_placeholder_of_any_type_is_null_in_bronze_and_its_column_is_named(
    ingester: Ingester,
) -> None:
    values = {
        "body": f"about {P}",
        "tags": ["a", P],
        "counts": [95],
        "pairs": {"a": P},
        "doc": json.dumps({"text": P, P: P}),
        "note": f'"{P}", he said',
    }
    events = [
        event("c", 10, id=1, **values),
        event("u", 12, id=1, note="kept", **LACKING),
        event("u", 13, id=1, body="new", note=P, undeclared=P),
        event("d", 14, id=1),
        '{"schema": {}, "payload": ' + event("r", 15, id=2, **(values | {"tags": [P]})) + "}",
        # as other writers may write it
        json.dumps(json.loads(event("u", 16, id=2, **(LACKING | {"note": "x"}))), indent=1).replace(
            "\n", " "
        ),
    ]
    ingester.land("a.jsonl", *events)
    declared = articles()
    ingester.run(declared)
    assert ingester.quarantine() == []
    lacking = [name for name in COLUMNS if name in LACKING or name == "length"]
    nulls = ", ".join(f"{name} is null" for name in lacking)
    found = ingester.rows("orders", f"sequence, note, _unavailable, {nulls}", "sequence")
    assert found[1] == [12, "kept", lacking, *[True] * len(lacking)]
    assert found[5] == [16, "x", lacking, *[True] * len(lacking)]
    assert [row[:3] for row in found] == [
        [10, values["note"], None],
        [12, "kept", lacking],
        [13, None, ["note"]],
        [14, None, None],
        [15, values["note"], ["tags"]],
        [16, "x", lacking],
    ]
    kept = "body, tags, counts, to_json(pairs) as pairs, doc, length, _rescued"
    assert ingester.rows("orders", f"sequence, {kept}", "sequence")[0] == [
        *[10, values["body"], values["tags"], [95], json.dumps({"a": P}, separators=(",", ":"))],
        *[values["doc"], len(values["body"]), None],
    ]
    assert ingester.rows("orders", "_rescued", "sequence")[2] == [f'{{"undeclared":"{P}"}}']
    assert audit(ingester, declared) == ["orders: 6 read = 6 bronze + 0 quarantined: right"]

    bronze = f"delta.`{ingester.lake / 'warehouse' / 'bronze.db' / 'orders'}`"
    sql = _change_events(bronze, "id", ["body", "tags"], ["body", "tags"])
    ordered = f"select sequence, body, tags, _unavailable from ({sql}) order by sequence"
    assert [list(row.values()) for row in ingester.ask(sql=ordered)] == [
        [10, values["body"], values["tags"], []],
        [12, values["body"], values["tags"], []],
        [13, "new", None, []],
        [14, None, None, []],
        [15, values["body"], None, ["tags"]],
        [16, values["body"], None, ["tags"]],
    ]

    # another placeholder, in a table that is older than the column
    table = f"delta.`{ingester.lake / 'warehouse' / 'bronze.db' / 'old'}`"
    columns = {"id": "bigint", "body": "string", "sequence": "bigint"}
    stream = {
        "path": "landing/orders",
        "changes": {"key": ["id"], "unavailable_value": "hex:3c3f3e"},
    }
    flat = node(columns, stream, "old")
    ingester.ask(
        sql=f"create table {table} (id bigint, body string, sequence bigint, _rescued string, "
        "_source_file string, _ingested_at timestamp, _batch_id bigint) using delta"
    )
    for file in (ingester.lake / "landing" / "orders").iterdir():
        file.unlink()
    ingester.land("b.jsonl", *(json.dumps({"id": 1, "body": t}) for t in ("<?>", P, "a <?>")))
    ingester.run(flat)
    assert ingester.rows("old", "body, _unavailable") == [
        [None, ["body"]],
        [P, None],
        ["a <?>", None],
    ]


def test_a_placeholder_that_json_would_escape_is_refused() -> None:
    for text in ('a"b', "a\\b", "hex:00", "hex:0", "", "hex:c3bc"):
        with pytest.raises(UserError, match=r"changes\.unavailable_value"):
            parse_contract(articles(unavailable_value=text))
    assert parse_contract(articles(unavailable_value="hex:3c3f3e")).placeholder == "<?>"


def test_a_model_knows_the_columns_that_its_stream_may_lack_by_the_contract() -> None:
    sources = {"source.shop.bronze.orders": articles()}

    def lacking(table: str, columns: list[str]) -> list[str]:
        return unavailable_columns(sources, "bronze", table, columns)

    assert lacking("ORDERS", ["id", "BODY", "length", "position", "tags"]) == [
        *("BODY", "length", "tags"),
    ]
    assert lacking("others", ["body"]) == []
    (bronze, quarantine) = stream_tables(articles())
    assert (bronze.marks, quarantine.marks) == (
        {"_unavailable": "`_unavailable` array<string>"},
        {},
    )
    (plain, _) = stream_tables(node({"id": "int"}))
    assert plain.marks == {} and "_unavailable" not in " ".join(plain.columns)


def test_an_expression_lacks_what_it_mentions() -> None:
    names = ["body", "op", "order id"]
    for expression, expected in {
        "length(Body)": ["body"],
        "payload.op = 'd'": [],
        "payload.after.op": ["op"],
        "payload.after['body']": ["body"],
        "concat('body', x)": [],
        "nobody + body_2": [],
        "`order id` + 1": ["order id"],
    }.items():
        assert placeholders.names_in(expression, names) == expected, expression


def test_the_pattern_of_placeholders_matches_whole_values_of_fields() -> None:
    pattern = placeholders.pattern(P, ["body", "tags"])

    def cleared(text: str) -> str:
        return re.sub(pattern, r"\1null", text)

    assert cleared(f'{{"body": "{P}", "tags" : [ "{P}" ]}}') == '{"body": null, "tags" : null}'
    for text in (f'{{"x": "{P}"}}', f'{{"body": "a{P}"}}', f'{{"body": ["a", "{P}"]}}'):
        assert cleared(text) == text
    inner = json.dumps({"body": json.dumps({"body": P})})
    assert cleared(inner) == inner


# id, sequence, body, whether body is unavailable, is_deletion; in the order of arrival
HISTORY: list[tuple[int, int, str | None, bool, bool]] = [
    (1, 10, "long text", False, False),
    (1, 12, None, True, False),
    # an event that is late
    (1, 11, "corrected", False, False),
    # nothing before it
    (2, 20, None, True, False),
    (2, 21, "known", False, False),
    (2, 22, None, True, False),
    # a value that is null is a value
    (3, 30, "x", False, False),
    (3, 31, None, False, False),
    (3, 32, None, True, False),
    # a deletion between, which has an image
    (4, 40, "before", False, False),
    (4, 41, "image", False, True),
    (4, 42, None, True, False),
    (4, 43, "after", False, False),
    (4, 44, None, True, False),
    # a snapshot between
    (5, 50, "old", False, False),
    (5, 51, "snapshot", False, False),
    (5, 52, None, True, False),
    # sent twice
    (5, 52, None, True, False),
]


def test_a_value_that_an_event_lacks_is_the_last_one_since_the_last_deletion() -> None:
    rows = [
        (key, sequence, None, deletes, place, body, ["body"] if lacks else None)
        for place, (key, sequence, body, lacks, deletes) in enumerate(HISTORY)
    ]
    with duckdb.connect() as connection:
        connection.execute(
            "create table b (id int, sequence bigint, changed_at timestamp, is_deletion boolean,"
            " position bigint, body text, _unavailable text[])"
        )
        connection.executemany("insert into b values (?, ?, ?, ?, ?, ?, ?)", rows)
        sql = _in_duckdb(_change_events("b", "id", ["body"], ["body"]))
        query = f"select sequence, body, _unavailable from ({sql}) order by sequence"
        found = connection.execute(query).fetchall()
    assert found == [
        (10, "long text", []),
        (11, "corrected", []),
        (12, "corrected", []),
        (20, None, ["body"]),
        (21, "known", []),
        (22, "known", []),
        (30, "x", []),
        (31, None, []),
        (32, None, []),
        (40, "before", []),
        (41, "image", []),
        (42, None, ["body"]),
        (43, "after", []),
        (44, "after", []),
        (50, "old", []),
        (51, "snapshot", []),
        (52, "snapshot", []),
    ]


def test_a_contract_that_cannot_be_stored_or_read_is_refused_when_it_is_parsed() -> None:
    for declared, said in (
        (
            node({"Order ID (new)": "int"}),
            "column Order ID (new): Delta stores no name with a blank or one of ,;{}()=, and "
            "ingestion none with a `: write {name: order_id_new, data_type: int, config: {meta: "
            '{from: "Order ID (new)"}}}',
        ),
        (
            node({"id": "int"}, {"format": "csv", "options": {"encoding": "window-1252"}}),
            "config.meta.stream: options: encoding: 'window-1252' is not an encoding here, did you "
            "mean 'windows-1252'? (allowed: utf-8, utf-16, utf-16be, utf-16le, ",
        ),
    ):
        problem = stream_problem(declared)
        assert problem is not None
        assert problem.startswith(f"[HW_CONTRACT] models/bronze/orders.yml: bronze.orders: {said}")
    latin = node({"id": "int"}, {"format": "csv", "options": {"encoding": "ISO-8859-1"}})
    assert stream_problem(latin) is None
