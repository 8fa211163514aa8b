"""Test the search for joins whose work does not follow the number of rows."""

from __future__ import annotations

import pytest

from headwaters.analysis import pairs_all_rows


@pytest.mark.parametrize(
    "sql",
    [
        "select a, sum(b) from t group by a",
        "select * from t join u on t.a = u.a and t.b >= u.b",
        "select * from t join u on (t.a <=> upper(u.a))",
        "select * from t left join u using (a)",
        "select * from t natural join u",
        "select * from t left anti join u on t.a = u.a",
        "select * from t where exists (select 1 from u where u.a = t.a and u.b > 3)",
        "select * from t where a in (select a from u)",
        "select * from t lateral view explode(b) as c",
        "with w as (select sum(a) as a from t) select * from t cross join w",
        "with w as (select sum(a) as a from t) select * from w, t join u on t.a = u.a",
        "select * from t join (select max(a) as a, min(b) as b from u) as w on t.a < w.a",
        "select * from (select * from s.t version as of 3) as t join u on t.a = u.a",
    ],
)
def test_equal_columns_lead_to_the_rows(sql: str) -> None:
    assert not pairs_all_rows(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "select * from t cross join u",
        "select * from t, u where t.a = u.a",
        "select * from t join u on t.a > u.a",
        "select * from t join u on t.a = 1",
        "select * from t join u on t.a = u.a or t.b = u.b",
        "select * from t where exists (select 1 from u where u.a > t.a)",
        "with w as (select * from t join u on t.a < u.b) select a from w",
        "with w as (select a, sum(b) as b from t group by a) select * from t cross join w",
        "with w as (select sum(a) over () as a from t) select * from t cross join w",
        "with w as (select (select max(a) from u) as a from t) select * from t cross join w",
        "with w as (select explode(collect_list(a)) as a from t) select * from t cross join w",
        "with w as (select sum(a) as a from t) select * from t cross join w cross join u",
        "this is no query",
    ],
)
def test_all_rows_may_be_compared(sql: str) -> None:
    assert pairs_all_rows(sql)
