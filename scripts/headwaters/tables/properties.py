"""Table properties: those that Delta supports, those that a node declares, and equal values.

See docs/tables.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from headwaters.platform.delta_version import FEATURE, FEED, MAPPING, TABLE_PROPERTIES, PropertyKind
from headwaters.platform.names import did_you_mean
from headwaters.platform.nodes import Config, as_tuple, merged_setting, setting
from headwaters.platform.problems import Problem
from headwaters.platform.spark_version import REDACTED
from headwaters.platform.units import milliseconds_of
from headwaters.tables.setting_types import FOLLOWING

VECTORS = "delta.enableDeletionVectors"
# The named sets. `interop` is the common ground of Trino, delta-rs, Polars, pyarrow and DuckDB.
SETS: dict[str, dict[str, str]] = {
    "interop": {
        VECTORS: "false",
        MAPPING: "none",
        "delta.enableTypeWidening": "false",
        "delta.checkpointPolicy": "classic",
    },
}

# The names of a table's declared properties and checks, which distinguish them from others'.
DECLARED = "headwaters.declared"
CONSTRAINT = "delta.constraints."
_OPTIMIZE_WRITE = "delta.autoOptimize.optimizeWrite"
VERSIONS = ("delta.minReaderVersion", "delta.minWriterVersion")
# Delta's grammar of intervals: stricter than units, which people write elsewhere.
_INTERVAL = re.compile(
    r"\s*(interval\s+)?(\d+(\.\d+)?\s+(week|day|hour|minute|(milli|micro)?second)s?(\s+|$))+", re.I
)
_EXPECTED = {
    "boolean": "true or false",
    "integer": "a whole number",
    "columns": "a list of columns, separated by commas",
    "feature": "supported",
    "interval": "a length of time such as interval 30 days, in weeks, days, hours or less",
}


CHECKPOINTS = "delta.checkpointInterval"
_DEFAULTS = "delta.feature.allowColumnDefaults"  # every engine reads it


def ends_deletion_vectors(held: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Return true if a table that may have deletion vectors is to have none.

    `held` are its properties with its features, and `wanted` those that will be set. If only the
    property is set, Trino ignores the deletion vectors in a checkpoint: deleted rows appear again.
    """
    return (
        wanted.get(VECTORS) == "false"
        and held.get(VECTORS) != "false"
        and (FEATURE + "deletionVectors" in held or held.get(VECTORS) == "true")
    )


def declared_properties(config: Config) -> dict[str, str]:
    """Return the declared properties as text.

    dbt has merged those of layer, folder and model; a null removes one of the layer. A
    `property_set` overrides them, because it is a promise to other engines. A table that is
    partitioned by a column with a dot in its name gets optimized writes, so that a merge finds the
    column. A table that follows its inputs has a change data feed, so that others can follow it,
    unless it is declared or null, or the columns are mapped: Delta builds no such table with a
    feed.
    """
    merged = merged_setting(config, "tblproperties")
    merged |= SETS.get(str(setting(config, "property_set")), {})
    declared = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in merged.items()
        if value is not None
    }
    if _is_maintained(config) and FEED not in merged and not _is_mapped(declared):
        declared = {FEED: "true"} | declared
    return ({_OPTIMIZE_WRITE: "true"} if _dotted_partitions(config) else {}) | declared


def _is_mapped(properties: Mapping[str, str]) -> bool:
    """Return true if properties map the columns of a table."""
    return properties.get(MAPPING, "none").lower() != "none"


def _is_maintained(config: Config) -> bool:
    """Return true if a strategy that follows changes maintains the table of a model."""
    is_delta = config.get("file_format") in (None, "", "delta")
    is_incremental = config.get("materialized") == "incremental" and is_delta
    # the settings of a run have the derived strategy instead of `auto`
    is_following = config.get("incremental_strategy") in FOLLOWING or "derivation" in config
    return is_incremental and is_following


def _dotted_partitions(config: Config) -> list[str]:
    """Return partition columns with a dot, which Delta's MERGE fails to quote on repartition."""
    return [name for name in as_tuple(setting(config, "partition_by")) if "." in name]


def created_properties(config: Config) -> dict[str, str]:
    """Return the properties of a new table: the declared ones, and the list of their names."""
    declared = declared_properties(config)
    return {**declared, DECLARED: in_order(declared)}


def in_order(names: Iterable[str]) -> str:
    """Return names in the form of the property `headwaters.declared`."""
    return ", ".join(sorted(names, key=str.lower))


def is_same(name: str, one: object, other: object) -> bool:
    """Return true if two values of a property are equivalent: `1 day` is `interval 24 hours`."""
    if str(one) == str(other):
        return True
    kind = TABLE_PROPERTIES.get(name, "text")
    normal = normal_value(kind, one)
    return normal is not None and normal == normal_value(kind, other)


def normal_value(kind: PropertyKind | tuple[str, ...], value: object) -> str | float | None:
    """Return a value in its normal form, or None if it is not of the kind."""
    text = str(value).strip()
    if isinstance(kind, tuple):
        return next((allowed for allowed in kind if allowed.lower() == text.lower()), None)
    if kind == "boolean":
        return text.lower() if text.lower() in ("true", "false") else None
    if kind == "integer":
        return int(text) if re.fullmatch(r"-?\d+", text) else None
    if kind == "interval":
        return milliseconds_of(text) if _INTERVAL.fullmatch(text) else None
    if kind == "columns":
        return re.sub(r"\s*,\s*", ",", text).lower() if text else None
    if kind == "feature":
        return "supported" if text in ("supported", "enabled") else None
    return text


def protocol_upgrade(name: str, value: object) -> str | None:
    """Return why a property needs `allow_protocol_upgrade`, or None.

    It changes the table's protocol in a way that cannot be undone, or that an engine of
    docs/tables.md cannot read.
    """
    if name == MAPPING and value != "none":
        return "with column mapping pyarrow reads NULLs, without an error"
    if name == "delta.enableTypeWidening" and value == "true":
        return "a widened column silently vanishes in Trino"
    if name == "delta.checkpointPolicy" and value == "v2":
        return "Polars cannot read a table with v2 checkpoints"
    if name.startswith("delta.enableIcebergCompatV") and value == "true":
        return "it brings column mapping, with which pyarrow reads NULLs, without an error"
    if name in VERSIONS or (name.startswith(FEATURE) and name != _DEFAULTS):
        return "a table's protocol cannot be lowered again"
    return None


def property_problems(config: Config) -> Iterator[Problem]:
    """Yield the problems of a node's declared properties."""
    chosen = setting(config, "property_set")
    if chosen and chosen not in SETS:
        text = f"there is no property_set '{chosen}': there is {', '.join(SETS)}"
        yield Problem("HW_UNKNOWN_PROPERTY_SET", text, "property_set")
    declared = declared_properties(config)
    dotted = _dotted_partitions(config)
    if dotted and normal_value("boolean", declared[_OPTIMIZE_WRITE]) == "false":
        text = f"'{_OPTIMIZE_WRITE}' must be true, since Delta's MERGE does not find the partition"
        text += f" column '{dotted[0]}' otherwise: leave it out."
        yield Problem("HW_PROPERTY_VALUE", text).at("tblproperties")
    for name, value in declared.items():
        problem = _problem(name, value, bool(setting(config, "allow_protocol_upgrade")))
        if problem:
            yield replace(problem, setting="tblproperties").at("tblproperties")


def build_problems(config: Config) -> Iterator[Problem]:
    """Yield why Delta cannot create the table of a model or a seed from a query."""
    if config.get("materialized") not in ("table", "incremental", "seed"):
        return
    declared = declared_properties(config)
    has_feed = normal_value("boolean", declared.get(FEED, "false"))
    if has_feed == "true" and _is_mapped(declared):
        text = (
            "Delta does not build a table from a query that has both delta.columnMapping.mode and "
            "a change data feed: leave the mode out, or set delta.enableChangeDataFeed: false."
        )
        yield Problem("HW_MAPPED_FEED", text).at("tblproperties")


def _problem(name: str, value: str, may_upgrade: bool) -> Problem | None:
    if name.startswith(("headwaters.", CONSTRAINT)):
        why = "declare a constraint of type check instead."
        if name.startswith("headwaters."):
            why = "headwaters keeps its own notes there."
        return Problem("HW_RESERVED_PROPERTY", f"'{name}' is not for people to set: {why}")
    kind = TABLE_PROPERTIES.get(name, "feature" if name.startswith(FEATURE) else None)
    if kind is None:
        if not name.lower().startswith("delta."):
            return None
        hint = did_you_mean(name, TABLE_PROPERTIES, "delta.")
        hint = hint or ". docs.delta.io lists the table properties of Delta."
        return Problem("HW_UNKNOWN_PROPERTY", f"there is no property '{name}'{hint}")
    if kind == "server":
        return Problem("HW_RESERVED_PROPERTY", f"'{name}' is set by Delta itself: leave it out.")
    normal = normal_value(kind, value)
    if normal is None:
        expected = f"one of {', '.join(kind)}" if isinstance(kind, tuple) else _EXPECTED[kind]
        text = f"'{name}' is '{value}', it must be {expected}."
        return Problem("HW_PROPERTY_VALUE", text)
    reason = protocol_upgrade(name, normal)
    if reason and not may_upgrade:
        text = (
            f"'{name}' changes the table's protocol: {reason}. If that is meant, write "
            "allow_protocol_upgrade: true in the config or its meta."
        )
        return Problem("HW_PROTOCOL_UPGRADE", text)
    return None


def is_redacted(properties: Mapping[str, str]) -> bool:
    """Return true if SHOW TBLPROPERTIES hid the value of a property."""
    return any(value == REDACTED for value in properties.values())
