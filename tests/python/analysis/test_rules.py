"""Test the queries that each rule accepts, and the refusals of the others."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest

from headwaters.analysis import missing_commas
from headwaters.analysis.declared_keys import unique_columns
from headwaters.analysis.model import bodies
from headwaters.analysis.proof import prove, prove_derived
from headwaters.analysis.refusal import Refused
from headwaters.analysis.relations import Input
from headwaters.analysis.strategies import RuleBook

COLUMNS = {"id": "int", "grp": "string", "val": "int", "price": "decimal(10,2)"}
NAMES = {"grp": "string", "name": "string"}
LOOKUP = Input("l", "l", "lookup", NAMES, unique=[frozenset(["grp"])])
T = Input("t", "t", "changes", COLUMNS)
S = Input("s", "s", "signed", COLUMNS | {"_weight": "int"})
A = Input("a", "a", "affected", COLUMNS, key={"id": "id"})
B = Input("b", "b", "affected", COLUMNS, key={"id": "id"}, unique=[frozenset(["id", "val"])])
BIG = Input("big", "big", "affected", COLUMNS | {"id": "bigint"}, key={"id": "id"})
HERE = Input("here", "a", "lookup", COLUMNS)
P = Input("p", "p", "affected", NAMES, via="a", on={"grp": "grp"})

# SQL of a change_feed over t and the lookup l, and the words of the refusal
LINEAR = {
    "select id, val * 2 as v from t where val > 3": "",
    "select t.id, l.name from t left join l on t.grp = l.grp": "",
    "select id, grp is distinct from 'a' as f from t where val is not distinct from 3": "",
    "select t.id, l.name from l right join t using (grp)": "",
    "select t.* from t left semi join l on t.grp = l.grp": "",
    "select t.* from t left anti join l on t.grp = l.grp": "",
    "select id from t where grp in (select grp from l where name is not null)": "",
    "select id from t where grp not in (select grp from l group by grp)": "",
    "select id from t union all select val from t": "",
    "select id, (select max(v) from (select explode(array(val, 7)) as v)) as m from t": "",
    "select id, x.* from t, lateral (select max(name) as n from l where l.grp = t.grp) as x": "",
    "select id, e.z from t lateral view outer explode(array(1, val)) e as z": "",
    "select id, transform(array(1, val), x -> x + t.val) as a from t": "",
    "with n as (select grp from l) select id from t lateral view explode(array(1)) e as z"
    " where grp in (select grp from n)": "",
    """select id, "group by" as label, r'distinct' as raw from t -- over (x""": "",
    "with fed (i, g, v, p) as (select * from t), kinds as (select 0 as k union all select 1)"
    " select i, k from fed cross join kinds": "",
    "select fx.doubled(val) as d from t": "",
    "select id, row_number() over w as r from t window w as (partition by grp order by id)": (
        "NOT_LINEAR: `row_number() OVER w`"
    ),
    "with fed as (select * from t) select a.id from fed a, fed b where b.id = a.val": (
        "READ_TWICE: `CROSS JOIN fed AS b`"
    ),
    "with fed as (select * from t) select a.id from (fed a join fed b on b.id = a.val)": (
        "READ_TWICE: `JOIN fed AS b ON b.id = a.val`"
    ),
    "with fed (i, g, v, p) as (select * from t), kinds as (select 0 as k union all select 1)"
    " select a.i from fed a left join fed b on b.i = a.v": "READ_TWICE: `LEFT JOIN fed AS b",
    "with recursive r as (select id from t union all select id + 1 from r) select * from r": (
        "NOT_UNDERSTOOD: "
    ),
    "select id from t where val > (select max(val) from t)": "NOT_LINEAR: `SELECT max(val) FROM t`",
    "select id from t where exists (select 1 from t as o where o.id = t.val)": "READ_TWICE: ",
    "select t.id, l.name from l left join t on t.grp = l.grp": "NOT_LINEAR: `LEFT JOIN t",
    "select t.id, l.name from t full join l on t.grp = l.grp": "NOT_LINEAR: `FULL JOIN l",
    "select 'all' as k, bool_or(val > 35) as any_large from t": "NOT_LINEAR: ",
    "select id, approx_count_distinct(grp) as n from t group by id": "NOT_LINEAR: `GROUP BY id`",
    "select distinct id from t": "NOT_LINEAR: `SELECT DISTINCT id FROM t`",
    "select id from t union select id from t": "NOT_LINEAR: ",
    "select id from t union all select 1": "NOT_LINEAR: ",
    "select id, timestampdiff(second, at, at) as s from t limit all": "NOT_UNDERSTOOD: `at`",
    "select id, timestampadd(day, val, date '2026-01-01') as s from t limit all": "",
    "select id from t limit 3": "NOT_LINEAR: `LIMIT 3`",
    "select id, l.name from t left join (select * from l limit 1) as l on t.grp = l.grp": (
        "NONDETERMINISTIC: "
    ),
    "select id from t tablesample (10 percent)": "NOT_UNDERSTOOD: ",
    "select * from t pivot (max(val) for grp in ('a', 'b'))": "NOT_LINEAR: `PIVOT(max(val) FOR",
    "select * from (select id, val, 1 as w from t) unpivot (v for n in (val, w as x))": "",
    "select * from t unpivot ((v, w) for n in ((id, val)))": "NOT_UNDERSTOOD: `UNPIVOT((v, w) FOR",
    "select * from t unpivot (v for n in (id, missing))": "NOT_UNDERSTOOD: `missing`",
    "select id from t qualify count(*) over (partition by grp) > 1": "NOT_LINEAR: `count(*) OVER",
    "select id from t where grp like any ('a%', 'b%')": "",
    "select grp from t except all select grp from l": "NOT_LINEAR: ",
    "select id, current_date as d from t": "NONDETERMINISTIC: `current_date`",
    "select id, user as d from t": "NONDETERMINISTIC: `user`",
    "select id, unix_timestamp() as d from t": "NONDETERMINISTIC: `unix_timestamp()`",
    "select id from t where date '2026-01-01' < date 'today'": "NONDETERMINISTIC: ",
    "select fx.lucky(val) as d from t": "NONDETERMINISTIC: `fx.lucky(val)` (line 1 of the compiled "
    "SQL): in the body of lucky, `rand()`: its result changes by itself",
    "select id, fx.newest() as d from t": "FUNCTION_READS_TABLE: `fx.newest()` (line 1 of",
    "select array(val, rand())[0] as d from t": "NONDETERMINISTIC: `rand()`",
    "select id, array(val, 1)[0] as d, 'it''s' as s from t": "",
    "select unheard_of(val) as d from t": "NOT_UNDERSTOOD: `unheard_of(val)`",
    "select id from t where grp = any (select grp from l)": "NOT_UNDERSTOOD: ",
    "select * from l, t natural join l as m": "NOT_UNDERSTOOD: ",
    "select * from l cross join t join l as m using (grp)": "NOT_UNDERSTOOD: ",
    "select * from l cross join (t join l as m using (grp))": "",
    "select id frm t": "NOT_UNDERSTOOD: ",
    "select id from t@v1": "NOT_UNDERSTOOD: `${v1}`: a parameter",
    "select id from t version as of 1": "NOT_UNDERSTOOD: `VERSION AS OF 1`",
    "select id from t timestamp as of '2026-01-01'": "NOT_UNDERSTOOD: `TIMESTAMP AS OF",
    "select id, val from t group by 3": "NOT_UNDERSTOOD: ",
    "select id, x.n from t join lateral (select 1 as n) as x on t.val > rand()": (
        "NONDETERMINISTIC: "
    ),
    "select id from t where at > timestamp 'now UTC'": "NONDETERMINISTIC: ",
    "select id from t where date '2026-01-01' > date 'today UTC'": "NONDETERMINISTIC: ",
    "select id from t where exists(array(1, val), x -> x > 2)": "",
    "select 1 as id from l": "NOT_LINEAR: no row of the result comes from the followed input",
}
FUNCTIONS = {"doubled": "x * 2", "lucky": "x * rand()", "newest": "(select max(val) from t)"}

# SQL of a signed_sum over s and the lookup l, with the unique_key k
SUMS = {
    "select grp as k, sum(_weight) as n, sum(cast(val as bigint) * _weight) as v"
    " from s group by grp": "",
    "with w as (select grp, cast(val as bigint) * _weight as signed_val, _weight from s)"
    " select grp as k, cast(sum(_weight) as bigint) as n, sum(signed_val) as v"
    " from w group by 1": "",
    "select l.name as k, sum(_weight) as n from s join l on l.grp = s.grp group by all": "",
    "select grp as k, sum(case when val > 3 then _weight else 0 end) as n from s group by grp": "",
    "select grp as k, sum(round(price / 3, 2) * _weight) as v from s group by grp": "",
    "select grp as k, cast(sum(price * _weight) as decimal(38,2)) as v from s group by grp": "",
    "select grp as k, sum(-_weight) + 2 * coalesce(sum(cast(val as bigint) * _weight), 0) as v"
    " from s group by grp": (""),
    "select 'all' as k, sum(_weight) as n from s": "",
    "select grp as k, cast(sum(case when val > 1 then price * _weight else 0 end)"
    " as decimal(28, 2)) as v from s group by grp": "",
    # -2147483648 is an int and 2147483648 is not
    "select grp as k, sum(val * _weight) as v from s group by grp": (
        "NOT_A_SUM: `sum(val * _weight)` (line 1 of the compiled SQL): the least int is its own"
        " opposite, and is not as a bigint. Cast to bigint or a decimal before _weight is"
        " multiplied: sum(cast(quantity as bigint) * _weight)"
    ),
    "select grp as k, sum(cast(val * _weight as bigint)) as v from s group by grp": "NOT_A_SUM: ",
    "select grp as k, sum(cast(val as smallint) * _weight) as v, sum(case when val > 1 then"
    " 2 * _weight else 0 end) as w from s group by grp": "",
    "select grp as k, sum(100000 * 100000 * _weight) as v from s group by grp": "NOT_A_SUM: ",
    "select grp as k, sum(if(id > 1, val * _weight, 0.0)) as v from s group by grp": "NOT_A_SUM: ",
    "select grp as k, sum(cast(cast(val as bigint) * id * _weight as decimal(28, 0))) as v from s"
    " group by grp": "",
    "select grp as k, sum(cast(cast(val as bigint) * id * id * _weight as decimal(28, 0))) as v"
    " from s group by grp": "NOT_A_SUM: ",
    "with w as (select grp, val * _weight as v from s union all select grp, price * _weight from s)"
    " select grp as k, sum(cast(v as decimal(20, 2))) as v from w group by grp": "NOT_A_SUM: ",
    "select grp as k, sum(cast(price * _weight as decimal(9, 1))) as v from s group by grp": "",
    "select grp as k, sum(cast(price as decimal(27, 2)) * _weight) as v from s group by grp": "",
    "with w as (select grp, cast(price as decimal(18, 2)) * _weight as v from s union all"
    " select grp, cast(price as decimal(18, 2)) * _weight from s) select grp as k,"
    " sum(if(v > 0, v, 0)) as v from w group by grp": "NOT_A_SUM: ",
    "with w as (select grp, val, cast(price as decimal(18, 2)) * _weight as v from s union all"
    " select grp, val, cast(val as decimal(18, 2)) * _weight from s)"
    " select grp as k, sum(if(val > 0, v, 0)) as v from w"
    " group by grp": "",
    "select grp as k, sum((price + 100) / 7 * _weight) as v,"
    " sum(abs(cast(val as bigint)) * _weight) as w,"
    " sum(length(grp) * _weight) as x from s group by grp": "",
    "select grp as k, sum(cast(price as decimal(30, 2)) * 2 * _weight) as v"
    " from s group by grp": "NOT_A_SUM: `sum(CAST(price AS DECIMAL(30, 2)) * 2 * _weight)` (line 1"
    " of the compiled SQL): nothing proves that what is summed are whole numbers or decimals",
    "select grp as k, sum(cast(price * _weight as decimal(28, 2))) as v from s group by grp": "",
    "select grp as k, sum(cast(val as decimal(28, 2)) * val * _weight) as v from s group by grp": (
        "NOT_A_SUM: "
    ),
    "select grp as k, sum(cast(sqrt(val) * _weight as decimal(28, 2))) as v from s group by grp": (
        "NOT_A_SUM: `sum(CAST(sqrt(val) * _weight AS DECIMAL(28, 2)))` (line 1 of the compiled"
        " SQL): nothing proves that it fits a decimal(38,2), and without ANSI rules what does not"
        " fit is NULL whatever is added to it. Cast what is summed to a decimal of at most 27"
        " digits, and leave the sum as it is."
    ),
    "select grp as k, cast(sum(price * _weight) as decimal(20, 2)) as v from s group by grp": "",
    "select grp as k, cast(sum(price * _weight) as decimal(19, 2)) as v from s group by grp": (
        "NOT_A_SUM: `CAST(sum(price * _weight) AS DECIMAL(19, 2))`"
    ),
    # a number with this many digits is not a bigint
    "select grp as k, sum(90000000000000000000000000 * _weight) as v from s group by grp": "",
    "select grp as k, sum(90000000000000000000000000000000000000 * _weight) as v from s"
    " group by grp": "NOT_A_SUM: ",
    "select grp as k, coalesce(sum(price * _weight), 9000000000000000000000000000) as v from s"
    " group by grp": "NOT_A_SUM: ",
    # a minus keeps 34 digits
    "select grp as k, -sum(cast(sqrt(val) as decimal(24, 2)) * _weight) as v from s"
    " group by grp": "",
    "select grp as k, -sum(cast(sqrt(val) as decimal(25, 2)) * _weight) as v from s group by grp": (
        "NOT_A_SUM: `-sum"
    ),
    "select grp as k, negative(sum(cast(sqrt(val) as decimal(27, 2)) * _weight)) as v from s"
    " group by grp": "NOT_A_SUM: `negative(sum",
    # overflowing whole numbers stay whole
    "select grp as k, sum(cast(val as bigint) * val * _weight) as v, cast(2"
    " * coalesce(sum(cast(val as bigint) * val * _weight), 0) as int) as w from s group by grp": "",
    "select grp as k, cast(sum(cast(val as bigint) * _weight) as decimal(20, 0)) as v"
    " from s group by grp": "",
    "select grp as k, cast(sum(cast(val as bigint) * val * _weight) as decimal(38, 0)) as v"
    " from s group by grp": "NOT_A_SUM: `CAST(sum(CAST(val AS BIGINT) * val * _weight)",
    "select grp as k, cast(cast(sum(cast(val as bigint) * _weight) as int) as bigint) as v"
    " from s group by grp": "NOT_A_SUM: `CAST(CAST(sum(CAST(val",
    "select grp as k, 1.5 * sum(cast(val as bigint) * val * _weight) as v"
    " from s group by grp": "NOT_A_SUM: `1.5 * sum",
    "select grp as k, coalesce(sum(cast(val as bigint) * val * _weight), 0.0) as v"
    " from s group by grp": "NOT_A_SUM: `coalesce(sum",
    # -128 is a tinyint and 128 is not
    "select grp as k, sum(cast(val * _weight as tinyint)) as v from s group by grp": "NOT_A_SUM: ",
    "select grp as k, sum(cast(cast(val as double) * _weight as int)) as v"
    " from s group by grp": "NOT_A_SUM: ",
    "select grp as k, sum(try_cast(val * _weight as bigint)) as v from s group by grp": (
        "NOT_A_SUM: "
    ),
    "select grp as k, try_cast(sum(cast(val as bigint) * _weight) as int) as v"
    " from s group by grp": ("NOT_A_SUM: `v`"),
    "select grp as k, sum(val) as v from s group by grp": "SUM_WITHOUT_WEIGHT: `sum(val)`",
    "select grp as k, max(val) as v from s group by grp": "NOT_A_SUM: `max(val)`",
    "select grp as k, count(*) as v from s group by grp": "NOT_A_SUM: `count(*)`",
    "select grp as k, sum(distinct val * _weight) as v from s group by grp": "NOT_A_SUM: ",
    "select grp as k, sum(_weight) filter (where val > 3) as v from s group by grp": "NOT_A_SUM: ",
    "select grp as k, sum(_weight * _weight) as v from s group by grp": "NOT_A_SUM: ",
    "select grp as k, sum(if(_weight > 0, val, 0)) as v from s group by grp": "NOT_A_SUM: ",
    "select grp as k, sum(_weight) as n from s where _weight > 0 group by grp": "NOT_A_SUM: ",
    "select _weight as k, sum(_weight) as n from s group by _weight": "NOT_A_SUM: ",
    "select grp as k, sum(_weight) as n from s group by grp having sum(_weight) > 1": "NOT_A_SUM: ",
    "select grp as k, sum(_weight) + 1 as n from s group by grp": "NOT_A_SUM: `n`",
    "select grp as k, sum(-_weight) + sum(cast(val as bigint) * _weight) as v"
    " from s group by grp": "NOT_A_SUM: `v`",
    "select grp as k, sum(price * _weight) / sum(_weight) as v"
    " from s group by grp": "NOT_A_SUM: `v`",
    "select grp as k, cast(sum(price * _weight) as decimal(38,1)) as v from s group by grp": (
        "NOT_A_SUM: `v`"
    ),
    "select grp as k, cast(sum(price * _weight) as bigint) as v from s group by grp": (
        "NOT_A_SUM: `v`"
    ),
    "with d as (select distinct id, grp, _weight from s) select l.name as k, sum(_weight) as n"
    " from d join l on l.grp = d.grp group by l.name": "NOT_LINEAR: ",
    "with d as (select *, row_number() over (partition by id order by val desc) as rn from s)"
    " select l.name as k, sum(_weight) as n"
    " from d join l on l.grp = d.grp where rn = 1 group by 1": ("NOT_LINEAR: `row_number() OVER"),
    "select l.name as k, sum(_weight) as n from l left join s on l.grp = s.grp group by 1": (
        "NOT_LINEAR: `LEFT JOIN s"
    ),
}

# SQL of an affected_keys model by id over a, b, big, p (via a, on grp) and the lookup l
KEYED = {
    "select id, count(*) as n, sum(val) as v from a group by id": "",
    "select id, grp, max(val) as v from a group by all having count(*) > 1": "",
    "select a.id, b.val from a, b where a.id = b.id and a.val > 3": "",
    "select b.id, a.val, count(*) over (partition by b.id) as n from a join b on a.id = b.id": "",
    "select a.id, b.val from a left join b on a.id = b.id and b.val > 1": "",
    "select coalesce(a.id, b.id) as id, b.val from a full join b on a.id = b.id": "",
    "select id, a.val from a full join b using (id)": "",
    "select a.id, (select max(val) from b where b.id = a.id) as m from a": "",
    "select id from a where id in (select id from b)": "",
    "select id from a where not exists (select 1 from b where b.id = a.id and b.val > 3)": "",
    "select id, rank() over (partition by id order by val) as r from a": "",
    "select id, row_number() over (partition by id order by val) as r from b": "",
    "select id, max_by(grp, val) as g from b group by id": "",
    "with v as (select id, grp, struct(price, val) as o from b)"
    " select id, max_by(grp, o) filter (where grp <> 'a') as g from v group by id": "",
    "select id, min_by(grp, struct(val as v, price)) as g from b group by id": "",
    "select id, row_number() over (partition by id order by struct(price, val)) as g from b": "",
    "select id, row_number() over w as n, lag(val) over w as v from a"
    " window w as (partition by id order by val, grp, price)": "",
    "select id, row_number() over (partition by id order by val, grp, price) as n, row_number()"
    " over (partition by id order by val, grp, price desc) as m from a": "NONDETERMINISTIC: ",
    "select id, x, row_number() over (partition by id order by val, grp, price) as n"
    " from (select *, cast(val as double) as x from a)": "NONDETERMINISTIC: ",
    "select id, row_number() over (partition by id, val, grp, price order by count(*)) as n from a"
    " group by id, val, grp, price, price + 1": "NONDETERMINISTIC: ",
    "select id, min_by(grp, val + 1) as g from b group by id": "NONDETERMINISTIC: ",
    "select id, max_by(grp, struct(price)) as g from b group by id": "NONDETERMINISTIC: ",
    # tied rows have the same value if it is part of the order
    "select id, max_by(grp, struct(price, grp)) as g from a group by id": "",
    "select id, min_by(grp, struct(val, grp)) over (partition by id) as g from a": "",
    "select id, max_by(upper(grp), struct(val, grp)) as g from a group by id": "NONDETERMINISTIC: ",
    "select id, max_by(grp, struct(val, upper(grp))) as g from a group by id": "NONDETERMINISTIC: ",
    "select id, max_by(x, struct(x)) as g from (select id, cast(val as double) as x from a)"
    " group by id": "NONDETERMINISTIC: ",
    "select id, max_by(grp, struct(val, grp)) over (partition by id order by val"
    " rows between 1 preceding and current row) as g from a": "NONDETERMINISTIC: ",
    "select id, sort_array(collect_list(val)) as v from a group by id": "",
    "select id, val >>> 2 as x, val << 1 as y, val >> 1 as z, val !> 3 as w from a": "",
    "from a |> where val > 1 |> aggregate sum(val) as v group by id": "",
    "from a |> aggregate sum(val) as v group by id |> where v > 1 |> extend v + 1 as w": "",
    "from a |> join b on b.id = a.id |> select a.id, b.val |> union all (select id, val"
    " from b)": "",
    # a limit before WHERE, and a group without the key
    "from a |> limit 3 |> where val > 1": "ACROSS_KEYS: `LIMIT 3`",
    "from a |> aggregate max(id) as id group by grp": "ACROSS_KEYS: `GROUP BY 1`",
    "from a |> aggregate sum(val) as v group by 1": "NOT_UNDERSTOOD: `|> aggregate sum`",
    "from a |> select id, val |> where a.id > 1": "NOT_UNDERSTOOD: `a.`",
    "from a |> set val = 1": "NOT_UNDERSTOOD: `|> set val`",
    "select id, val << val & 1 as x from a": "NOT_UNDERSTOOD: `shiftleft(val, val) & 1`",
    "select id, val | val >> 1 as x from a": "NOT_UNDERSTOOD: `>>`",
    "select a.id, p.name from a left join p on p.grp = a.grp": "",
    "select a.id, q.n from a join (select grp, count(*) as n"
    " from p group by grp) q on q.grp = a.grp": (""),
    "select id, val from a union select id, val from b": "",
    "select id, val from a except select id, val from b": "",
    "select id, val, (select max(grp) from l) as g from a": "",
    "select distinct id from (select *, upper(grp) as u from a) where u = 'A'": "",
    "select id, t.v from a, lateral (select max(val) as v from b where b.id = a.id) as t": "",
    "select a.id, (select max(val) from b) as m from a": "ACROSS_KEYS: `SELECT max(val) FROM b`",
    "select id from a where id not in (select id from b)": "ACROSS_KEYS: ",
    "select id, id in (select id from b) as f from a": "ACROSS_KEYS: ",
    "select upper(grp) as id from a": "ACROSS_KEYS: ",
    "select grp from a": "ACROSS_KEYS: ",
    # the numbers of a partition without its other columns
    "select id, row_number() over (partition by id order by val) as r from a": "",
    "select id, 7 - row_number() over w as r, row_number() over w as s from a"
    " window w as (partition by id order by val)": "",
    "select distinct id, row_number() over (partition by id order by val) as r from a": "",
    "select id, val, row_number() over (partition by id order by val) as r from a": (
        "NONDETERMINISTIC: `row_number() OVER"
    ),
    "select *, row_number() over (partition by id order by val) as r from a": (
        "NONDETERMINISTIC: `row_number() OVER"
    ),
    "select id, row_number() over (partition by id order by val) as r, row_number() over"
    " (partition by id order by grp) as s from a": "NONDETERMINISTIC: `row_number() OVER",
    "select id, count(*) over (partition by id, grp) as c, row_number() over"
    " (partition by id order by val) as r from a": "NONDETERMINISTIC: `row_number() OVER",
    "select id, row_number() over (partition by id order by val) as r from a"
    " qualify count(*) over (partition by id, grp) = 1": "NONDETERMINISTIC: `row_number() OVER",
    "select id, (select max(b.val) from b where b.id = a.id) as m, row_number() over"
    " (partition by id order by val) as r from a": "NONDETERMINISTIC: `row_number() OVER",
    # 0.0 and -0.0 are of one partition
    "select id, x, row_number() over (partition by id, x order by val) as r"
    " from (select *, cast(val as double) as x from a)": "NONDETERMINISTIC: `row_number() OVER",
    "select id, ntile(2) over (partition by id order by val) as r, max(val) over"
    " (partition by id) as m from a": "NONDETERMINISTIC: `ntile(2) OVER",
    "select id, first(grp) as g from a group by id": "NONDETERMINISTIC: `first(grp)`",
    "select id, collect_list(val) as g from a group by id": "NONDETERMINISTIC: ",
    "select id, try_sum(val) as g from a group by id": "NONDETERMINISTIC: `try_sum(val)`",
    "select id, sum(val) over (partition by id order by val rows 1 preceding) as s from a": (
        "NONDETERMINISTIC: "
    ),
    "select a.id, p.name from a left join p on lower(p.grp) = lower(a.grp)": (
        "ACROSS_KEYS: `LEFT JOIN p"
    ),
    "select b.id, p.name from b left join p on p.grp = b.grp": "ACROSS_KEYS: ",
    "select a.id, p.name from a join here on here.id = a.val left join p on p.grp = here.grp": (
        "ACROSS_KEYS: `LEFT JOIN p"
    ),
    "select a.id, p.name from a full join p on p.grp = a.grp": "ACROSS_KEYS: ",
    "select a.id, b.id as parent from a left join b on a.val = b.id": "ACROSS_KEYS: `LEFT JOIN b",
    "select a.id, big.val from a join big on a.id = big.id": "ACROSS_KEYS: ",
    "select a.id, big.val from a left join big on a.id = big.id": (
        "ACROSS_KEYS: `LEFT JOIN big ON a.id = big.id` (line 1 of the compiled SQL): left join"
        " does not equate the key of both sides in one type, but as int and bigint."
    ),
    "select a.id, b.val from a cross join b": "ACROSS_KEYS: ",
    "select l.name as id, a.val from l left join a on l.grp = a.grp": "ACROSS_KEYS: ",
    "select id, val from a union all select 1, 2": "ACROSS_KEYS: ",
    "select id, val from a union all select val, id from b": "ACROSS_KEYS: ",
    "select grp as id, count(*) as n from a group by grp": "ACROSS_KEYS: ",
    "select id from a order by val limit 3": "ACROSS_KEYS: `LIMIT 3`",
    "select id, grp, count(*) as n from a group by rollup (id, grp)": (
        "ACROSS_KEYS: `GROUP BY ROLLUP (id, grp)`"
    ),
    "select id, grp, count(*) as n from a group by id, grp with cube": "ACROSS_KEYS: ",
    "select id, grp, count(*) as n from a group by id, rollup (grp)": "",
    "select id, grp, val, count(*) as n from a group by grouping sets ((id, grp), (id, val))": "",
    "select id, count(*) as n from a group by grouping sets (id, (id, grp), (grp))": (
        "ACROSS_KEYS: "
    ),
    "select a.id, count(*) as n from a group by grouping sets ((a.id, grp), (id))": "",
    "select id, count(*) as n from a group by grouping sets ((id), rollup (id, grp))": (
        "ACROSS_KEYS: "
    ),
    "select * from (select id, grp, val from a) pivot (sum(val) for grp in ('x', 'y' as z))": "",
    "select * from (select id, grp, val from a) pivot (sum(id) as id for grp in ('x'))": (
        "ACROSS_KEYS: `PIVOT("
    ),
    "select * from (select id, id as i, grp from a) pivot (max(i) for grp in ('x'))": "",
    "select * from a pivot (sum(val) as s, count(*) for grp in ('x'))": "NOT_UNDERSTOOD: `PIVOT(",
    "select * from a pivot (sum(val) for grp in (upper('x')))": "NOT_UNDERSTOOD: `PIVOT(",
    "select id, val from a except all select id, val from b": "",
    "select id, val from a intersect all select id, val from here": "",
    "select id, val from here except all select id, val from a": "ACROSS_KEYS: ",
    "select val as id from a except all select val from b": "ACROSS_KEYS: ",
    "select id from a where (grp, id) in (select grp, id from b)": "",
    "select id from a where (id, val) in (select val, id from b)": "ACROSS_KEYS: ",
    "select id from a where (grp, id) not in (select grp, id from b)": "ACROSS_KEYS: ",
    "select id, grp from a qualify row_number() over (partition by id, grp order by val) = 1": (
        "NONDETERMINISTIC: "
    ),
    "select id, grp from a qualify rank() over (partition by id order by val) = 1 and val > 3": "",
    "select id, grp from a qualify rank() over (partition by grp order by val) = 1": (
        "ACROSS_KEYS: `rank() OVER"
    ),
    "select id, upper(grp) as grp from a qualify max(grp) over (partition by id) = grp": (
        "NOT_UNDERSTOOD: `grp`"
    ),
    "select a.id from a join b on a.id = b.id or (a.id is null and b.id is null)": "",
    "select a.id from a left join b on (b.id is null and a.id is null) or b.id = a.id": "",
    "select a.id from a join b on a.id = b.id or (a.id is null and b.val is null)": "ACROSS_KEYS: ",
    "select a.id from a join b on a.id = b.id or (a.id is null or b.id is null)": "ACROSS_KEYS: ",
    "select id, rank() over (order by id) as place from a": "ACROSS_KEYS: ",
}

# SQL of an affected_keys model by id over c, which has collated texts
TEXTS = {"name": "string collate UTF8_LCASE", "plain": "string collate UTF8_BINARY"}
C = Input(
    "c",
    "c",
    "affected",
    {"id": "int", "s": "struct<x:string collate UNICODE_CI>"} | TEXTS,
    key={"id": "id"},
)
COLLATED = {
    "select id, count(*) as n, max(plain) as m from c group by id": "",
    "select id, max(collate(name, 'utf8_binary')) as m from c group by id": "",
    "select id, max(cast(name as string)) as m, max(s::string) as n from c group by all": "",
    "select id, c.name collate UTF8_BINARY as name from c": "",
    "with n as (select * from c), m as (select id, name as n from n union all select id, plain"
    " from n) select id, upper(collate(n, 'UTF8_BINARY')) as n from m": "",
    "select id from c where exists (select name from c as d where d.id = c.id)": "",
    "select id, name from c": "NOT_COMPARABLE: `SELECT id, name FROM c`",
    "select * from c": "NOT_COMPARABLE: `SELECT * FROM c`",
    "select id, (name) as n from c": "NOT_COMPARABLE: `name` (line 1 of the compiled SQL): name is"
    " a string collate utf8_lcase: texts that differ may be equal to it. Read"
    " cast(… as string) of it, and compare by lower(…) or the like.",
    "select id, max(name) as m from c group by id": "NOT_COMPARABLE: `name`",
    "select id, listagg(name) within group (order by name) as m from c group by id": (
        "NOT_COMPARABLE: `name`"
    ),
    "select id, count(distinct name) as m from c group by id": "NOT_COMPARABLE: `name`",
    "select id, count(*) as n from c group by id, name": "NOT_COMPARABLE: `name`",
    "select id, count(*) as n from c group by id, upper(name)": "NOT_COMPARABLE: `name`",
    "select id from (select distinct id, name from c)": "NOT_COMPARABLE: `SELECT DISTINCT id, name",
    "select id from (select id, name from c union select id, plain from c)": "NOT_COMPARABLE: ",
    "select id, n from (select id, plain as n from c union all select id, name from c)": (
        "NOT_COMPARABLE: "
    ),
    "select id, rank() over (partition by id order by name) as r from c": "NOT_COMPARABLE: `name`",
    "select id from c where name = 'a'": "NOT_COMPARABLE: `name`",
    "select id from c join c as d using (id, name)": "NOT_COMPARABLE: `JOIN c AS d USING",
    "select id from c natural join c as d": "NOT_COMPARABLE: `NATURAL JOIN",
    "select c.id from c join c as d on c.id = d.id and c.name <=> d.plain": "NOT_COMPARABLE: ",
    "select id from c where plain in (select name from c as d where d.id = c.id)": (
        "NOT_COMPARABLE: `SELECT name FROM"
    ),
    "select id, (select max(n) from (select name as n from c as d where d.id = c.id)) as m"
    " from c": "NOT_COMPARABLE: ",
    "select id, x.n from c, lateral (select name as n) as x": "NOT_COMPARABLE: ",
    "select id, name as n, lower(n) as m from c": "NOT_COMPARABLE: `n`",
    "select id, count(distinct *) as n from c group by id": "NOT_COMPARABLE: ",
    "select id, hash(*) as n from c": "NOT_COMPARABLE: `*`",
    "select id, s.x as x from c": "NOT_COMPARABLE: `s.x`",
    "select id, s from c": "NOT_COMPARABLE: ",
    "select id, e.x from c lateral view explode(array(s)) e as x": "NOT_COMPARABLE: ",
    "select id, plain collate UTF8_LCASE = 'a' as f from c": "NOT_COMPARABLE: `plain COLLATE",
    "select id, collate(plain, 'UNICODE_CI') as f from c": "NOT_COMPARABLE: `collate(plain",
    "select id, collate(plain, plain) as f from c": "NOT_COMPARABLE: `collate(plain",
    "select id, cast(plain as string collate UTF8_LCASE) as f from c": "NOT_COMPARABLE: `CAST(",
    "select id, from_json(plain, 'x string collate unicode_ci').x as f from c": "NOT_COMPARABLE: ",
}


def said(sql: str, rules: RuleBook, *inputs: Input) -> str:
    """Return the refusal of a model, or '' if it is proven."""
    try:
        prove(sql, inputs, rules, ["k"], functions=FUNCTIONS)
    except Refused as refused:
        return f"{refused.code.removeprefix('HW_')}: {refused}"
    return ""


@pytest.mark.parametrize("sql", LINEAR)
def test_linear(sql: str) -> None:
    found = said(sql, "linear", T, LOOKUP)
    assert found.startswith(LINEAR[sql]) and bool(found) == bool(LINEAR[sql]), found


@pytest.mark.parametrize("sql", SUMS)
def test_sums(sql: str) -> None:
    found = said(sql, "sums", S, LOOKUP)
    assert found.startswith(SUMS[sql]) and bool(found) == bool(SUMS[sql]), found


@pytest.mark.parametrize("sql", KEYED)
def test_keyed(sql: str) -> None:
    found = said(sql, "keyed", A, B, BIG, P, LOOKUP, HERE)
    assert found.startswith(KEYED[sql]) and bool(found) == bool(KEYED[sql]), found


@pytest.mark.parametrize("sql", COLLATED)
def test_collated_texts_are_only_handed_on(sql: str) -> None:
    found = said(sql, "keyed", C)
    assert found.startswith(COLLATED[sql]) and bool(found) == bool(COLLATED[sql]), found


def test_a_strategy_that_computes_everything_takes_what_is_deterministic() -> None:
    sql = "select grp as k, max(val) as v, count(*) over () as n from t group by grp"
    assert said(sql, "whole", T) == ""
    assert said("select rand() as k from t", "whole", T).startswith("NONDETERMINISTIC: ")


@pytest.mark.parametrize(
    ("key", "refused"),
    [
        ("tags", "NOT_COMPARABLE: `tags`: tags is a map<string,int>, and Spark cannot say whether"),
        ("doc", "NOT_COMPARABLE: `doc`: doc is a variant, and"),
        ("pairs", ""),
    ],
)
def test_a_key_is_comparable(key: str, refused: str) -> None:
    columns = {"tags": "map<string,int>", "doc": "variant", "pairs": "array<struct<x:int>>"}
    found = Input("m", "m", "affected", columns, key={key: key})
    answer = said(f"select {key}, count(*) as n from m group by {key}", "keyed", found)
    assert answer.startswith(refused) and bool(answer) == bool(refused), answer


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("select a,\n  customer\n  amount,\n  b from t", [("customer", "amount")]),
        ("select distinct o.customer -- why\n  amount from t as o", [("o.customer", "amount")]),
        ("select x from (select a\n b from t)\ngroup by x,\n y\norder by x\n", [("a", "b")]),
        (
            "select customer amount, sum(a)\n total, a\n as b, case a when 1 then 2 end\n c from t",
            [],
        ),
        ("select a,\n b\nfrom t\n u where a\n > 1 order by a,\n b\n desc", []),
        ("select a\nunion all\nselect b\nlimit 1", []),
        ("select distinct\n c from t", []),
    ],
)
def test_a_column_that_is_named_on_the_next_line_may_lack_a_comma(
    sql: str, found: list[tuple[str, str]]
) -> None:
    assert list(missing_commas(sql)) == found


def test_a_misspelt_function_is_asked_about() -> None:
    meant = (
        ": Spark has no function ifnul. Did you mean ifnull? If ifnul is a function of your own, "
    )
    assert meant in said("select ifnul(val, 0) as k from t", "whole", T)
    assert "Did you mean" not in said("select my_own(val) as k from t", "whole", T)
    assert "Did you mean" not in said("select uuid() as k from t", "whole", T)


def test_a_function_may_be_allowed() -> None:
    for sql, name in [
        ("select id, current_date as d from t", "current_date"),
        ("select id, unheard_of(val) as d from t", "UNHEARD_OF"),
    ]:
        prove(sql, [T], "linear", ["id"], [name])
    sql = "select id, val, row_number() over (partition by id order by val) as r from a"
    prove(sql, [A], "keyed", ["id"], ["row_number"])


SUMMED = (
    "select grp as k, sum(_weight) as n, sum(cast(val as bigint) * _weight) as `the total`"
    " from s group by grp"
)
DERIVED = {
    "`the total` / n": "",
    "fx.doubled(n) + 1": "",
    "if(k = 'now', mean * 2, n)": "",  # a column derived before it
    "sum(n) over ()": "NOT_LINEAR: `derived: sum(n) OVER ()`: a window looks at other rows of the"
    " input. Compute it from the sums of one row, or in a model of its own.",
    "max(n)": "NOT_LINEAR: ",
    "(select max(grp) from l)": "UNMARKED_INPUT: `derived: l`",
    "date_diff(current_date, k)": "NONDETERMINISTIC: `derived: current_date`",
    "fx.lucky(n)": "NONDETERMINISTIC: `derived: fx.lucky(n)`: in the body of lucky, `rand()`",
    "explode(array(n, 1))": "NOT_A_SUM: `derived: ",
    "price": "NOT_UNDERSTOOD: `derived: price`: there is no such column",
    "n, n + 1": "NOT_UNDERSTOOD: `derived: `: it is more than an expression",
    "n +": "NOT_UNDERSTOOD: `derived: ",
}


@pytest.mark.parametrize("expression", DERIVED)
def test_what_is_derived_is_of_one_row(expression: str) -> None:
    sums = prove(SUMMED, [S, LOOKUP], "sums", ["k"], functions=FUNCTIONS)
    try:
        prove_derived({"mean": "n / 2", "x": expression}, sums, (), FUNCTIONS)
        found = ""
    except Refused as refused:
        found = f"{refused.code.removeprefix('HW_')}: {refused}"
    assert found.startswith(DERIVED[expression]) and bool(found) == bool(DERIVED[expression]), found


def test_a_refusal_says_where_what_and_what_to_do() -> None:
    sql = "select\n  id,\n  sum(val) as v\nfrom s\ngroup by id"
    assert said(sql, "sums", S) == (
        "SUM_WITHOUT_WEIGHT: `sum(val)` (line 3 of the compiled SQL): a sum without _weight counts "
        "deleted rows as well. Multiply what is summed by _weight."
    )


def test_a_long_model_is_analysed_at_once() -> None:
    steps = [
        f"q{n} as (select id, grp, val + {n} as val, price from q{n - 1} where val > {n})"
        for n in range(1, 60)
    ]
    sql = f"with q0 as (select * from t), {', '.join(steps)} select * from q59"
    assert said(sql, "linear", T) == ""
    began = time.process_time()
    assert said(sql, "linear", T) == ""
    assert time.process_time() - began < 1


def test_queries_that_are_read_often_are_analysed_once() -> None:
    steps = [
        f"q{n} as (select a.id, b.val from q{n - 1} as a join q{n - 1} as b on a.id = b.id)"
        for n in range(1, 40)
    ]
    sql = f"with q0 as (select * from a), {', '.join(steps)} select * from q39"
    assert said(sql, "keyed", A) == ""


def test_bodies_of_sql_functions() -> None:
    described = "Function: spark_catalog.fx.plus\nType: SCALAR\nBody: a + b"
    collated = "Function: same\nInput: a STRING COLLATE UTF8_LCASE\nBody: a = 'x'"
    assert bodies({"fx.`plus`": described, "java": "Class: x", "same": collated}) == {
        "plus": "a + b"
    }


def test_what_tells_rows_apart() -> None:
    columns = {"column_name": "Id", "combination_of_columns": ["A", "b"]}

    def test_of(
        name: str, on: str, arguments: Mapping[str, Any] = columns, **config: str
    ) -> dict[str, Any]:
        return {
            "resource_type": "test",
            "depends_on": {"nodes": [on]},
            "config": config,
            "test_metadata": {"name": name, "kwargs": arguments},
        }

    model: dict[str, Any] = {
        "resource_type": "model",
        "schema": "s",
        "alias": "M",
        "config": {
            "materialized": "incremental",
            "incremental_strategy": "history",
            "unique_key": "k",
        },
        "constraints": [{"type": "primary_key", "columns": ["X"]}],
        "columns": {"y": {"constraints": [{"type": "unique"}, {"type": "not_null"}]}},
    }
    source: dict[str, Any] = {
        "resource_type": "source",
        "schema": "s",
        "identifier": "t",
        "config": {},
    }
    graph: dict[str, dict[str, dict[str, Any]]] = {
        "nodes": {
            "m": model,
            "1": test_of("unique", "t"),
            "2": test_of("unique_combination_of_columns", "t", severity="error", error_if="!= 0"),
            "3": test_of("unique", "m", severity="WARN"),
            "4": test_of("unique", "m", where="id > 3"),
            "5": test_of("not_null", "t"),
            "6": test_of("unique", "u"),  # NULL may repeat
            "7": test_of("unique", "m", error_if="> 10"),
            "8": test_of("unique", "m", fail_calc="max(n)"),
            "9": test_of("expect_column_values_to_be_unique", "v"),
            "10": test_of("expect_column_values_to_not_be_null", "v"),
            "11": test_of("expect_compound_columns_to_be_unique", "v", {"column_list": ["B", "c"]}),
            "12": test_of(
                "expect_compound_columns_to_be_unique",
                "v",
                {"column_list": ["d", "e"], "ignore_row_if": "never"},
            ),
            "13": test_of(
                "expect_column_values_to_be_unique", "w", {**columns, "row_condition": "id"}
            ),
        },
        "sources": {"t": source, **{name: source | {"identifier": name} for name in "uvw"}},
    }
    assert unique_columns(graph) == {
        "s.m": ([frozenset(["k", "valid_from"]), frozenset(["x"]), frozenset(["y"])], []),
        "s.t": ([frozenset(["id"]), frozenset(["a", "b"])], []),
        "s.u": ([], [frozenset(["id"])]),
        "s.v": ([frozenset(["id"]), frozenset(["d", "e"])], [frozenset(["b", "c"])]),
    }
