"""Run the brokerage warehouse in DuckDB, maintained as derived and computed in full.

`make soak-analysis` runs many histories.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache

from analysis.history import History
from analysis.queries import Oracle, Row, Tables, in_duckdb, maintained
from analysis.test_own_models import as_input
from analysis.warehouse import (
    FOLDER,
    SQL,
    columns_of,
    declared,
    in_order,
    inputs_of,
    key_of,
    of_kind,
    rendered,
)
from headwaters.analysis.derive import Derivation, Question, derive
from headwaters.analysis.relations import Input

SEEDS = frozenset(of_kind("seeds"))


def inputs_with_keys(model: str) -> list[Input]:
    """Return the inputs of a model, with their declared keys."""
    return [as_input(name, declared()) for name in inputs_of(model)]


@cache
def derived_of(model: str) -> Derivation:
    """Return the derivation of a model."""
    return derive(Question(rendered(model), inputs_with_keys(model), SEEDS))


@cache
def query_of(model: str) -> str:
    """Return the SQL of a model in DuckDB's dialect."""
    return in_duckdb(rendered(model))


class Warehouse:
    """Sources that change, and models that are computed in full."""

    def __init__(self) -> None:
        self.oracle = Oracle({name: columns_of(name) for name in declared()})
        self.db = self.oracle.db
        self.db.execute("create schema inputs")
        for name in of_kind("sources"):
            columns = ", ".join(f"{column} {kind}" for column, kind in columns_of(name).items())
            self.db.execute(f"create table inputs.{name} ({columns})")
        self.seeds: Tables = {}
        for name in SEEDS:
            file = FOLDER / "seeds" / f"{name}.csv"
            rows = self.db.execute(f"from read_csv('{file}', columns = {columns_of(name)})")
            self.seeds[name] = rows.fetchall()

    def change(self, statements: Sequence[str]) -> None:
        """Run statements over the sources."""
        for statement in statements:
            self.db.execute(statement)

    def tables(self) -> Tables:
        """Return every current table, with the models computed in full."""
        found = dict(self.seeds)
        for name in of_kind("sources"):
            found[name] = self.db.execute(f"from inputs.{name}").fetchall()
        for model in in_order():
            answer = self.oracle.answer(query_of(model), read_by(model, found))
            found[model] = list(answer.elements())
        return found

    def wrong(self, before: Tables, after: Tables) -> Iterator[str]:
        """Return the models whose maintained rows differ from the full computation."""
        for model in SQL:
            derived = derived_of(model)
            read = [read_by(model, tables) for tables in (before, after)]
            replaced = [
                source.name
                for source in derived.inputs
                if not source.is_followed and read[0][source.name] != read[1][source.name]
            ]
            if not replaced:
                left = maintained(self.oracle, query_of(model), derived, *read)
                if left != Counter(after[model]):
                    yield model


def read_by(model: str, tables: Tables) -> Tables:
    """Return the tables that a model reads."""
    return {name: tables[name] for name in inputs_of(model)}


def repeats(tables: Tables) -> Iterator[str]:
    """Return the tables that repeat a value declared unique."""
    for name, rows in tables.items():
        keys = keys_of(name, rows)
        if len(set(keys)) < len(keys):
            yield name


def keys_of(name: str, rows: Sequence[Row]) -> list[Row]:
    """Return the keys of rows; none if the model declares none."""
    places = [list(columns_of(name)).index(column) for column in key_of(name)]
    return [tuple(row[place] for place in places) for row in rows if places]


def tried_history(seed: int, refreshes: int) -> list[str]:
    """Return the errors of a history of some refreshes, large and small."""
    history, warehouse = History(seed), Warehouse()
    warehouse.change(history.tables())
    before = warehouse.tables()
    problems = []
    for number in range(refreshes):
        warehouse.change(history.refresh(history.draw.choice([1, 3, 8, 15])))
        after = warehouse.tables()
        found = [*warehouse.wrong(before, after), *repeats(after)]
        problems += [f"history {seed}, refresh {number}: {name}" for name in found]
        before = after
    return problems


def main(count: int) -> int:
    """Run histories of four refreshes each; print the errors."""
    problems = []
    for seed in range(count):
        problems += tried_history(seed, 4)
    print("\n".join(problems) or f"brokerage: {count * 4} refreshes, none was wrong", flush=True)
    return len(problems)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])) != 0)
