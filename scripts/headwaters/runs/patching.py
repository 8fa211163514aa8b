"""Patches: changes of a model's SQL that its table follows without a rebuild.

headwaters.analysis.query_change proves the source of the new table: the table's own rows, and rows
that only the new SQL gives. After the patch, the table has the result of the new SQL at its applied
versions, and the run continues from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dbt_common.exceptions import DbtRuntimeError
from jinja2.filters import do_filesizeformat

from headwaters.platform.delta_version import UNREADABLE_INPUTS
from headwaters.platform.errors import first_line
from headwaters.runs import checks
from headwaters.runs.change_of_sql import patched_rows_sql
from headwaters.runs.inputs import at_versions, versions_of
from headwaters.runs.model import Model
from headwaters.runs.plan import Plan
from headwaters.runs.recovery import signature
from headwaters.runs.replacing import (
    check_contract,
    create_sql,
    properties_of_replacement,
    written_by_replacement,
)
from headwaters.runs.session import Connection, DbtColumn, DbtRelation
from headwaters.runs.staging import look_at, look_without_key
from headwaters.runs.state import (
    built_by,
    commits_since_plan,
    drop_interrupted,
    note_run,
    proof_of,
    set_applied_versions,
    with_held_versions,
)
from headwaters.runs.strategies import strategy_for
from headwaters.runs.strategies.base import Look
from headwaters.runs.work import drop_staging_table, staging_table
from headwaters.runs.writing import write

INPUTS_LOST = "its inputs can no longer be read at the applied versions"


@dataclass(frozen=True)
class Patched:
    """The result of a patch; `refused`: the reason that only a full replacement would be right.

    `replaced`: the patch replaced the table by a query over itself.
    """

    message: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    replaced: bool = False
    refused: str | None = None


def patch_table(model: Model, plan: Plan) -> Patched:
    """Convert the table to the model's SQL, at its applied versions."""
    assert plan.patch is not None
    before = with_held_versions(plan, built_by(model.session, model.sql, model.config))
    inserted = deleted = 0
    if plan.is_patched:
        drop_interrupted(model, plan)
    elif plan.patch.columns:
        return _replace_by_patched(model, before)
    else:
        done = _patch_rows(model, before)
        if isinstance(done, str):
            return Patched(refused=done)
        inserted, deleted = done
    set_applied_versions(model, before, proof_of(model, plan.inputs))
    return Patched(
        f"patch: {plan.patch.text}, {inserted} inserted, {deleted} deleted",
        {
            "rows_affected": inserted + deleted,
            "rows_inserted": inserted,
            "rows_deleted": deleted,
        },
    )


def _replace_by_patched(model: Model, plan: Plan) -> Patched:
    """Replace the table by a query over its own rows, in one commit."""
    patch, seen = plan.patch, plan.seen
    assert patch is not None and seen is not None
    connection = model.session.connection
    columns = connection.columns(model.sql)
    checks.check_columns(model, columns, plan.inputs)
    drop_interrupted(model, plan)
    rows = patched_rows_sql(model, f"{model.target} version as of {seen['version']}", patch)
    if patch.dropped:
        rows = f"{rows}\nunion all\n{_inserted_sql(model, plan, columns)}"
    properties = properties_of_replacement(model, plan, columns)
    check_contract(model, rows)
    refused = _execute_at_versions(connection, create_sql(model, rows, properties, columns))
    if refused:
        return Patched(refused=refused)
    written = written_by_replacement(model)
    size = do_filesizeformat(written.bytes)
    return Patched(
        f"patch: {patch.text}, {written.rows} rows, {size}",
        {"rows_affected": written.rows, "bytes_written": written.bytes},
        replaced=True,
    )


def _inserted_sql(model: Model, plan: Plan, columns: Sequence[DbtColumn]) -> str:
    """Return the rows that only the new SQL gives at the applied versions."""
    assert plan.patch is not None
    sql = at_versions(model.sql, versions_of(plan.inputs))
    rows = strategy_for(model).full_refresh_sql(sql, columns)
    return str(model.session.macros("hw_inserted_by_patch_sql", rows, plan.patch.dropped))


def _patch_rows(model: Model, plan: Plan) -> tuple[int, int] | str:
    """Delete or insert rows, or both, in one commit, which the run notes first.

    Return the counts of inserted and deleted rows, or the reason that only a replacement would be
    right.
    """
    assert plan.patch is not None
    connection, stage = model.session.connection, None
    note_run(model, plan, [plan.interrupted] if plan.interrupted else [])
    if not plan.patch.dropped:
        since = commits_since_plan(model, plan)
        if since.refused:
            return since.refused
        name = connection.columns_of(model.target)[0].name
        signed = signature(model.session.run_id)
        sql = model.session.macros(
            "hw_delete_unkept_sql", model.target, name, plan.patch.kept, signed
        )
        return 0, int(connection.fetch(sql)[0][0])
    stage = staging_table(model)
    done = _insert_rows(model, plan, stage)
    drop_staging_table(connection, stage)
    return done


def _insert_rows(model: Model, plan: Plan, stage: DbtRelation) -> tuple[int, int] | str:
    columns = model.session.connection.columns_of(model.target)
    look = _stage_patch(model, plan, stage)
    if isinstance(look, str):
        return look
    since = commits_since_plan(model, plan)
    if since.refused:
        return since.refused
    written = write(model, stage, look, columns, since.engine, check_target=True)
    return written.refused or (look.inserted, look.deleted)


def _stage_patch(model: Model, plan: Plan, stage: DbtRelation) -> Look | str:
    """Stage the inserted and deleted rows. Return their inspection, or the reason of a refusal."""
    session, patch = model.session, plan.patch
    assert patch is not None
    inserted = _inserted_sql(model, plan, session.connection.columns(model.sql))
    beside = model.beside_sql()
    rows = session.macros("hw_staged_by_patch_sql", model.target, inserted, beside, patch.kept)
    create = session.macros("hw_create_staging_table_sql", stage, rows)
    refused = _execute_at_versions(session.connection, create)
    if refused:
        return refused
    if not model.keys:
        return look_without_key(model, stage)
    look = look_at(model, stage)
    # a change set has one row a key; a replacement refuses a key that is inserted twice
    return "other rows have its keys" if look.rows > look.distinct else look


def _execute_at_versions(connection: Connection, statement: str) -> str | None:
    """Execute a statement over inputs at their applied versions.

    Return the reason if those can no longer be read.
    """
    try:
        connection.execute(statement)
    except DbtRuntimeError as error:
        if not any(condition in first_line(error) for condition in UNREADABLE_INPUTS):
            raise
        return INPUTS_LOST
    return None
