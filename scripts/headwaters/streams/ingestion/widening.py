"""Columns of a table that its contract does not declare."""

from __future__ import annotations

from headwaters.streams.contract import Contract, DeclaredColumn
from headwaters.tables.delta_tables import TableSnapshot


def widened(bronze: TableSnapshot, contract: Contract) -> Contract:
    """Return the contract with its table's additional columns, if it permits them."""
    if contract.stream.schema_policy != "add_columns":
        return contract
    known = {name.lower() for name, _ in contract.bronze_columns()}
    beyond = [
        DeclaredColumn(name=name, data_type=kind)
        for name, kind in bronze.columns()
        if name.lower() not in known
    ]
    return contract.model_copy(update={"columns": (*contract.columns, *beyond)})
