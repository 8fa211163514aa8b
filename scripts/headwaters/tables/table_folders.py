"""The folders of a lake's tables, by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from headwaters.platform import places
from headwaters.platform.errors import UserError
from headwaters.platform.lake import is_same
from headwaters.platform.nodes import Node
from headwaters.platform.places import Place
from headwaters.tables.delta_log import snapshot


def table_folders(
    warehouse: Place,
    declared: Mapping[str, Node],
    entries: Callable[[str, Place], list[str]] | None = None,
) -> dict[str, Place]:
    """Return folders that may be tables, by their names in lower case.

    They are in the warehouse and at each absolute `location_root` of the declared tables. `entries`
    returns the names in the folder of a schema.
    """
    found: dict[str, Place] = {}
    entries = entries or (lambda _, folder: [one.name for one in folder.iterdir()])
    # an unreadable folder must be an error, not an empty warehouse
    schemas: Iterable[Place] = warehouse.iterdir() if warehouse.exists() else ()
    for folder in sorted(schemas, key=str):
        if folder.name.endswith(".db"):
            schema = folder.name.removesuffix(".db").lower()
            found |= {f"{schema}.{one.lower()}": folder / one for one in entries(schema, folder)}
        elif not folder.name.startswith((".", "_")):
            found[f"default.{folder.name.lower()}"] = folder
    for name, node in declared.items():
        root = str(node["config"].get("location_root") or "")
        if root.startswith("/") or "://" in root:
            found[name] = places.join(warehouse, root) / str(node["alias"])
    return found


def check_table_of_stream(
    lake: Place, schema: str, table: str, location: str, has_rows: Callable[[], bool]
) -> None:
    """Raise UserError if a stream's table is not that of the lake, and only the lake has rows.

    Models would read the empty table, and their run would succeed. `has_rows` asks Spark about the
    table.
    """
    there = lake / "warehouse" / f"{schema.lower()}.db" / table
    here = location.replace("s3://", "s3a://", 1)
    if is_same(there, here):
        return
    found = snapshot(there)
    if found is not None and found.rows != 0 and not has_rows():
        raise UserError(
            "HW_BRONZE_ELSEWHERE",
            f"{schema}.{table} would be empty in {here}, and the lake of the target has its rows "
            f"in {there}: put the lake of this Spark's warehouse into the target (lake: …), and "
            "ingest there",
        )
