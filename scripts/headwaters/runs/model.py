"""A model as a run sees it. Runs read it and never change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headwaters.analysis import (
    StrategyFacts,
    as_stored,
    expectations_of,
    kept_sql,
    prepared,
    strategy_of,
)
from headwaters.platform.nodes import as_tuple
from headwaters.platform.sql import identifier
from headwaters.runs import change_set_cache
from headwaters.runs.decisions import Refresh
from headwaters.runs.inputs import with_one_version_each
from headwaters.runs.session import Config, DbtColumn, DbtRelation, Session
from headwaters.tables.settings import ModelSettings


@dataclass(frozen=True)
class Model:
    """A model, or one of its hidden tables.

    `code` is its compiled SQL with marked inputs, and `config` its config; for a model of plain
    SQL both are derived. `existing` is the relation that the target replaces, or None.
    """

    node: Mapping[str, Any]
    target: DbtRelation
    existing: DbtRelation | None
    code: str
    config: Config
    session: Session

    @property
    def unique_id(self) -> str:
        """Return dbt's unique id of the model."""
        return str(self.node["unique_id"])

    @property
    def exists(self) -> bool:
        """Return true if its table exists."""
        existing = self.existing
        return existing is not None and bool(existing.is_delta) and not existing.is_view

    @cached_property
    def settings(self) -> ModelSettings:
        """Return its settings, typed; `config` has them for macros, with what is derived."""
        return ModelSettings.of_run(self.config)

    @cached_property
    def strategy(self) -> StrategyFacts:
        """Return the strategy that maintains it."""
        strategy = strategy_of(self.config)
        assert strategy is not None
        return strategy

    @cached_property
    def sql(self) -> str:
        """Return the SQL of its rows."""
        return followed_sql(self.session, self.code, self.config)

    @cached_property
    def unfiltered_sql(self) -> str:
        """Return the SQL of its rows, including those that its expectations drop."""
        return followed_sql(self.session, self.code, self.config, kept=False)

    @property
    def keys(self) -> list[str]:
        """Return its unique_key."""
        return names_in(self.config, "unique_key")

    @property
    def row_keys(self) -> list[str]:
        """Return the columns that identify a row of its table."""
        return [*self.keys, *self.strategy.further_keys]

    @property
    def is_hidden(self) -> bool:
        """Return true for a hidden table, which has no declared place, comment or partitions."""
        return "stage_of" in (self.config.get("derivation") or {})

    @cached_property
    def has_expectations(self) -> bool:
        """Return true if expectations are evaluated before rows are written."""
        return bool(expectations_of(self.config))

    @property
    def on_gap(self) -> str:
        """Return `rebuild` or `fail`: the reaction of a run to changes that it cannot read."""
        return self.settings.on_gap or self.strategy.on_gap

    @property
    def on_foreign_write(self) -> str:
        """Return `rebuild`, `fail` or `warn`: the reaction of a run to rows of another writer."""
        return self.settings.on_foreign_write or self.on_gap

    @property
    def refresh(self) -> Refresh:
        """Return `auto`, `incremental` or `strict`: the reaction of a run to a replacement."""
        return self.settings.refresh or "auto"

    @cached_property
    def served(self) -> list[str]:
        """Return the models of this invocation that read the change set in its staging table.

        The last of them drops it, or else the hook at the end of the invocation.
        """
        if not self.session.has_hooks:
            return []
        return change_set_cache.served(
            self.unique_id,
            self.session.graph,
            self.session.selected,
            self.config,
            self.on_foreign_write,
        )

    @cached_property
    def places(self) -> list[str]:
        """Return the columns, besides the key, that locate a row in the table.

        Return none if the old rows are computed and may differ from the table's. Return none
        without a key, because a run then finds rows by all of their columns.
        """
        if not self.keys or (self.strategy.computes_old_rows and self.settings.keeps_results):
            return []
        known = {name.lower() for name in self.keys}
        columns: list[str] = []
        for setting in ("partition_by", "cluster_by", "prune_by"):
            for column in names_in(self.config, setting):
                if column.lower() not in known:
                    columns.append(column)
                    known.add(column.lower())
        return columns

    @property
    def before_names(self) -> list[str]:
        """Return the columns of a change set with the old values of `places`."""
        return [f"_before_{number}" for number, _ in enumerate(self.places, 1)]

    @property
    def beside_names(self) -> list[str]:
        """Return the columns of a change set that the table does not have."""
        return ["_operation", *self.before_names, *(["_replaced"] if self.served else [])]

    def beside_sql(self, row: str | None = None, whole: str | None = None) -> str:
        """Return the select list of a change set after the table's columns and `_operation`.

        It has the places of the replaced row, and the row itself if it is handed on. `row` is an
        alias of its columns, `whole` is all of it. If no row is replaced, the places are those of
        the new one.
        """
        alias = f"{row}." if row else ""
        columns = [
            f", {alias}{identifier(column)} as {name}"
            for column, name in zip(self.places, self.before_names, strict=True)
        ]
        if self.served:
            columns.append(f", {whole or row or 'cast(null as boolean)'} as _replaced")
        return "".join(columns)


def followed_sql(session: Session, code: str, config: Config, kept: bool = True) -> str:
    """Return a compiled model as the engine reads it.

    The result has no comments and semicolons. Every input has an alias and one version, and
    partition columns have their stored values. If `kept`, it omits the rows that the expectations
    drop.
    """
    sql = as_stored(prepared(code), config.get("partition_by"))
    return with_one_version_each(kept_sql(sql, config) if kept else sql)


def names_in(config: Config, setting: str) -> list[str]:
    """Return the columns that a setting names."""
    return list(as_tuple(config.get(setting)))


def spelled(names: Sequence[str], columns: Sequence[DbtColumn]) -> list[str]:
    """Return the columns that a setting names, with the model's upper and lower case."""
    letters = {column.name.lower(): column.name for column in columns}
    return [letters.get(name.lower(), name) for name in names]


def partitions_among(columns: Sequence[str], config: Config) -> list[str]:
    """Return the columns that are partition columns of the model's table."""
    partitions = {name.lower() for name in names_in(config, "partition_by")}
    return [column for column in columns if column.lower() in partitions]
