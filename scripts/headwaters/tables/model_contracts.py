"""The columns that a model with an enforced contract has to declare: pure."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Protocol

from headwaters.platform.nodes import Node
from headwaters.platform.problems import Problem

CODE = "HW_NO_COLUMNS"


class QueryColumn(Protocol):
    """A column of a query."""

    @property
    def name(self) -> str:
        """Return its name."""

    @property
    def data_type(self) -> str:
        """Return its type, as Spark writes it."""


def missing_columns(nodes: Mapping[str, Node], selected: Collection[str]) -> list[str]:
    """Return a line for each selected model that lacks the columns of its enforced contract.

    Spark alone knows their types, so the model's run prints the columns.
    """
    return [
        f"[{CODE}] {node['original_file_path']} has an enforced contract, and {_file(node)} "
        "declares no columns: its run will fail, and print them to paste"
        for node in _without_columns(nodes)
        if node["unique_id"] in selected
    ]


def columns_to_paste(node: Node, columns: Iterable[QueryColumn]) -> Problem:
    """Return the problem of a model without columns: its last lines are YAML to paste."""
    lines = [
        f"{node['original_file_path']} has an enforced contract, and no columns: paste this into "
        f"{_file(node)}, and describe the columns",
        "models:",
        f"  - name: {node['name']}",
        "    columns:",
        *(
            f"      - {{name: {_text(it.name)}, data_type: {_text(it.data_type)}}}"
            for it in columns
        ),
    ]
    return Problem(CODE, "\n".join(lines))


def _without_columns(nodes: Mapping[str, Node]) -> Iterator[Node]:
    for node in nodes.values():
        contract = node["config"].get("contract") or {}
        if node["resource_type"] == "model" and contract.get("enforced") and not node["columns"]:
            yield node


def _file(node: Node) -> str:
    """Return the path of the model's YAML file, or of the one to create beside its SQL."""
    patch = str(node.get("patch_path") or "").partition("://")[2]
    return patch or re.sub(r"\.\w+$", ".yml", str(node["original_file_path"]))


def _text(value: str) -> str:
    """Return a text for a mapping of YAML in one line, quoted if it needs quotes."""
    return value if re.fullmatch(r"[A-Za-z_]\w*", value) else json.dumps(value, ensure_ascii=False)
