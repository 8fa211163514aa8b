"""Test the derivations of TPC-DS' 99 queries, which `docs/tpc-ds.md` lists.

If a change of the analysis is intended, rewrite the page and review it with the change:
`UPDATE_GOLDEN=1 pytest tests/python/analysis/test_tpcds.py`.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from analysis import queries
from analysis.queries import Oracle, Row, Tables, in_duckdb, maintained, rounded
from headwaters.analysis.derive import Derivation, Question, derive
from headwaters.analysis.relations import Input

FOLDER = Path(__file__).parent / "tpcds"
PAGE = Path(__file__).parents[3] / "docs" / "tpc-ds.md"
QUERIES = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.sql"))}
# Queries that are maintained in each run of the tests: one of every kind.
SOME = ("q03", "q14", "q16", "q27", "q28", "q40", "q49", "q66", "q71", "q77", "q93", "q98")
# The least number of queries that follow every input.
FOLLOWED = 87


def _tables() -> list[Input]:
    """Read the tables: a name and its key, then lines of columns for each type."""
    found: list[Input] = []
    columns: dict[str, str] = {}
    kind = ""
    for line in (FOLDER / "tables.txt").read_text().splitlines():
        if not line.startswith(" "):
            name, key = line.rstrip(")").split(" (")
            columns = {}
            found.append(Input(name, name, "", columns, [frozenset(key.split(", "))]))
            continue
        if not line.startswith("    "):
            kind, _, line = line.strip().partition(": ")
        columns |= dict.fromkeys(line.split(), kind)
    return found


TABLES = _tables()
KINDS = {name: kind for source in TABLES for name, kind in source.columns.items()}


@cache
def derived(name: str) -> Derivation:
    """Return the derivation of a query, as of a model without settings."""
    sql = QUERIES[name]
    used = [one for one in TABLES if re.search(rf"\b{one.name}\b", sql, re.IGNORECASE)]
    return derive(Question(sql, used, follows_ties=True))


def _told(found: Derivation) -> str:
    """Return the strategy in words."""
    lost = [source.name for source in found.inputs if not source.is_followed]
    if len(lost) == len(found.inputs):
        return "replaced"
    way = "by keys" if found.strategy == "affected_keys" else "row by row"
    way = "by traced rows" if found.leads else way
    if found.stages:
        traced = sum(bool(stage.leads) for stage in found.stages)
        many = len(found.stages)
        tables = f"{many} hidden table{'s' * (many > 1)}"
        ways = "by keys" if not traced else "by traced rows" if traced == many else ""
        way = f"{tables}, {ways or f'{traced} of them by traced rows'}"
    return f"{way}; replaced by changes of {', '.join(lost)}" if lost else way


def _page() -> str:
    """Return the page."""
    rows, followed = [], 0
    for name in QUERIES:
        found = derived(name)
        followed += all(source.is_followed for source in found.inputs)
        reason = found.refused.reason if found.refused else ""
        rows.append(f"| {int(name[1:])} | {_told(found)} | {reason} |")
    return "\n".join(
        [
            "# The queries of TPC-DS",
            "",
            "For people who decide if `incremental_strategy: auto` follows their SQL: its plan for "
            "each of the 99 queries.",
            "A model of each query reads the 24 tables with their declared keys; every table may "
            "change, and none is a seed.",
            "",
            f"{followed} of 99 follow every input. The others replace the table when one of their "
            "inputs changes.",
            "*By keys*, *by traced rows* and *hidden tables* are explained in "
            "[Analysis](analysis.md); what a hidden table does not cover is computed in full.",
            "`order by … limit` is part of the model: the table has the first rows, and a row that "
            "ties with the last of them may be in it or not.",
            "A test maintains each followed query through random changes of its tables and "
            "compares it with the whole query; another one writes this page "
            "(`tests/python/analysis/test_tpcds.py`).",
            "",
            "| query | followed | reason |",
            "|--:|---|---|",
            *rows,
            "",
        ]
    )


def test_the_page_has_the_plan_of_each_query() -> None:
    page = _page()
    if "UPDATE_GOLDEN" in os.environ:
        PAGE.write_text(page)
    assert page == PAGE.read_text()
    assert len(QUERIES) == 99
    followed = [
        name for name in QUERIES if all(source.is_followed for source in derived(name).inputs)
    ]
    assert len(followed) >= FOLLOWED


class _Data:
    """Random rows whose values meet the conditions of a query."""

    def __init__(self, name: str, seed: int, columns: Mapping[str, Sequence[str]]) -> None:
        self.name, self.chance = name, random.Random(f"{name} {seed}")
        self.columns = columns
        # the literals that the query compares with a column
        self.literals: dict[str, list[str]] = defaultdict(list)
        compared = (exp.EQ, exp.In, exp.Between, exp.LT, exp.LTE, exp.GT, exp.GTE)
        for node in sqlglot.parse_one(QUERIES[name], read="spark").find_all(*compared):
            texts = [found.name for found in node.find_all(exp.Literal)][:6]
            for column in [found.name.lower() for found in node.find_all(exp.Column)][:2]:
                self.literals[column] += texts

    def changed(self, source: Input, before: Sequence[Row], most: int) -> list[Row]:
        """Return most of the rows, and others."""
        names, (key,) = self.columns[source.name], source.unique
        rows = [row for row in before if self.chance.random() < 0.7]
        for _ in range(self.chance.randint(most // 2, most)):
            row = {column: self._value(column, key) for column in names}
            if self.name == "q06" and "d_moy" in row:
                # the query fails if a month has two numbers
                row["d_month_seq"] = (row["d_year"] or 0) * 12 + (row["d_moy"] or 0)
            rows.append(tuple(row.values()))
        places = [names.index(column) for column in sorted(key)]
        return list({tuple(row[place] for place in places): row for row in rows}.values())

    def _value(self, column: str, key: frozenset[str]) -> Any:
        chance, kind = self.chance, KINDS[column]
        if column in key:
            return chance.randint(1, 4 if len(key) == 1 else 3)
        if re.search(r"_sk$|ticket_number|order_number", column):
            return chance.choice([1, 1, 1, 2, 2, 2, 3, 3, None])
        values: list[Any] = []
        others: list[Any] = ["a", "a", "b", None]
        for text in self.literals[column]:
            if kind == "int" and re.fullmatch(r"\d{1,6}", text):
                values.append(int(text))
            elif kind == "decimal(7,2)" and re.fullmatch(r"\d{1,4}(\.\d{1,2})?", text):
                values.append(Decimal(text) + 1)
            elif kind == "date" and re.fullmatch(r"\d{4}(-\d{1,2}){2}", text):
                day = date(*map(int, text.split("-")))
                values.append(day + timedelta(days=chance.choice([0, 0, 1, 5, 40])))
            elif kind == "string" and not re.fullmatch(r"\d{1,3}", text):
                values.append(text)
        if kind == "int":
            others = [*(value + 1 for value in values), 1, 2, 2, 3, None]
        elif kind == "decimal(7,2)":
            others = [Decimal(text) for text in ("1.50", "20.00", "-3.25", "150.00")] + [None]
        elif kind == "date":
            others = [date(2000, 3, 1), date(2000, 3, 2), None]
        return chance.choice(values[:6] if values and chance.random() < 0.85 else others)


def _cut_at(sql: str, rows: int, columns: int) -> str:
    """Return a query of DuckDB with another LIMIT, if it has one, and a total order."""
    tree = sqlglot.parse_one(sql, read="duckdb")
    if not tree.args.get("limit"):
        return sql
    order = tree.args.get("order") or exp.Order(expressions=[])
    places = [exp.Ordered(this=exp.Literal.number(n + 1)) for n in range(columns)]
    tree.set("order", exp.Order(expressions=[*order.expressions, *places]))
    tree.set("limit", exp.Limit(expression=exp.Literal.number(rows)))
    return tree.sql(dialect="duckdb")


def wrong(name: str, seed: int, rounds: int, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """Return the rows of a run that differ from the query."""
    found = derived(name)
    followed = [source for source in found.inputs if source.is_followed]
    leads = [*found.leads.values(), *(sql for s in found.stages for sql in s.leads.values())]
    words = set(re.findall(r"\w+", " ".join([QUERIES[name].lower(), *leads])))
    columns = {
        source.name: [one for one in source.columns if one in words or one in source.unique[0]]
        for source in found.inputs
    }
    oracle = Oracle({name: {one: KINDS[one] for one in own} for name, own in columns.items()})
    data = _Data(name, seed, columns)
    before: Tables = {
        source.name: data.changed(source, [], 6 if len(source.unique[0]) == 1 else 16)
        for source in found.inputs
    }
    plain = in_duckdb(QUERIES[name])
    oracle.answer(plain, before)
    many, rows = len(oracle.names(plain)), data.chance.choice([2, 3, 100])
    sql = _cut_at(plain, rows, many)
    rest = _cut_at(in_duckdb(found.rest), rows, many) if found.stages else ""
    with monkeypatch.context() as patched:
        patched.setattr(
            queries, "in_duckdb", lambda text: rest if text == found.rest else in_duckdb(text)
        )
        for _ in range(rounds):
            after = before | {
                source.name: data.changed(source, before[source.name], 4)
                for source in followed
                if data.chance.random() < 0.6
            }
            try:
                whole = oracle.answer(sql, after)
            except duckdb.InvalidInputException as error:
                if "More than one row" not in str(error):
                    raise
                continue  # a scalar subquery has several rows now, so a full refresh fails as well
            names = [column.lower() for column in oracle.names(sql)]
            left = maintained(oracle, sql, found, before, after)
            if rounded(left) != rounded(whole):
                return f"{name} {seed}: whole {whole}\nleft {left}"
            places = [names.index(key.lower()) for key in found.unique_key]
            keys = Counter(tuple(row[place] for place in places) for row in whole.elements())
            if places and any(count > 1 for count in keys.values()):
                return f"{name} {seed}: {found.unique_key} does not tell the rows apart: {whole}"
            before = after
    return None


@pytest.mark.parametrize("name", SOME)
def test_what_is_derived_is_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wrong(name, 1, 2, monkeypatch) is None


@pytest.mark.slow
def test_what_is_derived_of_every_query_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = [
        problem
        for name in QUERIES
        if any(source.is_followed for source in derived(name).inputs)
        for seed in range(2, 5)
        if (problem := wrong(name, seed, 3, monkeypatch))
    ]
    assert problems == []
