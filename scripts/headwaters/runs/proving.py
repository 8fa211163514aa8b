"""The refusal of a model whose SQL does not prove that its strategy maintains it.

See headwaters.analysis and docs/analysis.md. A run needs the proof if the SQL builds its first
table, differs from the previous SQL, or reads other columns. It also needs one if the table lacks a
proof by today's rules and the keys that the project promises. Under `incremental_proof: sample` a
sample of rows replaces the proof.
"""

from __future__ import annotations

from dataclasses import replace

from headwaters.analysis import missing_commas, prepared
from headwaters.platform.problems import Problem
from headwaters.runs.change_of_sql import with_columns
from headwaters.runs.inputs import inputs_of, is_pinned
from headwaters.runs.model import Model
from headwaters.runs.plan import Plan
from headwaters.runs.session import Config, Session
from headwaters.runs.settling import unproven
from headwaters.runs.state import proof_of
from headwaters.tables.commits import as_mapping


def require_proof(model: Model, plan: Plan) -> Model:
    """Return the model in the form that its table notes.

    Raises:
        Unproven: the SQL does not prove that the strategy maintains it. The table is unchanged.
    """
    noted = None
    if plan.detail:
        noted = as_mapping(plan.detail["properties"]).get("headwaters.proof")
    is_noted = plan.same_sql and noted == proof_of(model, plan.inputs)
    derivation = model.config.get("derivation")
    if derivation:
        if not plan.same_sql:
            _warn_of_missing_commas(model, plan)
        # the columns of its derivation may have changed: the next run derives it again
        if plan.choice == "replace" and not plan.same_sql and noted == proof_of(model, plan.inputs):
            config = {**model.config, "derivation": {**derivation, "of": None}}
            return replace(model, config=config)
    elif model.settings.incremental_proof == "sample":
        model.session.warn(
            f"{model.target}: incremental_proof is sample, so nothing proves that an incremental "
            "run leaves what a full refresh would have left; a thousand rows are tried where its "
            "SQL is new."
        )
    elif (plan.patch or plan.choice != "skip") and not is_noted:
        prove(model)
    return model


def _warn_of_missing_commas(model: Model, plan: Plan) -> None:
    """Warn of a column that gets the name of another one of an input, on the next line."""
    named = list(missing_commas(model.code))
    columns = _columns_of_inputs(model, plan) if named else set()
    for column, name in named:
        if name.lower() not in columns:
            continue
        model.session.warn(
            f"{model.target}: the column {column} is named {name}, which is on the next line. Is a "
            f"comma missing? Otherwise write `{column} as {name}`."
        )


def _columns_of_inputs(model: Model, plan: Plan) -> set[str]:
    """Return the names of all columns of the inputs at their versions, in lower case."""
    return {
        column.name.lower()
        for spec in plan.inputs
        if spec["version"] is not None
        for column in model.session.columns_at(spec["source"], spec)
    }


def prove(model: Model, where: str | None = None) -> None:
    """Refuse a model whose SQL proves nothing."""
    problem = refusal(model.session, model.code, model.config)
    if problem:
        node, strategy = model.node, model.config.get("incremental_strategy")
        place = f"{node['original_file_path']}, incremental_strategy: {strategy}"
        raise unproven(problem, f"{where or model.target} ({place})")


def refusal(session: Session, code: str, config: Config) -> Problem | None:
    """Return the reason that the SQL proves nothing, or None. Runs a statement for each input.

    The statements read the columns. A sample or an empty run has nothing to prove.
    """
    sql = prepared(code)
    inputs = inputs_of(sql)
    if not is_pinned(inputs):
        return None
    # importing the parser takes an eighth of a second, and most runs prove nothing
    from headwaters.analysis import refusal_of

    functions = session.fingerprint(sql)["functions"]
    columns = with_columns(session.connection, inputs)
    return refusal_of(sql, columns, config, session.graph, functions, code)
