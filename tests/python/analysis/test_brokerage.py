"""A warehouse of brokerage data in plain SQL: what is derived of its models, and that it is right."""

from __future__ import annotations

from collections import Counter

import pytest

from analysis.queries import Oracle, Tables, in_duckdb, maintained
from analysis.test_own_models import as_input
from analysis.warehouse import (
    FOLDER,
    SQL,
    History,
    columns_of,
    declared,
    in_order,
    inputs_of,
    key_of,
    of_kind,
    rendered,
)
from headwaters.analysis.derive import Derivation, Question, derive

SEEDS = frozenset(of_kind("seeds"))
QUERIES = {model: in_duckdb(rendered(model)) for model in SQL}


def derived_of(model: str) -> Derivation:
    """What is derived of a model."""
    inputs = [as_input(name, declared()) for name in inputs_of(model)]
    return derive(Question(rendered(model), inputs, SEEDS))


class Warehouse:
    """The tables in DuckDB: sources that a history changes, and models computed in full."""

    def __init__(self, seed: int) -> None:
        self.history = History(seed)
        self.oracle = Oracle({name: columns_of(name) for name in declared()})
        self.db = self.oracle.db
        self.db.execute("create schema inputs")
        for name in of_kind("sources"):
            columns = ", ".join(f"{column} {kind}" for column, kind in columns_of(name).items())
            self.db.execute(f"create table inputs.{name} ({columns})")
        self.seeds = {name: self.seed(name) for name in SEEDS}
        self.run(self.history.tables())

    def seed(self, name: str) -> list[tuple[object, ...]]:
        """The rows of a seed's file."""
        types = ", ".join(f"'{column}': '{kind}'" for column, kind in columns_of(name).items())
        file = FOLDER / "seeds" / f"{name}.csv"
        return self.db.execute(f"from read_csv('{file}', columns = {{{types}}})").fetchall()

    def run(self, statements: list[str]) -> None:
        """Change the sources."""
        for statement in statements:
            self.db.execute(statement)

    def tables(self, before: Tables | None = None) -> Tables:
        """Every table as it is now: a list of `before` where it is the same."""
        found: Tables = dict(self.seeds)
        for name in of_kind("sources"):
            found[name] = self.db.execute(f"from inputs.{name}").fetchall()
        for model in in_order():
            read = {name: found[name] for name in inputs_of(model)}
            found[model] = list(self.oracle.answer(QUERIES[model], read).elements())
        for name, rows in (before or {}).items():
            if Counter(rows) == Counter(found[name]):
                found[name] = rows
        return found


@pytest.mark.parametrize("seed", range(2))
def test_what_is_derived_is_right(seed: int) -> None:
    warehouse = Warehouse(seed)
    derived = {model: derived_of(model) for model in SQL}
    before = warehouse.tables()
    for _ in range(3):
        warehouse.run(warehouse.history.refresh())
        after = warehouse.tables(before)
        for model, found in derived.items():
            if found.strategy != "replace":
                read = [{name: tables[name] for name in inputs_of(model)} for tables in (before, after)]
                left = maintained(warehouse.oracle, QUERIES[model], found, *read)
                assert left == Counter(after[model]), model
        before = after


def test_what_is_declared_to_be_unique_is(seed: int = 3) -> None:
    warehouse = Warehouse(seed)
    for _ in range(4):
        warehouse.run(warehouse.history.refresh())
    for name, rows in warehouse.tables().items():
        places = [list(columns_of(name)).index(column) for column in key_of(name)]
        keys = Counter(tuple(row[place] for place in places) for row in rows)
        assert not places or max(keys.values(), default=1) == 1, name
