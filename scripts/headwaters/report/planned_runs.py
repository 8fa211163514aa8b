"""The next run of a model or seed, planned by the run's own decisions from the tables' logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dbt_common.exceptions import DbtRuntimeError

from headwaters.analysis import without_format
from headwaters.platform.errors import UserError, first_line
from headwaters.platform.nodes import table_name
from headwaters.report.log_session import LogSession, LogTables, Unknown
from headwaters.runs import decisions as deciding
from headwaters.runs.checks import Unproven
from headwaters.runs.foreign_tables import is_of_model
from headwaters.runs.inputs import inputs_of, with_inputs
from headwaters.runs.model import Model
from headwaters.runs.pinned_inputs import pinned
from headwaters.runs.plan import Plan
from headwaters.runs.planning import cheaper_way, make_plan
from headwaters.runs.proving import prove, require_proof
from headwaters.runs.session import DbtRelation
from headwaters.runs.settling import settle
from headwaters.runs.state import TableState, built_by
from headwaters.runs.strategies import strategy_for
from headwaters.tables.commits import is_of_seed, was_loaded_last

# `first build` creates the table; `append` adds rows; `merge` also updates and deletes
# them; `compare` computes the whole table and writes the rows that differ; `patch` converts the
# table to changed SQL; `load` replaces a seed; `refused` and `unknown` have the reason.
Action = Literal[
    "first build",
    "no changes",
    "append",
    "merge",
    "compare",
    "patch",
    "replace",
    "load",
    "refused",
    "unknown",
]


@dataclass(frozen=True)
class PendingChanges:
    """The commits of an input after its applied version: `rows` is an upper bound, or None."""

    source: str
    applied: int
    newest: int
    rows: int | None


@dataclass(frozen=True)
class PlannedRun:
    """The next run of a model.

    `reads` are its inputs, and `lookups` those whose changes compute the whole table again. `rows`
    counts the changed rows of those that it follows, or is None if the plan does not depend on it.
    `is_whole`: the run computes the whole table. `may_replace`: the share of changed rows, which
    Spark counts, may be too large for an incremental run.
    """

    unique_id: str
    strategy: str
    action: Action
    reason: str
    rows: int | None = None
    reads: tuple[str, ...] = ()
    pending: tuple[PendingChanges, ...] = ()
    is_whole: bool = False
    may_replace: bool = False
    lookups: tuple[str, ...] = ()


def planned_run(
    session: LogSession, node: Mapping[str, Any], target: DbtRelation, code: str
) -> PlannedRun:
    """Return the next run of a model.

    `code` is its compiled SQL, whose marked inputs have no versions.
    """
    planning = _Planning(session, node, target)
    try:
        return planning.plan(code)
    except Unknown as error:
        return planning.result("unknown", f"only Spark knows {error}")
    except (UserError, Unproven) as error:
        return planning.result("refused", str(error))
    except DbtRuntimeError as error:
        return planning.result("refused", first_line(error))


def planned_load(
    tables: LogTables, node: Mapping[str, Any], checksum: Callable[[], str], always: bool
) -> PlannedRun:
    """Return the next run of a seed. `checksum` is that of its file, as the run computes it."""
    name = table_name(node)
    state = tables.state(name)
    key, reason = str(node["unique_id"]), None
    try:
        digest = checksum()
    except DbtRuntimeError as error:
        return PlannedRun(key, "seed", "refused", first_line(error))
    if state is None:
        reason = "first load"
    elif always:
        reason = "full_refresh is set"
    elif not is_of_seed(state.properties, digest):
        reason = "its file or settings changed since its last load"
    elif not was_loaded_last(commit.operation for commit in tables.history(name, 20)):
        reason = "another writer changed its table"
    return PlannedRun(key, "seed", "load" if reason else "no changes", reason or "no changes")


class _Planning:
    """The planning of one run, with the facts so far."""

    def __init__(self, session: LogSession, node: Mapping[str, Any], target: DbtRelation) -> None:
        self.session, self.node, self.target = session, node, target
        self.strategy = str(node["config"].get("incremental_strategy"))
        self.reads: tuple[str, ...] = ()
        self.lookups: tuple[str, ...] = ()
        self.may_replace = False

    def plan(self, code: str) -> PlannedRun:
        session, state = self.session, self.session.tables.state(str(self.target))
        if state is None:
            return self._first_build(code)
        noted = TableState(session.tables.properties(str(self.target)))
        if not is_of_model(noted.properties):
            raise Unknown("the loss of replacing a table that no run of the model built")
        model = self._model(code, noted.properties)
        try:
            plan = make_plan(model, exists=True, state=noted, weigh=self._weighed)
        except Unknown:
            if _is_of_other_sql(model, noted):
                reason = "the SQL changed: patched if Spark gives the same types, else replaced"
                return self.result("unknown", reason)
            raise
        model = require_proof(model, plan)
        return self._of_plan(model, plan)

    def _first_build(self, code: str) -> PlannedRun:
        decision = deciding.of_request(
            exists=False, is_empty=False, is_sample=False, full_refresh=False
        )
        assert decision is not None
        try:
            model = self._model(code, {})
            if "derivation" not in model.config:
                prove(model)
        except Unknown:
            pass  # an input has no table yet
        return self.result("first build", decision.reason, is_whole=True)

    def _model(self, code: str, properties: Mapping[str, str]) -> Model:
        """Return the model with its inputs at their newest versions."""
        session = self.session
        texts = {}
        for spec in inputs_of(code):
            options = {
                name: value
                for name, value in spec.items()
                if name not in ("kind", "source", "version", "at", "text")
            }
            texts[spec["text"]] = pinned(session, spec["kind"], spec["source"], options)
        settled = settle(session, self.node, with_inputs(code, texts), properties)
        existing = self.target if properties else None
        model = Model(self.node, self.target, existing, settled.code, settled.config, session)
        self.strategy = model.strategy.configured_as
        inputs = inputs_of(settled.code)
        self.reads = tuple(dict.fromkeys(spec["source"] for spec in inputs))
        if model.settings.on_lookup_change != "ignore":
            self.lookups = tuple(spec["source"] for spec in inputs if spec["kind"] == "lookup")
        return model

    def _weighed(self, model: Model, plan: Plan) -> Plan:
        """Decide by the share of changed rows, or name the limit if only Spark can count it."""
        try:
            return cheaper_way(model, plan)
        except Unknown:
            self.may_replace = True
            above = model.settings.replace_above
            if above is None:
                above = deciding.most_of_rows(deciding.way_of_ranges(plan.ranges.values()))
            then = "is refused" if model.refresh == "strict" else "replaces"
            reason = f"{plan.rows} rows changed: up to {100 * above:g} %, {then} above"
            return plan.decided(deciding.Decision("incremental", reason))

    def _of_plan(self, model: Model, plan: Plan) -> PlannedRun:
        is_whole = plan.compares or (plan.choice == "replace" and not plan.patch)
        reaction = deciding.of_refresh(model.refresh, is_requested=plan.is_requested)
        lookups = () if model.settings.on_lookup_change == "ignore" else plan.lookups.values()
        changes = (*plan.ranges.values(), *lookups)
        pending = tuple(
            PendingChanges(one.source, one.after, one.to, None if one.uncounted else one.rows)
            for one in changes
        )
        is_counted = plan.rows > 0 or plan.choice == "skip"
        rows = plan.rows if is_counted else None
        facts = {"rows": rows, "pending": pending, "is_whole": is_whole}
        if is_whole and reaction == "refused":
            return self.result("refused", f"refresh is strict: {plan.reason}", **facts)
        return self.result(_action(model, plan), plan.reason, **facts)

    def result(self, action: Action, reason: str, **facts: Any) -> PlannedRun:
        """Return the planned run with the facts so far."""
        return PlannedRun(
            unique_id=str(self.node["unique_id"]),
            strategy=self.strategy,
            action=action,
            reason=reason,
            reads=self.reads,
            lookups=self.lookups,
            may_replace=self.may_replace,
            **facts,
        )


def _action(model: Model, plan: Plan) -> Action:
    if plan.patch:
        return "patch"
    if plan.compares:
        return "compare"
    if plan.choice == "skip":
        return "no changes"
    if plan.choice == "replace":
        return "replace"
    if model.strategy.name == "change_feed" and strategy_for(model).way(plan) == "inserts":
        return "append"
    return "merge"


def _is_of_other_sql(model: Model, noted: TableState) -> bool:
    after = built_by(model.session, model.sql, model.config)
    return without_format(noted.sql or "") != without_format(after)
