"""The change sets that runs hand on to later models of the same invocation.

The staging table of a run has the rows that it writes, and the rows that they replace. A later
model that needs only this commit reads them there. The change data feed would cost more: if old
rows are marked by deletion vectors, Delta reads their files again for each reader. A range of more
than this one commit is read from the feed, and so is every range of a later invocation. See
docs/decisions/0033-handed-on.md.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwaters.analysis import parts_of, strategy_of
from headwaters.runs.recovery import is_of
from headwaters.tables.commits import Range
from headwaters.tables.settings import ModelSettings


@dataclass(frozen=True)
class CachedChangeSet:
    """The changes of a run to a table, in its staging table.

    `beside`: the columns that only the staging table has.
    """

    run: str
    stage: str
    beside: tuple[str, ...]


class ChangeSetCache:
    """The change sets of an invocation, by the changed table; safe for threads."""

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        # by table, with the models that have not read the change set yet
        self._kept: dict[tuple[str, ...], tuple[CachedChangeSet, set[str]]] = {}

    def keep(self, table: str, change_set: CachedChangeSet, readers: Iterable[str]) -> None:
        """Keep a change set for models. It replaces an older one of the same table."""
        with self._lock:
            self._kept[parts_of(table)] = change_set, set(readers)

    def released_by(self, reader: str) -> list[str]:
        """Return the staging tables that no model needs after a model has run."""
        with self._lock:
            for _, readers in self._kept.values():
                readers.discard(reader)
            released = [table for table, (_, readers) in self._kept.items() if not readers]
            return [self._kept.pop(table)[0].stage for table in released]

    def find(self, changes: Range, reader: str) -> CachedChangeSet | None:
        """Return the change set that has all changes of a table, or None if only the feed has them.

        Only for a model that it is kept for. A run may drop it at any moment for other models, such
        as those that read the table through a view outside the project.
        """
        with self._lock:
            found, readers = self._kept.get(parts_of(changes.source), (None, set[str]()))
            is_kept = reader in readers
        commit = changes.changed_by
        if found is None or not is_kept or commit is None or not is_of(commit, found.run):
            return None
        if changes.columns_added or changes.columns_altered or changes.replaced:
            return None
        return found


def served(
    unique_id: str,
    graph: Mapping[str, Any],
    selected: Sequence[str],
    config: Mapping[str, Any],
    on_foreign_write: str,
) -> list[str]:
    """Return the models that read the change set of a model from its staging table.

    `selected` has the nodes of the invocation. The replaced rows must be those of the table. If
    they are computed, the table must not have other rows.
    """
    strategy = strategy_of(config)
    is_hidden = "stage_of" in (config.get("derivation") or {})
    if strategy is None or is_hidden or not config.get("unique_key"):
        return []
    may_differ = ModelSettings.of_run(config).keeps_results or on_foreign_write == "warn"
    if strategy.computes_old_rows and may_differ:
        return []
    return [name for name in followers(unique_id, graph) if name in selected]


def followers(unique_id: str, graph: Mapping[str, Any]) -> list[str]:
    """Return the models of a project that may follow the change data feed of a model's table.

    A run reads through views and ephemeral models, so the models behind them follow it as well.
    """
    models = [node for node in graph["nodes"].values() if node["resource_type"] == "model"]
    found: dict[str, None] = {}
    read = [unique_id]  # the table, and everything that reads through to it
    for one in read:
        for node in models:
            if one not in node["depends_on"]["nodes"]:
                continue
            name, materialized = node["unique_id"], node["config"]["materialized"]
            if materialized == "incremental":
                found[name] = None
            elif materialized in ("view", "ephemeral") and name not in read:
                read.append(name)
    return list(found)
