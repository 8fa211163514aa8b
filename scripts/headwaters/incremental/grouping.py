"""Grouping rows by all of their columns where Spark's own `group by all` is not enough.

It cannot compare variants. Of maps it gives the entries sorted, though `map_keys` and others tell
in which order they were, and it takes maps of other orders for the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from headwaters.sql import identifier

# Without them a timestamp beside a variant would lose its microseconds, and a null its name.
_EXACT = (
    "map('timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSSXXX', "
    "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'ignoreNullFields', 'false')"
)


@dataclass(frozen=True)
class Grouping:
    """How equal rows are grouped: `columns`, what to select, and `keys`, what to group by."""

    columns: tuple[str, ...]
    keys: tuple[str, ...]


def grouping_of(columns: Iterable[tuple[str, str]]) -> Grouping | None:
    """How to group rows of these columns, pairs of name and type; None where `group by all` does.

    Two variants are the same where their JSON and their schema are: 1 is not 1.0, and a date is
    not its text. Two maps are the same where their JSON is, which has the order. Two that are told
    apart by mistake do no harm.
    """
    known = list(columns)
    if not any(_has(dtype, "variant") or _has(dtype, "map") for _, dtype in known):
        return None
    selected: list[str] = []
    keys: list[str] = []
    for name, dtype in known:
        quoted = identifier(name)
        is_variant = _has(dtype, "variant")
        if not is_variant and not _has(dtype, "map"):
            selected.append(quoted)
            keys.append(quoted)
            continue
        selected.append(f"any_value({quoted}) as {quoted}")
        if not is_variant:
            # Spark would sort what is selected as well, if it were grouped by the map itself
            keys.append(f"to_json({quoted}, {_EXACT})")
        elif dtype == "variant":
            keys += [f"to_json({quoted})", f"schema_of_variant({quoted})"]
        else:
            keys.append(f"to_json({quoted}, {_EXACT})")
            # a map is an object only where its keys are text
            if not re.search(r"\bmap<(?!string,)", dtype):
                keys.append(f"schema_of_variant(to_variant_object({quoted}))")
    return Grouping(tuple(selected), tuple(keys))


def texts_of(columns: Iterable[tuple[str, str]]) -> list[str]:
    """The columns that are text, or have text in them."""
    return [name for name, dtype in columns if re.search(r"\b(?:string|varchar|char)\b", dtype)]


def _has(dtype: str, kind: str) -> bool:
    """Whether a type has one of this kind in it; a field of that name counts as well."""
    return re.search(rf"\b{kind}\b", dtype) is not None
