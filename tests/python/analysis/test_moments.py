"""Test texts that Spark reads as a moment of the run, and those that stay texts."""

from __future__ import annotations

import pytest

from headwaters.analysis import dialect
from headwaters.analysis.moments import refuse_moments
from headwaters.analysis.proof import prove
from headwaters.analysis.refusal import Refused
from headwaters.analysis.relations import Input
from headwaters.analysis.strategies import RuleBook

T = Input(
    "t",
    "t",
    "changes",
    {
        "id": "int",
        "grp": "string",
        "d": "date",
        "at": "timestamp",
        "t": "time(6)",
        "both": "string",
    },
)
L = Input("l", "l", "lookup", {"both": "date", "name": "varchar(10)"})

RULES: list[RuleBook] = ["linear", "whole"]

TEXTS = [
    "select id, 'today' as label, 'now' from t",
    "select id from t where grp = 'today' or grp in ('now', 'x') or grp like 'now'",
    "select id from t where upper(grp) <> ('NOW') and cast(d as string) < 'today'",
    "select id, case when id > 1 then 'today' else 'yesterday' end as w from t",
    "select id, case grp when 'today' then d end as w from t",
    "select id, coalesce(grp, 'now') as w, concat(grp, '-', 'now') || 'today' as x from t",
    "select id from t where t > '12:30' and date_format(at, 'HH:mm') > '12:30'",
    "select id, cast('12:30' as time) as w, time '08:00' as x from t"
    " where cast(at as time(3)) > '12:30'",
    "with n as (select id, upper(grp) as w from t), m as (select id, w as v, w from n)"
    " select id from m where v = 'now' and w = 'today'",
    "select id from t where grp = 'now on sale' or contains(grp, 'today') or name = 'now'",
    "select id, q.x from t cross join (values ('today', 1)) as q (x, y)",
    "select id from t where d > 'epoch' and at > '2026-01-01 12:30'",
]
MOMENTS = [
    "select id from t where d > 'today'",
    "select id from t where ' NOW ' > at",
    "select id from t where d > r'today' or d > N'today'",
    "select id from t where d in (date '2026-01-01', 'yesterday')",
    "select id from t where at between 'yesterday' and '2099-01-01'",
    "select id from t where at > '12:30'",
    "select id from t where d = both and both = 'now'",
    "select id, coalesce(d, 'today') as w from t",
    "select id, case when id > 1 then d else 'today' end as w from t",
    "select id, case d when 'today' then 1 end as w from t",
    "select id from t where d > coalesce(null, 'today')",
    "select id from t where d > concat('to', 'day') and d > concat('now', '')",
    "select id, to_date('today') as w from t",
    "select id, year('now') as w, date_trunc('day', 'now') as x from t",
    "select id, datediff('today', d) as w from t",
    "select id, array(d, 'today') as w from t",
    "select id, cast('now Europe/Berlin' as timestamp) as w from t",
    "select id, try_cast('now+01:00' as timestamp_ntz) as w from t",
    "select id, timestamp '12:30' as w from t",
    "select id from t where cast(grp as date) > 'today' or cast(d as string)::date > 'now'",
    "with n as (select id, d as grp from t) select id from n where grp = 'now'",
    "with n (a, grp) as (select id, d from t) select a from n where grp = 'now'",
    "with n as (select id, max(d) as w from t group by id) select id from n where w = 'now'",
]


def _is_refused(sql: str, *allowed: str) -> bool:
    try:
        refuse_moments(dialect.read(sql).nodes, [T, L], allowed)
    except Refused as refused:
        assert refused.code == "HW_NONDETERMINISTIC"
        return True
    return False


def test_a_text_that_is_used_as_one_is_no_moment() -> None:
    assert [sql for sql in TEXTS if _is_refused(sql)] == []


def test_a_text_where_a_date_may_be_wanted_is_a_moment() -> None:
    assert [sql for sql in MOMENTS if not _is_refused(sql)] == []


def test_a_moment_may_be_allowed() -> None:
    assert not _is_refused(MOMENTS[0], "today")
    assert _is_refused(MOMENTS[0], "now")


@pytest.mark.parametrize("rules", RULES)
def test_a_refusal_says_which_text_it_is(rules: RuleBook) -> None:
    with pytest.raises(Refused) as refused:
        prove("select id\nfrom t\nwhere d > 'today'", [T, L], rules, ["id"])
    assert str(refused.value) == (
        "`d > 'today'` (line 3 of the compiled SQL): to Spark, 'today' is a moment of the run where"
        " a date or a timestamp is wanted, so rows that no input affects would go stale. Take the"
        " moment from a column of the input, compare cast(… as string) with a text, or say"
        " allow_nondeterministic: [today] if rows may keep the answer of the run that wrote them."
    )


def test_the_body_of_a_sql_function_is_read_as_well() -> None:
    for rules in RULES:
        with pytest.raises(Refused, match="'today' is a moment"):
            prove(
                "select id, late(d) as w from t",
                [T, L],
                rules,
                ["id"],
                functions={"late": "x < 'today'"},
            )
