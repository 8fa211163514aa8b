"""Columns that a table has got beyond its contract."""

from __future__ import annotations

from headwaters.contract import Column, Contract
from headwaters.tables import Table


def widened(bronze: Table, contract: Contract) -> Contract:
    """The contract with the columns that its table has got beyond it, where it lets them come."""
    if contract.stream.schema_policy != "add_columns":
        return contract
    known = {name.lower() for name, _ in contract.bronze_columns()}
    beyond = [
        Column(name=name, data_type=kind)
        for name, kind in bronze.columns()
        if name.lower() not in known
    ]
    return contract.model_copy(update={"columns": (*contract.columns, *beyond)})
