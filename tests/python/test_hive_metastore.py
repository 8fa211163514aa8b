"""Test the names, the settings and the checks of metastores outside the lake, without Java."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from dbt.adapters.headwaters import session
from dbt.adapters.headwaters.connections import HeadwatersCredentials, metastore_of

from headwaters.devkit import metastore
from headwaters.platform import engine, hive_metastore
from headwaters.platform.engine import Engine
from headwaters.platform.errors import CodedError, UserError, WorkError
from headwaters.platform.hive_metastore import (
    SCHEMA_VERSION,
    SETTING,
    HiveDatabase,
    HiveService,
    ask,
    check,
    check_lake,
    enter,
    find,
    inspect,
    java_environment,
    not_of,
    note,
    parse,
    without_password,
)

URL = "spark.hadoop.javax.jdo.option.ConnectionURL"
ADDRESS = "postgresql://hive@db:5433/metastore"


@pytest.fixture(autouse=True)
def no_metastore(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEADWATERS_METASTORE", "HEADWATERS_METASTORE_PASSWORD", "SPARK_DIST_CLASSPATH"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("named", "metastore"),
    [
        ("", None),
        ("derby", None),
        ("thrift://a", HiveService("a", 9083)),
        ("thrift://[::1]:99/", HiveService("::1", 99)),
        ("postgresql://u@h/d", HiveDatabase("h", 5432, "d", "u")),
        ("postgres://u%40x:p%2Fw@h:1/d", HiveDatabase("h", 1, "d", "u@x", (), "p/w")),
        (
            "postgresql://u@h/d?sslmode=require",
            HiveDatabase("h", 5432, "d", "u", (("sslmode", "require"),)),
        ),
    ],
)
def test_an_address_names_a_metastore(
    named: str, metastore: HiveDatabase | HiveService | None
) -> None:
    assert parse(named, {}) == metastore


@pytest.mark.parametrize(
    ("named", "text"),
    [
        ("postgres", "the metastore is 'postgres': write derby, postgresql"),
        ("mysql://u@h/d", "the metastore is 'mysql://u@h/d': write"),
        ("postgresql://h/d", "the metastore is 'postgresql://h/d': write"),
        ("postgresql://u:secret@h/", "the metastore is 'postgresql://u@h/': write"),
        ("postgresql://u:secret@h:x/d", "the metastore postgresql://u@h:x/d has no valid port"),
        ("thrift://a/b", "the metastore is 'thrift://a/b': write"),
        ("postgresql://u@h/d?password=x", r"has the parameter password: there are sslcert"),
    ],
)
def test_another_text_is_one_line_without_a_password(named: str, text: str) -> None:
    with pytest.raises(UserError) as raised:
        parse(named, {})
    assert text in str(raised.value) and "secret" not in str(raised.value)


def test_java_gets_the_password_by_its_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    jar = Path("/jars/postgresql.jar")
    monkeypatch.setattr(hive_metastore, "driver", lambda: jar)
    database = HiveDatabase("::1", 5432, "d", "u", (("sslmode", "require"),), "secret")
    assert database.settings()["javax.jdo.option.ConnectionURL"] == (
        "jdbc:postgresql://[::1]:5432/d?sslmode=require"
    )
    assert database.settings()["javax.jdo.option.ConnectionPassword"] == (
        "${env.HEADWATERS_METASTORE_PASSWORD}"
    )
    assert "secret" not in f"{database} {database.address} {database.settings()}"
    given = java_environment(database, {"SPARK_DIST_CLASSPATH": "/a.jar"})
    assert given == {
        "HEADWATERS_METASTORE_PASSWORD": "secret",
        "SPARK_DIST_CLASSPATH": "/a.jar:/jars/postgresql.jar",
    }
    assert java_environment(database, given) == given


def credentials(parameters: dict[str, str], **keys: str) -> HeadwatersCredentials:
    given = {"schema": "main", "server_side_parameters": parameters, **keys}
    HeadwatersCredentials.validate(given)
    made: HeadwatersCredentials = HeadwatersCredentials.from_dict(
        HeadwatersCredentials.__pre_deserialize__(given)
    )
    made.settle(Path("/shop"))
    return made


def test_a_target_or_the_environment_names_the_metastore(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = credentials({}, metastore=ADDRESS).server_side_parameters
    assert settings[SETTING] == ADDRESS and URL not in settings
    monkeypatch.setenv("HEADWATERS_METASTORE", "postgresql://u:secret@h/d")
    settings = credentials({}).server_side_parameters
    assert settings[SETTING] == "postgresql://u@h/d" and "secret" not in str(settings)
    assert find(settings[SETTING], Path("/lake")) == HiveDatabase("h", 5432, "d", "u", (), "secret")
    # the target's own name comes first
    assert URL in credentials({}, metastore="derby").server_side_parameters
    # a Spark elsewhere has its own metastore
    assert SETTING not in credentials({"spark.remote": "sc://a"}).server_side_parameters
    monkeypatch.setenv("HEADWATERS_METASTORE_PASSWORD", "other")
    assert find(ADDRESS, Path("/lake")) == HiveDatabase(
        "db", 5433, "metastore", "hive", (), "other"
    )


@pytest.mark.parametrize(
    ("key", "given", "is_own", "text"),
    [
        ("thrift://a:1", {"spark.remote": "x"}, False, "its Spark elsewhere has its own"),
        ("postgresql://u:secret@h/d", {}, True, "postgresql://u@h/d has its password in the pro"),
        (ADDRESS, {URL: "jdbc:derby:;databaseName=x"}, True, f"that of {URL}: remove one"),
        (ADDRESS, {"spark.hadoop.hive.metastore.uris": "thrift://b"}, True, "two metastores"),
    ],
)
def test_a_target_with_a_wrong_metastore_is_one_line(
    key: str, given: dict[str, str], is_own: bool, text: str
) -> None:
    with pytest.raises(UserError) as raised:
        metastore_of(key, given, is_own)
    assert raised.value.code == "HW_PROFILE" and text in str(raised.value)
    assert "secret" not in str(raised.value)


def test_the_own_servers_of_a_lake_have_to_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"\[HW_NO_METASTORE\] no PostgreSQL runs on this lake"):
        enter({SETTING: "postgresql"}, tmp_path)
    with pytest.raises(UserError, match=r"\[HW_NO_METASTORE\] no metastore service runs on this"):
        enter({SETTING: "thrift"}, tmp_path)


def database_of(url: str, **changes: str) -> HiveDatabase:
    found = parse(url, {})
    assert isinstance(found, HiveDatabase)
    return HiveDatabase(found.host, found.port, found.name, found.user, (), found.password)


def make_tables(url: str, version: str | None, schemas: int = 0) -> None:
    """Make the tables of a metastore that the checks read."""
    with psycopg.connect(url) as connection:
        for name in ("COLUMNS_V2", "SDS", "TABLE_PARAMS", "TBLS"):
            connection.execute(f'create table "{name}" (x int)'.encode())
        connection.execute('create table "VERSION" ("SCHEMA_VERSION" text)')
        connection.execute('create table "DBS" ("NAME" text, "DB_LOCATION_URI" text)')
        if version:
            connection.execute('insert into "VERSION" values (%s)', [version])
        if schemas:
            connection.execute("""insert into "DBS" values ('default', 'file:/lake/warehouse')""")


def refused(check: Callable[[], object]) -> str:
    """Return the one-line error that a call raises."""
    with pytest.raises(CodedError) as raised:
        check()
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_database_that_is_away_or_refuses_is_one_line(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        away = HiveDatabase("127.0.0.1", free.getsockname()[1], "d", "u")
        assert refused(lambda: inspect(away)) == (
            f"[HW_NO_METASTORE] no PostgreSQL runs for the metastore {away.address}: start it, "
            "or correct the address"
        )
    right = database_of(postgres)
    wrong = HiveDatabase(right.host, right.port, right.name, right.user, (), "wrong")
    assert refused(lambda: inspect(wrong)) == (
        f"[HW_METASTORE] PostgreSQL refuses the metastore {right.address}: password "
        f'authentication failed for user "{right.user}": set HEADWATERS_METASTORE_PASSWORD, or '
        "the password in HEADWATERS_METASTORE"
    )
    missing = HiveDatabase(right.host, right.port, "nowhere", right.user, (), right.password)
    assert refused(lambda: inspect(missing)) == (
        f"[HW_METASTORE] PostgreSQL refuses the metastore {missing.address}: database "
        '"nowhere" does not exist'
    )


@pytest.mark.parametrize(
    ("version", "schemas", "text"),
    [
        (None, 0, "is empty: `headwaters metastore init` makes its tables"),
        (None, 1, "has tables of no version, and pyspark's Hive needs 2.3.0: name another"),
        ("3.1.0", 1, "has tables of version 3.1.0, and pyspark's Hive needs 2.3.0: name another"),
    ],
    ids=["init was killed", "of no version", "of another version"],
)
def test_tables_that_hive_cannot_use_are_one_line_and_init_leaves_them(
    version: str | None,
    schemas: int,
    text: str,
    postgres: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_tables(postgres, version, schemas)
    database = database_of(postgres)
    assert text in refused(lambda: check(database))
    before = inspect(database)
    ran: list[object] = []
    monkeypatch.setattr(metastore, "database", lambda project: database)
    monkeypatch.setattr(metastore, "run_tool", lambda *words: ran.append(words))
    project = SimpleNamespace(lake=tmp_path, local=tmp_path)
    error = refused(lambda: metastore.init(project, str))  # type: ignore[arg-type]
    assert text in error
    assert len(ran) == (1 if before.is_empty else 0)
    assert inspect(database) == before


def test_a_database_without_tables_is_empty_and_one_with_them_is_counted(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = database_of(postgres)
    assert "is empty: `headwaters metastore init`" in refused(lambda: check(database))
    make_tables(postgres, SCHEMA_VERSION, 1)
    assert check(database) == (
        f"metastore {database.address}: Hive schema 2.3.0, 1 schemas, 0 tables, "
        "warehouse file:/lake/warehouse"
    )
    said: list[str] = []
    monkeypatch.setattr(metastore, "database", lambda project: database)
    metastore.init(SimpleNamespace(), said.append)  # type: ignore[arg-type]
    assert said == [f"nothing to do: {check(database)}"]


def test_a_metastore_belongs_to_one_lake(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tables(postgres, SCHEMA_VERSION, 1)
    monkeypatch.setattr(hive_metastore, "driver", lambda: Path("/driver.jar"))
    for name in ("HEADWATERS_METASTORE_PASSWORD", "SPARK_DIST_CLASSPATH"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("HEADWATERS_METASTORE", postgres)
    settings = {SETTING: without_password(postgres), "spark.sql.warehouse.dir": "warehouse"}
    error = refused(lambda: enter(settings, tmp_path, tmp_path))
    assert "is that of the tables in file:/lake/warehouse, and this lake is" in error
    # a lake whose tables are in a store is another one, too
    in_store = settings | {"spark.sql.warehouse.dir": "s3a://bucket/lake/warehouse"}
    assert refused(lambda: enter(in_store, tmp_path, Path("/lake"))).endswith(
        f"is that of the tables in file:/lake/warehouse, and this lake is {tmp_path}, with its "
        "tables in s3a://bucket/lake/warehouse: give each lake another database"
    )
    given, outside = enter(settings, tmp_path, Path("/lake"))
    assert outside == database_of(postgres)
    assert given.keys() - settings == {f"spark.hadoop.{key}" for key in outside.settings()}
    assert os.environ["SPARK_DIST_CLASSPATH"] == "/driver.jar"
    # from now on the lake's embedded metastore, which lacks its tables, is refused
    assert "names another one" in refused(lambda: enter({}, tmp_path))


@pytest.mark.parametrize("registered", ["s3a://b/lake/warehouse", "hdfs://n/warehouse"])
def test_a_lake_in_a_folder_is_no_guest_in_the_metastore_of_one_in_a_store(
    registered: str, tmp_path: Path
) -> None:
    text = f"the metastore {ADDRESS} is that of the tables in {registered}, and this lake is"
    assert text in refused(lambda: check_lake(ADDRESS, registered, f"file:{tmp_path}/w", tmp_path))
    check_lake(ADDRESS, registered, registered, tmp_path)


@contextmanager
def answering(reply: bytes) -> Iterator[HiveService]:
    """Yield a service that answers one call with these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(reply)

        thread = threading.Thread(target=answer)
        thread.start()
        yield HiveService("127.0.0.1", server.getsockname()[1])
        thread.join()


REPLY = b"\x80\x01\x00\x02\x00\x00\x00\x11get_all_databases\x00\x00\x00\x00"


def test_a_service_is_asked_for_its_schemas() -> None:
    with answering(REPLY + b"\x0f\x00\x00\x0b\x00\x00\x00\x03") as service:
        assert check(service) == f"metastore {service.address}: 3 schemas"
    with answering(REPLY + b"\x0c\x00\x01") as service:
        assert "[HW_METASTORE]" in refused(lambda: ask(service))
    for other in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b""):
        with answering(other) as service:
            assert "[HW_NO_METASTORE] no metastore answers at thrift" in refused(
                lambda: ask(service)
            )
    assert "[HW_NO_METASTORE] no metastore answers" in refused(lambda: ask(service))


def test_a_lake_has_one_metastore(tmp_path: Path) -> None:
    assert not_of(tmp_path, True) is None and not_of(tmp_path, False) is None
    (tmp_path / "metastore").mkdir()
    assert enter({}, tmp_path) == ({}, None)
    assert f"lake {tmp_path} is the embedded one, and the target names another one: unset" in (
        refused(lambda: enter({SETTING: ADDRESS}, tmp_path))
    )
    note(tmp_path, True, ADDRESS)
    assert not_of(tmp_path, True) is None
    assert f"is {ADDRESS}, and the target names another one: set HEADWATERS_METASTORE to it" in (
        refused(lambda: enter({}, tmp_path))
    )
    note(tmp_path, False, "the embedded one")
    assert enter({}, tmp_path) == ({}, None)


def test_an_engine_with_a_metastore_outside_its_lake_does_not_have_the_lake_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = {"spark.remote": engine.OF_THIS_LAKE}
    for shares in (False, True):
        found = Engine(os.getpid(), 1, "token", shares)
        monkeypatch.setattr(engine, "find", lambda lake, found=found: found)
        assert session.is_shared(remote, tmp_path) is not shares
        assert session.is_shared({"spark.remote": found.remote}, tmp_path) is not shares
    assert not session.is_shared({"spark.remote": "sc://elsewhere"}, tmp_path)


def test_a_missing_client_of_postgresql_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    error = refused(lambda: check(HiveDatabase("h", 1, "d", "u")))
    assert "[HW_NO_EXTRA] psycopg is missing" in error


def test_a_password_is_taken_out_of_an_address() -> None:
    assert without_password("postgresql://u:p:w@h/d") == "postgresql://u@h/d"
    assert without_password("postgresql://u@h/d?a=b:c@d") == "postgresql://u@h/d?a=b:c@d"
    assert without_password("thrift://h:1") == "thrift://h:1"
    with pytest.raises(WorkError):
        ask(HiveService("127.0.0.1", 1), 1)
