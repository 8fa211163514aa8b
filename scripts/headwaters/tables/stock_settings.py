"""The settings of dbt's own incremental strategies, and of its snapshots and sources.

The strategies are `append`, `merge`, `insert_overwrite` and `microbatch`; docs/models.md lists
their settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import ValidationError

from headwaters.analysis import strategy_of
from headwaters.platform.fields import explained
from headwaters.platform.nodes import Config, setting
from headwaters.platform.problems import Problem, first_name
from headwaters.tables.setting_types import (
    STOCK_STRATEGIES,
    Action,
    Alias,
    ColumnName,
    Condition,
    Conditions,
    Names,
    Number,
    Settings,
    Switch,
    declared,
    is_empty,
)

DESTINATION, SOURCE = "DBT_INTERNAL_DEST", "DBT_INTERNAL_SOURCE"
_MERGE, _BATCHES = ("merge",), ("microbatch",)


class AnySettings(Settings):
    """The settings of dbt that any node may have."""

    event_time: ColumnName | None = None


class SnapshotSettings(AnySettings):
    """The settings of a snapshot that dbt does not check itself."""

    hard_deletes: Literal["ignore", "invalidate", "new_record"] | None = None
    invalidate_hard_deletes: Switch = False


class StockSettings(AnySettings):
    """The settings of one incremental model; an empty value is the default."""

    unique_key: Names = ()
    on_schema_change: Literal["ignore", "fail", "append_new_columns", "sync_all_columns"] = (
        declared(of=STOCK_STRATEGIES, default="ignore")
    )
    incremental_predicates: Conditions = declared(of=_MERGE, default=())
    merge_update_columns: Names = declared(of=_MERGE, default=())
    merge_exclude_columns: Names = declared(of=_MERGE, default=())
    target_alias: Alias = declared(of=_MERGE, default=DESTINATION)
    source_alias: Alias = declared(of=_MERGE, default=SOURCE)
    skip_matched_step: Switch = declared(of=_MERGE, default=False)
    skip_not_matched_step: Switch = declared(of=_MERGE, default=False)
    merge_with_schema_evolution: Switch = declared(of=_MERGE, default=False)
    matched_condition: Condition | None = declared(of=_MERGE)
    delete_condition: Condition | None = declared(of=_MERGE)
    not_matched_condition: Condition | None = declared(of=_MERGE)
    not_matched_by_source_condition: Condition | None = declared(of=_MERGE)
    not_matched_by_source_action: Action | None = declared(of=_MERGE)
    lookback: Number | None = declared(of=_BATCHES)
    # dbt checks these itself
    batch_size: Any = declared(of=_BATCHES)
    begin: Any = declared(of=_BATCHES)
    concurrent_batches: Any = declared(of=_BATCHES)


# Settings of dbt-spark under another name.
SYNONYMS = {"predicates": "incremental_predicates"}


def stock_settings(config: Config) -> StockSettings:
    """Return the settings of a node. Raises ValidationError if `stock_problems` yields any."""
    given = {name: setting(config, name) for name in StockSettings.model_fields}
    for synonym, name in SYNONYMS.items():
        if is_empty(given[name]):
            given[name] = setting(config, synonym)
    return StockSettings.model_validate(given)


def stock_problems(config: Config, kind: str) -> Iterator[Problem]:
    """Yield the settings of dbt whose values are not of their type."""
    settings: type[Settings] = SnapshotSettings if kind == "snapshot" else AnySettings
    given = {name: config.get(name) for name in settings.model_fields}
    try:
        if config.get("materialized") == "incremental" and strategy_of(config) is None:
            settings = StockSettings
            stock_settings(config)
        else:
            settings.model_validate(given)
    except ValidationError as error:
        for text in explained(error, settings):
            yield Problem("HW_SETTING", text, first_name(text))
