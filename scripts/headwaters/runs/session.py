"""The protocols of the warehouse and of dbt, as a run needs them. Tests pass their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping, Sequence
from typing import Any, Protocol

from headwaters.platform.problems import Problem
from headwaters.runs.change_set_cache import ChangeSetCache
from headwaters.runs.client_rows import ClientRows
from headwaters.runs.view_definitions import OtherSetting, View
from headwaters.tables.commits import Commit

Config = Mapping[str, Any]
Row = Any  # by name and by position, as agate's rows


class DbtColumn(Protocol):
    """A column as dbt describes it."""

    name: str
    dtype: str

    @property
    def quoted(self) -> str:
        """Return the name for SQL."""


class DbtRelation(Protocol):
    """A table or view as dbt describes it."""

    schema: Any
    identifier: Any

    @property
    def is_view(self) -> bool:
        """Return true if it is a view."""

    @property
    def is_delta(self) -> Any:
        """Return true if it is a Delta table."""

    def incorporate(self, **changes: Any) -> DbtRelation:
        """Return a changed copy of the relation."""


class ViewsInMemory(Protocol):
    """The views over the client's rows that serve as staging tables. They run no statement."""

    def type_of_query(self, sql: str) -> str:
        """Return the type of a query's rows, as Spark writes it."""

    def show(self, name: str, rows: ClientRows) -> None:
        """Show rows to Spark as a view in its memory."""

    def hide(self, name: str) -> None:
        """Drop such a view, if there is one."""


class Connection(Protocol):
    """The warehouse of a run."""

    def execute(self, sql: str) -> None:
        """Execute a statement."""

    def fetch(self, sql: str) -> Sequence[Row]:
        """Return the rows of a statement."""

    @property
    def views(self) -> ViewsInMemory | None:
        """Return the views, or None if every staging table is a table."""

    def client_rows(self, sql: str, keys: Collection[str]) -> ClientRows | None:
        """Return the rows of a small query, or None if a staging table has to have them.

        `keys` are columns that the client compares.
        """

    def columns(self, sql: str) -> Sequence[DbtColumn]:
        """Return the columns of a query."""

    def columns_of(self, table: DbtRelation) -> Sequence[DbtColumn]:
        """Return the columns of a table."""

    def properties(self, table: object) -> Mapping[str, str]:
        """Return the properties of a table."""

    def history(self, table: object, limit: int) -> list[Commit]:
        """Return the newest commits of a table, newest first."""

    def drop(self, relation: DbtRelation) -> None:
        """Drop a table or a view."""


class Macros(Protocol):
    """The macros of `macros/`, as functions from arguments to SQL."""

    def __call__(self, name: str, *arguments: object) -> Any:
        """Call a macro."""


class Session(Protocol):
    """The invocation of dbt that contains a run."""

    connection: Connection
    macros: Macros
    run_id: str
    graph: Mapping[str, Any]
    selected: Sequence[str]
    has_hooks: bool
    is_empty: bool
    is_sample: bool
    change_sets: ChangeSetCache
    # the rows of tables at commits, by name, version and time, which models of an invocation share
    row_counts: MutableMapping[tuple[object, ...], int]

    def fingerprint(self, sql: str) -> dict[str, dict[str, str]]:
        """Return the context of a query: settings of the session, and functions."""

    def warn(self, text: str) -> None:
        """Show a warning."""

    def newest_version(self, kind: str, source: str) -> dict[str, int] | None:
        """Return version and time of the newest commit of a table, or None for a view."""

    def other_settings(self, stored: Mapping[str, str]) -> list[OtherSetting]:
        """Return the settings of the session that differ from those that a view stores."""

    def other_function(self, view: View) -> str | None:
        """Return a function without a schema that a view and the session resolve differently."""

    def known_history(self, table: str, limit: int, back_to: int, up_to: int) -> list[Commit]:
        """Return the newest commits of a table: `limit`, or those that the invocation has cached.

        The cached ones suffice if they have the version `up_to` and reach back to `back_to`.
        """

    def columns_at(self, table: str, commit: Mapping[str, Any]) -> Sequence[DbtColumn]:
        """Return the columns of a table at a commit, by its `version` and `at`."""

    def properties_at(self, table: str, commit: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the properties of a table at a commit or later, by its `version` and `at`.

        Models of an invocation share them.
        """

    def noted_properties(self, node: Mapping[str, Any]) -> Mapping[str, str] | None:
        """Return the properties of a model's table at some moment of the invocation.

        Return None if there is no Delta table.
        """

    def rows_by_log(self, table: str) -> int | None:
        """Return the rows of a small table at some moment of the invocation, without a statement.

        Return None if only Spark can count them, or if there are many.
        """

    def run_config(self, node: Mapping[str, Any]) -> Config:
        """Return a model's config with typed settings."""

    def problem_of_unread(self, sql: str, inputs: Sequence[Mapping[str, Any]]) -> Problem | None:
        """Return the reason that SQL beyond the analysis cannot build a table, or None."""

    def cached(self, relation: DbtRelation) -> DbtRelation | None:
        """Return a relation from dbt's cache, or None if it does not exist."""

    def note_unchanged(
        self, model: str, digest: str, tables: Mapping[str, Mapping[str, int]]
    ) -> None:
        """Note that a model with its tables at these commits has no changes."""

    def seconds(self) -> float:
        """Return the time of a clock, in seconds."""
