"""Test that the project's models without their macros derive the declared settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from headwaters.analysis.derive import Question, derive
from headwaters.analysis.relations import Input

ROOT = Path(__file__).parents[3]
MODELS = [
    "account_daily_spend",
    "claims_loss_ratio",
    "county_daily_cases",
    "financial_transactions_dim",
    "product_daily_funnel",
    "sessions",
    "state_weekly_summary",
]


class Written:
    """A model as its file has it: `sql` without macros, `config`, and inputs by their macro."""

    def __init__(self, name: str) -> None:
        self.config: dict[str, Any] = {}
        self.inputs: dict[str, str] = {}
        text = next(ROOT.glob(f"models/*/{name}.sql")).read_text()
        macros = {kind: self._marked(kind) for kind in ("affected", "changes", "lookup")}
        self.sql = jinja2.Template(text).render(
            config=self._configured, ref=lambda name: name, **macros
        )

    def _configured(self, **settings: Any) -> str:
        self.config.update(settings)
        return ""

    def _marked(self, kind: str) -> Any:
        def mark(relation: str, **options: Any) -> str:
            self.inputs[relation] = kind
            return relation

        return mark


def declared() -> dict[str, dict[str, Any]]:
    """Return models and seeds by name, as YAML declares them."""
    found = {}
    for file in (*ROOT.glob("models/**/*.yml"), *ROOT.glob("seeds/**/*.yml")):
        for kind in ("models", "seeds"):
            for node in (yaml.safe_load(file.read_text()) or {}).get(kind, []):
                found[node["name"]] = node | {"is_seed": kind == "seeds"}
    return found


def _of_strings(tests: list[Any]) -> set[str]:
    return {test for test in tests if isinstance(test, str)}


def _types(column: dict[str, Any]) -> set[str]:
    return {constraint["type"] for constraint in column.get("constraints", [])}


def as_input(name: str, nodes: dict[str, dict[str, Any]]) -> Input:
    node = nodes[name]
    columns = {column["name"]: column["data_type"] for column in node["columns"]}
    keys = [
        frozenset([column["name"]])
        for column in node["columns"]
        if {"unique", "not_null"} <= {*_of_strings(column.get("data_tests", [])), *_types(column)}
    ]
    for test in node.get("data_tests", []):
        if isinstance(test, dict) and "unique_combination_of_columns" in test:
            arguments = test["unique_combination_of_columns"]["arguments"]
            keys.append(frozenset(arguments["combination_of_columns"]))
    return Input(name, name, "", columns, keys)


@pytest.mark.parametrize("name", MODELS)
def test_what_is_derived_is_what_was_written(name: str) -> None:
    written, nodes = Written(name), declared()
    inputs = [as_input(source, nodes) for source in written.inputs]
    seeds = frozenset(source for source in written.inputs if nodes[source]["is_seed"])
    key = written.config["unique_key"]
    found = derive(Question(written.sql, inputs, seeds, key if isinstance(key, list) else [key]))
    assert found.strategy == written.config["incremental_strategy"]
    followed = {source.name for source in found.inputs if source.is_followed}
    assert followed == {source for source, kind in written.inputs.items() if kind != "lookup"}
    assert found.refused is None
