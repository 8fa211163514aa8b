"""Load the models of a brokerage warehouse, modelled on TPC-DI.

They are plain SQL and YAML in the folder `brokerage`. Customers, accounts, companies and securities
arrive as changes, and silver turns them into versions. Trades, payments, prices and the marketing
list are tables that change in place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import jinja2
import yaml

FOLDER = Path(__file__).parent / "brokerage"
SQL = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*/*.sql"))}

Node = dict[str, Any]


@cache
def declared() -> dict[str, Node]:
    """Return sources, seeds and models by name, as YAML declares them."""
    found: dict[str, Node] = {}
    for file in FOLDER.glob("**/*.yml"):
        read = yaml.safe_load(file.read_text())
        nodes = [
            ("sources", table) for group in read.get("sources", []) for table in group["tables"]
        ]
        nodes += [(kind, node) for kind in ("seeds", "models") for node in read.get(kind, [])]
        found |= {node["name"]: node | {"kind": kind} for kind, node in nodes}
    return found


def of_kind(kind: str) -> list[str]:
    """Return the names of all `sources`, `seeds` or `models`."""
    return [name for name, node in declared().items() if node["kind"] == kind]


def columns_of(name: str) -> dict[str, str]:
    """Return names and Spark types."""
    return {column["name"]: column["data_type"] for column in declared()[name]["columns"]}


def key_of(name: str) -> list[str]:
    """Return the columns declared unique, or none."""
    node = declared()[name]
    for test in node.get("data_tests", []):
        columns: list[str] = test["unique_combination_of_columns"]["arguments"][
            "combination_of_columns"
        ]
        return columns
    return [
        column["name"] for column in node["columns"] if "unique" in column.get("data_tests", [])
    ]


def rendered(model: str, table: Callable[[str], str] = str) -> str:
    """Return the SQL of a model, with these names of its inputs."""
    return jinja2.Template(SQL[model]).render(ref=table, source=lambda _, name: table(name))


def inputs_of(model: str) -> list[str]:
    """Return the names of its inputs."""
    names: dict[str, None] = {}

    def noted(name: str) -> str:
        names[name] = None
        return name

    rendered(model, noted)
    return list(names)


def in_order() -> list[str]:
    """Return the models, each after those that it reads."""
    graph = {model: [name for name in inputs_of(model) if name in SQL] for model in SQL}
    return list(TopologicalSorter(graph).static_order())
