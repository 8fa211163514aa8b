"""A shop's database as three change streams: customers and orders by Debezium, products flat.

The simulation executes statement by statement. Every change of a row gets the next number of the
log (`lsn`), which defines the order. Delivery differs from it: events are repeated, and some arrive
long after their successors. The same configuration gives the same bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from random import Random
from typing import Any, Literal, NamedTuple

from headwaters.devkit.samples.clock import iso, milliseconds
from headwaters.devkit.samples.simulation import Simulation, check_share
from headwaters.platform.errors import UserError

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000  # in milliseconds, as all times here

FIRST_NAMES = ("Ada", "Ben", "Chloé", "Dmitri", "Emeka", "Fatma", "Grete", "Hiro", "Inês", "Jürgen")
LAST_NAMES = ("Ahn", "Berg", "Costa", "Dubois", "Eze", "Fischer", "García", "Haddad", "Ito", "Ød")
COUNTRIES = ("DE", "FR", "GB", "PT", "SE")
CATEGORIES = {"Garden": 35.0, "Kitchen": 24.0, "Office": 60.0, "Toys": 18.0}
# The next status of an order
NEXT = {"placed": "paid", "paid": "shipped", "shipped": "delivered"}

Operation = Literal["c", "u", "d", "r"]
Row = dict[str, Any]


@dataclass(frozen=True)
class RetailConfig(Simulation):
    """The settings of the simulation. Shares are of the events. Raises UserError."""

    customers: int = 150
    products: int = 40
    orders: int = 500
    seed: int = 7
    start: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    days: int = 28
    duplicates: float = 0.03
    late: float = 0.03

    def __post_init__(self) -> None:
        """Check the values."""
        if min(self.customers, self.products, self.days) < 1 or self.orders < 0:
            raise UserError(
                "HW_ARGUMENT", "--customers, --products and --days must be at least 1, --orders 0"
            )
        check_share("duplicates", self.duplicates, "all events")
        check_share("late", self.late, "all events")


class LoggedChange(NamedTuple):
    """One change of a row in the database's log."""

    table: str
    operation: Operation
    lsn: int
    time: int  # milliseconds since 1970
    key: int
    before: Row | None
    after: Row | None


class Event(NamedTuple):
    """One record of a change stream: the value is None for a tombstone."""

    key: str
    value: str | None
    kind: Literal["ordinary", "late", "duplicate"] = "ordinary"


KEYS = {"customers": "customer_id", "products": "product_id", "orders": "order_id"}


@dataclass
class _Database:
    """The tables of the shop, and the log of their changes."""

    tables: dict[str, dict[int, Row]] = field(default_factory=lambda: {name: {} for name in KEYS})
    log: list[LoggedChange] = field(default_factory=list)

    def write(self, table: str, time: int, row: Row, operation: Operation | None = None) -> None:
        """Insert or update a row."""
        key = row[KEYS[table]]
        before = self.tables[table].get(key)
        self._append(table, operation or ("u" if before else "c"), time, key, before, row)
        self.tables[table][key] = row

    def delete(self, table: str, time: int, key: int) -> None:
        """Delete a row."""
        self._append(table, "d", time, key, self.tables[table].pop(key), None)

    def update(self, table: str, time: int, key: int, **columns: Any) -> None:
        """Change columns of a row."""
        self.write(table, time, {**self.tables[table][key], **columns})

    def _append(
        self, table: str, operation: Operation, time: int, key: int, before: Any, after: Any
    ) -> None:
        lsn = 24_000_000 + 56 * len(self.log)
        self.log.append(LoggedChange(table, operation, lsn, time, key, before, after))


@cache
def changes(config: RetailConfig) -> tuple[LoggedChange, ...]:
    """Return every change of the three tables, in the order of the log.

    Customers are in a snapshot (`r`) or sign up, move, change their segment, and are deleted; some
    come back. Some get another number, which deletes one row and inserts another. Prices of
    products change; products leave the range, and some return. Orders go through their status, are
    corrected and cancelled; test orders are deleted.
    """
    database, rng = _Database(), config.random("retail")
    start = milliseconds(config.start)
    for number in range(1, config.products + 1):
        database.write("products", start, _product(rng, number), "c")
    known = config.customers // 3
    for number in range(1, known + 1):
        database.write("customers", start, _customer(rng, number, start), "r")
    for time, act in _actions(config, rng, start, known):
        act(database, rng, time)
    return tuple(database.log)


_Act = Callable[[_Database, Random, int], None]


def _actions(config: RetailConfig, rng: Random, start: int, known: int) -> list[tuple[int, _Act]]:
    """Return the actions after the snapshot, in the order of time."""

    def moment() -> int:
        return start + int(rng.random() * config.days * DAY)

    actions: list[tuple[int, _Act]] = []
    for number in range(known + 1, config.customers + 1):
        actions.append((moment(), _sign_up(number)))
    for number in range(1, config.orders + 1):
        actions += _order(config, rng, number, moment())
    for number in range(1, config.customers + 1):
        actions += [(moment(), _move) for _ in range(2) if rng.random() < 0.5]
        if rng.random() < 0.15:
            at = moment()
            actions.append((at, _leave(number)))
            if rng.random() < 0.5:
                actions.append((at + int(rng.random() * 5 * DAY), _sign_up(number)))
        if rng.random() < 0.05:
            actions.append((moment(), _renumber(number)))
    for number in range(1, config.products + 1):
        actions += [(moment(), _reprice(number)) for _ in range(3)]
        if rng.random() < 0.2:
            at = moment()
            actions.append((at, _withdraw(number)))
            if rng.random() < 0.7:
                actions.append((at + DAY, _list_again(number)))
    return sorted(actions, key=lambda action: action[0])


def _customer(rng: Random, number: int, time: int) -> Row:
    name = f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}"
    return {
        "customer_id": number,
        "full_name": name,
        "email": f"customer{number}@example.com",
        "country": rng.choice(COUNTRIES),
        "segment": "business" if rng.random() < 0.2 else "consumer",
        "joined": time // DAY,  # io.debezium.time.Date
    }


def _product(rng: Random, number: int) -> Row:
    category = rng.choice(tuple(CATEGORIES))
    price = CATEGORIES[category] * math.exp(rng.gauss(0, 0.5))
    return {
        "product_id": number,
        "name": f"{category} {number:03d}",
        "category": category,
        "price": round(price, 2),
    }


def _sign_up(number: int) -> _Act:
    def act(database: _Database, rng: Random, time: int) -> None:
        if number not in database.tables["customers"]:
            database.write("customers", time, _customer(rng, number, time))

    return act


def _move(database: _Database, rng: Random, time: int) -> None:
    if not database.tables["customers"]:
        return
    number = rng.choice(sorted(database.tables["customers"]))
    column, values = rng.choice((("country", COUNTRIES), ("segment", ("consumer", "business"))))
    database.update("customers", time, number, **{column: rng.choice(values)})


def _leave(number: int) -> _Act:
    def act(database: _Database, rng: Random, time: int) -> None:
        if number in database.tables["customers"]:
            database.delete("customers", time, number)

    return act


def _renumber(number: int) -> _Act:
    def act(database: _Database, rng: Random, time: int) -> None:
        row = database.tables["customers"].get(number)
        if row is None:
            return
        database.delete("customers", time, number)
        database.write("customers", time, {**row, "customer_id": number + 10_000})
        for order in [*database.tables["orders"].values()]:
            if order["customer_id"] == number:
                database.update("orders", time, order["order_id"], customer_id=number + 10_000)

    return act


def _reprice(number: int) -> _Act:
    def act(database: _Database, rng: Random, time: int) -> None:
        if row := database.tables["products"].get(number):
            price = round(row["price"] * rng.choice((0.8, 0.95, 1.05, 1.1)), 2)
            database.update("products", time, number, price=price)

    return act


def _withdraw(number: int) -> _Act:
    def act(database: _Database, rng: Random, time: int) -> None:
        if number in database.tables["products"]:
            database.delete("products", time, number)

    return act


def _list_again(number: int) -> _Act:
    def act(database: _Database, rng: Random, time: int) -> None:
        if number not in database.tables["products"]:
            database.write("products", time, _product(rng, number))

    return act


def _order(config: RetailConfig, rng: Random, number: int, time: int) -> Iterator[tuple[int, _Act]]:
    """Yield an order and its later changes."""

    def place(database: _Database, rng: Random, time: int) -> None:
        products = database.tables["products"]
        if not products or not database.tables["customers"]:
            return
        product = products[rng.choice(sorted(products))]
        row = {
            "order_id": number,
            "customer_id": rng.choice(sorted(database.tables["customers"])),
            "product_id": product["product_id"],
            "quantity": 1 + int(rng.expovariate(1)),
            "unit_price": f"{product['price']:.2f}",  # decimal.handling.mode=string
            "status": "placed",
            "placed": time * 1000,  # io.debezium.time.MicroTimestamp
        }
        database.write("orders", time, row)

    def change(**columns: Any) -> _Act:
        def act(database: _Database, rng: Random, time: int) -> None:
            if number in database.tables["orders"]:
                database.update("orders", time, number, **columns)

        return act

    def remove(database: _Database, rng: Random, time: int) -> None:
        if number in database.tables["orders"]:
            database.delete("orders", time, number)

    yield time, place
    if rng.random() < 0.03:
        yield time + 5 * MINUTE, remove
        return
    if rng.random() < 0.05:
        yield time + HOUR, change(quantity=1 + int(rng.expovariate(0.5)))
    status = "placed"
    while status in NEXT and rng.random() < 0.9:
        status = NEXT[status]
        time += int((0.2 + rng.expovariate(1)) * DAY)
        yield time, change(status=status)
    if status != "delivered" and rng.random() < 0.4:
        yield time + HOUR, change(status="cancelled")


def debezium(change: LoggedChange, full: bool) -> str:
    """Return a change in Debezium's envelope; unless `full`, `before` has only the key."""
    before: Row | None = change.before
    if before is not None and not full:
        key = KEYS[change.table]
        only = {name: value if name == key else None for name, value in before.items()}
        before = only if change.operation == "d" else None
    source = {
        "version": "3.3.1.Final",
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": change.time,
        "snapshot": "true" if change.operation == "r" else "false",
        "db": "shop",
        "schema": "public",
        "table": change.table,
        "txId": change.lsn // 56,
        "lsn": change.lsn,
    }
    event = {
        "before": before,
        "after": change.after,
        "source": source,
        "op": change.operation,
        "ts_ms": change.time + 300,
    }
    return json.dumps(event, ensure_ascii=False)


def flat(change: LoggedChange) -> str:
    """Return a change as the columns of its row, with an operation and a sequence."""
    names: Mapping[str, str] = {"c": "insert", "r": "insert", "u": "update", "d": "delete"}
    row = change.after or {KEYS[change.table]: change.key}
    event = {
        "operation": names[change.operation],
        "sequence": change.lsn,
        "changed_at": iso(change.time),
        **row,
    }
    return json.dumps(event, ensure_ascii=False)


ENCODED: dict[str, Callable[[LoggedChange], str]] = {
    "customers": lambda change: debezium(change, full=True),
    "orders": lambda change: debezium(change, full=False),
    "products": flat,
}
# stream → table
STREAMS = {
    "customer_changes": "customers",
    "product_changes": "products",
    "order_changes": "orders",
}


def events(config: RetailConfig, stream: str) -> Iterator[Event]:
    """Yield the records of a stream in the order of delivery, a tombstone after each deletion."""
    table, rng = STREAMS[stream], config.random(f"retail:{stream}")
    due: list[tuple[float, list[Event]]] = []
    for index, change in enumerate(one for one in changes(config) if one.table == table):
        key = json.dumps({KEYS[table]: change.key})
        records = [Event(key, ENCODED[table](change))]
        if change.operation == "d":
            records.append(Event(key, None))
        late, repeated = rng.random() < config.late, rng.random() < config.duplicates
        behind, again = rng.random() * 100, rng.random() * 100
        due.append(
            (
                index + behind * late,
                [one._replace(kind="late") for one in records] if late else records,
            )
        )
        if repeated:
            twice = [one._replace(kind="duplicate") for one in records]
            due.append((index + behind * late + 1 + again, twice))
    for _, records in sorted(due, key=lambda one: one[0]):
        yield from records
