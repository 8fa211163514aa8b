"""The replacement of the whole table, with the applied versions in the same commit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from dbt_common.exceptions import DbtRuntimeError

from headwaters.analysis import columns_digest
from headwaters.platform.delta_version import DEFAULTS_REFUSED
from headwaters.platform.errors import first_line
from headwaters.runs import checks, decisions
from headwaters.runs.hidden_tables import drop_hidden_tables
from headwaters.runs.histories import COMMITS
from headwaters.runs.layout import layout_note
from headwaters.runs.model import Model, names_in, spelled
from headwaters.runs.plan import Plan
from headwaters.runs.session import DbtColumn, DbtRelation
from headwaters.runs.sizes import size_to_note
from headwaters.runs.state import drop_interrupted, state_properties
from headwaters.runs.strategies import strategy_for
from headwaters.runs.strategies.base import raise_repeated_keys
from headwaters.runs.work import drop_staging_table, staging_table
from headwaters.tables.drift import created_checks
from headwaters.tables.properties import created_properties


@dataclass(frozen=True)
class Replacement:
    """The result of a replacement, by the table's log. `audit`: the result of expectations."""

    rows: int
    bytes: int
    audit: str = ""


def replace_table(model: Model, plan: Plan) -> Replacement:
    """Replace the table.

    Raises:
        UserError: the model cannot be maintained, or a key is repeated. The table is unchanged.
    """
    session, strategy = model.session, strategy_for(model)
    connection, sql = session.connection, model.sql
    strategy.before_replace(plan)
    existing = model.existing
    if existing is not None and (existing.is_view or not existing.is_delta):
        connection.drop(existing)
    drop_interrupted(model, plan)
    if not plan.same_sql:
        drop_hidden_tables(connection, model.target, plan.proof)
    checks.check_input_columns(model, plan.inputs)
    columns = connection.columns(sql)
    # the log of a counted input shows that it still has its feed
    unread = [spec for spec in plan.inputs if spec["source"] not in plan.ranges]
    checks.check_columns(model, columns, plan.inputs, unread)
    if model.settings.incremental_proof == "sample" and not plan.same_sql:
        checks.check_by_rows(model, plan.inputs, columns)
    checks.refuse_keys_of_lookups(model, plan.inputs)
    properties = properties_of_replacement(model, plan, columns)
    rows = _rows_of_table(model, plan, columns)
    stage, audit = None, ""
    if model.has_expectations:
        stage = staging_table(model)
        audit = _stage(model, stage, rows, columns)
        rows = f"select * except (_operation) from {stage}"
    check_contract(model, rows)
    _create(model, rows, properties, columns)
    if stage:
        drop_staging_table(connection, stage)
    return written_by_replacement(model, audit)


def check_contract(model: Model, rows: str) -> None:
    """Compare the rows with the model's contract, if it is enforced."""
    if (model.config.get("contract") or {}).get("enforced"):
        model.session.macros("get_assert_columns_equivalent", rows)


def written_by_replacement(model: Model, audit: str = "") -> Replacement:
    """Return the rows and bytes that the latest replacement has written."""
    # models that follow the table read the same commits, and twenty cost as much as one
    commit = model.session.connection.history(model.target, COMMITS)[0]
    metrics = commit.metrics
    rows, size = int(metrics.get("numOutputRows", 0)), int(metrics.get("numOutputBytes", 0))
    model.session.row_counts[str(model.target), commit.version, commit.at] = rows
    return Replacement(rows, size, audit)


def properties_of_replacement(
    model: Model, plan: Plan, columns: Sequence[DbtColumn]
) -> dict[str, str]:
    """Return the declared properties of the table, and those that record its state."""
    properties = dict(created_properties(model.config))
    if not model.is_hidden:
        properties |= created_checks(model.node)
    properties |= state_properties(model, plan.inputs)
    if size := size_to_note(model, plan):
        properties["headwaters.size"] = str(size)
    properties["headwaters.columns"] = json.dumps(_columns_of_inputs(model, plan))
    # the future result of DESCRIBE DETAIL
    described = not model.is_hidden and model.session.macros("hw_comment_of_model")
    layout = {
        "partitionColumns": spelled(names_in(model.config, "partition_by"), columns),
        "clusteringColumns": spelled(names_in(model.config, "cluster_by"), columns),
        "description": described or None,
    }
    return properties | {"headwaters.layout": layout_note(layout)}


def _columns_of_inputs(model: Model, plan: Plan) -> dict[str, str]:
    """Return a digest of the columns of each input at its version; none for one without."""
    noted = dict(plan.columns) if plan.same_sql else {}
    for spec in plan.inputs:
        source = spec["source"]
        if source not in noted and spec["version"] is not None:
            noted[source] = columns_digest(model.session.columns_at(source, spec))
    return noted


def create_sql(
    model: Model, rows: str, properties: dict[str, str], columns: Sequence[DbtColumn]
) -> str:
    """Return the statement that replaces the table."""
    clustering = spelled(names_in(model.config, "cluster_by"), columns)
    arguments = (model.target, rows, properties, clustering, model.is_hidden)
    return str(model.session.macros("hw_create_or_replace_sql", *arguments))


def _create(
    model: Model, rows: str, properties: dict[str, str], columns: Sequence[DbtColumn]
) -> None:
    """Create or replace the table.

    A column of an input with a DEFAULT keeps it in Spark's SELECT. Delta refuses such a table
    without the table feature. The statement is then repeated without defaults, which a model does
    not need.
    """
    session = model.session
    try:
        session.connection.execute(create_sql(model, rows, properties, columns))
    except DbtRuntimeError as error:
        if DEFAULTS_REFUSED not in first_line(error):
            raise
        rows = str(session.macros("hw_without_defaults_sql", rows, columns))
        session.connection.execute(create_sql(model, rows, properties, columns))


def _rows_of_table(model: Model, plan: Plan, columns: Sequence[DbtColumn]) -> str:
    """Return the SQL of the table's rows. Refuse repeated keys in it, or by a query before it.

    The query reads the inputs of a large table again, instead of sorting its rows by key.
    """
    strategy, keys, session = strategy_for(model), model.keys, model.session
    rows = strategy.full_refresh_sql(model.sql, columns)
    if not keys or strategy.repeated_keys == "impossible":
        return rows
    is_auto = "derivation" in model.config
    limit = decisions.limit_of_whole(model.settings, plan.size, is_auto=is_auto)
    is_small = plan.size is not None and plan.size.is_below(limit)
    if strategy.repeated_keys == "counted" or is_small:
        text = session.macros("hw_repeated_keys_text", str(model.target), keys)
        return str(session.macros("hw_one_row_a_key_sql", keys, rows, f"[HW_REPEATED_KEYS] {text}"))
    if checks.may_repeat_keys(model, columns):
        query = session.macros("hw_repeated_keys_sql", keys, f"(\n{model.sql}\n)")
        raise_repeated_keys(model, query, None)
    return rows


def _stage(model: Model, stage: DbtRelation, rows: str, columns: Sequence[DbtColumn]) -> str:
    """Stage the rows of a table with expectations. Return the result of the audit step."""
    session = model.session
    session.connection.execute(
        session.macros("hw_create_staging_table_sql", stage, _as_inserts(rows))
    )
    all_rows = strategy_for(model).full_refresh_sql(model.unfiltered_sql, columns)
    arguments = (model.target, stage, _as_inserts(all_rows), model.config)
    return str(session.macros("hw_audit_staged", *arguments))


def _as_inserts(rows: str) -> str:
    return f"select *, 'insert' as _operation from (\n{rows}\n)"
