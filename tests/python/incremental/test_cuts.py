"""Test every form of cut queries over inputs that lack rows and keys."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PROJECT = """
name: cuts
version: 0.1.0
profile: headwaters
models: {cuts: {+materialized: incremental, +file_format: delta, +incremental_strategy: auto}}
"""
SOURCE = """
sources:
  - name: inputs
    schema: "{{ target.schema }}_inputs"
    tables:
      - name: sales
        data_tests:
          - unique_combination_of_columns: {arguments: {combination_of_columns: [day, nr]}}
      - {name: places}
      - {name: rents}
"""
SALES, PLACES, RENTS = (
    f"{{{{ source('inputs', '{name}') }}}}" for name in ("sales", "places", "rents")
)
# Groups of NULL, and NULL in groups, are in all of them.
MODELS = {
    "total": f"""
        select sum(amount) as s, count(*) as n, max(shop) as last, min(nr) + 1 as m
        from {SALES}""",
    "total_of_dates": f"select sum(amount) as s, count(*) as n, max(due) as last from {RENTS}",
    "total_of_pairs": f"""
        select sum(s.amount) as s, count(p.name) as n, count_if(p.name is null) as unknown
        from {SALES} as s join {PLACES} as p on s.shop = p.shop""",
    "above_total": f"""
        select p.shop, p.name, p.size * 100 / (select sum(amount) from {SALES}) as part
        from {PLACES} as p where p.size > (select count(*) from {SALES} where amount is null)""",
    "ranked": f"""
        select shop, sum(amount) as s, rank() over (order by sum(amount) desc nulls last) as place,
            sum(sum(amount)) filter (where shop is not null) over () as everything
        from {SALES} group by shop having count(*) > 0""",
    "numbered": f"""
        with q as (select shop, count(distinct nr) as n from {SALES} group by shop)
        select shop, n, row_number() over (order by n desc, shop nulls last) as place,
            lag(n) over (order by n, shop) as before, n / sum(n) over () as part from q""",
    "sizes": f"""
        select n, count(*) as shops
        from (select shop, count(*) as n from {SALES} group by shop) as q
        group by n""",
    "distinct_sizes": f"""
        select distinct n from (select shop, count(*) as n from {SALES} group by shop) as q""",
    "united": f"""
        select 'sales' as what, n from (select shop, count(*) as n from {SALES} group by shop) as q
        union select 'places', size from {PLACES} union select 'rows', count(*) from {SALES}""",
    "without_busy": f"""
        select size from {PLACES} except
        select n from (select shop, count(*) as n from {SALES} group by shop) as q""",
    "largest": f"""
        with q (shop, s) as (select shop, sum(amount) from {SALES} group by shop)
        select shop, s from q where s = (select max(s) from q)""",
    "two_cuts": f"""
        select q.n, p.many, count(*) as pairs
        from (select shop, count(*) as n from {SALES} group by shop) as q
        join (select name, count(*) as many from {PLACES} group by name) as p on q.n >= p.many
        group by q.n, p.many""",
    "named": f"""
        select p.name, q.s from (select shop, sum(amount) as s from {SALES} group by shop) as q
        left join {PLACES} as p on p.shop = q.shop
        where q.s >= (
            select avg(s) from (select shop, sum(amount) as s from {SALES} group by shop)
        )""",
    "top": f"""
        select shop, n from (select shop, count(*) as n from {SALES} group by shop) as q
        order by n desc, shop limit 2""",
    "first_groups": f"""
        select shop, sum(amount) as s from {SALES} group by shop
        order by s desc nulls last, shop nulls last limit 2""",
    "averages": f"select avg(amount) as a, avg(nr) as b, avg(amount / 3) as c from {SALES}",
    "distinct_shops": f"select count(distinct shop) as n from {SALES}",
    "rolled": f"""
        select shop, day, avg(amount) as a, sum(amount) as s, count(*) as n, grouping(day) as g
        from {SALES} group by rollup (shop, day)""",
    "cubed": f"""
        select shop, nr, max(day) as last, count(amount) as n from {SALES}
        group by cube (shop, nr) having count(*) > 1""",
    "traced_groups": f"""
        select p.name, sum(s.amount) as s, count(*) as n from {SALES} as s
        join {PLACES} as p on s.shop = p.shop or (s.nr = p.size and s.day > 1)
        group by p.name order by n desc, p.name nulls last limit 2""",
    "as_array": f"select array(sum(amount)) as s, struct(max(nr) as m) as a from {SALES}",
    "with_nothing": f"""
        select n, x, count(*) as many
        from (select shop, null as x, count(*) as n from {SALES} group by shop) as q
        group by n, x""",
    "of_view": """
        select n, count(*) as shops
        from (select shop, count(*) as n from {{ ref('known') }} group by 1)
        group by n""",
}
STRATEGIES = dict.fromkeys(MODELS, "staged") | {"with_nothing": "replace"}
KNOWN = f"{{{{ config(materialized='view') }}}} select * from {SALES} where shop is not null"
ROWS = (
    "(1, 1, 'a', 10.50), (1, 2, 'a', null), (2, 1, 'b', 7), (2, 2, null, 3), (null, 3, 'c', 1),"
    " (3, null, 'b', 2)"
)
TABLES = {
    "sales": "day int, nr int, shop string, amount decimal(10, 2)",
    "places": "shop string, name string, size int",
    "rents": "id int, due date, amount decimal(10, 2)",
}
ROUNDS = [
    [
        f"insert into {{inputs}}.sales values {ROWS}",
        "insert into {inputs}.places values ('a', 'Ann', 1), ('b', 'Bob', 30), ('b', 'Bea', 2)",
        "insert into {inputs}.rents values (1, date'2026-01-01', 5), (2, null, 7), (3, null, null)",
    ],
    [
        "insert into {inputs}.sales values (4, 1, 'a', 99), (4, 2, null, -5), (4, 3, 'd', null)",
        "update {inputs}.sales set shop = 'b', amount = amount + 1 where day = 1 and nr = 1",
        "update {inputs}.sales set shop = null where nr is null",
        "update {inputs}.rents set due = date'2026-02-01' where id < 3",
    ],
    [
        "delete from {inputs}.sales where shop = 'c'",
        "update {inputs}.places set name = 'moved', shop = 'd' where shop = 'b'",
        "insert into {inputs}.places values ('b', 'Ann', 1), (null, 'Zed', 2)",
    ],
    [
        "delete from {inputs}.sales",
        "delete from {inputs}.rents",
        "delete from {inputs}.places where shop is not null",
    ],
    [f"insert into {{inputs}}.sales values {ROWS}, (9, 9, 'e', 1)"],
]


@dataclass
class Cuts:
    """The models, their inputs, and the messages of a run."""

    spark: Any
    schema: str
    folder: Path
    invoke: Callable[..., Any]
    models: Sequence[str]

    def sql(self, statement: str) -> list[Any]:
        rows: list[Any] = self.spark.sql(
            statement.replace("{inputs}", f"{self.schema}_inputs").replace("{schema}", self.schema)
        ).collect()
        return rows

    def run(self, *arguments: str) -> dict[str, str]:
        ran = self.invoke("run", *arguments, project_dir=self.folder, schema=self.schema)
        return {it.node.name: str(it.message) for it in ran.result.results}

    def wrong(self) -> list[str]:
        """Return the models whose tables differ from their SQL."""
        return [
            name
            for name in self.models
            if said(self.sql(f"select * from {{schema}}.{name}")) != said(self.sql(plain(name)))
        ]

    def hidden(self) -> list[str]:
        found = self.sql("show tables in {schema} like '*__hw_stage_*'")
        return sorted(row["tableName"] for row in found)


def said(rows: list[Any]) -> list[str]:
    return sorted(repr(tuple(row)) for row in rows)


def plain(name: str) -> str:
    """Return the SQL of a model over its tables."""
    text = MODELS[name].replace("{{ ref('known') }}", "{schema}.known")
    for table, source in (("sales", SALES), ("places", PLACES), ("rents", RENTS)):
        text = text.replace(source, f"{{inputs}}.{table}")
    return text


@pytest.fixture
def make_cuts(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> Callable[..., Cuts]:
    """Return `make_cuts("total", …)`, which builds these models over the first rows."""

    def make(*models: str) -> Cuts:
        texts = {f"models/{name}.sql": MODELS[name] for name in models}
        if "of_view" in models:
            texts["models/known.sql"] = KNOWN
        folder = new_project({"dbt_project.yml": PROJECT, "models/inputs.yml": SOURCE, **texts})
        made = Cuts(spark, schema, folder, dbt, models)
        made.sql("create schema {inputs}")
        for table, columns in TABLES.items():
            made.sql(
                f"create table {{inputs}}.{table} ({columns}) using delta"
                " tblproperties ('delta.enableChangeDataFeed' = 'true')"
            )
        return made

    return make


@pytest.mark.slow
def test_runs_leave_what_the_queries_say(make_cuts: Callable[..., Cuts]) -> None:
    cuts = make_cuts(*MODELS)
    cuts.run()  # over nothing
    assert cuts.wrong() == []
    strategies = {}
    for name in cuts.models:
        detail = cuts.sql(f"describe detail {{schema}}.{name}")[0]
        strategies[name] = json.loads(detail["properties"]["headwaters.proof"])["strategy"]
    assert strategies == STRATEGIES
    incremental: set[str] = set()
    for round in ROUNDS:
        for statement in round:
            cuts.sql(statement)
        messages = cuts.run()
        incremental |= {name for name in cuts.models if "replace:" not in messages[name]}
        assert cuts.wrong() == [], round
    assert incremental == {name for name, strategy in STRATEGIES.items() if strategy == "staged"}


@pytest.mark.slow
def test_hidden_tables_that_somebody_else_changed(make_cuts: Callable[..., Cuts]) -> None:
    cuts = make_cuts("sizes", "total")
    cuts.run()
    for statement in ROUNDS[0]:
        cuts.sql(statement)
    cuts.run()
    hidden = "{schema}.sizes__hw_stage_1"
    one_more = "insert into {inputs}.sales select max(day) + 1, 1, 'z', 1 from {inputs}.sales"

    def ran() -> None:
        cuts.sql(one_more)
        assert "replace:" not in cuts.run()["sizes"]
        assert cuts.wrong() == []

    for act in (
        f"insert into {hidden} values ('foreign', 7)",
        f"delete from {hidden} where hw_1 = 'a'",
        f"restore table {hidden} to version as of 1",
        f"vacuum {hidden}",
        f"optimize {hidden}",
        f"drop table {hidden}",
        "restore table {schema}.sizes to version as of 1",
    ):
        cuts.sql(act)
        ran()
    # the target is put back, and its inputs have not changed since
    cuts.sql("restore table {schema}.total to version as of 1")
    cuts.run()
    assert cuts.wrong() == []


@pytest.mark.slow
def test_a_model_that_is_dropped_cloned_or_renamed(make_cuts: Callable[..., Cuts]) -> None:
    cuts = make_cuts("sizes")
    cuts.run()
    for statement in ROUNDS[0]:
        cuts.sql(statement)
    cuts.run()
    # its table is dropped, and the hidden one is not
    cuts.sql("drop table {schema}.sizes")
    cuts.run()
    cuts.sql("insert into {inputs}.sales values (70, 1, 'z', 1)")
    assert "replace:" not in cuts.run()["sizes"]
    assert cuts.wrong() == []
    # a clone has the state, and no hidden table
    cuts.sql("create table {schema}.cloned shallow clone {schema}.sizes")
    (cuts.folder / "models/sizes.sql").rename(cuts.folder / "models/cloned.sql")
    cuts.sql("insert into {inputs}.sales values (71, 1, 'z', 1)")
    assert "replace:" not in cuts.run()["cloned"]
    assert cuts.hidden() == ["cloned__hw_stage_1", "sizes__hw_stage_1"]
    assert said(cuts.sql("select * from {schema}.cloned")) == said(cuts.sql(plain("sizes")))
