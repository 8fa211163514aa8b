"""The change sets that the runs of an invocation hand on to the models that follow their tables.

A run knows what it changes: its staging table has the rows that it writes, and those that they
replace. A model further down that needs just this commit reads them there. The change data feed
would have Delta look for them in files: where old rows were marked as deleted beside their files
it reads the files again, for each reader. A range that has more than this one commit is read from
the feed, and so is every range of a later invocation. See docs/decisions/0033-handed-on.md.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwaters.analysis.sql_text import parts_of
from headwaters.analysis.strategies import strategy_of
from headwaters.runs.recovery import is_of
from headwaters.tables.commits import Range


@dataclass(frozen=True)
class ChangeSet:
    """What a run changed in a table, in its staging table.

    `beside` are the columns of the staging table that are not the table's own.
    """

    run: str
    stage: str
    beside: tuple[str, ...]


class HandedOn:
    """The change sets of an invocation, by the table that they changed. Threads may share it."""

    def __init__(self) -> None:
        """None, at first."""
        self._lock = threading.Lock()
        # of each table, with the models that have not read it yet
        self._kept: dict[tuple[str, ...], tuple[ChangeSet, set[str]]] = {}

    def keep(self, table: str, change_set: ChangeSet, readers: Iterable[str]) -> None:
        """Keep it for models; the newest change set of a table takes the place of others."""
        with self._lock:
            self._kept[parts_of(table)] = change_set, set(readers)

    def released_by(self, reader: str) -> list[str]:
        """The staging tables that nobody needs any more, now that a model has run."""
        with self._lock:
            for _, readers in self._kept.values():
                readers.discard(reader)
            released = [table for table, (_, readers) in self._kept.items() if not readers]
            return [self._kept.pop(table)[0].stage for table in released]

    def find(self, changes: Range, reader: str) -> ChangeSet | None:
        """The change set that has all that a table went through, or None: the feed has it.

        Only for a model that it is kept for: for others, as those that read the table through a
        view that is none of the project's models, it may be dropped at any moment.
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
    """The models for which a run of another one keeps its change set.

    `selected` are the nodes of the invocation. The rows that are replaced must be those of the
    table: where they are computed, nothing may have left others there.
    """
    strategy = strategy_of(config)
    is_hidden = "stage_of" in (config.get("derivation") or {})
    if strategy is None or is_hidden or not config.get("unique_key"):
        return []
    may_differ = (
        config.get("allow_nondeterministic")
        or config.get("on_lookup_change") == "ignore"
        or on_foreign_write == "warn"
    )
    if strategy.computes_old_rows and may_differ:
        return []
    return [name for name in followers(unique_id, graph) if name in selected]


def followers(unique_id: str, graph: Mapping[str, Any]) -> list[str]:
    """The models of a project that may follow the change data feed of a model's table.

    A run reads through views and ephemeral models, so that those behind them follow it as well.
    """
    models = [node for node in graph["nodes"].values() if node["resource_type"] == "model"]
    found: dict[str, None] = {}
    read = [unique_id]  # the table, and what is read through to it, which grows
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
