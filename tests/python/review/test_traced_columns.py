"""Test which columns a review masks, and which have the time of a run."""

from __future__ import annotations

from typing import Any

import pytest

from headwaters.review.sides import Side
from headwaters.review.traced_columns import Masks, momentary_columns, with_columns

PERSONAL = {"config": {"meta": {"pii": "customer"}}}


def node(name: str, sql: str | None = None, reads: tuple[str, ...] = (), **columns: Any) -> Any:
    """Return a source, or a model of a SQL text."""
    kind = "source" if sql is None else "model"
    return {
        "resource_type": kind,
        "source_name": "raw",
        "name": name,
        "alias": name,
        "identifier": name,
        "schema": "shop",
        "original_file_path": f"models/{name}.sql",
        "config": {"materialized": "table"},
        "compiled_code": sql,
        "columns": columns,
        "depends_on": {"nodes": reads},
    }


ORDERS = {
    "orders": node("orders", id={}, customer_id=PERSONAL, amount={}),
    "labels": node(
        "labels",
        "select id, concat('customer ', customer_id) as label, amount from shop.orders",
        ("orders",),
    ),
    "hashes": node("hashes", "select sha2(label, 256) as h, amount from shop.labels", ("labels",)),
    "totals": node(
        "totals",
        "select customer_id as customer, count(*) as n from shop.orders group by customer_id",
        ("orders",),
    ),
    "counts": node(
        "counts", "select count(*) as n from shop.orders where customer_id = 'a'", ("orders",)
    ),
    "unread": node("unread", "select ((( from shop.labels", ("labels",), some={}),
    "after_it": node("after_it", "select some, 1 as one from shop.unread", ("unread",)),
}


def test_columns_computed_from_personal_ones_are_masked() -> None:
    masks = Masks(Side(ORDERS, {}, {}), Side({}, {}, {}))
    assert {key: sorted(masks.of(key) - {"customer_id"}) for key in ORDERS} == {
        "orders": [],
        "labels": ["label"],
        "hashes": ["h"],
        "totals": ["customer"],
        "counts": [],
        "unread": ["*"],
        "after_it": ["some"],
    }
    # by its name, a column is masked in a table that either side has
    assert masks.of("no lineage at all") == {"customer_id"}


def test_a_declaration_of_either_side_masks() -> None:
    base = Side({"a": node("a", Mail=PERSONAL)}, {}, {})
    head = Side({"a": node("a", phone={"meta": {"pii": "user"}})}, {}, {})
    assert Masks(base, head).of("a") == {"mail", "phone"}


def test_columns_that_a_source_does_not_declare_are_those_of_its_table() -> None:
    nodes = {
        "orders": node("orders", customer_id=PERSONAL),
        "joined": node(
            "joined", "select customer_id as a, amount as b from shop.orders", ("orders",)
        ),
    }
    columns = {"CUSTOMER_ID": "string", "amount": "int"}
    side = with_columns(Side(nodes, {}, {}), ["joined", "gone"], lambda _: columns)
    assert Masks(side).of("joined") == {"customer_id", "a"}
    unknown = with_columns(Side(nodes, {}, {}), ["joined"], lambda _: None)
    assert Masks(unknown).of("joined") == {"customer_id", "*"}


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("select id, current_timestamp() as at from shop.orders", ["at"]),
        ("select id, current_timestamp as at, 1 as current_date from shop.orders", ["at"]),
        ("select id, cast(now() as string) as a, upper(uuid()) as b from shop.orders", ["a", "b"]),
        ("select o.user, rand(7) as r from (select id as user from shop.orders) as o", ["r"]),
        ("select id, 'now()' as text from shop.orders -- now()", []),
        ("with a as (select id, now() as t from shop.orders) select id, t as u from a", ["u"]),
    ],
)
def test_columns_of_the_moment_are_found(sql: str, columns: list[str]) -> None:
    nodes = {
        "orders": ORDERS["orders"],
        "made": node("made", sql, ("orders",)),
        "below": node("below", "select * from shop.made", ("made",)),
    }
    found = momentary_columns(Side(nodes, {}, {}))
    expected = frozenset(columns)
    assert found == ({"made": expected, "below": expected} if columns else {})
