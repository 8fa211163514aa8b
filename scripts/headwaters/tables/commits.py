"""The effects of a Delta table's commits on a reader of its change feed.

Pure functions over rows of `describe history`. An unknown operation counts as a change of rows. The
reader of the feed finds problems that no commit mentions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from headwaters.platform.delta_version import (
    DELETION_VECTORS,
    ENGINE_WITH_MILLISECONDS,
    ENGINES_WITH_WHOLE_IMAGES,
    FEED,
    MAPPING,
    OPERATIONS_ADDING_COLUMNS,
    OPERATIONS_ALTERING_COLUMNS,
    OPERATIONS_MOVING_COLUMNS,
    OPERATIONS_WITH_ROWS,
    OPERATIONS_WITHOUT_EFFECT,
    OPERATIONS_WITHOUT_ROWS,
    REWRITING_OPERATIONS,
    SPARK_ENGINE,
)
from headwaters.tables.grouping import Grouping

_WEEK = 604_800_000


@dataclass(frozen=True)
class Effect:
    """The effect of a commit on rows; `rows` is an upper bound of the changed ones.

    With `inserts_only`, the commit deleted and updated nothing. With `uncounted`, it has no row
    count.
    """

    rows: int
    inserts_only: bool
    uncounted: bool = False


@dataclass(frozen=True)
class Commit:
    """A row of `describe history`: `at` in milliseconds since 1970, metrics and parameters as text.

    `operation` and `engine` are empty if the commit does not name them.
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
        """Return the effect of the commit on the rows of its table."""
        if self.operation in OPERATIONS_WITHOUT_ROWS:
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
        # output of INSERT … REPLACE includes the rows that it copies into rewritten files
        written = self._metric("numOutputRows", 0) - self._metric("numCopiedRows", 0)
        rows = written + self._metric("numDeletedRows", 0)
        return Effect(max(rows, 1), inserts_only=False, uncounted=rows == 0)

    @property
    def is_append(self) -> bool:
        """Return true if the commit only added files: the feed then has just their rows."""
        mode = self.parameters.get("mode") or self.parameters.get("outputMode")
        if self.operation == "WRITE" and mode is None:
            return bool(self.is_blind_append)
        return self.operation in ("WRITE", "STREAMING UPDATE") and mode == "Append"

    @property
    def replaces_all(self) -> bool:
        """Return true if the commit replaced all rows, and possibly the columns."""
        overwrites = self.parameters.get("mode") == "Overwrite"
        conditions = ("predicate", "replaceOnCond", "replaceUsingCols")
        return (
            "REPLACE TABLE" in self.operation
            or self.operation in ("RESTORE", "CLONE")
            or (overwrites and not any(map(self.parameters.get, conditions)))
        )

    def layout(self, before: Hashable, known: Mapping[int, Hashable]) -> Hashable:
        """Return a token for the partition columns and the column mapping after this commit.

        `before` is the token before the commit, and `known` has those of earlier versions. Two
        tokens are equal only if columns and mapping are. If no commit has this information, the
        token is the commit's version, which equals no other.
        """
        if self.operation == "RESTORE":
            if 0 in known and set(known.values()) == {before}:
                return before  # the layout never changed
            return known.get(_whole(self.parameters.get("version"), -1), self.version)
        properties = as_mapping(self.parameters.get("properties"))
        if self.maps_columns:
            return self.version
        if self.is_known and not self.replaces_all and not self.operation.startswith("CREATE"):
            return before
        if self.operation == "WRITE":
            return self._layout_of_write(before)
        names = self.parameters.get("partitionBy")
        if not self.is_known or names is None:
            return self.version
        mapping = str(properties.get(MAPPING, "none")).lower()
        return tuple(name.lower() for name in as_names(names)), mapping

    def _layout_of_write(self, before: Hashable) -> Hashable:
        """Return the layout after an overwrite, which may only change the partition columns."""
        keeps = self.parameters.get("canOverwriteSchema")
        if keeps == "false":
            return before
        names = as_names(self.parameters.get("partitionBy"))
        columns = tuple(name.lower() for name in names)
        if not isinstance(before, tuple):
            return self.version
        # other engines omit partition columns from an overwrite that keeps them
        is_told = bool(columns) or keeps is not None or before[0] == columns
        return (columns, before[1]) if is_told else self.version

    @property
    def maps_columns(self) -> bool:
        """Return true if the commit only maps names of columns to others, or to none."""
        properties = as_mapping(self.parameters.get("properties"))
        is_mapped = self.operation == "SET TBLPROPERTIES" and MAPPING in properties
        return is_mapped or self.operation in OPERATIONS_MOVING_COLUMNS

    @property
    def is_operation(self) -> bool:
        """Return true for a commit of this project's operations: repair, maintenance, erasure."""
        return {"operation", "id", "reason"} <= as_mapping(self.user_metadata).keys()

    @property
    def may_change_columns(self) -> bool:
        """Return true if the commit may have added, moved or retyped a column of the table.

        Delta records no more of a comment or NOT NULL than of a new type.
        """
        return self.operation in OPERATIONS_ADDING_COLUMNS | OPERATIONS_ALTERING_COLUMNS

    @property
    def is_without_effect(self) -> bool:
        """Return true if the table has the same rows and columns and permits the same as before."""
        return self.operation in OPERATIONS_WITHOUT_EFFECT

    @property
    def vacuumed_before(self) -> int:
        """Return the time before which a VACUUM deleted files that had left the table.

        Delta for Spark ignores the duration in RETAIN unless it is 0; other engines apply it.
        """
        retention = _whole(self.parameters.get("defaultRetentionMillis"), _WEEK)
        specified = _whole(self.parameters.get("specifiedRetentionMillis"), retention)
        if specified == 0 or not self.engine.startswith(SPARK_ENGINE):
            retention = min(retention, specified)
        return self.at - retention

    @property
    def removes_files(self) -> bool:
        """Return true if files may have left the table, so that a later VACUUM deletes them."""
        if self.operation == "MERGE":  # rewrites a file for its unchanged rows
            return self._metric("numTargetFilesRemoved", 1) > 0
        return self.operation in REWRITING_OPERATIONS or not self.effect.inserts_only

    @property
    def drops_deletion_vectors(self) -> bool:
        """Return true if the feed is wrong about earlier deletions and updates from now on.

        Without the feature, Delta treats files with rows marked as deleted as complete.
        """
        feature = self.parameters.get("featureName")
        return self.operation == "DROP FEATURE" and feature == DELETION_VECTORS

    @property
    def doubtful_images(self) -> str | None:
        """Return why pre-images in the feed may differ from the actual rows, or None."""
        rewrites = self.operation in REWRITING_OPERATIONS
        if self.engine.startswith(ENGINES_WITH_WHOLE_IMAGES):
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
        """Return true if only timestamps are in doubt."""
        return self.engine.lower().startswith(ENGINE_WITH_MILLISECONDS)

    @property
    def turns_feed_off(self) -> bool:
        """Return true if the table has no change feed from this commit on."""
        properties = as_mapping(self.parameters.get("properties"))
        if self.operation == "SET TBLPROPERTIES":
            return str(properties.get(FEED, "true")).lower() != "true"
        if self.operation == "UNSET TBLPROPERTIES":
            return FEED in str(self.parameters)
        if " TABLE AS SELECT" in self.operation or "REPLACE TABLE" in self.operation:
            return str(properties.get(FEED, "false")).lower() != "true"
        return False

    def is_same(self, noted: Mapping[str, int]) -> bool:
        """Return true for the commit that was noted with `version` and `at`.

        Delta separates commits of the same moment by a millisecond each, depending on how much of
        the history it reads. A small tolerance accepts that.
        """
        return self.version == noted["version"] and abs(self.at - noted["at"]) < 100

    @property
    def is_known(self) -> bool:
        """Return true if the effect of the operation on columns is known."""
        operation = self.operation
        known = OPERATIONS_WITHOUT_ROWS | OPERATIONS_WITH_ROWS
        return operation in known or operation.endswith("TABLE AS SELECT")

    @property
    def tells_properties(self) -> bool:
        """Return true if the commit lists the properties that it sets; Trino does not list them."""
        return self.operation != "SET TBLPROPERTIES" or "properties" in self.parameters

    def _effect(self, metric: str, inserts_only: bool) -> Effect:
        uncounted = metric not in self.metrics
        return Effect(self._metric(metric, 1), inserts_only, uncounted)

    def _metric(self, name: str, default: int) -> int:
        return _whole(self.metrics.get(name), default)


@dataclass(frozen=True)
class Range:
    """The history of a table after version `after` up to version `to`.

    - `rows`: an upper bound of the changed rows.
    - `commits`: the number of commits that changed rows; `changed_by` is the only one, or None.
    - `replaced`: the versions that replaced the whole table.
    - `uncounted`: only the feed knows the number of changed rows, and if it has them.
    - `doubt`: why its timestamps may be wrong, or None.
    - `gap`: why the feed cannot describe the range, or None.
    - `repartitioned`: a reason for a gap, unless the feed turns out to have no rows.
    - `needs_history`: older commits may explain the layout.
    - `grouping`: the grouping of its rows; None if Spark can compare all of their columns.
    - `texts`: the columns whose bytes may be replaced by U+FFFD in the feed if they are not UTF-8.
    - `at_hand`: SQL of a relation that has the rows without reading the feed, or None.
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
        """Return the number of versions in the range."""
        return self.to - self.after

    @property
    def needs_columns(self) -> bool:
        """Return true if the columns of `replaced` and of both ends decide on a gap."""
        decides = self.columns_altered or bool(self.replaced) or self.doubt is not None
        return self.gap is None and decides

    def with_columns(self, columns: Mapping[int, str]) -> Range:
        """Return the range with known columns: types of structs, by version.

        Versions in between count as well, because the feed cannot be read across columns that were
        added and dropped.
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
        """Return true if images must be summed over equal rows, because some may cancel out."""
        return self.gap is None and self.commits > 1 and not self.inserts_only

    def with_grouping(self, grouping: Grouping | None) -> Range:
        """Return the range with a known grouping of its rows."""
        return replace(self, grouping=grouping)

    def with_texts(self, texts: Iterable[str]) -> Range:
        """Return the range with its text columns; none if all texts are known to be UTF-8."""
        return replace(self, texts=tuple(texts))

    def with_rows_at_hand(self, relation: str) -> Range:
        """Return the range with rows that an earlier run handed on or this run has stored."""
        return replace(self, at_hand=relation)

    def with_rows(self, rows: int) -> Range:
        """Return the range with counted rows."""
        counted = replace(self, rows=rows, uncounted=False)
        return counted.with_gap(self.repartitioned) if rows and self.repartitioned else counted

    def with_other_layout(self, reason: str) -> Range:
        """Return the range of a table whose layout changed: a gap if it has rows."""
        return replace(self, repartitioned=reason) if self.uncounted else self.with_gap(reason)

    def with_gap(self, gap: str) -> Range:
        """Return the range with the reason why it cannot be read; an earlier reason stays."""
        return self if self.gap is not None else replace(self, gap=gap)


def commits_of(rows: Iterable[Any]) -> list[Commit]:
    """Return rows of `describe history` as commits, in their order."""
    return [commit_of(row) for row in rows]


def commit_of(row: Any) -> Commit:
    """Return the commit of a row of `describe history`."""
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
    """Return the time before which files were vacuumed, by commits newest first, or None.

    A VACUUM that failed, or has no end because it was killed, does not count.
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


def vacuumed_before_in(vacuums: str) -> int | None:
    """Return the time before which VACUUM has removed files, or None.

    `vacuums` has commits as JSON, oldest first: each with its version, `at`, and `commitInfo` as
    text.
    """
    return vacuumed_before(
        commit_of_log(one["version"], one["at"], json.loads(one["info"]))
        for one in reversed(json.loads(vacuums))
    )


def retains(commits: Iterable[Commit], version: int) -> bool:
    """Return true if all files of a version still exist, as far as later commits show.

    An interrupted VACUUM may have deleted some of its files.
    """
    return not _files_lost([commit for commit in commits if commit.version > version])


def commit_of_log(version: int, at: int, info: Mapping[str, Any]) -> Commit:
    """Return the commit of a line `commitInfo` of Delta's log, at a time in milliseconds."""
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


def _text(value: Any) -> Any:
    """Return a value as Spark's map of texts has it."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


def range_of(source: str, applied: Mapping[str, int], to: int, commits: Sequence[Commit]) -> Range:
    """Return the history of `source` after the commit `applied` up to version `to`.

    `commits` are newest first, beginning with the newest of the table. They reach back to `applied`
    if the history still has it.
    """
    result = _told(source, applied, to, commits)
    known = layouts(commits)
    used = {known[v] for v in range(result.after, to + 1) if v in known}
    if result.rows == 0 or result.gap is not None or used <= {known[commits[0].version]}:
        return result
    reason = f"{source} was partitioned by other columns, or mapped otherwise"
    # a column that was dropped and added again has its values again, without a row in the feed
    returns = any(
        commit.operation in ("RESTORE", "CLONE") and result.after < commit.version <= to
        for commit in commits
    )
    doubted = result.with_gap(reason) if returns else result.with_other_layout(reason)
    return replace(doubted, needs_history=commits[-1].version > 0)


def layouts(commits: Sequence[Commit]) -> dict[int, Hashable]:
    """Return tokens for partition columns and mapping by version, of commits newest first.

    Delta's feed reads all files with the newest layout, including those of older versions.
    """
    known: dict[int, Hashable] = {}
    layout: Hashable = None  # of the version before the oldest commit
    for commit in reversed(commits):
        layout = known[commit.version] = commit.layout(layout, known)
    return known


def partitionings(commits: Sequence[Commit]) -> dict[int, Hashable]:
    """Return tokens for the partition columns alone by version, of commits newest first.

    A stream follows the names of columns and their mapping by its own log of schemas.
    """
    partitioning = [commit for commit in commits if not commit.maps_columns]
    known = layouts(partitioning).items()
    return {version: one[0] if isinstance(one, tuple) else one for version, one in known}


def _told(source: str, applied: Mapping[str, int], to: int, commits: Sequence[Commit]) -> Range:
    """Return the range without checking the layout."""
    after = applied["version"]
    result = Range(source, after, to)
    span = f"{source} from version {after} to {to}"
    if after > to:
        return result.with_gap(
            f"{source} is at version {to}, behind the {after} that was read last: "
            "it was restored elsewhere or recreated"
        )
    # commits after the pinned version also remove files and affect the feed
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
    elif commit.operation in OPERATIONS_ADDING_COLUMNS:
        result = replace(result, columns_added=True)
    elif commit.operation in OPERATIONS_ALTERING_COLUMNS:
        result = replace(result, columns_altered=True)
    elif commit.operation in OPERATIONS_MOVING_COLUMNS:
        result = result.with_gap(
            f"{span} changed its columns ({commit.operation} at version {commit.version})"
        )
    if commit.turns_feed_off:
        result = result.with_gap(
            f"{span} was without its change data feed (version {commit.version})"
        )
    return result


def replacements(commits: Sequence[Commit], to: int) -> list[int]:
    """Return the versions up to `to` that replaced the whole table, except the oldest commit."""
    return [
        commit.version for commit in commits[:-1] if commit.version <= to and commit.replaces_all
    ]


def first_known(
    source: str, to: int, commits: Sequence[Commit], columns: Mapping[int, str]
) -> Commit:
    """Return the oldest commit after which the feed is complete up to version `to`.

    `commits` is the whole history, newest first. `columns` are the types of structs of version
    `to`, of each version in `replacements`, and of the version before each.
    """
    lost = _files_lost(commits)
    dropped = _deletion_vectors_dropped(commits)
    known_layouts = layouts(commits)
    replaced = set(replacements(commits, to))
    known = [commit for commit in commits if commit.version <= to]
    first = known[0]
    for older in known[1:]:
        starts = first.operation == "SET TBLPROPERTIES" and FEED in str(first.parameters)
        noted = {"version": older.version, "at": older.at}
        step = _told(source, noted, first.version, [first, older])
        if (
            starts
            or known_layouts[older.version] != known_layouts[commits[0].version]
            or older.version < lost
            or (first.version < dropped and not first.effect.inserts_only)
            or (first.version in replaced and _loses_columns(columns, first.version))
            or step.gap
            or (step.doubt and has_timestamps(columns))
        ):
            return first
        first = older
    return first


def first_readable(versions: Sequence[int], is_readable: Callable[[int], bool]) -> int:
    """Return the least of the sorted `versions` that the feed can be read from.

    A feed that can be read from one version can be read from all later ones. `is_readable` is
    expensive: it is first called for the least version, and never for the greatest, which no
    version follows.
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
    """Return true if types of structs have a timestamp; a column of that name counts as well."""
    return any("timestamp" in types for types in columns.values())


def _vacuum_horizon(commits: Sequence[Commit]) -> int:
    """Return the time before which a VACUUM among the commits may have deleted files."""
    return max((c.vacuumed_before for c in commits if c.operation == "VACUUM START"), default=0)


def _files_lost(commits: Sequence[Commit]) -> int:
    """Return the newest version whose removed files a VACUUM may have deleted, or 0.

    These may include files that older versions added.
    """
    horizon = _vacuum_horizon(commits)
    return max((c.version for c in commits if c.removes_files and c.at < horizon), default=0)


def _deletion_vectors_dropped(commits: Sequence[Commit]) -> int:
    return max((commit.version for commit in commits if commit.drops_deletion_vectors), default=0)


def _loses_columns(columns: Mapping[int, str], version: int) -> bool:
    """Return true unless a replacement kept the columns before it as its first ones."""
    return not f"{columns[version][:-1]},".startswith(f"{columns[version - 1][:-1]},")


# Operations that change no row of a seed's table.
_KEEP_ROWS = (
    "OPTIMIZE",
    "VACUUM START",
    "VACUUM END",
    "SET TBLPROPERTIES",
    "UNSET TBLPROPERTIES",
    "CHANGE COLUMN",
    "CHANGE COLUMNS",
)
_LOADS = ("CREATE TABLE AS SELECT", "CREATE OR REPLACE TABLE AS SELECT")


def is_of_seed(properties: object, checksum: str) -> bool:
    """Return true if a table with these properties was loaded from a seed of this checksum."""
    return bool(as_mapping(properties).get("headwaters.seed.checksum") == checksum)


def was_loaded_last(operations: Iterable[str]) -> bool:
    """Return true if only a seed wrote the rows of a table; its operations are newest first."""
    return next((one for one in operations if one not in _KEEP_ROWS), None) in _LOADS


def as_mapping(value: Any) -> dict[str, Any]:
    """Return a map, or JSON of one, from Spark as a dict; empty without one."""
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
    """Return a list of names from Spark, which may be text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = ()
    return tuple(value or ())


def milliseconds(value: datetime | str) -> int:
    """Return a moment in milliseconds since 1970; text is UTC."""
    moment = value
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _whole(value: Any, default: int) -> int:
    """Return a number that may be text, or the default if it is missing."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return default
