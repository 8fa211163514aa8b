"""`headwaters relocate`: new absolute paths for a copied or moved lake.

It replaces the original place by the present one in the logs of file sources, and in the schemas
and tables of the embedded metastore. Delta tables name their files relative to themselves; only
shallow clones name those of other tables. `lake.json` changes last, so that the next call completes
an interrupted one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from headwaters.platform import atomic_write, hive_metastore, leases, metastore
from headwaters.platform import lake as lakes
from headwaters.platform.checkpoint import SOURCE_SCHEMAS, Checkpoint
from headwaters.platform.errors import UserError, WorkError
from headwaters.platform.places import Place, RemotePath, join
from headwaters.platform.project import Project
from headwaters.platform.spark_driver import driver_settings


@dataclass(frozen=True)
class LocationColumn:
    """A column of the metastore's database that contains locations, with its key."""

    table: str
    key: tuple[str, ...]
    column: str
    condition: str = "1 = 1"


# The columns of Hive's own metatool; Spark also stores a table's location in its parameters.
COLUMNS = (
    LocationColumn("DBS", ("DB_ID",), "DB_LOCATION_URI"),
    LocationColumn("SDS", ("SD_ID",), "LOCATION"),
    LocationColumn("SERDE_PARAMS", ("SERDE_ID", "PARAM_KEY"), "PARAM_VALUE", "PARAM_KEY = 'path'"),
)


def relocate(project: Project, dry_run: bool = True) -> list[str]:
    """Change the paths in a lake's files to its present place; return the changes.

    `dry_run` only counts them. Raises UserError if the lake is at its original place, WorkError
    while another process uses it.
    """
    lake, local = project.lake, project.local
    os.umask(lakes.umask())
    if not lake.is_dir():
        raise UserError("HW_RELOCATION", f"there is no lake {lake}")
    if named := project.spark_settings().get(hive_metastore.SETTING):
        raise UserError(
            "HW_RELOCATION",
            f"the metastore of the lake {lake} is {named}, and relocate changes an embedded one: "
            "run `headwaters metastore move --to derby` first",
        )
    with ExitStack() as held:
        metastore.hold(local, "headwaters relocate")
        held.callback(metastore.release, local)
        _hold_store(lake, local, held)
        for folder in _checkpoint_folders(lake):
            held.enter_context(Checkpoint(folder, local).held())
        jvm = held.enter_context(_java(project))
        return _relocate(lake, local, jvm, dry_run)


def _hold_store(lake: Place, local: Path, held: ExitStack) -> None:
    """Keep other relocations of a lake in a store away; those of a folder hold its metastore."""
    if isinstance(lake, RemotePath):
        try:
            held.enter_context(leases.held(lake / "relocation", "headwaters relocate", local))
        except leases.InUse as error:
            raise WorkError(
                "HW_RELOCATION", f"{error.holder} is at work on the lake {lake}: wait for it"
            ) from None


def _checkpoint_folders(lake: Place) -> list[Place]:
    found: Iterable[Place] = (lake / "checkpoints").glob("*")
    return sorted((place for place in found if place.is_dir()), key=str)


def _relocate(lake: Place, local: Path, jvm: Any, dry_run: bool) -> list[str]:
    with _database(local, jvm) as database:
        made = lakes.made_at(lake)
        named = [*_registered(database, lake), *([made] if made else [])]
        before = {place for place in named if place != lake and not lakes.same(place, lake)}
        if not before:
            raise UserError(
                "HW_RELOCATION", f"the lake {lake} is where it was made: nothing has to change"
            )
        if len(before) > 1:
            raise UserError(
                "HW_RELOCATION",
                f"the files of the lake {lake} name two other places, "
                f"{' and '.join(map(str, sorted(before)))}: relocate it at the first one first",
            )
        [old] = before
        if not dry_run:
            lakes.remember(lake, old)  # until now, only the checkpoints may have had it
        path = jvm.org.apache.hadoop.fs.Path
        files = _checkpoints(lake, (_uri(path, old), _uri(path, lake)), dry_run)
        _source_schemas(lake, old, dry_run)
        rows = _metastore(database, lambda text: moved(text, str(old), str(lake)), dry_run)
        if not dry_run:
            lakes.remember(lake, lake)
    return [
        f"{old} → {lake}",
        f"  checkpoints: {files:,} paths of files that streams have read",
        f"  metastore: {rows['DBS']:,} schemas, {rows['SDS']:,} tables",
        *(f"  {name} is a shallow clone: it still reads files of {old}" for name in clones(lake)),
        "nothing was changed: --apply does it" if dry_run else "done",
    ]


def moved(location: str, old: str, new: str) -> str | None:
    """Return a location at its new place, in the same form, or None if outside the old place.

    The metastore has paths, or `file:` before a path, without escapes.
    """
    found = re.fullmatch(rf"(file:(?://)?)?{re.escape(old.rstrip('/'))}(/.*)?", location, re.DOTALL)
    return None if found is None else f"{found[1] or ''}{new.rstrip('/')}{found[2] or ''}"


def clones(lake: Place) -> Iterator[str]:
    """Yield the tables whose logs name files by absolute paths, such as shallow clones."""
    logs: Iterable[Place] = (lake / "warehouse").glob("*.db/*/_delta_log")
    for log in sorted(logs, key=str):
        commits: Iterable[Place] = log.glob("*.json")
        texts = (commit.read_bytes() for commit in commits)
        if any(re.search(rb'"add":\{"path":"(\w+:)?/', text) for text in texts):
            yield f"{log.parent.parent.stem}.{log.parent.name}"


def _checkpoints(lake: Place, prefixes: tuple[str, str], dry_run: bool) -> int:
    """Change the logs of file sources; return the number of paths below the old prefix."""
    old, new = prefixes
    changed = 0
    logs: Iterable[Place] = (lake / "checkpoints").glob("*/sources/*/*")
    for log in sorted(logs, key=str):
        if log.name.startswith("."):
            continue
        version, *lines = log.read_text().split("\n")
        here = 0
        for number, line in enumerate(lines):
            entry = json.loads(line) if line.startswith("{") else {}
            if str(entry.get("path", "")).startswith(f"{old}/"):
                entry["path"] = new + entry["path"].removeprefix(old)
                lines[number] = json.dumps(entry, separators=(",", ":"), ensure_ascii=False)
                here += 1
        if here and not dry_run:
            _rewrite(log, "\n".join([version, *lines]))
        changed += here
    return changed


def _source_schemas(lake: Place, old: Place, dry_run: bool) -> None:
    """Change the place of the checkpoint in Delta's logs of the columns of sources."""
    before, after = (f"file:{one}" if isinstance(one, Path) else str(one) for one in (old, lake))
    logs: Iterable[Place] = (lake / "checkpoints").glob(f"*/{SOURCE_SCHEMAS}/*/*")
    for log in sorted(logs, key=str):
        if log.name.startswith(".") or dry_run:
            continue
        version, line, *rest = log.read_text().split("\n")
        entry = json.loads(line)
        place = str(entry.get("sourceMetadataPath", ""))
        if place.startswith(f"{before}/"):
            entry["sourceMetadataPath"] = after + place.removeprefix(before)
            line = json.dumps(entry, separators=(",", ":"), ensure_ascii=False)
            _rewrite(log, "\n".join([version, line, *rest]))


def _rewrite(log: Place, text: str) -> None:
    """Replace a file that Spark wrote, with Hadoop's checksum of the old text."""
    if isinstance(log, RemotePath):
        log.write_text(text)
        return
    with atomic_write.draft(log) as path:
        path.write_text(text)
        log.with_name(f".{log.name}.crc").unlink(missing_ok=True)


def _uri(path: Any, folder: Place) -> str:
    """Return a folder in the notation of a file source's log: Java itself escapes it."""
    escaped = str(path(str(folder)).toUri().toString())
    return f"file://{escaped}" if isinstance(folder, Path) else escaped


# -- the metastore's database --------------------------------------------------------------------


@contextmanager
def _java(project: Project) -> Iterator[Any]:
    """Yield a Java with Spark's jars, without a Spark."""
    settings = driver_settings(project.local / "logs", project.spark_settings())
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    gateway = launch_gateway(conf)  # type: ignore[no-untyped-call]  # pyspark's own, without types
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(30)


@contextmanager
def _database(local: Path, jvm: Any) -> Iterator[Any]:
    """Yield a connection to the metastore's database, or None if it does not exist."""
    folder = local / "metastore"
    if not folder.is_dir():
        yield None
        return
    jvm.java.lang.Class.forName("org.apache.derby.jdbc.EmbeddedDriver")
    connection = jvm.java.sql.DriverManager.getConnection(f"jdbc:derby:;databaseName={folder}")
    connection.setAutoCommit(False)
    try:
        yield connection
    finally:
        connection.rollback()
        connection.close()


def _registered(database: Any, lake: Place) -> Iterator[Place]:
    """Yield the lake of the schema `default`, if it is in the same kind of place."""
    if database is not None:
        found = _rows(database, "select DB_LOCATION_URI from DBS where NAME = 'default'", 1)
        for (location,) in found:
            if re.match(r"(file:(//)?)?/", location):
                yield Path(re.sub(r"^file:(//)?", "", location)).parent
            elif isinstance(lake, RemotePath) and "://" in location:
                yield join(lake, location).parent


def _metastore(database: Any, change: Callable[[str], str | None], dry_run: bool) -> dict[str, int]:
    """Change the locations in one transaction; return the number of changed rows by table."""
    counts = dict.fromkeys((column.table for column in COLUMNS), 0)
    for column in COLUMNS if database is not None else ():
        names = (*column.key, column.column)
        query = f"select {', '.join(names)} from {column.table} where {column.condition}"
        where = " and ".join(f"{name} = ?" for name in column.key)
        statement = f"update {column.table} set {column.column} = ? where {where}"
        update = database.prepareStatement(statement)
        for *key, location in _rows(database, query, len(names)):
            changed = change(location) if location else None
            if changed is None:
                continue
            for place, value in enumerate((changed, *key), start=1):
                update.setString(place, value)
            update.executeUpdate()
            counts[column.table] += 1
    if database is not None and not dry_run:
        database.commit()
    return counts


def _rows(database: Any, query: str, width: int) -> list[list[str]]:
    found, rows = database.createStatement().executeQuery(query), []
    while found.next():
        rows.append([found.getString(place) for place in range(1, width + 1)])
    return rows
