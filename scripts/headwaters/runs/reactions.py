"""The reactions that settings choose: `on_gap`, `on_foreign_write` and `refresh`."""

from __future__ import annotations

from headwaters.platform.errors import UserError
from headwaters.runs.decisions import of_refresh
from headwaters.runs.model import Model
from headwaters.runs.plan import Plan


def fail_on_gap(model: Model, gap: str) -> None:
    """End the run at a gap, unless the model is to be rebuilt.

    Raises:
        UserError: the model has `on_gap: fail`. The table is unchanged.
    """
    if model.on_gap == "fail":
        raise UserError(
            "HW_GAP",
            f"The changes that {model.target} has to follow are not there: {gap}. "
            f"{left_as_it_is(model)}",
        )


def left_as_it_is(model: Model) -> str:
    """Return the text that the table is unchanged, with the remedy."""
    keeps_past = model.strategy.keeps_past
    unless = " where a history does not say otherwise" if keeps_past else ""
    end = " from what the feed still has. Take a backup before." if keeps_past else "."
    return (
        f"on_gap is fail{unless}, so the table was left as it is; "
        f"`dbt run --full-refresh --select {model.target.identifier}` rebuilds it{end}"
    )


def rebuilds_on_foreign_write(model: Model, change: str) -> bool:
    """Return true if a foreign write causes a rebuild of the table; otherwise warn.

    Raises:
        UserError: the model has `on_foreign_write: fail`. The table is unchanged.
    """
    choice, target = model.on_foreign_write, model.target
    what = f"{target} was changed by {change}, which is no run of its model"
    if choice == "fail":
        raise UserError(
            "HW_FOREIGN_WRITE",
            f"{what}. on_foreign_write is fail, so the table was left as it is; `dbt run "
            f"--full-refresh --select {target.identifier}` replaces it by what its SQL gives.",
        )
    if choice == "warn":
        model.session.warn(
            f"{what}: its rows may differ from what a full refresh gives (on_foreign_write is warn)"
        )
    return choice == "rebuild"


def permit_replacement(model: Model, plan: Plan) -> None:
    """Permit the replacement of the table, or warn of it.

    Raises:
        UserError: the model has `refresh: strict`. The table is unchanged.
    """
    reaction = of_refresh(model.refresh, is_requested=plan.is_requested)
    if reaction == "refused":
        raise UserError("HW_STRICT", refusal_text(model, plan))
    if reaction == "warned":
        model.session.warn(
            f"{model.target}: the run has to {_action(plan)}, {plan.reason} (refresh is "
            "incremental)"
            f"{f': {plan.remedy}' if plan.remedy else ''}"
        )


def refusal_text(model: Model, plan: Plan) -> str:
    """Return the error of a replacement that `refresh: strict` forbids."""
    return (
        f"{model.target}: the run would {_action(plan)}, {plan.reason}. refresh is strict, so "
        f"the table was left as it is. {f'{plan.remedy}; ' if plan.remedy else ''}"
        f"`dbt run --full-refresh --select {model.node['name']}` replaces the table."
    )


def _action(plan: Plan) -> str:
    return "compute the whole table" if plan.compares else "replace the table"
