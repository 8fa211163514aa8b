"""The comparison of a table with the whole result of its SQL.

A run that cannot apply changes, or would pay more for it, computes the whole table. It writes the
rows that differ, in one commit, so the models that follow the table read only these. See
docs/decisions/0049-compare-instead-of-replacing.md.
"""

from __future__ import annotations

from dataclasses import replace

from jinja2.filters import do_filesizeformat

from headwaters.runs.decisions import Size
from headwaters.runs.model import Model
from headwaters.runs.plan import Plan
from headwaters.runs.strategies.base import Look


def compared(model: Model) -> Model:
    """Return the model with the strategy of such a run."""
    return replace(model, config={**model.config, "incremental_strategy": "compared"})


def size_after(plan: Plan, look: Look) -> Size | None:
    """Return the size of the table after the run, with the share that differed."""
    size = plan.size
    if size is None:
        return None
    differed = size.differed
    if plan.compares:
        differed = round(look.rows / max(size.rows, look.rows, 1), 3)
    rows = size.rows + look.inserted - look.deleted
    return replace(size, rows=rows, differed=differed)


def message_of(plan: Plan, look: Look) -> str:
    """Return dbt's line of the run."""
    counts = f"{look.inserted} inserted, {look.updated} updated, {look.deleted} deleted"
    rows = "1 row differed" if look.rows == 1 else f"{look.rows} rows differed"
    size = f", {counts}, {do_filesizeformat(look.bytes)}" if look.rows else ""
    return f"{rows}{size}, {plan.reason}"
