"""Test the warning of a column that may lack a comma after it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headwaters.runs.proving import require_proof


@pytest.mark.parametrize(
    ("sql", "same_sql", "warned"),
    [
        ("select customer\n amount from s.t", False, True),
        ("select customer\n amount from s.t", True, False),  # it built the table before
        ("select customer\n buyer from s.t", False, False),  # no input has such a column
        ("select customer,\n amount from s.t", False, False),
    ],
)
def test_a_name_of_another_column_on_the_next_line_is_told(
    sql: str, same_sql: bool, warned: bool
) -> None:
    warnings: list[str] = []
    columns = [SimpleNamespace(name=name) for name in ("Customer", "Amount")]
    session = SimpleNamespace(
        warn=warnings.append, columns_at=lambda table, commit: columns, graph={}
    )
    model: Any = SimpleNamespace(
        config={"derivation": {"of": "x"}}, code=sql, target="s.m", session=session
    )
    plan: Any = SimpleNamespace(
        detail=None,
        choice="incremental",
        same_sql=same_sql,
        inputs=[{"source": "s.t", "version": 1, "at": 0}, {"source": "s.v", "version": None}],
    )
    require_proof(model, plan)
    text = (
        "s.m: the column customer is named amount, which is on the next line. Is a comma missing? "
        "Otherwise write `customer as amount`."
    )
    assert warnings == ([text] if warned else [])
