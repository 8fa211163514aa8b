"""The applied versions of a model's table, and the other writers of its rows.

A run plans from the table at one commit, `seen`. Before it writes, it stores a note in the property
`headwaters.pending`. The note has its name, the commit `seen`, and the versions of the inputs that
it will apply. Every commit of rows carries the name of its run. After the write,
`headwaters.inputs` and `headwaters.run` name the applied versions and the run. The commits after
`seen` therefore show the true state, after any interruption and any foreign write. Nothing here
runs a statement. See docs/flow/incremental.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwaters.platform.delta_version import OPERATIONS_MOVING_COLUMNS
from headwaters.tables.commits import Commit, as_mapping

Inputs = dict[str, dict[str, int]]


@dataclass(frozen=True)
class Run:
    """A run of a model: its name, the commit of the table that it planned from, its inputs.

    `built_by` identifies the SQL that builds the table once the run has written.
    """

    id: str
    seen: Mapping[str, int] | None
    inputs: Inputs | None
    built_by: str | None = None

    @classmethod
    def parse(cls, text: str | None) -> Run | None:
        """Parse a table property. Return None if it is absent, `null`, or names no run."""
        noted = json.loads(text) if text else None
        if not isinstance(noted, dict) or "id" not in noted:
            return None
        return cls(str(noted["id"]), noted.get("seen"), noted.get("inputs"), noted.get("built_by"))


@dataclass(frozen=True)
class Applied:
    """The applied state of a table.

    `inputs` has the applied versions, or None if unknown. `foreign` describes the newest change of
    rows by another writer, or is None. `interrupted` names a run that noted its inputs and has not
    finished: it was killed, or is still running. `built_by` identifies the SQL that such a run
    applied, or is None. `altered` has the commits after the last finished run that may have changed
    columns.
    """

    inputs: Inputs | None
    foreign: str | None
    interrupted: str | None
    built_by: str | None = None
    altered: tuple[Commit, ...] = ()


@dataclass(frozen=True)
class Meanwhile:
    """The changes of a table since a run planned from it.

    `superseded` describes the event that makes this run's work void, or is None. Such events are a
    RESTORE, and another run of the model that wrote rows or noted its inputs after this one.
    `others` has the runs that noted their inputs before this one, and may still be running.
    `foreign` describes a change of rows by another writer, or is None. `engine` is that of this
    run, from its own note.
    """

    superseded: str | None
    others: list[str]
    foreign: str | None
    engine: str = ""


def signature(run: str) -> str:
    """Return the mark of a run's commits: `userMetadata`, or part of MERGE's condition."""
    return f"headwaters run {run}"


def applied_versions(
    properties: Mapping[str, str], commits: Sequence[Commit], complete: bool
) -> Applied | None:
    """Return the applied state of a table, by its properties and its commits, newest first.

    `complete`: the log has no commits besides `commits`. Return None if they do not reach back to
    the commit that the last run saw; the caller then reads more of them.
    """
    pending = Run.parse(properties.get("headwaters.pending"))
    last = Run.parse(properties.get("headwaters.run"))
    inputs: Inputs | None = json.loads(properties.get("headwaters.inputs") or "null")
    if inputs is None or last is None:
        return Applied(None, None, pending.id if pending else None)
    seen = (pending or last).seen
    written, foreign, reached = False, None, complete
    has_finished, altered = pending is not None, []
    for commit in _standing(commits):
        has_finished = has_finished or noted_run(commit) == ""
        if seen is not None and commit.is_same(seen):
            reached = True
            break
        if _restored_version(commit) is not None:
            continue
        is_pending = pending is not None and is_of(commit, pending.id)
        if is_pending or is_of(commit, last.id):
            written, has_finished = written or is_pending, True
            if _replaces_table(commit):
                reached = True  # it removed everything before
                break
        elif commit.operation == "CLONE":
            reached = True
            break
        elif _changes_rows(commit):
            foreign = foreign or described(commit)
        elif not has_finished and commit.may_change_columns:
            altered.append(commit)
    if not reached:
        return None
    if pending is None or not written:
        name = pending.id if pending else None
        return Applied(inputs, foreign, name, altered=tuple(altered))
    return Applied(pending.inputs, foreign, pending.id, pending.built_by)


def since(commits: Iterable[Commit], seen: Mapping[str, int], run: str) -> Meanwhile:
    """Return the changes of a table after the commit `seen`, by its commits, newest first.

    `run` names the calling run, which has noted its inputs after `seen`.
    """
    noted = False
    superseded: str | None = None
    foreign: str | None = None
    engine = ""
    others: list[str] = []
    for commit in commits:
        if commit.version <= seen["version"]:
            break
        note = noted_run(commit)
        if note is not None:
            if note == run:
                noted, engine = True, commit.engine
            elif not noted:
                superseded = superseded or "another run of the model"
            elif note and note not in others:
                others.append(note)
        elif commit.operation in ("RESTORE", "CLONE"):
            superseded = superseded or described(commit)
        elif _changes_rows(commit) and not is_of(commit, run):
            if is_of(commit, "") or _replaces_table(commit):
                superseded = superseded or "another run of the model"
            else:
                foreign = foreign or described(commit)
    return Meanwhile(superseded, others, foreign, engine)


def version_of_run(
    commits: Iterable[Commit], run: str, seen: Mapping[str, int] | None
) -> int | None:
    """Return the version of a table that has the rows of this run, by its commits, newest first.

    If the run wrote none, that is `seen`, the commit that it planned from. Return None if the
    commits, which begin after the run, have neither.
    """
    written = next((commit.version for commit in commits if is_of(commit, run)), None)
    return written if written is not None or seen is None else seen["version"]


def noted_run(commit: Commit) -> str | None:
    """Return the run that noted its inputs in this commit, or an empty text if one has finished."""
    if commit.operation != "SET TBLPROPERTIES":
        return None
    text = _properties(commit).get("headwaters.pending")
    if text is None:
        return None
    run = Run.parse(text)
    return run.id if run else ""


def described(commit: Commit) -> str:
    """Describe a commit, such as `MERGE of version 17 by Trino`."""
    engine = commit.engine.split("/")[0]
    by = "" if engine in ("", "Apache-Spark") else f" by {engine}"
    return f"{commit.operation or 'an unnamed commit'} of version {commit.version}{by}"


def _standing(commits: Iterable[Commit]) -> Iterable[Commit]:
    """Yield the commits that no RESTORE to a version has taken back, and the RESTORE."""
    newest: int | None = None
    for commit in commits:
        if newest is not None and commit.version > newest:
            continue
        yield commit
        restored = _restored_version(commit)
        newest = newest if restored is None else restored


def _restored_version(commit: Commit) -> int | None:
    """Return the version of a RESTORE, or None if it was by time, which does not record it."""
    version = commit.parameters.get("version") if commit.operation == "RESTORE" else None
    return None if version is None else int(version)


def _changes_rows(commit: Commit) -> bool:
    """Return true if a commit changed rows, or the column that has the values of a name."""
    changes = commit.effect.rows > 0 or commit.operation in OPERATIONS_MOVING_COLUMNS
    return changes and not commit.is_operation


def is_of(commit: Commit, run: str) -> bool:
    """Return true if the run made the commit, or any run if `run` is empty."""
    if _replaces_table(commit):  # its properties have the name
        replaced_by = Run.parse(_properties(commit).get("headwaters.run"))
        return replaced_by is not None and (not run or replaced_by.id == run)
    marks = f"{commit.user_metadata or ''}\n{commit.parameters.get('predicate') or ''}"
    return signature(run) in marks


def _replaces_table(commit: Commit) -> bool:
    return "TABLE AS SELECT" in commit.operation


def _properties(commit: Commit) -> dict[str, Any]:
    return as_mapping(commit.parameters.get("properties"))
