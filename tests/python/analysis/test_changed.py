"""Test that patching a table after a change of SQL gives the rows of the new query."""

from __future__ import annotations

import copy
import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, strategies

from analysis.queries import COLUMNS, Oracle, Tables, in_duckdb, rows
from headwaters.analysis import blocks
from headwaters.analysis.query_change import (
    AllowedChanges,
    QueryChange,
    Rebuild,
    change_of,
    described,
)

INPUTS = {name: list(columns) for name, columns in COLUMNS.items()} | {"f": ["id", "flag", "s"]}
SUMS = "select grp, sum(val) as total, count(*) as n from t group by grp"
RANKS = "select id, grp, rank() over (partition by grp order by id) as n from t"
BOTH = "select a.id, b.rate from t as a left join l as b on a.grp = b.grp"

# Each with the inputs that the table follows.
FOLLOWED = {
    ("select id, val from t", "select id, val, val * 2 as twice, id + 1 as next from t"): (
        "added column twice from val; added column next from id"
    ),
    ("select id, val from t", "select id, 1 as one, val from t"): "added column one",
    ("select id, val from t", "select id, val, date'2026-01-02' as day from t"): "added column day",
    # the SQL written for Spark means the SQL that was read, or the change is not patched
    ("select id, val from t", "select id, val, 'it''s' as text from t"): "added column text",
    ("select id, val from t", "select id, val, 'it' 's' as text from t"): None,
    ("select id, val from t", "select id, val, '\\00012' as text from t"): None,
    ("select id, val from t", "select id, val, time'10:00:00' as at from t"): None,
    ("select id, val from t", "select id, val, array(id, val)[0] as first from t"): (
        "added column first from id, val"
    ),
    ("select id, id | val as x from t", "select id, id | val as x, id | val & 1 as y from t"): None,
    ("select id, val from t", "select x.val, x.id from t as x"): "columns in another order",
    ("select id, val, grp from t", "select id, grp from t"): "removed column val",
    ("select id, val, grp from t", "select id from t"): "removed columns val, grp",
    ("select id, val from t", "select id, val as value from t"): (
        "added column value from val; removed column val"
    ),
    ("select id, val from t", "select id, id as val from t"): "column val from id",
    ("select val as a, a + 1 as b from t", "select val as a, a + 1 as b, a + 2 as c from t"): (
        "added column c from a"
    ),
    ("select val as a, a + 1 as b from t", "select id + val as b, val as a from t"): None,
    ("select * from t", "select *, upper(grp) as name from t where val > 2"): (
        "added column name from grp; added condition val > 2"
    ),
    ("select t.* except (val) from t", "select id from t"): "removed column grp",
    (
        "with o as (select id, val from t), final as (select * from o) select * from final",
        "with o as (select id, val from t), q as (select *, val + 1 as more from o where id > 1),"
        " final as (select *, more * 2 as most from q where more < 9) select * from final",
    ): "added column more from val; added column most from val; "
    "added conditions id > 1 and (val + 1) < 9",
    (SUMS, SUMS.replace("from", ", sum(val) / count(*) as mean from")): (
        "added column mean from total, n"
    ),
    (SUMS, SUMS.replace("group", "where grp = 'a' group")): "added condition grp = 'a'",
    (SUMS, SUMS.replace("by grp", "by 1 having n > 1")): "added condition n > 1",
    (SUMS, SUMS.replace("group", "where val > 1 group")): None,
    ("select sum(val) as x from t", "select sum(val) as x from t where 1 = 1"): "",
    ("select sum(val) as x from t", "select sum(val) as x from t where 1 = 2"): None,
    ("select id from t", "select id from t having true"): None,
    ("select sum(val) as x from t", "select 1 as x from t"): None,
    ("select sum(val) as x from t", "select sum(val) as x from t having x > 1"): (
        "added condition x > 1"
    ),
    (RANKS, f"with r as ({RANKS}) select id, grp from r where n = 1"): (
        "removed column n; added condition n = 1"
    ),
    (RANKS, f"{RANKS} where grp = 'a'"): None,
    (RANKS, RANKS.replace("by id", "by val")): None,
    (BOTH, BOTH.replace("b.rate", "b.rate, b.rate + a.id as x") + " where rate > 1"): (
        "added column x from rate, id; added condition rate > 1"
    ),
    (BOTH, BOTH.replace("left join", "join")): None,
    (BOTH, f"{BOTH} and a.id > 1"): None,
    ("select id, val from t where val > 9", "select id, val from t where val > 5"): (
        "added condition val > 5; removed condition val > 9"
    ),
    ("select id, val from t where val > 9", "select id, val from t"): "removed condition val > 9",
    ("select id from t where val > 9", "select id from t"): None,
    ("select id from t", "select id from t where true"): "",
    ("select id from t where val > 1", "select id from t where val > 1 and (val > 1)"): "",
    # conditions that are required elsewhere
    (
        "with o as (select * from t where val > 1) select id, grp from o",
        "with o as (select * from t) select id, grp from o where val > 1",
    ): "",
    (
        "with o as (select id, val as n from t), q as (select id, n as m from o where n > 1)"
        " select q.id, q.m as val from q where q.m < 9",
        "select x.id, x.val from (select * from t as y where y.val < 9 and y.val > 1) as x",
    ): "",
    (
        "with o as (select * from t where val > 1) select id, val from o",
        "with o as (select * from t) select id, val, val * 2 as more from o where val > 1",
    ): "added column more from val",
    (
        "with o as (select * from t where val > 1) select id, val from o",
        "with o as (select * from t where id > 1) select id, val from o where val > 1",
    ): "added condition id > 1",
    (
        "with o as (select * from t where val > 1) select id, val from o",
        "with o as (select id, val + 1 as val from t) select id, val from o where val > 1",
    ): None,
    (
        "with o as (select id, val from t limit 3) select id, val from o where val > 1",
        "with o as (select id, val from t where val > 1 limit 3) select id, val from o",
    ): None,
    (f"{RANKS} where id > 1", f"with r as ({RANKS}) select * from r where id > 1"): None,
    (f"{SUMS} having grp = 'a'", SUMS.replace("group", "where grp = 'a' group")): "",
    (f"{SUMS} having n > 1", f"with q as ({SUMS}) select * from q where n > 1"): "",
    (f"{SUMS} having sum(val) > 1", SUMS.replace("group", "where val > 1 group")): None,
    # they read the same from both tables, but mean other rows
    (
        "select id as a, val as b from t where id > 1",
        "select val as a, id as b from t where val > 1",
    ): ("column a from b; column b from a; added condition b > 1; removed condition b > 1"),
    ("select distinct id, val from t", "select distinct id, val from t where val > 1"): (
        "added condition val > 1"
    ),
    ("select distinct id, val from t", "select distinct id from t"): None,
    ("select distinct id, val from t", "select id, val from t"): None,
    (
        "with d as (select distinct id, val from t) select * from d",
        "with d as (select distinct id, val from t) select * from d where val > 1",
    ): "added condition val > 1",
    (
        "with d as (select distinct id, val from t) select * from d",
        "with d as (select distinct id, val from t) select *, val + 1 as x from d",
    ): None,
    (
        "with d as (select distinct id, val from t) select id from d",
        "with d as (select distinct id, grp from t) select id from d",
    ): None,
    ("select id, val from t limit 3", "select id, val from t limit 4"): None,
    ("select id, val from t limit 3", "select id, val, id as x from t limit 3"): None,
    ("select id, val from t union all select id, val from u", "select id, val from t"): None,
    (
        "with b as (select id, val from t union all select id, val from u) select * from b",
        "with b as (select id, val from t union all select id, val from u)"
        " select *, -val as less from b where val > 1",
    ): "added column less from val; added condition val > 1",
    (
        "with b as (select id, val from t) select id, val from b where val > (select 1 from b)",
        "with b as (select id, val from t where id > 1) select id, val from b"
        " where val > (select 1 from b)",
    ): None,
    ("select grp, id from t group by all", "select grp, id, 1 as x from t group by all"): None,
    (
        "select grp, count(*) as n from t group by rollup (grp)",
        "select grp, count(*) as n from t where grp = 'a' group by rollup (grp)",
    ): None,
    (
        "select val % 2 as k, count(*) as n from t group by k",
        "select val % 3 as k, count(*) as n from t group by k",
    ): None,
    (
        "select val % 2 as k, count(*) as n from t group by k",
        "select val % 2 as k, count(*) as n from t where val % 2 = 1 group by 1",
    ): "added condition k = 1",
    ("select id, explode(s) as e from f", "select id from f"): None,
    ("select id, val from t", "select id, val, rand() as r from t"): None,
    ("select id, val from t", "select id, val, current_date as r from t"): None,
    ("select id, val from t", "select id, val, timestamp'now' as r from t"): None,
    ("select id, val from t", "select id, val, unix_timestamp() as r from t"): None,
    ("select id, val from t", "select id, val, own_function(val) as r from t"): None,
    ("select id, val from t", "select id, val, sum(val) over () as r from t"): None,
    ("select id, val from t", "select id, val, (select max(val) from u) as r from t"): None,
    ("select id, val from t", "select id, val from t where id in (select id from u)"): None,
    # if a name is both a column and an alias, it means the column
    ("select s as id, id + 1 as n from f", "select flag as id, s, id + 1 as n from f"): None,
    ("select id, val as a, a + 1 as n from t", "select id, id as a, a + 1 as n from t"): (
        "column a from id; column n from id"
    ),
    ("select f.s.x as x, x + 1 as n from f", "select f.id as x, x + 1 as n from f"): None,
}


def _change(before: str, after: str, limits: AllowedChanges | None = None) -> QueryChange | None:
    try:
        return change_of(before, after, INPUTS, limits or AllowedChanges())
    except Rebuild:
        return None


@pytest.mark.parametrize(("before", "after"), FOLLOWED)
def test_a_change_is_followed_or_rebuilds(before: str, after: str) -> None:
    change = _change(before, after)
    assert (change and described(change)) == FOLLOWED[before, after]


def _placed(parts: list[tuple[str, int]]) -> str:
    """Return a query over t of three levels, with these conditions."""

    def level(number: int, alias: str) -> str:
        found = [text.format(alias) for text, at in parts if at == number]
        return f" where {' and '.join(found)}" if found else ""

    return (
        f"with o as (select * from t as x{level(0, 'x.')}), q as (select id, val, grp from o"
        f"{level(1, '')}) select z.id, z.grp, z.val from q as z{level(2, 'z.')}"
    )


OVER_ROWS = ["{0}val > 1", "{0}id <= 3", "({0}grp = 'a')", "{0}id + {0}val > 3", "true", "1 = 1"]


@given(
    strategies.lists(
        strategies.tuples(strategies.sampled_from(OVER_ROWS), *[strategies.integers(0, 2)] * 2)
    )
)
def test_where_a_condition_is_required_makes_no_difference(
    drawn: list[tuple[str, int, int]],
) -> None:
    before = _placed([(text, at) for text, at, _ in drawn])
    after = _placed([(text, at) for text, _, at in drawn])
    assert _change(before, after) == QueryChange()


LIMITED: dict[str, dict[str, Any]] = {
    "select id, val, grp, id as x from t": {"fixed": ["ID"], "appended_only": True},
    "select id, val, grp from t where id > 1": {"only": ["id"], "may_compute": False},
    "select id, val from t": {"fixed": ["id"]},
}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "select id + 1 as id, val, grp from t": ({"fixed": ["id"]}, "column id, which its settings"),
    "select val, grp from t": ({"fixed": ["id"]}, "column id, which its settings"),
    "select id, id as x, val, grp from t": ({"appended_only": True}, "columns are not only added"),
    "select id, val from t": ({"appended_only": True}, "columns are not only added"),
    "select id, val, grp, 1 as x from t": ({"may_compute": False}, "its columns are not the same"),
    "select id, val, grp from t where val > 1": ({"only": ["id"]}, "the condition val > 1 is not"),
    "select id, val, grp from t where grp = ''": (
        {"altered": ["GRP"]},
        "the condition grp = '' is over",
    ),
}


@pytest.mark.parametrize("after", LIMITED)
def test_what_the_limits_allow_is_followed(after: str) -> None:
    assert (
        _change("select id, val, grp from t", after, AllowedChanges(**LIMITED[after])) is not None
    )


@pytest.mark.parametrize("after", REFUSED)
def test_what_the_limits_forbid_rebuilds(after: str) -> None:
    limits, reason = REFUSED[after]
    with pytest.raises(Rebuild, match=reason):
        change_of("select id, val, grp from t", after, INPUTS, AllowedChanges(**limits))


COUNT = 600  # an upper bound, until the test meets a wrong rule
CONDITIONS = ["val > 1", "id <= 3", "grp = 'a'", "val is not null", "id + val > 3", "grp in ('b')"]


@dataclass(frozen=True)
class Kind:
    """A kind of queries: the parts that each clause may have. Two columns are always there."""

    source: str
    columns: list[str]
    where: list[str]
    group: str = ""
    having: list[str] = field(default_factory=list)


PLAIN = ["id", "grp", "val", "val + id as a", "coalesce(val, 0) as b", "-id as c", "val as d"]
PLAIN += ["case when val > 1 then id end as e", "val + id + 1 as g", "id > val as h"]
KINDS = {
    "plain": Kind("select {} from t", PLAIN, CONDITIONS),
    "distinct": Kind("select distinct {} from t", ["grp", "val", "id as a"], CONDITIONS),
    "grouped": Kind(
        "select {} from t",
        [
            *("grp", "count(*) as b", "sum(val) as a", "sum(val) + 1 as c", "upper(grp) as d"),
            *("max(val) as e", "count(*) + coalesce(sum(val), 0) as g"),
        ],
        ["grp = 'a'", "grp is not null", "val > 1"],
        " group by grp",
        ["count(*) > 1", "sum(val) > 2", "grp = 'b'", "b < 3"],
    ),
    "whole": Kind(
        "select {} from t",
        ["1 as grp", "count(*) as b", "sum(val) as a", "sum(val) + 1 as c"],
        ["val > 1"],
        "",
        ["count(*) > 1", "sum(val) > 2"],
    ),
    "ranked": Kind(
        "select {} from t",
        [
            *("id", "grp", "rank() over (partition by grp order by id) as a", "val"),
            *("sum(val) over (partition by grp) as b", "val + id as c"),
        ],
        CONDITIONS,
    ),
    "both": Kind(
        "select {} from t as x left join p as y on x.grp = y.grp",
        ["x.id", "x.grp", "y.val", "x.val as a", "x.id + y.val as b", "coalesce(y.val, 7) as c"],
        ["y.val > 1", "x.id > 2", "x.val > 1"],
    ),
}


@dataclass
class Drawn:
    """A query by the parts that it has of its kind."""

    kind: Kind
    source: str
    way: int
    columns: list[int]
    where: set[int]
    having: set[int]
    after: set[int]

    def sql(self) -> str:
        sql = self.source.format(", ".join(self.kind.columns[n] for n in self.columns))
        if self.where:
            sql += " where " + " and ".join(self.kind.where[n] for n in sorted(self.where))
        sql += self.kind.group
        if self.having:
            sql += " having " + " and ".join(self.kind.having[n] for n in sorted(self.having))
        if self.way == 0 and not self.after:
            return sql
        if self.way == 1 and not self.after:
            return f"with final as ({sql}) select * from final"
        more = ", grp as again" if 0 in self.after else ""
        kept = " where grp is not null" if 1 in self.after else ""
        return f"with q as ({sql}), final as (select *{more} from q{kept}) select * from final"

    def changed(self, chance: random.Random) -> Drawn:
        """Return the query with one or two parts added or removed."""
        new = copy.deepcopy(self)
        new.way = chance.randrange(3)
        if chance.random() < 0.1:
            new.source = self.source.replace("left join", "join")
            new.source = new.source.replace("from t", "from u")
        for _ in range(chance.randint(1, 2)):
            what = chance.randrange(5)
            if what == 0:
                new.after ^= {chance.randrange(2)}
            elif what == 1 and new.kind.having:
                new.having ^= {chance.randrange(len(new.kind.having))}
            elif what == 2:
                new.where ^= {chance.randrange(len(new.kind.where))}
            elif len(new.kind.columns) > 2:
                column = chance.randrange(2, len(new.kind.columns))
                if column in new.columns:
                    new.columns.remove(column)
                else:
                    new.columns.insert(chance.randrange(len(new.columns) + 1), column)
        return new


def _drawn(chance: random.Random) -> Drawn:
    kind = KINDS[chance.choice(list(KINDS))]

    def some(items: list[str], share: float) -> set[int]:
        return {n for n in range(len(items)) if chance.random() < share}

    columns = sorted({0, 1} | some(kind.columns, 0.4))
    after = {1} if chance.random() < 0.2 else set()
    return Drawn(
        kind, kind.source, 0, columns, some(kind.where, 0.2), some(kind.having, 0.2), after
    )


def _patched(oracle: Oracle, before: str, after: str, tables: Tables, change: QueryChange) -> Any:
    """Return the rows of the table after patching the rows of the earlier query."""
    old = oracle.answer(in_duckdb(before), tables)
    oracle.db.execute(f"create or replace temp table patched as {in_duckdb(before)}")
    assert Counter(oracle.db.execute("from patched").fetchall()) == old
    columns = ", ".join(f"{sql} as `{name}`" for name, sql in change.columns) or "*"
    kept = " and ".join(f"({text})" for text in change.kept) or "true"
    rows = f"select {columns} from patched where {kept}"
    if change.dropped:
        dropped = " and ".join(f"({text})" for text in change.dropped)
        rows += f" union all select * from ({after}) as q where ({dropped}) is not true"
    return oracle.answer(in_duckdb(rows), tables)


def _tried(number: int, oracle: Oracle) -> tuple[QueryChange | None, str | None]:
    """Return the kind of change between two queries, and the error of the patched table."""
    chance = random.Random(number)
    drawn = _drawn(chance)
    before, after = drawn.sql(), drawn.changed(chance).sql()
    change = _change(before, after)
    if change is None:
        return None, None
    for _ in range(2):
        tables = {name: rows(chance, name, 6) for name in ("t", "u", "p")}
        found = _patched(oracle, before, after, tables, change)
        wanted = oracle.answer(in_duckdb(after), tables)
        if found != wanted:
            return change, f"{before}\n{after}\n{change}\n{tables}\n{found}\n{wanted}"
    return change, None


@pytest.mark.parametrize(
    "numbers", [range(200), pytest.param(range(200, COUNT), marks=pytest.mark.slow)]
)
def test_what_is_followed_is_right(numbers: range) -> None:
    oracle = Oracle()
    found = [_tried(number, oracle) for number in numbers]
    assert [problem for _, problem in found if problem] == []
    changes = [change for change, _ in found if change]
    for part in ("computed", "removed", "kept", "dropped"):
        assert sum(bool(getattr(change, part)) for change in changes) >= len(numbers) // 50
    assert any(change.dropped and change.columns for change in changes)


# The fault in each block of rules, and the query that last exposed it.
BROKEN = [("has_windows", False, 211), ("is_distinct", False, 357), ("rest", "", 53)]


@pytest.mark.parametrize(("part", "value", "known"), BROKEN)
def test_a_wrong_rule_is_found(
    part: str, value: object, known: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = blocks.read

    def wrong(*arguments: Any) -> blocks.Block:
        block = read(*arguments)
        object.__setattr__(block, part, value)
        return block

    monkeypatch.setattr(blocks, "read", wrong)
    oracle = Oracle()
    assert any(_tried(number, oracle)[1] for number in chain([known], range(COUNT)))
