"""A small project of orders, from bronze to gold, for the tests of operations on tables."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import uuid
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from headwaters.query.statements import split

ROOT = Path(__file__).resolve().parents[3]

PROJECT = """
name: headwaters
version: 0.1.0
profile: headwaters
flags: {validate_macro_args: true}
macro-paths: [project_macros]
models:
  headwaters:
    +materialized: incremental
    +file_format: delta
    +tblproperties:
      delta.enableChangeDataFeed: "true"
      delta.enableDeletionVectors: "true"
    silver: {+schema: silver}
    gold: {+schema: gold}
"""
FILES = {
    "dbt_project.yml": PROJECT,
    "models/bronze/orders.yml": """
sources:
  - name: bronze
    schema: "{{ target.schema }}_bronze"
    tables: [{name: orders}]
""",
    "models/silver/silver_orders.sql": """
{{ config(incremental_strategy='change_feed', unique_key='id', cluster_by=['day']) }}
select id, customer, day, amount from {{ changes(source('bronze', 'orders')) }}
""",
    "models/gold/customer_totals.sql": """
{{ config(incremental_strategy='affected_keys', unique_key='customer') }}
select customer, count(*) as orders, sum(amount) as amount
from {{ affected(ref('silver_orders'), key='customer') }} group by customer
""",
}

# Bronze as a source whose files are worth joining if there are more than 8.
SMALL_FILES = """
sources:
  - name: bronze
    schema: "{{ target.schema }}_bronze"
    tables:
      - name: orders
        config: {meta: {maintenance: {compact_above: 8, small_file: 1 MB}}}
"""

# Every table declares the columns that identify a person.
PERSON = "config: {meta: {pii: customer}}"
PERSONAL = {
    "models/bronze/orders.yml": f"""
sources:
  - name: bronze
    schema: "{{{{ target.schema }}}}_bronze"
    tables:
      - name: orders
        columns: [{{name: customer, {PERSON}}}]
""",
    "models/silver/silver_orders.yml": f"""
models: [{{name: silver_orders, columns: [{{name: customer, {PERSON}}}]}}]
""",
    "models/gold/customer_totals.yml": f"""
models: [{{name: customer_totals, columns: [{{name: customer, {PERSON}}}]}}]
""",
}

# The beginning of an undo as an operation prints it, without a target.
TYPED = ["headwaters", "sql", "--write"]

# The result of gold, before and after its build.
GOLD = "select customer, orders, amount from {gold} order by customer"
BUILT = [("ann", 2, 40), ("bob", 2, 70), ("cyd", 1, 40)]


class Orders:
    """The project, its schemas, and dbt on it."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.schema = f"t_{uuid.uuid4().hex[:8]}"
        self.bronze = f"{self.schema}_bronze.orders"
        self.silver = f"{self.schema}_silver.silver_orders"
        self.gold = f"{self.schema}_gold.customer_totals"
        self._manifest: Any = None
        for name, text in FILES.items():
            self.write(name, text)
        (folder / "project_macros").symlink_to(ROOT / "project_macros")

    def dbt(self, *arguments: str, expect: bool | None = True) -> Any:
        """Run dbt here; the result has its warnings in `messages`."""
        from dbt.cli.main import dbtRunner

        messages: list[str] = []

        def listen(event: Any) -> None:
            if event.info.level in ("warn", "error"):
                messages.append(event.info.msg)

        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.variables().items():
                patch.setenv(name, value)
            if self._manifest is None:
                parsed = dbtRunner().invoke(["parse", *self.options()])
                assert parsed.success, parsed.exception
                self._manifest = parsed.result
            result = dbtRunner(manifest=self._manifest, callbacks=[listen]).invoke(
                [*arguments, *self.options()]
            )
        result.messages = messages  # type: ignore[attr-defined]  # a field for the tests
        if expect is not None and result.success is not expect:
            said = "\n".join([f"dbt {' '.join(arguments)}: {result.exception or ''}", *messages])
            raise AssertionError(said)
        return result

    def options(self) -> list[str]:
        """Return the options of every dbt command on this project."""
        return [
            *("--no-use-colors", "--quiet", "--target", "engine"),
            *("--project-dir", str(self.folder), "--profiles-dir", str(ROOT / "profiles")),
            *("--target-path", str(self.folder / "target")),
            *("--log-path", str(self.folder / "logs")),
        ]

    def variables(self) -> dict[str, str]:
        """Return the environment that gives dbt this project's schemas, and the engine."""
        names = ("HEADWATERS_ENGINE", "HEADWATERS_LAKE")
        return {"HEADWATERS_SCHEMA": self.schema, **{name: os.environ[name] for name in names}}

    def operation(self, name: str, expect: bool = True, **arguments: Any) -> str:
        """Run `dbt run-operation`; return its output or its error."""
        printed = io.StringIO()
        with redirect_stdout(printed):
            result = self.dbt("run-operation", name, "--args", json.dumps(arguments), expect=expect)
        said = [printed.getvalue()] if expect else [str(result.exception or ""), *result.messages]
        return "\n".join(said).replace(self.schema + "_", "").strip()

    def arguments(self) -> dict[str, list[str]]:
        """Return the arguments of each public macro by name."""
        self.dbt("parse")
        return {
            macro.name: [argument.name for argument in macro.arguments]
            for macro in self._manifest.macros.values()
            if macro.package_name == "dbt_headwaters" and not macro.name.startswith("hw_")
        }

    def answers(self, result: Any) -> dict[str, str]:
        """Return each model's message by name."""
        return {
            answer.node.name: str(answer.message)
            for answer in result.result.results
            if answer.node.resource_type == "model"
        }

    def write(self, path: str, text: str) -> None:
        """Write a file of the project."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self._manifest = None

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement; {bronze}, {silver}, {gold} and {ops} are our tables."""
        names = {
            "bronze": self.bronze,
            "silver": self.silver,
            "gold": self.gold,
            "schema": self.schema,
            "ops": f"{self.schema}_ops.operations",
        }
        for name, table in names.items():
            statement = statement.replace(f"{{{name}}}", table)
        return [tuple(row) for row in self.spark.sql(statement).collect()]

    def version(self, table: str) -> int:
        """Return the newest version of a table."""
        return int(self.sql(f"describe history {table} limit 1")[0][0])

    def versions(self) -> dict[str, int]:
        """Return the newest version of each table."""
        return {table: self.version(table) for table in (self.bronze, self.silver, self.gold)}

    def undo(self, printed: str) -> None:
        """Run the statements in the command that an operation printed as its undo."""
        line = printed.split("undo:\n  ", 1)[1].splitlines()[0]
        *command, statements = shlex.split(line)
        assert command in (TYPED, [*TYPED, "--target", "engine"])
        for statement in split(statements):
            self.sql(re.sub(r"`(bronze|silver|gold|ops)`\.", rf"`{self.schema}_\1`.", statement))

    def close(self) -> None:
        """Remove every table."""
        for row in self.spark.sql(f"show databases like '{self.schema}*'").collect():
            self.spark.sql(f"drop database {row[0]} cascade")


def new_orders(spark: Any, folder: Path) -> Orders:
    """Return five orders in bronze, and nothing built yet."""
    made = Orders(spark, folder)
    made.sql("create schema {schema}_bronze")
    made.sql(
        "create table {bronze} (id int, customer string, day date, amount int) using delta"
        " tblproperties ('delta.enableChangeDataFeed' = 'true')"
    )
    made.sql(
        "insert into {bronze} values"
        " (1, 'ann', date'2026-01-01', 10), (2, 'bob', date'2026-01-01', 20),"
        " (3, 'ann', date'2026-01-02', 30), (4, 'cyd', date'2026-01-02', 40),"
        " (5, 'bob', date'2026-01-03', 50)"
    )
    return made


@pytest.fixture(scope="session", autouse=True)
def plugin() -> Iterator[None]:
    """Put the project on the path, since dbt finds its plugins as modules."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        yield


@pytest.fixture
def unbuilt(spark: Any, tmp_path: Path) -> Iterator[Orders]:
    """Yield five orders in bronze, and nothing built yet."""
    made = new_orders(spark, tmp_path / "orders")
    yield made
    made.close()


@pytest.fixture
def orders(unbuilt: Orders) -> Orders:
    """Return five orders in bronze, built to gold."""
    unbuilt.dbt("run")
    return unbuilt


@pytest.fixture(scope="module")
def shared(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orders]:
    """Yield five orders in bronze, built to gold, for tests that leave everything unchanged."""
    made = new_orders(spark, tmp_path_factory.mktemp("orders") / "project")
    made.dbt("run")
    yield made
    made.close()
