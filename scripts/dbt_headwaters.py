"""The plugin that dbt starts: what headwaters changes in dbt itself.

dbt imports every module named `dbt_*` and starts the classes in its `plugins`
(https://github.com/dbt-labs/dbt-core: dbt/plugins/manager.py).

- `method: session` gets a cursor that answers in one line: headwaters/dbt_session.py.
- `tblproperties` and `maintenance` of a layer, a folder and a model add up, as `meta` does: dbt
  would take the model's alone, and a model that names one property would lose its layer's change
  data feed.
- `adapter.run_response` gives a materialization's result with its counts, for run_results.json.
- `adapter.prepared_sql`, `adapter.names_in`, `adapter.without_texts` and `adapter.weight_column`
  tell what a model's SQL says: headwaters/incremental/sql_text.py.
- `adapter.failure_of` runs a statement that may fail: Jinja cannot catch an error.
- `adapter.answer_of` does so and gives the rows, or what failed.
- `adapter.commits_of`, `adapter.range_of`, … decide what macros only carry out:
  headwaters/incremental.
- `adapter.drift_of`, `adapter.policy_of`, … compare what is declared with what is there, and what
  nodes declare wrongly is an error while dbt parses: headwaters/declared.
- `adapter.erasure` begins the erasure of a person: headwaters/erasing.py.
- What `dbt run-operation` is told is checked against the YAML of macros: headwaters/arguments.py.
- Ctrl-C ends a run without dbt's stack trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dbt.adapters.base.column import Column
from dbt.adapters.base.meta import available
from dbt.adapters.contracts.connection import AdapterResponse
from dbt.adapters.spark.connections import SparkConnectionManager
from dbt.adapters.spark.impl import SparkAdapter, SparkConfig
from dbt.contracts.graph.manifest import Manifest
from dbt.plugins.contracts import PluginArtifacts
from dbt.plugins.manager import dbtPlugin
from dbt.task.run_operation import RunOperationTask
from dbt_common.contracts.config.base import BaseConfig, MergeBehavior
from dbt_common.exceptions import CompilationError, DbtRuntimeError
from dbt_common.invocation import get_invocation_id

from headwaters.arguments import check_arguments
from headwaters.dbt_session import end_on_interrupt, install_cursor, rows_of
from headwaters.declared import (
    checks,
    drift,
    expectations,
    names,
    policy,
    properties,
    streams,
    units,
)
from headwaters.erasing import Erasure, read_value
from headwaters.errors import UserError
from headwaters.incremental import (
    bounds,
    commits,
    plan,
    recovery,
    sql_text,
    strategies,
    surroundings,
)
from headwaters.incremental.failures import NOT_UTF8, lost_feed
from headwaters.incremental.grouping import Grouping, grouping_of, texts_of


class Headwaters(dbtPlugin):
    """Installs the cursor when dbt first opens a connection: `dbt parse` needs no pyspark."""

    def initialize(self) -> None:
        """Called by dbt once for each invocation."""
        end_on_interrupt()
        _add_up_table_properties()
        _check_operations()
        _offer(
            run_response=_run_response,
            failure_of=_failure_of,
            answer_of=_answer_of,
            erasure=_erasure,
        )
        _offer(read_changes=_read_changes, readable_from=_readable_from)
        _offer(
            grouping_of=staticmethod(_grouping_of),
            texts_of=staticmethod(_texts_of),
            commits_of=staticmethod(commits.commits_of),
            range_of=staticmethod(commits.range_of),
            replacements=staticmethod(commits.replacements),
            first_known=staticmethod(commits.first_known),
            as_mapping=staticmethod(commits.as_mapping),
            milliseconds=staticmethod(commits.milliseconds),
            applied_versions=staticmethod(recovery.applied_versions),
            since=staticmethod(recovery.since),
            signature=staticmethod(recovery.signature),
            surroundings=_surroundings,
            bounds_of=staticmethod(bounds.bounds_of),
            within_bounds=staticmethod(bounds.within_bounds),
            has_keys=staticmethod(bounds.has_keys),
            strategy_of=staticmethod(strategies.strategy_of),
            strategy_names=staticmethod(strategies.strategy_names),
            plan_of_request=staticmethod(plan.of_request),
            plan_of_state=staticmethod(plan.of_state),
            plan_of_changes=staticmethod(plan.of_changes),
            plan_of_share=staticmethod(plan.of_share),
            is_worth_asking=staticmethod(plan.is_worth_asking),
            columns_read=staticmethod(plan.columns_read),
            prepared_sql=staticmethod(sql_text.prepared),
            names_in=staticmethod(sql_text.names),
            without_texts=staticmethod(sql_text.without_texts),
            weight_column=staticmethod(sql_text.weight_column),
            view=staticmethod(sql_text.view),
            with_relations=staticmethod(sql_text.with_relations),
        )
        _offer(
            stream_tables=staticmethod(_stream_tables),
            milliseconds_of=staticmethod(units.milliseconds_of),
            or_nearest=staticmethod(names.or_nearest),
            declared_properties=staticmethod(properties.declared_properties),
            created_properties=staticmethod(properties.created_properties),
            declared_table=staticmethod(drift.declared_table),
            drift_of=staticmethod(drift.drift_of),
            described_columns=staticmethod(drift.described_columns),
            comment_drift=staticmethod(drift.comment_drift),
            undo_of=staticmethod(drift.undo_of),
            drift_lines=staticmethod(drift.drift_lines),
            plan_lines=staticmethod(drift.plan_lines),
            policy_of=staticmethod(policy.policy_of),
            expectations_of=staticmethod(expectations.expectations_of),
            graph_problems=staticmethod(checks.graph_problems),
        )
        opening = SparkConnectionManager.open
        if getattr(opening, "headwaters", False):
            return

        def open_connection(cls: Any, connection: Any) -> Any:
            if connection.credentials.method == "session":
                install_cursor()
            return opening.__func__(cls, connection)  # type: ignore[attr-defined]  # a class method

        setattr(open_connection, "headwaters", True)  # noqa: B010 - mypy knows no such field
        setattr(SparkConnectionManager, "open", classmethod(open_connection))  # noqa: B010 - a patch

    def get_manifest_artifacts(self, manifest: Manifest) -> PluginArtifacts:
        """Refuse what nodes declare wrongly; called by each command that writes the manifest."""
        problems = checks.manifest_problems(manifest)
        if problems:
            raise CompilationError("\n".join(map(str, problems)))
        return {}

    # the mark of `dbt_hook`, which would put the method's name before the text of the error
    setattr(get_manifest_artifacts, "is_dbt_hook", True)  # noqa: B010 - mypy knows no such field


plugins = [Headwaters]


@dataclass
class _Config(SparkConfig):
    tblproperties: dict[str, Any] | None = field(default=None, metadata=MergeBehavior.Update.meta())
    maintenance: dict[str, Any] | None = field(default=None, metadata=MergeBehavior.Update.meta())


def _add_up_table_properties() -> None:
    SparkAdapter.AdapterSpecificConfigs = _Config
    # the same for what a model says in its SQL and in its YAML
    names = BaseConfig.mergebehavior["update"]
    names.extend(name for name in ("tblproperties", "maintenance") if name not in names)


def _check_operations() -> None:
    """Check the arguments of each of the project's own operations before it begins."""
    running = RunOperationTask._run_unsafe
    if getattr(running, "headwaters", False):
        return

    def run_checked(task: Any, package: str | None, name: str) -> Any:
        project = task.config.project_name
        macro = task.manifest.find_macro_by_name(name, project, package)
        # without YAML there is nothing to check against
        if macro is not None and macro.package_name == project and macro.patch_path:
            declared = {argument.name: argument.type for argument in macro.arguments}
            try:
                check_arguments(name, declared, task.args.args)
            except UserError as error:
                raise CompilationError(str(error)) from None
        return running(task, package, name)

    setattr(run_checked, "headwaters", True)  # noqa: B010 - mypy knows no such field
    setattr(RunOperationTask, "_run_unsafe", run_checked)  # noqa: B010 - a patch


@dataclass
class RunResponse(AdapterResponse):
    """What a run of a model did, as `adapter_response` in run_results.json.

    `rows_*` are rows of the model's table, `input_rows` the changed rows of its inputs, whether
    they changed anything or not, `bytes_written` those of the rows that were written.
    """

    rows_inserted: int | None = None
    rows_updated: int | None = None
    rows_deleted: int | None = None
    input_rows: int | None = None
    bytes_written: int | None = None


@available
def _run_response(adapter: SparkAdapter, message: str, code: str, **counts: Any) -> RunResponse:
    return RunResponse(_message=message, code=code, **counts)


@available
def _failure_of(adapter: SparkAdapter, sql: str) -> str | None:
    try:
        adapter.execute(sql)
    except DbtRuntimeError as error:
        return str(error.msg).splitlines()[0]
    return None


@available
def _surroundings(adapter: SparkAdapter, sql: str) -> dict[str, dict[str, str]]:
    """What a model's rows depend on besides its SQL: settings of the session, SQL functions."""

    def ask(statement: str) -> list[Any]:
        credentials = adapter.config.credentials
        if credentials.method == "session":
            return rows_of(credentials.server_side_parameters, statement)
        return list(adapter.execute(statement, fetch=True)[1])

    def describe(name: str) -> list[str]:
        try:
            return [str(row[0]) for row in ask(f"describe function extended {name}")]
        except DbtRuntimeError:
            return []  # Spark says so itself where the model calls it

    run = get_invocation_id()
    if run not in _asked:
        _asked.clear()
        settings = {name: str(ask(f"set {name}")[0][1]) for name in surroundings.SETTINGS}
        _asked[run] = settings, [str(row[0]) for row in ask("show user functions")]
    settings, known = _asked[run]
    return {
        "settings": settings,
        "functions": surroundings.definitions(sql, known, describe),
    }


# The session's settings and the names of its functions, asked once for each invocation of dbt.
_asked: dict[str, tuple[dict[str, str], list[str]]] = {}


@dataclass(frozen=True)
class Reading:
    """What a statement that reads change feeds gave: `rows`, or `gap`, why a feed has lost them.

    `garbled`: the input whose feed has U+FFFD, which may be what the input has.
    """

    rows: Any = ()
    gap: str | None = None
    garbled: str | None = None


@available
def _read_changes(adapter: SparkAdapter, sql: str, feeds: Mapping[str, str]) -> Reading:
    """Run a statement over change feeds: pairs of an input and its `table_changes(…)`.

    Where it fails, each feed is read for itself: other errors than that of a feed that is lost are
    raised as they are.
    """
    try:
        _, table = adapter.execute(sql, fetch=True)
    except DbtRuntimeError as error:
        for source, feed in feeds.items():
            cause = _lost_feed(adapter, feed) if not isinstance(error, KeyboardInterrupt) else None
            if cause is not None:
                gap = f"the change feed of {source} cannot be read, {cause}"
                return Reading(gap=gap, garbled=source if cause == NOT_UTF8 else None)
        raise
    return Reading(rows=table.rows)


@available
def _readable_from(adapter: SparkAdapter, literal: str, versions: Sequence[int], to: int) -> int:
    """The least of `versions` after which the feed of a table can be read up to version `to`.

    `literal` is the table's name as a literal of SQL, `versions` ascend: see `first_readable`.
    """

    def is_readable(version: int) -> bool:
        return _lost_feed(adapter, f"table_changes({literal}, {version + 1}, {to})") is None

    return commits.first_readable(versions, is_readable)


def _lost_feed(adapter: SparkAdapter, feed: str) -> str | None:
    """Why a change feed cannot be read; another error than of one that is lost says nothing."""
    try:
        adapter.execute(f"select count(*) from {feed}", fetch=True)
    except DbtRuntimeError as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return lost_feed(error)
    return None


def _grouping_of(columns: Sequence[Column]) -> Grouping | None:
    return grouping_of((column.name, column.dtype) for column in columns)


def _stream_tables(node: Mapping[str, Any]) -> list[streams.StreamTable]:
    try:
        return streams.stream_tables(node)
    except UserError as error:
        raise CompilationError(str(error)) from None


def _texts_of(columns: Sequence[Column]) -> list[str]:
    return texts_of((column.name, column.dtype) for column in columns)


@available
def _erasure(
    adapter: SparkAdapter, kind: str, name: str, given: Any, columns: Sequence[str]
) -> Erasure:
    """The erasure of a subject, whose value `given` names the place of; see headwaters/erasing.py.

    `name`: the column or kind under which a person named it.
    """
    try:
        value = read_value(given, name, Path.cwd())
    except UserError as error:
        raise CompilationError(str(error)) from None
    _, cursor = adapter.connections.add_query("select 1")
    config = adapter.config
    artifacts = [Path(config.project_target_path), Path(config.log_path)]
    return Erasure(cursor._cursor._df.sparkSession, kind, value, columns, artifacts)


@dataclass(frozen=True)
class Answer:
    """The rows of a statement, or the line with which it failed."""

    rows: Any
    failure: str | None


@available
def _answer_of(adapter: SparkAdapter, sql: str, conditions: list[str]) -> Answer:
    """Run a query that may fail with one of these error conditions of Spark."""
    try:
        return Answer(adapter.execute(sql, fetch=True)[1].rows, None)
    except DbtRuntimeError as error:
        failure = str(error.msg).splitlines()[0]
        if not any(condition in failure for condition in conditions):
            raise
        return Answer([], failure)


def _offer(**methods: Any) -> None:
    for name, method in methods.items():
        setattr(SparkAdapter, name, method)
    SparkAdapter._available_ |= set(methods)
