"""An incremental run at work: the current plan, change feeds, and staging tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from headwaters.platform.delta_version import (
    COMMIT_INCOMPLETE,
    COMMITS_LOST,
    FEED_INCOMPATIBLE,
    FEED_OFF,
    FILES_LOST,
)
from headwaters.runs.model import Model
from headwaters.runs.plan import Plan
from headwaters.runs.session import Connection, DbtRelation
from headwaters.tables.commits import Range

# The schema of views that all sessions of a Spark share.
GLOBAL = "global_temp"

# The guard of the macro `hw_text_guard` found U+FFFD. Delta substitutes it for bytes that are not
# UTF-8, so that the keys would differ from the table's. The table may also contain it.
NOT_UTF8 = "it has U+FFFD in place of bytes that are not UTF-8"

# Each cause, with the errors of Delta, Spark and file systems that indicate it.
_CAUSES = (
    ("HW_NOT_UTF8", NOT_UTF8),
    (FEED_OFF, "it was off in between"),
    (FEED_INCOMPATIBLE, "columns changed in between"),
    (COMMITS_LOST, "its commits are no longer retained"),
    (COMMIT_INCOMPLETE, "a commit does not describe its files"),
    (FILES_LOST, "files of it are missing or damaged"),
)


@dataclass(frozen=True)
class FeedReading:
    """The rows of a statement over change feeds, or `gap`, the reason that a feed has lost them.

    `garbled`: the input whose feed has U+FFFD; the input itself may have it, too.
    """

    rows: Any = ()
    gap: str | None = None
    garbled: str | None = None


@dataclass(frozen=True)
class Stored:
    """A stored part, or the reason that the change feeds of its rows cannot be read."""

    relation: DbtRelation
    gap: str | None


def read_feeds(
    connection: Connection,
    sql: str,
    feeds: Mapping[str, str],
    fetch: Callable[[str], Any] | None = None,
) -> FeedReading:
    """Run a statement over change feeds, each with its SQL by input.

    If it fails, read each feed by itself. Raise every error that is not of a lost feed.
    """
    try:
        return FeedReading((fetch or connection.fetch)(sql))
    except DbtRuntimeError as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        for source, feed in feeds.items():
            cause = lost(connection, feed)
            if cause is not None:
                gap = f"the change feed of {source} cannot be read, {cause}"
                return FeedReading(gap=gap, garbled=source if cause == NOT_UTF8 else None)
        raise


def lost(connection: Connection, feed: str) -> str | None:
    """Return the reason that a change feed is lost, or None, also for an error of another kind."""
    try:
        connection.fetch(f"select count(*) from {feed}")
    except DbtRuntimeError as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return lost_feed(error)
    return None


def lost_feed(error: BaseException) -> str | None:
    """Return the reason that a change feed cannot be read, by an error and its causes, or None."""
    text = "\n".join(_texts(error))
    for pattern, cause in _CAUSES:
        if re.search(rf"\b(?:{pattern})\b", text):
            return cause
    return None


def _texts(error: BaseException | None) -> list[str]:
    texts: list[str] = []
    while error is not None and len(texts) < 20:
        texts.append(str(error))
        error = error.__cause__ or error.__context__
    return texts


def staging_table(model: Model, run: str | None = None, part: str | None = None) -> DbtRelation:
    """Return the staging table of a model in this run or another one; `part`: the one of a part."""
    suffix = f"_{part}" if part else ""
    name = f"{model.target.identifier}__stage_{run or model.session.run_id}{suffix}"
    return model.target.incorporate(path={"identifier": name})


def staging_view(model: Model, run: str | None = None) -> DbtRelation:
    """Return the view that takes the place of a staging table for a change set in memory."""
    name = f"{model.target.schema}__{staging_table(model, run).identifier}"
    return model.target.incorporate(path={"schema": GLOBAL, "identifier": name})


def drop_staging_table(connection: Connection, table: object) -> None:
    """Drop a staging table, or the view that takes its place."""
    schema, _, name = str(table).replace("`", "").partition(".")
    if schema != GLOBAL:
        connection.execute(f"drop table if exists {table}")
    elif connection.views:
        connection.views.hide(name)


def drop_change_set_of(model: Model, run: str | None = None) -> None:
    """Drop the change set of a run in either form, which prevents the run from writing it."""
    connection = model.session.connection
    if connection.views:
        drop_staging_table(connection, staging_view(model, run))
    drop_staging_table(connection, staging_table(model, run))


class Work:
    """An incremental run of a model. `plan` is replaced when the run learns more."""

    def __init__(self, model: Model, plan: Plan, bring: Callable[[Model], int | None]) -> None:
        """Begin with a plan; `bring` runs a hidden table and returns its version."""
        self.model = model
        self.plan = plan
        self.bring = bring
        self.connection = model.session.connection
        self.macros = model.session.macros

    def learn(self, **facts: Any) -> None:
        """Replace fields of the plan."""
        self.plan = replace(self.plan, **facts)

    def range_of(self, source: str) -> Range:
        """Return the changes of an input."""
        return self.plan.ranges[source]

    def with_range(self, source: str, changes: Range) -> None:
        """Replace the known changes of an input."""
        self.learn(ranges={**self.plan.ranges, source: changes})

    def feed(self, source: str) -> str:
        """Return the change feed of an input as a relation."""
        return str(self.macros("hw_feed_of_range", source, self.range_of(source)))

    def read(self, sql: str, fetch: Callable[[str], Any] | None = None) -> FeedReading:
        """Run a statement over the change feeds of the plan; `fetch` returns its rows."""
        changed = [source for source, one in self.plan.ranges.items() if one.rows > 0]
        feeds = {source: self.feed(source) for source in changed}
        reading = read_feeds(self.connection, sql, feeds, fetch)
        if reading.garbled is None or self._has_other_bytes(reading.garbled):
            return reading
        # the input itself has U+FFFD, and its feed has replaced no bytes
        self.with_range(reading.garbled, self.range_of(reading.garbled).with_texts([]))
        return self.read(sql.replace(feeds[reading.garbled], self.feed(reading.garbled)), fetch)

    def _has_other_bytes(self, source: str) -> bool:
        changes = self.range_of(source)
        before = f"select * from {source} version as of {changes.after}"
        known = {column.name.lower() for column in self.connection.columns(before)}
        texts = {
            changes.after: [name for name in changes.texts if name.lower() in known],
            changes.to: list(changes.texts),
        }
        of_versions = {version: names for version, names in texts.items() if names}
        sql = self.macros("hw_other_bytes_sql", source, of_versions)
        return len(self.connection.fetch(sql)) > 0

    def stage(self, table: DbtRelation, sql: str) -> str | None:
        """Create a staging table.

        If the change feeds cannot be read, create none and return the reason.
        """
        reading = self.read(self.macros("hw_create_staging_table_sql", table, sql))
        if reading.gap:
            drop_staging_table(self.connection, table)
        return reading.gap

    def store(self, part: str, sql: str) -> Stored:
        """Store a part that a change set reads more than once.

        Spark would compute a common table expression again for each reference, without knowing how
        few its rows are.
        """
        relation = staging_table(self.model, part=part)
        gap = self.stage(relation, sql)
        if not gap:
            self.learn(stored=(*self.plan.stored, relation))
        return Stored(relation, gap)

    def drop_stored(self) -> None:
        """Drop the stored parts."""
        for relation in self.plan.stored:
            drop_staging_table(self.connection, relation)


def quoted_names(columns: Iterable[Any]) -> str:
    """Return the names of columns for a select list."""
    return ", ".join(column.quoted for column in columns)
