"""Test that `auto` follows or replaces every form of Spark's queries, and never refuses one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from headwaters.analysis.derive import Derivation, Question, derive
from headwaters.analysis.refusal import Refused
from headwaters.analysis.relations import Input
from headwaters.analysis.unreadable import unlisted

COLUMNS = {
    "t": {
        **{"a": "int", "b": "string", "d": "date", "at": "timestamp", "v": "variant"},
        **{"l": "array<int>", "m": "map<string,int>", "s": "struct<x:int>", "q": "decimal(10,2)"},
    },
    "u": {"a": "int", "c": "string"},
}
# Forms that are analysed. The followed inputs depend on the keys, which other tests cover.
ANALYSED = r"""
select a, b from t where a > 1 and not b = 'x' or b is null
select distinct b from t
select all a from t
select t.*, u.c from t join u on t.a = u.a
select * except (b, v) from t
select a + 1 as x, x * 2 as y from t
select a from t union all select a from u
select a from t union select a from u
select a from t except select a from u
select a from t minus select a from u
select a from t intersect select a from u
select a from t left join u using (a)
select a, c from t natural join u
select t.a, c from t right join u on t.a = u.a
select t.a, c from t full outer join u on t.a = u.a
select t.a from t left semi join u on t.a = u.a
select t.a from t left anti join u on t.a = u.a
select t.a, c from t cross join u
select t.a, c from t, u where t.a = u.a
select b, count(*) as n from t group by b having count(*) > 1
select b, count(*) as n from t group by all
select b, count(*) filter (where a > 1) as n from t group by b
select b, max_by(a, q) as x from t group by b
select a, row_number() over (partition by b order by a) as n from t
select a, sum(q) over w as n from t window w as (partition by b order by a)
select a, x from t lateral view explode(l) e as x
select a, x from t lateral view outer explode(l) e as x
select a, p, x from t lateral view posexplode(l) e as p, x
select a, explode(l) as x from t
select a, x from t, lateral explode(l) as e(x)
select a from t where a in (select a from u)
select a from t where exists (select 1 from u where u.a = t.a)
select a, (select max(c) from u where u.a = t.a) as c from t
with k as (select a, b from t) select * from k where a > 1
select a, case when a > 1 then 'x' else 'y' end as x from t
select a, case a when 1 then 'x' end as x from t
select a, cast(b as int) as x, try_cast(b as int) as y, b::int as z from t
select a, l[0] as x, m['k'] as y, s.x as z from t
select a, transform(l, x -> x + 1) as x, filter(l, x -> x > 0) as y from t
select a, b like 'x%' as x, b rlike '^x' as y, b ilike 'X%' as z from t
select a, a between 1 and 2 as x, a in (1, 2) as y, a <=> 1 as z from t
select a, d + interval 1 day as x, d - interval '1' month as y from t
select a, date '2024-01-01' as x, timestamp '2024-01-01 00:00:00' as y from t
select a, 1L as x, 1S as y, 1Y as z, 1.0BD as w, 1e3 as f, .5 as g from t
select a, x'1F' as x, r'a\n' as y, "text" as z from t
select a, true as x, null as y, -a as z, ~a as w, a % 2 as r, a div 2 as o from t
select a, a & 1 as x, a | 2 as y, a ^ 3 as z, b || 'x' as w from t
select a, extract(year from d) as x, trim(both 'x' from b) as y from t
select a, substring(b from 2 for 1) as x, overlay(b placing 'z' from 2) as y from t
select a, struct(a, b) as x, named_struct('a', a) as y, array(a) as z, map('a', a) as w from t
select /*+ broadcast(u) */ t.a, c from t join u on t.a = u.a
select /*+ repartition(3) */ a from t
select a from t order by a
select a from t sort by a
select a from t distribute by a
select a from t cluster by a
select a from t order by a limit 2
select a from t order by a limit 2 offset 1
select a from t limit all
select k.a from (select a from t) as k
select (select max(a) from u) as x, a from t
select a, c from t join lateral (select c from u where u.a = t.a)
select b, listagg(a, ',') within group (order by a) as x from t group by b
select b, percentile_cont(0.5) within group (order by a) as x from t group by b
select a, k.pos from t, lateral variant_explode(v) as k
select * from t lateral view stack(2, a, a) e as x
select * from range(3) as r(n) join t on a = n
select * from values (1, 'x') as k(n, c) join t on a = n
select a, interval '1-2' year to month as x from t
select x.a from t as x(a, b, d, at, v, l, m, s, q)
select a, b from t where a = 1 intersect all select a, c from u
select * from (select b, a from t) pivot (count(a) for b in ('x', 'y'))
select * from (select a, q as y from t) unpivot (x for n in (a, y))
select a from t qualify row_number() over (partition by b order by a) = 1
select a, b like any ('x%', 'y%') as x from t
select a, b like all ('x%', 'y%') as x from t
select a, lead(a) ignore nulls over (partition by b order by a) as x from t
select a from t where (a, b) in (select a, c from u)
select t.a, u.c from t left join u on t.a < u.a
select a, b from t except all select a, c from u
select b, a, count(*) as n from t group by cube (b, a)
select b, a, count(*) as n from t group by rollup (b, a)
select b, a, count(*) as n from t group by b, a with rollup
select b, a, count(*) as n from t group by grouping sets ((b), (a))
select b, q, count(*) as n from t group by b, rollup (q)
select b, q, count(*) as n from t group by grouping sets ((b, q), (b))
select t.a, u.c from t join u on coalesce(t.b, '') = coalesce(u.c, '')
select v:a::string as x from t
select v:a.b[0]::int as x from t
select a >>> 3 as x from t
select v:['a'] as x from t
select a, X"42" as x from t
select b !> 'x' as x, a !< 3 as y from t
from t |> where a > 1 |> select a, b
from t |> extend a + 1 as x |> drop v
from t |> aggregate count(*) as n group by b
from t |> join u on t.a = u.a |> select t.a, c
from t |> select a |> union all (select a from u)
from t |> select a |> order by a |> limit 2
from t |> select a, b |> pivot (count(a) for b in ('x', 'y'))
select a from t where not exists (from u |> where c = 'x')
select a << 1 as x, a >> 2 as y, (a & 7) >>> 1 as z from t
select -v:a::int as x, v:a['b c'].d::string as y, (v):a as z, parse_json(b):a[0] as w from t
select cast(null as array<array<array<int>>>) as x, m[':k'] as y, ':k' as z from t
from t |> where t.a > 1 |> join u on t.a = u.a |> select c, q
from t |> where t.a > 1 |> where b = 'x' |> as k |> where k.a > 1 |> select k.a
from t |> limit 3 |> where a > 1 |> offset 2
from t |> order by a |> select a |> extend a + 1 as b |> where b > 1
from t |> aggregate sum(q) as x, count(*) as n group by year(d) as y, b |> where n > 1
with k as (from t |> where a > 1) from k |> select a |> aggregate max(a) as x
select a from t union all select a from u |> where a > 1
table t |> select a |> intersect select a from u
from t as k |> where k.b = '|> where' -- |> drop a
select a from t where a in (from u |> where u.c = t.b |> select a)
""".strip().split("\n")
# Forms that replace the table, each with the reason in the run's line.
REPLACED = r"""
from t |> set a = a + 1 |> as k |> select k.a, b
from t join u on t.a = u.a |> limit 2 |> select t.a
from t |> aggregate count(*) as n group by 1
select v:`a b` as x from t
select a & 1 << 2 as x from t
select a & 1 >> 2 as x from t
table t
with recursive r as (select 1 as n union all select n + 1 from r where n < 3) select n from r, t
select transform(a) using 'cat' as (x string) from t
select a, b collate utf8_lcase as x from t
""".strip().split("\n")
# Words that are refused in any context.
REFUSED = {
    "select v:a::string as x, current_date as y from t": "HW_NONDETERMINISTIC",
    "from t |> where a > rand()": "HW_NONDETERMINISTIC",
    "from t |> extend unix_timestamp() as x": "HW_NONDETERMINISTIC",
    "from t |> where d = 'today'": "HW_NONDETERMINISTIC",
    "from t |> tablesample (10 percent)": "HW_NONDETERMINISTIC",
    "from t |> extend _metadata.file_name as x": "HW_NONDETERMINISTIC",
    "from t |> extend own(a) as x": "HW_NO_SUCH_FUNCTION",
    "select v:a, `current_user` from t": "HW_NONDETERMINISTIC",
    "select v:`a`, `current_user` from t": "HW_NONDETERMINISTIC",
    "from t |> set a = rand()": "HW_NONDETERMINISTIC",
    "select uuid() as x, a | a >>> 1 as y from t": "HW_NONDETERMINISTIC",
    "from t |> where a in (select a from identifier('u'))": "HW_FUNCTION_READS_TABLE",
    "select a from identifier('t')": "HW_FUNCTION_READS_TABLE",
    "select * from table_changes('t', 1)": "HW_FUNCTION_READS_TABLE",
}
# Spark may answer these functions differently, but here the words name columns or aliases.
ALLOWED = [
    "select v:a, t.current_date from t",
    "select v:`a`, t.current_date from t",
    "from t |> set a = 1 -- rand()",
    "select v:a as current_date from t",
    "with k (x) as (select a | a >>> 1 from t) select x from k",
    "select a | a >>> 1 from t -- rand()",
    "select a | a >>> 1, 'rand()' from t",
]


INPUTS = [Input(name, name, "lookup", columns) for name, columns in COLUMNS.items()]


def derived(sql: str) -> Derivation | str:
    """Return the derivation, or the code that refuses it."""
    used = [source for source in INPUTS if re.search(rf"\b{source.name}\b", sql)]
    try:
        return derive(Question(sql, used))
    except Refused as refused:
        return refused.code


@pytest.mark.parametrize("sql", ANALYSED)
def test_a_form_that_is_analysed_is_no_replacement_for_its_syntax(sql: str) -> None:
    found = derived(sql)
    assert isinstance(found, Derivation) and not found.is_unread
    assert found.refused is None or found.refused.code != "HW_NOT_UNDERSTOOD", found.refused


@pytest.mark.parametrize("sql", REPLACED)
def test_a_form_that_is_not_analysed_replaces_the_table_and_names_its_place(sql: str) -> None:
    found = derived(sql)
    assert isinstance(found, Derivation)
    assert found.strategy == "replace" or any(not one.is_followed for one in found.inputs)
    assert found.refused is not None and found.refused.cause


@pytest.mark.parametrize("sql", REFUSED)
def test_words_that_change_by_themselves_are_refused_in_any_syntax(sql: str) -> None:
    assert derived(sql) == REFUSED[sql]


@pytest.mark.parametrize("sql", ALLOWED)
def test_names_of_columns_and_aliases_are_no_such_words(sql: str) -> None:
    assert isinstance(derived(sql), Derivation)


def test_a_function_of_a_person_is_read_in_any_syntax() -> None:
    sql = "select v:`a b` as y, twice(a) as x from t"
    twice, day = {"twice": "x * 2"}, {"twice": "day(x)", "day": "current_date"}
    read = {"twice": "(select max(a) from u)"}
    codes = []
    for bodies in (twice, day, read):
        try:
            codes.append(derive(Question(sql, INPUTS[:1], functions=bodies)).strategy)
        except Refused as refused:
            codes.append(refused.code)
    assert codes == ["replace", "HW_NONDETERMINISTIC", "HW_FUNCTION_READS_TABLE"]


@pytest.mark.slow
def test_spark_reads_every_form_and_lists_its_tables(spark: Any) -> None:
    for name, columns in COLUMNS.items():
        listed = ", ".join(f"cast(null as {kind}) as {column}" for column, kind in columns.items())
        spark.sql(f"create or replace temporary view {name} as select {listed}")
    wrong: dict[str, object] = {}
    for sql in (*ANALYSED, *REPLACED):
        try:
            plan = spark.sql(f"explain extended {sql}").collect()[0][0]
        except Exception as error:
            wrong[sql] = str(error).partition("JVM")[0]
            continue
        used = [name for name in COLUMNS if re.search(rf"(?<!\.)\b{name}\b(?!')", sql)]
        found = unlisted(plan, sql, used)
        missed = [name for name in used if unlisted(plan, sql, [u for u in used if u != name])]
        failed = [line for line in plan.splitlines() if "Exception" in line or "Error occ" in line]
        if found or missed != used or failed:
            wrong[sql] = (found, missed, failed)
    for name in COLUMNS:
        spark.catalog.dropTempView(name)
    assert wrong == {}
