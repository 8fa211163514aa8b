"""The comparison of a table with its full refresh."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwaters.platform.errors import UserError
from headwaters.runs.session import DbtRelation, Session
from headwaters.runs.strategies.base import named
from headwaters.runs.work import quoted_names


def differences_sql(
    session: Session,
    node: Mapping[str, Any],
    relation: DbtRelation,
    full_refresh: str | None,
    sample_keys: int | None,
) -> str:
    """Return the SQL of the rows that only the table or only its full refresh has, by `_side`.

    `sample_keys`: compare about this many keys.
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
            "hw_differences_from_full_refresh_sql", relation, full_refresh, names, sample
        )
    )
