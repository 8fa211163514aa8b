"""dbt's connection to Spark for `method: session`, in place of dbt-spark's, which

- builds its session again for every statement, which costs a dozen calls each time and, on Spark
  Connect, a warning;
- lets a second process run into the embedded metastore, and prints what Java then says;
- passes on whole Java stack traces;
- continues with its statements after Ctrl-C, for which dbt then prints a stack trace of its own.

It can go when dbt-spark does these. See docs/decisions/0003-one-line-errors.md.

It also repeats a statement that maintenance came in the way of: Delta ends a merge whose files were
compacted meanwhile, though no row of them was changed. Maintenance gives way, writes do not fail.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.headwaters.connections import derby_folder, end_on_interrupt
from dbt.adapters.spark.session import Connection, Cursor, SessionConnectionWrapper
from dbt_common.exceptions import DbtRuntimeError
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField

from headwaters.platform import engine, metastore
from headwaters.platform import lake as lakes
from headwaters.platform.errors import UserError, WorkError, java_ended, quiet, server_ended
from headwaters.platform.spark_driver import driver_settings
from headwaters.platform.spark_errors import is_unavailable, one_line

_lock = threading.Lock()

# One session for each address; none is an embedded Spark.
_sessions: dict[str | None, Any] = {}

# The `spark.remote` of the target `engine`, where the environment names no other.
OF_THIS_LAKE = "the engine of this lake"

# Of a call to a server on this machine: 17 seconds, where Spark's client would try for 10 minutes.
RETRIES = 5

quiet()


class StatementError(Exception):
    """What Spark says of a statement, under the condition that Spark names."""


class HeadwatersCursor(Cursor):
    """dbt-spark's cursor with one session for each process and errors of one line."""

    def __init__(self, settings: Mapping[str, str], lake: Path) -> None:
        """A cursor on the session of these settings, on a lake."""
        super().__init__(server_side_parameters=dict(settings))
        self._lake = lake

    @property
    def description(self) -> list[tuple[str, Any, None, None, None, None, bool]]:
        """Names and types; a char is told from a string, as Spark's own schema does not."""
        fields = self._df.schema.fields if self._df is not None else []
        return [
            (field.name, _char(field) or kind, None, None, None, None, field.nullable)
            for field, (_, kind, *_) in zip(fields, super().description, strict=True)
        ]

    def execute(self, sql: str, *parameters: Any) -> None:
        """Run a statement."""
        if parameters:
            sql = sql % parameters
        with _lock:
            spark = session_of(_sessions, self.server_side_parameters, self._lake)
        # dbt-spark makes a dbt error of what comes from here, and of nothing below
        with _short_errors(StatementError, self._lake):
            self._df = _give_way(lambda: spark.sql(sql), sql)

    def fetchall(self) -> Any:
        """All rows."""
        with _short_errors(DbtRuntimeError, self._lake):
            return super().fetchall()

    def fetchone(self) -> Any:
        """The next row."""
        with _short_errors(DbtRuntimeError, self._lake):
            return super().fetchone()


class HeadwatersConnection(Connection):
    """What gives out cursors on a lake."""

    def __init__(self, settings: Mapping[str, str], lake: Path) -> None:
        """A connection for the session of these settings, on a lake."""
        super().__init__(server_side_parameters=dict(settings))
        self._lake = lake

    def cursor(self) -> Cursor:
        """A cursor."""
        return HeadwatersCursor(self.server_side_parameters, self._lake)


class HeadwatersWrapper(SessionConnectionWrapper):
    """The handle of a connection."""

    def cancel(self) -> None:
        """End the statements that run."""
        for spark in _sessions.values():
            spark.interruptAll()


def rows_of(settings: Mapping[str, str], lake: Path, sql: str) -> list[Any]:
    """Rows of a small statement that belongs to no model, in the session of these settings.

    Raises DbtRuntimeError with what Spark says, in one line.
    """
    with _lock:
        spark = session_of(_sessions, settings, lake)
    with _short_errors(DbtRuntimeError, lake):
        return list(spark.sql(sql).collect())


def _char(field: StructField) -> str | None:
    """`char(5)`, where a column is one."""
    written = str(field.metadata.get("__CHAR_VARCHAR_TYPE_STRING", ""))
    return written if written.startswith("char") else None


def _give_way(run: Callable[[], Any], sql: str) -> Any:
    """Run a statement, again where a commit of maintenance, or a writer, came in its way.

    A conflict with a commit that changed no row may be repeated whatever the statement is: what it
    was computed from is as it was. OPTIMIZE and REORG may be repeated whatever came in their way.
    """
    maintains = re.match(r"\s*(optimize|reorg)\b", sql, flags=re.IGNORECASE)
    for pause in (0.2, 1.0, 3.0, 5.0):
        try:
            return run()
        except Exception as error:
            text = str(error)
            if not re.search(r"DELTA_CONCURRENT|Concurrent\w+Exception", text):
                raise
            if not maintains and not re.search(r"a concurrent (OPTIMIZE|REORG|VACUUM)", text):
                raise
            time.sleep(pause)
    return run()


@contextmanager
def _short_errors(kind: type[Exception], lake: Path) -> Iterator[None]:
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        AdapterLogger("Spark").debug(str(error))
        if isinstance(error, ConnectionError | Py4JNetworkError) and (ended := java_ended()):
            raise kind(str(ended)) from None
        if is_unavailable(error):
            for spark in _sessions.values():
                _try_again(spark, 0)  # PySpark says goodbye when the process ends
            raise kind(str(server_ended())) from None
        raise kind(f"{one_line(error)}\n(more in {_log(lake)})") from None


def session_of(sessions: dict[str | None, Any], settings: Mapping[str, str], lake: Path) -> Any:
    """The session for these settings, started and put into `sessions` where none there lives.

    Raises WorkError or UserError, one line, where there is none to be had.
    """
    remote = settings.get("spark.remote")
    own = remote is None or remote == OF_THIS_LAKE
    if own:
        lakes.enter(lake)
    if remote == OF_THIS_LAKE:
        running = engine.find(lake)
        if running is None:
            raise WorkError(
                "HW_NO_SPARK",
                "no engine runs on this lake: start one with `headwaters engine start`",
            )
        remote = running.remote
        settings = {**settings, "spark.remote": remote}
    found = sessions.get(remote)
    if found is not None and (remote is not None or found.sparkContext._jsc is not None):
        return found
    if remote == "":
        raise WorkError(
            "HW_ENVIRONMENT",
            "--target cluster needs the address of its Spark Connect server: "
            "HEADWATERS_CLUSTER=sc://host:15002 in the environment",
        )
    if remote is not None and not engine.answers(remote):
        raise WorkError("HW_NO_SPARK", f"no Spark listens at {remote.split(';')[0]}")
    embedded = remote is None and derby_folder(settings) is not None
    if remote is None:
        settings = driver_settings(lake / "logs", settings)
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
            # a server on this machine that went away does not come back as the same one
            _try_again(spark, RETRIES)
        schema = spark.sql("describe schema default").collect() if own else []
    except Exception as error:
        if is_unavailable(error):
            _try_again(spark, 0)  # PySpark says goodbye when the process ends
            raise server_ended() from None
        raise WorkError(
            "HW_SPARK_START", f"Spark does not start: {one_line(error)}\n(more in {_log(lake)})"
        ) from None
    end_on_interrupt()  # Spark took it over
    for name, location in schema:
        if name == "Location" and (embedded or remote is not None):
            warehouse = spark.conf.get("spark.sql.warehouse.dir")
            try:
                lakes.check_warehouse(lake, location, str(warehouse))
            except UserError:
                spark.stop()
                raise
    sessions[remote] = spark
    return spark


def _try_again(spark: Any, times: int) -> None:
    """How often calls of a session of Spark Connect are tried again."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    if hasattr(spark, "client"):
        spark.client.set_retry_policies([DefaultPolicy(max_retries=times)])


def _log(lake: Path) -> str:
    return os.path.relpath(lake / "logs" / "spark.log")
