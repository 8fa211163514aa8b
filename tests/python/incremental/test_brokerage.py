"""Test the models of a brokerage warehouse, which read each other, over changing sources."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from analysis.history import History
from analysis.refreshes import keys_of
from analysis.test_brokerage import BROKERAGE, told_of
from analysis.warehouse import FOLDER, SQL, columns_of, of_kind, rendered

SEEDS = of_kind("seeds")
SOURCES = of_kind("sources")
TYPES = {name: {"+column_types": columns_of(name)} for name in SEEDS}
FOLLOWED = {"delta.enableChangeDataFeed": "true"}
AUTO = {"+materialized": "incremental", "+file_format": "delta", "+incremental_strategy": "auto"}
PROJECT = {
    "name": "brokerage",
    "version": "0.1.0",
    "profile": "headwaters",
    "seeds": {"brokerage": {"+tblproperties": FOLLOWED, **TYPES}},
    "models": {"brokerage": {"+tblproperties": FOLLOWED, **AUTO}},
}
REFRESHES = 5


@pytest.mark.slow
def test_refreshes_leave_what_the_models_say(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    inputs, history = f"{schema}_inputs", History(22)
    models = [*FOLDER.glob("*/*.sql"), *FOLDER.glob("*.yml"), *FOLDER.glob("[gs]*[dr]/*.yml")]
    files = {f"models/{path.relative_to(FOLDER)}": path.read_text() for path in models}
    files |= {f"seeds/{path.name}": path.read_text() for path in FOLDER.glob("seeds/*")}
    folder = new_project({"dbt_project.yml": json.dumps(PROJECT), **files})
    spark.sql(f"create schema {inputs}")
    for name in SOURCES:
        columns = ", ".join(f"{column} {kind}" for column, kind in columns_of(name).items())
        spark.sql(
            f"create table {inputs}.{name} ({columns}) using delta"
            " tblproperties ('delta.enableChangeDataFeed' = 'true')"
        )
    dbt("seed", project_dir=folder, schema=schema)

    def change(statements: list[str]) -> None:
        for statement in statements:
            spark.sql(statement.replace("inputs.", f"{inputs}."))

    def ran() -> dict[str, str]:
        answers = dbt("run", project_dir=folder, schema=schema).result.results
        return {it.node.name: it.message for it in answers}

    def wrong() -> list[str]:
        """Return the models whose tables differ from their SQL, or repeat a declared key."""
        found = []
        for model in SQL:
            said = spark.sql(
                rendered(model, lambda it: f"{inputs if it in SOURCES else schema}.{it}")
            ).collect()
            got = spark.table(f"{schema}.{model}").collect()
            keys = keys_of(model, got)
            if sorted(map(repr, got)) != sorted(map(repr, said)) or len(set(keys)) < len(keys):
                found.append(model)
        return found

    change(history.tables())
    ran()
    assert wrong() == []
    derived: dict[str, str] = {}
    types: dict[str, dict[str, str]] = {}
    for model in SQL:
        detail = spark.sql(f"describe detail {schema}.{model}").collect()[0]
        noted = json.loads(detail["properties"]["headwaters.proof"])
        roles = {named(source): role for source, role in noted["inputs"].items()}
        for role in roles.values():
            role["via"] = named(role.get("via") or "")
        led_to = (noted["leads"] or {}).get("key", [])
        derived[model] = told_of(noted["strategy"], noted["unique_key"], roles, led_to)
        types[model] = dict(spark.table(f"{schema}.{model}").dtypes)
    assert types == {model: columns_of(model) for model in SQL}
    assert derived == BROKERAGE
    incremental = set()
    for _ in range(REFRESHES):
        change(history.refresh())
        messages = ran()
        incremental |= {name for name in messages if "replace:" not in messages[name]}
        assert wrong() == []
    assert incremental >= {model for model, told in BROKERAGE.items() if "!" not in told}


def named(source: str) -> str:
    """Return the name of a table without its schema."""
    return source.replace("`", "").rpartition(".")[2]
