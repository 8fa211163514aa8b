"""A connection of dbt to Spark for `method: session`, which replaces that of dbt-spark.

dbt-spark's connection

- builds its session again for every statement, which costs a dozen calls each time and, on Spark
  Connect, a warning;
- lets a second process open the embedded metastore, and prints Java's errors;
- passes on whole Java stack traces;
- continues with its statements after Ctrl-C, so dbt prints a stack trace.

Remove this module when dbt-spark handles these cases. See docs/decisions/0003-one-line-errors.md.

This connection also repeats a statement that conflicts with maintenance: Delta ends a merge whose
files were compacted, although the compaction changed no row. Maintenance yields; writes do not
fail.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.headwaters import client_rows
from dbt.adapters.headwaters.connections import current, derby_folder, end_on_interrupt
from dbt.adapters.spark.session import Connection, Cursor, SessionConnectionWrapper
from dbt_common.exceptions import DbtRuntimeError
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField

from headwaters.platform import cluster, engine, hive_metastore, metastore, object_store
from headwaters.platform import lake as lakes
from headwaters.platform.delta_version import CONFLICT, CONFLICT_WITH_MAINTENANCE
from headwaters.platform.engine import OF_THIS_LAKE, Engine
from headwaters.platform.errors import UserError, WorkError, java_ended, quiet
from headwaters.platform.spark_driver import driver_settings
from headwaters.platform.spark_environment import settings_named
from headwaters.platform.spark_errors import is_unavailable, one_line
from headwaters.platform.spark_mistakes import explained
from headwaters.platform.spark_version import CHAR_TYPE
from headwaters.runs.client_rows import ClientRows

_lock = threading.Lock()

# One session for each address; the address None is an embedded Spark.
_sessions: dict[str | None, Any] = {}

# Each `spark.remote` that is a server of the lake, with its name and the function that finds it.
OWN: dict[str, tuple[str, Callable[[Path], Engine | None]]] = {
    OF_THIS_LAKE: ("engine", engine.find),
    cluster.OF_THIS_LAKE: ("cluster", cluster.find),
}

# Retries of a call to a server on this machine: 17 seconds. Spark's client retries for 10 minutes.
RETRIES = 5

quiet()


STARTING = "starting Spark; `headwaters engine start` keeps one running for later commands"


class StatementError(Exception):
    """An error of a statement, with Spark's message and error condition."""


class HeadwatersCursor(Cursor):
    """A cursor of dbt-spark with one session for each process and one-line errors."""

    def __init__(self, settings: Mapping[str, str], lake: Path) -> None:
        """Create a cursor on the session of these settings, on a lake."""
        super().__init__(server_side_parameters=dict(settings))
        self._lake = lake
        self._sql = ""

    @property
    def description(self) -> list[tuple[str, Any, None, None, None, None, bool]]:
        """Return names and types of the columns; Spark's schema has a `char` as a string."""
        fields = self._df.schema.fields if self._df is not None else []
        return [
            (field.name, _char(field) or kind, None, None, None, None, field.nullable)
            for field, (_, kind, *_) in zip(fields, super().description, strict=True)
        ]

    def execute(self, sql: str, *parameters: Any) -> None:
        """Run a statement."""
        if parameters:
            sql = sql % parameters
        self._sql = sql
        with _lock:
            if not _sessions and "spark.remote" not in self.server_side_parameters:
                AdapterLogger("Spark").info(STARTING)
            spark = session_of(_sessions, self.server_side_parameters, self._lake)
        # dbt-spark turns errors of this method into dbt errors, but not those of the methods below
        with short_errors(StatementError, self._lake, sql):
            self._df = _give_way(lambda: spark.sql(sql), sql)

    def client_rows(self, keys: Collection[str]) -> ClientRows | None:
        """Return all rows as Arrow, or None if a client should not have them: see client_rows."""
        with short_errors(DbtRuntimeError, self._lake, self._sql):
            return client_rows.collect(self._df, keys)

    def fetchall(self) -> Any:
        """Return all rows."""
        with short_errors(DbtRuntimeError, self._lake, self._sql):
            return super().fetchall()

    def fetchone(self) -> Any:
        """Return the next row."""
        with short_errors(DbtRuntimeError, self._lake, self._sql):
            return super().fetchone()


class HeadwatersConnection(Connection):
    """A connection that creates cursors on a lake."""

    def __init__(self, settings: Mapping[str, str], lake: Path) -> None:
        """Create a connection for the session of these settings, on a lake."""
        super().__init__(server_side_parameters=dict(settings))
        self._lake = lake

    def cursor(self) -> Cursor:
        """Return a cursor."""
        return HeadwatersCursor(self.server_side_parameters, self._lake)


class HeadwatersWrapper(SessionConnectionWrapper):
    """The handle of a connection."""

    def cancel(self) -> None:
        """End the running statements."""
        for spark in _sessions.values():
            spark.interruptAll()


def shared_session(settings: Mapping[str, str], lake: Path) -> Any:
    """Return the session that dbt uses for these settings, for statements outside of dbt."""
    with _lock:
        return session_of(_sessions, settings, lake)


@contextmanager
def spark_of(settings: Mapping[str, str], lake: Path) -> Iterator[Any]:
    """Yield that session; raise its errors as DbtRuntimeError with Spark's message in one line."""
    spark = shared_session(settings, lake)
    with short_errors(DbtRuntimeError, lake):
        yield spark


def rows_of(settings: Mapping[str, str], lake: Path, sql: str) -> list[Any]:
    """Return the rows of a small statement that belongs to no model."""
    with spark_of(settings, lake) as spark:
        return list(spark.sql(sql).collect())


def check_location(settings: Mapping[str, str], lake: Path, location: str) -> None:
    """Raise UserError if a Spark elsewhere writes tables at a location without the log store."""
    remote = settings.get("spark.remote")
    if remote and remote not in OWN:
        spark = shared_session(settings, lake)
        object_store.check_server(spark.conf.get, remote.split(";")[0], location)


def is_shared(settings: Mapping[str, str], lake: Path) -> bool:
    """Return true if one Spark runs every statement on the tables of a lake.

    That is an embedded Spark or the engine of the lake, which lock the lake, unless the metastore
    is outside the lake.
    """
    remote = settings.get("spark.remote")
    if "spark.sql.globalTempDatabase" in settings:
        return False
    if remote is None:
        return derby_folder(settings) is not None
    running = engine.find(lake)
    if running is None or running.shares_metastore:
        return running is None and remote == OF_THIS_LAKE
    return remote in (OF_THIS_LAKE, running.remote)


def _char(field: StructField) -> str | None:
    """Return `char(5)` for a column of this type, None for other types."""
    written = str(field.metadata.get(CHAR_TYPE, ""))
    return written if written.startswith("char") else None


def _give_way(run: Callable[[], Any], sql: str) -> Any:
    """Run a statement, and repeat it after a conflict with maintenance.

    If the other commit changed no row, any statement may be repeated, since its inputs are
    unchanged. OPTIMIZE and REORG may be repeated after any conflict.
    """
    maintains = re.match(r"\s*(optimize|reorg)\b", sql, flags=re.IGNORECASE)
    for pause in (0.2, 1.0, 3.0, 5.0):
        try:
            return run()
        except Exception as error:
            text = str(error)
            if not re.search(CONFLICT, text):
                raise
            if not maintains and not re.search(CONFLICT_WITH_MAINTENANCE, text):
                raise
            time.sleep(pause)
    return run()


@contextmanager
def short_errors(kind: type[Exception], lake: Path, sql: str = "") -> Iterator[None]:
    """Raise errors of Spark in one line; those about a node's SQL name a line of its file."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        AdapterLogger("Spark").debug(str(error))
        if isinstance(error, ConnectionError | Py4JNetworkError) and (ended := java_ended()):
            raise kind(str(ended)) from None
        if is_unavailable(error):
            for spark in _sessions.values():
                _try_again(spark, 0)  # PySpark says goodbye when the process ends
            raise kind(str(server_ended(lake))) from None
        mistake = current.sql and explained(str(error), sql, current.sql)
        raise kind(f"{mistake or one_line(error)}\n(more in {_log(lake)})") from None


def session_of(sessions: dict[str | None, Any], settings: Mapping[str, str], lake: Path) -> Any:
    """Return the session for these settings; start it and add it to `sessions` if needed.

    Raise WorkError or UserError in one line if no session is available.
    """
    remote = settings.get("spark.remote")
    own = remote is None or remote in OWN
    if own:
        lakes.enter(lake)
    outside = None  # the address of a metastore outside the lake
    if remote in OWN:
        what, find = OWN[remote]
        running = find(lake)
        if running is None:
            raise WorkError(
                "HW_NO_SPARK",
                f"no {what} runs on this lake: start one with `headwaters {what} start`",
            )
        if running.shares_metastore:
            outside = (hive_metastore.noted(lake) or (True, f"of the {what}"))[1]
        remote = running.remote
        settings = {**settings, "spark.remote": remote}
    found = sessions.get(remote)
    if found is not None and (remote is not None or found.sparkContext._jsc is not None):
        return found
    if remote == "":
        raise WorkError(
            "HW_ENVIRONMENT",
            "--target cluster needs the address of its Spark Connect server: "
            "HEADWATERS_CLUSTER=sc://host:15002 in the environment, or unset for the cluster of "
            "this lake",
        )
    if remote is not None and not engine.answers(remote):
        raise WorkError("HW_NO_SPARK", f"no Spark listens at {remote.split(';')[0]}")
    if remote is None:
        settings, named = hive_metastore.enter(settings, lake)
        outside = None if named is None else named.address
        settings = driver_settings(lake / "logs", settings)
    embedded = remote is None and derby_folder(settings) is not None
    if embedded:
        metastore.hold(lake, "dbt")
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    if remote is None and settings.get("spark.sql.catalogImplementation") != "in-memory":
        builder = builder.enableHiveSupport()
    spark = None
    try:
        spark = builder.getOrCreate()
        if remote is not None and remote.startswith("sc://localhost"):
            # if a server on this machine ends, the same one does not return
            _try_again(spark, RETRIES)
        schema = spark.sql("describe schema default").collect() if own else []
    except Exception as error:
        if is_unavailable(error):
            _try_again(spark, 0)  # PySpark says goodbye when the process ends
            raise cluster.ended(remote, lake) from None
        raise WorkError(
            "HW_SPARK_START",
            f"Spark does not start: {one_line(error)}{settings_named(os.environ)}"
            f"\n(more in {_log(lake)})",
        ) from None
    end_on_interrupt()  # Spark replaced the handler
    for name, location in schema:
        if name == "Location" and (embedded or outside or remote is not None):
            warehouse = spark.conf.get("spark.sql.warehouse.dir")
            try:
                if outside:
                    hive_metastore.check_lake(outside, location, str(warehouse), lake)
                else:
                    lakes.check_warehouse(lake, location, str(warehouse), is_embedded=True)
            except UserError:
                spark.stop()
                raise
    if remote is not None and not own:
        object_store.check_server(spark.conf.get, remote.split(";")[0])
    sessions[remote] = spark
    return spark


def server_ended(lake: Path) -> WorkError:
    """Return the error of the Spark server of this process, which no longer answers."""
    return cluster.ended(next((remote for remote in _sessions if remote), None), lake)


def _try_again(spark: Any, times: int) -> None:
    """Set the number of retries for calls of a Spark Connect session."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    if hasattr(spark, "client"):
        spark.client.set_retry_policies([DefaultPolicy(max_retries=times)])


def _log(lake: Path) -> str:
    return os.path.relpath(lake / "logs" / "spark.log")
