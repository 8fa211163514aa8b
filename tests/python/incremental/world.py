"""Inputs, dbt in this process, whole-table comparison, and statements that fail on demand."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.runner import before_each_statement
from incremental.expected import EXPECTED

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
# `dev`, in the process of test_embedded.py, runs the same tests on an embedded Spark
TARGET = os.environ.get("HEADWATERS_TEST_TARGET", "engine")

# Each input: its columns and its first rows.
INPUTS: dict[str, tuple[str, str]] = {
    "items": (
        "id int, grp string, val int",
        "(1, 'a', 10), (2, 'a', 30), (3, 'b', 60), (4, null, 5), (null, 'b', 7)",
    ),
    "events": (
        "id int, moment int, val int, note string",
        "(1, 1, 10, 'x'), (1, 2, 11, 'x'), (2, 1, 5, null), (2, 1, 5, null), (3, 1, null, 'y')",
    ),
    "people": ("grp string, name string", "('a', 'Ann'), ('b', 'Bob')"),
    "rates": ("grp string, rate decimal(5, 2)", "('a', 1.5), ('b', 2.5)"),
    "marks": (
        "id int, tag string, code binary, moment timestamp, val int",
        "(1, cast(x'ff41' as string), x'ff41', timestamp_micros(1793514600000000), 10),"
        " (2, 'a', x'', timestamp_micros(1793511000000000), 20), (3, null, null, null, 5)",
    ),
}


def _carried(name: str, type_: Any) -> tuple[str, str]:
    """Return the type of a column in DuckDB, and the SQL that carries its values there."""
    given = str(type_.simpleString())
    if given == "string":
        return given, f"if(is_valid_utf8({name}), {name}, concat('not UTF-8: ', hex({name})))"
    return {
        "binary": ("string", f"hex({name})"),
        "timestamp": ("bigint", f"unix_micros({name})"),
    }.get(given, (given, name))


# Returns whether a statement fails: (model, its number within the model from 1, its SQL).
Stop = Callable[[str, int, str], bool]


class World:
    """A schema of models over separate inputs.

    `spark` is the session that changes and reads; dbt runs in this process on the same engine.
    """

    def __init__(
        self, spark: Any, schema: str, folder: Path, models: Iterable[str] = EXPECTED
    ) -> None:
        self.spark = spark
        self.schema = schema
        self.models = tuple(models)
        self.inputs = f"{schema}_inputs"
        self.folder = folder
        self.hooks = False  # whether the adapter's hooks run, as they do for users
        self.statements: dict[str, list[str]] = {}
        self.story: list[str] = []
        self.right: frozenset[str] = frozenset()  # the models that were right at the last check
        self._manifest: Any = None
        if not folder.exists():
            shutil.copytree(HERE / "project", folder)
        spark.sql(f"create schema if not exists {self.inputs}")

    def sql(self, statement: str) -> list[Any]:
        """Run a statement; `{inputs}` and `{schema}` are the world's schemas."""
        rows: list[Any] = self.spark.sql(
            statement.replace("{inputs}", self.inputs).replace("{schema}", self.schema)
        ).collect()
        return rows

    def reset(self, *models: str) -> None:
        """Create every input with its first rows, and rebuild the models, or these ones."""
        self.story = []
        for name, (columns, rows) in INPUTS.items():
            self.sql(f"drop table if exists {{inputs}}.{name}")
            self.sql(
                f"create table {{inputs}}.{name} ({columns}) using delta"
                " tblproperties ('delta.enableChangeDataFeed' = 'true')"
            )
            self.sql(f"insert into {{inputs}}.{name} values {rows}")
        self.run("--full-refresh", *(("--select", *models) if models else ()))
        self.check(*models)

    def sound(self, models: Iterable[str]) -> World:
        """Return this world after bringing the tables of these models up to date."""
        if not self.right.issuperset(models):
            self.reset(*models)
        return self

    def change(self, statement: str) -> None:
        """Run a statement that belongs to the story in a failure's message."""
        self.story.append(statement)
        self.right = frozenset()
        self.sql(statement)

    def version(self, table: str) -> int:
        """Return the newest version of a table."""
        return int(self.sql(f"describe history {table} limit 1")[0]["version"])

    def run(self, *arguments: str, stop: Stop | None = None, expect: bool | None = True) -> Any:
        """Run `dbt run`; `expect` is the expected success, and None accepts either outcome.

        Leaves the statements of each model in `statements`. The statement that `stop` names fails
        without running, and so does every later one of that model, as after a kill of dbt.
        """
        from dbt.cli.main import dbtRunner

        self.story.append(f"dbt run {' '.join(arguments)}".rstrip())
        messages: list[str] = []

        def listen(event: Any) -> None:
            if event.info.level in ("warn", "error"):
                messages.append(event.info.msg)

        chosen = () if "--select" in arguments else ("--select", *self.models)
        self.statements = {}
        with self.environment(), noted_statements(self.statements, stop):
            if self._manifest is None:
                parsed = dbtRunner().invoke(["parse", *self.options()])
                assert parsed.success, parsed.exception
                self._manifest = parsed.result
            result = dbtRunner(manifest=self._manifest, callbacks=[listen]).invoke(
                ["run", *self.options(), *chosen, *arguments]
            )
        if expect is not None and result.success is not expect:
            raise AssertionError(
                "\n".join([f"dbt: {result.exception or ''}", *messages, *self.story])
            )
        result.messages = messages  # type: ignore[attr-defined]  # a field for the tests
        return result

    def answers(self, result: Any) -> dict[str, str]:
        """Return each model's message by name."""
        return {answer.node.name: str(answer.message) for answer in result.result.results}

    def check(self, *models: str) -> None:
        """Check that every table equals the plain SQL of its model over the current inputs."""
        chosen = models or self.models
        wrong: list[str] = []
        self.right = frozenset()
        with duckdb.connect() as plain:
            plain.execute("create schema model")
            self._copy(
                plain,
                {name: f"{self.inputs}.{name}" for name in INPUTS}
                | {f"model.{name}": f"{self.schema}.{name}" for name in chosen},
            )
            for name in chosen:
                got, want = f"from model.{name}", EXPECTED[name]
                many = plain.execute(f"{got} except all ({want}) order by all").fetchall()
                few = plain.execute(f"({want}) except all {got} order by all").fetchall()
                if many or few:
                    wrong += [name, f"    too many: {many}", f"    missing:  {few}"]
        if wrong:
            raise AssertionError("\n".join([*wrong, "the history:", *self.story]))
        self.right = frozenset(chosen)

    def _copy(self, plain: duckdb.DuckDBPyConnection, tables: dict[str, str]) -> None:
        """Copy tables of the lake to DuckDB: read them in one statement and carry them as text.

        Bytes that are not UTF-8 travel as hexadecimal digits, and moments as microseconds.
        """
        parts = []
        for name, table in tables.items():
            fields = self.spark.table(table).schema.fields
            carried = [(field.name, *_carried(field.name, field.dataType)) for field in fields]
            columns = ", ".join(f"{column} {type_}" for column, type_, _ in carried)
            plain.execute(f"create table {name} ({columns})")
            texts = ", ".join(f"cast({text} as string)" for _, _, text in carried)
            parts.append(f"select '{name}', array({texts}) from {table}")
        for name, values in self.sql(" union all ".join(parts)):
            places = ", ".join("?" * len(values))
            plain.execute(f"insert into {name} values ({places})", list(values))

    def options(self) -> list[str]:
        """Return the options of every dbt command of this world."""
        return [
            # no test reads the artifacts, and they cost a tenth of a second of each command
            *("--quiet", "--no-use-colors", "--no-write-json", "--target", TARGET),
            *("--project-dir", str(self.folder), "--profiles-dir", str(ROOT / "profiles")),
            *(("--vars", "{headwaters_hooks: true}") if self.hooks else ()),
        ]

    def environment(self) -> AbstractContextManager[None]:
        """Return the environment that gives dbt this world's schema and folders."""
        return dbt_environment(self.schema, self.folder)


@contextmanager
def dbt_environment(schema: str, folder: Path) -> Iterator[None]:
    """Set the variables that give dbt a schema, and folders for its files."""
    wanted = {
        "HEADWATERS_SCHEMA": schema,
        "DBT_TARGET_PATH": str(folder / "target"),
        "DBT_LOG_PATH": str(folder / "logs"),
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def noted_statements(seen: dict[str, list[str]], stop: Stop | None) -> Iterator[None]:
    """Add every statement of every model to `seen`, and fail those that `stop` names."""
    from dbt_common.exceptions import DbtRuntimeError

    stopped: set[str] = set()
    lock = threading.Lock()

    def note(node: Mapping[str, Any], sql: str) -> None:
        model = node.get("node_name")
        if model is None:
            return
        with lock:
            if model in stopped:
                raise DbtRuntimeError("stopped by the test")
            statements = seen.setdefault(model, [])
            statements.append(sql)
            if stop is not None and stop(model, len(statements), sql):
                stopped.add(model)
                raise DbtRuntimeError("stopped by the test")

    with before_each_statement(note):
        yield
