"""The names of columns, and the fields of records that they are read from."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from headwaters.platform.errors import UserError

# The beginning of the names of objects that columns with a path are read from
OBJECT = "_object_"
_NOT_STORED = r"[\s,;{}()=`]"


def names_problem(columns: Iterable[tuple[str, str]], reserved: Collection[str]) -> str | None:
    """Return the problem of the names of columns, or None."""
    seen: dict[str, str] = {}
    for name, data_type in columns:
        if name.lower() in reserved or name.lower().startswith(OBJECT):
            return (
                f"column {name}: this name is ingestion's own; choose another: "
                f"{read_as(name.strip('_'), data_type, name)}"
            )
        if re.search(_NOT_STORED, name):
            return (
                f"column {name}: Delta stores no name with a blank or one of ,;{{}}()=, and "
                f"ingestion none with a `: write {read_as(name, data_type, name)}"
            )
        if other := seen.get(name.lower()):
            return (
                f"columns {other} and {name} differ in case alone, and Spark takes them for one: "
                f"write {read_as(f'{name}_2', data_type, name)}"
            )
        seen[name.lower()] = name
    return None


def read_as(name: str, data_type: str, field: str) -> str:
    """Return the line of YAML that reads a field into a column of another name."""
    storable = re.sub(r"\W+", "_", name).strip("_").lower() or "another_name"
    kind = json.dumps(data_type) if re.search("[,<({]", data_type) else data_type
    quoted = json.dumps(field, ensure_ascii=False)
    return f"{{name: {storable}, data_type: {kind}, config: {{meta: {{from: {quoted}}}}}}}"


def meta_of(column: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the `meta` of a column in dbt's manifest."""
    return (column.get("config") or {}).get("meta") or {}


def read_from(where: str, column: Mapping[str, Any]) -> str | tuple[str, ...] | None:
    """Return the declared field of a column, or the path to it.

    Raises UserError for a value that is neither.
    """
    given = meta_of(column).get("from")
    if given is None:
        return None
    names = given if isinstance(given, list) else [given]
    if not names or not all(isinstance(name, str) for name in names):
        raise UserError(
            "HW_CONTRACT",
            f"{where}: column {column['name']}: from: write a field's name in quotes, such as "
            "'Order ID', or the names on the path to it, such as ['customer', 'name']",
        )
    if meta_of(column).get("expression") is not None:
        raise UserError(
            "HW_CONTRACT",
            f"{where}: column {column['name']}: from and expression exclude each other: read the "
            "field into a column of its own, and name that one in the expression",
        )
    return tuple(names) if len(names) > 1 else names[0]
