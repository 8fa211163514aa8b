"""Facts of tables and models from `delta_log.State`s and declared nodes. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from pydantic import ValidationError

from headwaters.platform.nodes import Node, owner_of
from headwaters.platform.units import milliseconds_of
from headwaters.report.facts import (
    Behind,
    Kind,
    Need,
    ReportedModel,
    ReportedOutcome,
    ReportedRun,
    ReportedTable,
    TableChange,
    Way,
    prediction,
)
from headwaters.tables.commits import Commit, vacuumed_before
from headwaters.tables.delta_log import Logged, State
from headwaters.tables.maintenance import has_removed, origins_of, rewrites_due
from headwaters.tables.policy import Policy, policy_of
from headwaters.tables.retention import DEFAULTS, FILES
from headwaters.tables.settings import ModelSettings

MOST_RUNS = 30
# A margin: change files are older than their commit, and VACUUM runs after the question.
_MARGIN = 3600.0


@dataclass(frozen=True)
class ReaderPosition:
    """The last version of a table that a reader has read; with None it reads all of `version`."""

    reader: str
    table: str
    version: int


def table_of(
    name: str,
    place: str,
    kind: Kind,
    state: State,
    node: Node | None,
    needs: Sequence[Need],
    now: datetime,
) -> ReportedTable:
    """Return a table's facts from its log and its node. `needs` are the needs of its readers."""
    policy = _policy(node)
    retention = _retention(state.properties)
    commits = [one.commit for one in state.commits]
    optimized = next((one for one in commits if one.operation == "OPTIMIZE"), None)
    added = sum(
        one.files_added
        for one in state.commits
        if optimized is None or one.commit.version > optimized.version
    )
    small = sum(size < policy.small_bytes for size in state.sizes)
    due: list[tuple[str, str]] = []
    kept = None
    if policy.enabled:
        rewrites = rewrites_due(policy, state.rows or 0, state.deleted_rows, small, added)
        due = [(one.what, one.why) for one in rewrites]
        if policy.vacuum and _can_be_vacuumed(state, now, retention):
            horizon = now - timedelta(seconds=retention - _MARGIN)
            if blocking := [need.reader for need in needs if need.since < horizon]:
                kept = f"not vacuumed, since readers need its files: {', '.join(blocking)}"
            else:
                due.append(("vacuum", "files that left the table are needed by nobody"))
    changes = [change_of(one) for one in reversed(state.commits) if one.rows]
    return ReportedTable(
        name=name,
        place=place,
        kind=kind,
        owner=owner_of(node),
        version=state.version,
        rows=state.rows,
        deleted_rows=state.deleted_rows,
        files=len(state.sizes),
        small_files=small,
        bytes=sum(state.sizes),
        last_change=changes[-1].at if changes else None,
        retention=retention,
        due=tuple(due),
        kept=kept,
        needs=tuple(needs),
        columns=state.columns,
        changes=tuple(changes),
    )


def _policy(node: Node | None) -> Policy:
    try:
        return policy_of(node["config"]) if node else Policy(enabled=False)
    except ValidationError:  # dbt reports it when it parses the project
        return Policy(enabled=False)


def _can_be_vacuumed(state: State, now: datetime, retention: float) -> bool:
    removals = [one.commit.at for one in state.commits if one.files_removed]
    moment = round((now.timestamp() - retention) * 1000)
    return has_removed(removals, vacuumed_before(one.commit for one in state.commits), moment)


def positions(name: str, state: State, paths: Mapping[str, str]) -> list[ReaderPosition]:
    """Return the positions of a table in others: applied versions, and the source of a clone.

    `paths` are the names of tables by their folders. Raises ValueError and similar errors for
    properties that headwaters did not write.
    """
    found = []
    if "headwaters.backup.of" not in state.properties:  # a backup reads no more changes
        found = [ReaderPosition(name, table, one) for table, one in applied_versions(state).items()]
    commits = (one.commit for one in state.commits if one.commit.operation == "CLONE")
    cloned = next((commit.parameters for commit in commits), {})
    source, version = cloned.get("source"), cloned.get("sourceVersion")
    for origin in origins_of(source, version, state.properties):
        table = paths.get(origin.source.removeprefix("file:").rstrip("/"), origin.source.lower())
        found.append(ReaderPosition(f"the clone {name}", table, origin.version))
    return found


def applied_versions(state: State) -> dict[str, int]:
    """Return the applied versions of a table's inputs, by their lower-case names."""
    inputs = json.loads(state.properties.get("headwaters.inputs") or "null") or {}
    return {name.lower(): int(one["version"]) for name, one in inputs.items()}


def needs_of(name: str, state: State, read: Iterable[ReaderPosition]) -> list[Need]:
    """Return the needs of a table's readers: the first commit of rows that each lacks."""
    found = []
    for position in read:
        if position.table == name and position.version < state.version:
            unread = _unread(state, position.version)
            if unread:
                found.append(Need(position.reader, unread[-1].at))
    return found


def _unread(state: State, version: int) -> list[TableChange]:
    """Return the commits of rows after a version, newest first."""
    return [change_of(one) for one in state.commits if one.commit.version > version and one.rows]


def model_of(
    name: str,
    node: Node,
    states: Mapping[str, State],
    outcome: ReportedOutcome | None,
    reads: Sequence[str],
) -> ReportedModel:
    """Return a model's facts from its table's log. `states` are those of all tables, by name."""
    config = node["config"]
    strategy = config.get("incremental_strategy") if config["materialized"] == "incremental" else ""
    every = milliseconds_of(ModelSettings.of(config).runs_every or "")
    made = ReportedModel(
        name=str(node["name"]),
        table=name,
        strategy=str(strategy or config["materialized"]),
        owner=owner_of(node),
        is_built=name in states,
        outcome=outcome,
        runs_every=None if every is None else every / 1000,
        reads=tuple(reads),
    )
    if name not in states:
        return made
    state = states[name]
    return replace(made, rows=state.rows, runs=runs_of(state), behind=tuple(_behind(state, states)))


def _behind(state: State, states: Mapping[str, State]) -> Iterator[Behind]:
    for table, applied in applied_versions(state).items():
        if table in states and (unread := _unread(states[table], applied)):
            rows = sum(one.rows for one in unread)
            yield Behind(table, applied, states[table].version, rows, unread[-1].at)


def runs_of(state: State) -> tuple[ReportedRun, ...]:
    """Return the newest commits that changed rows, oldest first, each with its expected cost."""
    found: list[ReportedRun] = []
    changed = [one for one in state.commits if one.rows][:MOST_RUNS]
    for one in reversed(changed):
        change, way = change_of(one), way_of(one.commit)
        expected = prediction(found, way, change.rows)
        found.append(
            ReportedRun(change.version, change.at, way, change.rows, change.bytes, expected)
        )
    return tuple(found)


def change_of(logged: Logged) -> TableChange:
    """Return a commit that changed rows."""
    commit = logged.commit
    return TableChange(commit.version, moment(commit.at), logged.rows, logged.bytes_added)


def way_of(commit: Commit) -> Way:
    """Return how a commit wrote its rows."""
    if commit.operation == "MERGE":
        return "merge"
    if commit.operation in ("DELETE", "TRUNCATE"):
        return "delete"
    creates = commit.parameters.get("mode") in ("ErrorIfExists", "Ignore")
    if commit.operation.endswith("TABLE AS SELECT") or (
        commit.operation == "WRITE" and (creates or commit.replaces_all)
    ):
        return "replace"
    if commit.operation not in ("WRITE", "STREAMING UPDATE"):
        return "other"
    return "append" if commit.effect.inserts_only else "merge"


def _retention(properties: Mapping[str, str]) -> float:
    """Return the seconds that removed files are retained: Delta's default if unreadable."""
    given = (milliseconds_of(properties.get(FILES, "")), milliseconds_of(DEFAULTS[FILES]))
    return next(filter(None, given), 0.0) / 1000


def moment(milliseconds: int) -> datetime:
    """Convert a log's milliseconds to a UTC datetime."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
