"""Names that misspell a setting: in a config, its `meta`, its mappings, or beside it in YAML.

Projects, packages and other adapters have other settings. Only a name that resembles one of
ours or dbt's, and that no adapter has, is a slip.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headwaters.platform.names import misspelt, not_allowed
from headwaters.platform.nodes import Node, setting
from headwaters.platform.problems import Problem
from headwaters.tables import dbt_names
from headwaters.tables.settings import OF_CONFIG, ModelSettings
from headwaters.tables.stock_settings import SnapshotSettings, StockSettings

_OURS = list(ModelSettings.model_fields)
_OF_META = [name for name in _OURS if name not in OF_CONFIG]
_OF_COLUMNS = ("pii", "expression")
# Words that other people's YAML may have beside a config.
_WORDS = ("derived", "expectations", "maintenance", "owner", "refresh", "stream")
# Materializations of other nodes, and those without a macro.
_NOT_OF_MODELS = frozenset({"clone", "function", "seed", "snapshot", "test", "unit"})
_OF_NO_MACRO = {True: frozenset({"ephemeral"}), False: frozenset()}


def name_problems(node: Node) -> Iterator[Problem]:
    """Yield the names in a node's config, and in its `meta`, that misspell a setting."""
    config, meta = node["config"], node["config"].get("meta") or {}
    of_dbt = () if node.get("is_of_package") else _names_of_dbt(node["resource_type"])
    yield from _unknown(config, [*_OURS, *of_dbt])
    yield from _unknown(meta, _OF_META, "meta.")
    if "incremental_strategy" in meta:
        text = "incremental_strategy is in meta, where dbt does not read it: write it in config"
        yield Problem("HW_SETTING", text)
    if meta.get("refresh") in ("incremental", "strict"):
        yield Problem("HW_SETTING", "refresh is in meta, where no run reads it: write it in config")
    for column in (node.get("columns") or {}).values():
        own = (column.get("config") or {}).get("meta") or {}
        for problem in _unknown({**(column.get("meta") or {}), **own}, _OF_COLUMNS, "meta."):
            yield Problem(problem.code, f"column {column['name']}: {problem.text}")
    if of_dbt:
        yield from _part_problems(node)
    if node["resource_type"] != "source" and is_contract(setting(config, "stream")):
        yield Problem("HW_SETTING", "stream belongs to a source, and does nothing here")


def is_contract(stream: Any) -> bool:
    """Return true if a value is the contract of a stream, and not a key of the project's own."""
    return isinstance(stream, Mapping) and "from" in stream


def beside_problems(section: str, entry: Mapping[str, Any], parent: str = "") -> Iterator[Problem]:
    """Yield the settings beside the config of an entry in YAML, where dbt does not read them.

    `section` is the key of the entry's list: `models`, `sources`, `tables` and so on.
    """
    properties = dbt_names.property_names(section)
    settings = {*dbt_names.config_only_names(section), *_OF_META, *StockSettings.model_fields}
    name = f"{parent}{entry.get('name')}"
    for key in entry:
        if key in properties:
            continue
        if key in settings and (key not in _WORDS or is_contract(entry[key])):
            text = f"{name}: {key} is beside config, where dbt does not read it: write it in config"
            yield Problem("HW_SETTING", text)
        elif key not in {*settings, *dbt_names.known_names()}:
            for problem in _unknown([key], [*properties, *settings]):
                yield problem.at(name)
    meta = _as_mapping(_as_mapping(entry.get("config")).get("meta"))
    beside = ("from", *_OF_COLUMNS) if is_contract(meta.get("stream")) else ()
    for column in map(_as_mapping, entry.get("columns") or ()):
        names = sorted(dbt_names.property_names("columns"))
        for problem in (*_unknown(column, names), *_beside_meta(column, beside)):
            yield Problem(problem.code, f"column {column.get('name')}: {problem.text}").at(name)
    tables = entry.get("tables") if section == "sources" else None
    for table in tables or ():
        yield from beside_problems("tables", table, f"{name}.")


def _beside_meta(column: Mapping[str, Any], keys: Iterable[str]) -> Iterator[Problem]:
    """Yield the keys of a stream's column that only its config may have."""
    for key in filter(column.__contains__, keys):
        remedy = f"write config: {{meta: {{{key}: …}}}}"
        text = f"{key} is beside config, where nothing reads it: {remedy}"
        yield Problem("HW_SETTING", text)


def macro_problems(node: Node, macros: Iterable[str]) -> Iterator[Problem]:
    """Yield a materialization or a snapshot's strategy that misspells the name of a macro."""
    config, kind = node["config"], node["resource_type"]
    setting_name, pattern = {
        "model": ("materialized", r"materialization_(\w+)_(?:default|spark|headwaters)"),
        "snapshot": ("strategy", r"snapshot_(\w+)_strategy"),
    }.get(kind, ("", ""))
    found = (re.fullmatch(pattern, macro.rpartition(".")[2]) for macro in macros)
    names = {one[1] for one in found if one} - _NOT_OF_MODELS | _OF_NO_MACRO[kind == "model"]
    given = config.get(setting_name)
    if isinstance(given, str) and misspelt(given, sorted(names)):
        text = f"{setting_name}: {not_allowed(given, sorted(names), 'allowed')}"
        yield Problem("HW_SETTING", text, setting_name)


def _names_of_dbt(kind: str) -> list[str]:
    names = set(dbt_names.config_names(kind))
    if kind == "model":
        names |= {*StockSettings.model_fields, "sql_header"}
    elif kind == "snapshot":
        names |= SnapshotSettings.model_fields.keys()
    return sorted(name for name in names if "-" not in name)


def _unknown(
    given: Iterable[Any], names: list[str] | tuple[str, ...], at: str = ""
) -> Iterator[Problem]:
    """Yield the names that misspell one of the settings; all others are the project's own."""
    known = {*names, *(dbt_names.OTHERS if at else {*_OURS, *dbt_names.known_names()})}
    for name in given:
        if name not in known and (near := misspelt(name, names)):
            text = f"there is no setting '{at}{name}', did you mean '{at}{near}'?"
            yield Problem("HW_UNKNOWN_SETTING", text, f"{at}{name}")


def _part_problems(node: Node) -> Iterator[Problem]:
    """Yield the misspelt keys of dbt's settings that are mappings."""
    for name in dbt_names.PARTED:
        keys = sorted(dbt_names.part_names(name))
        # dbt removes unknown keys from the config, but not from the text that it renders
        for given in {
            str(key): None
            for config in (node.get("unrendered_config"), node["config"])
            for key in _as_mapping(_as_mapping(config).get(name))
        }:
            if misspelt(given, keys):
                text = f"{name}: {not_allowed(given, keys)}"
                yield Problem("HW_UNKNOWN_SETTING", text, name)


def _as_mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}
