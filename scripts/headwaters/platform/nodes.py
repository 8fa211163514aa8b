"""Accessors of a node of dbt's manifest as a mapping: settings, names, places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Node = Mapping[str, Any]
Config = Mapping[str, Any]


def setting(config: Config, name: str, default: Any = None) -> Any:
    """Return a setting from the config, or from its `meta`, where dbt puts unknown ones."""
    value = config.get(name)
    return value if value is not None else (config.get("meta") or {}).get(name, default)


def merged_setting(config: Config, name: str) -> dict[str, Any]:
    """Return a setting that is a mapping, merged from the config and, over it, `meta`."""
    parts = (config.get(name), (config.get("meta") or {}).get(name))
    return {
        key: value for part in parts if isinstance(part, Mapping) for key, value in part.items()
    }


def table_name(node: Node) -> str:
    """Return the table of a node, with its schema, and with its catalog if it is another one."""
    name = f"{node['schema']}.{node.get('identifier') or node['alias']}"
    return f"{node['database']}.{name}" if is_other_catalog(node.get("database")) else name


def is_other_catalog(database: str | None) -> bool:
    """Return true if a `database` names another catalog than Spark's own."""
    return bool(database) and str(database).lower() != "spark_catalog"


def has_table(node: Node) -> bool:
    """Return true if a node is a table or a view; an ephemeral model is a part of others."""
    return bool(node["config"].get("materialized") != "ephemeral")


def owner_of(node: Node | None) -> str:
    """Return the owner of a table: `meta.owner`, or the team of its properties."""
    if node is None:
        return ""
    team = merged_setting(node["config"], "tblproperties").get("catalog.team_name")
    return str(setting(node["config"], "owner") or team or "")


def place_of(node: Node) -> str:
    """Return the place of a node's problem: its file and its name."""
    name = table_name(node) if node["resource_type"] == "source" else node["name"]
    return f"{node['original_file_path']}: {name}"


def as_tuple(value: Any) -> tuple[str, ...]:
    """Return one name or a list of them as a tuple; an empty text is none."""
    if value is None or value == "":
        return ()
    return (value,) if isinstance(value, str) else tuple(value)
