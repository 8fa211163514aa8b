"""How dbt reaches Spark: the profile of `type: headwaters`, and the connections that it opens."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from multiprocessing.context import SpawnContext
from pathlib import Path
from typing import Any

from dbt.adapters.contracts.connection import Connection, ConnectionState
from dbt.adapters.spark.connections import SparkConnectionManager, SparkCredentials
from dbt_common.exceptions import DbtRuntimeError

from headwaters.platform.errors import UserError
from headwaters.platform.fields import text_of
from headwaters.platform.lake import home
from headwaters.runs.histories import Histories, written_by
from headwaters.tables.outer import output_problems

DERBY = "spark.hadoop.javax.jdo.option.ConnectionURL"

# What a Spark inside the process needs and a profile need not say. A profile's own setting stands.
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # A version can be read for as long as its files are there, and `maintain` asks who needs them.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# For a Spark that is one process: nobody else on the network may talk to it, and there are few
# cores, so that with Spark's hundreds of partitions every statement would pay for empty tasks.
_ALONE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.authenticate": "true",
    "spark.sql.shuffle.partitions": str(max(4, os.cpu_count() or 1)),
    "spark.databricks.delta.snapshotPartitions": "2",
}
# How every session writes dates and times into files, wherever its Spark runs. Spark's default is
# INT96, which other readers take for nanoseconds: years before 1677 and after 2262 wrap there.
_FILES = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}


@dataclass
class HeadwatersCredentials(SparkCredentials):
    """A target of `type: headwaters`: dbt-spark's keys, and `lake`.

    `lake` is the folder of the tables, the metastore and the logs of a Spark inside the process
    (default: HEADWATERS_LAKE, or `lake` in the project), where `server_side_parameters` do not name
    other places. `method` is `session` by default.
    """

    lake: str | None = None

    @classmethod
    def __pre_deserialize__(cls, data: Any) -> Any:
        """Called by dbt with what a profile says."""
        return super().__pre_deserialize__({"method": "session", "host": "NA", **data})

    @classmethod
    def validate(cls, data: Any) -> None:
        """Refuse a key that misspells one, and wrong types; called by dbt with a profile's text."""
        texts = data.get("server_side_parameters") or {}
        if isinstance(texts, dict):  # Spark's settings are texts, and YAML has numbers and booleans
            data["server_side_parameters"] = {key: text_of(value) for key, value in texts.items()}
        problems = list(output_problems(data, [field.name for field in fields(cls)]))
        if problems:
            raise DbtRuntimeError("\n".join(map(str, problems)))
        super().validate(data)

    @property
    def type(self) -> str:
        """The name of the adapter."""
        return "headwaters"

    def _connection_keys(self) -> tuple[str, ...]:
        return "method", "schema", "lake"

    def connection_info(self, *, with_aliases: bool = False) -> Iterator[tuple[str, Any]]:
        """Called by `dbt debug`, before `settle`."""
        for key, value in super().connection_info(with_aliases=with_aliases):
            yield key, str(self.place) if key == "lake" else value

    def settle(self, root: Path) -> None:
        """Take the project's root for the lake's path, and add the settings that are not named.

        Raises UserError for a setting with which other readers would read other dates and times.
        """
        self.lake = str(root / self._named)
        given = self.server_side_parameters
        for name, value in _FILES.items():
            if given.get(name, value).upper() != value:
                raise UserError(
                    "HW_PROFILE",
                    f"the target sets {name} to {given[name]}, with which readers outside Spark "
                    f"would read other dates and times: remove it, since headwaters sets {value}",
                )
        self.server_side_parameters = given = {**given, **_FILES}
        if self.method == "session" and "spark.remote" not in given:
            self.server_side_parameters = {**defaults(Path(self.lake), given), **given}

    @property
    def folder(self) -> Path:
        """The lake: that of the embedded metastore, or else `lake`."""
        return home(self.place)

    @property
    def place(self) -> Path:
        """The lake's path as the profile has it: relative to the project's root, or absolute."""
        metastore = derby_folder(self.server_side_parameters)
        return metastore.parent if metastore else Path(self._named)

    @property
    def _named(self) -> str:
        return self.lake or os.environ.get("HEADWATERS_LAKE") or "lake"


def defaults(lake: Path, given: Mapping[str, str]) -> dict[str, str]:
    """The settings of a Spark inside the process on a lake, beside those that are given."""
    added = {**_DELTA, "spark.sql.warehouse.dir": str(lake / "warehouse")}
    if given.get("spark.master", "local").startswith("local"):
        added |= _ALONE
    elsewhere = ("spark.hadoop.hive.metastore.uris", "spark.sql.catalogImplementation")
    if not any(name in given for name in elsewhere):
        added |= {
            DERBY: f"jdbc:derby:;databaseName={lake / 'metastore'};create=true",
            "spark.hadoop.hive.metastore.disallow.incompatible.col.type.changes": "false",
        }
    return added


def derby_folder(settings: Mapping[str, str]) -> Path | None:
    """The folder of the embedded metastore that these settings name; None for any other one."""
    found = re.match(r"jdbc:derby:(?:;databaseName=|directory:)?([^;]+)", settings.get(DERBY, ""))
    if found is None or found[1].startswith(("memory:", "classpath:", "jar:", "//")):
        return None
    return Path(found[1])


class HeadwatersConnectionManager(SparkConnectionManager):
    """Connections to Spark; those of `method: session` are dbt.adapters.headwaters.session's."""

    TYPE = "headwaters"

    def __init__(self, profile: Any, mp_context: SpawnContext) -> None:
        """Called by dbt once for each adapter."""
        super().__init__(profile, mp_context)
        self.histories = Histories()

    def add_query(self, sql: str, *arguments: Any, **options: Any) -> tuple[Connection, Any]:
        """Run a statement; what a table said of its commits counts until it is written to."""
        written = written_by(sql)
        if written is None:
            return super().add_query(sql, *arguments, **options)
        self.histories.discard(written.table)
        try:
            return super().add_query(sql, *arguments, **options)
        finally:
            self.histories.discard(written.table)

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        """Open a connection: dbt-spark's, but for `method: session`."""
        credentials = connection.credentials
        if connection.state == ConnectionState.OPEN or credentials.method != "session":
            return super().open(connection)
        from dbt.adapters.headwaters import session  # `dbt parse` does without pyspark.sql

        settings, lake = credentials.server_side_parameters, credentials.folder
        handle = session.HeadwatersConnection(settings, lake)
        connection.handle = session.HeadwatersWrapper(handle)
        connection.state = ConnectionState.OPEN
        return connection


class Interrupted(DbtRuntimeError, KeyboardInterrupt):
    """Ctrl-C: dbt ends its nodes as for the one, and is silent about its stack as for the other."""


def _interrupt(number: int, frame: object) -> None:
    raise Interrupted("stopped; the next run completes what is missing")


def end_on_interrupt() -> None:
    """Let Ctrl-C raise Interrupted in the main thread."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupt)
