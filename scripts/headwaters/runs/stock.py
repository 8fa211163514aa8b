"""The decisions of dbt's own incremental strategies about writing a batch to its table.

They are pure. macros/incremental/stock_strategies.sql calls them before it writes, and has the SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from headwaters import analysis
from headwaters.analysis import tokens
from headwaters.platform.delta_version import (
    DEFAULT,
    FILLING_FEATURES,
    GENERATED,
    IDENTITY,
    MAPPING,
)
from headwaters.platform.names import or_nearest
from headwaters.platform.nodes import Config, Node, as_tuple, setting
from headwaters.platform.problems import Problem
from headwaters.platform.sql import ended
from headwaters.runs.stored_types import is_wider, loss, same_type
from headwaters.tables.commits import as_mapping, as_names
from headwaters.tables.setting_types import is_empty
from headwaters.tables.stock_settings import StockSettings, stock_settings

# The literal of a batch's bound for each possible type of an event time. dbt's bounds are in UTC.
_BOUNDS = {
    "timestamp": "timestamp'%Y-%m-%d %H:%M:%S.%f+00:00'",
    "timestamp_ntz": "timestamp_ntz'%Y-%m-%d %H:%M:%S.%f'",
    "date": "date'%Y-%m-%d'",
}


@dataclass(frozen=True)
class StockColumn:
    """A column of a table or of a query, and its type."""

    name: str
    type: str

    @property
    def key(self) -> str:
        """Return the name as Spark compares it."""
        return self.name.lower()


@dataclass(frozen=True)
class StockTable:
    """The table that receives a batch.

    `filled`: the columns that Delta computes if a statement omits them; None if unknown.
    """

    columns: Sequence[StockColumn]
    partitioned_by: Sequence[str] = ()
    clustered_by: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    filled: frozenset[str] | None = frozenset()


@dataclass(frozen=True)
class Period:
    """The period of a microbatch: `start <= column < end`.

    `outside`: the problem of a row beyond the period; the value of its column completes the text.
    """

    column: str
    start: str
    end: str
    outside: Problem


@dataclass(frozen=True)
class Merge:
    """The parts of a MERGE. A condition that is None is true."""

    target: str
    source: str
    keys: Sequence[str]
    predicates: Sequence[str]
    deletes: str | None
    updates: Sequence[str]
    update_condition: str | None
    inserts: Sequence[str]
    insert_conditions: Sequence[str]
    by_source_action: str | None
    by_source_condition: str | None


@dataclass(frozen=True)
class StockWrite:
    """A decision about the write of a batch, or the `problem` that forbids it.

    - `columns`: the statement names them; if it `evolves`, it adds those that the table lacks
    - `casts`: types of columns that it casts, because Delta does not both cast and add columns
    - `dropped`, `widened`: earlier changes of the table's columns
    - `overwrites`: the mode of an overwrite
    - `partitions`: the table's partition columns, if the statement compares them
    """

    problem: Problem | None = None
    columns: Sequence[str] = ()
    evolves: bool = False
    casts: Mapping[str, str] = field(default_factory=dict)
    dropped: Sequence[str] = ()
    widened: Sequence[StockColumn] = ()
    period: Period | None = None
    overwrites: str | None = None
    merge: Merge | None = None
    partitions: Sequence[str] = ()


class _Refused(Exception):
    """A refusal of a write, with a code and a text."""


def columns_of(rows: Iterable[Sequence[Any]]) -> list[StockColumn]:
    """Return the columns of a query from the rows of DESCRIBE QUERY."""
    return [StockColumn(str(row[0]), str(row[1])) for row in rows]


def table_of(
    columns: Iterable[Any], detail: Mapping[str, Any], fields: Iterable[Mapping[str, Any]] | None
) -> StockTable:
    """Return a table from dbt's columns, its row of DESCRIBE DETAIL and its log's schema."""
    filled = None if fields is None else frozenset(_filled(fields))
    return StockTable(
        columns=[StockColumn(column.name, column.dtype) for column in columns],
        partitioned_by=as_names(detail["partitionColumns"]),
        clustered_by=as_names(detail["clusteringColumns"]),
        properties={name: str(value) for name, value in as_mapping(detail["properties"]).items()},
        filled=filled,
    )


def may_fill(detail: Mapping[str, Any]) -> bool:
    """Return true if Delta may fill columns of a table, by its row of DESCRIBE DETAIL."""
    return not FILLING_FEATURES.isdisjoint(as_names(detail["tableFeatures"]))


def _filled(fields: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for one in fields:
        if not set((IDENTITY, GENERATED, DEFAULT)).isdisjoint(one.get("metadata") or {}):
            yield str(one["name"]).lower()


def write_of(
    node: Node, batch: Sequence[StockColumn], table: StockTable | None, flags: Any = None
) -> StockWrite:
    """Decide the write of a batch with these columns; `table` is None if the run creates it.

    `flags` are those of the invocation.
    """
    config = node["config"]
    strategy = config.get("incremental_strategy") or "append"
    try:
        settings = stock_settings(config)
        period = _period(node, batch) if strategy == "microbatch" else None
        if table is None:
            if strategy == "merge":
                _check_names(settings, [column.key for column in batch])
            return StockWrite(period=period)
        if strategy == "merge":
            _check_part(settings, flags)
        changes = _columns(settings, strategy, batch, table)
        merge = _merge(settings, changes, batch) if strategy == "merge" else None
        overwrites = _overwrite(config, table) if strategy == "insert_overwrite" else None
        given = {column.key for column in batch}
        partitions = [name for name in table.partitioned_by if merge and name.lower() in given]
    except _Refused as refused:
        code, text = refused.args
        return StockWrite(problem=Problem(code, f"{_place(node, strategy)} {text}"))
    return replace(
        changes, period=period, overwrites=overwrites, merge=merge, partitions=partitions
    )


def begins_refresh(node: Node, flags: Any) -> bool:
    """Return true unless a batch of a full refresh follows batches that the table has.

    `dbt retry` runs the failed batches alone, and dbt gives the first of them as the start.
    """
    if not node.get("batch"):
        return True
    first = node["config"].get("begin")
    if sample := getattr(flags, "SAMPLE", None):
        first = sample.start
    elif given := getattr(flags, "EVENT_TIME_START", None):
        first = given
    return first is None or _moment(node["batch"]["event_time_start"]) <= _moment(first)


def partial_option(flags: Any) -> str | None:
    """Return the option of an invocation that leaves out rows of inputs, without its dashes."""
    return next((name for name in ("empty", "sample") if getattr(flags, name.upper(), None)), None)


def without_end(sql: str) -> str:
    """Return a query without trailing semicolons and comments, for use as a subquery."""
    kept = list(tokens(sql))
    while kept and (kept[-1].kind in ("blank", "comment") or kept[-1].word == ";"):
        kept.pop()
    return "".join(token.text for token in kept)


def with_kept_partitions(sql: str, config: Config) -> str:
    """Return the query of a table, which fails at a partition value that Delta cannot keep."""
    partition_by = config.get("partition_by") if config.get("file_format") == "delta" else None
    return analysis.with_kept_partitions(without_end(sql), partition_by) if partition_by else sql


def _columns(
    settings: StockSettings, strategy: str, batch: Sequence[StockColumn], table: StockTable
) -> StockWrite:
    """Return the columns that the statement names, and the necessary changes before it."""
    mode = settings.on_schema_change
    there = {column.key: column for column in table.columns}
    given = {column.key for column in batch}
    new = [column for column in batch if column.key not in there]
    # Delta fills a column that the statement omits
    missing = [
        column
        for column in table.columns
        if column.key not in given and (table.filled is not None and column.key not in table.filled)
    ]
    retyped = [
        column
        for column in batch
        if column.key in there and not same_type(column.type, there[column.key].type)
    ]
    if mode == "fail" and (new or missing or retyped):
        raise _Refused("HW_COLUMNS_DIFFER", _difference(new, missing, retyped, there))
    evolves = strategy == "merge" and settings.merge_with_schema_evolution
    if mode == "ignore" and missing and not evolves:
        raise _Refused(
            "HW_COLUMNS_DIFFER",
            f"does not select {_listed(missing)}, which its table has, and on_schema_change is "
            "ignore. Select it, set on_schema_change: append_new_columns, which keeps the column "
            "and leaves it NULL in new rows, or run it with --full-refresh.",
        )
    adds = evolves or mode in ("append_new_columns", "sync_all_columns")
    names = [there[column.key].name for column in batch if column.key in there]
    write = StockWrite(
        columns=[*names, *(column.name for column in new if adds)], evolves=bool(adds and new)
    )
    if mode != "sync_all_columns":
        if write.evolves:
            return replace(write, casts=_casts(retyped, there))
        _check_values(retyped, there)
        return write
    _check_drops(missing, table)
    _check_retyped(retyped, there, table)
    return replace(
        write,
        dropped=[column.name for column in missing],
        widened=[StockColumn(there[column.key].name, column.type) for column in retyped],
    )


def _casts(retyped: Sequence[StockColumn], there: Mapping[str, StockColumn]) -> dict[str, str]:
    """Return the casts to types of the table. Refuse one that loses data."""
    casts = {}
    for column in retyped:
        held = there[column.key]
        if not is_wider(column.type, held.type):
            raise _Refused(
                "HW_COLUMNS_DIFFER",
                f"gives {column.name} as {column.type}, and its table has {held.type}: Delta adds "
                f"no columns in a statement that casts others. Cast the column to {held.type}, or "
                "run it with --full-refresh.",
            )
        casts[held.name] = held.type
    return casts


def _check_values(retyped: Sequence[StockColumn], there: Mapping[str, StockColumn]) -> None:
    """Refuse a column whose values Spark would store in part, or in other fields."""
    for column in retyped:
        held = there[column.key]
        if lost := loss(column.type, held.type):
            raise _Refused(
                "HW_COLUMNS_DIFFER",
                f"gives {column.name} as {column.type}, and its table has {held.type}, {lost}. "
                f"Select it as {held.type}, or run the model with --full-refresh.",
            )


def _check_drops(missing: Sequence[StockColumn], table: StockTable) -> None:
    fixed = {name.lower() for name in (*table.partitioned_by, *table.clustered_by)}
    for column in missing:
        if column.key in fixed:
            raise _Refused(
                "HW_COLUMNS_DIFFER",
                f"does not select {column.name}, by which its table is laid out, so "
                "on_schema_change: sync_all_columns cannot drop it. Run it with --full-refresh.",
            )
    if missing and table.properties.get(MAPPING, "none") == "none":
        raise _Refused(
            "HW_COLUMNS_DIFFER",
            f"does not select {_listed(missing)}, and Delta drops columns only from a table with "
            "column mapping, which this one does not have. Run it with --full-refresh, keep the "
            "column with on_schema_change: append_new_columns, or declare "
            "delta.columnMapping.mode: name in tblproperties.",
        )


def _check_retyped(
    retyped: Sequence[StockColumn], there: Mapping[str, StockColumn], table: StockTable
) -> None:
    widens = str(table.properties.get("delta.enableTypeWidening", "")).lower() == "true"
    for column in retyped:
        before = there[column.key].type
        change = f"gives {column.name} as {column.type}, and its table has {before}"
        if not is_wider(before, column.type):
            raise _Refused(
                "HW_COLUMNS_DIFFER",
                f"{change}: Delta does not change this type in place. Cast the column to {before}, "
                "or run it with --full-refresh.",
            )
        if not widens:
            raise _Refused(
                "HW_COLUMNS_DIFFER",
                f"{change}: Delta widens a type only in a table with the property "
                "delta.enableTypeWidening. Declare it in tblproperties, cast the column to "
                f"{before}, or run it with --full-refresh.",
            )


def _difference(
    new: Sequence[StockColumn],
    missing: Sequence[StockColumn],
    retyped: Sequence[StockColumn],
    there: Mapping[str, StockColumn],
) -> str:
    types = [f"{one.name} is {one.type} and was {there[one.key].type}" for one in retyped]
    parts = [
        f"new are {_listed(new)}" if new else "",
        f"missing are {_listed(missing)}" if missing else "",
        *types,
    ]
    return (
        "gives other columns than its table has, and on_schema_change is fail: "
        f"{'; '.join(filter(None, parts))}. Correct its SQL, set on_schema_change: "
        "append_new_columns or sync_all_columns, or run it with --full-refresh."
    )


def _merge(settings: StockSettings, write: StockWrite, batch: Sequence[StockColumn]) -> Merge:
    names = {name.lower(): name for name in write.columns}
    _check_names(settings, list(names))
    updates = list(write.columns)
    if settings.merge_update_columns:
        updates = [names[name.lower()] for name in settings.merge_update_columns]
    excluded = {name.lower() for name in settings.merge_exclude_columns}
    inserted = [settings.not_matched_condition] if settings.not_matched_condition else []
    deleted = settings.delete_condition
    if deleted and not re.search(rf"(?i)\b{settings.target_alias}\b", deleted):
        inserted.append(f"not coalesce({ended(deleted)}, false)")
    return Merge(
        target=settings.target_alias,
        source=settings.source_alias,
        keys=list(dict.fromkeys(names[name.lower()] for name in settings.unique_key)),
        predicates=settings.incremental_predicates,
        deletes=deleted,
        updates=[]
        if settings.skip_matched_step
        else [n for n in updates if n.lower() not in excluded],
        update_condition=settings.matched_condition,
        inserts=[] if settings.skip_not_matched_step else write.columns,
        insert_conditions=inserted,
        by_source_action=settings.not_matched_by_source_action,
        by_source_condition=settings.not_matched_by_source_condition,
    )


def _check_part(settings: StockSettings, flags: Any) -> None:
    """Refuse a batch without a part of its rows, if the merge changes rows that the batch lacks."""
    option = partial_option(flags)
    if settings.not_matched_by_source_action and option:
        raise _Refused(
            "HW_SNAPSHOT_PART",
            f"has not_matched_by_source_action, and --{option} leaves out rows of its input: the "
            f"table would lose theirs. Exclude the model, or run it without --{option}.",
        )


def _check_names(settings: StockSettings, columns: Sequence[str]) -> None:
    for setting_name in ("unique_key", "merge_update_columns", "merge_exclude_columns"):
        for name in getattr(settings, setting_name):
            if name.lower() not in columns:
                raise _Refused(
                    "HW_NO_SUCH_COLUMN",
                    f"has {setting_name}: {name}, and no such column{or_nearest(name, columns)}.",
                )


def _overwrite(config: Config, table: StockTable) -> str:
    """Return `dynamic`, which replaces the partitions of the batch, or `static`, the table."""
    declared = setting(config, "partition_by")
    names = () if is_empty(declared) else as_tuple(declared)
    declared_names = [name.strip("`") for name in names]
    if [n.lower() for n in declared_names] != [n.lower() for n in table.partitioned_by]:
        raise _Refused(
            "HW_PARTITIONS_DIFFER",
            f"has partition_by: {', '.join(declared_names) or 'nothing'}, and its table is "
            f"partitioned by {', '.join(table.partitioned_by) or 'nothing'}: the batch would "
            "replace other rows than the declared partitions. Run it with --full-refresh.",
        )
    return "dynamic" if names else "static"


def _period(node: Node, batch: Sequence[StockColumn]) -> Period:
    name = _unquoted(str(node["config"].get("event_time") or ""))
    column = next((column for column in batch if column.key == name.lower()), None)
    if column is None:
        near = or_nearest(name, [column.name for column in batch])
        raise _Refused(
            "HW_NO_EVENT_TIME",
            f"has event_time: {name}, and no such column{near}. A batch replaces the rows of its "
            "period by this column: select it, or name the column that the model selects.",
        )
    if column.type not in _BOUNDS:
        raise _Refused(
            "HW_NO_EVENT_TIME",
            f"has event_time: {name}, which is of type {column.type}. It must be a timestamp, a "
            "timestamp_ntz or a date: cast it.",
        )
    written = _BOUNDS[column.type]
    bounds = node["batch"]
    start = _moment(bounds["event_time_start"]).strftime(written)
    end = _moment(bounds["event_time_end"]).strftime(written)
    text = (
        f"{_place(node, 'microbatch')} gives a row outside of its batch, {start} <= {column.name} "
        f"< {end}. Declare event_time of each input that has events, or filter by {column.name} in "
        f"the SQL. The row's {column.name}: "
    )
    return Period(column.name, start, end, Problem("HW_OUTSIDE_BATCH", text))


def _place(node: Node, strategy: str) -> str:
    return f"{node['name']} ({node['original_file_path']}, incremental_strategy: {strategy})"


def _moment(value: datetime | str) -> datetime:
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _unquoted(name: str) -> str:
    return name.strip().strip("`")


def _listed(columns: Sequence[StockColumn]) -> str:
    return ", ".join(column.name for column in columns)
