"""The ledger of operations, `ops.operations`: the rows that they deleted on purpose."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from headwaters.platform.delta_rs import rows_of
from headwaters.platform.manifest import parse
from headwaters.platform.places import Place
from headwaters.platform.project import Project
from headwaters.tables.delta_log import created_at, exists

OPS = "source.dbt_headwaters.ops."  # the ids of headwaters' own records begin with it
_REMOVING = ("delete_where", "erase")  # operations that only delete rows


def ledger_of(project: Project) -> Place | None:
    """Return the ledger's place, or None if no operation has run or it is disabled."""
    node = parse(project).sources.get(f"{OPS}operations")
    if node is None:
        return None
    place = project.warehouse / f"{node.schema.lower()}.db" / node.identifier.lower()
    return place if exists(place) else None


def removed_rows(ledger: Place, tables: Mapping[str, Place]) -> Counter[str]:
    """Return the rows that operations deleted from these tables, by operation.

    `tables` has the tables' folders by name (`bronze.orders`). Operations on an earlier table of
    the same name do not count.
    """
    columns = "at, operation, table_name, arguments, version_after"
    counted = ", ".join(f"'{name}'" for name in (*_REMOVING, "restore"))
    condition = f"state = 'done' and operation in ({counted})"
    done = list(rows_of(ledger, f"select {columns} from t where {condition} order by at desc"))
    removed: Counter[str] = Counter()
    for name, place in tables.items():
        begun = created_at(place)
        own = (row for row in done if str(row["table_name"]).lower() == name.lower())
        removed += removed_from(row for row in own if row["at"] >= begun)
    return removed


def removed_from(entries: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Return the rows that a table's operations deleted, by operation, from entries newest first.

    A restore takes back the operations after the version that it returns to.
    """
    removed: Counter[str] = Counter()
    reverted_after: int | None = None
    for entry in entries:
        if reverted_after is not None and entry["version_after"] > reverted_after:
            continue
        reverted_after = None
        arguments = json.loads(entry["arguments"] or "{}")
        if entry["operation"] == "restore":
            reverted_after = int(arguments["version"])
        elif entry["operation"] in _REMOVING:
            removed[entry["operation"]] += int(arguments.get("rows", 0))
    return +removed
