"""The grouping of rows by all of their columns, if Spark's `group by all` is not enough.

Spark cannot compare variants. It sorts the entries of grouped maps and equates maps with different
orders, although `map_keys` and other functions expose the order. It turns -0.0 into 0.0, although
their texts and angles differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from headwaters.platform.sql import identifier

# Without these options, a timestamp in a variant would lose its microseconds, and a null its name.
_EXACT = (
    "map('timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSSXXX', "
    "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'ignoreNullFields', 'false')"
)


@dataclass(frozen=True)
class Grouping:
    """A grouping of equal rows: `columns` are the select list, `keys` the GROUP BY expressions."""

    columns: tuple[str, ...]
    keys: tuple[str, ...]


def grouping_of(columns: Iterable[tuple[str, str]]) -> Grouping | None:
    """Return the grouping for columns, pairs of name and type; None if `group by all` suffices.

    Two variants are the same if their JSON and their schema are: 1 is not 1.0, and a date is not
    its text. Two maps are the same if their JSON is, which preserves the order. Two floating point
    numbers are the same if their text is, which preserves the sign. Separating equal values does no
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
        # grouping by the value itself would normalise the selected value as well
        selected.append(f"any_value({quoted}) as {quoted}")
        if dtype in ("double", "float"):
            keys.append(f"cast({quoted} as string)")
        elif not is_variant:
            keys.append(f"to_json({quoted}, {_EXACT})")
        elif dtype == "variant":
            keys += [f"to_json({quoted})", f"schema_of_variant({quoted})"]
        else:
            keys.append(f"to_json({quoted}, {_EXACT})")
            # a map is an object only if its keys are text
            if not re.search(r"\bmap<(?!string,)", dtype):
                keys.append(f"schema_of_variant(to_variant_object({quoted}))")
    return Grouping(tuple(selected), tuple(keys))


def texts_of(columns: Iterable[tuple[str, str]]) -> list[str]:
    """Return the columns that are or contain text."""
    return [name for name, dtype in columns if re.search(r"\b(?:string|varchar|char)\b", dtype)]


def _is_normalised(dtype: str) -> bool:
    """Return true if Spark merges different values of the type when it groups."""
    return any(_has(dtype, kind) for kind in ("double", "float", "map"))


def _has(dtype: str, kind: str) -> bool:
    """Return true if a type is or contains this kind; a field of that name counts as well."""
    return re.search(rf"\b{kind}\b", dtype) is not None
