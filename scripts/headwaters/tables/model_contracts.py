"""The columns that a model with an enforced contract has to declare: pure."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Protocol

from headwaters.platform.names import misspelt
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
    """Return a line for each selected model that lacks columns or types of its enforced contract.

    Spark alone knows the types, so the run of a model without columns prints them.
    """
    chosen = {key: node for key, node in nodes.items() if node["unique_id"] in selected}
    without_columns = [
        f"[{CODE}] {node['original_file_path']} has an enforced contract, and {_file(node)} "
        "declares no columns: its run will fail, and print them to paste"
        for node in _with_contract(chosen)
        if not node["columns"]
    ]
    untyped = [problem for node in _with_contract(chosen) for problem in untyped_columns(node)]
    return [*without_columns, *map(str, untyped)]


def untyped_columns(node: Node) -> list[Problem]:
    """Return the problem of a model with a contract whose YAML has columns without a type."""
    untyped = [it for it in node["columns"].values() if not it.get("data_type")]
    if not untyped:
        return []
    names = ", ".join(str(column["name"]) for column in untyped)
    slips = dict.fromkeys(key for it in untyped for key in it if misspelt(key, ["data_type"]))
    slip = f" (there is {', '.join(slips)})" if slips else ""
    text = (
        f"{_file(node)}: {node['name']} has an enforced contract, and no data_type{slip} of "
        f"{names}: write one for each, as in {{name: {_text(str(untyped[0]['name']))}, "
        "data_type: string}"
    )
    return [Problem(CODE, text)]


def columns_to_paste(node: Node, columns: Iterable[QueryColumn]) -> Problem:
    """Return the problem of a model without columns: its last lines are YAML to paste."""
    place, entry = f"its entry in {_file(node)}", []
    if not node.get("patch_path"):  # a second entry of a model is an error
        place, entry = _file(node), ["models:", f"  - name: {node['name']}"]
    lines = [
        f"{node['original_file_path']} has an enforced contract, and no columns: paste this into "
        f"{place}, and describe the columns",
        *entry,
        "    columns:",
        *(
            f"      - {{name: {_text(it.name)}, data_type: {_text(it.data_type)}}}"
            for it in columns
        ),
    ]
    return Problem(CODE, "\n".join(lines))


def _with_contract(nodes: Mapping[str, Node]) -> Iterator[Node]:
    for node in nodes.values():
        contract = node["config"].get("contract") or {}
        if node["resource_type"] == "model" and contract.get("enforced"):
            yield node


def _file(node: Node) -> str:
    """Return the path of the model's YAML file, or of the one to create beside its SQL."""
    patch = str(node.get("patch_path") or "").partition("://")[2]
    return patch or re.sub(r"\.\w+$", ".yml", str(node["original_file_path"]))


def _text(value: str) -> str:
    """Return a text for a mapping of YAML in one line, quoted if it needs quotes."""
    return value if re.fullmatch(r"[A-Za-z_]\w*", value) else json.dumps(value, ensure_ascii=False)
