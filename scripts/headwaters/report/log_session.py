"""A session that answers the questions of a plan from the tables' logs. It starts no Spark.

The planner is the one of a run. A question that only Spark can answer raises `Unknown`. The
settings of the session and the SQL functions are those that the model's table notes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwaters.analysis import parts_of
from headwaters.platform.nodes import Node, table_name
from headwaters.platform.places import Place
from headwaters.platform.spark_version import SETTINGS_OF_RESULTS
from headwaters.platform.sql import identifier
from headwaters.runs.change_set_cache import ChangeSetCache
from headwaters.runs.session import Config, Connection, DbtColumn, DbtRelation, Macros, Row
from headwaters.runs.session_fingerprint import noted_context
from headwaters.tables import delta_log
from headwaters.tables.commits import Commit
from headwaters.tables.delta_log import State

_TABLE = r"((?:`[^`]+`|[^\s`()]+)(?:\.(?:`[^`]+`|[^\s`()]+))?)"
_ROWS = re.compile(
    rf"select \* from (\(select \*, 1 as _weight from )?{_TABLE}(?: version as of (\d+))?\)?"
)
_COUNT = re.compile(
    rf"\(?select count\(\*\) from (?:\(select \*, 1 as _weight from )?{_TABLE}(?=[\s)]|$)"
)
_FEED = re.compile(r"select count\(\*\) from feed of (\S+) from (\d+) to (\d+)")
_TYPES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


class Unknown(Exception):
    """A question that the logs cannot answer; its text is the subject: `types of columns`."""


@dataclass
class ColumnOfLog:
    """A column by the schema in a log; `dtype` is Spark's name of its type."""

    name: str
    dtype: str

    @property
    def quoted(self) -> str:
        """Return the name for SQL."""
        return identifier(self.name)


@dataclass
class LogTables:
    """The Delta tables in their folders, by schema and name in lower case. Reads each log once."""

    folders: Mapping[str, Place]
    _states: dict[str, State | None] = field(default_factory=dict)
    _commits: dict[str, list[Commit]] = field(default_factory=dict)

    def state(self, table: str) -> State | None:
        """Return the state of a table, or None without a Delta table."""
        name = ".".join(parts_of(table))
        if name not in self._states:
            folder = self.folders.get(name)
            is_table = folder is not None and (folder / "_delta_log").is_dir()
            self._states[name] = delta_log.state(folder) if folder and is_table else None
        return self._states[name]

    def known(self, table: str) -> State:
        """Return the state of a table. Raises Unknown without one."""
        state = self.state(table)
        if state is None:
            raise Unknown(f"{table}, which has no table yet")
        return state

    def history(self, table: str, limit: int) -> list[Commit]:
        """Return the newest commits of a table, newest first."""
        self.known(table)
        name = ".".join(parts_of(table))
        known = self._commits.get(name, [])
        if len(known) < limit:
            known = delta_log.commits_of_log(self.folders[name], limit)
            self._commits[name] = known
        return known[:limit]

    def columns(self, table: str, version: int | None = None) -> list[DbtColumn]:
        """Return the columns of a version, or of the newest one."""
        state = self.known(table)
        if version is None or version == state.version:
            fields = [{"name": name, "type": _parsed(kind)} for name, kind in state.columns]
        else:
            schema = delta_log.schema_at(self.folders[".".join(parts_of(table))], version)
            if schema is None:
                raise Unknown(f"the columns of {table} at version {version}")
            fields = json.loads(schema)["fields"]
        return [ColumnOfLog(str(one["name"]), _type(one["type"])) for one in fields]

    def detail(self, table: str) -> dict[str, Any]:
        """Return the parts of DESCRIBE DETAIL that a plan needs."""
        state = self.known(table)
        features = [name for kind in ("reader", "writer") for name in _features(state, kind)]
        return {
            "partitionColumns": list(state.partitions),
            "clusteringColumns": list(state.clustering),
            "description": state.description,
            "properties": dict(state.properties),
            "minReaderVersion": state.protocol.get("minReaderVersion"),
            "minWriterVersion": state.protocol.get("minWriterVersion"),
            "tableFeatures": sorted({*features}),
        }

    def properties(self, table: str) -> dict[str, str]:
        """Return the properties as SHOW TBLPROPERTIES does, with the protocol."""
        state = self.known(table)
        return {**state.properties, **delta_log.properties_of_protocol(state.protocol)}


def _features(state: State, kind: str) -> list[str]:
    return list(state.protocol.get(f"{kind}Features") or ())


def _parsed(kind: str) -> Any:
    return json.loads(kind) if kind.startswith("{") else kind


def _type(kind: Any) -> str:
    """Return Spark's name of a type in Delta's schema."""
    if isinstance(kind, str):
        return _TYPES.get(kind, kind)
    if kind["type"] == "struct":
        return _struct((one["name"], _type(one["type"])) for one in kind["fields"])
    if kind["type"] == "array":
        return f"array<{_type(kind['elementType'])}>"
    return f"map<{_type(kind['keyType'])},{_type(kind['valueType'])}>"


def _struct(fields: Any) -> str:
    return f"struct<{','.join(f'{name}:{kind}' for name, kind in fields)}>"


class LogConnection:
    """The warehouse of a plan, by its logs: reads, and statements whose answers the logs have."""

    def __init__(self, session: LogSession) -> None:
        """Read the logs of a session."""
        self._session, self._tables = session, session.tables

    views = None

    def execute(self, sql: str) -> None:
        """Refuse to change anything."""
        raise AssertionError(f"a plan changes nothing: {sql}")

    def fetch(self, sql: str) -> Sequence[Row]:
        """Return the answer of the logs. Raises Unknown if they have none."""
        words = sql.split()
        if words[:2] == ["describe", "detail"]:
            return [self._tables.detail(words[2])]
        if words[:2] == ["describe", "extended"]:
            return [[self._session.described_view(words[2])]]
        if feed := _FEED.fullmatch(sql):
            return [[self._changed(feed[1], int(feed[2]), int(feed[3]))]]
        if counted := _COUNT.findall(sql):
            counts = [self._rows(table) for table in counted]
            if sql.startswith("select count(*)"):
                return [counts]
            names = re.findall(r"\) as (\w+)", sql)
            return [dict(zip(names, counts, strict=True))]
        raise Unknown("an answer of Spark")

    def _changed(self, table: str, after: int, to: int) -> int:
        """Return the changed rows of commits, at most: those of their files without a count."""
        commits = self._tables.known(table).commits
        if commits[-1].commit.version > after + 1:
            raise Unknown(f"the number of changed rows in {table}")
        return sum(one.rows for one in commits if after < one.commit.version <= to)

    def _rows(self, table: str) -> int:
        rows = self._tables.known(table).rows
        if rows is None:
            raise Unknown(f"the number of rows in {table}")
        return rows

    def client_rows(self, sql: str, keys: object) -> None:
        """Return no rows."""

    def columns(self, sql: str) -> Sequence[DbtColumn]:
        """Return the columns of a table, or raise Unknown for another query."""
        found = _ROWS.fullmatch(sql.strip())
        if not found:
            raise Unknown("types of columns")
        weight, table, version = found.groups()
        added: list[DbtColumn] = [ColumnOfLog("_weight", "int")] if weight else []
        return [*self._tables.columns(table, int(version) if version else None), *added]

    def columns_of(self, table: object) -> Sequence[DbtColumn]:
        """Return the columns of a table."""
        return self._tables.columns(str(table))

    def properties(self, table: object) -> Mapping[str, str]:
        """Return the properties of a table."""
        return self._tables.properties(str(table))

    def history(self, table: object, limit: int) -> list[Commit]:
        """Return the newest commits of a table, newest first."""
        return self._tables.history(str(table), limit)

    def drop(self, relation: DbtRelation) -> None:
        """Refuse to change anything."""
        raise AssertionError(f"a plan changes nothing: {relation}")


class LogSession:
    """The session of one model's plan."""

    run_id: str = "explain"
    selected: Sequence[str] = ()
    has_hooks: bool = False
    is_empty: bool = False
    is_sample: bool = False

    def __init__(
        self,
        tables: LogTables,
        graph: Mapping[str, Any],
        config_of: Callable[[Node], Config],
        noted_sql: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Serve the plan of one model.

        `noted_sql` is the text that built its table, or None. `settings` are those of results that
        the profile sets.
        """
        self.tables, self.graph = tables, graph
        self._config_of = config_of
        self._noted_sql, self._settings = noted_sql, settings or {}
        self.connection: Connection = LogConnection(self)
        self.macros: Macros = self._call
        self.change_sets = ChangeSetCache()
        self.row_counts: MutableMapping[tuple[object, ...], int] = {}
        self.warnings: list[str] = []

    def _call(self, name: str, *arguments: object) -> Any:
        """Return the logs' answer to a macro that asks Spark. Raises Unknown if they have none."""
        if name == "hw_columns_around":
            return self._columns_around(*arguments)
        if name == "hw_feed_sql":
            source, after, to = arguments
            return f"feed of {source} from {after} to {to}"
        if name == "get_column_schema_from_query":
            return []  # a view has the columns of its query when dbt has created it
        raise Unknown("an answer of Spark")

    def _columns_around(self, source: Any, replaced: Any, further: Any = ()) -> dict[int, str]:
        versions = [*further, *(one for version in replaced for one in (version - 1, version))]
        found = {}
        for version in versions:
            columns = self.tables.columns(str(source), version)
            found[version] = _struct((column.name, column.dtype) for column in columns)
        return found

    def fingerprint(self, sql: str) -> dict[str, dict[str, str]]:
        """Return the noted context, with the settings that the profile changes."""
        if self._noted_sql is None:
            return {"settings": dict(self._settings), "functions": {}}
        noted = noted_context(self._noted_sql)
        changed = {
            name: value
            for name, value in self._settings.items()
            # older notes lack settings that every note has now
            if noted["settings"].get(name, value if name in SETTINGS_OF_RESULTS else "").lower()
            != value.lower()
        }
        return {**noted, "settings": {**noted["settings"], **changed}}

    def warn(self, text: str) -> None:
        """Collect a warning."""
        self.warnings.append(text)

    def newest_version(self, kind: str, source: str) -> dict[str, int] | None:
        """Return version and time of the newest commit of a table, or None for a view."""
        if self._view(source):
            return None
        self.tables.known(source)
        newest = self.tables.history(source, 20)[0]
        return {"version": newest.version, "at": newest.at}

    def _view(self, source: str) -> Node | None:
        """Return the node of a view of the project, or None."""
        name = ".".join(parts_of(source))
        for node in self.graph["nodes"].values():
            if node["resource_type"] == "model" and table_name(node).lower() == name:
                return node if node["config"]["materialized"] == "view" else None
        return None

    def described_view(self, source: str) -> str:
        """Return a view as Spark describes it: its SQL in the project, and its noted columns."""
        node = self._view(source)
        found = re.search(
            rf"/\* view {re.escape(json.dumps({'source': source}))} \*/ \(select (.*?) from \(\n",
            self._noted_sql or "",
        )
        sql = node.get("compiled_code") if node else None
        if not sql or not found:
            raise Unknown(f"the columns of the view {source}")
        names = re.findall(r"`((?:[^`]|``)+)`", found[1])
        columns = [name.replace("``", "`") for name in names]
        mode = "EVOLUTION" if found[1] == "*" else "BINDING"
        described = {
            "view_text": sql,
            "columns": [{"name": name} for name in columns],
            "view_query_output_columns": columns,
            "view_schema_mode": mode,
        }
        return json.dumps(described)

    def other_settings(self, stored: Mapping[str, str]) -> list[Any]:
        """Return none: the session that creates a view is like the one that reads it."""
        return []

    def other_function(self, view: object) -> None:
        """Return none: see other_settings."""

    def known_history(self, table: str, limit: int, back_to: int, up_to: int) -> list[Commit]:
        """Return the newest commits of a table: `limit`, and back to a version."""
        newest = self.tables.known(table).version
        return self.tables.history(table, max(limit, newest - back_to + 1))

    def columns_at(self, table: str, commit: Mapping[str, Any]) -> Sequence[DbtColumn]:
        """Return the columns of a table at a commit."""
        return self.tables.columns(table, commit["version"])

    def properties_at(self, table: str, commit: object) -> Mapping[str, str]:
        """Return the properties of a table."""
        state = self.tables.state(table)
        return state.properties if state else {}

    def noted_properties(self, node: Mapping[str, Any]) -> Mapping[str, str] | None:
        """Return the properties of a model's table, or None without a Delta table."""
        state = self.tables.state(table_name(node))
        return state.properties if state else None

    def rows_by_log(self, table: str) -> int | None:
        """Return the rows of a table."""
        state = self.tables.state(table)
        return state.rows if state else None

    def run_config(self, node: Mapping[str, Any]) -> Config:
        """Return a model's config with typed settings."""
        return self._config_of(node)

    def problem_of_unread(self, sql: str, inputs: object) -> None:
        """Refuse: only Spark reads such SQL."""
        raise Unknown("the tables that its SQL reads")

    def cached(self, relation: DbtRelation) -> DbtRelation | None:
        """Return a relation if its table exists."""
        return relation if self.tables.state(str(relation)) else None

    def note_unchanged(self, model: str, digest: str, tables: object) -> None:
        """Note nothing."""

    def seconds(self) -> float:
        """Return 0: a plan takes no time."""
        return 0.0
