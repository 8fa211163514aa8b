"""Grouping rows by all of their columns where Spark's own `group by all` is not enough.

It cannot compare variants. Of maps it gives the entries sorted, though `map_keys` and others tell
in which order they were, and it takes maps of other orders for the same. Of -0.0 it makes 0.0,
though its text and its angle are others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from headwaters.platform.sql import identifier

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
    not its text. Two maps are the same where their JSON is, which has the order, and two floating
    point numbers where their text is, which has the sign. Two that are told apart by mistake do no
    harm.
    """
    known = list(columns)
    if not any(_is_normalised(dtype) or _has(dtype, "variant") for _, dtype in known):
        return None
    selected: list[str] = []
    keys: list[str] = []
    for name, dtype in known:
        quoted = identifier(name)
        is_variant = _has(dtype, "variant")
        if not is_variant and not _is_normalised(dtype):
            selected.append(quoted)
            keys.append(quoted)
            continue
        # grouped by the value itself, what is selected would be normalised as well
        selected.append(f"any_value({quoted}) as {quoted}")
        if dtype in ("double", "float"):
            keys.append(f"cast({quoted} as string)")
        elif not is_variant:
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


def _is_normalised(dtype: str) -> bool:
    """Whether Spark makes one of values that it takes for the same."""
    return any(_has(dtype, kind) for kind in ("double", "float", "map"))


def _has(dtype: str, kind: str) -> bool:
    """Whether a type has one of this kind in it; a field of that name counts as well."""
    return re.search(rf"\b{kind}\b", dtype) is not None
