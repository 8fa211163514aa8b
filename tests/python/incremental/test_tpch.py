"""Test the 22 queries of TPC-H as models of plain SQL, over tables that are refreshed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from analysis.test_derive import TABLES, TPCH

from headwaters.analysis import dotted_names

QUERIES = Path(__file__).parents[1] / "analysis" / "tpch"
SEEDS = {
    "region": "r_regionkey,r_name,r_comment\n0,AMERICA,x\n1,ASIA,x\n2,EUROPE,x\n",
    "nation": "n_nationkey,n_name,n_regionkey,n_comment\n0,BRAZIL,0,x\n1,CANADA,0,x\n2,FRANCE,2,x\n"
    "3,GERMANY,2,x\n4,INDIA,1,x\n5,SAUDI ARABIA,1,x\n",
}
PROJECT = """
name: tpch
version: 0.1.0
profile: headwaters
seeds:
  tpch:
    +tblproperties: {delta.enableChangeDataFeed: "true"}
    nation: {+column_types: {n_nationkey: int, n_regionkey: int}}
    region: {+column_types: {r_regionkey: int}}
models: {tpch: {+materialized: incremental, +file_format: delta, +incremental_strategy: auto}}
"""
# Values that the queries name, and others. The column's type gives the rest.
VALUES: dict[str, Sequence[object]] = {
    "p_name": ["forest green", "green rose", "blue"],
    "p_type": ["SMALL BRASS", "ECONOMY ANODIZED STEEL", "PROMO TIN", "MEDIUM POLISHED TIN"],
    "p_brand": ["Brand#12", "Brand#23", "Brand#34", "Brand#45"],
    "p_container": ["SM CASE", "MED BOX", "LG PACK"],
    "p_size": [3, 15, 9],
    "s_comment": ["Customer has Complaints", "none", "none"],
    "c_phone": ["13-1", "31-2", "99-3"],
    "c_mktsegment": ["BUILDING", "MACHINERY"],
    "o_orderstatus": ["F", "O"],
    "o_orderpriority": ["1-URGENT", "2-HIGH", "5-LOW"],
    "o_comment": ["special requests", "none"],
    "o_shippriority": [0],
    "l_returnflag": ["R", "A", "N"],
    "l_linestatus": ["F", "O"],
    "l_discount": [Decimal("0.05"), Decimal("0.06"), Decimal("0.10")],
    "l_quantity": [5, 15, 25, 160],
    "l_shipmode": ["MAIL", "SHIP", "AIR"],
    "l_shipinstruct": ["DELIVER IN PERSON", "NONE"],
}
NUMBERED = {"p_partkey", "s_suppkey", "c_custkey", "o_orderkey", "l_linenumber"}
REFERENCES = {"ps_partkey": 8, "ps_suppkey": 6, "l_partkey": 8, "l_suppkey": 6, "l_orderkey": 44}
REFERENCES |= {"o_custkey": 14, "c_nationkey": 6, "s_nationkey": 6}
DATES = [
    f"{year}-{day}"
    for year in range(1993, 1997)
    for day in ("01-10", "03-20", "07-05", "09-09", "10-20")
]


def rows_of(table: str, many: int, draw: random.Random, first: int = 0) -> str:
    """Return rows of a table as `values`, whose keys begin with `first`."""
    rows = {}
    for number in range(first, first + many):
        row = [value(column, number, draw) for column in TABLES[table].split(", ")]
        key = tuple(row[: 2 if table in ("partsupp", "lineitem") else 1])
        rows[key] = f"({', '.join(row)})"
    return ", ".join(rows.values())


def value(column: str, number: int, draw: random.Random) -> str:
    """Return a literal for a column declared as, say, `l_shipdate date`."""
    name, type = column.split(" ", 1)
    if name in NUMBERED:
        return str(number)
    if name in REFERENCES:
        return str(draw.randrange(REFERENCES[name]))
    if name in VALUES:
        return (
            repr(draw.choice(VALUES[name])) if type == "string" else str(draw.choice(VALUES[name]))
        )
    if type == "date":
        return f"date'{draw.choice(DATES)}'"
    if type == "string":
        return f"'{name} {number}'"
    return str(draw.randrange(1, 9) if type == "int" else draw.randrange(100, 1000))


CHANGES = [
    "insert into {inputs}.orders values {orders}",
    "insert into {inputs}.lineitem values {lineitem}",
    "delete from {inputs}.lineitem where l_orderkey % 5 = 1",
    "delete from {inputs}.orders where o_orderkey % 10 = 1",
    "update {inputs}.lineitem set l_suppkey = (l_suppkey + 1) % 6 where l_orderkey % 7 = 2",
    "update {inputs}.lineitem set l_returnflag = 'R', l_shipmode = 'MAIL'"
    " where l_linenumber % 5 = 1",
    "update {inputs}.orders set o_custkey = (o_custkey + 1) % 12 where o_orderkey % 6 = 3",
    "update {inputs}.orders set o_orderpriority = '1-URGENT' where o_orderkey % 9 = 4",
    "update {inputs}.customer set c_nationkey = (c_nationkey + 1) % 6 where c_custkey % 4 = 1",
    "update {inputs}.customer set c_name = 'moved' where c_custkey % 5 = 2",
    "update {inputs}.supplier set s_nationkey = (s_nationkey + 1) % 6 where s_suppkey % 3 = 1",
    "update {inputs}.supplier set s_comment = 'Customer has Complaints' where s_suppkey = 2",
    "update {inputs}.part set p_brand = 'Brand#23', p_type = 'SMALL BRASS' where p_partkey % 3 = 1",
    "update {inputs}.partsupp set ps_supplycost = ps_supplycost + 1 where ps_partkey % 2 = 1",
    "delete from {inputs}.customer where c_custkey = 7",
    "insert into {inputs}.partsupp select 9, ps_suppkey, 1, 2, 'new' from {inputs}.partsupp"
    " where ps_partkey = 1",
]


@pytest.mark.slow
def test_refreshes_leave_what_the_queries_say(
    dbt: Callable[..., Any], new_project: Callable[..., Path], spark: Any, schema: str
) -> None:
    inputs, draw = f"{schema}_inputs", random.Random(22)
    queries = {path.stem: path.read_text() for path in sorted(QUERIES.glob("q*.sql"))}
    folder = new_project(
        {
            "dbt_project.yml": PROJECT,
            "models/inputs.yml": json.dumps({"sources": [declared()]}),
            **{f"seeds/{name}.csv": text for name, text in SEEDS.items()},
            **{f"models/{name}.sql": named(sql, reference) for name, sql in queries.items()},
        }
    )
    spark.sql(f"create schema {inputs}")
    many = {"part": 8, "supplier": 6, "customer": 12, "orders": 40, "partsupp": 40, "lineitem": 220}
    for table, count in many.items():
        spark.sql(
            f"create table {inputs}.{table} ({TABLES[table]}) using delta"
            " tblproperties ('delta.enableChangeDataFeed' = 'true')"
        )
        spark.sql(f"insert into {inputs}.{table} values {rows_of(table, count, draw)}")
    dbt("seed", project_dir=folder, schema=schema)

    def ran() -> dict[str, str]:
        answers = dbt("run", project_dir=folder, schema=schema).result.results
        return {it.node.name: it.message for it in answers if it.node.name in queries}

    def wrong() -> list[str]:
        """Return the models whose tables differ from their SQL."""
        found = []
        for name, sql in queries.items():
            said = spark.sql(
                named(sql, lambda it: f"{schema if it in SEEDS else inputs}.{it}")
            ).collect()
            got = spark.sql(f"select * from {schema}.{name}").collect()
            if sorted(map(repr, map(tuple, got))) != sorted(map(repr, map(tuple, said))):
                found.append(name)
        return found

    ran()
    assert wrong() == []
    strategies = {}
    for name in queries:
        detail = spark.sql(f"describe detail {schema}.{name}").collect()[0]
        strategies[name] = json.loads(detail["properties"]["headwaters.proof"])["strategy"]
    assert strategies == {name: strategy for name, (strategy, _, _) in TPCH.items()}
    incremental = set()
    for place, change in enumerate(CHANGES):
        statement = change.replace("{inputs}", inputs)
        for table in ("orders", "lineitem"):
            if f"{{{table}}}" in statement:
                statement = statement.replace(f"{{{table}}}", rows_of(table, 6, draw, 40 + place))
        spark.sql(statement)
        if place % 4 == 3:
            messages = ran()
            incremental |= {name for name in messages if "replace:" not in messages[name]}
            assert wrong() == []
    assert incremental == set(strategies)


def declared() -> dict[str, Any]:
    """Return the YAML of the sources, with their keys."""
    tables: list[dict[str, Any]] = []
    for name, columns in TABLES.items():
        if name in SEEDS:
            continue
        first, second = (column.split(" ")[0] for column in columns.split(", ")[:2])
        if name in ("partsupp", "lineitem"):
            arguments = {"combination_of_columns": [first, second]}
            tests = [{"unique_combination_of_columns": {"arguments": arguments}}]
            tables.append({"name": name, "data_tests": tests})
        else:
            column = {"name": first, "data_tests": ["unique", "not_null"]}
            tables.append({"name": name, "columns": [column]})
    return {"name": "tpch", "schema": "{{ target.schema }}_inputs", "tables": tables}


def reference(table: str) -> str:
    return f"{{{{ ref('{table}') }}}}" if table in SEEDS else f"{{{{ source('tpch', '{table}') }}}}"


def named(sql: str, name: Callable[[str], str]) -> str:
    """Return the query with other table names; some columns and aliases have the old ones."""
    for found in sorted(dotted_names(sql), key=lambda found: -found.start):
        table = found.parts[0].lower()
        if found.is_relation and len(found.parts) == 1 and table in TABLES:
            sql = f"{sql[: found.start]}{name(table)}{sql[found.end :]}"
    return sql
