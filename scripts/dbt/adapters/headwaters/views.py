"""Queries that need no statement, and views over rows in the client's memory.

The view is a global one: every session of the same Spark can drop it. A run that takes over from
another one can thus prevent that one from writing, as it does by dropping a staging table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from dbt.adapters.headwaters.columns import HeadwatersColumn
from dbt_common.exceptions import DbtRuntimeError

from headwaters.platform.errors import UserError, WorkError
from headwaters.runs.client_rows import ClientRows, orphaned


class Views:
    """The global temporary views of an invocation, over rows in the client's memory."""

    def __init__(self, credentials: Any) -> None:
        """Show nothing yet."""
        self._credentials = credentials
        self._shown: set[str] = set()
        self._has_shown = False
        self._is_shared: bool | None = None

    @property
    def is_shared(self) -> bool:
        """Return true if every run of the lake sees these views: see `session.is_shared`."""
        credentials = self._credentials
        if credentials.method != "session":
            return False
        if self._is_shared is None:
            from dbt.adapters.headwaters import session  # `dbt parse` needs no pyspark.sql

            self._is_shared = session.is_shared(
                credentials.server_side_parameters, credentials.folder
            )
        return self._is_shared

    def type_of_query(self, sql: str) -> str:
        """Return the type of a query's rows, as Spark writes it."""
        with self._spark() as spark:
            return str(spark.sql(sql).schema.simpleString())

    def columns_of(self, sql: str) -> list[Any]:
        """Return the columns of a query."""
        with self._spark() as spark:
            return [
                HeadwatersColumn.create(field.name, field.dataType.simpleString())
                for field in spark.sql(sql).schema.fields
            ]

    def show(self, name: str, rows: ClientRows) -> None:
        """Show rows to Spark under a name. Before the first ones, drop those of killed runs."""
        from dbt.adapters.headwaters import client_rows

        with self._spark() as spark:
            if not self._has_shown:
                self._has_shown = True
                views = [table.name for table in spark.catalog.listTables("global_temp")]
                for orphan in orphaned(views, datetime.now(UTC)):
                    self.hide(orphan)
            self._shown.add(name)
            client_rows.show(spark, name, rows)

    def hide(self, name: str) -> None:
        """Drop a view of this run or of another one, if there is one."""
        if not self.is_shared:
            return
        with self._spark() as spark:
            spark.catalog.dropGlobalTempView(name)
        self._shown.discard(name)

    def hide_all(self) -> None:
        """Drop the views that failed runs have left, at the end of a command."""
        for name in sorted(self._shown):
            with suppress(DbtRuntimeError, UserError, WorkError):  # Spark may have ended
                self.hide(name)
        self._shown.clear()

    @contextmanager
    def _spark(self) -> Iterator[Any]:
        from dbt.adapters.headwaters.session import spark_of  # `dbt parse` needs no pyspark.sql

        with spark_of(self._credentials.server_side_parameters, self._credentials.folder) as spark:
            yield spark
