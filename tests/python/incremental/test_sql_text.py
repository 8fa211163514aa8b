"""Test the facts that the engine reads from the tokens of a model's SQL."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwaters.analysis import (
    Name,
    dotted_names,
    prepared,
    relations_in,
    tokens,
    weight_column,
    without_format,
)

FED = '/* changes {"kind": "changes", "source": "silver.fed", "version": 7} */ silver.fed'
PINNED = FED + " version as of 7"
SIGNED = (
    '/* signed {"kind": "signed", "source": "silver.fed", "version": 7} */'
    " (select *, 1 as _weight from silver.fed version as of 7)"
)


@given(st.text(alphabet="ab0 .,;()'\"`\\-/*+rR|:\n"))
def test_the_tokens_are_the_text(sql: str) -> None:
    assert "".join(token.text for token in tokens(sql)) == sql


@pytest.mark.parametrize("relation", [FED, PINNED, SIGNED])
@pytest.mark.parametrize(
    "after",
    [
        "",
        "\n",
        " where fed.id > 1",
        " group by id",
        " order /* so */ by id",
        " limit 5",
        " left join b on true",
        " cross join b",
        ", b",
        " lateral view explode(a) e as x",
        " union all select 1",
        " pivot (max(x) for y in (1))",
        " |> where x",
    ],
)
def test_an_input_without_an_alias_gets_its_name(relation: str, after: str) -> None:
    without = after.replace("/* so */", " ").rstrip()
    assert prepared(f"select 1 from {relation}{after}") == (
        f"select 1 from {relation} as `fed`{without}"
    )
    assert prepared(f"with a as (select 1 from {relation}) select 2") == (
        f"with a as (select 1 from {relation} as `fed`) select 2"
    )


@pytest.mark.parametrize("relation", [FED, PINNED, SIGNED])
@pytest.mark.parametrize(
    "after",
    [
        " as f",
        " f",
        " `the fed` where id = 1",
        "\nas f (a, b)",
        " f, b",
        " cluster where cluster.id > 5",
        " limit",
        " tablesample (10 percent) as f",
    ],
)
def test_an_alias_that_is_there_stays_the_only_one(relation: str, after: str) -> None:
    assert prepared(f"select 1 from {relation}{after}") == f"select 1 from {relation}{after}"


def test_a_sample_has_its_alias_behind_it() -> None:
    sql = f"select fed.id from {FED} tablesample (bucket 1 out of (2)) where true"
    assert prepared(sql) == (
        f"select fed.id from {FED} tablesample (bucket 1 out of (2)) as `fed` where true"
    )


def test_comments_and_semicolons_at_the_end_are_left_out() -> None:
    sql = f"""-- was: from {FED}
    select '-- no /* comment', "a;b", r'\\', /*+ broadcast(x) */ id /* was: {FED} */, `a--b`
    from {FED} as f -- the feed; all of it
    ; -- done
    ;/* really */"""
    assert prepared(sql) == (
        """select '-- no /* comment', "a;b", r'\\', /*+ broadcast(x) */ id  , `a--b`"""
        f"\n    from {FED} as f"
    )


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("select a.b from inputs.u", [("a.b", False), ("inputs.u", True)]),
        ("select 1 from Spark_Catalog . `inputs` /**/ . U", [("spark_catalog.inputs.u", True)]),
        ("select 1 from (inputs.u join (x, inputs.v) on u.a = v.a)", "inputs.u x inputs.v u.a v.a"),
        ("select extract(year from a.b), a is distinct from c.d from e", "a.b c.d e"),
        ("select 1 from a, lateral explode(a.b) c, d.e", "a a.b d.e"),
        (
            "select 1 from cat.f(1), delta.`/tmp/x` union all table inputs.u",
            "delta./tmp/x inputs.u",
        ),
        ("select 1 from a where x in (1, b.c) and exists (from inputs.u)", "a b.c inputs.u"),
        ("select 1 from a order by a.b, c.d limit 1", "a a.b c.d"),
        ("from inputs.u select u.a, b.c", "inputs.u u.a b.c"),
        ("with c as (select 1 from a.b), d as (select 2) select d.x, y.z from d", "a.b d.x y.z d"),
    ],
)
def test_names_and_where_they_are_relations(sql: str, found: str | list[tuple[str, bool]]) -> None:
    got = dotted_names(sql)
    if isinstance(found, list):
        assert got == [Name(tuple(name.split(".")), is_) for name, is_ in found]
    else:
        assert [".".join(name.parts) for name in got] == found.split()


@pytest.mark.parametrize(
    ("sql", "read"),
    [
        ("with z as (select * from s.t) select * from z", "s.t"),
        ("with z as (select * from z) select * from z", "z"),
        ("with recursive z as (select 1 union all select * from z) select * from z", ""),
        ("with a as (select * from b), b as (select * from a) select * from a, b", "b"),
        ("select * from (with z as (select 1) select * from z) q, z", "z"),
        ("with a as (select 1) select * from (with b as (select * from a) select * from b)", ""),
    ],
)
def test_common_table_expressions_are_seen_behind_them(sql: str, read: str) -> None:
    assert relations_in(sql) == read.split()


@pytest.mark.parametrize(
    ("sql", "read"),
    [
        (
            "with k as (select 1) from a.b |> join k on x = y |> where z in (from c |> select d)",
            "a.b c",
        ),
        (
            "from a |> union all (select x from b) |> aggregate count(*) group by trim(c from d)",
            "a b",
        ),
        ("select trim(upper(x) from y) from a where '|> join b' = z -- |> join c", "a"),
    ],
)
def test_relations_of_pipes_are_found(sql: str, read: str) -> None:
    assert relations_in(sql) == read.split()


def test_a_column_is_no_relation() -> None:
    sql = """
        select extract(year from a.b), x is not distinct from c.d, e.f from g join h.i on h.i = j.k
    """
    assert [".".join(n.parts) for n in dotted_names(sql) if n.is_relation] == ["g", "h.i"]


@pytest.mark.parametrize(
    ("item", "column"),
    [
        ("sum(_weight) as n", "n"),
        ("SUM( o._weight )  AS `the n`", "the n"),
        ("cast(sum(_weight) as bigint) as n", "n"),
        ("cast(coalesce(sum(`_weight`), 0) as decimal(18, 0)) n", "n"),
        ("sum(_weight)::int as n", "n"),
        ("/*+ broadcast(b) */ sum(_weight) as n", "n"),
        ("sum(_weight) * 2 as n", None),
        ("100 / sum(_weight) as n", None),
        ("greatest(sum(_weight), 0) as n", None),
        ("'sum(_weight) as n' as text", None),
        ("sum(net_weight) as n", None),
    ],
)
def test_the_column_that_counts_rows(item: str, column: str | None) -> None:
    assert weight_column(f"select {item} from t") == column
    assert weight_column(f"select a.x as a, {item}, b from t") == column


WRITTEN = (
    "with a as (select id, count(*) as n from t where x >= 1 and y = 'A  b' group by id)"
    " select id, case when n > 1 then 'many' end as how from a"
)


@pytest.mark.parametrize(
    ("sql", "is_same"),
    [
        (WRITTEN.replace(", ", "\n  ,").replace("=", " = ").replace(" (", "("), True),
        (
            WRITTEN.replace("select", "SELECT").replace("case", "Case").replace("from", "\tFROM"),
            True,
        ),
        (WRITTEN.replace("count(*)", "count( * )"), True),
        (WRITTEN.replace("A  b", "A b"), False),
        (WRITTEN.replace("'many'", "'MANY'"), False),
        (WRITTEN.replace("as how", "as How"), False),
        (WRITTEN.replace("as how", "as `how `"), False),
        (WRITTEN.replace(">=", ">"), False),
        (WRITTEN.replace("n > 1", "n > 1e-3").replace("e-3", "e -3"), False),
        (WRITTEN.replace("id, count", "idcount"), False),
    ],
)
def test_another_format_is_the_same_sql(sql: str, is_same: bool) -> None:
    written = WRITTEN.replace("n > 1", "n > 1e-3") if "1e -3" in sql else WRITTEN
    assert sql != written
    assert (without_format(sql) == without_format(written)) == is_same
