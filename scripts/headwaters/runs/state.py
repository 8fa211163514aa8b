"""The state of a table in its properties: applied versions, the run that wrote it, its SQL."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import md5
from typing import Any

from headwaters.analysis import noted_proof, strategy_of
from headwaters.platform.errors import UserError
from headwaters.platform.sql import quoted_table
from headwaters.runs import recovery
from headwaters.runs.inputs import Spec, is_pinned, versions_of, without_versions
from headwaters.runs.layout import layout_note
from headwaters.runs.model import Model, names_in
from headwaters.runs.plan import Plan
from headwaters.runs.reactions import rebuilds_on_foreign_write
from headwaters.runs.recovery import Applied, Inputs
from headwaters.runs.session import Config, Connection, Session
from headwaters.runs.strategies import strategy_for
from headwaters.runs.work import drop_change_set_of
from headwaters.tables.commits import Commit

MOST_TAKEN_OVER = 5

# The property with the text that built a table. Derby's metastore keeps 32,672 characters of a
# property, so a longer text is in several.
_SQL = "headwaters.sql"
_LONGEST = 30_000
_FIRST_OF = re.compile(r"/\* 1 of (\d+) \*/\n")


@dataclass(frozen=True)
class TableState:
    """The properties of a table: `sql`, the text that built it, and the applied versions."""

    properties: Mapping[str, str]

    @property
    def sql(self) -> str | None:
        """Return the text that built the table."""
        text = self.properties.get(_SQL)
        if found := _FIRST_OF.match(text or ""):
            others = range(2, int(found[1]) + 1)
            rest = (self.properties.get(f"{_SQL}.{number}", "") for number in others)
            return "".join([found.string[found.end() :], *rest])
        return text

    @property
    def inputs(self) -> Inputs | None:
        """Return the applied versions of its inputs, as the last run wrote them."""
        inputs: Inputs | None = json.loads(self.properties.get("headwaters.inputs") or "null")
        return inputs


def read_state(connection: Connection, table: object) -> TableState:
    """Return the state of a table."""
    return TableState(connection.properties(table))


@dataclass(frozen=True)
class AppliedVersions:
    """The applied state of a table, by its own log; `commits`: those that had to be read."""

    applied: Applied
    commits: Sequence[Commit]

    @property
    def seen(self) -> dict[str, int]:
        """Return the newest commit that was read."""
        newest = self.commits[0]
        return {"version": newest.version, "at": newest.at}


def read_applied_versions(model: Model, state: TableState) -> AppliedVersions:
    """Return the applied state of the target, after any interruption and any foreign write."""
    for limit in (20, 1000, 1_000_000):
        commits = model.session.connection.history(model.target, limit)
        complete = len(commits) < limit
        applied = recovery.applied_versions(state.properties, commits, complete)
        if applied:
            return AppliedVersions(applied, commits)
    raise AssertionError("a table has more than a million commits")


def built_by(session: Session, sql: str, config: Config) -> str:
    """Return the text that identifies the origin of a table's rows.

    It has the SQL without versions, the settings of the model and of the session, and the SQL
    functions that it calls.
    """
    text = without_versions(sql)
    strategy = strategy_of(config)
    assert strategy is not None
    keys, order = names_in(config, "unique_key"), names_in(config, "latest_by")
    derived = config.get("derived", {})
    what = [strategy.configured_as, keys, order, derived, session.fingerprint(text)]
    return f"/* built by {json.dumps(what)} */\n{text}"


def sql_properties(text: str) -> dict[str, str]:
    """Return the text that built a table as one property, or as several if it is long."""
    if len(text) <= _LONGEST:
        return {_SQL: text}
    pieces = []
    while text:
        piece = text[:_LONGEST]
        # between two words, so that an erasure finds each value
        ends = max(piece.rfind("\n"), piece.rfind(" ")) + 1 if len(piece) < len(text) else 0
        piece = piece[: ends or None]
        pieces.append(piece)
        text = text[len(piece) :]
    first = {_SQL: f"/* 1 of {len(pieces)} */\n{pieces[0]}"}
    return first | {f"{_SQL}.{number}": piece for number, piece in enumerate(pieces[1:], 2)}


def proof_of(model: Model, inputs: Sequence[Spec]) -> str:
    """Return the proof of its SQL in the form that the table notes."""
    return noted_proof(model.config, inputs, model.session.graph)


def state_properties(model: Model, inputs: Sequence[Spec]) -> dict[str, str]:
    """Return the properties with the state of a replaced table. A sample applied no version."""
    properties = {
        **sql_properties(built_by(model.session, model.sql, model.config)),
        "headwaters.proof": proof_of(model, inputs),
    }
    if is_pinned(inputs):
        properties["headwaters.inputs"] = json.dumps(versions_of(inputs))
        properties["headwaters.run"] = json.dumps({"id": model.session.run_id})
        properties |= strategy_for(model).state_properties(inputs)
    return properties


def set_applied_versions(model: Model, plan: Plan, proof: str | None = None) -> None:
    """Record in the target that this run has applied the plan's inputs at their versions.

    `proof`: the new proof, if one was needed.
    """
    properties = {
        "headwaters.inputs": json.dumps(versions_of(plan.inputs)),
        "headwaters.run": json.dumps({"id": model.session.run_id, "seen": plan.seen}),
        "headwaters.columns": json.dumps(plan.columns),
        "headwaters.pending": "null",
        "headwaters.layout": layout_note(plan.detail or {}, plan.seen),
    }
    if proof:
        properties["headwaters.proof"] = proof
    if plan.size:
        properties["headwaters.size"] = str(plan.size)
    if plan.built_by:
        properties |= sql_properties(plan.built_by)
    _set(model, properties)


def note_run(model: Model, plan: Plan, others: Sequence[str]) -> None:
    """Note in the target the versions that this run is about to apply: see recovery.py.

    `others` may still write. This run drops their change sets, which prevents that. The note has
    only a digest of `built_by`: Spark would hide a text that it suspects to contain a secret.
    """
    session = model.session
    for run in others:
        drop_change_set_of(model, run)
    note = {"id": session.run_id, "seen": plan.seen, "inputs": versions_of(plan.inputs)}
    if plan.built_by:
        note["built_by"] = digest(plan.built_by)
    properties = {"headwaters.pending": json.dumps(note)}
    if plan.interrupted:
        # this note replaces that of the interrupted run, so store the versions that it applied
        properties["headwaters.inputs"] = json.dumps(plan.holds)
        own = {"id": session.run_id, "seen": plan.seen}
        properties["headwaters.run"] = json.dumps(own)
    _set(model, properties)


def drop_interrupted(model: Model, plan: Plan) -> None:
    """Drop the change set of an unfinished run, if there was one."""
    if plan.interrupted:
        drop_change_set_of(model, plan.interrupted)


def _set(model: Model, properties: Mapping[str, str]) -> None:
    session = model.session
    session.connection.execute(session.macros("hw_set_properties_sql", model.target, properties))


def digest(text: str) -> str:
    """Return a digest of a text, like dbt's `local_md5`."""
    return md5(text.encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class Since:
    """The changes of the target since the plan; `engine` is this run's.

    `refused`: the reason that only a replacement would be right.
    """

    engine: str = ""
    refused: str | None = None


def commits_since_plan(model: Model, plan: Plan) -> Since:
    """Return the changes of the target since this run's plan. Call it before rows are written.

    Raises:
        UserError: another run of the model came in between. This run has written nothing.
    """
    session = model.session
    assert plan.seen is not None
    taken_over: list[str] = []
    engine = ""
    for _ in range(MOST_TAKEN_OVER):
        commits = session.connection.history(model.target, 20)
        meanwhile = recovery.since(commits, plan.seen, session.run_id)
        engine = meanwhile.engine
        if meanwhile.superseded:
            drop_change_set_of(model)
            raise UserError(
                "HW_CONCURRENT_RUN",
                f"{model.target}: {meanwhile.superseded} came in between, so this run wrote "
                "nothing. Run one dbt at a time for a model, and run this one again.",
            )
        if meanwhile.foreign and rebuilds_on_foreign_write(model, meanwhile.foreign):
            return Since(refused=f"{meanwhile.foreign} changed the table while this run read it")
        others = [run for run in meanwhile.others if run not in taken_over]
        if not others:
            break
        note_run(model, plan, others)
        taken_over += others
    return Since(engine)


def with_held_versions(plan: Plan, text: str) -> Plan:
    """Return the plan over the inputs at their applied versions.

    `text` identifies the SQL that builds the table afterwards.
    """
    holds = plan.holds or {}
    held = [
        spec | {"version": holds[spec["source"]]["version"], "at": holds[spec["source"]]["at"]}
        for spec in plan.inputs
    ]
    return replace(plan, inputs=held, built_by=text)


def table_detail(connection: Connection, table: object) -> Any:
    """Return the row of DESCRIBE DETAIL of a table."""
    return connection.fetch(f"describe detail {quoted_table(str(table))}")[0]
