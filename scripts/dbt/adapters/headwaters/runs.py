"""The runs of incremental models for macros: dbt's context and adapter behind protocols."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from dbt.adapters.contracts.relation import RelationType
from dbt.adapters.headwaters.connections import current
from dbt.adapters.headwaters.errors import OneLineError
from dbt.adapters.headwaters.views import Views

from headwaters.platform import dbt_compat
from headwaters.platform.delta_version import NOT_A_DELTA_TABLE
from headwaters.platform.errors import UserError
from headwaters.platform.fields import text_of
from headwaters.platform.nodes import place_of
from headwaters.platform.places import join
from headwaters.platform.problems import Problem
from headwaters.platform.spark_mistakes import with_file_lines
from headwaters.platform.spark_version import VIEW_INSTEAD_OF_TABLE, decides_rows
from headwaters.platform.sql import identifier
from headwaters.runs import run
from headwaters.runs.change_set_cache import ChangeSetCache
from headwaters.runs.checks import Unproven, check_model
from headwaters.runs.client_rows import ClientRows
from headwaters.runs.comparing import differences_sql
from headwaters.runs.foreign_tables import loss_of
from headwaters.runs.inputs import at_versions, input_sql, inputs_of, marked, without_versions
from headwaters.runs.model import Model
from headwaters.runs.pinned_inputs import pinned
from headwaters.runs.proving import prove
from headwaters.runs.session import Connection, Macros
from headwaters.runs.settling import SettledModel, settle
from headwaters.runs.state import TableState, read_state, state_properties
from headwaters.runs.strategies import strategy_for
from headwaters.runs.view_definitions import OtherSetting, View
from headwaters.runs.work import drop_staging_table
from headwaters.tables.checks import as_seen_by, setting_problems
from headwaters.tables.commits import Commit, as_mapping
from headwaters.tables.settings import run_config, strategy_problems
from headwaters.tables.table_folders import check_table_of_stream

if TYPE_CHECKING:
    from dbt.adapters.headwaters.impl import HeadwatersAdapter, RunResponse

Context = Mapping[str, Any]
P = ParamSpec("P")
T = TypeVar("T")

# The errors for a table that is not Delta, or for a view.
_NO_DELTA = (VIEW_INSTEAD_OF_TABLE, *NOT_A_DELTA_TABLE)
_BUILDING = ("run", "build", "show", "retry", "run-operation")


@contextmanager
def dbt_errors() -> Iterator[None]:
    """Raise our errors as dbt's, which name their model."""
    try:
        yield
    except (UserError, Unproven) as error:
        text = str(error)
        raise OneLineError(with_file_lines(text, current.sql) if current.sql else text) from None


def raises_dbt_errors(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that raises our errors as dbt's."""

    @functools.wraps(function)
    def wrapped(*arguments: P.args, **options: P.kwargs) -> T:
        with dbt_errors():
            return function(*arguments, **options)

    return wrapped


class DbtConnection:
    """The warehouse, by dbt's adapter."""

    def __init__(self, adapter: HeadwatersAdapter) -> None:
        """Connect by an adapter."""
        self._adapter = adapter

    def execute(self, sql: str) -> None:
        """Execute a statement."""
        self.fetch(sql)

    def fetch(self, sql: str) -> Sequence[Any]:
        """Return the rows of a statement."""
        rows: Sequence[Any] = self._adapter.execute(sql, fetch=True)[1].rows
        return rows

    @property
    def views(self) -> Views | None:
        """Return the views, or None if every staging table is a table."""
        return self._adapter.views if self._adapter.views.is_shared else None

    def client_rows(self, sql: str, keys: Collection[str]) -> ClientRows | None:
        """Return the rows of a small query, or None if a staging table has to have them."""
        connections: Any = self._adapter.connections
        rows: ClientRows | None = connections.client_rows(sql, keys)
        return rows

    def columns(self, sql: str) -> Sequence[Any]:
        """Return the columns of a query."""
        columns: Sequence[Any] = self._adapter.get_column_schema_from_query(sql)
        return columns

    def columns_of(self, table: Any) -> Sequence[Any]:
        """Return the columns of a table."""
        if self.views:
            return self.views.columns_of(f"select * from {table}")
        columns: Sequence[Any] = self._adapter.get_columns_in_relation(table)
        return columns

    def properties(self, table: object) -> Mapping[str, str]:
        """Return the properties of a table."""
        return self._adapter.properties_of(str(table))

    def history(self, table: object, limit: int) -> list[Commit]:
        """Return the newest commits of a table at this moment."""
        commits: list[Commit] = self._adapter.commits_now(str(table), limit)
        return commits

    def drop(self, relation: Any) -> None:
        """Drop a table or view."""
        adapter: Any = self._adapter
        adapter.drop_relation(relation)


class DbtMacros:
    """The macros of a Jinja context."""

    def __init__(self, context: Context) -> None:
        """Call the macros of a context."""
        self._context = context

    def __call__(self, name: str, *arguments: object) -> Any:
        """Call a macro."""
        return self._context[name](*arguments)


class DbtSession:
    """An invocation of dbt, in the context of one node or operation."""

    def __init__(self, adapter: HeadwatersAdapter, context: Context) -> None:
        """Take the parts of a context."""
        self._adapter, self._context = adapter, context
        self.connection: Connection = DbtConnection(adapter)
        self.macros: Macros = DbtMacros(context)
        self.run_id: str = context["hw_run_id"]()
        self.graph: Mapping[str, Any] = context["graph"]
        self.selected: Sequence[str] = context["selected_resources"]
        self.has_hooks = adapter.has_hooks
        flags = context["flags"]
        self.is_empty = bool(getattr(flags, "EMPTY", False))
        self.is_sample = bool(getattr(flags, "SAMPLE", None))
        self.change_sets: ChangeSetCache = adapter.change_sets
        self.row_counts: MutableMapping[tuple[object, ...], int] = adapter.row_counts()

    def fingerprint(self, sql: str) -> dict[str, dict[str, str]]:
        """Return the context of a query: settings of the session, and functions."""
        return self._adapter.fingerprint(sql)

    def warn(self, text: str) -> None:
        """Show a warning."""
        self._context["exceptions"]["warn"](text)

    def newest_version(self, kind: str, source: str) -> dict[str, int] | None:
        """Return version and time of the newest commit of a table, or None for a view.

        A review pins inputs at the versions that it found first, by the var `headwaters_pins`:
        {source in lower case: {version, at}}.
        """
        found: dict[str, int] | None = self._context["var"]("headwaters_pins", {}).get(
            source.lower()
        ) or self._adapter.unchanged_version(source, self.selected)
        if found:
            return found
        answer = self._adapter.history_of(source, conditions=_NO_DELTA)
        if answer.failure is None:
            newest = answer.rows[0]
            return {"version": newest.version, "at": newest.at}
        if VIEW_INSTEAD_OF_TABLE in answer.failure:
            return None
        raise UserError(
            "HW_NOT_A_DELTA_TABLE",
            f"{kind}(): {source} is not a Delta table, so it does not say when it changes. Make it "
            "one (file_format: delta, or `convert to delta`), read a Delta table that has its "
            "rows, or set materialized: table, which reads all rows at each run.",
        )

    def other_settings(self, stored: Mapping[str, str]) -> list[OtherSetting]:
        """Return the settings of the session that differ from those that a view stores."""
        return self._adapter.other_settings(stored)

    def other_function(self, view: View) -> str | None:
        """Return a function without a schema that a view and the session resolve differently."""
        return self._adapter.other_function(view)

    def known_history(self, table: str, limit: int, back_to: int, up_to: int) -> list[Commit]:
        """Return the newest commits of a table: `limit`, or the invocation's cached ones."""
        commits: list[Commit] = self._adapter.history_of(table, limit, back_to, up_to).rows
        return commits

    def columns_at(self, table: str, commit: Mapping[str, Any]) -> Sequence[Any]:
        """Return the columns of a table at a commit, which models of an invocation share."""
        return self._adapter.columns_at(table, commit["version"], commit["at"])

    def properties_at(self, table: str, commit: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the properties of a table at a commit or later, which models share."""
        return self._adapter.properties_at(table, commit["version"], commit["at"])

    def noted_properties(self, node: Mapping[str, Any]) -> Mapping[str, str] | None:
        """Return the properties of a model's table, which models of an invocation share."""
        return self._adapter.noted_properties(node["schema"], node["alias"])

    def rows_by_log(self, table: str) -> int | None:
        """Return the rows of a small table by its log, which models of an invocation share."""
        return self._adapter.rows_by_log(table)

    def run_config(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a model's config with typed settings."""
        return typed_config(self._context["project_name"], node)

    def problem_of_unread(self, sql: str, inputs: Sequence[Mapping[str, Any]]) -> Problem | None:
        """Return the reason that SQL beyond the analysis cannot build a table, or None."""
        return self._adapter.problem_of_unread(sql, inputs)

    def cached(self, relation: Any) -> Any:
        """Return a relation from dbt's cache, or None if it does not exist."""
        return self._context["load_cached_relation"](relation)

    def note_unchanged(
        self, model: str, digest: str, tables: Mapping[str, Mapping[str, int]]
    ) -> None:
        """Note that a model with its tables at these commits has no changes."""
        self._adapter.no_op_cache.note(model, digest, tables)

    def seconds(self) -> float:
        """Return the time of a clock, in seconds."""
        return time.time()


def typed_config(project: str, node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a model's config with typed settings. `project` is the root project's name."""
    config = node["config"]
    seen = as_seen_by(project, node)
    problems = setting_problems(seen) or [*strategy_problems(config)]
    if problems:
        raise Unproven("\n".join(str(problem.at(place_of(node))) for problem in problems))
    return run_config(config)


@dataclass(frozen=True)
class StartedRun:
    """A run after its start: its model is settled and checked, and its pre-hooks come next."""

    session: DbtSession
    existing: Any
    full_refresh: bool
    digest: str | None
    adapter: HeadwatersAdapter
    unique_id: str
    model: Model | None = None
    state: TableState | None = None

    @raises_dbt_errors
    def finish(self) -> run.Outcome:
        """Run the model. Skip one that has not changed since an earlier run."""
        outcome = run.NO_CHANGES
        if self.model is not None:
            outcome = run.run(self.model, self.full_refresh, self.state, self.digest)
        for stage in self.adapter.change_sets.released_by(self.unique_id):
            drop_staging_table(self.session.connection, stage)
        return outcome

    def response(self, outcome: run.Outcome) -> RunResponse:
        """Return the outcome for run_results.json."""
        return self.adapter.run_response(outcome.message, outcome.choice, **outcome.counts)


def _at_newest(session: DbtSession, code: str) -> str:
    """Return the SQL with each pinned input at its newest version."""
    kinds = {one["source"]: one["kind"] for one in inputs_of(code) if one["version"] is not None}
    newest = {source: session.newest_version(kind, source) for source, kind in kinds.items()}
    return at_versions(code, {source: at for source, at in newest.items() if at})


class Runs:
    """The functions for macros: the methods of `adapter.runs`."""

    def __init__(self, adapter: HeadwatersAdapter) -> None:
        """Run by an adapter."""
        self._adapter = adapter

    @raises_dbt_errors
    def check_stream(self, schema: str, table: str, location: str) -> None:
        """Raise UserError if a stream's table has no rows here, and the lake has them elsewhere."""
        name = f"delta.{identifier(location)}"

        def has_rows() -> bool:
            answer = self._adapter.answer_of(f"describe detail {name}", _NO_DELTA)
            return any(row["numFiles"] for row in answer.rows)

        lake = self._adapter.config.credentials.home
        check_table_of_stream(lake, schema, table, location, has_rows)

    @raises_dbt_errors
    def begin(self, context: Context, target: Any, after_hooks: bool = False) -> StartedRun:
        """Settle and check a model. An unchanged model needs no settling.

        `after_hooks`: read the inputs at their present versions, since the model's hooks may have
        written to them after dbt compiled its SQL.
        """
        session = DbtSession(self._adapter, context)
        node, code = context["model"], context["compiled_code"]
        if after_hooks:
            code = _at_newest(session, code)
        existing = session.cached(context["this"])
        exists = existing is not None and existing.is_delta and not existing.is_view
        full_refresh = bool(context["should_full_refresh"]())
        digest = self._digest(session, context) if exists and not full_refresh else None
        begun = (session, existing, full_refresh, digest, self._adapter, node["unique_id"])
        if digest and self._adapter.is_unchanged(node["unique_id"], digest, session.selected):
            return StartedRun(*begun)
        state, is_auto = None, node["config"].get("incremental_strategy") == "auto"
        if exists and (is_auto or not full_refresh):
            state = read_state(session.connection, target)
        properties = state.properties if state and not full_refresh else {}
        settled = settle(session, node, code, properties)
        model = Model(node, target, existing, settled.code, settled.config, session)
        check_model(model)
        loss = None if full_refresh or (session.is_empty and state) else loss_of(model, state)
        if loss:
            raise Unproven(str(loss))
        return StartedRun(*begun, model, state)

    def _digest(self, session: DbtSession, context: Context) -> str | None:
        """Return a digest of the inputs of a model's plan other than its tables.

        Return None if a run must be planned, for example to repeat its warnings.
        """
        node, pinned_inputs = context["model"], context["var"]("headwaters_pins", {})
        if session.is_empty or session.is_sample or pinned_inputs or context["pre_hooks"]:
            return None
        if node["config"].get("incremental_proof") == "sample":
            return None
        sql = without_versions(context["compiled_code"])
        return self._adapter.digest_of_run(node, sql, session.graph)

    @raises_dbt_errors
    def input(
        self, context: Context, kind: str, relation: Any, options: Mapping[str, Any] | None = None
    ) -> str:
        """Return the SQL of an input, pinned to its newest version, with its marker.

        Only commands that build or show data pin. Parse, docs and lint see the plain relation, and
        so does a unit test's fixture.
        """
        spec = {
            **(options or {}),
            "kind": kind,
            "source": str(relation),
            "version": None,
            "at": None,
        }
        if not context["execute"]:
            return input_sql(spec)
        if relation.is_cte:
            if (context.get("model") or {}).get("resource_type") == "model":
                name = relation.identifier.replace("__dbt__cte__", "", 1)
                raise UserError(
                    "HW_EPHEMERAL_INPUT",
                    f"{kind}(ref('{name}')): an ephemeral model is no table, so it has no changes. "
                    f"Write {kind}() in it, around what it reads, and here the ref() alone.",
                )
            return input_sql(spec)
        is_whole = relation.limit is None and relation.event_time_filter is None
        if context["flags"].WHICH in _BUILDING and is_whole:
            return pinned(DbtSession(self._adapter, context), kind, str(relation), options or {})
        return marked(spec)

    @raises_dbt_errors
    def explain(self, context: Context, node: Mapping[str, Any], relation: Any) -> str:
        """Explain the next run of a model and the reasons for it, in lines."""
        from headwaters.runs import explaining  # no run needs it

        if node["language"] == "python":
            return explaining.explain_python(node)
        session = DbtSession(self._adapter, context)
        code = dbt_compat.compiled(context, node["unique_id"])
        return explaining.explain(session, node, code, relation)

    @raises_dbt_errors
    def planned(
        self,
        context: Context,
        models: Sequence[str],
        seeds: Sequence[str],
        tables: Mapping[str, str],
    ) -> str:
        """Return the next runs of compiled models and of seeds as JSON, by the logs of tables.

        `tables` has their folders. Runs no statement.
        """
        from headwaters.report.log_session import LogSession, LogTables  # no run needs them
        from headwaters.report.planned_runs import planned_load, planned_run

        credentials = self._adapter.config.credentials
        logs = LogTables({name: join(credentials.home, at) for name, at in tables.items()})
        given = credentials.server_side_parameters
        settings = {name: text_of(value) for name, value in given.items() if decides_rows(name)}
        project, graph, found = context["project_name"], context["graph"], []
        for name in models:
            node = graph["nodes"][name]
            target: Any = self._adapter.Relation.create(
                schema=node["schema"],
                identifier=node["alias"],
                type=RelationType.Table,
                is_delta=True,
            )
            state = logs.state(str(target))
            session = LogSession(
                tables=logs,
                graph=graph,
                config_of=functools.partial(typed_config, project),
                noted_sql=TableState(state.properties).sql if state else None,
                settings=settings,
            )
            found.append(asdict(planned_run(session, node, target, node["compiled_code"])))
        for name in seeds:
            of_seed = dbt_compat.context_of(context, name)
            always, checksum = of_seed["should_full_refresh"](), of_seed["hw_seed_checksum_of_file"]
            found.append(asdict(planned_load(logs, graph["nodes"][name], checksum, always)))
        return json.dumps(found)

    @raises_dbt_errors
    def rebuilt(self, context: Context, node: Mapping[str, Any], relation: Any) -> Rebuilt:
        """Return the result of a model's full refresh, for a rebuild."""
        session = DbtSession(self._adapter, context)
        code = dbt_compat.compiled(context, node["unique_id"])
        settled: SettledModel = settle(session, node, code, {})
        config = settled.config
        model = Model(node, relation, relation, settled.code, config, session)
        if not config.get("derivation") and config.get("incremental_proof") != "sample":
            prove(model, context["hw_named"](relation))
        columns = session.connection.columns_of(relation)
        rows = strategy_for(model).full_refresh_sql(model.sql, columns)
        return Rebuilt(rows, config, model)

    @raises_dbt_errors
    def full_refresh_sql(
        self, context: Context, node: Mapping[str, Any], relation: Any
    ) -> str | None:
        """Return the SQL of a table's correct rows at the applied versions of its inputs.

        Return None if no run of a model built the table.
        """
        session = DbtSession(self._adapter, context)
        state = read_state(session.connection, relation)
        if state.sql is None or state.inputs is None:
            return None
        model = Model(node, relation, relation, "", node["config"], session)
        sql = at_versions(state.sql, state.inputs)
        columns = session.connection.columns_of(relation)
        return strategy_for(model).full_refresh_sql(sql, columns)

    @raises_dbt_errors
    def differences_sql(
        self, context: Context, node: Mapping[str, Any], relation: Any, sample_keys: int | None
    ) -> str:
        """Return the SQL of the rows that only a table or only its full refresh has."""
        session = DbtSession(self._adapter, context)
        rows = self.full_refresh_sql(context, node, relation)
        properties = read_state(session.connection, relation).properties
        noted = as_mapping(properties.get("headwaters.proof"))
        return differences_sql(session, node, relation, rows, sample_keys, noted.get("ties") or ())


@dataclass(frozen=True)
class Rebuilt:
    """The result of a model's full refresh: the SQL of its rows, and its settings."""

    sql: str
    config: Mapping[str, Any]
    model: Model

    @raises_dbt_errors
    def state_properties(self) -> dict[str, str]:
        """Return the properties with the state of the rebuilt table."""
        return state_properties(self.model, inputs_of(self.model.sql))
