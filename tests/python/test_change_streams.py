"""Change streams reach bronze as typed rows, and models that equal what the source holds."""

from __future__ import annotations

import json
from typing import Any

from ingestion import Ingester, Node, audit, node

SOURCE = {"connector": "postgresql", "table": "customers", "ts_ms": 1_767_225_600_000}
CUSTOMER = {"customer_id": 1, "name": "Ada", "limit": "10.50", "joined": 20_000}
COLUMNS = {
    "customer_id": "bigint",
    "name": "string",
    "limit": "decimal(8, 2)",
    "joined": "int",
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
    """A stream of Debezium's events about customers."""
    declared = {"key": ["customer_id"], "envelope": "debezium", **changes}
    rules = {
        "name": [{"type": "not_null"}],
        "sequence": [{"type": "not_null"}],
        "changed_at": [
            {"type": "not_null"},
            {"type": "check", "expression": "year(changed_at) between 2000 and 2100"},
        ],
    }
    return node(COLUMNS, {"changes": declared, **(stream or {})}, "orders", rules, EXPRESSIONS)


def event(op: str | None, lsn: int, ts_ms: Any = 1_767_225_600_000, **fields: Any) -> str:
    """A change event; `before` and `after` may be given."""
    images = {"before": None, "after": None, **fields}
    return json.dumps({**images, "source": {**SOURCE, "lsn": lsn}, "op": op, "ts_ms": ts_ms})


def with_schema(text: str) -> str:
    """The event as a converter with schemas.enable writes it."""
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
        event("c", 18, after=CUSTOMER | {"joined": "x"}): ("type", "joined", "'x' is not a int"),
        event("u", 19, before=CUSTOMER, after=CUSTOMER | {"customer_id": 9}): (
            "check",
            "customer_id",
            "is changed by an update, which has to be a deletion and an insertion",
        ),
        event("c", 20, ts_ms=2**63 - 1, after=CUSTOMER): ("not_null", "changed_at", "is null"),
        event("c", 21, ts_ms=9_999_999_999_999, after=CUSTOMER): (
            "check",
            "changed_at",
            "breaks year(changed_at) between 2000 and 2100",
        ),
        event("c", 22, after=CUSTOMER).replace('"lsn": 22', '"lsn": "one"'): (
            "not_null",
            "sequence",
            "is null",
        ),
        event("c", 23, after=CUSTOMER).replace('"Ada"', '"Ada", "name": "Bea"'): (
            "malformed",
            None,
            "has a field twice",
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
    ]
    found = {row[3]: tuple(row[:3]) for row in ingester.quarantine()}
    assert found == hostile
    total = len(good) + len(hostile)
    counts = f"{len(good)} bronze + {len(hostile)} quarantined"
    assert audit(ingester, declared) == [f"orders: {total} read = {counts}: right"]
