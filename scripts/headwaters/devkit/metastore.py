"""A Hive metastore in PostgreSQL: its tables, its Thrift service, and the move of a lake to it.

Java's part is `platform/java/MetastoreTool.java`, on the jars of pyspark.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from headwaters.devkit.servers import end, starting
from headwaters.platform import hive_metastore, object_store, processes
from headwaters.platform import lake as lakes
from headwaters.platform import metastore as locks
from headwaters.platform.errors import UserError, WorkError
from headwaters.platform.hive_metastore import (
    SETTING,
    THRIFT_PORT,
    HiveDatabase,
    HiveSchema,
    HiveService,
    inspect,
    java_environment,
    record,
    unusable,
    usable,
)
from headwaters.platform.jars import LOCKS, find_java, installed_pyspark
from headwaters.platform.project import Project
from headwaters.platform.servers import Server

Say = Callable[[str], None]
Kind = Literal["derby", "postgresql"]


def named(project: Project) -> str:
    """Return the name of the target's metastore, or '' for the embedded one."""
    return project.credentials.server_side_parameters.get(SETTING, "")


def database(project: Project) -> HiveDatabase:
    """Return the database of the target's metastore, or the one on the lake's own PostgreSQL.

    Raises UserError if the target names a service elsewhere, or no PostgreSQL runs.
    """
    name = named(project)
    found = hive_metastore.parse(name, os.environ)
    if isinstance(found, HiveService):
        raise UserError(
            "HW_METASTORE",
            f"the target's metastore is {found.address}, which has a database that only the "
            f"service uses: name the database by {hive_metastore.VARIABLE}=postgresql://…",
        )
    return found or hive_metastore.own_database(project.local)


def init(project: Project, say: Say) -> None:
    """Make the tables of the metastore, and its database if the user may.

    Tables of another version are never changed. Raises UserError for them.
    """
    chosen = database(project)
    if _make_database(chosen):
        say(f"made the database {chosen.name}")
    schema = inspect(chosen)
    if schema.is_ready:
        say(f"nothing to do: {hive_metastore.check(chosen)}")
        return
    if not schema.is_empty and (error := unusable(chosen, schema)):
        raise error
    run_tool(project.local, ["init", *arguments(chosen.settings())], chosen)
    say(hive_metastore.check(chosen))


def check(project: Project) -> str:
    """Return a line about the target's metastore; raise an error in one line about a bad one."""
    found = hive_metastore.find(named(project), project.local)
    return hive_metastore.check(found or database(project))


def serve(
    project: Project,
    port: int | None = None,
    patience: float = 90.0,
    warehouse: str | None = None,
) -> Server:
    """Start the Thrift service of this lake on 127.0.0.1, or return the running one.

    It has no authentication, so it listens on the loopback interface only. `warehouse` (default:
    the target's) may be on S3. Raises an error in one line if the database cannot be used, or if
    Java ends.
    """
    lake = project.local
    lakes.enter(lake)
    if running := Server.running(record(lake)):
        return running
    chosen = database(project)
    hive_metastore.check(chosen)
    place = warehouse or str(project.warehouse)
    jars = object_store.jars(lambda text: None) if object_store.is_named({"": place}) else []
    settings = chosen.settings() | {
        "hive.metastore.warehouse.dir": place,
        "hive.warehouse.subdir.inherit.perms": "false",
        "fs.permissions.umask-mode": f"{lakes.umask():03o}",
        "datanucleus.connectionPool.maxPoolSize": "10",
        # a client waits no longer for a database that is away
        "hive.hmshandler.retry.attempts": "2",
    }
    if jars:  # the service makes the folders of schemas, also those that Trino writes as s3://
        settings |= object_store.addresses(os.environ)
        settings["fs.s3.impl"] = "org.apache.hadoop.fs.s3a.S3AFileSystem"
    # Spark and Trino keep the address of a service that was killed and is started again
    before = None if port else Server.last(record(lake))
    log = record(lake).with_name("service.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("wb") as output,
        starting(
            lambda free: java_command(["serve", str(free), *arguments(settings)], jars),
            "the metastore service",
            output,
            patience,
            None if before else port,
            before.port if before else THRIFT_PORT,
            cwd=project.root,
            environment=os.environ | java_environment(chosen, os.environ),
        ) as (pid, free),
    ):
        service = Server(pid, free)
        service.remember(record(lake))
    return service


def stop(lake: Path) -> Server | None:
    """Stop the service of this lake and wait until it ends; None if none runs."""
    running = Server.running(record(lake))
    if running is not None:
        end(running.pid)
    record(lake).unlink(missing_ok=True)
    return running


def move(project: Project, to: Kind, apply: bool, say: Say) -> None:
    """Copy all objects of the lake's metastore to PostgreSQL, or back; `say` prints their number.

    No table moves, and the metastore before stays, too. Without `apply` the objects are only
    counted. The copy is one transaction, which is read back and compared before its end.
    Raises an error in one line if the lake is in use, or the metastore there is not empty.
    """
    lake = project.local
    os.umask(lakes.umask())
    embedded, outside = lake / "metastore", database(project)
    schema = usable(outside)
    if error := refused_move(lake, to, outside, schema):
        raise error
    locks.hold(lake, "headwaters metastore move")
    try:
        names = {"derby": f"the embedded metastore of {lake}", "postgresql": outside.address}
        source = embedded_settings(embedded) if to == "postgresql" else outside.settings()
        say(f"from {names['derby' if to == 'postgresql' else 'postgresql']}")
        say(f"to {names[to]}")
        say("  " + counted(run_tool(lake, ["list", *arguments(source)], outside)))
        if not apply:
            say("nothing was changed: --apply copies them")
            return
        if to == "postgresql":
            target = arguments(outside.settings())
            run_tool(lake, ["copy", *arguments(source), "--", *target], outside)
        else:
            draft = lake / "metastore.new"
            shutil.rmtree(draft, ignore_errors=True)
            target = arguments(embedded_settings(draft, create=True))
            run_tool(lake, ["init", *target], outside)
            run_tool(lake, ["copy", *arguments(source), "--", *target], outside)
            if embedded.exists():
                embedded.rename(_free(lake / "metastore.before"))
            draft.rename(embedded)
        hive_metastore.note(lake, to == "postgresql", names[to])
        how = "unset" if to == "derby" else "set"
        say(
            f"done: {how} {hive_metastore.VARIABLE}; the metastore before stays until you remove it"
        )
    finally:
        locks.release(lake)


def refused_move(
    lake: Path, to: Kind, outside: HiveDatabase, schema: HiveSchema
) -> UserError | None:
    """Return the error of a move from nothing, from the metastore before, or over objects."""
    if to == "derby":
        return hive_metastore.not_of(lake, is_outside=True)
    if error := hive_metastore.not_of(lake, is_outside=False):
        return error
    if not (lake / "metastore").is_dir():
        return UserError("HW_METASTORE", f"the lake {lake} has no embedded metastore to move")
    if schema.tables or schema.schemas > 1:
        return UserError(
            "HW_METASTORE",
            f"the metastore {outside.address} has {schema.schemas} schemas and {schema.tables} "
            "tables, which a move would mix with others: name an empty database",
        )
    return None


def embedded_settings(folder: Path, create: bool = False) -> dict[str, str]:
    """Return Hadoop's settings of a process that uses an embedded metastore.

    Spark's Hive makes its tables when it needs them, so some may be missing.
    """
    return {
        "javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={folder}{';create=true' if create else ''}"
        ),
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.connectionPoolingType": "HikariCP",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.autoStartMechanismMode": "ignored",
    }


def counted(lines: Sequence[str]) -> str:
    """Return the number of objects of each kind in the tool's lines."""
    kinds = Counter(line.split("\t")[0] for line in lines)
    shown = ("schema", "table", "view", "partition", "function")
    return ", ".join(f"{kinds[kind]:,} {kind}s" for kind in shown if kinds[kind])


def _free(path: Path) -> Path:
    """Return the path, or one with a number behind it that does not exist."""
    number = 1
    free = path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def arguments(settings: Mapping[str, str]) -> list[str]:
    """Return settings in the form of the tool's arguments."""
    return [f"{key}={value}" for key, value in settings.items()]


def java_command(words: Sequence[str], more: Sequence[Path] = ()) -> list[str]:
    """Return the command of the tool, which Janino compiles, with `more` jars."""
    jars = ":".join(map(str, [f"{installed_pyspark()}/jars/*", hive_metastore.driver(), *more]))
    options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=WARN"]
    options.append(f"-Dderby.stream.error.file={os.devnull}")
    source = str(LOCKS / "java" / "MetastoreTool.java")
    run = ["org.codehaus.janino.SimpleCompiler", source, "MetastoreTool"]
    return [str(find_java().path), *options, "-cp", jars, *run, *words]


def run_tool(lake: Path, words: Sequence[str], chosen: HiveDatabase) -> list[str]:
    """Run the tool to its end, and return its lines of results.

    Raises WorkError with the last cause of its error; the log has all of it.
    """
    log = record(lake).with_name("tool.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = os.environ | java_environment(chosen, os.environ)
    ran = processes.run(java_command(words), environment=environment)
    log.write_text(ran.stdout)
    lines = ran.stdout.splitlines()
    if ran.returncode:
        causes = [line[1:] for line in lines if line.startswith("!")] or lines[-1:]
        reason = causes[-1] if causes else f"exit code {ran.returncode}"
        raise WorkError("HW_METASTORE", f"the metastore was not changed: {reason} (see {log})")
    return [line[1:] for line in lines if line.startswith("=")]


def _make_database(chosen: HiveDatabase) -> bool:
    """Make the database on its server, if it does not exist. Return true if it was made."""
    import psycopg  # an extra
    from psycopg import sql

    try:
        chosen.connect().close()
        return False
    except WorkError as error:
        if not error.text.endswith(f'database "{chosen.name}" does not exist'):
            raise
    with chosen.connect("postgres") as connection:
        connection.autocommit = True
        try:
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(chosen.name)))
        except psycopg.Error as error:
            raise hive_metastore.refusal(chosen, f"FATAL: {error}") from None
    return True
