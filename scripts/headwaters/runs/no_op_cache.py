"""Models that have nothing to do, told by one statement that looks at the logs of all tables.

A run that finds no changes keeps that in `target/`: a digest of all that its plan was made from
but for tables, and of each table, the model's own and its inputs, the commit that was the newest.
A commit is a file that never changes. As long as these files are what they were and none of the
tables has a next one, a plan would be made from the same facts, so it is not made again.

What is kept is a hint. Where it is missing or cannot be read, where a table is at another place or
a look is refused, tables are asked as ever. See docs/decisions/0036-unchanged-at-a-glance.md.
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

from pydantic import BaseModel, ConfigDict, ValidationError

from headwaters.platform.atomic_write import write

# of whatever else a name may consist, a glob or a name in backticks would take it for its own
_LOCATION = re.compile(r"(?P<root>[a-z][a-z0-9+.-]*:(?://[^/{}\[\]*?\\,`]*)?/)[^{}\[\]*?\\,`]+")
_OF_CATALOG = re.compile(r"delta\..*(catalog|coordinat)", re.IGNORECASE)
_INFORMATION = re.compile(r"^Location: (.+)$", re.MULTILINE)

# What of a model, beside its SQL, decides what a run does and what its table should be like.
_DECLARED = ("relation_name", "config", "columns", "constraints", "description")

Rows = Iterable[Sequence[Any]]
Ask = Callable[[str], Rows]  # a statement; no rows where it fails
Locate = Callable[[str], str | None]  # where a table is


class Commit(BaseModel):
    """The newest commit of a table when it was looked at, and its file.

    `at` in milliseconds, as the table's history says; `modified` in microseconds, as the file
    system says; both since 1970.
    """

    model_config = ConfigDict(frozen=True)

    location: str
    version: int
    at: int
    modified: int
    length: int


class Plan(BaseModel):
    """That there was nothing to do for a model whose tables were at these commits.

    Of each table the version and its time: another model may have seen a newer one since.
    """

    digest: str
    tables: dict[str, tuple[int, int]]


class Kept(BaseModel):
    """What is kept from one invocation to the next, by the name of a table or model."""

    tables: dict[str, Commit] = {}
    models: dict[str, Plan] = {}


class Unchanged:
    """What earlier invocations kept, and what this one adds to it. Threads may share it."""

    def __init__(self, file: Path) -> None:
        """What is in the file, if it can be read."""
        self._file = file
        try:
            self.kept = Kept.model_validate_json(file.read_bytes())
        except (OSError, ValidationError):
            self.kept = Kept()
        self._noted: dict[str, Plan] = {}

    def is_planned(self, model: str, digest: str, find: Callable[[str], Commit | None]) -> bool:
        """Whether there was nothing to do for a model, and all of it is as it was.

        `find` tells the newest commit of a table that did not change since it was kept.
        """
        plan = self.kept.models.get(model)
        if plan is None or plan.digest != digest:
            return False
        return all(_is_at(find(table), at) for table, at in plan.tables.items())

    def look(self, models: Iterable[str], locate: Locate, ask: Ask) -> dict[str, Commit]:
        """The tables of models whose newest commit is the one that was kept, by their names."""
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
        """Note that there is nothing to do for a model whose tables are at these commits."""
        named = {name_of(one): (at["version"], at["at"]) for one, at in tables.items()}
        if None not in named:
            tables_of_plan = {name: at for name, at in named.items() if name is not None}
            self._noted[model] = Plan(digest=digest, tables=tables_of_plan)

    def keep(self, locate: Locate, ask: Ask) -> None:
        """Write what was noted; a model with a table that cannot be looked at is left out."""
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
                self.kept.tables[name] = Commit(
                    location=place, version=version, at=at, modified=file[0], length=file[1]
                )
        for model, plan in self._noted.items():
            if all(_is_at(self.kept.tables.get(name), at) for name, at in plan.tables.items()):
                self.kept.models[model] = plan
        self._noted.clear()
        with contextlib.suppress(OSError):  # nobody's run fails for want of a hint
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write(self._file, self.kept.model_dump_json())


def _is_at(commit: Commit | None, at: tuple[int, int]) -> bool:
    return commit is not None and (commit.version, commit.at) == at


def name_of(relation: str) -> str | None:
    """The name under which a table is kept; None where it is not of the session's own catalog."""
    parts = relation.replace("`", "").lower().split(".")
    return ".".join(parts) if len(parts) == 2 else None


def location_of(information: str | None) -> str | None:
    """Where a Delta table is, by `show table extended`; None of what cannot be looked at."""
    found = _INFORMATION.search(information or "")
    if found is None or "\nProvider: delta\n" not in str(information):
        return None
    return found[1] if _LOCATION.fullmatch(found[1]) else None


def _has_whole_log(properties: Rows) -> bool:
    """Whether every commit is a file of the log at once; a catalog may keep the newest ones."""
    names = [str(row[0]) for row in properties]
    return bool(names) and not any(map(_OF_CATALOG.match, names))


def _files(commits: Sequence[tuple[str, int]], ask: Ask) -> dict[str, tuple[int, int]]:
    """When the files of commits were modified, and their lengths; of those that are there."""
    rows = ask(look_sql(commits)) if commits else []
    return {str(path): (int(modified), int(length)) for path, modified, length in rows}


def look_sql(commits: Iterable[tuple[str, int]]) -> str:
    """The statement that looks for the files of commits: pairs of a location and a version.

    It returns `path`, `modified`, `length` of those that are there, and reads none of them. It
    fails where none is.
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
    """The file of a commit."""
    return f"{location}/_delta_log/{version:020}.json"


def digest_of(node: Mapping[str, Any], *further: Any) -> str:
    """Stands for what a run of a model is planned from but for tables, its SQL and what else."""
    declared = {name: node.get(name) for name in _DECLARED}
    text = json.dumps([declared, *further], sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()
