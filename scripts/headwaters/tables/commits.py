"""What the commits of a Delta table say to a reader of its change feed.

Pure functions over rows of `describe history`. Everything that an operation's name does not say is
taken to have changed rows, and everything that no commit says is found when the feed is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from headwaters.tables.grouping import Grouping

# They change neither rows nor columns, nor what a table permits.
_WITHOUT_EFFECT = frozenset(
    {
        "OPTIMIZE",
        "REORG",
        "VACUUM START",
        "VACUUM END",
        "SET TBLPROPERTIES",
        "UNSET TBLPROPERTIES",
        "CLUSTER BY",
        "COMPUTE STATS",
        "SET TABLE COMMENT",
        "ROW TRACKING BACKFILL",
        "ROW TRACKING UNBACKFILL",
        "OPTIMIZE CHECKPOINT",
        "DOMAIN METADATA CLEANUP",
    }
)
# They write the same rows into other files.
_REWRITES = frozenset({"OPTIMIZE", "REORG"})
# They change no row.
_WITHOUT_ROWS = _WITHOUT_EFFECT | frozenset(
    {
        "ADD CONSTRAINT",
        "DROP CONSTRAINT",
        "UPGRADE PROTOCOL",
        "CREATE TABLE",
        "DROP FEATURE",
        "Deletion Vector Tombstones",
        "Empty Commit",
        "CHANGE COLUMN",
        "CHANGE COLUMNS",
        "ADD COLUMN",
        "ADD COLUMNS",
        "REPLACE COLUMNS",
        "RENAME COLUMN",
        "DROP COLUMNS",
    }
)
_ADD_COLUMNS = frozenset({"ADD COLUMN", "ADD COLUMNS"})  # delta-rs names it in the singular
_ALTER_COLUMNS = frozenset({"CHANGE COLUMN", "CHANGE COLUMNS", "REPLACE COLUMNS"})
_MOVE_COLUMNS = frozenset({"RENAME COLUMN", "DROP COLUMNS"})

# They change rows; AS SELECT does as well. What is named nowhere may change anything.
_WITH_ROWS = frozenset(
    {
        "WRITE",
        "STREAMING UPDATE",
        "MERGE",
        "DELETE",
        "UPDATE",
        "TRUNCATE",
        "RESTORE",
        "CLONE",
        "CONVERT",
        "REPLACE TABLE",
        "CREATE OR REPLACE TABLE",
    }
)

# Engines whose change images were compared, value by value, with the rows that were there.
_SPARK = "Apache-Spark/"
_WITH_WHOLE_IMAGES = (_SPARK, "delta-rs:")
# It has milliseconds only: of a timestamp its images and rewritten files have no more.
_WITH_MILLISECONDS = "trino"

_FEED = "delta.enableChangeDataFeed"
_MAPPING = "delta.columnMapping.mode"
_WEEK = 604_800_000


@dataclass(frozen=True)
class Effect:
    """What a commit does to rows: `rows`, an upper bound of those that changed.

    `inserts_only`: nothing was deleted or updated. `uncounted`: the commit does not say how many.
    """

    rows: int
    inserts_only: bool
    uncounted: bool = False


@dataclass(frozen=True)
class Commit:
    """A row of `describe history`: `at` in milliseconds since 1970, metrics and parameters as text.

    `operation` and `engine` are empty where the commit does not name them.
    """

    version: int
    at: int
    operation: str
    parameters: Mapping[str, str]
    metrics: Mapping[str, str]
    engine: str = ""
    user_metadata: str | None = None
    is_blind_append: bool | None = None

    @property
    def effect(self) -> Effect:
        """What the commit does to the rows of its table."""
        if self.operation in _WITHOUT_ROWS:
            return Effect(0, inserts_only=True)
        if self.is_append:
            return self._effect("numOutputRows", inserts_only=True)
        if self.operation == "MERGE":
            updated = self._metric("numTargetRowsUpdated", 1)
            removed = updated + self._metric("numTargetRowsDeleted", 0)
            rows = removed + self._metric("numTargetRowsInserted", 0)
            uncounted = "numTargetRowsUpdated" not in self.metrics
            return Effect(rows, inserts_only=removed == 0, uncounted=uncounted)
        if self.operation == "DELETE":
            return self._effect("numDeletedRows", inserts_only=False)
        if self.operation == "UPDATE":
            return self._effect("numUpdatedRows", inserts_only=False)
        # what INSERT … REPLACE leaves in the files that it rewrites counts as output as well
        written = self._metric("numOutputRows", 0) - self._metric("numCopiedRows", 0)
        rows = written + self._metric("numDeletedRows", 0)
        return Effect(max(rows, 1), inserts_only=False, uncounted=rows == 0)

    @property
    def is_append(self) -> bool:
        """Whether it added files and did nothing else, so that its rows in the feed are theirs."""
        mode = self.parameters.get("mode") or self.parameters.get("outputMode")
        if self.operation == "WRITE" and mode is None:
            return bool(self.is_blind_append)
        return self.operation in ("WRITE", "STREAMING UPDATE") and mode == "Append"

    @property
    def replaces_all(self) -> bool:
        """Whether it puts other rows, and maybe other columns, in place of the whole table."""
        overwrites = self.parameters.get("mode") == "Overwrite"
        conditions = ("predicate", "replaceOnCond", "replaceUsingCols")
        return (
            "REPLACE TABLE" in self.operation
            or self.operation in ("RESTORE", "CLONE")
            or (overwrites and not any(map(self.parameters.get, conditions)))
        )

    def layout(self, before: Hashable, known: Mapping[int, Hashable]) -> Hashable:
        """Return what stands for partition columns and column mapping from this commit on.

        `before` is theirs before it, and `known` those of earlier versions. Two are equal only if
        columns and mapping are. What no commit says is the commit's own version, equal to none.
        """
        if self.operation == "RESTORE":
            if 0 in known and set(known.values()) == {before}:
                return before  # they never changed
            return known.get(_whole(self.parameters.get("version"), -1), self.version)
        properties = as_mapping(self.parameters.get("properties"))
        if self.operation == "SET TBLPROPERTIES" and _MAPPING in properties:
            return self.version
        if self.is_known and not self.replaces_all and not self.operation.startswith("CREATE"):
            return before
        if self.operation == "WRITE":
            return self._layout_of_write(before)
        names = self.parameters.get("partitionBy")
        if not self.is_known or names is None:
            return self.version
        mapping = str(properties.get(_MAPPING, "none")).lower()
        return tuple(name.lower() for name in as_names(names)), mapping

    def _layout_of_write(self, before: Hashable) -> Hashable:
        """Return the layout after an overwrite: it may change the partition columns alone."""
        keeps = self.parameters.get("canOverwriteSchema")
        if keeps == "false":
            return before
        names = as_names(self.parameters.get("partitionBy"))
        columns = tuple(name.lower() for name in names)
        if not isinstance(before, tuple):
            return self.version
        # engines that do not say more leave them out of an overwrite that keeps the partitions
        is_told = bool(columns) or keeps is not None or before[0] == columns
        return (columns, before[1]) if is_told else self.version

    @property
    def is_operation(self) -> bool:
        """Whether an operation of this project made it on purpose: repair, maintenance, erasure."""
        return {"operation", "id", "reason"} <= as_mapping(self.user_metadata).keys()

    @property
    def is_without_effect(self) -> bool:
        """Whether the table has the rows and columns, and permits the same, as before."""
        return self.operation in _WITHOUT_EFFECT

    @property
    def vacuumed_before(self) -> int:
        """The moment up to which a VACUUM deleted files that were no longer part of the table.

        Delta for Spark follows 0 alone of what RETAIN says, other engines follow all of it.
        """
        retention = _whole(self.parameters.get("defaultRetentionMillis"), _WEEK)
        specified = _whole(self.parameters.get("specifiedRetentionMillis"), retention)
        if specified == 0 or not self.engine.startswith(_SPARK):
            retention = min(retention, specified)
        return self.at - retention

    @property
    def removes_files(self) -> bool:
        """Whether files may have left the table, which a later VACUUM then deletes."""
        if self.operation == "MERGE":  # writes rows of a file again that it leaves as they are
            return self._metric("numTargetFilesRemoved", 1) > 0
        return self.operation in _REWRITES or not self.effect.inserts_only

    @property
    def drops_deletion_vectors(self) -> bool:
        """Whether what the feed says of earlier deletions and updates is wrong from now on.

        Without the feature Delta takes files whose rows were marked as deleted for whole ones.
        """
        feature = self.parameters.get("featureName")
        return self.operation == "DROP FEATURE" and feature == "deletionVectors"

    @property
    def doubtful_images(self) -> str | None:
        """Why the rows that the feed says were there need not be those that were, or None."""
        rewrites = self.operation in _REWRITES
        if self.engine.startswith(_WITH_WHOLE_IMAGES):
            return None
        if not rewrites and (self.effect.rows == 0 or self.effect.inserts_only):
            return None
        return (
            f"was changed by {self.engine or 'an engine that does not say its name'} "
            f"({self.operation or 'no operation'} at version {self.version}), whose change images "
            "need not be the rows that were there"
        )

    @property
    def has_milliseconds(self) -> bool:
        """Whether only timestamps are in doubt."""
        return self.engine.lower().startswith(_WITH_MILLISECONDS)

    @property
    def turns_feed_off(self) -> bool:
        """Whether the table has no change feed from this commit on."""
        properties = as_mapping(self.parameters.get("properties"))
        if self.operation == "SET TBLPROPERTIES":
            return str(properties.get(_FEED, "true")).lower() != "true"
        if self.operation == "UNSET TBLPROPERTIES":
            return _FEED in str(self.parameters)
        if " TABLE AS SELECT" in self.operation or "REPLACE TABLE" in self.operation:
            return str(properties.get(_FEED, "false")).lower() != "true"
        return False

    def is_same(self, noted: Mapping[str, int]) -> bool:
        """Whether it is the commit that was noted as `version` and `at`.

        Delta tells commits of one moment apart by a millisecond each, as far back as it was asked.
        """
        return self.version == noted["version"] and abs(self.at - noted["at"]) < 100

    @property
    def is_known(self) -> bool:
        """Whether its operation is one whose effect on columns is known."""
        operation = self.operation
        return operation in _WITHOUT_ROWS | _WITH_ROWS or operation.endswith("TABLE AS SELECT")

    @property
    def tells_properties(self) -> bool:
        """Whether it says which properties it sets, if it sets any; Trino's do not."""
        return self.operation != "SET TBLPROPERTIES" or "properties" in self.parameters

    def _effect(self, metric: str, inserts_only: bool) -> Effect:
        uncounted = metric not in self.metrics
        return Effect(self._metric(metric, 1), inserts_only, uncounted)

    def _metric(self, name: str, default: int) -> int:
        return _whole(self.metrics.get(name), default)


@dataclass(frozen=True)
class Range:
    """What a table went through after version `after` up to version `to`.

    `rows` that changed, an upper bound; `commits` that changed rows, and `changed_by`, the one that
    did where it is one; `replaced`: the versions that replaced the whole table; `uncounted`: the
    feed has to be asked, how many rows changed and whether it has them; `doubt`: why its timestamps
    need not be right; `gap`: why the feed cannot tell the range; both None where there is no
    reason; `repartitioned`: a gap unless the feed turns out to have no rows; `needs_history`: older
    commits may tell more of the layout; `grouping`: how its rows are grouped, None where
    Spark can compare all of their columns; `texts`: the columns in which the feed may have U+FFFD
    for bytes that are not UTF-8; `at_hand`: SQL of a relation with the rows of the feed that reads
    no feed, or None.
    """

    source: str
    after: int
    to: int
    rows: int = 0
    commits: int = 0
    changed_by: Commit | None = None
    inserts_only: bool = True
    columns_added: bool = False
    columns_altered: bool = False
    replaced: tuple[int, ...] = ()
    uncounted: bool = False
    doubt: str | None = None
    gap: str | None = None
    repartitioned: str | None = None
    needs_history: bool = False
    grouping: Grouping | None = None
    texts: tuple[str, ...] = ()
    at_hand: str | None = None

    @property
    def versions(self) -> int:
        """How many versions the range has."""
        return self.to - self.after

    @property
    def needs_columns(self) -> bool:
        """Whether the columns of `replaced` and of both ends decide if there is a gap."""
        decides = self.columns_altered or bool(self.replaced) or self.doubt is not None
        return self.gap is None and decides

    def with_columns(self, columns: Mapping[int, str]) -> Range:
        """The range once the columns are known: types of structs, by version.

        Those in between count as well: of columns that were added and dropped the feed cannot be
        read.
        """
        if self.doubt is not None and has_timestamps(columns):
            return self.with_gap(self.doubt)
        if len(set(columns.values())) <= 1:
            return self
        if self.replaced:
            return self.with_gap(f"{self.source} was replaced by a table of other columns")
        if self.columns_altered:
            return self.with_gap(f"{self.source} changed the types or the order of its columns")
        return self

    @property
    def needs_grouping(self) -> bool:
        """Whether images are summed over equal rows: where some may cancel out."""
        return self.gap is None and self.commits > 1 and not self.inserts_only

    def with_grouping(self, grouping: Grouping | None) -> Range:
        """The range once it is known how its rows are grouped."""
        return replace(self, grouping=grouping)

    def with_texts(self, texts: Iterable[str]) -> Range:
        """The range once its columns of text are known, or known to be UTF-8 throughout."""
        return replace(self, texts=tuple(texts))

    def with_rows_at_hand(self, relation: str) -> Range:
        """The range once a run before has handed its rows on, or this one has stored them."""
        return replace(self, at_hand=relation)

    def with_rows(self, rows: int) -> Range:
        """The range once its rows are counted."""
        counted = replace(self, rows=rows, uncounted=False)
        return counted.with_gap(self.repartitioned) if rows and self.repartitioned else counted

    def with_other_layout(self, reason: str) -> Range:
        """Return the range of a table whose layout changed: a gap if it has rows."""
        return replace(self, repartitioned=reason) if self.uncounted else self.with_gap(reason)

    def with_gap(self, gap: str) -> Range:
        """The range with the reason why it cannot be read; the first reason stays."""
        return self if self.gap is not None else replace(self, gap=gap)


def commits_of(rows: Iterable[Any]) -> list[Commit]:
    """Rows of `describe history` as commits, in their order."""
    return [commit_of(row) for row in rows]


def commit_of(row: Any) -> Commit:
    """A row of `describe history`, by the names of its columns."""
    blind = row["isBlindAppend"]
    return Commit(
        version=int(row["version"]),
        at=milliseconds(row["timestamp"]),
        operation=row["operation"] or "",
        parameters=as_mapping(row["operationParameters"]),
        metrics=as_mapping(row["operationMetrics"]),
        engine=row["engineInfo"] or row["clusterId"] or "",
        user_metadata=row["userMetadata"],
        is_blind_append=None if blind is None else str(blind).lower() == "true",
    )


def vacuumed_before(commits: Iterable[Commit]) -> int | None:
    """Up to when files were vacuumed, by commits newest first; None where none were.

    What failed, or was killed and has no end, does not count.
    """
    found: list[int] = []
    is_complete = False
    for commit in commits:
        if commit.operation == "VACUUM END":
            is_complete = commit.parameters.get("status") == "COMPLETED"
        elif commit.operation == "VACUUM START":
            found += [commit.vacuumed_before] if is_complete else []
            is_complete = False
    return max(found, default=None)


def retains(commits: Iterable[Commit], version: int) -> bool:
    """Whether all files of a version are there still, as far as later commits tell.

    A VACUUM that was interrupted may have deleted some of what it would.
    """
    return not _files_lost([commit for commit in commits if commit.version > version])


def commit_of_log(version: int, at: int, info: Mapping[str, Any]) -> Commit:
    """A line `commitInfo` of Delta's log as a commit, made at a moment in milliseconds."""
    return Commit(
        version=version,
        at=at,
        operation=str(info.get("operation") or ""),
        parameters={k: _text(v) for k, v in as_mapping(info.get("operationParameters")).items()},
        metrics={k: _text(v) for k, v in as_mapping(info.get("operationMetrics")).items()},
        engine=str(info.get("engineInfo") or info.get("clusterId") or ""),
        user_metadata=info.get("userMetadata"),
        is_blind_append=info.get("isBlindAppend"),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def range_of(source: str, applied: Mapping[str, int], to: int, commits: Sequence[Commit]) -> Range:
    """What `source` went through after the commit `applied` up to version `to`.

    `commits` are newest first, from the newest of the table, and reach back to that commit where
    its history still has it.
    """
    result = _told(source, applied, to, commits)
    known = layouts(commits)
    used = {known[v] for v in range(result.after, to + 1) if v in known}
    if result.rows == 0 or result.gap is not None or used <= {known[commits[0].version]}:
        return result
    return replace(
        result.with_other_layout(f"{source} was partitioned by other columns, or mapped otherwise"),
        needs_history=commits[-1].version > 0,
    )


def layouts(commits: Sequence[Commit]) -> dict[int, Hashable]:
    """Return by version what stands for partition columns and mapping, of commits newest first.

    Delta's feed reads all files with the newest of both, those of older versions too.
    """
    known: dict[int, Hashable] = {}
    layout: Hashable = None  # before the oldest commit
    for commit in reversed(commits):
        layout = known[commit.version] = commit.layout(layout, known)
    return known


def _told(source: str, applied: Mapping[str, int], to: int, commits: Sequence[Commit]) -> Range:
    """Return the range without a look at partition columns."""
    after = applied["version"]
    result = Range(source, after, to)
    span = f"{source} from version {after} to {to}"
    if after > to:
        return result.with_gap(
            f"{source} is at version {to}, behind the {after} that was read last: "
            "it was restored elsewhere or recreated"
        )
    # what was done since the version was pinned removes files and changes the feed as well
    since = [commit for commit in commits if commit.version > after]
    dropped = _deletion_vectors_dropped(since)
    horizon, lost = _vacuum_horizon(since), _files_lost(since)
    found = False
    for commit in commits:
        if commit.version == after:
            found = True
            if not commit.is_same(applied):
                result = result.with_gap(
                    f"{source} is another table than the one that was read last: "
                    f"its version {after} has another date"
                )
        elif after < commit.version <= to:
            if commit.version < dropped and not commit.effect.inserts_only:
                result = result.with_gap(
                    f"the change feed of {source} is wrong before version {dropped}, "
                    "which dropped its deletion vectors"
                )
            is_there = commit.is_append and commit.version > lost
            is_vacuumed = commit.at < horizon and not is_there
            result = _with_commit(result, commit, span, is_vacuumed)
    return result if found else result.with_gap(f"the history of {span} is no longer retained")


def _with_commit(result: Range, commit: Commit, span: str, is_vacuumed: bool) -> Range:
    effect = commit.effect
    if effect.rows > 0:
        result = replace(
            result,
            rows=result.rows + effect.rows,
            commits=result.commits + 1,
            changed_by=commit if result.commits == 0 else None,
            inserts_only=result.inserts_only and effect.inserts_only,
            uncounted=result.uncounted or effect.uncounted,
        )
        if commit.replaces_all:
            result = replace(result, replaced=(*result.replaced, commit.version))
        if is_vacuumed:
            result = result.with_gap(
                f"the change files of {result.source} at version {commit.version} were vacuumed"
            )
    if commit.doubtful_images:
        doubt = f"{result.source} {commit.doubtful_images}"
        if commit.has_milliseconds:
            result = replace(result, doubt=result.doubt or doubt)
        else:
            result = result.with_gap(doubt)
    if not commit.tells_properties:
        result = replace(result, uncounted=True)
    if not commit.is_known:
        result = replace(result, columns_added=True, columns_altered=True)
    elif commit.operation in _ADD_COLUMNS:
        result = replace(result, columns_added=True)
    elif commit.operation in _ALTER_COLUMNS:
        result = replace(result, columns_altered=True)
    elif commit.operation in _MOVE_COLUMNS:
        result = result.with_gap(
            f"{span} changed its columns ({commit.operation} at version {commit.version})"
        )
    if commit.turns_feed_off:
        result = result.with_gap(
            f"{span} was without its change data feed (version {commit.version})"
        )
    return result


def replacements(commits: Sequence[Commit], to: int) -> list[int]:
    """The versions up to `to` that replaced the whole table, without the oldest commit."""
    return [
        commit.version for commit in commits[:-1] if commit.version <= to and commit.replaces_all
    ]


def first_known(
    source: str, to: int, commits: Sequence[Commit], columns: Mapping[int, str]
) -> Commit:
    """The oldest commit from which on the feed can tell everything up to version `to`.

    `commits` is the whole history, newest first; `columns` are the types of structs of version
    `to`, and of each of `replacements` and the version before it.
    """
    horizon = _vacuum_horizon(commits)
    dropped = _deletion_vectors_dropped(commits)
    known_layouts = layouts(commits)
    replaced = set(replacements(commits, to))
    known = [commit for commit in commits if commit.version <= to]
    first = known[0]
    for older in known[1:]:
        starts = first.operation == "SET TBLPROPERTIES" and _FEED in str(first.parameters)
        noted = {"version": older.version, "at": older.at}
        step = _told(source, noted, first.version, [first, older])
        if (
            starts
            or known_layouts[older.version] != known_layouts[commits[0].version]
            or older.at < horizon
            or (first.version < dropped and not first.effect.inserts_only)
            or (first.version in replaced and _loses_columns(columns, first.version))
            or step.gap
            or (step.doubt and has_timestamps(columns))
        ):
            return first
        first = older
    return first


def first_readable(versions: Sequence[int], is_readable: Callable[[int], bool]) -> int:
    """The least of `versions`, in their order, from which on the feed can be read.

    `is_readable` is asked as seldom as possible, first of the least and never of the greatest,
    after which there is nothing to read; what can be read from one version on can be from later.
    """
    if len(versions) == 1 or is_readable(versions[0]):
        return versions[0]
    lost, read = 0, len(versions) - 1
    while read - lost > 1:
        middle = (lost + read) // 2
        if is_readable(versions[middle]):
            read = middle
        else:
            lost = middle
    return versions[read]


def has_timestamps(columns: Mapping[int, str]) -> bool:
    """Whether types of structs have a timestamp; a column of that name counts as well."""
    return any("timestamp" in types for types in columns.values())


def _vacuum_horizon(commits: Sequence[Commit]) -> int:
    """The moment up to which a VACUUM among the commits may have deleted files."""
    return max((c.vacuumed_before for c in commits if c.operation == "VACUUM START"), default=0)


def _files_lost(commits: Sequence[Commit]) -> int:
    """The newest version whose removed files a VACUUM may have deleted; 0 where there is none.

    Files that older versions added may be among them.
    """
    horizon = _vacuum_horizon(commits)
    return max((c.version for c in commits if c.removes_files and c.at < horizon), default=0)


def _deletion_vectors_dropped(commits: Sequence[Commit]) -> int:
    return max((commit.version for commit in commits if commit.drops_deletion_vectors), default=0)


def _loses_columns(columns: Mapping[int, str], version: int) -> bool:
    """Whether a replacement took columns away: those before are not the first of those after."""
    return not f"{columns[version][:-1]},".startswith(f"{columns[version - 1][:-1]},")


def as_mapping(value: Any) -> dict[str, Any]:
    """A map, or JSON of one, as Spark gives it; empty where there is none."""
    if isinstance(value, Mapping):
        return dict(value)
    if not isinstance(value, str):
        return {}
    try:
        parsed = json.loads(value)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def as_names(value: Any) -> tuple[str, ...]:
    """A list of names as Spark gives it: a list, or its text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = ()
    return tuple(value or ())


def milliseconds(value: datetime | str) -> int:
    """A moment in milliseconds since 1970; as text it is UTC."""
    moment = value
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _whole(value: Any, default: int) -> int:
    """A number that may be text, or missing in one way or another."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return default
