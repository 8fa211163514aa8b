"""Test column lineage: of queries, of this project's models, and compared with DuckDB."""

from __future__ import annotations

import os
import pkgutil
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from analysis.queries import COLUMNS, Draw, Oracle, Tables, in_duckdb, rows
from processes import run_command

from headwaters.analysis import ROWS, NotAnalysed, Origin, QueryOrigins, origins_of
from headwaters.platform.errors import UserError
from headwaters.platform.manifest import load_compiled
from headwaters.platform.project import Project
from headwaters.report.lineage import show
from headwaters.report.lineage.graph import LineageGraph
from headwaters.report.lineage.tables import tables_of

ROOT = Path(__file__).resolve().parents[2]

# --- single queries -------------------------------------------------------------------------------

SCHEMA: Mapping[str, Sequence[str]] = {
    "silver.people": ["id", "name", "age", "tags", "home"],
    "silver.orders": ["id", "person_id", "amount"],
}


def lineage(sql: str) -> dict[str, str]:
    """Return each column's origins, `~` before those that decide about rows; all rows under `*`."""
    relation = origins_of(sql, SCHEMA.get)
    found = {
        name: " ".join(
            f"{'~' if kind == 'rows' else ''}{origin.table.removeprefix('silver.')}.{origin.name}"
            for origin, kind in sorted(origins.items())
        )
        for name, origins in relation.columns.items()
    }
    deciding = sorted(f"{c.table.removeprefix('silver.')}.{c.name}" for c in relation.rows)
    return {**found, "*": " ".join(deciding)}


P, O = "silver.people", "silver.orders"  # noqa: E741  # short, as aliases are

CASES: dict[str, tuple[str, dict[str, str]]] = {
    "handed on and computed": (
        f"select name, age + id as sum, 1 as one from {P}",
        {"name": "people.name", "sum": "people.age people.id", "one": "", "*": "people.*"},
    ),
    "star": (
        f"select * except (tags, home) from {P}",
        {"id": "people.id", "name": "people.name", "age": "people.age", "*": "people.*"},
    ),
    "letter case, quotes, schema": (
        f"select `People`.NAME as `Full Name`, silver.people.age as A from {P}",
        {"full name": "people.name", "a": "people.age", "*": "people.*"},
    ),
    "where": (
        f"select name from {P} where age > 3",
        {"name": "people.name", "*": "people.* people.age"},
    ),
    "self join": (
        f"select a.name, b.name as other from {P} a join {P} b on a.id = b.age",
        {
            "name": "people.name",
            "other": "people.name",
            "*": "people.* people.age people.id",
        },
    ),
    "left join": (
        f"select p.name, o.amount from {P} p left join {O} o on p.id = o.person_id",
        {
            "name": "people.name",
            "amount": "orders.amount",
            "*": "orders.* orders.person_id people.* people.id",
        },
    ),
    "using": (
        f"select id, name, amount from {P} join {O} using (id)",
        {
            "id": "orders.id people.id",
            "name": "people.name",
            "amount": "orders.amount",
            "*": "orders.* orders.id people.* people.id",
        },
    ),
    "semi join": (
        f"select name from {P} p left semi join {O} o on p.id = o.person_id and o.amount > 3",
        {"name": "people.name", "*": "orders.* orders.amount orders.person_id people.* people.id"},
    ),
    "comma": (
        f"select p.name from {P} p, {O} o where o.amount > 3",
        {"name": "people.name", "*": "orders.* orders.amount people.*"},
    ),
    "a query that has a table's name": (
        f"with people as (select name as age, age as name from {P}) select age from people",
        {"age": "people.name", "*": "people.*"},
    ),
    "a query that shadows a query": (
        f"with q as (select name as n from {P}) "
        f"select n from (with q as (select amount as n from {O}) select n from q) as x",
        {"n": "orders.amount", "*": "orders.*"},
    ),
    "column list": (
        f"with q(x, y) as (select id, name from {P}) select z.b from (select * from q) as z(a, b)",
        {"b": "people.name", "*": "people.*"},
    ),
    "union all": (
        f"select id as a, name from {P} union all select amount, cast(id as string) from {O}",
        {"a": "orders.amount people.id", "name": "orders.id people.name", "*": "orders.* people.*"},
    ),
    "union": (
        f"select id from {P} union select amount from {O}",
        {"id": "orders.amount people.id", "*": "orders.* orders.amount people.* people.id"},
    ),
    "by name": (
        f"select id, age from {P} union all by name select amount as age, person_id as id from {O}",
        {"id": "orders.person_id people.id", "age": "orders.amount people.age",
         "*": "orders.* people.*"},
    ),
    "group by and having": (
        f"select name as n, count(*) as c, max(age) as a from {P} group by n having sum(id) > 3",
        {"n": "people.name", "c": "", "a": "people.age", "*": "people.* people.id people.name"},
    ),
    "group by a column and not the alias of its name": (
        f"select lower(name) as name, age as id, max(id) as m from {P} group by name, age",
        {"name": "people.name", "id": "people.age", "m": "people.id",
         "*": "people.* people.age people.name"},
    ),
    "group by all": (
        f"select name, sum(age) as a from {P} group by all",
        {"name": "people.name", "a": "people.age", "*": "people.* people.name"},
    ),
    "filter and distinct": (
        f"select count(distinct name) filter (where age > 3) as n from {P}",
        {"n": "~people.age people.name", "*": "people.*"},
    ),
    "max_by": (
        f"select max_by(name, struct(age, id)) as n from {P}",
        {"n": "~people.age ~people.id people.name", "*": "people.*"},
    ),
    "window": (
        f"select name, sum(age) over (partition by name order by id) as s from {P}",
        {"name": "people.name", "s": "people.age ~people.id ~people.name", "*": "people.*"},
    ),
    "named window": (
        f"select lag(age) ignore nulls over w as l from {P} window w as (order by id)",
        {"l": "people.age ~people.id", "*": "people.*"},
    ),
    "a rank that filters": (
        f"select name from (select name, row_number() over (partition by age order by id) as r "
        f"from {P}) where r = 1",
        {"name": "people.name", "*": "people.* people.age people.id"},
    ),
    "qualify": (
        f"select name from {P} qualify row_number() over (partition by age order by id) = 1",
        {"name": "people.name", "*": "people.* people.age people.id"},
    ),
    "alias of the same select list": (
        f"select age + 1 as older, older * 2 as twice from {P}",
        {"older": "people.age", "twice": "people.age", "*": "people.*"},
    ),
    "scalar subquery": (
        f"select name, (select max(amount) from {O} where person_id = p.id) as most from {P} p",
        {
            "name": "people.name",
            "most": "~orders.* orders.amount ~orders.person_id ~people.id",
            "*": "people.*",
        },
    ),
    "exists": (
        f"select name from {P} where exists (select 1 from {O} where person_id = people.id)",
        {"name": "people.name", "*": "orders.* orders.person_id people.* people.id"},
    ),
    "in a query of a with clause": (
        f"with q as (select person_id from {O} where amount > 3) "
        f"select name from {P} where id in (select person_id from q)",
        {"name": "people.name", "*": "orders.* orders.amount orders.person_id people.* people.id"},
    ),
    "lateral view": (
        f"select name, tag from {P} lateral view outer explode(tags) t as tag",
        {"name": "people.name", "tag": "people.tags", "*": "people.* people.tags"},
    ),
    "generator": (
        f"select name, posexplode(tags) as (place, tag) from {P}",
        {"name": "people.name", "place": "people.tags", "tag": "people.tags",
         "*": "people.* people.tags"},
    ),
    "lateral subquery": (
        f"select p.name, l.most from {P} p, "
        f"lateral (select max(amount) as most from {O} where person_id = p.id) l",
        {"name": "people.name", "most": "orders.amount",
         "*": "orders.* orders.person_id people.* people.id"},
    ),
    "struct, lambda, everything in a row": (
        f"select home.city, filter(tags, tag -> tag > name) as t, hash(*) as h from {P}",
        {"city": "people.home", "t": "people.name people.tags",
         "h": "people.age people.home people.id people.name people.tags", "*": "people.*"},
    ),
    "order by and limit": (
        f"select name from (select * from {P} order by age) limit 3",
        {"name": "people.name", "*": "people.* people.age"},
    ),
    "values": (
        f"select v.x, name from {P} join values (1, 2) as v(x, y) on v.y = id",
        {"x": "", "name": "people.name", "*": "people.* people.id"},
    ),
    "signed": (
        f"select name, sum(_weight) as n from (select *, 1 as _weight from {P}) group by name",
        {"name": "people.name", "n": "", "*": "people.* people.name"},
    ),
    "a table without known columns, named with its table": (
        f"select p.name, x.a from {P} p join raw.x on x.id = p.id",
        {"name": "people.name", "a": "raw.x.a", "*": "people.* people.id raw.x.* raw.x.id"},
    ),
    "pipes": (
        f"from {P} |> where age > 1 |> select name",
        {"name": "people.name", "*": "people.* people.age"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_origins_of_a_query(case: str) -> None:
    sql, expected = CASES[case]
    assert lineage(sql) == expected


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("select * from raw.x", "`*`: the columns of raw.x are not known"),
        (f"select hash(*) from {P}, raw.x", "`*`: the columns of raw.x are not known"),
        (f"select name, a from {P} join raw.x on true", "the columns of raw.x are not known"),
        ("with people as (select * from people) select * from people", "the columns of people"),
        (f"select home.* from {P}", "`people.home.*`: it is not analysed"),
        (f"select nme from {P}", "Column 'nme' could not be resolved"),
        (f"select x.name from {P} x join {O} x on true", "Alias already used: x"),
        (f"select id from {P} join {O} on true", "Column 'id' could not be resolved"),
        (f"select * from {P} pivot (sum(age) for name in ('a'))", "pivot and unpivot are not"),
        ("with recursive r as (select 1 as n union all select n + 1 from r) select n from r",
         "a recursive query is not analysed"),
        (f"select c.x from table_changes('{P}', 1) as c(x)", "the table function table_changes"),
        (f"select id from {P} union all select id, amount from {O}", "differ in their columns"),
        ("selec 1", "its SQL"),
        ("delete from a", "its SQL is not one query"),
    ],
)  # fmt: skip
def test_nothing_is_guessed(sql: str, reason: str) -> None:
    with pytest.raises(NotAnalysed) as refused:
        origins_of(sql, SCHEMA.get)
    assert reason in str(refused.value)


def test_functions_that_nothing_is_known_of_are_named() -> None:
    sql = f"select gold.score(age) as s, upper(name) as n, soundex(name) as x from {P}"
    relation = origins_of(sql, SCHEMA.get)
    assert relation.functions == {"score"}
    assert relation.columns["s"] == {Origin(P, "age"): "value"}


def test_syntax_of_spark_alone_has_the_origins_of_what_it_means() -> None:
    piped = f"from {P} |> where age >>> 1 > 2 |> aggregate max(name) as n group by age << 1 as a"
    plain = (
        f"select shiftleft(age, 1) as a, max(name) as n from {P}"
        " where shiftrightunsigned(age, 1) > 2 group by 1"
    )
    assert lineage(piped) == lineage(plain)


# --- changes in fact ------------------------------------------------------------------------------

FIXED = [
    "select id, val + 1 as v, upper(grp) as g from t",
    "select id, case when val > 2 then grp end as v from t where val is not null",
    "select t.id, u.val from t join u on t.id = u.id",
    "select t.grp, l.rate from t left join l on t.grp = l.grp",
    "select t.id from t left semi join u on t.id = u.id and u.val > 1",
    "select t.id, t.val from t left anti join m on t.id = m.id",
    "select grp, count(*) as n, sum(val) as s from t group by grp",
    "select grp, max(val) as m from t group by grp having count(id) > 1",
    "select count(distinct grp) filter (where val > 1) as n, min(id) as i from t",
    "select id, sum(val) over (partition by grp) as s from t",
    "select id, rank() over (partition by grp order by val) as r from t",
    "select distinct grp, id from t",
    "select id, val from t union all select val, id from u",
    "select id from t union select id from u",
    "select id, grp from t intersect select id, grp from u",
    "select id from t except select id from m",
    "select id, (select max(rate) from l where l.grp = t.grp) as r from t",
    "select id from t where exists (select 1 from u where u.id = t.id and u.val > 1)",
    "select id from t where val in (select id from m)",
    "with q as (select grp, sum(val) as s from t group by grp) "
    "select u.id, q.s from u join q on u.grp = q.grp where q.s > 2",
    "with q as (select id, row_number() over (order by id nulls first, val nulls first, "
    "grp nulls first) as n from t) select id from q where n < 3",
    "select u.id, t.val from t join u using (id) where t.grp is not null",
    "select max_by(val, struct(id, val)) as v, count_if(grp = 'a') as n from t",
]


def altered(tables: Tables, origin: Origin, chance: random.Random) -> Tables:
    """Return the tables with other values in one column."""
    place = list(COLUMNS[origin.table]).index(origin.name)
    values: list[Any] = [1, 2, 3, 4, 7, None]
    if COLUMNS[origin.table][origin.name] == "string":
        values = ["a", "b", "bc", "d", None]
    found = [
        (*row[:place], chance.choice(values), *row[place + 1 :]) for row in tables[origin.table]
    ]
    return tables | {origin.table: found}


def values_by_place(oracle: Oracle, sql: str, tables: Tables, width: int) -> list[Counter[Any]]:
    """Return the values of each column of the answer."""
    answered = list(oracle.answer(sql, tables).elements())
    return [Counter(row[place] for row in answered) for place in range(width)]


def origins_by_place(relation: QueryOrigins) -> list[set[Origin]]:
    """Return the origins of each column of a query, by its place."""
    return [{*origins, *relation.rows} for _, origins in relation.in_order]


def unforeseen(
    oracle: Oracle, sql: str, chance: random.Random, trials: int
) -> Iterator[tuple[str, Origin, int, bool]]:
    """Yield output columns that a change of one input changed, and if the lineage foresaw it."""
    relation = origins_of(sql, lambda name: list(COLUMNS[name]))
    said = origins_by_place(relation)
    named = [name for name in COLUMNS if re.search(rf"\b{name}\b", sql)]
    translated = in_duckdb(sql)
    for _ in range(trials):
        tables = {name: rows(chance, name, 6) for name in named}
        before = values_by_place(oracle, translated, tables, len(said))
        for origin in [Origin(table, name) for table in named for name in COLUMNS[table]]:
            other = altered(tables, origin, chance)
            after = values_by_place(oracle, translated, other, len(said))
            for place, origins in enumerate(said):
                if before[place] != after[place]:
                    yield sql, origin, place, origin in origins


def test_what_changes_was_said_and_most_of_what_was_said_changes() -> None:
    oracle, chance = Oracle(), random.Random(7)
    claimed = hit = 0
    for sql in FIXED:
        found = list(unforeseen(oracle, sql, chance, 8))
        assert [one for one in found if not one[3]] == []
        said = origins_by_place(origins_of(sql, lambda name: list(COLUMNS[name])))
        claims = {(c, n) for n, origins in enumerate(said) for c in origins if c.name != ROWS}
        claimed += len(claims)
        hit += len(claims & {(origin, place) for _, origin, place, _ in found})
    assert claimed > 90
    assert hit / claimed > 0.9


def random_queries(oracle: Oracle, count: int) -> Iterator[tuple[str, random.Random]]:
    """Yield queries that DuckDB answers."""
    for number in range(count):
        chance = random.Random(f"lineage {number}")
        sql = Draw(chance, list(COLUMNS)).whole(chance.randint(1, 3))[0]
        try:
            oracle.answer(in_duckdb(sql), {name: [] for name in COLUMNS})
        except duckdb.Error:  # it names a missing column
            continue
        yield sql, chance


def test_what_changes_was_said_of_queries_that_nobody_wrote() -> None:
    oracle, changes = Oracle(), 0
    for sql, chance in random_queries(oracle, 80):
        found = list(unforeseen(oracle, sql, chance, 1))
        assert [one for one in found if not one[3]] == []
        changes += len(found)
    assert changes > 200


def test_a_wrong_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    module, reader = "headwaters.analysis.column_origins", "_OriginReader._column"
    real = pkgutil.resolve_name(f"{module}:{reader}")

    def without_inner(self: Any, node: Any, scope: Any) -> Any:
        return {} if scope.outer is not None else real(self, node, scope)

    monkeypatch.setattr(f"{module}.{reader}", without_inner)
    oracle = Oracle()
    found = (
        said
        for sql, chance in random_queries(oracle, 60)
        for *_, said in unforeseen(oracle, sql, chance, 1)
    )
    assert not all(found)


# --- this project ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parsed_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return dbt's target folder, so that the tests parse this project once."""
    return tmp_path_factory.mktemp("dbt")


@pytest.fixture(scope="module")
def graph(parsed_project: Path) -> LineageGraph:
    """Return this project's lineage."""
    return graph_of(ROOT, parsed_project)


def graph_of(root: Path, folder: Path) -> LineageGraph:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DBT_TARGET_PATH", str(folder / "target"))
        patch.setenv("DBT_LOG_PATH", str(folder / "logs"))
        compiled = load_compiled(Project(root, ROOT / "profiles", "local"))
    return LineageGraph(tables_of(compiled.nodes, compiled.exposures, compiled.refused, root))


def text(graph: LineageGraph, name: str, *directions: Any) -> str:
    return show.text(graph, *graph.find(name), directions)


def test_every_model_of_this_project_is_analysed_and_has_the_columns_of_its_contract(
    graph: LineageGraph,
) -> None:
    assert {table.name: table.reason for table in graph.tables.values() if table.reason} == {}
    models = [table for table in graph.tables.values() if table.kind == "model"]
    assert {table.file for table in models} == {
        str(file.relative_to(ROOT)) for file in (ROOT / "models").rglob("*.sql")
    }
    for table in models:
        assert table.relation is not None
        assert list(table.declared) == list(table.relation.columns), table.name


def test_the_page_shows_what_the_command_prints(graph: LineageGraph) -> None:
    page = (ROOT / "docs" / "lineage.md").read_text()
    shown = page.split("```text\n")[1].split("```")[0]
    assert shown == text(graph, "account_daily_spend.amount_eur", "up", "down") + "\n"


def test_a_source_is_followed_down_to_exposures(graph: LineageGraph) -> None:
    assert (
        text(graph, "bronze.click_events.price", "down")
        == """\
bronze.click_events.price (models/bronze/click_events.yml)

down
  value  silver_click_events: click_event_id, price
    value  brand_daily_revenue: revenue
      exposure shop_dashboard (dashboard)
    value  product_daily_funnel: cart_rate, purchase_rate, visits, visits_with_cart, \
visits_with_purchase
      exposure shop_dashboard (dashboard)
    value  sessions: revenue
      exposure shop_dashboard (dashboard)
    rows   product_daily_funnel: every other column
    rows   sessions: entry_product_id, user_id
  rows   silver_click_events: every other column
    value  brand_daily_revenue: brand, event_date
    value  product_daily_funnel: brand, cart_rate, category_code, event_date, product_id, \
purchase_rate, views, visits, visits_with_cart, visits_with_purchase
    value  sessions: carts, duration_seconds, ended_at, entry_product_id, has_purchase, products, \
purchases, revenue, session_date, session_id, started_at, user_id, views
    rows   brand_daily_revenue: every other column
    rows   product_daily_funnel: category
    rows   sessions: events"""
    )


def test_a_model_alone_has_the_direct_origins_of_its_columns(graph: LineageGraph) -> None:
    assert (
        text(graph, "gold.brand_daily_revenue", "up")
        == """\
brand_daily_revenue (models/gold/brand_daily_revenue.sql)

up
  brand         value  silver_click_events: brand
  event_date    value  silver_click_events: event_date
  purchases     no column
  revenue       value  silver_click_events: price
  every column  rows   silver_click_events: brand, event_date, event_type"""
    )


def test_a_history_has_its_periods_from_the_column_of_its_images(graph: LineageGraph) -> None:
    assert (
        text(graph, "insurance_claim_status_history.valid_to", "up")
        == """\
insurance_claim_status_history.valid_to (models/gold/insurance_claim_status_history.sql)

up
  value  silver_insurance_claims: ingested_at
    value  bronze.insurance_claims (source): _ingested_at
    rows   bronze.insurance_claims (source): claim_id, status
  rows   silver_insurance_claims: claim_id
    value  bronze.insurance_claims (source): claim_id
    rows   bronze.insurance_claims (source): _ingested_at, status"""
    )


def test_a_flowchart_has_dotted_arrows_for_rows(graph: LineageGraph) -> None:
    table, column = graph.find("state_weekly_summary.region")
    drawn = show.mermaid(graph, table, column, ["up", "down"])
    assert (
        drawn
        == """\
flowchart LR
    subgraph t0["bronze.county_cases"]
        c0["_ingested_at"]
        c1["county"]
        c2["date"]
        c3["state"]
    end
    subgraph t1["county_daily_cases"]
        c4([rows])
        c5["state"]
        c6["week_start"]
    end
    subgraph t2["state_weekly_summary"]
        c7([rows])
        c8["region"]
    end
    subgraph t3["states"]
        c9["region"]
        c10["state"]
    end
    subgraph t4["silver_county_cases"]
        c11([rows])
        c12["report_date"]
        c13["state"]
    end
    c0 -.-> c11
    c1 -.-> c11
    c2 -.-> c11
    c2 --> c12
    c3 -.-> c11
    c3 --> c13
    c4 -.-> c5
    c4 -.-> c6
    c5 -.-> c7
    c6 -.-> c7
    c7 -.-> c8
    c9 --> c8
    c10 -.-> c7
    c11 -.-> c4
    c11 -.-> c12
    c11 -.-> c13
    c12 --> c6
    c13 --> c5
    e0[/"case_map (dashboard)"/]
    t2 --> e0"""
    )


def test_a_flowchart_of_a_model_has_its_neighbours_only(graph: LineageGraph) -> None:
    drawn = show.mermaid(graph, *graph.find("silver_county_cases"), ["up"])
    assert "bronze.county_cases" in drawn and "county_daily_cases" not in drawn
    assert drawn.count("subgraph") == drawn.count("end\n") == 2


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("sesions", "[HW_NO_SUCH_MODEL] lineage: no model, seed, snapshot or source is named "
         "'sesions', did you mean 'sessions'"),
        ("sesions.revenue", "[HW_NO_SUCH_MODEL] lineage: no model, seed, snapshot or source is "
         "named 'sesions', did you mean 'sessions'"),
        ("bronze.click_event", "[HW_NO_SUCH_MODEL] lineage: no model, seed, snapshot or source is "
         "named 'bronze.click_event', did you mean 'bronze.click_events'"),
        ("sessions.Revenu", "[HW_NO_SUCH_COLUMN] lineage: sessions (models/gold/sessions.sql) has "
         "no column 'Revenu', did you mean 'revenue'"),
        ("states.x", "[HW_NO_SUCH_COLUMN] lineage: states (seeds/states.csv) has no column 'x', "
         "there are abbreviation, population, region, state"),
    ],
)  # fmt: skip
def test_a_wrong_name_is_one_line_that_says_what_there_is(
    graph: LineageGraph, name: str, error: str
) -> None:
    with pytest.raises(UserError) as raised:
        graph.find(name)
    assert str(raised.value) == error


def test_the_command_starts_without_the_parser() -> None:
    code = "import sys, headwaters.cli; print([m for m in sys.modules if m.startswith('sqlglot')])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "code", "begins"),
    [
        (["merchant_activity", "--format", "mermaid"], 0, "flowchart LR"),
        (["states.regio"], 2, "headwaters: [HW_NO_SUCH_COLUMN] lineage: states (seeds/states.csv)"),
    ],
)
def test_the_command_starts_no_spark(
    graph: LineageGraph,
    parsed_project: Path,
    tmp_path: Path,
    arguments: list[str],
    code: int,
    begins: str,
) -> None:
    places = {"DBT_TARGET_PATH": parsed_project / "target", "DBT_LOG_PATH": tmp_path}
    ran = run_command(
        "headwaters",
        ["lineage", *arguments, "--target", "local"],
        {
            **os.environ,
            "JAVA_HOME": str(tmp_path / "no java"),
            **{name: str(place) for name, place in places.items()},
        },
    )
    assert (ran.stdout + ran.stderr).startswith(begins), ran.stderr
    assert ran.returncode == code


# --- other projects -------------------------------------------------------------------------------

HOSTILE = {
    "models/sources.yml": """
sources:
  - name: raw
    schema: raw
    tables:
      - name: declared
        columns: [{name: Id}, {name: amount}]
      - name: undeclared
""",
    "models/shown.yml": """
exposures:
  - {name: page, type: dashboard, owner: {name: x, email: x@example.com}, depends_on: [ref('last')]}
""",
    "models/between.sql": "{{ config(materialized='ephemeral') }} select id as key, amount from "
    "{{ source('raw', 'declared') }} where amount > 0",
    "models/seen.sql": "{{ config(materialized='view') }} select *, key + 1 as next "
    "from {{ ref('between') }}",
    "models/appended.sql": "{{ config(materialized='incremental', incremental_strategy='append') }}"
    " select * from {{ ref('seen') }} {% if is_incremental() %} where key > 7 {% endif %}",
    "models/asked.sql": "{% set found = run_query('select 1') %} select 1 as one",
    "models/asked_again.sql": "{% set found = run_query('select 1') %} select 1 as one",
    "models/last.sql": "select a.key, a.amount, score(a.next) as score "
    "from {{ ref('appended') }} as a cross join {{ ref('asked') }}",
    "models/starred.sql": "select * from {{ source('raw', 'undeclared') }}",
    "models/named.sql": "select u.x as y from {{ source('raw', 'undeclared') }} as u",
    "models/after.sql": "select * from {{ ref('starred') }}",
    "models/counted.sql": "select count(*) as n from {{ ref('seen') }}",
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> LineageGraph:
    """Return a project of models of every kind."""
    folder = tmp_path_factory.mktemp("hostile")
    files = HOSTILE | {
        "dbt_project.yml": "name: hostile\nprofile: headwaters\nvars: {ops_tests: false}\n"
        "models: {+file_format: delta}\nflags: {send_anonymous_usage_stats: false}\n",
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return graph_of(folder, tmp_path_factory.mktemp("dbt"))


def test_views_and_ephemeral_models_are_tables_of_their_own(hostile: LineageGraph) -> None:
    shown = text(hostile, "last.score", "up", "down")
    assert (
        shown
        == """\
last.score (models/last.sql)

up
  value  appended: next
    value  seen: next
      value  between (ephemeral): key
        value  raw.declared (source): Id
        rows   raw.declared (source): amount
  rows   asked: its rows
    not analysed: asked (models/asked.sql): it asks Spark while dbt compiles it
  not analysed: what the function score reads itself

down
  exposure page (dashboard)"""
    )


def test_a_filter_reaches_what_only_counts_rows(hostile: LineageGraph) -> None:
    shown = text(hostile, "raw.declared.amount", "down")
    assert (
        shown
        == """\
raw.declared.amount (models/sources.yml)

down
  value  between (ephemeral): amount
    value  seen: amount
      value  appended: amount
        value  last: amount
          exposure page (dashboard)
  rows   between (ephemeral): key
    value  seen: key, next
      value  appended: key, next
        value  last: key, score
    rows   seen: amount
      value  appended: amount (above)
      rows   appended: every other column
        value  last: key, score
        rows   last: amount
      rows   counted: n"""
    )


def test_a_model_that_is_not_analysed_is_named_wherever_it_is_met(hostile: LineageGraph) -> None:
    shown = text(hostile, "raw.undeclared.x", "up", "down")
    assert (
        shown
        == """\
raw.undeclared.x (models/sources.yml)

up
  not analysed: raw.undeclared (models/sources.yml): no columns are declared

down
  value  named: y
  not analysed: starred (models/starred.sql): `*`: the columns of raw.undeclared are not known"""
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("after.x", "after (models/after.sql): `*`: the columns of main.starred are not known"),
        ("asked.one", "asked (models/asked.sql): it asks Spark while dbt compiles it"),
        (
            "asked_again.one",
            "asked_again (models/asked_again.sql): it asks Spark while dbt compiles it",
        ),
        ("raw.undeclared.y", "raw.undeclared (models/sources.yml): no columns are declared"),
    ],
)
def test_a_column_of_which_nothing_is_said_is_an_error(
    hostile: LineageGraph, name: str, reason: str
) -> None:
    with pytest.raises(UserError) as raised:
        hostile.find(name)
    assert str(raised.value) == f"[HW_NO_LINEAGE] lineage: {reason}"
