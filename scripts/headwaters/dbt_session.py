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
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from headwaters.errors import UserError, WorkError, java_ended, quiet
from headwaters.project import Project
from headwaters.spark_errors import one_line

_lock = threading.Lock()

# One session for each address; none is an embedded Spark.
_sessions: dict[str | None, Any] = {}

# The `spark.remote` of the target `engine`, where the environment names no other.
OF_THIS_LAKE = "the engine of this lake"


def install_cursor() -> None:
    """Put the cursor in place, once; imports pyspark, which `dbt parse` does without."""
    with _lock:
        from dbt.adapters.spark import session

        if session.Cursor.__name__ != "Cursor":
            return

        quiet()

        class HeadwatersCursor(session.Cursor):
            """dbt-spark's cursor with one session for each process and errors of one line."""

            def execute(self, sql: str, *parameters: Any) -> None:
                if parameters:
                    sql = sql % parameters
                with _lock:
                    spark = _session(_sessions, self.server_side_parameters)
                # dbt-spark makes a dbt error of what comes from here, and of nothing below
                with _short_errors(WorkError):
                    self._df = _give_way(lambda: spark.sql(sql), sql)

            def fetchall(self) -> Any:
                with _short_errors(DbtRuntimeError):
                    return super().fetchall()

            def fetchone(self) -> Any:
                with _short_errors(DbtRuntimeError):
                    return super().fetchone()

        def cancel(wrapper: session.SessionConnectionWrapper) -> None:
            for spark in _sessions.values():
                spark.interruptAll()

        setattr(session, "Cursor", HeadwatersCursor)  # noqa: B010 - a patch
        setattr(session.SessionConnectionWrapper, "cancel", cancel)  # noqa: B010 - a patch


def rows_of(settings: dict[str, str], sql: str) -> list[Any]:
    """Rows of a small statement that belongs to no model, in the session of these settings.

    Raises DbtRuntimeError with what Spark says, in one line.
    """
    with _lock:
        spark = _session(_sessions, settings)
    with _short_errors(DbtRuntimeError):
        return list(spark.sql(sql).collect())


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
def _short_errors(kind: type[Exception]) -> Iterator[None]:
    from dbt.adapters.events.logging import AdapterLogger
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        AdapterLogger("Spark").debug(str(error))
        if isinstance(error, ConnectionError | Py4JNetworkError) and (ended := java_ended()):
            raise kind(ended) from None
        raise kind(f"{one_line(error)}\n(more in {_log()})") from None


def _session(sessions: dict[str | None, Any], settings: dict[str, str]) -> Any:
    """The process's session for these settings, started when there is none that lives."""
    from pyspark.sql import SparkSession

    from headwaters import engine, metastore
    from headwaters import lake as lakes
    from headwaters.jars import spark_java

    remote = settings.get("spark.remote")
    own = remote is None or remote == OF_THIS_LAKE
    if own:
        lakes.enter(_lake())
    if remote == OF_THIS_LAKE:
        running = engine.find(_lake())
        if running is None:
            raise WorkError("no engine runs on this lake: start one with `headwaters engine start`")
        remote = running.remote
        settings = {**settings, "spark.remote": remote}
    found = sessions.get(remote)
    if found is not None and (remote is not None or found.sparkContext._jsc is not None):
        return found
    if remote == "":
        raise WorkError(
            "--target cluster needs the address of its Spark Connect server: "
            "HEADWATERS_CLUSTER=sc://host:15002 in the environment"
        )
    if remote is not None and not engine.answers(remote):
        raise WorkError(f"no Spark listens at {remote.split(';')[0]}")
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    if remote is None:
        spark_java()
        metastore.hold(_lake(), "dbt")
        builder = builder.enableHiveSupport()
    try:
        spark = builder.getOrCreate()
        schema = spark.sql("describe schema default").collect() if own else []
    except Exception as error:
        raise WorkError(f"Spark does not start: {one_line(error)}\n(more in {_log()})") from None
    end_on_interrupt()  # Spark took it over
    for name, location in schema:
        if name == "Location":
            warehouse = spark.conf.get("spark.sql.warehouse.dir")
            try:
                lakes.check_warehouse(_lake(), location, str(warehouse))
            except UserError:
                spark.stop()
                raise
    sessions[remote] = spark
    return spark


def _lake() -> Path:
    return Project.find().lake


def _log() -> str:
    return os.path.relpath(_lake() / "logs" / "spark.log")


class Interrupted(DbtRuntimeError, KeyboardInterrupt):
    """Ctrl-C: dbt ends its nodes as for the one, and is silent about its stack as for the other."""


def _interrupt(number: int, frame: object) -> None:
    raise Interrupted("stopped; the next run completes what is missing")


def end_on_interrupt() -> None:
    """Let Ctrl-C raise Interrupted in the main thread."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupt)
