"""The setting `refresh`: the reaction of a run to the replacement of its table."""

from __future__ import annotations

from headwaters.platform.errors import UserError
from headwaters.runs.decisions import of_refresh
from headwaters.runs.model import Model
from headwaters.runs.plan import Plan


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
