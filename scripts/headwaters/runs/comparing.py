"""The comparison of a table with the whole result of its SQL.

A run that cannot apply changes, or would pay more for it, computes the whole table. It writes the
rows that differ, in one commit, so the models that follow the table read only these. See
docs/decisions/0049-compare-instead-of-replacing.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jinja2.filters import do_filesizeformat

from headwaters.platform.errors import UserError
from headwaters.runs.decisions import Size
from headwaters.runs.model import Model
from headwaters.runs.plan import Plan
from headwaters.runs.session import DbtRelation, Session
from headwaters.runs.strategies.base import Look, named
from headwaters.runs.work import quoted_names


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
    size = f", {counts}, {do_filesizeformat(look.bytes)} staged" if look.rows else ""
    return f"{rows}{size}, {plan.reason}"


def differences_sql(
    session: Session,
    node: Mapping[str, Any],
    relation: DbtRelation,
    full_refresh: str | None,
    sample_keys: int | None,
    ties: Sequence[str] = (),
) -> str:
    """Return the SQL of the rows that only the table or only its full refresh has, by `_side`.

    `sample_keys`: compare about this many keys. `ties`: the expressions whose order lets rows tie,
    which each row then names as `_ties`.
    """
    if full_refresh is None:
        raise UserError(
            "HW_NO_MODEL_OF_TABLE",
            f"{relation} was not built by a strategy that follows change feeds: "
            "equals_full_refresh has nothing to compare it with",
        )
    keys = node["config"].get("unique_key")
    names = quoted_names(session.connection.columns_of(relation))
    key = f"xxhash64({named([keys] if isinstance(keys, str) else keys) if keys else names})"
    sample = ""
    if sample_keys is not None:
        rows = int(session.connection.fetch(f"select count(*) from {relation}")[0][0])
        sample = f" where pmod({key}, {max(rows // sample_keys, 1)}) = 0"
    return str(
        session.macros(
            "hw_differences_from_full_refresh_sql",
            relation,
            full_refresh,
            names,
            sample,
            ", ".join(ties),
        )
    )
