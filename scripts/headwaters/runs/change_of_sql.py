"""A change of a model's SQL, and its table's ability to follow it without a rebuild."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headwaters.analysis import columns_digest
from headwaters.runs.inputs import Spec, input_sql, inputs_of
from headwaters.runs.model import Model
from headwaters.runs.session import Connection
from headwaters.runs.state import AppliedVersions, TableState, built_by, digest
from headwaters.runs.strategies import strategy_for

if TYPE_CHECKING:
    from headwaters.analysis import Patch


@dataclass(frozen=True)
class SqlChange:
    """The difference between the model's SQL and the SQL that built the table.

    `is_same`: both give the same rows. `patch` converts the table to the new SQL; `is_patched`: an
    interrupted run has applied it. `why_not`: the reason that the table cannot follow the change.
    `built_by`: the text that the table names.
    """

    built_by: str | None = None
    is_same: bool = False
    patch: Patch | None = None
    is_patched: bool = False
    why_not: str | None = None


def change_since(model: Model, state: TableState, applied: AppliedVersions) -> SqlChange:
    """Compare the model's SQL with the SQL that built its table.

    If a run was interrupted after a patch, the table has the rows of the new SQL, although its
    properties name the old one.
    """
    patched_by = applied.applied.built_by
    if not patched_by:
        return _change_of(model, state.sql)
    if patched_by != digest(built_by(model.session, model.sql, model.config)):
        return SqlChange()
    from headwaters.analysis import Patch

    return SqlChange(patch=Patch([], "", "", "applied by the run before"), is_patched=True)


def _change_of(model: Model, before: str | None) -> SqlChange:
    """Compare an SQL text with the model's.

    If the texts differ, it runs a statement for each input and three over the table, for columns.
    """
    after = built_by(model.session, model.sql, model.config)
    change = SqlChange(before)
    if not before or before == after:
        return change
    # importing the parser takes an eighth of a second, and most runs compare nothing
    from headwaters.analysis import is_same_query, patch_of, same_inputs

    inputs = inputs_of(after)
    if not same_inputs(before, after, inputs_of(before), inputs):
        return change
    connection = model.session.connection
    with_columns(connection, inputs)
    if is_same_query(before, after, inputs):
        return replace(change, is_same=True)
    columns = connection.columns(f"select * from {model.target}")
    patch = patch_of(before, after, inputs, model.config, columns)
    if patch is None:
        return replace(change, is_same=True)
    if isinstance(patch, str):
        return replace(change, why_not=patch)
    given = columns_digest(strategy_for(model).columns_of_full_refresh(model.sql))
    if patch.columns:
        columns = connection.columns(patched_rows_sql(model, str(model.target), patch))
    if columns_digest(columns) != given:
        return replace(change, why_not="its columns have other types")
    return replace(change, patch=patch)


def with_columns(connection: Connection, inputs: Sequence[Spec]) -> Sequence[Spec]:
    """Return the inputs with their columns. Runs a statement for each."""
    for spec in inputs:
        spec["columns"] = connection.columns(f"select * from {input_sql(spec)}")
    return inputs


def patched_rows_sql(model: Model, table: str, patch: Patch) -> str:
    """Return the rows of the table that stay, under their new columns."""
    return str(model.session.macros("hw_patched_rows_sql", table, patch.columns, patch.kept))
