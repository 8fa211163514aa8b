"""Columns that are read from objects in a record: `from: [customer, name]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwaters.platform.sql import identifier
from headwaters.streams.columns import OBJECT
from headwaters.streams.contract import Contract, DeclaredColumn


def with_objects(contract: Contract) -> Contract:
    """Return a contract that reads the object of each path, and computes its columns."""
    trees: dict[str, dict[str, Any]] = {}
    for column in contract.read_columns:
        if len(column.path) > 1:
            tree = trees.setdefault(column.field, {})
            for name in column.path[1:-1]:
                tree = tree.setdefault(name, {})
            tree[column.path[-1]] = column.data_type
    if not trees:
        return contract
    objects = {field: f"{OBJECT}{number}" for number, field in enumerate(trees)}
    columns = [
        DeclaredColumn(
            name=objects[field], data_type=_type_of_tree(tree), read_from=field, stored=False
        )
        for field, tree in trees.items()
    ]
    for column in contract.columns:
        if len(column.path) > 1:
            read = ".".join(map(identifier, (objects[column.field], *column.path[1:])))
            column = column.model_copy(update={"expression": read, "read_from": None})
        columns.append(column)
    return contract.model_copy(update={"columns": tuple(columns)})


def _type_of_tree(tree: Mapping[str, Any] | str) -> str:
    if isinstance(tree, str):
        return tree
    fields = (f"{identifier(name)}: {_type_of_tree(inner)}" for name, inner in tree.items())
    return f"struct<{', '.join(fields)}>"
