"""A small project of orders, from bronze to gold, for the tests of operations on tables."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROJECT = """
name: headwaters
version: 0.1.0
profile: headwaters
flags: {validate_macro_args: true}
on-run-start: ["{{ check_tables() }}"]
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


class Orders:
    """The project, its schemas, and dbt on it."""

    def __init__(
        self, spark: Any, dbt: Any, schema: str, folder: Path, output: Callable[[], str]
    ) -> None:
        self.spark, self.schema, self.folder = spark, schema, folder
        self._dbt, self._output = dbt, output
        self.bronze = f"{schema}_bronze.orders"
        self.silver = f"{schema}_silver.silver_orders"
        self.gold = f"{schema}_gold.customer_totals"

    def dbt(self, *arguments: str, expect: bool | None = True) -> Any:
        """Run dbt here."""
        return self._dbt(*arguments, project_dir=self.folder, schema=self.schema, expect=expect)

    def operation(self, name: str, expect: bool = True, **arguments: Any) -> str:
        """`dbt run-operation`; what it printed, or what it failed with."""
        self._output()
        result = self.dbt("run-operation", name, "--args", json.dumps(arguments), expect=expect)
        if expect:
            return self._output().replace(self.schema + "_", "").strip()
        said = [str(result.exception or ""), *result.messages]
        for answer in getattr(result.result, "results", None) or []:
            said.append(str(answer.message))
        return "\n".join(said).replace(self.schema + "_", "")

    def answers(self, result: Any) -> dict[str, str]:
        """What each model said, by its name."""
        return {
            answer.node.name: str(answer.message)
            for answer in result.result.results
            if answer.node.resource_type == "model"
        }

    def write(self, path: str, text: str) -> None:
        """A file of the project, new or changed."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement, in which {bronze}, {silver}, {gold} and {ops} are our tables."""
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
        """The newest version of a table."""
        return int(self.sql(f"describe history {table} limit 1")[0][0])

    def versions(self) -> dict[str, int]:
        """The newest version of each table."""
        return {table: self.version(table) for table in (self.bronze, self.silver, self.gold)}

    def undo(self, printed: str) -> None:
        """Run the statements that an operation printed as its undo."""
        text = printed.split("undo:\n", 1)[1]
        for line in text.splitlines():
            if not line.startswith("  "):
                break
            statement = line.strip().removesuffix(";")
            self.sql(re.sub(r"`(bronze|silver|gold|ops)`\.", rf"`{self.schema}_\1`.", statement))


@pytest.fixture
def unbuilt(
    spark: Any,
    dbt: Any,
    schema: str,
    new_project: Callable[[dict[str, str]], Path],
    capsys: pytest.CaptureFixture[str],
) -> Orders:
    """Five orders in bronze, and nothing built yet."""
    made = Orders(spark, dbt, schema, new_project(FILES), lambda: capsys.readouterr().out)
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


@pytest.fixture
def orders(unbuilt: Orders) -> Orders:
    """Five orders in bronze, built to gold."""
    unbuilt.dbt("run")
    return unbuilt
