"""Models of plain SQL, whose strategy, roles of inputs and keys are derived."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from incremental.expected import EXPECTED
from incremental.histories import drawn, follow
from incremental.world import World

MODELS = [name for name in EXPECTED if name.startswith("auto_")]
ITEMS, PEOPLE, EVENTS = (f"auto_inputs.{name}" for name in ("items", "people", "events"))
LOOKUP = {"kind": "lookup"}


def by(**key: str) -> dict[str, Any]:
    return {"kind": "affected", "key": key}


# strategy, unique_key and the inputs of each
DERIVED: dict[str, tuple[str, list[str], dict[str, Any]]] = {
    "auto_rows": ("change_feed", ["id"], {ITEMS: {"kind": "changes"}}),
    "auto_totals": ("affected_keys", ["grp"], {ITEMS: by(grp="grp")}),
    "auto_named": (
        "affected_keys",
        ["id"],
        {ITEMS: by(id="id"), PEOPLE: by(id="id") | {"via": ITEMS, "on": {"grp": "grp"}}},
    ),
    "auto_people": (
        "affected_keys",
        ["name"],
        {PEOPLE: by(name="name"), ITEMS: by(name="name") | {"via": PEOPLE, "on": {"grp": "grp"}}},
    ),
    # two inputs away from the key
    "auto_far": (
        "affected_keys",
        ["name"],
        {
            PEOPLE: by(name="name"),
            ITEMS: by(name="name") | {"via": PEOPLE, "on": {"grp": "grp"}},
            EVENTS: by(name="name") | {"via": ITEMS, "on": {"id": "id"}},
        },
    ),
    "auto_first": ("affected_keys", ["id"], {EVENTS: by(id="id")}),
    "auto_groups": ("affected_keys", ["grp"], {ITEMS: by(grp="grp"), PEOPLE: by(grp="grp")}),
    "auto_most": ("replace", [], {ITEMS: LOOKUP}),
    "auto_shares": ("replace", [], {"auto.auto_totals": LOOKUP}),
    "auto_through_view": ("affected_keys", ["grp", "is_high"], {ITEMS: by(grp="grp")}),
}


@pytest.fixture(scope="module")
def world(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("auto") / "project"
    made = World(spark, "auto", folder, [*MODELS, "high_or_low"])
    made.reset()
    yield made
    for schema in (made.schema, made.inputs):
        spark.sql(f"drop schema if exists {schema} cascade")


def test_roles_and_keys_are_derived(world: World) -> None:
    found = {}
    for name in MODELS:
        properties = world.sql(f"describe detail {{schema}}.{name}")[0]["properties"]
        noted = json.loads(properties["headwaters.proof"])
        found[name] = noted["strategy"], noted["unique_key"], noted["inputs"]
    assert found == DERIVED


def test_what_changes_is_followed(world: World) -> None:
    nothing = dict.fromkeys(MODELS, "no changes")
    world.change("delete from {inputs}.people where grp = 'b'")
    of_people = dict.fromkeys(["auto_far", "auto_named", "auto_people"], "merge")
    others = {"auto_groups": "no changes, of 1 changed input rows"}
    assert said(world) == nothing | of_people | others
    world.check()
    assert said(world) == nothing


@pytest.mark.slow
def test_runs_leave_what_the_sql_says(world: World) -> None:
    follow(world, drawn(number=7, rounds=2))


def said(world: World) -> dict[str, str]:
    answers = world.answers(world.run())
    return {name: answers[name].split(":")[0] for name in MODELS}
