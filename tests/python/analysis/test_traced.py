"""Test which queries trace changed rows to columns of the result."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from analysis.queries import traced_derivation
from headwaters.analysis.derive import Question
from headwaters.analysis.lineage_rules import Traced, TracedRules
from headwaters.analysis.refusal import Refused
from headwaters.analysis.relations import Input

COLUMNS = {"id": "int", "grp": "string", "val": "int", "at": "date", "price": "double"}
NAMES = ("a", "b", "c", "l")
INPUTS = [Input(name, name, "", COLUMNS) for name in NAMES]
INPUTS.append(Input("e", "e", "", {"id": "int", "seen": "timestamp"}))
SPANS = "it aggregates all rows"
UNTRACED = "no GROUP BY column is traced to single rows of an input"
FREE = "the subquery looks at rows that no equality compares with the outer row"
KEPT = "a row of constants that is kept alone would be found by no lead of another input"
LOST = "not every use of an input leads to columns of the result"

# SQL over followed a, b and c, and the lookup l: the key, or the reason for the refusal
EXAMPLES = {
    # computed keys
    "select year(at) as y, count(*) as n from a group by 1": "y",
    "select extract(year from at) as y, upper(grp) as g, sum(val) as n from a group by all": "y g",
    "select y, max(val) as n from (select *, date_trunc('month', at) as y from a) group by y": "y",
    "select case when val > 2 then 'high' else 'low' end as c from a group by 1": "c",
    "select val % 10 as v, count(*) as n from a group by 1": "v",
    "select val + 1 as v, grp, count(*) as n from a group by 1, 2": "grp",
    "select val + 1 as v, count(*) as n from a group by 1": UNTRACED,
    "select 100 / val as v, count(*) as n from a where val <> 0 group by 1": UNTRACED,
    "select cast(grp as int) as v, count(*) as n from a group by 1": UNTRACED,
    "select cast(at as string) as v, count(*) as n from a group by 1": "v",
    "select length(grp) as v, count(*) as n from a group by 1": "v",
    "select year(grp) as v, count(*) as n from a group by 1": UNTRACED,
    "select count(*) as n from a": SPANS,
    "select n from (select grp, count(*) as n from a group by grp) group by n": UNTRACED,
    # joins of any length
    "select c.grp, sum(a.val) as n from a, b, c where a.id = b.id and b.val = c.val"
    " group by c.grp": "grp",
    "select a.grp, b.grp as other, count(*) as n from a join b using (id) group by 1, 2": (
        "grp other"
    ),
    "with q as (select id, upper(trim(grp)) as g from a), p as (select val, lower(grp) as g from b)"
    " select p.val, count(*) as n from q join p on q.g = p.g group by p.val": "val",
    "with q as (select id, substring(grp, 1, 2) as g from a) select q.id, b.at from q join b"
    " on q.g = b.grp": "id at",
    "with q as (select id, length(grp) as g from a) select b.val from q join b on q.g = b.grp"
    " group by b.val": "val",
    "select a.grp, count(*) as n from a join b on a.id = b.id + 1 group by a.grp": (
        "inner join by no equality of columns of single rows"
    ),
    "select a.grp, count(*) as n from a, b group by a.grp": (
        "inner join by no equality of columns of single rows"
    ),
    "select a.grp, l.grp as g, count(*) as n from a, l group by 1, 2": "grp",
    "select b.grp, count(*) as n from a left join b on a.id = b.id group by b.grp": "grp",
    "select a.val, b.grp from a left join b on a.id = b.id where b.val > 3": "val",
    "select coalesce(a.id, b.id) as id, count(*) as n from a full join b on a.id = b.id"
    " group by 1": "id",
    "select b.grp, count(*) as n from a left join b on a.id > b.id group by b.grp": "grp",
    "select b.grp, count(*) as n from a left join b on a.id <> b.id group by b.grp": (
        "left join by no equality of columns of single rows"
    ),
    "select a.grp, count(b.id) as n from a left join b on a.id = b.id group by a.grp": "grp",
    "select a.grp from a join b on a.grp = b.val group by a.grp": "grp",
    "select a.grp from a join b on a.grp = b.price group by a.grp": (
        "inner join by no equality of columns of single rows"
    ),
    "select id, count(*) as n from a full join b using (id) group by id": (
        "full join: a row that nothing joins has no values of the other side"
    ),
    "select o.grp, count(*) as n from a o join a i on o.id = i.val group by o.grp": "grp",
    "with q as (select id, grp from a) select x.grp, count(*) as n from q x join q y on x.id = y.id"
    " group by x.grp": "grp",
    "select a.grp, count(*) as n from a, b where (a.id = b.id and b.val = 1) or (a.id = b.id and"
    " a.val = 2) or (a.id = b.id and a.grp = 'x') group by a.grp": "grp",
    "select a.grp, count(*) as n from a join b on (a.id = b.id and b.val = 1) or a.val = b.val"
    " group by a.grp": "grp",
    "select a.grp, count(*) as n from a, b where not (a.id = b.id or a.id = b.id) group by 1": (
        "inner join by no equality of columns of single rows"
    ),
    "select b.grp, count(*) as n from a join b on coalesce(a.grp, '') = coalesce(b.grp, '')"
    " group by b.grp": "grp",
    "select b.id, a.val from a, b where upper(a.grp) = b.grp": "id val",
    "select b.id, a.val from a join b on a.grp like b.grp": "id val",
    "select b.id, a.val from a join b on a.grp not like b.grp": (
        "inner join by no equality of columns of single rows"
    ),
    "select b.id, a.val from a join b on cast(a.grp as int) = b.id": "id val",
    "select b.id, a.val from a join b on cast(a.grp as double) = b.id": (
        "inner join by no equality of columns of single rows"
    ),
    # the largest value of an input
    "select id from a where val = (select max(val) from b where grp > 'b')": "id",
    "select id from a where upper(grp) = (select min(upper(grp)) from b)": "id",
    "select a.id from a join (select max(at) as at from b) l on l.at = a.at": "id",
    "select a.id, l.at as latest from a left join (select max(at) as at from b) l"
    " on l.at = a.at": "id",
    "select id from a where val < (select max(val) from b)": FREE,
    "select id, (select max(val) from b) as most from a": FREE,
    "select id from a where val = (select max(val) from b) or id = 1": FREE,
    "select id from a where price = (select max(price) from b)": SPANS,
    "select id from a where val = (select max(val + 1) from b)": SPANS,
    "select id from a where val = (select max(val) from b where val + 1 > 2)": SPANS,
    "select id from a where val = (select max(val) from b where b.id + 1 < a.id)": SPANS,
    "select id from a where val = (select max(val) from b having count(*) > 1)": SPANS,
    "select id from a where val = (select max(b.val) from b join c using (id))": SPANS,
    "select id from a where val = (select max(val) from b where id in (select id from c))": SPANS,
    "select id from a where val = (select max(val) from (select val from b limit 2))": (
        "which rows are within the limit depends on all of them"
    ),
    "select id from a where val = (select max(id) from b unpivot (v for n in (val)))": SPANS,
    "select max(val) as val from a": SPANS,
    # kept constants
    "select d.day, count(a.id) as n from (select explode(sequence(date'2026-01-01',"
    " date'2026-12-31', interval 1 day)) as day) d left join a on a.at = d.day group by d.day": (
        "day"
    ),
    "select k.g, count(a.id) as n from (select 'x' as g union all select 'y') k left join a"
    " on a.grp = k.g group by k.g": "g",
    "select k.g, count(a.id) as n from (select 'x' as g union all select 'y') k left join a"
    " on a.val = k.g group by k.g": "left join by no equality of columns of single rows",
    "select k.g, count(a.id) as n from (values (1), (null)) k(g) left join a on a.val <=> k.g"
    " group by k.g": "g",
    "select k.g, count(a.id) as n from (values ('X'), ('Y')) k(g) left join a"
    " on upper(trim(a.grp)) = k.g and a.val > 1 group by k.g": "g",
    "select k.m, count(a.id) as n from a right join (select explode(sequence(1, 12)) as m) k"
    " on k.m = month(a.at) group by k.m": "m",
    "select k.m, count(a.id) as n from (select explode(sequence(1, 12)) as m) k left join a"
    " on a.val + 1 = k.m group by k.m": "left join by no equality of columns of single rows",
    "select k.m, count(a.id) as n from (select explode(sequence(1, 12)) as m) k left join a"
    " on cast(a.grp as int) = k.m group by k.m": (
        "left join by no equality of columns of single rows"
    ),
    "select k.m, count(a.id) as n from (select explode(sequence(1, 12)) as m) k left join a"
    " on month(a.at) <> k.m group by k.m": "left join by no equality of columns of single rows",
    "select k.m, count(a.id) as n from (select explode(sequence(1, 12)) as m) k left join a"
    " on month(a.at) = k.m or a.val = k.m group by k.m": (
        "left join by no equality of columns of single rows"
    ),
    # a constant that no row of `a` equals is kept, and depends on `b` without `a`
    "select k.g, count(a.id) as n from (values ('X'), ('Y')) k(g) left join a on a.grp = k.g"
    " left join b on upper(b.grp) = k.g group by k.g": "g",
    "select k.g, k.v, a.id as i, b.id as j from (values ('X', 1)) k(g, v) left join a"
    " on a.grp = k.g and a.val = k.v left join b on b.val = k.v": "v",
    "select k.g, k.v, a.id as i, b.id as j from (values ('X', 1)) k(g, v) left join a"
    " on a.grp = k.g left join b on b.val = k.v": KEPT,
    "select k.g from (values ('X')) k(g) left join a on a.grp = k.g join b on b.grp = k.g": KEPT,
    "select b.grp from b join (select k.g from (values ('X')) k(g) left join a on a.grp = k.g) q"
    " on q.g = b.grp": KEPT,
    "select k.g from (values ('X')) k(g) left join a on a.grp = k.g where exists"
    " (select 1 from b where b.grp = k.g)": KEPT,
    "select k.g from (values ('X')) k(g) left join a on a.grp = k.g where k.g in"
    " (select grp from b)": KEPT,
    "select b.grp from b where b.grp in (select k.g from (values ('X')) k(g) left join a"
    " on a.grp = k.g where a.id is null)": KEPT,
    "select b.grp from b where exists (select 1 from (select k.g, a.id from (values ('X')) k(g)"
    " left join a on a.grp = k.g) q where q.g = b.grp and q.id is null)": KEPT,
    "select q.g, b.id from (select k.g from (values ('X')) k(g) left join a on a.grp = k.g"
    " union all select grp from l) q left join b on b.grp = q.g": KEPT,
    "select k.g, l.id from (values ('X')) k(g) left join a on a.grp = k.g left join l"
    " on l.grp = k.g": "g",
    # subqueries
    "select grp from a where (id, val) in (select id, val from b)": "grp",
    "select grp from a where (id, val) not in (select id, val from b)": (
        "a NULL in either column of `not in` may affect every row"
    ),
    "select grp from a where upper(grp) in (select upper(grp) from b)": "grp",
    "select grp from a where exists (select 1 from b where b.id = a.id or b.val = a.val)": "grp",
    "select grp from a where id in (select id from b)": "grp",
    "select grp from a where id not in (select id from b)": "grp",
    "select grp from a where exists (select 1 from b where b.id = a.id and b.val <> a.val)": "grp",
    "select grp from a where not exists (select 1 from b where b.val <> a.val)": FREE,
    "select grp from a where val > (select avg(val) from b where b.id = a.id)": "grp",
    "select grp from a where val > (select avg(val) from b)": SPANS,
    "select grp from a where val > (select avg(val) from l)": "grp",
    "select grp from a where val in (select max(val) from b group by grp)": FREE,
    "select grp from a where grp in (select grp from b group by grp having count(*) > 1)": "grp",
    "select grp from a where id in (select id from b where val in (select val from c))": "grp",
    "select grp from a where exists (select 1 from b where b.id = a.id and b.val in"
    " (select val from c))": "grp",
    "select grp, (select max(val) from b where b.id = a.id) as top from a": "grp",
    "select grp, id in (select id from b) as is_there from a": "grp",
    "select a.grp, count(*) as n from a group by a.grp having count(*) >"
    " (select max(val) from b where b.grp = a.grp)": "grp",
    "select a.grp from a group by a.grp having count(*) > (select max(val) from b)": FREE,
    "select a.grp from a join b on a.id = b.id and a.val in (select c.val from c)": LOST,
    "select grp from a left semi join b on a.id = b.id": "grp",
    "select grp from a left anti join b on a.id = b.id": "grp",
    # windows, sets, limits
    "select grp, rank() over (partition by grp order by val) as n from a": "grp",
    "select grp, val, rank() over (partition by grp order by val) as n from a": "grp",
    "select grp, rank() over (order by val) as n from a": "the window is over all rows",
    "select grp, max(n) as n from (select grp, val, count(*) over (partition by val) as n from a)"
    " group by grp": "grp",
    "select grp, max(n) as n from (select grp, val, count(*) over (order by val) as n from a)"
    " group by grp": "the window is over all rows",
    "select distinct grp, year(at) as y from a": "grp y",
    "select grp, val from a union select grp, val from b": "grp val",
    "select grp, val + 1 as v from a union all select grp, val from b": "grp",
    "select grp, val from a except select grp, val from l": "grp val",
    "select 'a' as src, val from a union all select 'b', val from b": "val",
    # the text of a moment in the hour that a time zone repeats equals the earlier moment
    "select seen as k, id from e union all select grp, id from b": "id",
    "select seen as k from e union all select at from b": "k",
    "select seen as k from e union all select grp from b": (
        "the branches have no column in common that is made of single rows"
    ),
    "select val + 1 as v from a union all select val from b": (
        "the branches have no column in common that is made of single rows"
    ),
    "select grp from a order by id limit 3": (
        "which rows are within the limit depends on all of them"
    ),
}


def derived(sql: str) -> tuple[str, dict[str, str]]:
    used = [it for it in INPUTS if re.search(rf"\b(from|join|,) {it.name}\b", sql)]
    found = traced_derivation(Question(sql, used, frozenset(["l"])), 1)
    assert found is not None
    assert set(found.leads) == {it.name for it in used if it.name != "l"}
    return " ".join(found.key), dict(found.leads)


@pytest.mark.parametrize("sql", EXAMPLES)
def test_examples(sql: str) -> None:
    try:
        assert derived(sql)[0] == EXAMPLES[sql]
    except Refused as refused:
        assert refused.cause.endswith(EXAMPLES[sql]) or EXAMPLES[sql] in str(refused)


def test_what_changed_is_read_first_and_its_conditions_are_kept() -> None:
    _, leads = derived(
        "select b.grp, count(*) as n from a join b on a.id = b.id where a.val > 3 and a.val + 1 > 2"
        " group by b.grp"
    )
    assert leads["b"] == (
        "select hw_1.`grp` as `grp` from `hw_changed:b` as hw_1, `hw_wide:a` as hw_2"
        " where hw_2.`id` = hw_1.`id` and (hw_2.`id` = hw_1.`id`) and (hw_2.`val` > 3)"
    )


def test_nulls_of_not_in_concern_every_row() -> None:
    _, leads = derived("select grp from a where id not in (select id from b)")
    assert [query.partition(" where ")[2] for query in leads["b"].split("\nunion all\n")] == [
        "hw_1.`id` = hw_2.`id`",
        "hw_1.`id` is null",
        "hw_2.`id` is null",
    ]


@pytest.mark.parametrize(
    "condition",
    [
        *("a.grp = '/* x */'", r"a.grp = '\00012'", r"a.grp like 'a\\%'", "a.grp > 5"),
        *("a.price / 2 > 1", "abs(a.val) > 1"),
    ],
)
def test_conditions_that_may_fail_are_left_out(condition: str) -> None:
    _, leads = derived(f"select grp, count(*) as n from a where {condition} group by grp")
    assert leads["a"] == "select hw_1.`grp` as `grp` from `hw_changed:a` as hw_1"


EXPRESSIONS = {
    "md5(concat_ws('-', id, grp))": "(md5(concat_ws('-', hw_1.`id`, hw_1.`grp`)))",
    "sha2(concat(grp, id), 256)": "(sha2(concat(hw_1.`grp`, hw_1.`id`), 256))",
    "get_json_object(grp, '$.a')": "(get_json_object(hw_1.`grp`, '$.a'))",
    # a text of no date fails under ANSI rules only
    "cast(grp as date)": "(TRY_CAST(hw_1.`grp` AS DATE))",
    "cast(id as bigint)": "(CAST(hw_1.`id` AS BIGINT))",
    "year(at) * 100 + month(at)": "(year(hw_1.`at`) * 100 + month(hw_1.`at`))",
    "floor(id / 10) * 10": "(floor(hw_1.`id` / 10) * 10)",
    "date_sub(at, weekday(at))": "(date_sub(hw_1.`at`, weekday(hw_1.`at`)))",
    "split(grp, ',')[0]": "(split(hw_1.`grp`, ',')[0])",
    "regexp_extract(grp, '([a-z]+)-(x|y)', 2)": "(regexp_extract(hw_1.`grp`, '([a-z]+)-(x|y)', 2))",
    # each may fail for a row that the query leaves out, or Java may read its pattern differently
    "id + 1": "",
    "id * 2": "",
    "year(at) * 1000": "",
    "abs(id)": "",
    "floor(price)": "",
    "cast(grp as bigint)": "",
    "cast(id as smallint)": "",
    "split(grp, ',')[1]": "",
    "split_part(grp, ',', 0)": "",
    "regexp_extract(grp, '([a-z]+)', 2)": "",
    "regexp_extract(grp, '(?<a>x)', 1)": "",
    "regexp_replace(grp, 'x', '$1')": "",
    "regexp_replace(grp, '[a[b]]', '')": "",
    "get_json_object(grp, at)": "",
}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_is_a_key_if_it_fails_for_no_row(expression: str) -> None:
    sql = f"select {expression} as k, count(*) as n from a group by 1"
    try:
        _, leads = derived(sql)
    except Refused as refused:
        assert (EXPRESSIONS[expression], refused.reason) == ("", UNTRACED)
    else:
        text = EXPRESSIONS[expression]
        assert leads["a"] == f"select {text} as `k` from `hw_changed:a` as hw_1"


def test_exploded_values_are_traced_by_the_same_view() -> None:
    inputs = [Input("a", "a", "", {"id": "int", "tags": "array<string>", "m": "map<string,int>"})]

    def lead(sql: str) -> str:
        found = traced_derivation(Question(sql, inputs), 1)
        assert found is not None
        return found.leads["a"]

    assert lead(
        "select t.tag, count(*) as n from a lateral view outer explode(tags) t as tag"
        " where id > 3 group by t.tag"
    ) == (
        "select hw_1.`c0` as `tag` from `hw_changed:a` as hw_2"
        " lateral view outer explode((hw_2.`tags`)) hw_1 as `c0` where (hw_2.`id` > 3)"
    )
    assert lead(
        "select p, k, v, count(*) as n from (select posexplode(m) as (p, k, v) from a)"
        " group by p, k, v"
    ) == (
        "select hw_1.`c0` as `p`, hw_1.`c1` as `k`, hw_1.`c2` as `v` from `hw_changed:a` as hw_2"
        " lateral view posexplode((hw_2.`m`)) hw_1 as `c0`, `c1`, `c2`"
    )
    for sql in (
        "select t.tag, count(*) as n from a left join lateral explode(tags) as t(tag)"
        " on t.tag > 'x' group by t.tag",
        "select tag, count(*) as n from (select explode(filter(tags, x -> x > 'b')) as tag from a)"
        " group by tag",
    ):
        with pytest.raises(Refused):
            lead(sql)


def test_a_window_leads_to_the_rows_of_its_partition() -> None:
    _, leads = derived(
        "select grp, count(*) as n from (select grp, count(*) over (partition by val) as c,"
        " rank() over (partition by val order by id) as r from a where id > 3) where c = 1"
        " group by grp"
    )
    assert leads["a"] == (
        "select hw_1.`grp` as `grp` from `hw_changed:a` as hw_2, `hw_wide:a` as hw_1"
        " where (hw_1.`id` > 3) and (hw_2.`id` > 3) and hw_1.`val` <=> hw_2.`val`"
    )


def test_only_what_is_read_again_is_numbered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    numbered: list[object] = []
    renumbered = TracedRules.renumbered

    def counted(self: TracedRules, fact: Traced, number: Callable[[int], int]) -> object:
        numbered.append(fact)
        return renumbered(self, fact, number)

    monkeypatch.setattr(TracedRules, "renumbered", counted)
    steps = [f"q{n} as (select grp, val from q{n - 1} where val > {n})" for n in range(1, 20)]
    chain = f"with q0 as (select * from a), {', '.join(steps)} "
    assert derived(f"{chain}select grp, count(*) as n from q19 group by grp")[0] == "grp"
    assert numbered == []
    key, _ = derived(
        f"{chain}select x.grp, count(*) as n from q19 x join q19 y on x.val = y.val group by x.grp"
    )
    assert (key, len(numbered)) == ("grp", 1)
