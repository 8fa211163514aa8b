"""Hive metastores outside the lake: a database in PostgreSQL, or a Thrift service before one.

A target names one by `metastore`, or HEADWATERS_METASTORE does: `postgresql` and `thrift` are the
lake's own servers, and an address is any other one. Without a name, or with `derby`, the metastore
is the embedded database in the lake.

The password reaches Java by an environment variable that Hadoop's settings refer to. An argument
would be visible in the list of processes, and a setting in Spark's.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from headwaters.platform import atomic_write, postgres
from headwaters.platform import lake as lakes
from headwaters.platform.errors import CodedError, UserError, WorkError
from headwaters.platform.jars import LOCKS, CachedJars
from headwaters.platform.servers import Server

VARIABLE = "HEADWATERS_METASTORE"
PASSWORD = "HEADWATERS_METASTORE_PASSWORD"
# The setting that carries the name of a metastore from the profile to the start of Spark.
SETTING = "spark.headwaters.metastore"
DATABASE = "metastore"  # on the lake's own PostgreSQL
THRIFT_PORT = 9083
# The version of the tables that pyspark's Hive 2.3.10 reads and writes.
SCHEMA_VERSION = "2.3.0"
_TABLES = frozenset({"COLUMNS_V2", "DBS", "SDS", "TABLE_PARAMS", "TBLS", "VERSION"})
_FORMS = (
    "derby, postgresql (the server of `headwaters postgres start`), thrift (that of `headwaters "
    "metastore serve`), postgresql://user@host:5432/database or thrift://host:9083"
)
# Parameters of an address that PostgreSQL's clients for Python and Java have in common.
_OPTIONS = ("sslcert", "sslkey", "sslmode", "sslrootcert")
_HIVE = "spark.hadoop."


@dataclass(frozen=True)
class HiveDatabase:
    """A metastore's database in PostgreSQL."""

    host: str
    port: int
    name: str
    user: str
    options: tuple[tuple[str, str], ...] = ()
    password: str = field(default="", repr=False)

    @property
    def address(self) -> str:
        """Return its address for display, without the password."""
        return f"postgresql://{self.user}@{_in_address(self.host)}:{self.port}/{self.name}"

    def settings(self) -> dict[str, str]:
        """Return Hadoop's settings of a process that uses the database."""
        options = f"?{urlencode(self.options)}" if self.options else ""
        return {
            "javax.jdo.option.ConnectionURL": (
                f"jdbc:postgresql://{_in_address(self.host)}:{self.port}/{self.name}{options}"
            ),
            "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
            "javax.jdo.option.ConnectionUserName": self.user,
            "javax.jdo.option.ConnectionPassword": f"${{env.{PASSWORD}}}",
            "datanucleus.connectionPoolingType": "HikariCP",
            # of each of two pools; a Spark calls the metastore by one thread at a time
            "datanucleus.connectionPool.maxPoolSize": "3",
            "datanucleus.schema.autoCreateAll": "false",
            "datanucleus.autoStartMechanismMode": "ignored",
            "hive.metastore.schema.verification": "true",
            "hive.metastore.disallow.incompatible.col.type.changes": "false",
        }

    def connect(self, database: str | None = None) -> Any:
        """Return a connection of psycopg. Raises WorkError in one line."""
        try:
            import psycopg
            from psycopg.conninfo import make_conninfo
        except ModuleNotFoundError:
            raise UserError(
                "HW_NO_EXTRA",
                "psycopg is missing, which reads the database of a metastore: install headwaters "
                "with its extra `publish`",
            ) from None
        address = make_conninfo(
            host=self.host,
            port=self.port,
            dbname=database or self.name,
            user=self.user,
            password=self.password or None,
            connect_timeout=10,
            **dict(self.options),
        )
        try:
            return psycopg.connect(address)
        except psycopg.OperationalError as error:
            raise refusal(self, str(error)) from None


@dataclass(frozen=True)
class HiveService:
    """A metastore's Thrift service."""

    host: str
    port: int

    @property
    def address(self) -> str:
        """Return its address."""
        return f"thrift://{_in_address(self.host)}:{self.port}"

    def settings(self) -> dict[str, str]:
        """Return Hadoop's settings of a process that uses the service."""
        return {
            "hive.metastore.uris": self.address,
            "hive.metastore.disallow.incompatible.col.type.changes": "false",
        }


HiveMetastore = HiveDatabase | HiveService


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def parse(named: str, environment: Mapping[str, str]) -> HiveMetastore | None:
    """Return the metastore of an address, or None for a word. Raises UserError for another text."""
    if named in ("", "derby", "postgresql", "thrift"):
        return None
    parts = urlsplit(named)
    shown = without_password(named)
    try:
        port = parts.port
    except ValueError:
        raise UserError("HW_METASTORE", f"the metastore {shown} has no valid port") from None
    if parts.scheme == "thrift" and parts.hostname and not parts.path.strip("/"):
        return HiveService(parts.hostname, port or THRIFT_PORT)
    name, options = unquote(parts.path.strip("/")), tuple(parse_qsl(parts.query))
    if (
        parts.scheme not in ("postgresql", "postgres")
        or not (parts.hostname and parts.username and name)
        or "/" in name
    ):
        raise UserError("HW_METASTORE", f"the metastore is '{shown}': write {_FORMS}")
    if unknown := [key for key, _ in options if key not in _OPTIONS]:
        raise UserError(
            "HW_METASTORE",
            f"the metastore {shown} has the parameter {unknown[0]}: there are "
            f"{', '.join(_OPTIONS)}",
        )
    password = unquote(parts.password or "") or _password(named, environment)
    user = unquote(parts.username)
    return HiveDatabase(parts.hostname, port or 5432, name, user, options, password)


def without_password(named: str) -> str:
    """Return an address without its password."""
    return re.sub(r"^(\w+://[^/@:]*):[^/@]*@", r"\1@", named)


def _password(named: str, environment: Mapping[str, str]) -> str:
    """Return the password of the environment for an address."""
    given = environment.get(VARIABLE, "")
    if without_password(given) == named and (password := urlsplit(given).password):
        return unquote(password)
    return environment.get(PASSWORD, "")


def find(named: str, lake: Path) -> HiveMetastore | None:
    """Return the metastore of this name, or None for the embedded one of the lake.

    Raises UserError for another text, or if the lake's own server does not run.
    """
    if named == "postgresql":
        return own_database(lake)
    if named == "thrift":
        service = Server.running(record(lake))
        if service is None:
            raise UserError(
                "HW_NO_METASTORE",
                "no metastore service runs on this lake: `headwaters metastore serve` starts it",
            )
        return HiveService("127.0.0.1", service.port)
    return parse(named, os.environ)


def own_database(lake: Path) -> HiveDatabase:
    """Return the database on the PostgreSQL of this lake; raise UserError if none runs."""
    server = postgres.find(lake)
    if server is None:
        raise UserError(
            "HW_NO_METASTORE",
            "no PostgreSQL runs on this lake: run `headwaters postgres start`, or set "
            f"{VARIABLE} to postgresql://user@host:5432/database",
        )
    return HiveDatabase("127.0.0.1", server.port, DATABASE, postgres.USER, password=server.password)


def record(lake: Path) -> Path:
    """Return the file with the address of a lake's service."""
    return lake / "metastore-service" / "service.json"


# -- the state of a metastore --------------------------------------------------------------------


@dataclass(frozen=True)
class HiveSchema:
    """The tables of a metastore in a database: their version, and the number of objects."""

    found: frozenset[str] = frozenset()
    version: str | None = None
    schemas: int = 0
    tables: int = 0
    warehouse: str | None = None

    @property
    def is_empty(self) -> bool:
        """Return true if the metastore's tables do not exist, or `init` ended before its end."""
        return not self.version and not self.schemas

    @property
    def is_ready(self) -> bool:
        """Return true if pyspark's Hive can use the tables."""
        return self.version == SCHEMA_VERSION and self.found >= _TABLES


def inspect(database: HiveDatabase) -> HiveSchema:
    """Return the state of a database. Raises WorkError in one line if it cannot be read."""
    with database.connect() as connection:
        import psycopg

        try:
            query = "select table_name from information_schema.tables where table_schema = 'public'"
            found = frozenset(name for (name,) in connection.execute(query))
            version, counts, warehouse = None, {"DBS": 0, "TBLS": 0}, None
            if "VERSION" in found:
                row = connection.execute('select "SCHEMA_VERSION" from "VERSION"').fetchone()
                version = row and str(row[0])
            for name in counts.keys() & found:
                counts[name] = connection.execute(f'select count(*) from "{name}"').fetchone()[0]
            if "DBS" in found:
                query = """select "DB_LOCATION_URI" from "DBS" where "NAME" = 'default'"""
                row = connection.execute(query).fetchone()
                warehouse = row and str(row[0])
        except psycopg.Error as error:
            raise refusal(database, f"FATAL: {error}") from None
    return HiveSchema(found, version, counts["DBS"], counts["TBLS"], warehouse)


def refusal(database: HiveDatabase, text: str) -> WorkError:
    """Return the error of a connection: no server answers, or the server refuses it."""
    _, fatal, reason = text.partition("FATAL:")
    if not fatal:
        return WorkError(
            "HW_NO_METASTORE",
            f"no PostgreSQL runs for the metastore {database.address}: start it, or correct "
            "the address",
        )
    reason = reason.strip().splitlines()[0]
    if "password" in reason:
        reason = f"{reason}: set {PASSWORD}, or the password in {VARIABLE}"
    return WorkError(
        "HW_METASTORE", f"PostgreSQL refuses the metastore {database.address}: {reason}"
    )


def unusable(database: HiveDatabase, schema: HiveSchema) -> CodedError | None:
    """Return the error of a database that has no tables of Hive, or other ones, or None."""
    if schema.is_ready:
        return None
    if schema.is_empty:
        return UserError(
            "HW_METASTORE",
            f"the metastore {database.address} is empty: `headwaters metastore init` makes its "
            "tables",
        )
    has = f"version {schema.version}" if schema.version else "no version"
    return UserError(
        "HW_METASTORE",
        f"the metastore {database.address} has tables of {has}, and pyspark's Hive needs "
        f"{SCHEMA_VERSION}: name another database, or upgrade this one by Hive's schematool",
    )


def usable(database: HiveDatabase) -> HiveSchema:
    """Return the state of a database that pyspark's Hive can use; raise its error otherwise."""
    schema = inspect(database)
    if error := unusable(database, schema):
        raise error
    return schema


def ask(service: HiveService, patience: float = 10.0) -> int:
    """Return the number of schemas of a service.

    Raises WorkError if none answers, or the answer is an error, as without its database.
    """
    name = b"get_all_databases"
    # a call in Thrift's binary protocol: version and type, name, number, no arguments
    start = len(name).to_bytes(4) + name + bytes(4)
    try:
        with socket.create_connection((service.host, service.port), patience) as connection:
            connection.settimeout(patience)
            connection.sendall(b"\x80\x01\x00\x01" + start + b"\x00")
            reply = connection.makefile("rb")
            if reply.read(4) != b"\x80\x01\x00\x02" or reply.read(len(start)) != start:
                raise OSError
            if reply.read(3) == b"\x0f\x00\x00":  # the result, and not an exception
                reply.read(1)  # the type of its elements
                return int.from_bytes(reply.read(4))
    except OSError:
        raise WorkError(
            "HW_NO_METASTORE",
            f"no metastore answers at {service.address}: start it with `headwaters metastore "
            "serve`, or correct the address",
        ) from None
    raise WorkError(
        "HW_METASTORE",
        f"the metastore {service.address} answers with an error: see its log, and whether its "
        "database runs (`headwaters metastore check`)",
    )


def check(metastore: HiveMetastore) -> str:
    """Return a line about a metastore that can be used; raise its error otherwise."""
    if isinstance(metastore, HiveService):
        return f"metastore {metastore.address}: {ask(metastore)} schemas"
    schema = usable(metastore)
    return (
        f"metastore {metastore.address}: Hive schema {schema.version}, {schema.schemas} schemas, "
        f"{schema.tables} tables, warehouse {schema.warehouse or 'of its first Spark'}"
    )


# -- the start of a Spark ------------------------------------------------------------------------


def enter(
    settings: Mapping[str, str], lake: Path, root: Path = Path()
) -> tuple[dict[str, str], HiveMetastore | None]:
    """Return the settings of a Spark that starts on a lake, and its metastore outside the lake.

    The metastore is checked first. The Java of this process gets its password and its driver by
    environment variables. Spark starts in the folder `root`. Raises an error in one line for a
    metastore that cannot be used.
    """
    left = {key: value for key, value in settings.items() if key != SETTING}
    named = settings.get(SETTING, "")
    if error := not_of(lake, bool(named)):
        raise error
    metastore = find(named, lake)
    if metastore is None:
        return left, None
    if isinstance(metastore, HiveDatabase):
        schema = usable(metastore)
        warehouse = settings.get("spark.sql.warehouse.dir", "")
        if schema.warehouse and warehouse:
            there = warehouse if urlsplit(warehouse).scheme else str(root / warehouse)
            check_lake(metastore.address, schema.warehouse, there, lake)
        os.environ.update(java_environment(metastore, os.environ))
    else:
        ask(metastore)
    if not (lake / "metastore.json").exists():
        note(lake, True, metastore.address)
    return left | {_HIVE + key: value for key, value in metastore.settings().items()}, metastore


def java_environment(database: HiveDatabase, before: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a Java that uses a database.

    Spark puts SPARK_DIST_CLASSPATH behind its own jars, so that its class data stays valid.
    """
    jar = str(driver())
    rest = [path for path in before.get("SPARK_DIST_CLASSPATH", "").split(":") if path]
    path = rest if jar in rest else [*rest, jar]
    return {PASSWORD: database.password, "SPARK_DIST_CLASSPATH": ":".join(path)}


def driver() -> Path:
    """Return the jar of PostgreSQL's driver, downloaded once for all checkouts of this user."""
    (jar,) = CachedJars(LOCKS / "hive-metastore").fetch()
    return jar


def check_lake(address: str, registered: str, warehouse: str, lake: Path) -> None:
    """Raise UserError if the schemas of a metastore are in another lake: see check_warehouse."""
    try:
        lakes.check_warehouse(lake, registered, warehouse)
    except UserError:
        raise UserError(
            "HW_METASTORE",
            f"the metastore {address} is that of the tables in {registered}, and this lake is "
            f"{lake}, with its tables in {warehouse}: give each lake another database",
        ) from None


# -- the metastore that a lake has ---------------------------------------------------------------


def not_of(lake: Path, is_outside: bool) -> UserError | None:
    """Return the error of a command with another metastore than the lake's, or None.

    New tables would be missing in one that the lake left by `move`, and all tables in a new one.
    """
    outside = noted(lake)
    if outside is None and not (lake / "metastore").is_dir():
        return None
    was_outside, address = outside or (False, "the embedded one")
    if was_outside is is_outside:
        return None
    how = f"set {VARIABLE} to it" if was_outside else f"unset {VARIABLE}"
    return UserError(
        "HW_METASTORE",
        f"the metastore of the lake {lake} is {address}, and the target names another one: {how}, "
        "or move the lake (`headwaters metastore move`)",
    )


def noted(lake: Path) -> tuple[bool, str] | None:
    """Return whether the metastore of a lake is outside it, and its address; None if unknown."""
    try:
        found = json.loads((lake / "metastore.json").read_text())
        return bool(found["is_outside"]), str(found["address"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def note(lake: Path, is_outside: bool, address: str) -> None:
    """Record the metastore that a lake has from now on."""
    text = json.dumps({"is_outside": is_outside, "address": address})
    atomic_write.write(lake / "metastore.json", text + "\n")
