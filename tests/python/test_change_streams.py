"""Test that change streams reach bronze as typed rows, and that models equal their source."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import jinja2
import pytest
import sqlglot
import yaml
from ingestion import ROOT, Ingester, Node, audit, node
from processes import environment
from retail_expected import seen, tables

from headwaters.devkit import broker as brokers
from headwaters.devkit.samples.retail import STREAMS, Event, RetailConfig, changes, events
from headwaters.devkit.samples.send import make_topic, send
from headwaters.platform.project import Project
from headwaters.streams.contract import parse_contract
from headwaters.streams.formats.debezium import enveloped

SOURCE = {"connector": "postgresql", "table": "customers", "ts_ms": 1_767_225_600_000}
CUSTOMER = {"customer_id": 1, "name": "Ada", "limit": "10.50", "joined": 20_000}
COLUMNS = {
    "customer_id": "bigint",
    "name": "string",
    "limit": "decimal(8, 2)",
    "joined": "int",
    "height": "double",
    "operation": "string",
    "sequence": "bigint",
    "changed_at": "timestamp",
}
EXPRESSIONS = {
    "operation": "payload.op",
    "sequence": "try_cast(payload.source['lsn'] as bigint)",
    "changed_at": "timestamp_micros(try_multiply(payload.ts_ms, 1000))",
}


def customers(stream: dict[str, Any] | None = None, **changes: Any) -> Node:
    """Return a stream of Debezium's events about customers."""
    declared = {"key": ["customer_id"], "envelope": "debezium", **changes}
    rules = {
        "name": [{"type": "not_null"}],
        "sequence": [{"type": "not_null"}],
        "changed_at": [
            {"type": "not_null"},
            {"type": "check", "expression": "year(changed_at) between 2000 and 2100 -- or"},
        ],
    }
    return node(COLUMNS, {"changes": declared, **(stream or {})}, "orders", rules, EXPRESSIONS)


def event(op: str | None, lsn: int, ts_ms: Any = 1_767_225_600_000, **fields: Any) -> str:
    """Return a change event, with `before` and `after` if they are given."""
    images = {"before": None, "after": None, **fields}
    return json.dumps({**images, "source": {**SOURCE, "lsn": lsn}, "op": op, "ts_ms": ts_ms})


def with_schema(text: str) -> str:
    """Return the event as a converter with schemas.enable writes it."""
    return json.dumps({"schema": {"type": "struct", "version": 1}, "payload": json.loads(text)})


def test_events_of_debezium_are_rows_of_their_columns_or_in_quarantine_with_a_reason(
    ingester: Ingester,
) -> None:
    wide = CUSTOMER | {"customer_id": 2, "phone": "+49", "score": 1.25}
    key_only = {"customer_id": 3, "name": None, "limit": None, "joined": None}
    good = [
        event("r", 1, after=CUSTOMER),
        with_schema(event("u", 2, before=CUSTOMER, after=CUSTOMER | {"name": "Bea"})),
        event("c", 3, after=wide),
        event("d", 4, before=key_only),
        event("c", 5, after=CUSTOMER | {"customer_id": 4}, transaction=None, ts_us=1, ts_ns=2),
        # the number 1.50 remains, also if the text 1.5 is in the event
        event("c", 6, after=CUSTOMER | {"customer_id": 5, "name": "1.5", "height": 1.25}).replace(
            "1.25", "1.50"
        ),
    ]
    hostile = {
        event("d", 10): ("malformed", None, "has no before"),
        event("u", 11, before=CUSTOMER): ("malformed", None, "has no after"),
        event(None, 12, after=CUSTOMER): ("malformed", None, "has no op, and is no change event"),
        event("x", 13, after=CUSTOMER): ("check", "op", "'x' is not c, r, u or d"),
        event("t", 14): (
            "check",
            "op",
            "is t: the source emptied its table, which is no change of one row",
        ),
        event("c", 15, after=CUSTOMER | {"customer_id": None}): (
            "not_null",
            "customer_id",
            "is null",
        ),
        event("c", 16, after=CUSTOMER | {"name": None}): ("not_null", "name", "is null"),
        event("c", 17, after=CUSTOMER | {"limit": "much"}): (
            "type",
            "limit",
            "'much' is not a decimal(8, 2)",
        ),
        event("c", 18, after=CUSTOMER | {"joined": "x"}): ("type", "joined", "'x' is not an int"),
        event("u", 19, before=CUSTOMER, after=CUSTOMER | {"customer_id": 9}): (
            "check",
            "customer_id",
            "is changed by an update, which has to be a deletion and an insertion",
        ),
        event("c", 20, ts_ms=2**63 - 1, after=CUSTOMER): ("not_null", "changed_at", "is null"),
        event("c", 21, ts_ms=9_999_999_999_999, after=CUSTOMER): (
            "check",
            "changed_at",
            "breaks year(changed_at) between 2000 and 2100 -- or",
        ),
        event("c", 22, after=CUSTOMER).replace('"lsn": 22', '"lsn": "one"'): (
            "not_null",
            "sequence",
            "is null",
        ),
        event("c", 23, after=CUSTOMER).replace('"Ada"', '"Ada", "name": "Bea"'): (
            "malformed",
            None,
            "has an object that repeats a name",
        ),
        event("c", 24, after=CUSTOMER) + ', "x": 1': ("malformed", None, "is not one JSON object"),
        event("c", 25, after=CUSTOMER) + event("c", 26, after=CUSTOMER): (
            "malformed",
            None,
            "is not one JSON object",
        ),
        '{"op": "c"': ("malformed", None, "is not one JSON object"),
        "7": ("type", None, "a value of before or after has another type"),
        '{"customer_id": 5}': ("malformed", None, "has no op, and is no change event"),
        '{"schema": null, "payload": null}': (
            "malformed",
            None,
            "has no op, and is no change event",
        ),
        with_schema(event("c", 27, after=CUSTOMER))[:-1] + ', "more": 1}': (
            "schema",
            "more",
            "is not declared",
        ),
        event("c", 28, after=CUSTOMER).replace('"10.50"', "1e100000000"): (
            "malformed",
            None,
            "has a number with an exponent of five digits",
        ),
        event("c", 29, after=CUSTOMER | {"height": 1.5}).replace("1.5}", "1e400}"): (
            "type",
            "height",
            """'"Infinity"' is not a double""",
        ),
        # the source is a map of texts, and 1.10 would become 1.1
        event("c", 30, after=CUSTOMER).replace('"table"', '"x": 1.10, "table"'): (
            "type",
            None,
            "has the number 1.10, which would change",
        ),
        event("c", 31, before=CUSTOMER | {"name": -1.5}, after=CUSTOMER).replace("1.5", "1.50"): (
            "type",
            None,
            "has the number -1.50, which would change",
        ),
        event("c", 32, after=CUSTOMER).replace('"table"', '"x": -0, "table"'): (
            "type",
            None,
            "has the number -0, which would change",
        ),
    }
    ingester.land("a.jsonl", *good, *hostile)
    declared = customers()
    ingester.run(declared)
    rows = "customer_id, name, `limit`, joined, operation, sequence, _rescued"
    assert ingester.rows("orders", rows, "sequence") == [
        [1, "Ada", "10.50", 20_000, "r", 1, None],
        [1, "Bea", "10.50", 20_000, "u", 2, None],
        [2, "Ada", "10.50", 20_000, "c", 3, '{"phone":"+49","score":"1.25"}'],
        [3, None, None, None, "d", 4, None],
        [4, "Ada", "10.50", 20_000, "c", 5, None],
        [5, "1.5", "10.50", 20_000, "c", 6, None],
    ]
    found = {row[3]: tuple(row[:3]) for row in ingester.quarantine()}
    assert found == hostile
    total = len(good) + len(hostile)
    counts = f"{len(good)} bronze + {len(hostile)} quarantined"
    assert audit(ingester, declared) == [f"orders: {total} read = {counts}: right"]


def flat(broker: str, topic: str, **changes: Any) -> Node:
    """Return a stream of flat events from a topic."""
    columns = {
        "operation": "string",
        "sequence": "bigint",
        "shop": "string",
        "product_id": "bigint",
        "price": "decimal(8, 2)",
        "is_deletion": "boolean",
    }
    stream = {
        "from": "kafka",
        "topics": [topic],
        "servers": broker,
        "changes": {"key": ["product_id"], **changes},
    }
    rules = {
        "operation": [{"type": "not_null"}],
        "product_id": [{"type": "check", "expression": "product_id > 0"}],
        "is_deletion": [{"type": "not_null"}],
    }
    return node(columns, stream, "orders", rules, {"is_deletion": "operation = 'delete'"})


EVENT = json.dumps({"operation": "insert", "sequence": 1, "shop": "a", "product_id": 5})
TOMBSTONES: list[tuple[Any, Any]] = [
    ('{"product_id": 5}', EVENT),
    ('{"product_id": 5}', None),
    ('{"schema": {}, "payload": {"product_id": 6}}', None),
    ("7", None),
    (b"\xff", None),
    ('{"id": 8}', None),
    ("-9", None),
    (None, None),
    ('{"product_id": 5}', "{}"),
    ('{"product_id": 5}', ""),
]
OF_TOMBSTONES = "product_id, operation, is_deletion, price, _offset, _rescued"
# the rows of a contract that takes tombstones for rows
ROWS: list[list[Any]] = [
    [5, "insert", False, None, 0, None],
    [5, None, None, None, 1, None],
    [6, None, None, None, 2, None],
    [7, None, None, None, 3, None],
]
REFUSED: list[list[Any]] = [
    ["not_null", "product_id", "is null", 4],
    ["not_null", "product_id", "is null", 5],
    ["check", "product_id", "breaks product_id > 0", 6],
    ["malformed", None, "is empty", 7],
    ["not_null", "operation", "is null", 8],
    ["malformed", None, "is empty", 9],
]


@pytest.mark.slow
def test_a_tombstone_is_a_row_of_its_key_where_the_contract_says_so(
    ingester: Ingester, broker: str, topic: str
) -> None:
    topic = f"{topic}_1"  # one partition with known offsets
    make_topic(broker, topic, 1)
    send(broker, topic, TOMBSTONES)
    ingester.run(flat(broker, topic, tombstones="rows"))
    assert ingester.rows("orders", OF_TOMBSTONES, "_offset") == ROWS
    reasons = "reason, field, message, _offset"
    assert ingester.rows("orders_quarantine", reasons, "_offset") == REFUSED
    keys = ingester.rows("orders_quarantine", "row_key", "_offset")
    assert keys == [[None], [None], ['{"product_id":-9}'], *[[None]] * 3]


@pytest.mark.slow
def test_tombstones_that_were_refused_are_rows_where_the_contract_says_so_later(
    ingester: Ingester, broker: str, topic: str
) -> None:
    topic = f"{topic}_1"
    make_topic(broker, topic, 1)
    send(broker, topic, TOMBSTONES)
    strict = flat(broker, topic)
    ingester.run(strict)
    assert ingester.rows("orders", "product_id", "_offset") == [[5]]
    assert audit(ingester, strict) == ["orders: 10 read = 1 bronze + 9 quarantined: right"]

    # a corrected contract moves the records that it accepts
    accepting = flat(broker, topic, tombstones="rows")
    request = {"lake": str(ingester.lake), "replay": [accepting], "dry_run": False}
    refused = {"malformed": 2, "not_null operation": 1, "not_null product_id": 2}
    refused["check product_id"] = 1
    assert ingester.ask(**request) == {"orders": [3, refused]}
    assert ingester.rows("orders", OF_TOMBSTONES, "_offset") == ROWS

    # and so does a batch
    send(broker, topic, TOMBSTONES)
    ingester.run(accepting)
    again = [[*row[:4], row[4] + 10, row[5]] for row in ROWS]
    assert ingester.rows("orders", OF_TOMBSTONES, "_offset") == [*ROWS, *again]
    reasons = "reason, field, message, _offset"
    assert ingester.rows("orders_quarantine", reasons, "_offset")[6:] == [
        [*row[:3], row[3] + 10] for row in REFUSED
    ]
    assert audit(ingester, accepting) == ["orders: 20 read = 8 bronze + 12 quarantined: right"]


CONFIG = RetailConfig(customers=650, products=160, orders=2_250, duplicates=0.1, late=0.1)


def test_the_examples_of_the_reference_are_contracts_and_events() -> None:
    page = (ROOT / "docs/change-streams.md").read_text()
    found = []
    for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL):
        if "models" in (written := yaml.safe_load(text)):
            continue
        (table,) = written["sources"][0]["tables"]
        columns = {column["name"]: column for column in table["columns"]}
        place = {"original_file_path": "x.yml", "source_name": "bronze", "schema": "bronze"}
        declared = {**place, **table, "identifier": table["name"], "columns": columns}
        found.append(enveloped(parse_contract(declared)))
    debezium, simple = found
    names = ["schema", "payload", "customer_id", "full_name", "credit", "is_deletion", "sequence"]
    assert [column.name for column in debezium.columns] == [*names, "changed_at", "position"]
    assert [column.name for column in debezium.read_columns] == ["schema", "payload"]
    assert [column.name for column in simple.computed_columns] == ["is_deletion", "position"]
    blocks = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    inserted, deleted = (json.loads(line) for line in blocks[0].splitlines())
    fields = {"customer_id", "full_name", "credit"}
    assert (inserted["op"], set(inserted["after"])) == ("c", fields)
    assert (deleted["op"], set(deleted["before"])) == ("d", fields)
    read = {column.name for column in simple.read_columns}
    assert [set(json.loads(line)) <= read for line in blocks[1].splitlines()] == [True, True]


def test_events_in_any_order_are_brought_into_that_of_the_source(tmp_path: Path) -> None:
    """Run the SQL of the macro and models in DuckDB, over 10,000 changes and their tombstones."""
    sent = {stream: list(events(CONFIG, stream)) for stream in STREAMS}
    # a connector that sends half of it again
    delivered = {stream: [*of, *of[: len(of) // 2]] for stream, of in sent.items()}
    with duckdb.connect() as connection:
        for stream in STREAMS:
            _bronze_in_duckdb(connection, tmp_path, stream, delivered[stream])
        values = {stream: [one.value for one in of] for stream, of in delivered.items()}
        for table, (columns, expected) in tables(values).items():
            layer, name = table.split(".")
            connection.execute(_in_duckdb(f"create view {name} as {_model(layer, name)}"))
            found = connection.execute(_in_duckdb(f"select {columns} from {name}")).fetchall()
            assert len(found) > 100
            assert sorted(found, key=str) == sorted(expected, key=str), table


def test_a_tombstone_deletes_what_the_event_before_it_left() -> None:
    day = datetime(2026, 1, 1)
    rows = [
        # compaction removed its delete event; later its key was inserted again
        (1, 10, day, False, 0),
        (1, None, None, None, 1),
        (1, 20, day, False, 2),
        # all of it is sent again
        (1, 10, day, False, 3),
        (1, None, None, None, 4),
        # an older update arrives after the tombstone
        (2, 10, day, False, 5),
        (2, 30, day, True, 6),
        (2, None, None, None, 7),
        (2, 20, day, False, 8),
        # no event before it
        (3, None, None, None, 9),
        # different events of one sequence: the deletion, and the greatest
        (4, 10, day, True, 10),
        (4, 10, day, False, 11),
        (5, 10, day, False, 12),
        (5, 10, day + timedelta(days=1), False, 13),
    ]
    with duckdb.connect() as connection:
        connection.execute(
            "create table b (id int, sequence bigint, changed_at timestamp, is_deletion boolean,"
            " position bigint, name text)"
        )
        connection.executemany("insert into b values (?, ?, ?, ?, ?, 'x')", rows)
        found = connection.execute(_in_duckdb(_change_events("b", "id", ["name"]))).fetchall()
    assert sorted(row[:4] for row in found) == [
        (1, 10, day, True),
        (1, 20, day, False),
        (2, 10, day, False),
        (2, 20, day, False),
        (2, 30, day, True),
        (4, 10, day, True),
        (5, 10, day + timedelta(days=1), False),
    ]


def _change_events(
    relation: str, key: str, columns: list[str], unavailable: Sequence[str] = ()
) -> str:
    """Return the macro's query, as dbt renders it."""
    template = (ROOT / "macros/sql/change_events.sql").read_text()
    environment = jinja2.Environment(extensions=["jinja2.ext.do"])
    environment.globals |= {
        "hw_as_list": lambda value: [value],
        "hw_quoted": _quoted,
        "hw_quote": lambda name: f"`{name}`",
        "hw_literal": lambda text: f"'{text}'",
    }
    macro: Any = environment.from_string(template).module
    return str(macro.change_events(relation, key, columns, list(unavailable)))


def _quoted(columns: list[str], alias: str | None = None) -> list[str]:
    return [f"{alias}.`{name}`" if alias else f"`{name}`" for name in columns]


def _model(layer: str, name: str) -> str:
    environment = jinja2.Environment()
    given = {
        "change_events": _change_events,
        "source": lambda schema, table: table,
        "ref": str,
        "config": lambda **settings: "",
    }
    return environment.from_string((ROOT / f"models/{layer}/{name}.sql").read_text()).render(given)


def _in_duckdb(sql: str) -> str:
    (translated,) = sqlglot.transpile(sql, read="spark", write="duckdb")
    functions = {"UNIX_MICROS": "epoch_us", "TIMESTAMP_MICROS": "make_timestamp"}
    functions["UNIX_MILLIS"] = "epoch_ms"
    for name, other in functions.items():
        translated = translated.replace(f"{name}(", f"{other}(")
    return translated


def _bronze_in_duckdb(
    connection: duckdb.DuckDBPyConnection, folder: Path, stream: str, delivered: list[Event]
) -> None:
    """Create the bronze rows of the events in DuckDB, with their places in a partition."""
    rows = []
    for position, one in enumerate(delivered):
        row: dict[str, Any] = {"position": position, **json.loads(one.key)}
        if one.value is not None:
            (changed,) = [change for of in seen(stream, [one.value]).values() for change in of]
            moment = datetime(1970, 1, 1) + timedelta(milliseconds=changed.time)
            row |= {"sequence": changed.sequence, "is_deletion": changed.row is None}
            row |= {**(changed.row or {}), "changed_at": moment.isoformat()}
        if "joined" in row:
            row["joined_on"] = (date(1970, 1, 1) + timedelta(days=row["joined"])).isoformat()
        if "placed" in row:
            placed = datetime(1970, 1, 1) + timedelta(microseconds=row["placed"])
            row["placed_at"] = placed.isoformat()
        rows.append(row)
    types = {
        "customer_changes": "full_name text, email text, country text, segment text,"
        " joined_on date",
        "product_changes": "name text, category text, price decimal(12, 2)",
        "order_changes": "customer_id bigint, product_id bigint, quantity int,"
        " unit_price decimal(12, 2), status text, placed_at timestamp",
    }[stream]
    key = f"{STREAMS[stream][:-1]}_id"
    common = f"{key} bigint, sequence bigint, changed_at timestamp, is_deletion boolean"
    connection.execute(f"create table {stream} ({common}, position bigint, {types})")
    lines = folder / f"{stream}.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    declared = connection.execute(f"describe {stream}").fetchall()
    columns = ", ".join(f"{name}: '{kind}'" for name, kind, *_ in declared)
    read = f"read_json('{lines}', format = 'newline_delimited', columns = {{{columns}}})"
    connection.execute(f"insert into {stream} select * from {read}")


ROUNDS = 5


@pytest.mark.slow
def test_ten_thousand_changes_in_any_order_leave_the_tables_that_the_source_has(
    spark: Any, broker_lake: Path, tmp_path: Path
) -> None:
    # its topics have the streams' names, as in test_simulate_sent.py those of the shared broker
    broker = brokers.start(Project(ROOT)).servers
    assert len(changes(CONFIG)) >= 10_000
    sent = {stream: list(events(CONFIG, stream)) for stream in STREAMS}
    assert any(one.value is None for one in sent["customer_changes"])
    delivered: dict[str, list[Event]] = {stream: [] for stream in STREAMS}
    for number in range(ROUNDS):
        part: dict[str, list[Event]] = {}
        for stream, of in sent.items():
            first, last = (len(of) * edge // ROUNDS for edge in (number, number + 1))
            part[stream] = of[first:last]
        _deliver(broker, part, delivered)
        _run(tmp_path, broker, "ingest", "--once", "--select", SOURCES)
        _run(tmp_path, broker, "dbt", "run", "--select", MODELS, "--fail-fast")
        _compare(spark, tmp_path, delivered)
    # a consumer that starts again, and a connector that sends everything again
    _deliver(broker, {stream: of[: len(of) // 2] for stream, of in sent.items()}, delivered)
    _run(tmp_path, broker, "ingest", "--once", "--select", SOURCES)
    _run(tmp_path, broker, "dbt", "build", "--select", MODELS, "--warn-error")
    _compare(spark, tmp_path, delivered)
    said = _run(tmp_path, broker, "audit", "--select", SOURCES)
    assert [line.endswith(": right") for line in said.splitlines()] == [True] * 3, said

    present: dict[str, dict[int, Any]] = {table: {} for table in STREAMS.values()}
    for change in changes(CONFIG):
        present[change.table][change.key] = change.after
    for table, rows in present.items():
        there = [key for key, row in rows.items() if row is not None]
        path = tmp_path / "warehouse" / "silver.db" / f"silver_{table}_current"
        found = spark.sql(f"select {table[:-1]}_id from delta.`{path}`").collect()
        assert sorted(row[0] for row in found) == sorted(there)


SOURCES = " ".join(f"source:bronze.{stream}" for stream in STREAMS)
MODELS = "silver_customer_history+ silver_products_current+ silver_orders_current+"


def _deliver(broker: str, part: dict[str, list[Event]], delivered: dict[str, list[Event]]) -> None:
    for stream, of in part.items():
        make_topic(broker, stream)
        send(broker, stream, [(one.key, one.value) for one in of])
        delivered[stream] += of


def _run(lake: Path, broker: str, command: str, *arguments: str) -> str:
    scripts = Path(sys.executable).parent
    binary = "dbt" if command == "dbt" else "headwaters"
    program = [str(scripts / binary), *([command] if binary == "headwaters" else [])]
    kafka = {"HEADWATERS_RETAIL_FROM": "kafka", "KAFKA_BOOTSTRAP_SERVERS": broker}
    done = subprocess.run(
        [*program, *_split(arguments)],
        cwd=ROOT,
        env=environment(lake) | kafka,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _split(arguments: Iterable[str]) -> list[str]:
    return [word for argument in arguments for word in argument.split()]


def _compare(spark: Any, lake: Path, delivered: dict[str, list[Event]]) -> None:
    values = {stream: [one.value for one in of] for stream, of in delivered.items()}
    for table, (columns, expected) in tables(values).items():
        schema, name = table.split(".")
        path = lake / "warehouse" / f"{schema}.db" / name
        rows = spark.sql(f"select {columns} from delta.`{path}`").collect()
        assert sorted(map(tuple, rows), key=str) == sorted(expected, key=str), table
