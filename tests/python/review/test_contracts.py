"""Test which changes of declarations break their readers, and which are only shown."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from headwaters.review import changes as changing
from headwaters.review.facts import Finding
from headwaters.review.sides import Side

TABLE = "model.p.orders"
READER = "model.p.totals"
SOURCE = "source.p.raw.clicks"
SHORT = (
    "[HW_SHORT_RETENTION] gold.totals runs every 2 days and follows the changes of silver.orders, "
    "which keeps them for interval 1 day only (delta.logRetentionDuration): what changed in "
    "between would be lost. Retain them longer, or run more often."
)
SHORT_STREAM = (
    "[HW_SHORT_RETENTION] the stream clicks writes every 1 hour to raw.clicks, which retains its "
    "batches for interval 1 minute only (delta.setTransactionRetentionDuration): a batch could be "
    "written twice. Retain them longer, or leave the property out."
)


def node(kind: str, schema: str, name: str, reads: list[str], **config: Any) -> dict[str, Any]:
    return {
        "resource_type": kind,
        "name": name,
        "schema": schema,
        "alias": name,
        "raw_code": "select 1 as id",
        "compiled_code": "select 1 as id",
        "original_file_path": f"models/{name}.sql",
        "config": config,
        "columns": {},
        "constraints": [],
        "depends_on": {"nodes": reads, "macros": []},
    }


def project() -> dict[str, dict[str, Any]]:
    orders = node(
        *("model", "silver", "orders", []),
        materialized="incremental",
        contract={"enforced": True},
        tblproperties={
            "catalog.team_name": "sales",
            "catalog.engineering.comms.email": "sales@example.com",
            "catalog.engineering.comms.slack": "#sales",
            "delta.enableChangeDataFeed": "true",
        },
        meta={},
    )
    orders["constraints"] = [{"type": "check", "expression": "amount > 0"}]
    orders["columns"] = {
        "id": {"data_type": "bigint", "constraints": [{"type": "not_null"}]},
        "amount": {"data_type": "decimal(18, 2)", "constraints": []},
    }
    totals = node(
        *("model", "gold", "totals", [TABLE]),
        materialized="incremental",
        incremental_strategy="affected_keys",
        meta={"runs_every": "2 days"},
    )
    clicks = node("source", "raw", "clicks", [], meta={"stream": {"trigger": "1 hour"}})
    return {TABLE: orders, READER: totals, SOURCE: clicks}


def changed(edit: Callable[[dict[str, Any]], Any]) -> dict[str, list[Finding]]:
    """Return the findings of each node, by its id, after a branch's edit."""
    base = project()
    head = copy.deepcopy(base)
    edit(head)
    found = changing.changes(Side(base, {}, {}), Side(head, {}, {})).changed
    return {key: list(one.broken) for key, one in found.items()}


def contract(text: str) -> dict[str, list[Finding]]:
    return {TABLE: [Finding("contract", text, True, "models/orders.sql")]}


def policy(text: str, key: str = TABLE) -> dict[str, list[Finding]]:
    file = {TABLE: "orders", READER: "totals", SOURCE: "clicks"}[key]
    return {key: [Finding("property", text, True, f"models/{file}.sql")]}


def properties(head: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = head[TABLE]["config"]["tblproperties"]
    return found


BREAKS: dict[str, tuple[Callable[[dict[str, Any]], Any], dict[str, list[Finding]]]] = {
    "a column removed": (
        lambda head: head[TABLE]["columns"].pop("amount"),
        contract("column amount is removed"),
    ),
    "a type": (
        lambda head: head[TABLE]["columns"]["amount"].update(data_type="double"),
        contract("column amount was decimal(18, 2), is double"),
    ),
    "a type that is no longer declared": (
        lambda head: head[TABLE]["columns"]["amount"].pop("data_type"),
        contract("column amount was decimal(18, 2), is of no type"),
    ),
    "a constraint of a column": (
        lambda head: head[TABLE]["columns"]["id"].update(constraints=[]),
        contract("column id: a constraint is removed or differs"),
    ),
    "a constraint of the table": (
        lambda head: head[TABLE].update(constraints=[]),
        contract("a constraint is removed or differs"),
    ),
    "no longer enforced": (
        lambda head: head[TABLE]["config"].update(contract={"enforced": False}),
        contract("the contract is no longer enforced"),
    ),
    "another name": (
        lambda head: head[TABLE].update(alias="sales"),
        contract("the table is silver.sales now"),
    ),
    "removed": (
        lambda head: head.pop(TABLE),
        contract("the table is removed"),
    ),
    "no owner": (
        lambda head: properties(head).update({"catalog.team_name": None}),
        policy("no owner, it was sales: name one in catalog.team_name"),
    ),
    "no contact": (
        lambda head: [
            properties(head).pop(f"catalog.engineering.comms.{one}") for one in ("email", "slack")
        ],
        policy(
            "no on-call contact: name one in catalog.engineering.comms.slack or "
            "catalog.engineering.comms.email"
        ),
    ),
    "a retention that a reader needs": (
        lambda head: properties(head).update({"delta.logRetentionDuration": "interval 1 day"}),
        {TABLE: [], **policy(SHORT, READER)},
    ),
    "the change feed that a reader follows": (
        lambda head: properties(head).update({"delta.enableChangeDataFeed": "false"}),
        {
            TABLE: [],
            **policy(
                "silver.orders, which it follows, loses its change feed "
                "(delta.enableChangeDataFeed)",
                READER,
            ),
        },
    ),
    "a retention that a stream needs": (
        lambda head: head[SOURCE]["config"].update(
            tblproperties={"delta.setTransactionRetentionDuration": "interval 1 minute"}
        ),
        policy(SHORT_STREAM, SOURCE),
    ),
}


@pytest.mark.parametrize(("edit", "found"), BREAKS.values(), ids=BREAKS)
def test_what_breaks_a_contract_or_a_policy(
    edit: Callable[[dict[str, Any]], Any], found: dict[str, list[Finding]]
) -> None:
    assert changed(edit) == found


SHOWN: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a column added": lambda head: head[TABLE]["columns"].update(day={"data_type": "date"}),
    "a type in other letters": lambda head: head[TABLE]["columns"]["amount"].update(
        data_type="DECIMAL(18,2)"
    ),
    "a constraint added": lambda head: head[TABLE]["columns"]["amount"].update(
        constraints=[{"type": "not_null"}]
    ),
    "another owner": lambda head: properties(head).update({"catalog.team_name": "shop"}),
    "one of two contacts": lambda head: properties(head).pop("catalog.engineering.comms.email"),
    "a retention that no reader needs": lambda head: properties(head).update(
        {"delta.logRetentionDuration": "interval 3 days"}
    ),
    "a property that no reader needs": lambda head: properties(head).update(
        {"delta.enableDeletionVectors": "false"}
    ),
    "another description": lambda head: head[TABLE].update(description="orders"),
}


@pytest.mark.parametrize("edit", SHOWN.values(), ids=SHOWN)
def test_what_is_only_shown(edit: Callable[[dict[str, Any]], Any]) -> None:
    found = changed(edit)
    assert found in ({TABLE: []}, {})


def test_a_type_without_a_contract_is_only_shown() -> None:
    base = project()
    base[TABLE]["config"]["contract"] = {"enforced": False}
    head = copy.deepcopy(base)
    head[TABLE]["columns"] = {"id": {"data_type": "string"}}
    found = changing.changes(Side(base, {}, {}), Side(head, {}, {})).changed
    assert {key: (one.what, one.broken) for key, one in found.items()} == {
        TABLE: (("column amount: no longer declared", "column id: bigint → string"), ())
    }


def test_what_was_broken_before_is_not_said_again() -> None:
    base = project()
    properties(base)["delta.logRetentionDuration"] = "interval 1 day"
    head = copy.deepcopy(base)
    properties(head)["catalog.team_name"] = "shop"
    found = changing.changes(Side(base, {}, {}), Side(head, {}, {})).changed
    assert {key: (one.what, one.broken) for key, one in found.items()} == {
        TABLE: (("tblproperties.catalog.team_name: sales → shop",), ())
    }


def test_a_source_has_properties_and_columns_as_well() -> None:
    base = project()
    head = copy.deepcopy(base)
    head[SOURCE]["config"]["meta"]["owner"] = "web"
    head[SOURCE]["columns"] = {"at": {"data_type": "timestamp"}}
    found = changing.changes(Side(base, {}, {}), Side(head, {}, {}))
    assert (found.order, found.built, found.changed[SOURCE].causes) == (
        (SOURCE,),
        (),
        ("properties",),
    )
    assert found.changed[SOURCE].what == ("meta.owner: none → web", "column at: declared")
