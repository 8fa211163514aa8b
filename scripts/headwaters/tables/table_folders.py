"""The local folders of a lake's tables, by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from headwaters.platform.nodes import Node


def table_folders(
    warehouse: Path,
    declared: Mapping[str, Node],
    entries: Callable[[str, Path], list[str]] | None = None,
) -> dict[str, Path]:
    """Return folders that may be tables, by their names in lower case.

    They are in the warehouse and at each local `location_root` of the declared tables. `entries`
    returns the names in the folder of a schema.
    """
    found: dict[str, Path] = {}
    entries = entries or (lambda _, folder: [one.name for one in folder.iterdir()])
    # an unreadable folder must be an error, not an empty warehouse
    for folder in sorted(warehouse.iterdir()) if warehouse.exists() else ():
        if folder.name.endswith(".db"):
            schema = folder.name.removesuffix(".db").lower()
            found |= {f"{schema}.{one.lower()}": folder / one for one in entries(schema, folder)}
        elif not folder.name.startswith((".", "_")):
            found[f"default.{folder.name.lower()}"] = folder
    for name, node in declared.items():
        root = str(node["config"].get("location_root") or "").removeprefix("file://")
        if root.startswith("/"):
            found[name] = Path(root) / str(node["alias"])
    return found
