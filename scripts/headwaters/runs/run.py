"""Run one incremental model: plan, stage, inspect, write, advance.

The order of the steps and every error branch are here. SQL comes from macros, which are templates;
decisions come from pure functions. The materialization calls `run` and reports its outcome. Tests
pass a connection that fails at the n-th statement, for every n, without Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from jinja2.filters import do_filesizeformat

from headwaters.platform.errors import UserError
from headwaters.runs.change_set_cache import CachedChangeSet
from headwaters.runs.comparing import compared, message_of, size_after
from headwaters.runs.inputs import versions_of
from headwaters.runs.model import Model
from headwaters.runs.patching import patch_table
from headwaters.runs.plan import Facts, Plan
from headwaters.runs.planning import make_plan
from headwaters.runs.proving import require_proof
from headwaters.runs.reactions import fail_on_gap, permit_replacement
from headwaters.runs.recovery import version_of_run
from headwaters.runs.replacing import replace_table
from headwaters.runs.staging import ChangeSet, NotStaged, stage_change_set
from headwaters.runs.state import (
    TableState,
    commits_since_plan,
    drop_interrupted,
    proof_of,
    read_state,
    set_applied_versions,
)
from headwaters.runs.strategies import strategy_for
from headwaters.runs.work import Work, drop_staging_table
from headwaters.runs.writing import Written, write


@dataclass(frozen=True)
class Outcome:
    """The result of a run, for dbt's line and `run_results.json`.

    `choice`: skip, append, merge, compare, patch or replace. `replaced`: the run replaced the whole
    table.
    """

    choice: str
    message: str
    counts: Mapping[str, float] = field(default_factory=dict)
    replaced: bool = False


NO_CHANGES = Outcome("skip", "no changes", {"rows_affected": 0})


def run(model: Model, full_refresh: bool, state: TableState | None, digest: str | None) -> Outcome:
    """Bring the model's table up to date.

    `state` has the table's properties, if they were already read. `digest` identifies the inputs of
    the plan other than tables. Without one, the run notes no unchanged tables.

    Raises:
        UserError: the run may not write. Reasons are repeated keys, a lost race, and a gap or rows
            of another writer if the model forbids a rebuild. The table is unchanged.
        Unproven: the SQL does not prove that its strategy maintains it. The table is unchanged.
    """
    plan = make_plan(model, model.exists, full_refresh, state)
    model = require_proof(model, plan)
    if plan.choice != "replace" and not plan.patch and plan.detail:
        reconcile(model, plan)
    return carry_out(model, plan, digest)


def carry_out(model: Model, plan: Plan, digest: str | None = None) -> Outcome:
    """Carry a plan out."""
    if plan.patch:
        return _patch(model, plan)
    if plan.choice == "skip":
        return _skip(model, plan, digest)
    if plan.choice == "replace":
        return _replace(model, plan)
    if plan.compares:
        permit_replacement(model, plan)
    began = model.session.seconds()
    work = Work(compared(model) if plan.compares else model, plan, _bring_hidden_table)
    change_set = stage_change_set(work)
    if isinstance(change_set, NotStaged):
        work.drop_stored()
        if change_set.is_gap:
            fail_on_gap(model, change_set.reason)
        return _replace(model, plan.replacing(change_set.reason))
    audit = _audit(work, change_set)
    written = _write(work, change_set)
    work.drop_stored()
    if written.refused:
        drop_staging_table(work.connection, change_set.stage)
        return _replace(model, plan.replacing(written.refused))
    seconds = model.session.seconds() - began
    work.learn(size=size_after(plan, change_set.look))
    set_applied_versions(model, work.plan, proof_of(model, plan.inputs))
    _hand_on_or_drop(work.model, change_set)
    return _outcome(change_set, written, plan, audit, seconds)


def _write(work: Work, change_set: ChangeSet) -> Written:
    """Write the change set, unless another writer changed the table since the plan."""
    since = commits_since_plan(work.model, work.plan)
    if since.refused:
        return Written(since.refused)
    check_target = work.model.strategy.computes_old_rows
    stage, look, columns = change_set.stage, change_set.look, change_set.columns
    return write(work.model, stage, look, columns, since.engine, check_target)


def _patch(model: Model, plan: Plan) -> Outcome:
    """Convert the table to the model's SQL, and then carry out the remaining work.

    A new plan of the patched table finds that work. The table is reconciled in between, so only the
    new rows meet the new checks.
    """
    model.session.macros("hw_drop_other_checks", model.target, plan.detail)
    patched = patch_table(model, plan)
    if patched.refused:
        return _replace(model, plan.replacing(patched.refused))
    left = make_plan(model, exists=True)
    if left.choice != "replace" and left.detail:
        reconcile(model, left)
    outcome = carry_out(model, left)
    counts = Counter(patched.counts)
    counts.update(outcome.counts)
    choice = "replace" if outcome.choice == "replace" else "patch"
    message = f"{patched.message}; then {outcome.message}"
    return Outcome(choice, message, counts, outcome.replaced or patched.replaced)


def _skip(model: Model, plan: Plan, digest: str | None) -> Outcome:
    """Do nothing, or advance past commits that changed no rows, so that no run reads them again."""
    versions = sum(one.versions for one in (*plan.ranges.values(), *plan.lookups.values()))
    if plan.interrupted or versions > 10 or plan.commits > 20:
        drop_interrupted(model, plan)
        set_applied_versions(model, plan)
    elif digest and plan.seen and not plan.foreign and _is_of_tables(model):
        at = {**versions_of(plan.inputs), str(model.target): plan.seen}
        model.session.note_unchanged(model.unique_id, digest, at)
    return NO_CHANGES


def _is_of_tables(model: Model) -> bool:
    """Return true if commits show all changes; they do not for views and hidden tables."""
    return not model.config.get("stages") and "/* view " not in model.code


def _replace(model: Model, plan: Plan) -> Outcome:
    """Replace the whole table.

    Raises:
        UserError: `refresh` is `strict`, and it was not requested. The table is unchanged.
    """
    permit_replacement(model, plan)
    began = model.session.seconds()
    done = replace_table(model, plan)
    counts = {
        "rows_affected": done.rows,
        "bytes_written": done.bytes,
        "seconds": round(model.session.seconds() - began, 1),
    }
    size = do_filesizeformat(done.bytes)
    message = f"replace: {done.rows} rows, {size}, {plan.reason}{done.audit}"
    return Outcome("replace", message, counts, replaced=True)


def _bring_hidden_table(part: Model) -> int | None:
    """Run a hidden table like a model.

    Return the version with the result of its SQL over the inputs at the versions of the plan.
    """
    connection = part.session.connection
    state = read_state(connection, part.target) if part.existing is not None else None
    if state and "stage_of" not in (state.properties.get("headwaters.proof") or ""):
        raise UserError(
            "HW_HIDDEN_TABLE",
            f"{part.config['derivation']['stage_of']} keeps a part of its query in {part.target}, "
            "and there is a table of that name which is not its own. Rename or drop that one.",
        )
    plan = make_plan(part, part.existing is not None, state=state)
    carry_out(part, plan)
    commits = connection.history(part.target, 20)
    return version_of_run(commits, part.session.run_id, plan.seen)


def _audit(work: Work, change_set: ChangeSet) -> str:
    """Evaluate the expectations on the staged rows. Return their part of the run's message.

    The rows that expectations drop are computed again, without keys and sums that come from rows.
    """
    model, facts = work.model, work.plan.facts
    if not model.has_expectations:
        return ""
    unfiltered = Work(model, work.plan, work.bring)
    if facts.of_rows:
        facts = Facts()
        unfiltered.learn(facts=facts)
    rows = strategy_for(model).change_set_sql(
        unfiltered, model.unfiltered_sql, change_set.columns, facts.bounds
    )
    others = [name for name in model.beside_names if name != "_operation"]
    if others:
        rows = f"select * except ({', '.join(others)}) from (\n{rows}\n)"
    arguments = (model.target, change_set.stage, rows, model.config)
    return str(model.session.macros("hw_audit_staged", *arguments))


def _hand_on_or_drop(model: Model, change_set: ChangeSet) -> None:
    """Hand the staging table on to later models, or drop it."""
    look, stage = change_set.look, change_set.stage
    served = model.served if look.rows > look.inserted else []
    if not served:
        drop_staging_table(model.session.connection, stage)
        return
    beside = tuple(model.beside_names)
    cached = CachedChangeSet(model.session.run_id, str(stage), beside)
    model.session.change_sets.keep(str(model.target), cached, served)


def _outcome(
    change_set: ChangeSet, written: Written, plan: Plan, audit: str, seconds: float
) -> Outcome:
    look, input_rows = change_set.look, plan.rows
    choice = "skip" if look.rows == 0 else "append" if look.rows == look.inserted else "merge"
    merged = f", by MERGE ({written.why_merge})" if written.why_merge else ""
    done = (
        f"{choice}: {look.inserted} inserted, {look.updated} updated, {look.deleted} deleted, "
        f"{do_filesizeformat(look.bytes)} staged{merged}"
    )
    what = "no changes" if look.rows == 0 else done
    counts = {
        "rows_affected": look.rows,
        "rows_inserted": look.inserted,
        "rows_updated": look.updated,
        "rows_deleted": look.deleted,
        "input_rows": input_rows,
        "bytes_written": look.bytes,
        "seconds": round(seconds, 1),
    }
    if plan.compares:
        return Outcome("compare", f"compare: {message_of(plan, look)}", counts)
    return Outcome(choice, f"{what}, of {input_rows} changed input rows{audit}", counts)


def reconcile(model: Model, plan: Plan) -> None:
    """Reconcile the table with its declaration, before the run writes to it."""
    model.session.macros("hw_reconcile_table", model.target, plan.detail)
