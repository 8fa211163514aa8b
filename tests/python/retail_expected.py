"""Compute the tables of the retail domain from its streams' records in plain Python."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

Row = tuple[Any, ...]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KEYS = {
    "customer_changes": "customer_id",
    "product_changes": "product_id",
    "order_changes": "order_id",
}


@dataclass(frozen=True)
class Seen:
    """A change of a row, as its record has it; times in milliseconds."""

    key: int
    sequence: int
    time: int
    row: dict[str, Any] | None


def seen(stream: str, values: Iterable[str | None]) -> dict[int, list[Seen]]:
    """Return the changes of each key in the order of the log, each of them once."""
    found: dict[int, dict[int, Seen]] = defaultdict(dict)
    for value in values:
        if value is not None:
            one = _read(json.loads(value), KEYS[stream])
            found[one.key][one.sequence] = one
    return {key: [of[at] for at in sorted(of)] for key, of in found.items()}


def _read(record: dict[str, Any], key: str) -> Seen:
    if "operation" in record:
        moment = datetime.fromisoformat(record["changed_at"]) - EPOCH
        row = None if record["operation"] == "delete" else record
        return Seen(record[key], record["sequence"], moment // timedelta(milliseconds=1), row)
    source, after = record["source"], record["after"]
    return Seen((after or record["before"])[key], source["lsn"], source["ts_ms"], after)


def current(changes: dict[int, list[Seen]]) -> dict[int, tuple[Seen, dict[str, Any]]]:
    """Return the rows of the source, each with its last change."""
    last = {key: of[-1] for key, of in changes.items()}
    return {key: (one, one.row) for key, one in last.items() if one.row is not None}


def customer_history(changes: dict[int, list[Seen]]) -> list[Row]:
    """Return customer, sequence, name, country, segment, registration, start, end of a period."""
    rows: list[Row] = []
    for key, of in changes.items():
        starts: list[int] = []
        for one in of:
            starts.append(max([one.time, *starts[-1:]]))
        for one, start, end in zip(of, starts, [*starts[1:], None], strict=True):
            row = one.row
            if row is not None and (end is None or end > start):
                joined = date(1970, 1, 1) + timedelta(days=row["joined"])
                what = (row["full_name"], row["country"], row["segment"], joined)
                rows.append((key, one.sequence, *what, start, end))
    return rows


HISTORY = """
    customer_id, sequence, full_name, country, segment, joined_on, unix_millis(valid_from),
    unix_millis(valid_to)
"""


def customers(changes: dict[int, list[Seen]]) -> list[Row]:
    """Return customer, country, segment."""
    return [(k, row["country"], row["segment"]) for k, (_, row) in current(changes).items()]


def products(changes: dict[int, list[Seen]]) -> list[Row]:
    """Return product, name, category, price, time of the last change."""
    return [
        (key, row["name"], row["category"], cents(row["price"]), one.time)
        for key, (one, row) in current(changes).items()
    ]


PRODUCTS = "product_id, name, category, price, unix_millis(changed_at)"


def orders(changes: dict[int, list[Seen]]) -> list[Row]:
    """Return order, customer, product, quantity, price, amount, status, day, last change's time."""
    return [
        (
            *(row[name] for name in ("order_id", "customer_id", "product_id", "quantity")),
            Decimal(row["unit_price"]),
            row["quantity"] * Decimal(row["unit_price"]),
            row["status"],
            (EPOCH + timedelta(microseconds=row["placed"])).date(),
            one.time,
        )
        for one, row in current(changes).values()
    ]


ORDERS = """
    order_id, customer_id, product_id, quantity, unit_price, amount, status, order_date,
    unix_millis(changed_at)
"""


def customer_value(customers: list[Row], orders: list[Row]) -> list[Row]:
    """Return customer, country, segment, orders, revenue, first and last day."""
    kept: dict[int, list[Row]] = defaultdict(list)
    for order in orders:
        if order[6] != "cancelled":
            kept[order[1]].append(order)
    rows = []
    for key, country, segment in customers:
        days = [order[7] for order in kept[key]]
        revenue = sum((order[5] for order in kept[key]), Decimal("0.00"))
        first, last = min(days, default=None), max(days, default=None)
        rows.append((key, country, segment, len(days), revenue, first, last))
    return rows


def daily_revenue(orders: list[Row], products: list[Row]) -> list[Row]:
    """Return day, category, orders, pieces, revenue."""
    category_of = {row[0]: row[2] for row in products}
    groups: dict[Row, list[Row]] = defaultdict(list)
    for order in orders:
        if order[6] != "cancelled":
            groups[order[7], category_of.get(order[2])].append(order)
    return [
        (*group, len(of), sum(order[3] for order in of), sum(order[5] for order in of))
        for group, of in groups.items()
    ]


def cents(number: float) -> Decimal:
    """Return a price with two digits."""
    return Decimal(str(number)).quantize(Decimal("0.01"))


def tables(delivered: dict[str, list[str | None]]) -> dict[str, tuple[str, list[Row]]]:
    """Return the columns and rows of each table, after the delivered records of each stream."""
    changes = {stream: seen(stream, values) for stream, values in delivered.items()}
    of_customers = customers(changes["customer_changes"])
    of_products, of_orders = products(changes["product_changes"]), orders(changes["order_changes"])
    return {
        "silver.silver_customer_history": (
            HISTORY,
            customer_history(changes["customer_changes"]),
        ),
        "silver.silver_customers_current": ("customer_id, country, segment", of_customers),
        "silver.silver_products_current": (PRODUCTS, of_products),
        "silver.silver_orders_current": (ORDERS, of_orders),
        "gold.customer_value": (
            "customer_id, country, segment, orders, revenue, first_order_date, last_order_date",
            customer_value(of_customers, of_orders),
        ),
        "gold.daily_revenue": (
            "order_date, category, orders, pieces, revenue",
            daily_revenue(of_orders, of_products),
        ),
    }
