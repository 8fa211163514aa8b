"""A cache of unchanged models: one statement over the logs of all tables finds them.

A run without changes stores two things in `target/`. One is a digest of the inputs of its plan
other than tables. The other is the newest commit of each table: the model's own and its inputs. A
commit is a file that never changes. While these files are unchanged and no table has a next one, a
plan would start from the same facts. The run then skips it.

The stored data is a hint. If it is missing or unreadable, a run queries the tables as usual. It
also does so if a table has moved, or if the file system refuses the statement. See
docs/decisions/0036-unchanged-at-a-glance.md.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from headwaters.platform.atomic_write import write

# excludes characters that a glob or a quoted name would interpret
_LOCATION = re.compile(r"(?P<root>[a-z][a-z0-9+.-]*:(?://[^/{}\[\]*?\\,`]*)?/)[^{}\[\]*?\\,`]+")
_OF_CATALOG = re.compile(r"delta\..*(catalog|coordinat)", re.IGNORECASE)
_INFORMATION = re.compile(r"^Location: (.+)$", re.MULTILINE)

# The parts of a model, besides its SQL, that decide the run and the table's declaration.
_DECLARED = ("relation_name", "config", "columns", "constraints", "description")

Rows = Iterable[Sequence[Any]]
Ask = Callable[[str], Rows]  # runs a statement; returns no rows if it fails
Locate = Callable[[str], str | None]  # returns the location of a table


class NewestCommit(BaseModel):
    """The newest commit of a table at the time of the check, and its file.

    `at` is the time in the table's history, in milliseconds. `modified` is that of the file system,
    in microseconds. Both count from 1970.
    """

    model_config = ConfigDict(frozen=True)

    location: str
    version: int
    at: int
    modified: int
    length: int


class NoOpPlan(BaseModel):
    """A plan without work for a model whose tables were at these commits.

    It has the version and time of each table, because another model may have seen a newer one
    since.
    """

    digest: str
    tables: dict[str, tuple[int, int]]


class Kept(BaseModel):
    """The data that one invocation stores for the next, by the name of a table or model."""

    tables: dict[str, NewestCommit] = {}
    models: dict[str, NoOpPlan] = {}


class NoOpCache:
    """The stored data of earlier invocations, and the additions of this one; safe for threads."""

    def __init__(self, file: Path) -> None:
        """Read the file, or start empty if it cannot be read."""
        self._file = file
        try:
            self.kept = Kept.model_validate_json(file.read_bytes())
        except (OSError, ValidationError):
            self.kept = Kept()
        self._noted: dict[str, NoOpPlan] = {}

    def is_planned(
        self, model: str, digest: str, find: Callable[[str], NewestCommit | None]
    ) -> bool:
        """Return true if a model had nothing to do, and everything is unchanged since.

        `find` returns the newest commit of a table that has not changed since it was stored.
        """
        plan = self.kept.models.get(model)
        if plan is None or plan.digest != digest:
            return False
        return all(_is_at(find(table), at) for table, at in plan.tables.items())

    def look(self, models: Iterable[str], locate: Locate, ask: Ask) -> dict[str, NewestCommit]:
        """Return the tables of models whose stored commit is still the newest, by name."""
        plans = [self.kept.models[model] for model in models if model in self.kept.models]
        there = {
            name: commit
            for name, commit in self.kept.tables.items()
            if any(name in plan.tables for plan in plans) and locate(name) == commit.location
        }
        both = [(one.location, one.version + next) for one in there.values() for next in (0, 1)]
        files = _files(both, ask)
        return {
            name: commit
            for name, commit in there.items()
            if files.get(file_of(commit.location, commit.version))
            == (commit.modified, commit.length)
            and file_of(commit.location, commit.version + 1) not in files
        }

    def note(self, model: str, digest: str, tables: Mapping[str, Mapping[str, int]]) -> None:
        """Note that a model with its tables at these commits has nothing to do."""
        named = {name_of(one): (at["version"], at["at"]) for one, at in tables.items()}
        if None not in named:
            tables_of_plan = {name: at for name, at in named.items() if name is not None}
            self._noted[model] = NoOpPlan(digest=digest, tables=tables_of_plan)

    def keep(self, locate: Locate, ask: Ask) -> None:
        """Write the notes, except those of models with a table whose log cannot be read."""
        if not self._noted:
            return
        noted = {name: at for plan in self._noted.values() for name, at in plan.tables.items()}
        new = {name: at for name, at in noted.items() if not _is_at(self.kept.tables.get(name), at)}
        places = {name: locate(name) for name in new}
        seen = {
            name: place
            for name, place in places.items()
            if place and _has_whole_log(ask(f"show tblproperties {name}"))
        }
        files = _files([(place, new[name][0]) for name, place in seen.items()], ask)
        for name, place in seen.items():
            version, at = new[name]
            file = files.get(file_of(place, version))
            if file:
                self.kept.tables[name] = NewestCommit(
                    location=place, version=version, at=at, modified=file[0], length=file[1]
                )
        for model, plan in self._noted.items():
            if all(_is_at(self.kept.tables.get(name), at) for name, at in plan.tables.items()):
                self.kept.models[model] = plan
        self._noted.clear()
        with contextlib.suppress(OSError):  # a missing hint must not fail a run
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write(self._file, self.kept.model_dump_json())


def _is_at(commit: NewestCommit | None, at: tuple[int, int]) -> bool:
    return commit is not None and (commit.version, commit.at) == at


def name_of(relation: str) -> str | None:
    """Return the name of a table in the cache, or None outside the session's own catalog."""
    parts = relation.replace("`", "").lower().split(".")
    return ".".join(parts) if len(parts) == 2 else None


def location_of(information: str | None) -> str | None:
    """Return the location of a Delta table from `show table extended`, or None if unsupported."""
    found = _INFORMATION.search(information or "")
    if found is None or "\nProvider: delta\n" not in str(information):
        return None
    return found[1] if _LOCATION.fullmatch(found[1]) else None


def folder_of(information: str | None) -> Path | None:
    """Return the folder of a Delta table on this machine, from `show table extended`, or None."""
    location = location_of(information)
    parts = urlsplit(location or "")
    if parts.scheme != "file" or parts.netloc:
        return None
    return Path(unquote(parts.path))


def _has_whole_log(properties: Rows) -> bool:
    """Return true if each commit is immediately a file of the log; catalogs may hold new ones."""
    names = [str(row[0]) for row in properties]
    return bool(names) and not any(map(_OF_CATALOG.match, names))


def _files(commits: Sequence[tuple[str, int]], ask: Ask) -> dict[str, tuple[int, int]]:
    """Return the modification times and lengths of the existing files of commits."""
    rows = ask(look_sql(commits)) if commits else []
    return {str(path): (int(modified), int(length)) for path, modified, length in rows}


def look_sql(commits: Iterable[tuple[str, int]]) -> str:
    """Return the statement that lists the files of commits: pairs of a location and a version.

    It returns `path`, `modified` and `length` of the existing files without reading them. It fails
    if none exists.
    """
    roots = defaultdict(list)
    for location, version in commits:
        found = _LOCATION.fullmatch(location)
        assert found, location
        file = file_of(location, version).removeprefix(found["root"])
        roots[found["root"]].append(file)
    return "\nunion all\n".join(
        "select path, unix_micros(modificationTime) as modified, length"
        f" from binaryFile.`{root}{{{','.join(files)}}}`"
        for root, files in roots.items()
    )


def file_of(location: str, version: int) -> str:
    """Return the file of a commit."""
    return f"{location}/_delta_log/{version:020}.json"


def digest_of(node: Mapping[str, Any], *further: Any) -> str:
    """Return a digest of the inputs of a model's plan other than tables, such as its SQL."""
    declared = {name: node.get(name) for name in _DECLARED}
    text = json.dumps([declared, *further], sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()
