"""The profile of `type: headwaters`, and the connections to Spark that it opens."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from multiprocessing.context import SpawnContext
from pathlib import Path
from typing import Any

from dbt.adapters.contracts.connection import Connection, ConnectionState
from dbt.adapters.spark.connections import SparkConnectionManager, SparkCredentials
from dbt_common.exceptions import DbtRuntimeError

from headwaters.analysis import tokens
from headwaters.platform import engine, hive_metastore, object_store, places
from headwaters.platform import lake as lakes
from headwaters.platform.errors import UserError
from headwaters.platform.fields import text_of
from headwaters.platform.hive_metastore import SETTING
from headwaters.platform.places import Place, RemotePath
from headwaters.platform.spark_mistakes import SqlText
from headwaters.runs.client_rows import ClientRows
from headwaters.runs.histories import Histories, changes_session, changes_settings, written_by
from headwaters.tables.vars_and_targets import output_problems

DERBY = "spark.hadoop.javax.jdo.option.ConnectionURL"

# Defaults of a Spark inside the process. A profile's setting takes precedence.
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # A version can be read as long as its files exist, and `maintain` checks who needs them.
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# Defaults of a Spark that is one process: it accepts no connections from the network.
_ALONE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.authenticate": "true",
}
_MOST_CORES = "spark.cores.max"
# The encoding of dates and times in files, for every session. Spark's default is INT96, which other
# readers read as nanoseconds: years before 1677 and after 2262 wrap there.
_FILES = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
_OF_DRIVER = "spark.driver."


@dataclass
class HeadwatersCredentials(SparkCredentials):
    """A target of `type: headwaters`: the keys of dbt-spark, `lake` and `metastore`.

    `lake` is the folder of the tables, the metastore and the logs of a Spark inside the process
    (default: HEADWATERS_LAKE, or `lake` in the project), unless `server_side_parameters` name other
    paths. It may be in a store, such as `s3a://bucket/lake`; `local` is then this machine's folder
    of logs and of the embedded metastore (default: HEADWATERS_LOCAL, or a folder in `.headwaters`
    of the project). `metastore` names one outside the lake (default: HEADWATERS_METASTORE, or the
    embedded one). `method` is `session` by default.
    """

    lake: str | None = None
    local: str | None = None
    metastore: str | None = None

    _root = None  # the project's folder, after `settle`

    @classmethod
    def __pre_deserialize__(cls, data: Any) -> Any:
        """Add the defaults to the keys of a profile; dbt calls this."""
        return super().__pre_deserialize__({"method": "session", "host": "NA", **data})

    @classmethod
    def validate(cls, data: Any) -> None:
        """Refuse misspelt keys and wrong types of a profile; dbt calls this."""
        texts = data.get("server_side_parameters") or {}
        if isinstance(texts, dict):  # Spark's settings are texts, and YAML has numbers and booleans
            data["server_side_parameters"] = {key: text_of(value) for key, value in texts.items()}
        problems = list(output_problems(data, [field.name for field in fields(cls)]))
        if problems:
            raise DbtRuntimeError("\n".join(map(str, problems)))
        super().validate(data)

    @property
    def type(self) -> str:
        """Return the name of the adapter."""
        return "headwaters"

    def _connection_keys(self) -> tuple[str, ...]:
        return "method", "schema", "lake"

    def connection_info(self, *, with_aliases: bool = False) -> Iterator[tuple[str, Any]]:
        """Return the settings that `dbt debug` prints, or `target` with aliases, before `settle`.

        Packages read `target.database` for their sources, and take None for the only catalog.
        """
        for key, value in super().connection_info(with_aliases=with_aliases):
            place = self._named if self.is_remote else str(self.place)
            yield key, place if key == "lake" else value
        if with_aliases:
            yield "database", None

    def settle(self, root: Path) -> None:
        """Resolve the lake's path from the project's root, and add missing settings.

        Raise UserError for a setting that makes other readers read dates and times differently, or
        is not safe on S3.
        """
        given = self.server_side_parameters
        self._root = root
        if self.is_remote:
            self.lake = self._named
            places.check_uri(self._named, "the lake", None if "spark.remote" in given else given)
        else:
            self.lake = str(root / places.local_name(self._named, "the lake"))
        for name, value in _FILES.items():
            if given.get(name, value).upper() != value:
                raise UserError(
                    "HW_PROFILE",
                    f"the target sets {name} to {given[name]}, with which readers outside Spark "
                    f"would read other dates and times: remove it, since headwaters sets {value}",
                )
        object_store.check(given, "the target")
        is_own = self.method == "session" and "spark.remote" not in given
        if is_own and engine.is_used(self.folder):
            places_of_files = {k: v for k, v in given.items() if k.startswith("spark.hadoop.")}
            given, is_own = {**places_of_files, "spark.remote": engine.OF_THIS_LAKE}, False
            self.metastore = None  # the engine has one
        self.server_side_parameters = given = {**given, **_FILES}
        if named := metastore_of(self.metastore or "", given, is_own):
            given[SETTING] = named
        if "spark.remote" in given:  # the server has a driver, whose settings no client changes
            kept = {name: one for name, one in given.items() if not name.startswith(_OF_DRIVER)}
            self.server_side_parameters = kept
        if is_own:
            warehouse = f"{self.lake}/warehouse"
            added = defaults(root / self._local, given, warehouse)
            self.server_side_parameters = {**added, **given}

    @property
    def is_remote(self) -> bool:
        """Return true if the lake is in a store."""
        return places.is_remote(self._named)

    @property
    def home(self) -> Place:
        """Return the lake: a folder, or a place in a store."""
        if self.is_remote:
            return places.open_uri(self._named, self.server_side_parameters)
        return self.folder

    @property
    def folder(self) -> Path:
        """Return this machine's folder: that of the embedded metastore, or else of the lake."""
        return lakes.home(self.place)

    @property
    def place(self) -> Path:
        """Return that folder as in the profile: relative to the project's root, or absolute."""
        metastore = derby_folder(self.server_side_parameters)
        if metastore:
            return metastore.parent
        return (self._root or Path()) / self._local if self.is_remote else self._local

    @property
    def _local(self) -> Path:
        if not self.is_remote:
            return Path(re.sub("^file:(//)?(?=/)", "", self._named))  # `settle` checks it
        named = self.local or os.environ.get("HEADWATERS_LOCAL")
        return Path(named or Path(lakes.HIDDEN) / re.sub(r"[^\w.-]+", "-", self._named))

    @property
    def _named(self) -> str:
        return self.lake or os.environ.get("HEADWATERS_LAKE") or "lake"


def defaults(local: Path, given: Mapping[str, str], warehouse: str | None = None) -> dict[str, str]:
    """Return the settings of a Spark inside the process, in addition to those given.

    `local` is the folder of the embedded metastore, and of the warehouse unless that is named.
    """
    added = {**_DELTA, object_store.WAREHOUSE: warehouse or str(local / "warehouse")}
    added |= object_store.defaults({**added, **given}, os.environ)
    if given.get("spark.master", "local").startswith("local"):
        added |= _ALONE | _partitions(os.cpu_count() or 1)
    elif given.get(_MOST_CORES, "").isdigit():
        added |= _partitions(int(given[_MOST_CORES]))
    elsewhere = ("spark.hadoop.hive.metastore.uris", "spark.sql.catalogImplementation", SETTING)
    if not any(name in given for name in elsewhere):
        added |= {
            DERBY: f"jdbc:derby:;databaseName={local / 'metastore'};create=true",
            "spark.hadoop.hive.metastore.disallow.incompatible.col.type.changes": "false",
        }
    return added


def _partitions(cores: int) -> dict[str, str]:
    """Return the numbers of partitions for few cores, on which each more is an empty task."""
    return {
        "spark.sql.shuffle.partitions": str(max(4, cores)),
        "spark.databricks.delta.snapshotPartitions": str(max(2, cores // 2)),
    }


def metastore_of(key: str, given: Mapping[str, str], is_own: bool) -> str:
    """Return the name of a target's metastore outside the lake, without its password, or ''.

    `key` is the output's. HEADWATERS_METASTORE counts only for a Spark inside the process. Raises
    UserError for a text that names none, a password in the profile, or a second metastore.
    """
    environment = os.environ.get(hive_metastore.VARIABLE, "")
    named = key or (environment if is_own else "")
    hive_metastore.parse(named, os.environ)
    address = hive_metastore.without_password(named)
    if named in ("", "derby"):
        return ""
    if not is_own:
        raise UserError(
            "HW_PROFILE",
            f"the target has the metastore {address}, and its Spark elsewhere has its own: remove "
            "`metastore` from the target",
        )
    if address != named and named != environment:
        raise UserError(
            "HW_PROFILE",
            f"the target's metastore {address} has its password in the profile: remove it, and set "
            f"{hive_metastore.PASSWORD}",
        )
    for other in (DERBY, "spark.hadoop.hive.metastore.uris"):
        if other in given:
            raise UserError(
                "HW_PROFILE",
                f"the target has two metastores, {address} and that of {other}: remove one",
            )
    return address


def derby_folder(settings: Mapping[str, str]) -> Path | None:
    """Return the folder of the embedded metastore; None if these settings name another one."""
    found = re.match(r"jdbc:derby:(?:;databaseName=|directory:)?([^;]+)", settings.get(DERBY, ""))
    if found is None or found[1].startswith(("memory:", "classpath:", "jar:", "//")):
        return None
    return Path(found[1])


class HeadwatersConnectionManager(SparkConnectionManager):
    """A manager of connections to Spark; for `method: session`, those of `session.py`."""

    TYPE = "headwaters"

    def __init__(self, profile: Any, mp_context: SpawnContext) -> None:
        """Create the manager of an adapter; dbt calls this once."""
        super().__init__(profile, mp_context)
        self.histories = Histories()
        # the number of statements so far that may have changed the session
        self.session_changes = 0

    def add_query(self, sql: str, *arguments: Any, **options: Any) -> tuple[Connection, Any]:
        """Run a statement; the cached commits of a table are valid until it is written to."""
        if changes_session(sql):
            self._check_change_of_session(sql)
            self.session_changes += 1
        written = written_by(sql)
        if written is None:
            return super().add_query(sql, *arguments, **options)
        self.histories.discard(written.table, written.moves)
        try:
            return super().add_query(sql, *arguments, **options)
        finally:
            self.histories.discard(written.table, written.moves)

    def _check_change_of_session(self, sql: str) -> None:
        """Refuse a node's statement that changes settings of nodes that run at the same time.

        Settings belong to the session, which the threads of an invocation share, and the order of
        the nodes on a thread is not known.
        """
        threads = self.profile.threads
        if current.sql is None or threads < 2 or not changes_settings(sql):
            return
        code = (token.text for token in tokens(sql) if token.kind not in ("comment", "marker"))
        statement = " ".join("".join(code).split())
        refusal = UserError(
            "HW_SESSION_SETTING",
            f"{current.sql.path}: its hook or header changes the session ({statement}), which the "
            f"models on all {threads} threads share. Set it in the target's server_side_parameters "
            "or in on-run-start, or run with --threads 1",
        )
        raise DbtRuntimeError(str(refusal))

    def client_rows(self, sql: str, keys: Collection[str]) -> ClientRows | None:
        """Run a query and return its rows as Arrow, or None: see headwaters.runs.client_rows.

        The cached commits stay valid, whatever words the query contains.
        """
        _, wrapper = super().add_query(self._add_query_comment(sql), auto_begin=False)
        rows: ClientRows | None = wrapper._cursor.client_rows(keys)
        return rows

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        """Raise errors of dbt as they are; dbt-spark would wrap them, with a second heading."""
        failure: DbtRuntimeError | None = None
        with super().exception_handler(sql):
            try:
                yield
            except Interrupted:
                raise
            except DbtRuntimeError as error:
                failure = error
        if failure is not None:
            raise failure

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        """Open a connection: for `method: session` ours, otherwise dbt-spark's."""
        credentials = connection.credentials
        if connection.state == ConnectionState.OPEN or credentials.method != "session":
            return super().open(connection)
        from dbt.adapters.headwaters import session  # `dbt parse` needs no pyspark.sql

        settings, lake = credentials.server_side_parameters, credentials.folder
        if isinstance(home := credentials.home, RemotePath) and "spark.remote" not in settings:
            lakes.enter_store(home, lake)
        handle = session.HeadwatersConnection(settings, lake)
        connection.handle = session.HeadwatersWrapper(handle)
        connection.state = ConnectionState.OPEN
        return connection


class _Running(threading.local):
    """The SQL of the node that a thread runs, or None."""

    sql: SqlText | None = None


current = _Running()


class Interrupted(DbtRuntimeError, KeyboardInterrupt):
    """Ctrl-C as an exception: dbt ends its nodes for it and prints no stack trace."""


def _interrupt(number: int, frame: object) -> None:
    raise Interrupted("stopped; the next run completes what is missing")


def end_on_interrupt() -> None:
    """Let Ctrl-C raise Interrupted in the main thread."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupt)
