"""The settings that do not fit a model's strategy, or each other.

A folder of `dbt_project.yml` may have models of several strategies, so a setting of another
strategy is an error only in the model itself. A model of a package cannot be edited.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headwaters.platform.delta_version import APPEND_ONLY
from headwaters.platform.nodes import Config, Node, setting
from headwaters.platform.problems import Problem
from headwaters.tables import dbt_names
from headwaters.tables.setting_types import (
    FOLLOWING,
    INCREMENTAL,
    STOCK_STRATEGIES,
    is_empty,
    name_problem,
)
from headwaters.tables.settings import ADDED_UP, OF_CONFIG, ModelSettings
from headwaters.tables.stock_settings import (
    SYNONYMS,
    SnapshotSettings,
    StockSettings,
    stock_settings,
)

# The strategies of each setting, of ours and of dbt's, that has a meaning in some of them only.
OWNERS = StockSettings.owners() | ModelSettings.owners()
_GROUPS = {"headwaters' strategies": FOLLOWING, "dbt's strategies": STOCK_STRATEGIES}
# Settings of a merge that only matched rows need.
_OF_MATCHES = (
    *("matched_condition", "delete_condition", "merge_update_columns", "merge_exclude_columns"),
    *("incremental_predicates", "skip_matched_step"),
)

# The kinds of runs that delete or update rows in each run.
_CHANGING = ("merge", "insert_overwrite", "microbatch", "snapshot")
# Settings that hide rows or values are errors in folders as well.
_HIDING = ("column_masks", "row_filter")
# The names of the only catalog.
_CATALOGS = ("", "none", "spark_catalog")


def written(node: Node) -> frozenset[str]:
    """Return the names that a node's own SQL and YAML configure; `meta.on_gap` is one in meta.

    Without a manifest, only the SQL is known.
    """
    if "written" in node:
        return frozenset(node["written"])
    own = node.get("config_call_dict")
    return names_of(node["config"] if own is None else own)


def names_of(config: Mapping[str, Any]) -> frozenset[str]:
    """Return the names in a config, and those in its `meta` with this prefix."""
    meta = config.get("meta")
    of_meta = meta if isinstance(meta, Mapping) else ()
    return frozenset(map(str, config)) | {f"meta.{name}" for name in of_meta}


def fitting_problems(node: Node) -> Iterator[Problem]:
    """Yield the settings that another setting makes useless, contradicts, or does not allow."""
    own = written(node)
    for text in (
        *_twice(node["config"], own),
        *_of_another_strategy(node, own),
        *_of_layout(node["config"], own),
        *_of_appends(node),
        *_of_other_adapters(node, own),
        *_of_catalog(node),
        *_of_names(node),
        *_of_snapshot(node),
        *_of_merge(node["config"], own),
    ):
        yield Problem("HW_SETTING", text)


def _is_written(name: str, own: Iterable[str]) -> bool:
    return not {name, f"meta.{name}"}.isdisjoint(own)


def _twice(config: Config, own: frozenset[str]) -> Iterator[str]:
    """Yield the settings with two values, unless the model's own takes precedence."""
    meta = config.get("meta") or {}
    for name in ModelSettings.model_fields:
        first, second = config.get(name), meta.get(name)
        if name in (*ADDED_UP, *OF_CONFIG) or is_empty(first) or is_empty(second):
            continue
        if _listed_value(first) == _listed_value(second):
            continue
        if name not in own or f"meta.{name}" in own:
            yield f"{name} is '{first}' in config and '{second}' in meta: keep one of them"


def _listed_value(value: Any) -> Any:
    """Return a value as settings compare: one name is a list of it."""
    return [value] if isinstance(value, str) else value


def _of_another_strategy(node: Node, own: frozenset[str]) -> Iterator[str]:
    config, kind = node["config"], node["resource_type"]
    strategy: str = kind
    if kind == "model":
        # a target may build a model as a table that another one maintains
        if config.get("materialized") != "incremental":
            return
        strategy = str(config.get("incremental_strategy") or "append")
        if strategy not in INCREMENTAL:
            return
    elif kind not in ("snapshot", "seed"):
        return
    given = {name: name for name in OWNERS} | SYNONYMS
    for name, meaning in given.items():
        owners = OWNERS[meaning]
        if strategy in owners or not _is_written(name, own) or is_empty(setting(config, name)):
            continue
        if name == "unique_key" and kind == "model" and not _is_useless_key(node, own):
            continue
        # dbt requires it of an incremental model with a contract, under any strategy
        if name == "on_schema_change" and (config.get("contract") or {}).get("enforced"):
            continue
        if name == "derived" and isinstance(setting(config, name), bool):  # a word in `meta`
            continue
        remedy = "remove it"
        if strategy == "auto" and set(owners) & set(FOLLOWING):
            remedy = "remove it, or name the strategy"
        with_it = f"a {kind}" if strategy == kind else strategy
        yield f"{name} belongs to {_listed(owners)} and does nothing with {with_it}: {remedy}"


def _is_useless_key(node: Node, own: frozenset[str]) -> bool:
    """Return true if a model names a key beside a strategy without one, and does not publish it.

    A folder may choose the strategy of a model with a key. `graph` does not tell what is published.
    """
    return "incremental_strategy" in own and node.get("is_published") is False


def _listed(owners: Iterable[str]) -> str:
    """Return the owners of a setting, in words."""
    left = ["snapshots" if name == "snapshot" else name for name in owners]
    if set(left) >= set(INCREMENTAL):
        return "incremental models"
    for words, group in _GROUPS.items():
        if set(left) >= set(group):
            left = [*(name for name in left if name not in group), words]
    *others, last = left
    return f"{', '.join(others)} and {last}" if others else last


def _of_layout(config: Config, own: frozenset[str]) -> Iterator[str]:
    if config.get("materialized") not in ("table", "incremental", "seed", "snapshot"):
        return
    both = [name for name in ("partition_by", "cluster_by") if not is_empty(setting(config, name))]
    if len(both) == 2:
        yield "partition_by and cluster_by exclude each other: Delta clusters or partitions a table"
    for name, needed in {"buckets": "clustered_by", "clustered_by": "buckets"}.items():
        if name in own and not is_empty(config.get(name)) and is_empty(config.get(needed)):
            yield f"{name} does nothing without {needed}: write both, or remove it"
    is_delta = config.get("file_format") in (None, "", "delta")
    if {"buckets", "clustered_by"} <= own and is_delta and not is_empty(config["clustered_by"]):
        yield (
            "clustered_by and buckets are buckets of Hive, which Delta does not have: write "
            "cluster_by"
        )


def _of_appends(node: Node) -> Iterator[str]:
    """Yield the property that forbids what the runs of a node do to its table."""
    config, kind = node["config"], node["resource_type"]
    strategy = config.get("incremental_strategy") if kind == "model" else kind
    changes = kind == "snapshot" or config.get("materialized") == "incremental"
    properties = config.get("tblproperties")
    given = properties.get(APPEND_ONLY) if isinstance(properties, Mapping) else None
    if changes and strategy in _CHANGING and str(given).lower() == "true":
        yield (
            f"tblproperties: {APPEND_ONLY} allows new rows alone, and {strategy} changes rows: "
            "remove it"
        )


def _of_other_adapters(node: Node, own: frozenset[str]) -> Iterator[str]:
    if node["config"].get("materialized") == "materialized_view":
        yield (
            "materialized: Spark has no materialized_view: write incremental, with "
            "incremental_strategy: auto"
        )
    for name, remedy in dbt_names.OF_DATABRICKS.items():
        is_own = name in own or name in _HIDING
        if is_own and not is_empty(node["config"].get(name)):
            yield f"{name} is a setting of dbt-databricks and has no effect here: {remedy}"
    for name, ours in dbt_names.OF_OTHERS.items():
        is_given = name in own and not is_empty(node["config"].get(name))
        if is_given and node["resource_type"] == "model":
            yield f"{name} has no effect here: write {ours}"
    for column in (node.get("columns") or {}).values():
        if column.get("column_mask"):
            yield (
                f"column {column['name']}: column_mask is a setting of dbt-databricks and has no "
                f"effect here: {dbt_names.OF_DATABRICKS['column_masks']}"
            )


def _of_catalog(node: Node) -> Iterator[str]:
    is_source = node["resource_type"] == "source"
    if is_source and not (node["config"].get("meta") or {}).get("stream"):
        return  # a run only reads it
    given = node.get("database") if is_source else node["config"].get("database")
    if str(given or "").lower() not in _CATALOGS:
        yield (
            f"database: {given}: headwaters writes to one catalog, spark_catalog: remove it, and "
            "name the schema alone"
        )


def _of_names(node: Node) -> Iterator[str]:
    """Yield the names of a table that Spark does not read without quotes."""
    is_table = node["resource_type"] in ("model", "seed", "snapshot")
    if not is_table or node["config"].get("materialized") == "ephemeral":
        return
    table = node.get("identifier") or node.get("alias")
    for what, name in (("schema", node.get("schema")), ("alias", table)):
        if problem := name_problem(name):
            yield f"{what}: {problem}"


def _of_snapshot(node: Node) -> Iterator[str]:
    if node["resource_type"] != "snapshot":
        return
    names = SnapshotSettings.model_fields
    settings = SnapshotSettings.model_validate({name: node["config"].get(name) for name in names})
    if settings.hard_deletes and settings.invalidate_hard_deletes:
        yield "hard_deletes and invalidate_hard_deletes exclude each other: keep hard_deletes"


def _of_merge(config: Config, own: frozenset[str]) -> Iterator[str]:
    is_merge = config.get("incremental_strategy") == "merge"
    if config.get("materialized") != "incremental" or not is_merge:
        return
    settings = stock_settings(config)
    yield from _contradictions(settings)
    synonyms = {name for synonym, name in SYNONYMS.items() if _is_written(synonym, own)}
    given = [
        name
        for name, field in StockSettings.model_fields.items()
        if getattr(settings, name) != field.default and (_is_written(name, own) or name in synonyms)
    ]
    for name in given:
        if why := _uselessness(name, settings):
            yield f"{name} {why}"


def _contradictions(settings: StockSettings) -> Iterator[str]:
    if settings.merge_update_columns and settings.merge_exclude_columns:
        yield "merge_update_columns and merge_exclude_columns exclude each other: keep one of them"
    if settings.source_alias.lower() == settings.target_alias.lower():
        yield f"source_alias and target_alias are both {settings.source_alias}: rename one"
    if settings.merge_with_schema_evolution and settings.on_schema_change == "fail":
        yield (
            "merge_with_schema_evolution adds new columns, and on_schema_change: fail refuses them:"
            " keep one of them"
        )
    if settings.not_matched_by_source_action and not settings.unique_key:
        yield (
            "not_matched_by_source_action needs a unique_key: without one no row of the table is "
            "matched, and the action would change all of them"
        )
    skips_all = settings.skip_matched_step and settings.skip_not_matched_step
    if skips_all and not (settings.delete_condition or settings.not_matched_by_source_action):
        yield (
            "skip_matched_step and skip_not_matched_step leave a merge that changes no row: remove "
            "one, or write a delete_condition or a not_matched_by_source_action"
        )


def _uselessness(name: str, settings: StockSettings) -> str | None:
    """Return the reason why a setting of a merge does nothing beside the others, or None."""
    updating = ("matched_condition", "merge_update_columns", "merge_exclude_columns")
    if settings.skip_matched_step and name in updating:
        return "does nothing with skip_matched_step: remove one"
    if settings.skip_not_matched_step and name == "not_matched_condition":
        return "does nothing with skip_not_matched_step: remove one"
    if name == "not_matched_by_source_condition" and not settings.not_matched_by_source_action:
        return (
            "does nothing without not_matched_by_source_action: delete, or update set <column> = "
            "<expression>"
        )
    if name in _OF_MATCHES and not settings.unique_key:
        return "needs a unique_key: without one no row of the table is matched"
    return None


def python_problems(node: Node) -> Iterator[Problem]:
    """Yield the settings of a Python model that it cannot have."""
    if node.get("language") != "python":
        return
    config = node["config"]
    method = config.get("submission_method")
    if not is_empty(method) and method != "session":
        yield Problem(
            "HW_PYTHON_MODEL",
            f"submission_method {method} runs a model on Databricks. Here Python models run in "
            f"dbt's own Spark session: remove the setting, or write session",
        )
    strategy = config.get("incremental_strategy")
    if config.get("materialized") == "incremental" and strategy in {*FOLLOWING} - {"auto"}:
        yield Problem(
            "HW_PYTHON_MODEL",
            f"incremental_strategy {strategy} follows the SQL of a model, and this one is Python: "
            "write auto, which replaces the table in every run, or a strategy of dbt",
        )
