"""The check that the first run of a model does not lose rows of a table that it did not build.

See headwaters.runs.lost.
"""

from __future__ import annotations

from headwaters.platform.problems import Problem
from headwaters.runs.lost import is_of_model, lost_table, other_format
from headwaters.runs.model import Model
from headwaters.runs.state import TableState, table_detail
from headwaters.runs.strategies import strategy_for


def loss_of(model: Model, state: TableState | None) -> Problem | None:
    """Return the loss that a replacement of the model's table would cause, or None.

    It runs three statements for a table that no run of the model built, otherwise none.
    """
    existing, place = model.existing, str(model.node["original_file_path"])
    if existing is None or existing.is_view or (state and is_of_model(state.properties)):
        return None
    if not existing.is_delta:
        return other_format(str(existing), model.node).at(place)
    session = model.session
    detail = table_detail(session.connection, existing)
    facts = session.connection.fetch(session.macros("hw_schema_and_rows_sql", existing, detail))[0]
    columns = strategy_for(model).columns_of_full_refresh(model.sql)
    problem = lost_table(
        table=str(existing),
        node=model.node,
        config=model.config,
        columns=[column.name.lower() for column in columns],
        detail=detail,
        schema=facts["schema"],
        commits=session.connection.history(existing, 1000),
        rows=int(facts["rows"] or 0),
    )
    return problem.at(place) if problem else None
