"""Compare the strategy and inputs of every model of the test projects with `golden.txt`.

If a change of the analysis is intended, rewrite the list and review it with the change:
`UPDATE_GOLDEN=1 pytest tests/python/analysis/test_golden.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2

from analysis import test_derive, test_hand_made, test_own_models, warehouse
from analysis.refreshes import derived_of
from analysis.test_own_models import Written
from headwaters.analysis.derive import Derivation, Question, derive
from headwaters.analysis.proof import prove
from headwaters.analysis.refusal import Refused
from headwaters.analysis.relations import Input
from headwaters.analysis.strategies import strategy_of
from headwaters.platform.nodes import as_tuple

GOLDEN = Path(__file__).parent / "golden.txt"
PROJECT = Path(__file__).parents[1] / "incremental" / "project" / "models"
# The input tables of the project, as world.py creates them.
TABLES = {
    "items": "id int, grp string, val int",
    "events": "id int, moment int, val int, note string",
    "people": "grp string, name string",
    "rates": "grp string, rate decimal(5,2)",
    "marks": "id int, tag string, code binary, moment timestamp, val int",
}
KEYS = {"items": ["id"], "people": ["grp"], "rates": ["grp"], "marks": ["id"]}
# Columns of models that other models of the project read.
MODELS = {
    "latest": "id int, moment int, val int, note string",
    "linear": "id int, grp string, twice int, rate decimal(5,2)",
    "totals": "grp string, is_large boolean, item_count bigint, total bigint, largest int",
    "high_or_low": "grp string, val int",
    "auto_totals": "grp string, n bigint",
}


def told(found: Derivation) -> str:
    """Return one line: strategy, unique key, inputs with their roles, leads, stages, reason."""
    inputs = ", ".join(
        " ".join(
            part
            for part in (
                source.name,
                source.kind,
                f"by {dict(source.key)}" if source.key else "",
                f"via {source.via} on {dict(source.on)}" if source.via else "",
            )
            if part
        )
        for source in found.inputs
    )
    parts = [f"{found.strategy} ({', '.join(found.unique_key)}) of {inputs}"]
    parts += [f"led to {', '.join(found.key)}"] if found.leads else []
    parts += [f"{len(found.stages)} stages"] if found.stages else []
    parts += [f"because {found.refused.cause}"] if found.refused else []
    return "; ".join(parts)


def _derived(question: Question) -> str:
    try:
        return told(derive(replace(question, follows_ties=True)))
    except Refused as refused:
        return f"refused: {refused.code} {refused.cause}"


def _columns(text: str) -> dict[str, str]:
    pairs = (column.split(" ", 1) for column in re.split(r", (?=[a-z])", text))
    return {name: kind for name, kind in pairs}


class _Model:
    """A model of the incremental project: its `sql`, its `config`, and its inputs."""

    def __init__(self, path: Path) -> None:
        self.config: dict[str, Any] = {"materialized": "incremental"}
        self.inputs: dict[str, Input] = {}
        macros = {
            kind: self._marked(kind)
            for kind in ("affected", "changes", "images", "lookup", "signed")
        }
        self.sql = jinja2.Template(path.read_text()).render(
            config=self._configured,
            source=lambda _, name: self._input(name, "lookup"),
            ref=lambda name: self._input(name, "lookup"),
            **macros,
        )

    def _configured(self, **settings: Any) -> str:
        self.config.update(settings)
        return ""

    def _input(self, name: str, kind: str, **options: Any) -> str:
        columns = _columns({**TABLES, **MODELS}.get(name, "id int"))
        if kind == "signed":
            columns["_weight"] = "int"
        if kind == "images":
            columns["_image"] = "struct<at:timestamp,version:bigint,deleted:boolean>"
        unique = [frozenset(KEYS[name])] if name in KEYS else []
        key = options.get("key")
        keys = {one: one for one in as_tuple(key)} if not isinstance(key, dict) else key
        on = options.get("on")
        joined = {one: one for one in as_tuple(on)} if not isinstance(on, dict) else on or {}
        via = options.get("via")
        made = Input(name, name, kind, columns, unique, None if via else keys or None, via, joined)
        if not (kind == "lookup" and name in self.inputs):
            self.inputs[name] = made
        return name

    def _marked(self, kind: str) -> Any:
        def mark(name: str, **options: Any) -> str:
            return self._input(name, kind, **options)

        return mark


def _of_project(path: Path) -> str:
    model = _Model(path)
    inputs, key = list(model.inputs.values()), as_tuple(model.config.get("unique_key"))
    if path.parent.name == "auto":
        return _derived(Question(model.sql, inputs, unique_key=key))
    strategy = strategy_of(model.config)
    assert strategy is not None, path
    try:
        prove(model.sql, inputs, strategy.rules, key)
    except Refused as refused:
        return f"refused: {refused.code} {refused.cause}"
    return "proven, of " + ", ".join(f"{source.name} {source.kind}" for source in inputs)


def _of_own(name: str) -> str:
    written, nodes = Written(name), test_own_models.declared()
    inputs = [test_own_models.as_input(source, nodes) for source in written.inputs]
    seeds = frozenset(source for source in written.inputs if nodes[source]["is_seed"])
    return _derived(Question(written.sql, inputs, seeds, as_tuple(written.config["unique_key"])))


def lines() -> Iterator[str]:
    """Yield a line for each model of each project."""
    for sql in test_hand_made.QUERIES:
        used = [one for one in test_hand_made.INPUTS if re.search(rf"\b{one.name}\b", sql)]
        yield f"hand made {sql}: {_derived(Question(sql, used))}"
    for name in warehouse.SQL:
        yield f"brokerage {name}: {told(derived_of(name))}"
    for name in test_derive.TPCH:
        sql = (Path(__file__).parent / "tpch" / f"{name}.sql").read_text()
        tables = [
            test_derive.table(one) for one in test_derive.TABLES if re.search(rf"\b{one}\b", sql)
        ]
        yield f"tpch {name}: {_derived(Question(sql, tables, test_derive.SEEDS))}"
    for name in test_own_models.MODELS:
        yield f"own {name}: {_of_own(name)}"
    for path in sorted(PROJECT.glob("**/*.sql")):
        text = path.read_text()
        if "materialized='view'" not in text and "images(" not in text:
            yield f"incremental {path.stem}: {_of_project(path)}"


def test_strategy_and_inputs_of_every_model_are_as_reviewed() -> None:
    found = [line.replace("\n", " ") for line in lines()]
    if "UPDATE_GOLDEN" in os.environ:
        GOLDEN.write_text("\n".join(found) + "\n")
    assert found == GOLDEN.read_text().splitlines()
