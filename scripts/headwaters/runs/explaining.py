"""An explanation of a model's next run: its plan in lines, and the proof of its SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from headwaters.analysis import prepared
from headwaters.platform.spark_version import NO_SUCH_TABLE
from headwaters.runs.checks import describe_inputs
from headwaters.runs.decisions import of_refresh
from headwaters.runs.foreign_tables import loss_of
from headwaters.runs.inputs import Spec, inputs_of, marked, with_inputs
from headwaters.runs.model import Model
from headwaters.runs.plan import Plan
from headwaters.runs.planning import make_plan
from headwaters.runs.proving import refusal
from headwaters.runs.session import DbtRelation, Session
from headwaters.runs.settling import settle
from headwaters.runs.state import read_state
from headwaters.tables.commits import Range
from headwaters.tables.named_tables import hidden_table_name


def explain(
    session: Session, node: Mapping[str, Any], code: str, relation: DbtRelation | None
) -> str:
    """Explain the next run of a model and the reasons for it.

    Raises:
        UserError: a run would raise it.
    """
    exists = relation is not None and bool(relation.is_delta)
    try:
        return _explained(session, node, code, relation, exists)
    except DbtRuntimeError as error:
        missing = _MISSING.search(str(error))
        if exists or not missing:
            raise
        table = ".".join(re.findall(r"`([^`]+)`", missing[1])[-2:])
        title = f"{node['schema']}.{node['alias']} ({node['config']['incremental_strategy']})"
        command = f"dbt build --select +{node['name']}"
        return f"{title}\n  next run: first build, once {table} exists: {command}"


# Spark's text for an input that is not built yet.
_MISSING = re.compile(
    rf"\[(?:{'|'.join(map(re.escape, NO_SUCH_TABLE))})\] The table or view (\S+) cannot be found"
)


def _explained(
    session: Session,
    node: Mapping[str, Any],
    code: str,
    relation: DbtRelation | None,
    exists: bool,
) -> str:
    state = read_state(session.connection, relation) if relation is not None and exists else None
    settled = settle(session, node, code, state.properties if state else {})
    target: Any = relation or node["relation_name"]
    model = Model(node, target, relation, settled.code, settled.config, session)
    plan = make_plan(model, exists, state=state)
    lines = [_title(model)]
    ignores_lookups = model.settings.on_lookup_change == "ignore"
    lines += [_input_line(spec, plan, ignores_lookups) for spec in plan.inputs]
    lines += _hidden_tables(model)
    lines.append(_proof_line(model))
    lines += _declaration_lines(model)
    lines += [f"  ties: {text} may order rows differently {_TIES}" for text in _ties(model)]
    loss = loss_of(model, state)
    if loss:
        return "\n".join([*lines, f"  next run: refused, {loss}"])
    if (
        plan.choice == "replace"
        and of_refresh(model.refresh, is_requested=plan.is_requested) == "refused"
    ):
        return "\n".join([*lines, f"  next run: refused, refresh is strict: {plan.reason}"])
    choice = plan.reason if plan.patch else f"{plan.choice}, {plan.reason}"
    if plan.compares:
        choice = f"compare, {plan.reason}"
    if plan.choice == "skip":
        choice += "; `headwaters explain` also plans the models and seeds before it"
    return "\n".join([*lines, f"  next run: {choice}"])


_TIES = "whenever their key is computed: order by more columns, or set on_ties: replace"


def _ties(model: Model) -> list[str]:
    """Return the expressions whose order lets rows tie."""
    return list((model.config.get("derivation") or {}).get("ties") or ())


def _declaration_lines(model: Model) -> list[str]:
    """Return the declaration that would let runs follow more inputs; reads columns if there are."""
    if not (model.config.get("derivation") or {}).get("reason"):
        return []
    from headwaters.analysis import helpful_declaration

    session = model.session
    plain = {"kind": "lookup", "version": None, "at": None}
    given = inputs_of(model.code)
    pinned = {spec["source"]: spec for spec in given}
    texts = {spec["text"]: marked(plain | {"source": spec["source"]}) for spec in given}
    sql = prepared(with_inputs(model.code, texts))
    inputs = inputs_of(sql)
    describe_inputs(session, inputs, pinned)
    functions = session.fingerprint(sql)["functions"]
    config = session.run_config(model.node)
    declared = helpful_declaration(sql, inputs, config, session.graph, functions)
    return [f"  runs would follow more with a test: {declared}"] if declared else []


def explain_python(node: Mapping[str, Any]) -> str:
    """Explain the next run of a Python model with the strategy `auto`."""
    table = f"{node['schema']}.{node['alias']}"
    return f"{table} (auto: replace)\n  next run: replace, no rule says what Python code reads"


def _title(model: Model) -> str:
    strategy = model.config["incremental_strategy"]
    auto = "auto: " if model.node["config"].get("incremental_strategy") == "auto" else ""
    keys = f", unique_key {', '.join(model.keys)}" if model.keys else ""
    return f"{model.node['schema']}.{model.node['alias']} ({auto}{strategy}{keys})"


def _input_line(spec: Spec, plan: Plan, ignores_lookups: bool) -> str:
    source = spec["source"]
    held = (plan.holds or {}).get(source)
    changes = (plan.lookups if spec["kind"] == "lookup" else plan.ranges).get(source)
    if changes is not None:
        waiting = _waiting(changes, is_ignored=spec["kind"] == "lookup" and ignores_lookups)
    elif not held:
        waiting = "not read yet"
    elif held["version"] == spec["version"]:
        waiting = "nothing waiting"
    else:
        waiting = f"{spec['version'] - held['version']} versions waiting"
    applied = held["version"] if held else "-"
    read = f"  {spec['kind']} {source}{_by(spec)}"
    return f"{read}: applied {applied}, newest {spec['version']}, {waiting}"


def _waiting(changes: Range, *, is_ignored: bool) -> str:
    """Describe the changes of an input. A run skips those without rows, and ignored lookups."""
    if is_ignored and (changes.rows or changes.gap):
        return "changed, ignored by on_lookup_change"
    if changes.rows:
        return f"{changes.commits} commits, {changes.rows} rows waiting"
    if changes.gap:
        return "its changes cannot be read"
    versions = "1 version" if changes.versions == 1 else f"{changes.versions} versions"
    return f"nothing waiting: {versions} without changes of rows"


def _by(spec: Spec) -> str:
    """Return the columns that trace the changes of an input, such as ` by id`."""
    pairs = spec["on"] if spec.get("via") else spec.get("key") or {}
    texts = [own if own == other else f"{own} = {other}" for own, other in pairs.items()]
    via = f" of {spec['via']}" if spec.get("via") else ""
    return f" by {', '.join(texts)}{via}" if texts else ""


def _hidden_tables(model: Model) -> list[str]:
    name = f"{model.node['schema']}.{model.node['alias']}"
    tables = (model.config.get("stages") or {}).get("tables", [])
    return [
        f"  hidden table {hidden_table_name(name, number)} by {', '.join(table['unique_key'])}, of "
        f"{', '.join(table['inputs'])}"
        for number, table in enumerate(tables, 1)
    ]


def _proof_line(model: Model) -> str:
    config = model.config
    proven = f"its SQL proves that {config['incremental_strategy']} maintains it"
    derivation = config.get("derivation")
    if derivation:
        why, leads = derivation.get("reason"), derivation.get("leads")
        derived = f"not everything is followed: {why}" if why else proven
        by = f", by {', '.join(leads['key'])}" if leads else ""
        return f"  derived: {derived}{by}"
    if model.settings.incremental_proof == "sample":
        return "  proof: none, a sample of rows (incremental_proof: sample)"
    return f"  proof: {refusal(model.session, model.code, config) or proven}"
