"""Draw random queries over small tables, and compare the analysis with DuckDB.

The grammar knows nothing of the rules. Accepted queries are run: a linear query over two halves of
its input, sums over rows that were taken away, a keyed query over some keys. Strategies derived
from plain SQL are maintained by hand: rows of every followed input change, and the rows of the
affected keys are recomputed. `make soak-analysis` draws many queries and prints how many were
accepted.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from headwaters.analysis import dialect
from headwaters.analysis.derive import (
    Derivation,
    Question,
    Traces,
    WholeQuery,
    derive,
    staged_derivation,
)
from headwaters.analysis.proof import prove
from headwaters.analysis.reader import Reader
from headwaters.analysis.refusal import Refused
from headwaters.analysis.relations import Input
from headwaters.analysis.strategies import RuleBook
from headwaters.analysis.tracing import Tracing

Row = tuple[Any, ...]
Tables = dict[str, list[Row]]

COLUMNS = {
    "t": {"id": "int", "grp": "string", "val": "int"},
    "u": {"id": "int", "grp": "string", "val": "int"},
    "p": {"grp": "string", "val": "int"},
    "l": {"grp": "string", "name": "string", "rate": "int"},
    "m": {"id": "int", "val": "int"},
}
CHANGES = [Input("t", "t", "changes", COLUMNS["t"])]
SIGNED = [Input("t", "t", "signed", COLUMNS["t"] | {"_weight": "int"})]
AFFECTED = [
    Input("t", "t", "affected", COLUMNS["t"], key={"id": "id"}),
    Input("u", "u", "affected", COLUMNS["u"], key={"id": "id"}),
    Input("p", "p", "affected", COLUMNS["p"], via="t", on={"grp": "grp"}),
]
LOOKUPS = [Input(name, name, "lookup", COLUMNS[name]) for name in ("l", "m")]

Columns = list[tuple[str, str]]


class Draw:
    """A generator of random queries over `tables`."""

    def __init__(self, chance: random.Random, tables: Sequence[str], signed: bool = False) -> None:
        self.chance = chance
        self.tables = list(tables)
        self.signed = signed
        self.count = 0
        self.ctes: list[tuple[str, str, Columns]] = []

    def name(self) -> str:
        """Return an unused alias."""
        self.count += 1
        return f"x{self.count}"

    def query(self, depth: int) -> tuple[str, Columns]:
        """Return SQL and its columns, which are named c1, c2 and so on."""
        if depth == 0:
            return self.table()
        kinds = ["row"] * 3 + ["join"] * 4 + ["group", "window", "distinct", "set", "nested", "cte"]
        kind = self.chance.choice(kinds)
        drawn: tuple[str, Columns] = getattr(self, f"draw_{kind}")(depth)
        return drawn

    def table(self) -> tuple[str, Columns]:
        """Return a table with its columns renamed."""
        if self.ctes and self.chance.random() < 0.3:
            name, _, columns = self.chance.choice(self.ctes)
            return f"select * from {name}", columns
        table = self.chance.choice(self.tables)
        columns = [(column, kind) for column, kind in COLUMNS[table].items()]
        if self.signed and table == "t":
            columns.append(("_weight", "int"))
        alias = self.name()
        names = self.renamed(columns)
        listed = ", ".join(
            f"{alias}.{column} as {new}"
            for (column, _), (new, _) in zip(columns, names, strict=True)
        )
        return f"select {listed} from {table} as {alias}", names

    def renamed(self, columns: Columns) -> Columns:
        """Rename the columns c1, c2 and so on; the weight keeps its name."""
        return [
            (name if name == "_weight" else f"c{place}", kind)
            for place, (name, kind) in enumerate(columns, 1)
        ]

    def pick(self, columns: Columns, kind: str | None = None) -> str | None:
        """Return a column, of the given type if there is one."""
        found = [name for name, own in columns if kind in (None, own) and name != "_weight"]
        return self.chance.choice(found) if found else None

    def value(self, columns: Columns, alias: str) -> tuple[str, str]:
        """Return an expression and its type, mostly a plain column."""
        column, kind = self.chance.choice([c for c in columns if c[0] != "_weight"] or columns)
        plain = f"{alias}.{column}"
        if self.chance.random() < 0.75:
            return plain, kind
        if kind == "int":
            return self.chance.choice(
                [
                    (f"{plain} + 1", "int"),
                    (f"coalesce({plain}, 0)", "int"),
                    (f"case when {plain} > 2 then 1 end", "int"),
                    (f"cast({plain} as string)", "string"),
                    (f"{plain} % 2", "int"),
                ]
            )
        return self.chance.choice(
            [
                (f"upper({plain})", "string"),
                (f"length({plain})", "int"),
                (f"substring({plain}, 1, 1)", "string"),
            ]
        )

    def condition(self, columns: Columns, alias: str) -> str:
        """Return a condition on one row."""
        column, kind = self.chance.choice([c for c in columns if c[0] != "_weight"] or columns)
        plain = f"{alias}.{column}"
        if kind == "int":
            return self.chance.choice(
                [f"{plain} > 2", f"{plain} is not null", f"{plain} in (1, 3)"]
            )
        return self.chance.choice([f"{plain} <> 'a'", f"{plain} is null", f"{plain} like 'b%'"])

    def selected(self, columns: Columns, alias: str, weight: bool = True) -> tuple[str, Columns]:
        """Return a select list."""
        chosen = [self.value(columns, alias) for _ in range(self.chance.randint(1, 4))]
        keeps = [name for name, kind in columns if kind == "int" and name != "_weight"]
        if keeps and self.chance.random() < 0.7:
            chosen.insert(0, (f"{alias}.{keeps[0]}", "int"))
        if weight and ("_weight", "int") in columns and self.chance.random() < 0.9:
            chosen.append((f"{alias}._weight", "int"))
        names = [
            ("_weight" if sql.endswith("._weight") else f"c{place}", kind)
            for place, (sql, kind) in enumerate(chosen, 1)
        ]
        listed = ", ".join(
            f"{sql} as {name}" for (sql, _), (name, _) in zip(chosen, names, strict=True)
        )
        return listed, names

    def draw_row(self, depth: int) -> tuple[str, Columns]:
        sql, columns = self.query(depth - 1)
        alias = self.name()
        listed, names = self.selected(columns, alias)
        where = f" where {self.condition(columns, alias)}" if self.chance.random() < 0.5 else ""
        return f"select {listed} from ({sql}) as {alias}{where}", names

    def draw_join(self, depth: int) -> tuple[str, Columns]:
        (left, mine), (right, theirs) = (
            self.query(depth - 1),
            self.query(self.chance.choice([0, depth - 1])),
        )
        one, other = self.name(), self.name()
        kind = self.chance.choice(
            ["join"] * 4
            + ["left join"] * 3
            + ["right join", "full join", "left semi join", "left anti join", "cross join", ","]
        )
        pairs = [
            f"{one}.{a} {operator} {other}.{b}"
            for a, t in mine
            for b, s in theirs
            if t == s and "_weight" not in (a, b)
            for operator in (["="] if self.chance.random() < 0.8 else ["<=>"])
        ]
        on = self.chance.choice(pairs) if pairs else "1 = 1"
        if self.chance.random() < 0.3:
            on += f" and {self.condition(theirs, other)}"
        listed, names = self.selected(mine, one)
        if kind not in ("left semi join", "left anti join"):
            more, more_names = self.selected(theirs, other, ("_weight", "int") not in names)
            place = len(names)
            shifted = [
                (name if name == "_weight" else f"c{place + n}", t)
                for n, (name, t) in enumerate(more_names, 1)
            ]
            for (before, _), (after, _) in reversed(list(zip(more_names, shifted, strict=True))):
                more = more.replace(f" as {before}", f" as {after}") if before != after else more
            listed, names = f"{listed}, {more}", names + shifted
            if len({n for n, _ in names}) < len(names):
                return self.table()
        sources = f"({left}) as {one} {kind} ({right}) as {other}"
        if kind in ("cross join", ","):
            return f"select {listed} from {sources} where {on}", names
        return f"select {listed} from {sources} on {on}", names

    def draw_group(self, depth: int) -> tuple[str, Columns]:
        sql, columns = self.query(depth - 1)
        alias = self.name()
        # the order of a set differs between processes
        picked = dict.fromkeys(self.pick(columns) for _ in range(self.chance.randint(0, 2)))
        keys = [key for key in picked if key is not None]
        kinds = dict(columns)
        measured = self.pick(columns, "int")
        measure = self.chance.choice(
            ["count(*)", f"max({alias}.{measured})", f"sum({alias}.{measured})"]
        )
        if measured is None:
            measure = "count(*)"
        names: Columns = [(f"c{n}", kinds[str(key)]) for n, key in enumerate(keys, 1)]
        listed = [f"{alias}.{key} as {name}" for key, (name, _) in zip(keys, names, strict=True)]
        listed.append(f"{measure} as c{len(names) + 1}")
        names.append((f"c{len(names) + 1}", "int"))
        group = f" group by {', '.join(f'{alias}.{key}' for key in keys)}" if keys else ""
        having = " having count(*) > 1" if keys and self.chance.random() < 0.2 else ""
        return f"select {', '.join(listed)} from ({sql}) as {alias}{group}{having}", names

    def draw_window(self, depth: int) -> tuple[str, Columns]:
        sql, columns = self.query(depth - 1)
        alias = self.name()
        key, value = self.pick(columns), self.pick(columns, "int")
        if key is None:
            return self.table()
        order = f" order by {alias}.{self.pick(columns)}"
        function = self.chance.choice(
            [f"count(*) over (partition by {alias}.{key})"] * 2
            + [
                f"rank() over (partition by {alias}.{key}{order})",
                f"max({alias}.{value or key}) over (partition by {alias}.{key}{order})",
                f"dense_rank() over ({order})",
            ]
        )
        names = self.renamed(columns)
        listed = [
            f"{alias}.{old} as {new}" for (old, _), (new, _) in zip(columns, names, strict=True)
        ]
        new = f"c{len(names) + 1}"
        return (
            f"select {', '.join(listed)}, {function} as {new} from ({sql}) as {alias}",
            [*names, (new, "string" if function.startswith("max") and not value else "int")],
        )

    def draw_distinct(self, depth: int) -> tuple[str, Columns]:
        sql, columns = self.query(depth - 1)
        alias = self.name()
        listed, names = self.selected(columns, alias)
        return f"select distinct {listed} from ({sql}) as {alias}", names

    def draw_set(self, depth: int) -> tuple[str, Columns]:
        left, mine = self.query(depth - 1)
        right, theirs = self.query(self.chance.choice([0, depth - 1]))
        kinds = [kind for _, kind in theirs]
        chosen: Columns = []
        pairs: list[str] = []
        for name, kind in mine:
            if kind in kinds and (name != "_weight" or ("_weight", "int") in theirs):
                place = kinds.index(kind) if name != "_weight" else theirs.index(("_weight", "int"))
                pairs.append(theirs[place][0])
                chosen.append((name, kind))
        if not chosen:
            return left, mine
        one, other = self.name(), self.name()
        names = self.renamed(chosen)
        first = ", ".join(f"{one}.{a} as {n}" for (a, _), (n, _) in zip(chosen, names, strict=True))
        second = ", ".join(f"{other}.{b}" for b in pairs)
        kind = self.chance.choice(["union all"] * 3 + ["union", "intersect", "except"])
        if kind == "union all" and self.chance.random() < 0.4:
            # the branch of a row
            names = [*names, (f"c{len(names) + 1}", "string")]
            first += f", 'a' as {names[-1][0]}"
            second += f", '{self.chance.choice('bbba')}'"
        return (
            f"(select {first} from ({left}) as {one}) {kind} "
            f"(select {second} from ({right}) as {other})",
            names,
        )

    def draw_nested(self, depth: int) -> tuple[str, Columns]:
        sql, columns = self.query(depth - 1)
        inner, theirs = self.query(self.chance.choice([0, depth - 1]))
        one, other = self.name(), self.name()
        pairs = [
            (a, b) for a, t in columns for b, s in theirs if t == s and "_weight" not in (a, b)
        ]
        if not pairs:
            return sql, columns
        mine, yours = self.chance.choice(pairs)
        equal = f"{other}.{yours} = {one}.{mine}"
        value = self.pick(theirs, "int")
        names = self.renamed(columns)
        listed = ", ".join(
            f"{one}.{old} as {new}" for (old, _), (new, _) in zip(columns, names, strict=True)
        )
        kind = self.chance.choice(["exists", "not exists", "in", "not in", "scalar", "whole"])
        source = f"({inner}) as {other}"
        if kind in ("exists", "not exists"):
            where = f"{kind} (select 1 from {source} where {equal})"
        elif kind in ("in", "not in"):
            where = f"{one}.{mine} {kind} (select {other}.{yours} from {source})"
        else:
            if value is None:
                return sql, columns
            correlated = f" where {equal}" if kind == "scalar" else ""
            new = f"c{len(names) + 1}"
            listed += f", (select max({other}.{value}) from {source}{correlated}) as {new}"
            return f"select {listed} from ({sql}) as {one}", [*names, (new, "int")]
        return f"select {listed} from ({sql}) as {one} where {where}", names

    def draw_cte(self, depth: int) -> tuple[str, Columns]:
        sql, columns = self.query(depth - 1)
        name = f"q{len(self.ctes) + 1}"
        self.ctes.append((name, sql, columns))
        return self.query(depth - 1)

    def whole(self, depth: int) -> tuple[str, Columns]:
        """Return a query with its common table expressions."""
        self.ctes = []
        sql, columns = self.query(depth)
        defined = ", ".join(f"{name} as ({body})" for name, body, _ in self.ctes)
        return (f"with {defined} {sql}" if defined else sql), columns


def rows(chance: random.Random, table: str, most: int) -> list[Row]:
    """Return a few rows with few distinct values, so that keys match."""
    values: dict[str, list[Any]] = {
        "int": [1, 1, 2, 2, 3, None],
        "string": ["a", "a", "b", "bc", None],
    }
    return [
        tuple(chance.choice(values[kind]) for kind in COLUMNS[table].values())
        for _ in range(chance.randint(0, most))
    ]


# DuckDB's names of Spark's types.
_LISTS = {"array<string>": "string[]"}


class Oracle:
    """Answers queries over small tables; `columns` are those of each, with Spark's types."""

    def __init__(self, columns: Mapping[str, Mapping[str, str]] = COLUMNS) -> None:
        self.db = duckdb.connect(config={"threads": 1})
        self.columns = columns
        self._loaded: dict[str, list[Row]] = {}

    def answer(self, sql: str, tables: Tables, weights: Sequence[int] = ()) -> Counter[Row]:
        """Return the rows of a Spark query, as a multiset; `weights` are those of the rows of t."""
        for name, found in tables.items():
            if name not in sql or (found is self._loaded.get(name) and not weights):
                continue
            self._loaded[name] = [] if weights else found
            columns = ", ".join(
                f"{column} {_LISTS.get(kind, kind)}"
                for column, kind in self.columns[name.rpartition(":")[2]].items()
            )
            weight = ", _weight integer" if name == "t" and weights else ""
            self.db.execute(f'create or replace temp table "{name}" ({columns}{weight})')
            if found:
                full = [(*row, weights[n]) if weight else row for n, row in enumerate(found)]
                # one statement takes a quarter of the time of one statement for each row
                marks = f"({', '.join('?' * len(full[0]))})"
                listed = ", ".join([marks] * len(full))
                values = [_of_lists(value, list) for row in full for value in row]
                self.db.execute(f'insert into "{name}" values {listed}', values)
        answered = self.db.execute(sql).fetchall()
        return Counter(tuple(_of_lists(value, tuple) for value in row) for row in answered)

    def names(self, sql: str) -> list[str]:
        """Return the columns of an answered query."""
        return [column[0] for column in self.db.execute(sql).description or []]


def _of_lists(value: Any, kind: type) -> Any:
    """Return a list as this kind: rows are compared as tuples, and DuckDB reads lists."""
    if isinstance(value, dict):  # a struct
        return tuple(value.values())
    return kind(value) if isinstance(value, (list, tuple)) else value


def in_duckdb(sql: str) -> str:
    """Return the query in DuckDB's dialect."""
    tree = sqlglot.parse_one(sql, read="spark")
    for series in list(tree.find_all(exp.GenerateSeries)):
        start = series.args["start"]
        if isinstance(start, exp.Cast) and start.to.this is exp.DType.DATE:
            # DuckDB's sequences of dates have timestamps
            series.replace(exp.cast(series.copy(), "date[]", dialect="duckdb"))
    return tree.sql(dialect="duckdb")


def rounded(rows: Counter[Row]) -> Counter[Row]:
    """Return the rows with rounded numbers: DuckDB divides decimals as doubles."""
    return Counter(
        tuple(
            round(float(value), 3) + 0.0 if isinstance(value, (float, Decimal)) else value
            for value in row
        )
        for row in rows.elements()
    )


def difference_of_linear(oracle: Oracle, sql: str, chance: random.Random) -> str | None:
    """Compare a query over all rows with the query over two halves."""
    tables = {name: rows(chance, name, 6) for name in ("t", "l", "m")}
    half = [n for n in range(len(tables["t"])) if chance.random() < 0.5]
    first = [row for n, row in enumerate(tables["t"]) if n in half]
    rest = [row for n, row in enumerate(tables["t"]) if n not in half]
    whole = oracle.answer(sql, tables)
    parts = oracle.answer(sql, tables | {"t": first}) + oracle.answer(sql, tables | {"t": rest})
    if whole == parts:
        return None
    return f"{tables}\nof all {dict(whole)}\nof halves {dict(parts)}"


def difference_of_sums(oracle: Oracle, sql: str, chance: random.Random) -> str | None:
    """Compare sums of all rows less those of some with the sums of the rest; c1 is the key."""
    tables = {name: rows(chance, name, 6) for name in ("t", "l", "m")}
    kept = [row for row in tables["t"] if chance.random() < 0.6]
    gone = list((Counter(tables["t"]) - Counter(kept)).elements())

    def sums(found: list[Row], weight: int) -> dict[Any, Row]:
        weights = [weight] * len(found)
        answered = oracle.answer(sql, tables | {"t": found}, weights or [1])
        return {row[0]: tuple(value or 0 for value in row[1:]) for row in answered.elements()}

    added, taken, rest = sums(tables["t"], 1), sums(gone, -1), sums(kept, 1)
    applied = {}
    for key, row in added.items():
        zeros = (0,) * len(row)
        total = tuple(a + b for a, b in zip(row, taken.get(key, zeros), strict=True))
        if total[0] != 0:
            applied[key] = total
    return None if applied == rest else f"{tables}\ngone {gone}\napplied {applied}\nrest {rest}"


def difference_of_keys(oracle: Oracle, sql: str, chance: random.Random) -> str | None:
    """Compare a query over some keys with its rows of these keys."""
    tables = {name: rows(chance, name, 6) for name in COLUMNS}
    keys = {key for key in (1, 2, 3, None) if chance.random() < 0.5}
    restricted = dict(tables)
    for name in ("t", "u"):
        restricted[name] = [row for row in tables[name] if row[0] in keys]
    reached = {row[1] for row in restricted["t"]}
    restricted["p"] = [row for row in tables["p"] if row[0] in reached]
    whole = oracle.answer(sql, tables)
    expected = Counter({row: count for row, count in whole.items() if row[0] in keys})
    found = oracle.answer(sql, restricted)
    if found == expected:
        return None
    return f"{tables}\nkeys {keys}\nexpected {dict(expected)}\nfound {dict(found)}"


def drawn_linear(chance: random.Random) -> str:
    """Draw a query over t and lookups alone."""
    return Draw(chance, ["t", "t", "l", "m"]).whole(chance.randint(1, 4))[0]


def drawn_sums(chance: random.Random) -> str:
    """Draw a query whose columns are a key, `sum(_weight)` and sums."""
    draw = Draw(chance, ["t", "t", "l", "m"], signed=True)
    body, columns = draw.whole(chance.randint(0, 3))
    # the least int has no opposite, so the analysis accepts no sum of it
    measure = f"cast(q.{draw.pick(columns, 'int') or '1'} as bigint)"
    measures = [
        f"sum({measure} * q._weight)",
        f"sum({measure})",
        f"sum(case when {measure} > 1 then q._weight else 0 end)",
        f"sum(case when q._weight > 0 then {measure} end)",
        f"sum(-q._weight) + 2 * sum({measure} * q._weight)",
        f"sum(-q._weight) + 2 * coalesce(sum({measure} * q._weight), 0)",
        f"coalesce(sum(if({measure} > 2, 0, {measure}) * q._weight), 0)",
        f"max({measure})",
        "sum(q._weight * q._weight)",
        f"sum({measure} * q._weight) + 1",
    ]
    key = draw.pick(columns) or "c1"
    return (
        f"select q.{key} as c1, sum(q._weight) as n, {chance.choice(measures)} as s "
        f"from ({body}) as q group by q.{key}"
    )


def drawn_keyed(chance: random.Random) -> str:
    """Draw a query over every table, and take one of its columns for the key."""
    sql, columns = Draw(chance, ["t", "t", "t", "u", "u", "p", "l", "m"]).whole(
        chance.randint(1, 4)
    )
    numbers = [name for name, kind in columns if kind == "int"] or [columns[0][0]]
    others = ", ".join(f"q.{name} as d{place}" for place, (name, _) in enumerate(columns))
    return f"select q.{chance.choice(numbers)} as id, {others} from ({sql}) as q"


Difference = Callable[[Oracle, str, random.Random], str | None]
# For each rule book: how to draw a query, its inputs, its unique_key, and the comparison.
KINDS: dict[RuleBook, tuple[Callable[[random.Random], str], list[Input], str, Difference]] = {
    "linear": (drawn_linear, CHANGES, "c1", difference_of_linear),
    "sums": (drawn_sums, SIGNED, "c1", difference_of_sums),
    "keyed": (drawn_keyed, AFFECTED, "id", difference_of_keys),
}


def tried(kind: RuleBook, number: int, oracle: Oracle, rounds: int = 6) -> tuple[bool, str | None]:
    """Return whether the analysis accepts the query of this number, and its wrong rows."""
    draw, inputs, key, difference = KINDS[kind]
    chance = random.Random(f"{kind} {number}")
    sql = draw(chance)
    try:
        prove(sql, [*inputs, *LOOKUPS], kind, [key])
    except Refused:
        return False, None
    for _ in range(rounds):
        problem = difference(oracle, in_duckdb(sql), chance)
        if problem:
            return True, f"{kind} {number}: {sql}\n{problem}"
    return True, None


# Inputs of plain SQL; `u` has one row for each id.
PLAIN = [
    Input(name, name, "", COLUMNS[name], [frozenset(["id"])] if name == "u" else [])
    for name in COLUMNS
]


def drawn_plain(chance: random.Random) -> str:
    """Draw a query over every table; often it groups by columns of several tables."""
    draw = Draw(chance, ["t", "t", "u", "u", "p", "l", "m"])
    sql, columns = draw.whole(chance.randint(1, 4))
    kind = chance.random()
    if kind < 0.1:
        return _of_constants(draw, sql, columns)
    if kind < 0.2:
        return _of_extremes(draw, sql, columns)
    if kind < 0.3:
        return _of_compared(draw, sql, columns)
    named = ", ".join(f"q.{name} as d{place}" for place, (name, _) in enumerate(columns))
    return f"select {named} from ({sql}) as q"


def _of_constants(draw: Draw, sql: str, columns: Columns) -> str:
    """Return a list of constants that is kept, joined with one query or two."""
    value, kind = draw.value(columns, "q")
    constants = "(1), (2), (4)" if kind == "int" else "('a'), ('b'), ('A')"
    more, others = draw.whole(draw.chance.randint(0, 1))
    second = draw.chance.choice(["left join"] * 2 + ["join", ""])
    condition = draw.chance.choice(["", f" and {draw.condition(columns, 'q')}"])
    joined = f"values {constants} as k(d0) left join ({sql}) as q on {value} = k.d0{condition}"
    same = [f"r.{name}" for name, of in others if of == kind]
    if second and same:
        joined += f" {second} ({more}) as r on {draw.chance.choice(same)} = k.d0"
    return draw.chance.choice(
        [
            f"select k.d0, q.c1 as d1 from {joined}",
            f"select k.d0, count(q.c1) as d1 from {joined} group by k.d0",
        ]
    )


def _of_extremes(draw: Draw, sql: str, columns: Columns) -> str:
    """Return the rows with the largest or the least value of a table."""
    chance, (column, kind) = draw.chance, draw.chance.choice(columns)
    table, source = chance.choice([one for one in COLUMNS.items() if kind in one[1].values()])
    of_kind = [name for name, own in source.items() if own == kind]
    value = f"x.{chance.choice(of_kind)}"
    if chance.random() < 0.3:
        value = f"coalesce({value}, 2)" if kind == "int" else f"coalesce({value}, 'a')"
    unsafe = "x.val + 1 > 2" if "val" in source else "x.rate + 1 > 2"
    conditions = [draw.condition(list(source.items()), "x"), unsafe, ""]
    where = " where " + " and ".join({chance.choice(conditions), chance.choice(conditions)} - {""})
    inner = f"select {chance.choice(['max', 'min'])}({value}) as n from {table} as x{where}"
    inner = inner.removesuffix(" where ")
    joined = chance.choice(["join", "left join", "left anti join"])
    count, of_count = chance.choice([("q.c1", ""), ("count(*)", f" group by q.{column}")])
    return chance.choice(
        [
            f"select q.{column} as d0, {count} as d1 from ({sql}) as q"
            f" where q.{column} = ({inner}){of_count}",
            f"select q.{column} as d0, {count} as d1 from ({sql}) as q"
            f" {joined} ({inner}) as e on e.n = q.{column}{of_count}",
        ]
    )


def _of_compared(draw: Draw, sql: str, columns: Columns) -> str:
    """Return rows joined by conditions that may fail, which leads have in a weaker form."""
    more, others = draw.whole(draw.chance.randint(0, 1))
    one, kind = draw.chance.choice(columns)
    other, of = draw.chance.choice(others)
    text, pattern = (f"cast({name} as string)" for name in (f"q.{one}", f"r.{other}"))
    number = f"try_cast(cast(q.{one} as string) as bigint)" if kind == "int" else "length(q.c1)"
    compared = [f"{text} like {pattern}", f"{text} ilike concat('%', {pattern}, '%')"]
    compared += [f"{number} = r.{other}"] * 2 if (kind, of) == ("int", "int") else []
    joined = draw.chance.choice(["join", "left join", "left semi join", "left anti join"])
    selected = f", r.{other} as d1" if joined in ("join", "left join") else ""
    return (
        f"select q.{one} as d0{selected} from ({sql}) as q"
        f" {joined} ({more}) as r on {draw.chance.choice(compared)}"
    )


def maintained(
    oracle: Oracle, sql: str, derived: Derivation, before: Tables, after: Tables
) -> Counter[Row]:
    """Return the rows that an incremental run leaves."""
    followed = {source.name: source for source in derived.inputs if source.is_followed}
    if derived.stages:
        return maintained_by_stages(oracle, derived, before, after)
    if derived.leads:
        return maintained_by_leads(oracle, sql, derived, before, after)
    gone = {name: Counter(before[name]) - Counter(after[name]) for name in followed}
    come = {name: Counter(after[name]) - Counter(before[name]) for name in followed}
    if derived.strategy == "change_feed":
        (name,) = followed
        left = oracle.answer(sql, before)
        left.subtract(oracle.answer(sql, before | {name: list(gone[name].elements())}))
        left.update(oracle.answer(sql, before | {name: list(come[name].elements())}))
        return Counter({row: count for row, count in left.items() if count})

    def places(name: str, columns: Sequence[str]) -> list[int]:
        return [list(oracle.columns[name]).index(column) for column in columns]

    def keys_of(name: str, found: Sequence[Row]) -> set[Row]:
        """Return the keys that rows of an input lead to."""
        source = followed[name]
        if not source.via:
            assert source.key is not None
            columns = places(name, [source.key[part] for part in sorted(source.key)])
            return {tuple(row[place] for place in columns) for row in found}
        mine, theirs = places(name, list(source.on)), places(source.via, list(source.on.values()))
        shared = {tuple(row[place] for place in mine) for row in found}
        led = [r for r in after[source.via] if tuple(r[place] for place in theirs) in shared]
        return keys_of(source.via, led)

    keys = {key for name in followed for key in keys_of(name, list(gone[name] | come[name]))}
    restricted = dict(after)

    def restrict(name: str) -> list[Row]:
        source = followed[name]
        if not source.via:
            return [row for row in after[name] if keys_of(name, [row]) <= keys]
        mine, theirs = places(name, list(source.on)), places(source.via, list(source.on.values()))
        shared = {tuple(row[place] for place in theirs) for row in restrict(source.via)}
        return [row for row in after[name] if tuple(row[place] for place in mine) in shared]

    for name in followed:
        restricted[name] = restrict(name)
    key = next(source.key for source in followed.values() if source.key and not source.via)
    found = oracle.answer(sql, before)
    names = oracle.names(sql)
    in_result = [names.index(part) for part in sorted(key)]
    kept = Counter(
        {
            row: count
            for row, count in found.items()
            if tuple(row[place] for place in in_result) not in keys
        }
    )
    return kept + oracle.answer(sql, restricted)


def maintained_by_leads(
    oracle: Oracle, sql: str, derived: Derivation, before: Tables, after: Tables
) -> Counter[Row]:
    """Return the rows that an incremental run leaves when the leads give its affected keys."""
    images = {
        name: list(((one := Counter(before[name])) - (other := Counter(after[name]))).elements())
        + list((other - one).elements())
        for name in derived.leads
    }
    read: Tables = dict(after)
    for name in after:
        read[f"hw_changed:{name}"] = images.get(name, [])
        read[f"hw_wide:{name}"] = after[name] + images.get(name, [])
    keys: set[Row] = set()
    for name, lead in derived.leads.items():
        if images[name]:
            keys |= set(oracle.answer(in_duckdb(lead), read))
    oracle.answer(sql, before)
    names = oracle.names(sql)
    places = [names.index(part) for part in derived.key]

    def within(found: Counter[Row], affected: bool) -> Counter[Row]:
        return Counter(
            {
                row: count
                for row, count in found.items()
                if (tuple(row[place] for place in places) in keys) is affected
            }
        )

    return within(oracle.answer(sql, before), False) + within(oracle.answer(sql, after), True)


def maintained_by_stages(
    oracle: Oracle, derived: Derivation, before: Tables, after: Tables
) -> Counter[Row]:
    """Return the rows that a run leaves when its hidden tables are maintained by keys."""
    for number, stage in enumerate(derived.stages, 1):
        sql = in_duckdb(stage.sql)
        of_stage = Derivation(
            "affected_keys", stage.unique_key, stage.inputs, None, stage.leads, stage.key
        )
        kept = list(maintained(oracle, sql, of_stage, before, after).elements())
        oracle.db.execute(f"create or replace temp table hw_stage_{number} as {sql} limit 0")
        if kept:
            marks = ", ".join("?" * len(kept[0]))
            oracle.db.executemany(f"insert into hw_stage_{number} values ({marks})", kept)
    return oracle.answer(in_duckdb(derived.rest), after)


def one_each(found: list[Row]) -> list[Row]:
    """Return one row for each value of the first column."""
    return list({row[0]: row for row in found}.values())


def tried_plain(number: int, oracle: Oracle, rounds: int = 6) -> tuple[str, str | None]:
    """Return the strategy derived from a query, and its wrong rows.

    With `leads`, changed rows are traced; half of the queries try this way alone.
    """
    chance = random.Random(f"plain {number}")
    sql = drawn_plain(chance)
    used = [source for source in PLAIN if f"from {source.name} as" in sql]
    question = Question(sql, used, unique_key=["d0"] if chance.random() < 0.5 else [])
    derived = (chance.random() < 0.5 and traced_only(question)) or derive(question)
    followed = {source.name for source in derived.inputs if source.is_followed}
    for _ in range(rounds if followed else 0):
        before = {name: rows(chance, name, 6) for name in COLUMNS}
        before["u"] = one_each(before["u"])
        after = dict(before)
        for name in followed:
            stay = [row for row in before[name] if chance.random() < 0.7]
            after[name] = stay + rows(chance, name, 2)
        after["u"] = one_each(after["u"])
        whole = oracle.answer(in_duckdb(sql), after)
        found = maintained(oracle, in_duckdb(sql), derived, before, after)
        if whole != found:
            told = f"{derived}\n{before}\n{after}\nwhole {dict(whole)}\nfound {dict(found)}"
            return derived.strategy, f"plain {number}: {sql}\n{told}"
    return "leads" if derived.leads else derived.strategy, None


def traced_derivation(question: Question, below: int) -> Derivation | None:
    """Return the way by leads that follows most inputs, if it leaves fewer than `below`.

    Raises Refused.
    """
    traces = Traces(question, dialect.parsed(question.sql))
    try:
        found = traces.derivation(below, is_whole=True)
    except Refused:
        found = None
    return found or traces.derivation(below, is_whole=False)


def traced_only(question: Question) -> Derivation | None:
    """Return how changed rows are traced, or None if they cannot be."""
    try:
        return traced_derivation(question, len(question.inputs) + 1)
    except Refused:
        return None


def drawn_staged(chance: random.Random) -> str:
    """Draw a query that aggregates the groups of others, by other columns or by none."""
    draw = Draw(chance, ["t", "u", "u", "p", "p", "l", "m"])
    sql, columns = draw.query(chance.randint(0, 2))
    more, others = draw.query(chance.randint(0, 2))
    key = draw.pick(columns) or "c1"
    value, other = draw.pick(columns, "int"), draw.pick(others, "int")
    are_numbers = bool(value and other)
    of_numbers = ["sum(q.{0})", "max(q.{0})", "min(q.{0})"] if are_numbers else []
    total = chance.choice(["count(q.{0})", "count(*)", *of_numbers])
    value, other = value or "c1", other or "c1"
    of_value, of_other = total.format(value), total.format(other)
    where = f" where {draw.condition(columns, 'q')}" if chance.random() < 0.4 else ""
    every = f"select {of_other} from ({more}) as q"
    groups = f"select q.{key}, {of_value} as n from ({sql}) as q{where} group by q.{key}"
    joined = chance.choice([", ", " cross join "])
    firsts = f"select x.{key}, min(x.{value}) as n from ({sql}) as x group by x.{key}"
    forms = [
        f"select f.n as d0, {of_value} as d1 from ({sql}) as q join ({firsts}) as f"
        f" on f.{key} = q.{key}{where} group by f.n",
        f"select case when f.n > 1 then 'a' end as d0, count(distinct q.{key}) as d1"
        f" from ({more}) as y, ({sql}) as q join ({firsts}) as f on f.{key} = q.{key} group by 1",
        f"select {of_value} + 1 as d0, count(*) as d1 from ({sql}) as q{where}",
        f"select {of_value} as d0, count(*) as d1 from ({sql}) as q having {of_value} > 1",
        f"select q.{key} as d0, {of_value} as d1 from ({sql}) as q{where}"
        f" group by q.{key} having {of_value} > ({every})",
        f"select q.n as d0, count(*) as d1 from ({groups}) as q group by q.n",
        f"with g as ({groups}) select g.{key} as d0, g.n as d1 from g"
        " where n = (select max(n) from g)",
        f"select q.{key} as d0, x.n as d1 from ({sql}) as q{joined}"
        f"(select {of_other} as n from ({more}) as q) as x",
        f"select q.{key} as d0, {of_value} as d1, rank() over (order by {of_value}) as d2,"
        f" sum({of_value}) over (partition by q.{key}) as d3, count(q.{key}) over () as d4"
        f" from ({sql}) as q{where} group by q.{key}",
        f"select q.{value} as d0, count(q.{value}) over (order by q.{value}) as d1"
        f" from (select distinct q.{value} from ({sql}) as q) as q",
    ]
    equated = (
        f"select {of_value} as d0, sum(y.{other}) as d1 from ({sql}) as q, ({more}) as y"
        f" where q.{value} = y.{other}"
    )
    return chance.choice([*forms, equated] if are_numbers else forms)


def tried_staged(number: int, oracle: Oracle, rounds: int = 6) -> tuple[bool, str | None]:
    """Return whether the query of this number has hidden queries, and its wrong rows."""
    chance = random.Random(f"staged {number}")
    sql = drawn_staged(chance)
    used = [source for source in UNIQUE if f"from {source.name} as" in sql]
    try:
        question = Question(sql, used)
        derived = staged_derivation(
            question, WholeQuery(question, dialect.read(sql)), len(used) + 1
        )
    except Refused:
        return False, None
    for _ in range(rounds if derived else 0):
        assert derived is not None
        before, after = {}, {}
        for name in COLUMNS:
            before[name] = of_keys(name, rows(chance, name, 6))
            stay = [row for row in before[name] if chance.random() < 0.7]
            after[name] = of_keys(name, stay + rows(chance, name, 2))
        whole = oracle.answer(in_duckdb(sql), after)
        found = maintained_by_stages(oracle, derived, before, after)
        if whole != found:
            told = f"{derived}\n{before}\n{after}\nwhole {dict(whole)}\nfound {dict(found)}"
            return True, f"staged {number}: {sql}\n{told}"
    return derived is not None, None


# The columns that identify the rows of each table.
KEYS = {"u": ["id"], "m": ["id"], "p": ["grp", "val"]}
UNIQUE = [
    Input(name, name, "", columns, [frozenset(KEYS[name])] if name in KEYS else [])
    for name, columns in COLUMNS.items()
]


def of_keys(name: str, found: list[Row]) -> list[Row]:
    """Return one row of a table for each value of its key."""
    many = len(KEYS.get(name, ()))
    return list({row[:many]: row for row in found}.values()) if many else found


def tried_keys(number: int, oracle: Oracle, rounds: int = 6) -> tuple[int, str | None]:
    """Return how many column sets the analysis takes as unique, and one that is not."""
    chance = random.Random(f"keys {number}")
    sql, _ = Draw(chance, ["t", "u", "u", "p", "m"]).whole(chance.randint(1, 4))
    try:
        relation = Reader(UNIQUE, Tracing()).read(dialect.parsed(sql))
    except Refused:
        return 0, None
    places = {column.id: place for place, column in reversed(list(enumerate(relation.columns)))}
    for _ in range(rounds if relation.unique else 0):
        tables = {name: of_keys(name, rows(chance, name, 6)) for name in COLUMNS}
        answer = oracle.answer(in_duckdb(sql), tables)
        for key in relation.unique:
            of_key = Counter(tuple(row[places[part]] for part in key) for row in answer.elements())
            if any(many > 1 for many in of_key.values()):
                names = [relation.columns[places[part]].name for part in key]
                return 1, f"keys {number}: {sql}\n{names} in {tables}\n{dict(answer)}"
    return len(relation.unique), None


def main(count: int, first: int = 0) -> int:
    """Try queries of every kind; print the accepted ones and the wrong results."""
    oracle, failed = Oracle(), 0
    strategies: Counter[str] = Counter()
    for number in range(first, first + count):
        strategy, problem = tried_plain(number, oracle)
        strategies[strategy] += 1
        if problem:
            failed += 1
            print(problem, flush=True)
    print(f"plain: {dict(strategies)} of {count}", flush=True)
    staged = 0
    for number in range(first, first + count):
        has_stages, problem = tried_staged(number, oracle)
        staged += has_stages
        if problem:
            failed += 1
            print(problem, flush=True)
    print(f"staged: {staged} of {count}", flush=True)
    for kind in KINDS:
        accepted = 0
        for number in range(first, first + count):
            was, problem = tried(kind, number, oracle)
            accepted += was
            if problem:
                failed += 1
                print(problem, flush=True)
        print(f"{kind}: {accepted} of {count} accepted", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) != 0)
