"""The adapter that dbt and the macros call, with the additions to dbt-spark.

- `tblproperties` and `maintenance` of a layer, a folder and a model are merged, as `meta` is: dbt
  would take only the model's, and a model that names one property would lose its layer's change
  data feed.
- A table without a `file_format` is a Delta table.
- Decisions are in modules that know neither dbt nor Spark: `SUBJECTS` gives them to the macros.
- A method here runs a statement that may fail, since Jinja cannot catch an error.
- The arguments of `dbt run-operation` are checked against the YAML of our macros.
- Ctrl-C ends a run without dbt's stack trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.context import SpawnContext
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dbt.adapters.base.meta import available
from dbt.adapters.contracts.connection import AdapterResponse
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.headwaters import errors
from dbt.adapters.headwaters.__version__ import version
from dbt.adapters.headwaters.columns import HeadwatersColumn
from dbt.adapters.headwaters.connections import (
    HeadwatersConnectionManager,
    current,
    end_on_interrupt,
)
from dbt.adapters.headwaters.relation import HeadwatersRelation
from dbt.adapters.headwaters.runs import Runs, dbt_errors, raises_dbt_errors
from dbt.adapters.headwaters.views import Views
from dbt.adapters.spark.impl import SparkAdapter, SparkConfig
from dbt_common.clients.agate_helper import merge_tables, table_from_data
from dbt_common.contracts.config.base import MergeBehavior
from dbt_common.exceptions import DbtRuntimeError
from dbt_common.invocation import get_invocation_id

from headwaters import analysis
from headwaters.platform import dbt_compat, names, nodes, text, units
from headwaters.platform.arguments import check_arguments
from headwaters.platform.errors import UserError, first_line
from headwaters.platform.problems import Problem
from headwaters.platform.spark_mistakes import SqlText
from headwaters.platform.spark_version import NO_GRANTS, SETTINGS_OF_RESULTS, decides_rows
from headwaters.platform.sql import quoted_table
from headwaters.query.statements import split
from headwaters.runs import (
    no_op_cache,
    session_fingerprint,
    snapshots,
    stock,
    view_definitions,
)
from headwaters.runs.change_set_cache import ChangeSetCache
from headwaters.runs.histories import COMMITS, Histories
from headwaters.runs.no_op_cache import NewestCommit, NoOpCache
from headwaters.runs.view_definitions import OtherSetting, View
from headwaters.streams import declared_tables
from headwaters.tables import (
    checks,
    commits,
    delta_log,
    drift,
    maintenance,
    model_contracts,
    named_tables,
    policy,
    properties,
    setting_types,
    vars_and_targets,
    versions,
)
from headwaters.tables.properties import is_redacted
from headwaters.tables.setting_types import is_empty

if TYPE_CHECKING:
    from headwaters.tables.erasure_run import Erasure

# The package of our macros: scripts/dbt/include/headwaters/dbt_project.yml.
PACKAGE = "dbt_headwaters"

dbt_compat.merge_levels_of(("tblproperties", "maintenance"))
# Packages ask `target.type` for the engine that will read their SQL.
dbt_compat.show_type_of_target("headwaters", "spark")


@dataclass
class HeadwatersConfig(SparkConfig):
    """The keys of a node's config beyond dbt's own names."""

    file_format: str = "delta"
    tblproperties: dict[str, Any] | None = field(default=None, metadata=MergeBehavior.Update.meta())
    maintenance: dict[str, Any] | None = field(default=None, metadata=MergeBehavior.Update.meta())

    @classmethod
    def _merge_dicts(cls, src: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
        """Merge one level of config; `file_format` has its default from the first level on.

        dbt calls this for each level. It reads no default of an adapter's config, and dbt-spark's
        macros read a missing `file_format` as Parquet.
        """
        if is_empty(data.get("file_format")):
            data.pop("file_format", None)
        merged = super()._merge_dicts(src, data)
        if "materialized" in src and "file_format" not in src:
            merged.setdefault("file_format", cls.file_format)
        return merged


@dataclass
class RunResponse(AdapterResponse):
    """The result of a model's run, as `adapter_response` in run_results.json.

    `rows_*` count rows of the model's table. `input_rows` counts the changed rows of its inputs,
    including those that changed nothing. `bytes_written` is the size of the written rows. `seconds`
    counts from the start of the work.
    """

    rows_inserted: int | None = None
    rows_updated: int | None = None
    rows_deleted: int | None = None
    input_rows: int | None = None
    bytes_written: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Answer:
    """The rows of a statement, or the error line of its failure."""

    rows: Any
    failure: str | None


def _refuse(problems: Iterable[Problem]) -> None:
    """Raise all problems, one a line; return if there are none."""
    if lines := "\n".join(map(str, problems)):
        errors.refuse(lines)


def _variables(config: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the variables of `dbt_project.yml` and of the command line.

    Of the project's variables, it returns those of this package and those that belong to no
    package.
    """
    declared = config.vars.to_dict() if hasattr(config, "vars") else {}
    for package in (getattr(config, "project_name", None), PACKAGE):
        scoped = declared.get(package)
        declared = {**declared, **(scoped if isinstance(scoped, dict) else {})}
    return declared, getattr(config, "cli_vars", None) or {}


class Subject:
    """The functions of a module for macros, whose errors are dbt's."""

    def __init__(self, module: ModuleType) -> None:
        """Offer the functions of a module."""
        self._module = module

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a function."""
        function: Callable[..., Any] = getattr(self._module, name)
        return raises_dbt_errors(function)


# The modules that decide without a statement. Macros call them, also while dbt parses:
# `adapter.drift.drift_of(…)`.
SUBJECTS = {
    "analysis": analysis,
    "checks": checks,
    "commits": commits,
    "contracts": model_contracts,
    "drift": drift,
    "maintenance": maintenance,
    "named_tables": named_tables,
    "names": names,
    "nodes": nodes,
    "policy": policy,
    "properties": properties,
    "refusals": errors,
    "snapshots": snapshots,
    "stock": stock,
    "streams": declared_tables,
    "text": text,
    "units": units,
    "versions": versions,
}


def _lines_before(file: Path, raw: str) -> int:
    """Return the number of lines of a file before the SQL of its node; 0 if it cannot be read."""
    try:
        return file.read_text("utf-8").partition(raw)[0].count("\n") if raw else 0
    except (OSError, ValueError):
        return 0


class HeadwatersAdapter(SparkAdapter):
    """The adapter of dbt-spark with the Python functions of this package."""

    ConnectionManager = HeadwatersConnectionManager
    Column = HeadwatersColumn
    AdapterSpecificConfigs = HeadwatersConfig
    Relation = HeadwatersRelation

    def __init__(self, config: Any, mp_context: SpawnContext) -> None:
        """Create the adapter of an invocation; dbt calls this once."""
        super().__init__(config, mp_context)
        # `dbt debug` has only a profile, and works in the project's folder
        with dbt_errors():
            config.credentials.settle(Path(getattr(config, "project_root", None) or Path.cwd()))
        declared, given = _variables(config)
        _refuse(vars_and_targets.variable_problems(declared, given))
        self._variables = {**declared, **given}
        self._has_begun = False
        end_on_interrupt()
        # The session's settings of results and the names of its functions, by its state.
        self._asked: dict[tuple[str, int], tuple[dict[str, str], list[str]]] = {}
        # The settings that the session sets, by its state.
        self._session_sets: dict[tuple[str, int], dict[str, str]] = {}
        # Descriptions of functions, by invocation and the first model that needs them.
        self._described: dict[tuple[str, str], dict[str, list[str]]] = {}
        # The columns of tables at commits, by invocation.
        self._columns: dict[tuple[str, str, int, int], list[Any]] = {}
        # The properties of tables at commits or later, by invocation.
        self._properties: dict[tuple[str, str, int, int], dict[str, str]] = {}
        # The rows of tables at commits, by invocation.
        self._row_counts: dict[str, dict[tuple[object, ...], int]] = {}
        # The properties of tables that other models follow, by invocation.
        self._noted: dict[tuple[str, str, str], dict[str, str] | None] = {}
        # The rows of small tables, by invocation.
        self._rows_by_log: dict[tuple[str, str], int | None] = {}
        self._erasure: Erasure | None = None
        self._has_grants: bool | None = None  # unknown before the first model with grants
        self.change_sets = ChangeSetCache()
        self.views = Views(config.credentials)
        self.runs = Runs(self)
        target = Path(getattr(config, "project_target_path", "target"))
        self.no_op_cache = NoOpCache(target / "headwaters_unchanged.json")

    def valid_incremental_strategies(self) -> list[str]:
        """Return dbt-spark's strategies, and those that follow change feeds."""
        return [*analysis.strategy_names(), *setting_types.STOCK_STRATEGIES]

    @property
    def has_hooks(self) -> bool:
        """Return true if this package works at the begin and the end of a run."""
        return bool(self._variables.get("headwaters_hooks", True))

    def pre_model_hook(self, config: Any) -> Any:
        """Note the SQL of the node that this thread runs, and run its header.

        dbt calls this before each node. Spark runs one statement at a time, so a header cannot be
        in the same text as the node's statements.
        """
        node = config.model
        compiled = getattr(node, "compiled_code", None) or ""  # a seed has none
        before = _lines_before(Path(node.original_file_path), node.raw_code)
        current.sql = SqlText(node.original_file_path, node.raw_code, compiled, before)
        kind = str(node.resource_type)
        if kind in ("model", "seed", "snapshot") and (root := config.get("location_root")):
            self._check_location(str(root))
        if kind in ("model", "snapshot"):
            for statement in split(config.get("sql_header") or ""):
                self.execute(statement)
        return super().pre_model_hook(config)

    @raises_dbt_errors
    def _check_location(self, root: str) -> None:
        """Raise UserError if a node's tables are on S3, and two drivers may overwrite them."""
        credentials = self.config.credentials
        if credentials.method == "session":
            from dbt.adapters.headwaters import session  # `dbt parse` needs no pyspark

            settings = credentials.server_side_parameters
            session.check_location(settings, credentials.folder, root)

    def post_model_hook(self, config: Any, context: Any) -> None:
        """Drop the note of the node's SQL; dbt calls this after each."""
        current.sql = None
        super().post_model_hook(config, context)

    def clear_transaction(self) -> None:
        """Begin or end a run.

        dbt calls this before the hooks on-run-start and on-run-end, on the connection `master`.
        dbt would count hooks of this package among the results of the run.
        """
        super().clear_transaction()
        if not self.has_hooks or self.nice_connection_name() != "master":
            return
        if self._has_begun:
            self.execute_macro("hw_end_run", project=PACKAGE)
        else:
            self._has_begun = True
            arguments = {"ops_tests": self._variables.get("ops_tests", False)}
            self.execute_macro("hw_begin_run", project=PACKAGE, kwargs=arguments)

    def execute_macro(
        self,
        macro_name: str,
        macro_resolver: Any = None,
        project: str | None = None,
        context_override: dict[str, Any] | None = None,
        kwargs: dict[str, Any] | None = None,
        needs_conn: bool = False,
    ) -> Any:
        """Check the arguments of a `run-operation`, then run it; dbt calls this."""
        resolver = macro_resolver or self._macro_resolver
        macro: Any = resolver and resolver.find_macro_by_name(
            macro_name, self.config.project_name, project
        )
        # without YAML there is nothing to check against
        if macro and macro.package_name == PACKAGE and macro.patch_path:
            declared = {argument.name: argument.type for argument in macro.arguments}
            with dbt_errors():
                check_arguments(macro_name, declared, kwargs)
        return super().execute_macro(
            macro_name, macro_resolver, project, context_override, kwargs, needs_conn
        )

    def get_columns_in_relation(self, relation: Any) -> list[Any]:
        """Return the columns of a table or view; dbt calls this.

        `--empty` and `--sample` make a query of the relation, which DESCRIBE does not take.
        """
        columns = super().get_columns_in_relation(
            relation.replace(limit=None, event_time_filter=None)
        )
        return [HeadwatersColumn(**vars(column)) for column in columns]

    @available
    def lacking_grants(self, show_sql: str) -> str | None:
        """Return None if the catalog has grants, otherwise a warning, which is empty but once.

        `show_sql` shows the grants of a table.
        """
        if self._has_grants is None:
            answer = self.answer_of(show_sql, NO_GRANTS)
            self._has_grants = answer.failure is None
            if not self._has_grants:
                text = (
                    "this Spark has no GRANT, so the setting `grants` has no effect: remove it, or "
                    "give the permissions where the tables are stored"
                )
                return str(Problem("HW_NO_GRANTS", text))
        return None if self._has_grants else ""

    def _get_columns_for_catalog(self, relation: Any) -> Iterator[dict[str, Any]]:
        """Yield the columns of a table or view for `dbt docs generate`; dbt calls this.

        dbt-spark reads SHOW TABLE EXTENDED, which has no comments, and no size of a Delta table.
        """
        try:
            rows = self.execute_macro("get_columns_in_relation_raw", kwargs={"relation": relation})
            size = None
            if relation.is_delta and not relation.is_view:
                detail = self.execute(f"describe detail {relation}", fetch=True)[1].rows[0]
                size = f"{detail['sizeInBytes']} bytes"
        except DbtRuntimeError as error:  # dropped meanwhile, or a view whose table lost a column
            AdapterLogger("Spark").warning(f"no catalog of {relation}: {first_line(error)}")
            return
        columns = self.parse_describe_extended(relation, rows)
        about = {row["col_name"]: row["data_type"] for row in rows[len(columns) :]}
        for column, row in zip(columns, rows, strict=False):
            found = column.to_column_dict()
            yield {
                "column_name": found.pop("column"),
                "column_type": found.pop("dtype"),
                "column_comment": row["comment"],
                "table_database": None,
                "table_comment": about.get("Comment"),
                **found,
                **HeadwatersColumn.convert_table_stats(size),
            }

    def get_catalog(
        self, relation_configs: Iterable[Any], used_schemas: frozenset[tuple[str, str]]
    ) -> tuple[Any, list[Exception]]:
        """Return the columns of the project's tables, and of sources in other catalogs."""
        configs = list(relation_configs)
        elsewhere = [one for one in configs if nodes.is_other_catalog(one.database)]
        own = [one for one in configs if one not in elsewhere]
        found, problems = super().get_catalog(own, used_schemas)
        rows: list[dict[str, Any]] = []
        for source in elsewhere:
            relation = self.Relation.create_from(self.config, source, type=self.Relation.Table)
            columns = self._get_columns_for_catalog(relation)
            rows += ({**column, "table_database": source.database} for column in columns)
        if rows:
            found = merge_tables([found, table_from_data(rows, list(rows[0]))])
        return found, problems

    def run_response(self, message: str, code: str, **counts: Any) -> RunResponse:
        """Return a materialization's result with its counts, for run_results.json."""
        return RunResponse(_message=message, code=code, **counts)

    @available
    def failure_of(self, sql: str) -> str | None:
        """Run a statement that may fail; return its error line, or None."""
        try:
            self.execute(sql)
        except DbtRuntimeError as error:
            return first_line(error)
        return None

    def answer_of(self, sql: str, conditions: Sequence[str]) -> Answer:
        """Run a query that may fail with one of these error conditions of Spark."""
        try:
            return Answer(self.execute(sql, fetch=True)[1].rows, None)
        except DbtRuntimeError as error:
            failure = first_line(error)
            if not any(condition in failure for condition in conditions):
                raise
            return Answer([], failure)

    def problem_of_unread(self, sql: str, inputs: Sequence[Mapping[str, Any]]) -> Problem | None:
        """Return the reason why SQL that the analysis cannot read cannot build a table.

        Spark's plan names the tables that the SQL reads. If Spark refuses the SQL as well, it fails
        with Spark's own message.
        """
        query = sql.rstrip().rstrip(";")
        rows = self.execute(f"explain extended {query}", fetch=True)[1].rows
        plan = "\n".join(str(row[0]) for row in rows)
        if "Error occurred during query planning" in plan or "AnalysisException" in plan:
            self.execute(f"select * from ({query}\n) limit 0")
        return analysis.problem_of_unread(plan, sql, inputs)

    def history_of(
        self,
        table: str,
        limit: int = COMMITS,
        back_to: int | None = None,
        up_to: int | None = None,
        conditions: Sequence[str] = (),
    ) -> Answer:
        """Return the newest commits of a table: `limit` commits, or the cached ones.

        The cache serves if it has the version `up_to` and reaches back to `back_to`. The query may
        fail with one of these error conditions of Spark.
        """
        histories = self._histories()
        histories.begin(get_invocation_id())
        with histories.turn(table):
            known = histories.find(table, back_to, up_to)
            if known is not None:
                return Answer(known, None)
            return self._ask_history(table, limit, conditions)

    @available
    def commits_now(self, table: str, limit: int) -> list[commits.Commit]:
        """Return the current newest commits of a table without the cache."""
        self._histories().begin(get_invocation_id())
        answered: list[commits.Commit] = self._ask_history(table, limit).rows
        return answered

    def unchanged_version(self, table: str, models: Sequence[str]) -> dict[str, int] | None:
        """Return version and time of a table's newest commit, if an earlier run stored it.

        `models` are those of this invocation; their tables are checked together.
        """
        newest = self._unchanged_commit(table, models)
        return {"version": newest.version, "at": newest.at} if newest else None

    def columns_at(self, table: str, version: int, at: int) -> list[Any]:
        """Return the columns of a table at a commit; the first model to ask runs a statement."""
        commit = get_invocation_id(), table, version, at
        if commit not in self._columns:
            sql = f"select * from {table} version as of {version}"
            self._columns[commit] = self.get_column_schema_from_query(sql)
        return self._columns[commit]

    def properties_at(self, table: str, version: int, at: int) -> Mapping[str, str]:
        """Return the properties of a table, read once after each commit."""
        commit = get_invocation_id(), table, version, at
        if commit not in self._properties:
            self._properties[commit] = self.properties_of(table)
        return self._properties[commit]

    def noted_properties(self, schema: str, name: str) -> Mapping[str, str] | None:
        """Return the properties of a Delta table in this invocation, or None without a table."""
        table = get_invocation_id(), schema, name
        if table not in self._noted:
            relation: Any = self.get_relation(database="", schema=schema, identifier=name)
            is_delta = relation is not None and relation.is_delta and not relation.is_view
            self._noted[table] = None
            if is_delta:
                self._noted[table] = self.properties_of(str(relation))
        return self._noted[table]

    def rows_by_log(self, table: str) -> int | None:
        """Return the rows of a table if this process may read its log, and the log is small."""
        key = get_invocation_id(), table
        if key not in self._rows_by_log:
            log = self._log_of(table)
            self._rows_by_log[key] = delta_log.few_rows(log) if log else None
        return self._rows_by_log[key]

    def row_counts(self) -> dict[tuple[object, ...], int]:
        """Return the rows of tables at commits, as far as the invocation has counted them."""
        return self._row_counts.setdefault(get_invocation_id(), {})

    def properties_of(self, table: str) -> dict[str, str]:
        """Return the properties of a Delta table, from its log if this machine has it.

        Spark hides a value that it suspects to be a secret, such as SQL that reads a column
        `token`. DESCRIBE DETAIL does not hide it, so it is a second statement in that case.
        """
        if log := self._log_of(table):
            return delta_log.properties_of_log(log)
        rows = self.execute(f"show tblproperties {table}", fetch=True)[1].rows
        properties = {str(row[0]): str(row[1]) for row in rows}
        if is_redacted(properties):
            detail = self.execute(f"describe detail {quoted_table(table)}", fetch=True)[1].rows[0]
            properties |= commits.as_mapping(detail["properties"])
        return properties

    def digest_of_run(self, node: dict[str, Any], sql: str, graph: Any) -> str:
        """Return a digest of the inputs of a model's plan, except its tables.

        Call it when the model's run begins, but not before its hooks: they may create functions
        that the model calls, and the functions are described once for the whole run.
        """
        self._described[get_invocation_id(), node["unique_id"]] = {}
        inputs = [{"source": name} for name in analysis.relations_in(sql)]
        promised = analysis.noted_proof({}, inputs, graph)
        return no_op_cache.digest_of(node, sql, self.fingerprint(sql), promised, version)

    def is_unchanged(self, model: str, digest: str, models: Sequence[str]) -> bool:
        """Return true if an earlier run found nothing to do, and nothing has changed since."""
        return self.no_op_cache.is_planned(
            model, digest, lambda table: self._unchanged_commit(table, models)
        )

    @available
    def keep_unchanged(self) -> None:
        """Store for later runs the models that this one found unchanged."""
        self.no_op_cache.keep(self._location_of, self._rows_or_none)

    def _unchanged_commit(self, table: str, models: Sequence[str]) -> NewestCommit | None:
        def look() -> dict[str, NewestCommit]:
            return self.no_op_cache.look(models, self._location_of, self._rows_or_none)

        histories = self._histories()
        histories.begin(get_invocation_id())
        return histories.unchanged(table, look)

    def _location_of(self, table: str) -> str | None:
        """Return the path of a Delta table; dbt lists the relations of a schema once."""
        schema, identifier = table.split(".")
        relation: Any = self.get_relation(database="", schema=schema, identifier=identifier)
        return no_op_cache.location_of(relation.information) if relation else None

    def _rows_or_none(self, statement: str) -> list[Any]:
        try:
            return list(self.execute(statement, fetch=True)[1].rows)
        except DbtRuntimeError:
            return []

    def _connections(self) -> HeadwatersConnectionManager:
        connections: Any = self.connections
        manager: HeadwatersConnectionManager = connections
        return manager

    def _histories(self) -> Histories:
        return self._connections().histories

    def _log_of(self, table: str) -> Path | None:
        """Return the folder of a table if this process may read its log, without Spark.

        The log is on this machine, since its Spark is, and dbt knows the table's place. Each
        commit is a file of the log as soon as Spark can see it.
        """
        name = no_op_cache.name_of(table)
        if name is None or not self.views.is_shared:
            return None
        schema, identifier = name.split(".")
        if self._histories().may_be_moved(name) or not self._schema_is_cached(None, schema):
            return None
        relation: Any = self.get_relation(database="", schema=schema, identifier=identifier)
        folder = no_op_cache.folder_of(relation.information) if relation else None
        return folder if folder and delta_log.is_whole(folder) else None

    def _ask_history(self, table: str, limit: int, conditions: Sequence[str] = ()) -> Answer:
        question = self._histories().question(table, limit)
        if log := self._log_of(table):
            read = delta_log.commits_of_log(log, limit)
            self._histories().answer(question, read)
            return Answer(read, None)
        sql = f"describe history {quoted_table(table)} limit {limit}"
        answer: Answer = self.answer_of(sql, conditions)
        if answer.failure is not None:
            return answer
        told = commits.commits_of(answer.rows)
        self._histories().answer(question, told)
        return Answer(told, None)

    @available
    @raises_dbt_errors
    def python_rows(self, node: dict[str, Any], code: str) -> str:
        """Run a model in Python, and return a query of its rows.

        The model may also write to any table.
        """
        credentials = self.config.credentials
        if credentials.method != "session":
            text = (
                f"{node['name']} ({node['original_file_path']}): a Python model needs method: "
                f"session, embedded or Spark Connect; this target has {credentials.method}"
            )
            raise UserError("HW_PYTHON_MODEL", text)
        from dbt.adapters.headwaters import python_models, session  # `dbt parse` needs no pyspark

        spark = session.shared_session(credentials.server_side_parameters, credentials.folder)
        try:
            view = python_models.view_of_model(node, code, spark)
        finally:
            self._histories().discard(None)
            self._connections().session_changes += 1
        return f"select * from {view}"

    def fingerprint(self, sql: str) -> dict[str, dict[str, str]]:
        """Return the session's settings and functions that a model's rows depend on."""
        # hooks of other models may have changed the functions since their descriptions
        described = self._described.get((get_invocation_id(), self.nice_connection_name()), {})

        def describe(name: str) -> list[str]:
            if name not in described:
                described[name] = self._lines_of_function(name)
            return described[name]

        state = self._session_state()
        if state not in self._asked:
            self._asked.clear()
            names = [name for name in self._settings_of_session() if decides_rows(name)]
            settings = {
                name: self._setting(name) for name in (*SETTINGS_OF_RESULTS, *sorted(names))
            }
            self._asked[state] = settings, self._user_functions()
        settings, known = self._asked[state]
        return {
            "settings": settings,
            "functions": session_fingerprint.definitions(sql, known, describe),
        }

    def other_function(self, view: View) -> str | None:
        """Return a function that a view calls by its name alone and that the session has, too."""
        # not cached: the hooks of a model may have created functions since
        return view_definitions.other_function(view, self._user_functions())

    def _user_functions(self) -> list[str]:
        """Return the user-defined functions of the session."""
        return [str(row[0]) for row in self._rows("show user functions")]

    def other_settings(self, stored: Mapping[str, str]) -> list[OtherSetting]:
        """Return the session's settings that differ from those that a view stores."""
        return view_definitions.other_settings(stored, self._settings_of_session(), self._setting)

    def _session_state(self) -> tuple[str, int]:
        """Return what the session's settings depend on: the invocation and the hooks so far."""
        return get_invocation_id(), self._connections().session_changes

    def _settings_of_session(self) -> dict[str, str]:
        """Return the settings that the session sets."""
        state = self._session_state()
        if state not in self._session_sets:
            self._session_sets.clear()
            self._session_sets[state] = {str(row[0]): str(row[1]) for row in self._rows("set")}
        return self._session_sets[state]

    def _setting(self, name: str) -> str:
        """Return the value of a setting, which is Spark's default unless the session sets it."""
        given = self._settings_of_session()
        return given[name] if name in given else str(self._rows(f"set {name}")[0][1])

    def _lines_of_function(self, name: str) -> list[str]:
        try:
            return [str(row[0]) for row in self._rows(f"describe function extended {name}")]
        except DbtRuntimeError:
            return []  # Spark reports the error when the model calls it

    def _rows(self, statement: str) -> list[Any]:
        """Return the rows of a small statement that belongs to no model."""
        credentials = self.config.credentials
        if credentials.method != "session":
            return list(self.execute(statement, fetch=True)[1])
        from dbt.adapters.headwaters.session import rows_of  # `dbt parse` needs no pyspark.sql

        return rows_of(credentials.server_side_parameters, credentials.folder, statement)

    @available
    def erasure(self, kind: str, name: str, given: Any, columns: Sequence[str]) -> Erasure:
        """Return the erasure of a subject whose value is in the place `given`.

        See headwaters/tables/erasure_run.py. `name` is the column or kind that the user named.
        """
        from headwaters.tables.erasure_run import Erasure, read_value  # no run needs it

        with dbt_errors():
            value = read_value(given, name, Path.cwd())
        spark, config = dbt_compat.spark_session(self.connections), self.config
        artifacts = [Path(config.project_target_path), Path(config.log_path)]
        places = config.credentials.home, config.credentials.folder
        self._erasure = Erasure(spark, kind, value, columns, artifacts, *places)
        return self._erasure

    def cleanup_connections(self) -> None:
        """Close the connections at the end of a command; dbt calls this."""
        self.views.hide_all()
        if self._erasure:
            self._erasure.forget()
            self._erasure = None
        super().cleanup_connections()


for _name, _module in SUBJECTS.items():
    setattr(HeadwatersAdapter, _name, Subject(_module))
dbt_compat.offer_to_macros(HeadwatersAdapter, [*SUBJECTS, "runs"])
