"""Test which tables of a project the names of operations mean, without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from headwaters.platform.errors import UserError
from headwaters.tables.named_tables import (
    NamedTable,
    dependents_of,
    followers_of,
    hidden_table_count,
    hidden_table_name,
    named_table,
    table_nodes,
    table_of_hidden,
    used_hidden_tables,
)


def node(name: str, schema: str, kind: str = "model", **keys: Any) -> dict[str, Any]:
    config = {"materialized": "incremental", "schema": None} | keys.pop("config", {})
    given = {"alias": name, "package_name": "shop", "depends_on": {"nodes": []}}
    one = {"unique_id": f"{kind}.{name}", "resource_type": kind, "name": name, "schema": schema}
    return one | given | {"config": config} | keys


ORDERS = node("orders", "dev_silver", config={"schema": "silver"})
TOTALS = node("totals_of_days", "gold", alias="Totals", depends_on={"nodes": [ORDERS["unique_id"]]})
EVENTS = node("events", "bronze", "source", source_name="raw", identifier="events_v2")
LEDGER = node("operations", "ops", package_name="dbt_headwaters")
NODES = [
    TOTALS,
    ORDERS,
    node("view", "gold", config={"materialized": "view"}),
    node("countries", "gold", "seed", config={"materialized": "seed"}),
    node("a_test", "gold", "test", depends_on={"nodes": [ORDERS["unique_id"]]}),
    node("past", "gold", "snapshot", depends_on={"nodes": [ORDERS["unique_id"]]}),
    LEDGER,
]
GRAPH: dict[str, dict[str, dict[str, Any]]] = {
    "nodes": {one["unique_id"]: one for one in NODES},
    "sources": {EVENTS["unique_id"]: EVENTS},
    "exposures": {
        "board": {
            "name": "board",
            "resource_type": "exposure",
            "depends_on": {"nodes": [ORDERS["unique_id"]]},
        }
    },
}


@pytest.mark.parametrize(
    ("select", "tables"),
    [
        ([], ["bronze.events_v2", "dev_silver.orders", "gold.countries", "gold.Totals"]),
        (["orders"], ["dev_silver.orders"]),
        (["silver.orders gold"], ["dev_silver.orders", "gold.countries", "gold.Totals"]),
        (["raw", "totals_of_days"], ["bronze.events_v2", "gold.Totals"]),
        (["ops.operations"], ["ops.operations"]),
        (["ops"], ["ops.operations"]),
    ],
)
def test_a_selection_names_tables_nodes_and_schemas(select: list[str], tables: list[str]) -> None:
    assert list(table_nodes(GRAPH, select)) == tables


def test_a_selection_of_nothing_is_refused() -> None:
    with pytest.raises(UserError) as error:
        table_nodes(GRAPH, ["gold", "order", "nothing"])
    assert str(error.value) == (
        "[HW_NO_SUCH_TABLE] select: there is no table, model, source or schema 'order', did you "
        "mean 'orders'"
    )
    with pytest.raises(UserError, match="'operations'"):  # a model of the project may have it
        table_nodes(GRAPH, ["operations"])


NAMES = (
    *("gold.Totals", "silver.orders", "gold.view", "gold.countries", "ops.operations"),
    "raw.events_v2",
)


@pytest.mark.parametrize(
    ("table", "found"),
    [
        ("orders", ("dev_silver", "orders", ORDERS)),
        ("silver.orders", ("dev_silver", "orders", ORDERS)),
        ("dev_silver.orders", ("dev_silver", "orders", ORDERS)),
        ("events", ("bronze", "events_v2", EVENTS)),
        ("totals_of_days", ("gold", "Totals", TOTALS)),
        ("gold.orders__backup.1", ("gold", "orders__backup.1", None)),
        ("nothing", (None, None, None)),
        (7, (None, None, None)),
    ],
)
def test_an_operation_finds_its_table(table: object, found: tuple[Any, ...]) -> None:
    assert named_table(GRAPH, "restore", table) == NamedTable(found[0], found[1], found[2], NAMES)


def test_a_name_of_two_tables_is_refused_unless_it_is_the_name_of_one() -> None:
    other = node("orders", "gold", "seed", config={"materialized": "seed"})
    graph = {**GRAPH, "nodes": {**GRAPH["nodes"], "seed.orders": other}}
    with pytest.raises(UserError) as error:
        named_table(graph, "drop", "orders")
    assert str(error.value) == (
        "[HW_AMBIGUOUS_TABLE] drop: 'orders' is the name of dev_silver.orders and of gold.orders: "
        "write the one that is meant. Nothing was changed."
    )
    assert named_table(graph, "drop", "gold.orders").node == other


def test_the_readers_of_a_table() -> None:
    assert followers_of(GRAPH, ORDERS) == ["gold.Totals"]
    assert dependents_of(GRAPH, ORDERS) == [
        "model totals_of_days",
        "snapshot past",
        "exposure board",
    ]
    assert followers_of(GRAPH, None) == dependents_of(GRAPH, None) == []


def test_a_name_tells_its_table_and_its_number() -> None:
    assert hidden_table_name("gold.days", 12) == "gold.days__hw_stage_12"
    assert table_of_hidden("gold.days__hw_stage_12") == ("gold.days", 12)
    for other in ("gold.days", "gold.days__hw_stage_", "gold.days__hw_stage_1x", "__hw_stage_1"):
        assert table_of_hidden(other) is None


@pytest.mark.parametrize(
    ("proof", "count"),
    [
        (None, 0),
        ("", 0),
        ('"sample"', 0),
        ('{"rules": "13"}', 0),
        ('{"stages": null}', 0),
        ('{"stages": {"tables": [{}, {}]}}', 2),
    ],
)
def test_a_proof_notes_the_number(proof: str | None, count: int) -> None:
    assert hidden_table_count(proof) == used_hidden_tables(proof) == count


def test_a_damaged_proof_uses_no_hidden_table() -> None:
    assert used_hidden_tables("{") == 0
    with pytest.raises(ValueError, match="Expecting property name"):
        hidden_table_count("{")
