"""The proof that a table notes, computed without SQL and therefore without the parser."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import md5
from typing import Any, Protocol

from headwaters.analysis.declared_keys import Graph, keys_of
from headwaters.platform.nodes import Config

# Increase it whenever the rules accept less, so that tables are proven again.
RULES = "14"


def noted_proof(config: Config, inputs: Sequence[Mapping[str, Any]], graph: Graph) -> str:
    """Return the note of a model's proof: the rules, and the keys that they rely on.

    A derived strategy notes the whole derivation. `sample` replaces the proof if rows are compared.
    """
    if config.get("derivation"):
        return json.dumps(config["derivation"], sort_keys=True)
    if config.get("incremental_proof") == "sample":
        return "sample"
    known = keys_of({spec["source"] for spec in inputs}, graph)
    noted: dict[str, Any] = {
        "rules": RULES,
        "keys": _sorted({source: keys.unique for source, keys in known.items()}),
    }
    if if_filled := _sorted({source: keys.unique_if_filled for source, keys in known.items()}):
        noted["keys_if_filled"] = if_filled
    return json.dumps(noted, sort_keys=True)


def _sorted(keys: Mapping[str, Sequence[frozenset[str]]]) -> dict[str, list[list[str]]]:
    return {
        source: sorted(sorted(columns) for columns in unique)
        for source, unique in keys.items()
        if unique
    }


class TypedColumn(Protocol):
    """A column with its name and its type."""

    name: str
    dtype: str


def columns_digest(columns: Sequence[TypedColumn]) -> str:
    """Return a digest of the names and types of columns."""
    text = json.dumps([[column.name, column.dtype] for column in columns])
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def added_columns(before: Sequence[TypedColumn], after: Sequence[TypedColumn]) -> list[str]:
    """Return the columns that are new, and those whose type has changed."""
    known = {(column.name.lower(), column.dtype) for column in before}
    return [column.name for column in after if (column.name.lower(), column.dtype) not in known]
