"""Test that a run that fails, dies or meets another run at any statement does no harm.

The warehouse is a fake that models the log of one table: its properties, its commits, and the
version of the input that its rows equal. test_stopped.py and test_two_runs.py use Spark itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from dbt_common.exceptions import DbtRuntimeError

from headwaters.analysis import columns_digest
from headwaters.platform.errors import UserError
from headwaters.runs.change_set_cache import ChangeSetCache
from headwaters.runs.checks import declared_tables
from headwaters.runs.client_rows import ClientRows
from headwaters.runs.inputs import marked
from headwaters.runs.model import Model
from headwaters.runs.run import Outcome, run
from headwaters.tables.commits import Commit

TARGET, SOURCE = "gold.kept", "bronze.items"
COMPARISONS = ("hw_compared_sql", "hw_counted_change_set_sql")
ENGINE = "Apache-Spark/4.2.0 Delta-Lake/4.4.0"


class Sql(str):
    """A statement that knows its macro and the macro's arguments."""

    name: str
    arguments: tuple[Any, ...]

    def __str__(self) -> str:
        return self


@dataclass(frozen=True)
class Column:
    name: str
    dtype: str

    @property
    def quoted(self) -> str:
        return f"`{self.name}`"


@dataclass(frozen=True)
class Relation:
    identifier: str
    schema: str = "gold"
    is_view: bool = False
    is_delta: bool = True

    def incorporate(self, **changes: Any) -> Relation:
        return replace(self, **changes["path"])

    def __str__(self) -> str:
        return f"{self.schema}.{self.identifier}"


class Row(dict[str, Any]):
    """A row with access by name and by place."""

    def __getitem__(self, key: Any) -> Any:
        return list(super().values())[key] if isinstance(key, int) else super().__getitem__(key)


@dataclass(frozen=True)
class Rows:
    """The rows of a table: the result of some SQL over a version of the input."""

    sql: str
    version: int


@dataclass
class Table:
    """A table with the contents of its log, and its rows, or None if they are wrong."""

    rows: Rows | None
    properties: dict[str, str]
    log: list[Commit] = field(default_factory=list)

    def commit(self, operation: str, parameters: Mapping[str, str], run: str | None = None) -> None:
        metrics = {"numOutputRows": "2", "numDeletedRows": "2", "numTargetRowsUpdated": "1"}
        version = len(self.log)
        at = 1_000_000 + version * 1_000
        parts = (version, at, operation, parameters, metrics, ENGINE, run)
        self.log.insert(0, Commit(*parts))


@dataclass
class Lake:
    """Tables, and the staged change sets: each with the rows before and after it."""

    tables: dict[str, Table] = field(default_factory=dict)
    staged: dict[str, tuple[Rows, Rows] | None] = field(default_factory=dict)
    newest: int = 1
    inserts_only: bool = False
    form: str = "table"


class FakeSession:
    """An invocation over the lake; it calls `before` with the number of each statement."""

    has_hooks = is_empty = is_sample = False
    selected: Sequence[str] = ()

    def __init__(self, lake: Lake, run_id: str, before: Callable[[int, str], None]) -> None:
        self.lake, self.run_id, self.before = lake, run_id, before
        self.connection, self.macros = self, self._macro
        self.graph: dict[str, Any] = {"nodes": {}, "sources": {}}
        self.change_sets = ChangeSetCache()
        self.count = 0
        self.model_sql = ""
        self.range: tuple[Rows, Rows] | None = None
        self.looks: Mapping[str, int] = {}
        self.warnings: list[str] = []
        self.rows: dict[str, int] = {}
        self.row_counts: dict[tuple[object, ...], int] = {}

    # --- macros

    def _macro(self, name: str, *arguments: Any) -> Any:
        if name in ("hw_comment_of_model", "hw_reconcile_table"):
            return None
        if name == "hw_drop_other_checks":
            return None
        sql = Sql(f"{name}({', '.join(map(str, arguments))})")
        sql.name, sql.arguments = name, arguments
        return sql

    def columns_at(self, table: str, commit: Mapping[str, Any]) -> Sequence[Any]:
        return COLUMNS

    def properties_at(self, table: str, commit: Mapping[str, Any]) -> Mapping[str, str]:
        return self.properties(table)

    def known_history(self, table: str, limit: int, back_to: int, up_to: int) -> list[Commit]:
        self.range = Rows(self.model_sql, back_to), Rows(self.model_sql, up_to)
        log = Table(None, {})
        for version in range(self.lake.newest + 1):
            if self.lake.inserts_only or version < 2:
                log.commit("WRITE", {"mode": "Append"})
            else:
                log.commit("MERGE", {})
        return [replace(commit, at=commit.version) for commit in log.log]

    # --- statements

    def execute(self, sql: str) -> None:
        self.fetch(sql)

    def fetch(self, sql: str) -> Sequence[Any]:
        self.count += 1
        self.before(self.count, sql)
        if sql.startswith("describe detail"):
            return [Row(partitionColumns=[], clusteringColumns=[], description=None, properties={})]
        found = re.match(r"drop table if exists (\S+)", sql)
        if found:
            self.lake.staged.pop(found[1], None)
            return []
        if isinstance(sql, Sql):
            return self._statement(sql)
        if sql.startswith("select (select count(*)"):
            return [Row(of_input=1_000_000, of_table=100)]
        return [Row(count=100, held="t", given="t")]

    def properties(self, table: object) -> Mapping[str, str]:
        self._step(f"show tblproperties {table}")
        if str(table) == SOURCE:
            return {"delta.enableChangeDataFeed": "true"}
        return dict(self.lake.tables[str(table)].properties)

    def _statement(self, sql: Sql) -> Sequence[Any]:
        name, arguments = sql.name, sql.arguments
        table = self.lake.tables.get(TARGET)
        if name == "hw_create_staging_table_sql":
            change = self.range
            if table and getattr(arguments[1], "name", "") in COMPARISONS:
                newest = Rows(self.model_sql, self.lake.newest)
                change = None if table.rows is None else (table.rows, newest)
            self.lake.staged[str(arguments[0])] = change
        elif name == "hw_create_or_replace_sql":
            self._replace(dict(arguments[2]))
        elif table is None:
            return []
        elif name == "hw_set_properties_sql":
            table.properties |= arguments[1]
            table.commit("SET TBLPROPERTIES", {"properties": json.dumps(arguments[1])})
        elif name in ("hw_insert_sql", "hw_insert_without_key_sql"):
            self._apply(table, str(arguments[1]))
            table.commit("WRITE", {"mode": "Append"}, arguments[-1])
        elif name == "hw_replace_keys_sql":
            self._apply(table, str(arguments[1]))
            parameters = {"mode": "Overwrite", "replaceOnCond": "…"}
            table.commit("WRITE", parameters, arguments[-1])
        elif name in ("hw_merge_sql", "hw_merge_without_key_sql"):
            self._apply(table, str(arguments[1]))
            table.commit("MERGE", {"predicate": arguments[-1]})
            changed = sum(self.looks.values())
            return [Row(num_affected_rows=changed, num_deleted_rows=self.looks["deleted"])]
        elif name == "hw_delete_unkept_sql":
            table.rows = table.rows and Rows(self.model_sql, table.rows.version)
            table.commit("DELETE", {"predicate": arguments[-1]})
            return [Row(num_affected_rows=1)]
        else:
            return self._answer(name)
        return []

    def _replace(self, properties: dict[str, str]) -> None:
        lake = self.lake
        inputs = json.loads(properties["headwaters.inputs"])
        rows = Rows(self.model_sql, inputs[SOURCE]["version"])
        table = lake.tables.setdefault(TARGET, Table(None, {}))
        table.rows, table.properties = rows, properties
        created = {"properties": json.dumps(properties)}
        table.commit("CREATE OR REPLACE TABLE AS SELECT", created)

    def _apply(self, table: Table, stage: str) -> None:
        """Apply a change set: correct only over the rows that it was made from."""
        if stage not in self.lake.staged:
            raise DbtRuntimeError(f"[TABLE_OR_VIEW_NOT_FOUND] {stage}")
        change = self.lake.staged[stage]
        table.rows = change[1] if change and change[0] == table.rows else None

    def _answer(self, name: str) -> Sequence[Any]:
        if name in ("hw_crowded_keys_sql", "hw_examples_of_keys_sql"):
            return []
        looks = self.looks
        changed = looks["updated"] + looks["deleted"]
        bounds = {"least_1": "1", "greatest_1": "9", "whole_1": True, "nulls_1": 0}
        bounds |= {"type_1": "int", "listed": '[["1"], ["9"]]', "types": 1}
        same = {"held": "t", "given": "t", "stage_type": "t", "target_type": "t"}
        counts = {**looks, "staged": changed + looks["inserted"], "misplaced": 0, "missing": 0}
        counts |= {"distinct_keys": counts["staged"], "bytes": 10}
        row = Row(bounds | same | counts | {"some_keys": '["1", "9"]', "present": changed})
        return [Row({**row, "inserted": 0}) if name == "hw_keys_present_sql" else row]

    def history(self, table: object, limit: int) -> list[Commit]:
        self.count += 1
        self.before(self.count, f"describe history {table} limit {limit}")
        return self.lake.tables[str(table)].log[:limit]

    # --- change sets in the client's memory; a run may die at each of these calls

    @property
    def views(self) -> FakeSession | None:
        return self if self.lake.form != "table" else None

    def client_rows(self, sql: str, keys: Collection[str]) -> ClientRows | None:
        self._step(sql)
        if self.lake.form == "too large":
            return None
        if sql.startswith("select `id` from "):
            return ClientRows(pa.table({"id": [1, 9]}), {"id": "int"})
        names = {"inserted": "insert", "updated": "update", "deleted": "delete"}
        operations = [names[look] for look, count in self.looks.items() for _ in range(count)]
        ids = range(len(operations))
        table = pa.table({"id": ids, "n": ids, "_operation": operations})
        return ClientRows(table, {"id": "int", "n": "bigint", "_operation": "string"})

    def type_of_query(self, sql: str) -> str:
        is_of_keys = sql.startswith("select `id` from ") or "_keyed" in sql
        return "struct<id:int>" if is_of_keys else "struct<id:int,n:bigint>"

    def show(self, name: str, rows: ClientRows) -> None:
        self._step(f"show {name}")
        self.lake.staged[f"global_temp.{name}"] = self.range

    def hide(self, name: str) -> None:
        self._step(f"hide {name}")
        self.lake.staged.pop(f"global_temp.{name}", None)

    def _step(self, sql: str) -> None:
        self.count += 1
        self.before(self.count, sql)

    # --- calls without a statement here

    def columns(self, sql: str) -> Sequence[Any]:
        is_input = sql.startswith("select * from (select *, 1 as _weight")
        return [*COLUMNS, Column("_weight", "int")] if is_input else COLUMNS

    def columns_of(self, table: object) -> Sequence[Any]:
        return COLUMNS

    def drop(self, relation: object) -> None:
        raise AssertionError(f"nothing drops {relation}")

    def fingerprint(self, sql: str) -> dict[str, dict[str, str]]:
        return {"settings": {}, "functions": {}}

    def noted_properties(self, node: Mapping[str, Any]) -> Mapping[str, str]:
        return {}

    def rows_by_log(self, table: str) -> int | None:
        return self.rows.get(table)

    def run_config(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        config: Mapping[str, Any] = node["config"]
        return config

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def seconds(self) -> float:
        return 0.0


COLUMNS = [Column("id", "int"), Column("n", "bigint")]

# A model whose table does not note that it is small.
LARGE = {
    "unique_id": "model.large",
    "resource_type": "model",
    "schema": "s",
    "alias": "large",
    "depends_on": {"nodes": ["model.kept"]},
    "config": {"materialized": "incremental", "whole_below": 10_000_000},
}


KEPT = {**LARGE, "unique_id": "model.kept", "alias": "kept", "depends_on": {"nodes": []}}


@dataclass(frozen=True)
class Case:
    """A model and the choice of the run under test, for a change set of these counts."""

    name: str
    choice: str
    kind: str
    config: dict[str, Any]
    select: str = "select id, n from {input}"
    look: tuple[int, int, int] = (1, 1, 0)  # inserted, updated, deleted
    other_sql: str | None = None  # the choice of the run under test, if it differs


KEY = {"unique_key": "id"}
FEED = {"incremental_strategy": "change_feed", **KEY}
CASES = [
    Case("insert", "append", "changes", FEED, look=(2, 0, 0)),
    Case("replace keys", "merge", "changes", FEED),
    Case("replace keys of no new rows", "merge", "changes", FEED, look=(0, 2, 0)),
    Case("merge deletes", "merge", "changes", FEED, look=(0, 0, 2)),
    Case("merge", "merge", "changes", {**FEED, "apply_by": "merge"}),
    Case(
        "without key", "merge", "changes", {"incremental_strategy": "change_feed"}, look=(1, 0, 1)
    ),
    Case("latest", "merge", "changes", {**FEED, "latest_by": "n"}),
    Case("keys", "merge", "affected", {"incremental_strategy": "affected_keys", **KEY}),
    Case(
        "sums",
        "merge",
        "signed",
        {"incremental_strategy": "signed_sum", **KEY},
        "select id, sum(_weight) as n from {input} group by id",
    ),
    Case(
        "patch",
        "patch",
        "changes",
        FEED,
        other_sql="select id, n from {input} where id > 5",
    ),
    Case(
        "patch columns",
        "patch",
        "changes",
        FEED,
        other_sql="select id, n + 1 as n from {input}",
    ),
    Case("compared, followed", "compare", "lookup", {"incremental_strategy": "replace", **KEY}),
    Case(
        "compared without key, followed",
        "compare",
        "lookup",
        {"incremental_strategy": "replace"},
        look=(2, 0, 1),
    ),
    Case("small", "replace", "changes", {**FEED, "whole_below": 10_000_000}),
    Case("small, followed", "merge", "changes", {**FEED, "whole_below": 10_000_000}),
    Case(
        "small, followed by a small one", "replace", "changes", {**FEED, "whole_below": 10_000_000}
    ),
    Case(
        "small without key",
        "replace",
        "changes",
        {"incremental_strategy": "change_feed", "whole_below": 10_000_000},
        look=(2, 0, 1),
    ),
    Case(
        "other SQL",
        "replace",
        "changes",
        {**FEED, "latest_by": "n"},
        other_sql="select id, n + 1 as n from {input}",
    ),
]


class Runs:
    """The invocations of one case over a lake."""

    def __init__(self, case: Case, form: str = "table") -> None:
        self.case, self.lake, self.invocation = case, Lake(form=form), 0
        self.warnings: list[str] = []
        self.is_changed = False

    def model(self, session: FakeSession) -> Model:
        case, lake = self.case, self.lake
        key = {"key": {"id": "id"}} if case.kind == "affected" else {}
        pinned = {"kind": case.kind, "source": SOURCE, "version": lake.newest, "at": lake.newest}
        code = case.other_sql if self.is_changed and case.other_sql else case.select
        session.model_sql = code
        session.looks = dict(zip(("inserted", "updated", "deleted"), case.look, strict=True))
        if "followed" in case.name:
            session.graph["nodes"]["model.large"] = LARGE
        if case.name.endswith("by a small one"):
            session.graph["nodes"]["model.kept"] = KEPT
            session.rows = {"s.large": 7, "s.kept": 100}
        target: Any = Relation("kept")
        node: dict[str, Any] = {
            "unique_id": "model.kept",
            "name": "kept",
            "original_file_path": "kept.sql",
        }
        node |= {"config": case.config, "columns": {}, "constraints": []}
        existing = target if TARGET in lake.tables else None
        text = code.replace("{input}", marked({**pinned, **key}))
        typed: Any = session
        return Model(node, target, existing, text, case.config, typed)

    def run(
        self,
        before: Callable[[int, str], None] = lambda number, sql: None,
        full_refresh: bool = False,
    ) -> Outcome:
        """Run the model in a separate invocation."""
        self.invocation += 1
        session = FakeSession(self.lake, f"run{self.invocation}", before)
        session.warnings = self.warnings
        return run(self.model(session), full_refresh, None, None)

    def built(self) -> Runs:
        """Build the table, then change the input."""
        self.run()
        self.is_changed = True
        self.lake.newest = 4
        self.lake.inserts_only = self.case.look[1:] == (0, 0)
        return self

    @property
    def want(self) -> Rows:
        sql = self.case.other_sql or self.case.select
        return Rows(sql, 4)

    def check(self, story: str) -> None:
        """Check that the table has the model's rows over the newest version, and has noted it."""
        table = self.lake.tables[TARGET]
        assert table.rows == self.want, story
        assert json.loads(table.properties["headwaters.inputs"])[SOURCE]["version"] == 4, story
        assert table.properties.get("headwaters.pending", "null") == "null", story


# The forms of a change set: a staging table, a view over the client's rows, and a change set that
# turns out to be too large for the client.
FORMS = ["table", "view", "too large"]
CASES_OF_FORMS = [(case, FORMS[0]) for case in CASES] + [(CASES[1], FORMS[2])]
CASES_OF_FORMS += [(case, FORMS[1]) for case in CASES if case.choice in ("append", "merge")]
CASE_NAMES = [f"{case.name}, {form}" for case, form in CASES_OF_FORMS]


def statements_of(case: Case, form: str = "table") -> list[str]:
    sent: list[str] = []
    runs = Runs(case, form).built()
    outcome = runs.run(lambda number, sql: sent.append(sql))
    assert outcome.choice == case.choice
    runs.check("undisturbed")
    assert not runs.lake.staged
    assert not runs.warnings
    assert runs.run().choice == "skip"
    return sent


def test_a_new_table_notes_its_size_and_the_columns_of_its_inputs() -> None:
    runs = Runs(next(case for case in CASES if case.name == "small"))
    sent: list[str] = []
    runs.run(lambda number, sql: sent.append(sql))
    counts = [sql for sql in sent if "count(*)" in sql]
    assert counts == [f"select (select count(*) from {SOURCE} version as of 1)"]
    properties = runs.lake.tables[TARGET].properties
    size = {"inputs": {SOURCE: 1_000_000}, "rows": 0, "differed": None, "bytes": 0}
    assert json.loads(properties["headwaters.size"]) == size
    columns: Any = COLUMNS
    assert json.loads(properties["headwaters.columns"]) == {SOURCE: columns_digest(columns)}
    # its first change needs no count
    assert not [sql for sql in statements_of(runs.case) if "count(*)" in sql]


class Killed(BaseException):
    """The end of the process."""


@pytest.mark.parametrize(("case", "form"), CASES_OF_FORMS, ids=CASE_NAMES)
def test_a_run_that_fails_or_dies_anywhere_is_completed_by_the_next(case: Case, form: str) -> None:
    statements = statements_of(case, form)
    for at, sql in enumerate(statements, 1):
        for error in (DbtRuntimeError("out of memory"), Killed()):

            def stop(number: int, sql: str, at: int = at, error: BaseException = error) -> None:
                # no statement follows a death; the clean-up follows a failure
                if number == at or (number > at and isinstance(error, Killed)):
                    raise error

            runs = Runs(case, form).built()
            with pytest.raises(type(error)):
                runs.run(stop)
            assert runs.lake.tables[TARGET].rows is not None, (sql, error)
            runs.run()
            runs.check(f"{type(error).__name__} at statement {at} of {len(statements)}: {sql}")


@pytest.mark.parametrize(("case", "form"), CASES_OF_FORMS, ids=CASE_NAMES)
def test_of_two_runs_at_once_one_applies_the_changes(case: Case, form: str) -> None:
    for at, sql in enumerate(statements_of(case, form), 1):
        runs = Runs(case, form).built()

        def other(number: int, sql: str, at: int = at, runs: Runs = runs) -> None:
            if number == at:
                runs.run()

        try:
            runs.run(other)
        except UserError as error:
            assert error.code == "HW_CONCURRENT_RUN", sql
        except DbtRuntimeError as error:
            # the other run, which noted its inputs later, drops its staging table
            assert "TABLE_OR_VIEW_NOT_FOUND" in str(error), sql
        runs.run()
        runs.check(f"another run at statement {at}: {sql}")


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_another_writer_are_replaced(form: str) -> None:
    for at in range(1, len(statements_of(CASES[1], form)) + 1):
        runs = Runs(CASES[1], form).built()

        def write(number: int, sql: str, at: int = at, runs: Runs = runs) -> None:
            if number == at:
                table = runs.lake.tables[TARGET]
                table.rows = None
                table.commit("UPDATE", {})

        runs.run(write)
        runs.run()
        assert runs.lake.tables[TARGET].rows == runs.want, at


REPLACED = next(case for case in CASES if case.name == "other SQL")


def test_a_strict_model_is_replaced_only_on_request() -> None:
    runs = Runs(replace(REPLACED, config={**REPLACED.config, "refresh": "strict"})).built()
    log = [*runs.lake.tables[TARGET].log]
    with pytest.raises(UserError, match=f"{TARGET}: the run would replace the table, ") as raised:
        runs.run()
    assert raised.value.code == "HW_STRICT"
    assert "`dbt run --full-refresh --select kept` replaces the table." in str(raised.value)
    assert runs.lake.tables[TARGET].log == log
    assert runs.run(full_refresh=True).choice == "replace"
    runs.check("full refresh")
    assert not runs.warnings


def test_an_incremental_model_is_replaced_with_a_warning() -> None:
    runs = Runs(replace(REPLACED, config={**REPLACED.config, "refresh": "incremental"})).built()
    assert runs.run().choice == "replace"
    runs.check("replaced")
    (warning,) = runs.warnings
    assert warning.startswith(f"{TARGET}: the run has to replace the table, ")
    assert warning.endswith(" (refresh is incremental)")


def test_a_strict_model_keeps_the_rows_of_another_writer() -> None:
    case = replace(CASES[1], config={**CASES[1].config, "refresh": "strict"})
    for at in range(1, len(statements_of(case)) + 1):
        runs = Runs(case).built()

        def write(number: int, sql: str, at: int = at, runs: Runs = runs) -> None:
            if number == at:
                table = runs.lake.tables[TARGET]
                table.rows = None
                table.commit("UPDATE", {})

        with pytest.raises(UserError) as raised:
            for _ in range(2):  # a write after this run's own is found by the next
                runs.run(write)
        assert raised.value.code == "HW_STRICT", at
        assert runs.lake.tables[TARGET].rows is None, at
        assert runs.run(full_refresh=True).choice == "replace"
        runs.check(f"written at statement {at}")


def test_a_deferred_table_is_declared() -> None:
    model = {"resource_type": "model", "schema": "Dev", "alias": "orders"}
    place = {"schema": "prod", "alias": "orders", "database": None}
    deferred = model | {"alias": "lines", "defer_relation": place | {"alias": "lines"}}
    graph = {"sources": {}, "nodes": {"orders": model, "lines": deferred}}
    found = declared_tables(cast(Any, SimpleNamespace(graph=graph)))
    assert found == {
        ("prod", "lines"): deferred,
        ("dev", "orders"): model,
        ("dev", "lines"): deferred,
    }
