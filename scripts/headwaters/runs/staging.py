"""The staging of a change set and its inspection: counts, and the places of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from headwaters.runs import bounds as bounding
from headwaters.runs import client_rows as in_memory
from headwaters.runs.checks import refuse_keys_of_lookups
from headwaters.runs.client_rows import ClientRows
from headwaters.runs.decisions import is_small_change
from headwaters.runs.model import Model
from headwaters.runs.session import DbtColumn, DbtRelation, ViewsInMemory
from headwaters.runs.state import note_run
from headwaters.runs.strategies import strategy_for
from headwaters.runs.strategies.base import Look
from headwaters.runs.work import Work, drop_staging_table, staging_table, staging_view


@dataclass(frozen=True)
class ChangeSet:
    """A staged change set; `columns` and `bounds` are those of its query."""

    stage: DbtRelation
    look: Look
    columns: Sequence[DbtColumn]
    bounds: Sequence[Any]


@dataclass(frozen=True)
class NotStaged:
    """The reason that the table must be replaced; `is_gap`: a change feed cannot be read."""

    reason: str
    is_gap: bool = False


def stage_change_set(work: Work) -> ChangeSet | NotStaged:
    """Note the run in the target and stage its changes.

    Raises:
        UserError: the change set may not be written. The table is unchanged.
    """
    model, strategy = work.model, strategy_for(work.model)
    needs_columns = strategy.needs_types or not model.keys
    columns = work.connection.columns_of(model.target) if needs_columns else []
    gap = refuse_keys_of_lookups(model, work.plan.inputs, work)
    facts = None if gap else strategy.facts(work)
    if gap or facts is None or facts.gap:
        return NotStaged(gap or (facts.gap if facts else "") or "", is_gap=True)
    if not facts.same_columns:
        return NotStaged("the columns changed")
    work.learn(facts=facts)
    note_run(model, work.plan, [work.plan.interrupted] if work.plan.interrupted else [])
    stage, bounds = staging_table(model), facts.bounds
    keys = model.row_keys
    is_pruned = strategy.prunes_inserts and strategy.way(work.plan) == "inserts"
    views = work.connection.views
    if views and _may_be_small(work) and not (is_pruned and len(bounds) > len(keys)):
        small = _collect(work, views, columns, bounds)
        if small:
            return small
    gap = work.stage(stage, strategy.change_set_sql(work, model.sql, columns, bounds))
    if gap:
        return NotStaged(gap, is_gap=True)
    if not model.keys:
        return ChangeSet(stage, look_without_key(model, stage), columns, bounds)
    look = look_at(model, stage, bounds if is_pruned else [])
    if look.misplaced:
        # `prune_by` promised that the table has these keys only within the bounds
        bounds = bounds[: len(keys)]
        drop_staging_table(work.connection, stage)
        rows = strategy.change_set_sql(work, model.sql, columns, bounds)
        work.connection.execute(work.macros("hw_create_staging_table_sql", stage, rows))
        look = look_at(model, stage)
    strategy.inspect(stage, look)
    return ChangeSet(stage, look, columns, bounds)


def _may_be_small(work: Work) -> bool:
    """Return true if the run should try to bring its change set to the client."""
    model = work.model
    return (
        strategy_for(model).has_small_change_sets
        and is_small_change(work.plan.rows)
        and not model.has_expectations
    )


def _collect(
    work: Work, views: ViewsInMemory, columns: Sequence[DbtColumn], bounds: Sequence[Any]
) -> ChangeSet | NotStaged | None:
    """Bring the change set to the client, inspect it there, and show it to Spark as a view.

    Return None if it turns out to be large, or if Arrow does not carry its values exactly.
    """
    model, strategy, connection = work.model, strategy_for(work.model), work.connection
    keys = set(model.row_keys)
    sql = strategy.change_set_sql(work, model.sql, columns, bounds)
    reading = work.read(sql, lambda sql: connection.client_rows(sql, keys))
    if reading.gap:
        return NotStaged(reading.gap, is_gap=True)
    rows: ClientRows | None = reading.rows
    if rows is None:
        return None
    target_type = views.type_of_query(f"select * from {model.target}")
    view, look = staging_view(model), look_at_rows(model, rows, target_type)
    views.show(str(view.identifier), rows)
    strategy.inspect(view, look)
    return ChangeSet(view, look, columns, bounds)


# The limit of keys that a condition lists, so that Delta finds their files.
MOST_LISTED = 1000


def look_at(model: Model, stage: DbtRelation, bounds: Sequence[Any] = ()) -> Look:
    """Return the inspection of a change set for the rest of the run.

    `bounds` are those of the comparison of the change set, keys first.
    """
    session, keys, before = model.session, model.row_keys, model.before_names
    misplaced = None
    if len(bounds) > len(keys):
        within = bounding.within_bounds(bounds[: len(keys)], "t")
        beyond = bounding.within_bounds(bounds[len(keys) :], "t")
        misplaced = session.macros(
            "hw_misplaced_keys_sql", model.target, stage, keys, within, beyond
        )
    sql = session.macros(
        "hw_inspection_sql", model.target, stage, keys, before, model.beside_names, misplaced
    )
    row = session.connection.fetch(sql)[0]
    found = bounding.bounds_of(row, [*keys, *before])
    of_keys, of_places = found[: len(keys)], found[len(keys) :]
    if int(row["staged"]) <= MOST_LISTED:
        of_keys = [bounding.with_values(of_keys[0], row["some_keys"]), *of_keys[1:]]
    names = dict(zip(before, model.places, strict=True))
    return Look(
        rows=int(row["staged"]),
        inserted=int(row["inserted"]),
        updated=int(row["updated"]),
        deleted=int(row["deleted"]),
        bytes=int(row["bytes"]),
        stage_type=row["stage_type"],
        target_type=row["target_type"],
        distinct=int(row["distinct_keys"]),
        misplaced=int(row["misplaced"]),
        nulls=[bound.nulls for bound in of_keys],
        within=bounding.within_bounds([*of_keys, *of_places], "_target", names),
        within_keys=bounding.within_bounds(of_keys, "_target"),
    )


def look_at_rows(model: Model, rows: ClientRows, target_type: str) -> Look:
    """Return the inspection of a change set in the client's memory."""
    keys, before = model.row_keys, model.before_names
    inserted, updated, deleted = (
        rows.count(operation) for operation in ("insert", "update", "delete")
    )
    counted = Look(
        rows=inserted + updated + deleted,
        inserted=inserted,
        updated=updated,
        deleted=deleted,
        bytes=rows.bytes,
        stage_type=rows.type_without(model.beside_names),
        target_type=target_type,
        missing=rows.count("missing"),
    )
    if not model.keys:
        return counted
    found = in_memory.bounds_of(rows, [*keys, *before], MOST_LISTED)
    of_keys, of_places = found[: len(keys)], found[len(keys) :]
    names = dict(zip(before, model.places, strict=True))
    return replace(
        counted,
        distinct=in_memory.distinct(rows, keys),
        nulls=[bound.nulls for bound in of_keys],
        within=bounding.within_bounds([*of_keys, *of_places], "_target", names),
        within_keys=bounding.within_bounds(of_keys, "_target"),
    )


def look_without_key(model: Model, stage: DbtRelation) -> Look:
    """Return the inspection of a change set of a table without a unique_key."""
    session = model.session
    sql = session.macros("hw_inspection_without_key_sql", model.target, stage)
    row = session.connection.fetch(sql)[0]
    inserted, deleted = int(row["inserted"]), int(row["deleted"])
    return Look(
        rows=inserted + deleted,
        inserted=inserted,
        updated=0,
        deleted=deleted,
        bytes=int(row["bytes"]),
        stage_type=row["stage_type"],
        target_type=row["target_type"],
        missing=int(row["missing"]),
    )
