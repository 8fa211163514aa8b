"""The planning of a run: its decision and the reason. It changes nothing.

This module gathers the facts, the cheap ones first. headwaters.runs.decisions decides, and its
first decision counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from headwaters.analysis import added_columns, columns_digest
from headwaters.runs import change_set_cache
from headwaters.runs import decisions as deciding
from headwaters.runs.change_of_sql import change_since
from headwaters.runs.inputs import inputs_of, is_pinned
from headwaters.runs.layout import noted_detail
from headwaters.runs.model import Model, names_in, partitions_among
from headwaters.runs.plan import Plan
from headwaters.runs.ranges import read_range
from headwaters.runs.reactions import fail_on_gap, rebuilds_on_foreign_write
from headwaters.runs.recovery import described
from headwaters.runs.sizes import has_large_followers, limit_of, noted_size, with_size
from headwaters.runs.state import (
    AppliedVersions,
    TableState,
    built_by,
    read_applied_versions,
    read_state,
    table_detail,
)
from headwaters.runs.strategies import strategy_for
from headwaters.runs.strategies.base import Lost
from headwaters.runs.work import Work
from headwaters.tables.commits import as_names

Weigh = Callable[[Model, Plan], Plan]


def cheaper_way(model: Model, plan: Plan) -> Plan:
    """Decide by the share of changed rows: apply the changes, or replace the table."""
    above = model.settings.replace_above
    if deciding.is_small_change(plan.rows):
        return plan.decided(deciding.of_share(plan.rows, None, above))
    work = Work(model, plan, _no_hidden_tables)
    share = strategy_for(model).share_changed(work)
    if isinstance(share, Lost):
        fail_on_gap(model, share.gap)
        return work.plan.replacing(share.gap)
    weighed = None if share is None else vars(share)
    return work.plan.decided(deciding.of_share(plan.rows, weighed, above))


def _no_hidden_tables(model: Model) -> int | None:
    raise AssertionError("a plan runs no hidden table")


def make_plan(
    model: Model,
    exists: bool,
    full_refresh: bool = False,
    state: TableState | None = None,
    weigh: Weigh = cheaper_way,
) -> Plan:
    """Return the plan of the next run.

    `state` has the table's properties, if they were already read. `weigh` makes the last decision,
    which may need statements.

    Raises:
        UserError: an input has a gap, or another writer changed rows, and the model forbids a
            rebuild.
    """
    session, config = model.session, model.config
    inputs = inputs_of(model.sql)
    for spec in inputs:
        if spec["kind"] == "affected" and spec.get("key"):
            spec["stored"] = partitions_among(list(spec["key"]), config)
            spec["read"] = deciding.columns_read(spec["source"], inputs)
    plan = Plan(inputs, proof=state.properties.get("headwaters.proof") if state else None)
    decision = deciding.of_request(
        exists=exists,
        is_empty=session.is_empty,
        is_sample=not is_pinned(inputs),
        full_refresh=full_refresh,
    )
    if decision:
        return plan.decided(decision)
    state = state or read_state(session.connection, model.target)
    known = read_applied_versions(model, state)
    detail = noted_detail(state.properties, known.commits) or table_detail(
        session.connection, model.target
    )
    proof = state.properties.get("headwaters.proof")
    plan = replace(plan, holds=state.inputs, detail=detail, proof=proof)
    after = built_by(session, model.sql, config)
    change = change_since(model, state, known)
    decision = deciding.of_state(
        inputs=state.inputs,
        built_by=after if change.is_same or change.patch else change.built_by,
        would_be_built_by=after,
        why_not=change.why_not,
        partitions=as_names(detail["partitionColumns"]),
        clustering=as_names(detail["clusteringColumns"]),
        partition_by=names_in(config, "partition_by"),
    )
    if decision:
        return plan.decided(decision)
    plan = replace(
        plan, same_sql=not change.patch, patch=change.patch, is_patched=change.is_patched
    )
    plan = _plan_of_inputs(model, state, known, plan, weigh)
    if plan.patch and plan.choice != "replace":
        return replace(plan, reason=f"patch: {plan.patch.text}; then {plan.choice}: {plan.reason}")
    return replace(plan, patch=None)


def _plan_of_inputs(
    model: Model, state: TableState, known: AppliedVersions, plan: Plan, weigh: Weigh
) -> Plan:
    """Return the plan of a table that this model built."""
    applied = known.applied
    plan = replace(plan, holds=applied.inputs)
    if applied.inputs is None:
        return plan.replacing("the table does not say which run wrote it")
    foreign = applied.foreign or _alteration(model, known)
    plan = replace(
        plan,
        interrupted=applied.interrupted,
        foreign=foreign,
        seen=known.seen,
        commits=len(known.commits),
        size=noted_size(state, known.commits),
    )
    if foreign and rebuilds_on_foreign_write(model, foreign):
        return plan.replacing(f"the table was changed by {foreign}, which is no run of its model")
    limit = limit_of(model, plan)
    is_small = plan.size is not None and plan.size.is_below(limit)
    plan, obstacle = _with_ranges(model, plan, is_small)
    if plan.size:
        changes = (*plan.ranges.values(), *plan.lookups.values())
        plan = replace(plan, size=plan.size.after(changes))
    if obstacle:
        replaced = plan.replacing(obstacle.reason, obstacle.remedy)
        return _or_compared(model, replaced) if obstacle.is_of_rows else replaced
    plan = replace(plan, rows=sum(one.rows for one in plan.ranges.values()))
    plan, added = _with_columns(model, state, plan)
    if added and (plan.patch or not _keeps_meaning(model, plan, added)):
        return replace(
            plan.replacing(f"an input has a new column or type, {added[0]}"), same_sql=False
        )
    decision = deciding.of_changes(plan.rows)
    if decision:
        return plan.decided(decision)
    if limit > plan.rows:
        plan = with_size(model, plan)
        decision = _whole(model, plan, limit)
        if decision:
            return plan.decided(decision)
    if is_small:
        plan, obstacle = _with_ranges(model, replace(plan, ranges={}, lookups={}))
        if obstacle:
            return plan.replacing(obstacle.reason, obstacle.remedy)
    return _or_compared(model, weigh(model, plan))


def _alteration(model: Model, known: AppliedVersions) -> str | None:
    """Describe the commit that changed the table's columns after its last run, or return None."""
    if not known.applied.altered:
        return None
    newest, oldest = known.applied.altered[0], known.applied.altered[-1]
    before, now = (
        columns_digest(model.session.columns_at(str(model.target), one))
        for one in ({"version": oldest.version - 1, "at": 0}, known.seen)
    )
    return described(newest) if before != now else None


def _whole(model: Model, plan: Plan, limit: int) -> deciding.Decision | None:
    """Return the decision to compute a small table in full, or None."""
    decision = deciding.of_size(plan.size, limit) if plan.size else None
    if decision is None:
        return None
    if model.settings.whole_below is None:
        # importing the parser takes an eighth of a second
        from headwaters.analysis import pairs_all_rows

        if pairs_all_rows(model.sql):
            return None
    return None if has_large_followers(model) else decision


def _or_compared(model: Model, plan: Plan) -> Plan:
    """Return the plan with a comparison instead of a replacement, if it costs less."""
    is_open = plan.choice == "replace" and plan.same_sql and not plan.patch
    if not is_open or model.is_hidden or not _may_compare(model):
        return plan
    if not change_set_cache.followers(model.unique_id, model.session.graph):
        return plan
    plan = with_size(model, plan)
    limit = limit_of(model, plan)
    if plan.size and plan.size.is_below(limit) and not has_large_followers(model):
        return plan
    decision = deciding.Decision("replace", plan.reason, remedy=plan.remedy)
    return plan.decided(deciding.instead_of_replacing(decision, plan.size))


def _may_compare(model: Model) -> bool:
    """Return true if the run may compare the table with the whole result of its SQL.

    Runs a statement for a table of SQL that is not analysed, which may have types that Spark cannot
    compare exactly.
    """
    strategy = model.strategy.name
    if not deciding.may_compare(strategy, model.settings, model.has_expectations):
        return False
    if strategy != "replace":
        return True
    from headwaters.analysis import are_exact

    return are_exact([one.dtype for one in model.session.connection.columns_of(model.target)])


@dataclass(frozen=True)
class Obstacle:
    """The reason that changes cannot be applied, and a way to avoid it.

    `is_of_rows`: the columns of the inputs are the same.
    """

    reason: str
    remedy: str = ""
    is_of_rows: bool = False


def _with_ranges(model: Model, plan: Plan, is_small: bool = False) -> tuple[Plan, Obstacle | None]:
    """Return the plan with the changes of each input since its applied version.

    Also return the reason that the changes cannot be applied, or None. A run of a small table
    only counts the changes: it reads all rows.
    """
    session, config = model.session, model.config
    follows_lookups = model.settings.on_lookup_change != "ignore"
    ranges, lookups = dict(plan.ranges), dict(plan.lookups)
    plan = replace(plan, ranges=ranges, lookups=lookups)
    assert plan.holds is not None
    for spec in plan.inputs:
        source, is_lookup = spec["source"], spec["kind"] == "lookup"
        known = lookups if is_lookup else ranges
        held = plan.holds.get(source)
        if not held:
            return plan, Obstacle(f"{source} is a new input")
        if source in known or (held["version"] == spec["version"] and held["at"] == spec["at"]):
            continue
        changes = read_range(session, spec, held, counts_only=is_small)
        if spec["kind"] not in ("lookup", "images") and not is_small:
            change_set = session.change_sets.find(changes, model.unique_id)
            if change_set:
                rows = str(session.macros("hw_cached_change_set_sql", change_set))
                changes = changes.with_rows_at_hand(rows)
        known[source] = changes
        if changes.gap:
            plan = replace(plan, same_sql=False)
        if is_lookup and follows_lookups and (changes.rows > 0 or changes.gap):
            why = (config.get("derivation") or {}).get("reason")
            unfollowed = f", which is not followed: {why}" if why else ""
            remedy = (
                "Write the query in a way that can be followed"
                if why
                else "on_lookup_change: ignore keeps the values of older rows"
            )
            reason = f"lookup {source} changed{unfollowed}"
            return plan, Obstacle(reason, remedy, is_of_rows=not changes.gap)
        if not is_lookup and changes.gap:
            fail_on_gap(model, changes.gap)
            return plan, Obstacle(changes.gap)
    return plan, None


def _with_columns(model: Model, state: TableState, plan: Plan) -> tuple[Plan, list[str]]:
    """Return the plan with a digest of each input's columns.

    Also return the columns that are new, or have a new type, since the applied versions. Even a
    write may add columns, without a trace in its commit.
    """
    digests = json.loads(state.properties.get("headwaters.columns") or "{}")
    added: list[str] = []
    assert plan.holds is not None
    for spec in plan.inputs:
        if not spec.get("columns"):
            continue
        digest, source = columns_digest(spec["columns"]), spec["source"]
        if digests.get(source) != digest:
            before = model.session.columns_at(source, plan.holds[source])
            added += added_columns(before, spec["columns"])
            digests[source] = digest
    return replace(plan, columns=digests), added


def _keeps_meaning(model: Model, plan: Plan, added: list[str]) -> bool:
    """Return true if the model gives the same result although its inputs have more columns."""
    from headwaters.analysis import keeps_meaning

    if not keeps_meaning(model.sql, plan.inputs, added):
        return False
    given = strategy_for(model).columns_of_full_refresh(model.sql)
    held = model.session.connection.columns_of(model.target)
    return [one.name.lower() for one in given] == [one.name.lower() for one in held]
