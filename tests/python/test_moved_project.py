"""Test that a project of `type: spark` moves to `type: headwaters` by one line of its profile.

It has a snapshot, a microbatch, a Python model, grants, two packages and a review. The packages are
in the project's folder, since a test has no network: `util` is written as dbt_utils is, and
`uploads` as dbt_artifacts, whose hook fills a table.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from processes import environment, printed

PROFILE = """
shop:
  target: dev
  outputs:
    dev:
      type: spark
      method: session
      host: NA
      schema: shop
      threads: 2
      server_side_parameters:
        spark.driver.memory: 1g
        spark.sql.session.timeZone: UTC
        spark.sql.extensions: io.delta.sql.DeltaSparkSessionExtension
        spark.sql.catalog.spark_catalog: org.apache.spark.sql.delta.catalog.DeltaCatalog
        spark.sql.warehouse.dir: {folder}/lake/warehouse
        spark.hadoop.javax.jdo.option.ConnectionURL: >-
          jdbc:derby:;databaseName={folder}/lake/metastore;create=true
"""
PROJECT = """
name: shop
version: 1.0.0
profile: shop
flags: {send_anonymous_usage_stats: false}
models: {+file_format: delta}
snapshots: {+file_format: delta}
dispatch: [{macro_namespace: util, search_order: [shop, util]}]
on-run-end: ["{{ uploads.upload(results) }}"]
"""
PACKAGE = "name: {0}\nversion: 1.0.0\nmacro-paths: [macros]\nmodel-paths: [models]\n"
# of packages/util
UTIL = """
{% macro safe_divide(a, b) %}
  {{ return(adapter.dispatch('safe_divide', 'util')(a, b)) }}
{% endmacro %}
{% macro default__safe_divide(a, b) %}
  {{ exceptions.raise_compiler_error('this is no Spark') }}
{% endmacro %}
{% macro spark__safe_divide(a, b) %}try_divide({{ a }}, {{ b }}){% endmacro %}

{% macro star(from, except=[]) %}
  {%- set names = [] -%}
  {%- for column in adapter.get_columns_in_relation(from) if column.column not in except -%}
    {%- do names.append(adapter.quote(column.column)) -%}
  {%- endfor -%}
  {{ names | join(', ') }}
{%- endmacro %}

{% macro values_of(table, column) %}
  {%- if not execute %}{{ return([]) }}{% endif -%}
  {%- call statement('values_of', fetch_result=true) -%}
    select distinct {{ column }} as value from {{ table }} order by 1
  {%- endcall -%}
  {{ return(load_result('values_of')['data'] | map(attribute=0) | list) }}
{% endmacro %}

{% test at_least_one(model, column_name) %}
  select count({{ column_name }}) as n from {{ model }} having count({{ column_name }}) = 0
{% endtest %}
"""
# of packages/uploads
UPLOADS = """
{% macro upload(results) %}
  {% if execute and results %}
    {% set rows = [] %}
    {% for one in results if one.node.resource_type == 'model' and one.node.name != 'runs' %}
      {% do rows.append("('" ~ one.node.name ~ "', '" ~ one.status ~ "')") %}
    {% endfor %}
    {% set table = adapter.get_relation(
        database=target.database, schema=target.schema, identifier='runs') %}
    {% if table and rows %}
      {% do run_query("insert into " ~ table ~ " values " ~ rows | join(', ')) %}
    {% endif %}
  {% endif %}
{% endmacro %}
{% macro text_type() %}
  {% if target.type not in ('spark', 'databricks') %}
    {{ exceptions.raise_compiler_error('unknown: ' ~ target.type) }}
  {% endif %}
  {{ return('string') }}
{% endmacro %}
"""
RUNS = """
{{ config(materialized='incremental') }}
with dummy as (select 1 as foo)
select cast(null as {{ uploads.text_type() }}) as name, cast(null as string) as status
from dummy where 1 = 0
"""
FILES = {
    ".gitignore": "lake/\ntarget/\nlogs/\ndbt_packages/\nreview/\nprofiles.yml\n*.log\n.user.yml\n",
    "dbt_project.yml": PROJECT,
    "packages.yml": "packages: [{local: packages/util}, {local: packages/uploads}]\n",
    "packages/util/dbt_project.yml": PACKAGE.format("util"),
    "packages/util/macros/util.sql": UTIL,
    "packages/uploads/dbt_project.yml": PACKAGE.format("uploads"),
    "packages/uploads/macros/uploads.sql": UPLOADS,
    "packages/uploads/models/runs.sql": RUNS,
    "models/orders.sql": """
{{ config(event_time='placed') }}
select * from values
  (1, 'ann', 10, timestamp'2026-03-01 01:00:00'), (2, 'bob', 20, timestamp'2026-03-02 01:00:00'),
  (3, 'ann', 30, timestamp'2026-03-02 02:00:00') as orders (id, customer, amount, placed)
""",
    "models/orders.yml": """
models:
  - name: orders
    columns: [{name: id, data_tests: [unique, util.at_least_one]}]
""",
    "models/sums.sql": """
{{ config(materialized='incremental', incremental_strategy='merge', unique_key='customer') }}
select customer, sum(amount) as amount, {{ util.safe_divide('sum(amount)', 'count(*)') }} as mean
from {{ ref('orders') }} group by customer
""",
    "models/per_day.sql": """
{{ config(
    materialized='incremental', incremental_strategy='microbatch', event_time='placed',
    batch_size='day', begin='2026-03-01', partition_by=['day'],
) }}
select id, amount, placed, to_date(placed) as day from {{ ref('orders') }}
""",
    "models/listed.sql": """
select {{ util.star(ref('orders'), except=['customer']) }} from {{ ref('orders') }}
""",
    "models/by_name.sql": """
{{ config(materialized='table', grants={'select': ['reader']}, tags=['granted']) }}
select 1 as one
{% for name in util.values_of(ref('orders'), 'customer') %}
  , '{{ name }}' as name_{{ name }}
{% endfor %}
from {{ ref('orders') }} limit 1
""",
    "models/large.py": """
def model(dbt, session):
    dbt.config(materialized="table", tags=["python"])
    return dbt.ref("orders").filter("amount > 15").select("id", "amount")
""",
    "snapshots/kept.yml": """
snapshots:
  - name: kept
    relation: ref('sums')
    config: {strategy: check, unique_key: customer, check_cols: [amount], file_format: delta}
""",
}
# Runs dbt, and prints each node's status, the warnings, and the rows of queries.
RUN = """
import json, sys
from dbt.cli.main import dbtRunner
from pyspark.sql import SparkSession
warnings = []
def listen(event):
    if event.info.level == "warn":
        warnings.append(event.info.msg)
arguments, queries = json.loads(sys.argv[1]), json.loads(sys.argv[2])
done = dbtRunner(callbacks=[listen]).invoke(arguments)
statuses = {one.node.name: str(one.status) for one in done.result.results} if done.result else {}
session = SparkSession.builder.getOrCreate()
rows = {sql: sorted([list(map(str, row)) for row in session.sql(sql).collect()]) for sql in queries}
print("found: " + json.dumps([statuses, warnings, rows]))
"""
ROWS = {
    "select customer, amount, mean from shop.sums": [["ann", "40", "20.0"], ["bob", "20", "20.0"]],
    "select id, day from shop.per_day": [
        ["1", "2026-03-01"],
        ["2", "2026-03-02"],
        ["3", "2026-03-02"],
    ],
    "select * except (placed) from shop.listed": [["1", "10"], ["2", "20"], ["3", "30"]],
    "select customer, dbt_valid_to from shop.kept": [["ann", "None"], ["bob", "None"]],
}
MORE = {
    "select * from shop.by_name": [["1", "ann", "bob"]],
    "select id from shop.large": [["2"], ["3"]],
}
DAYS = ("--event-time-start", "2026-03-01", "--event-time-end", "2026-03-03")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Return the project of `type: spark`, in a repository of git, with its packages installed."""
    folder = tmp_path / "shop"
    for name, text in {**FILES, "profiles.yml": PROFILE.format(folder=folder)}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "lake").mkdir()
    for command in (
        ["git", "init", "-q", "-b", "main"],
        ["git", "config", "user.email", "shop@example.com"],
        ["git", "config", "user.name", "shop"],
        ["git", "add", "-A"],
        ["git", "commit", "-qm", "the shop"],
        [sys.executable, "-m", "dbt.cli.main", "deps"],
    ):
        run(folder, *command)
    return folder


def run(folder: Path, *command: str) -> str:
    """Run a command in the project, as its user does."""
    variables = {**environment(folder / "lake"), "DBT_PROFILES_DIR": str(folder)}
    return printed(command, folder, variables)


def built(folder: Path, queries: list[str], *arguments: str) -> Any:
    """Run dbt, and return the statuses of its nodes, the warnings, and the rows of queries."""
    texts = json.dumps(["build", *DAYS, *arguments]), json.dumps(queries)
    lines = run(folder, sys.executable, "-c", RUN, *texts).splitlines()
    [found] = [line for line in lines if line.startswith("found: ")]
    return json.loads(found.removeprefix("found: "))


@pytest.mark.slow
def test_one_line_of_the_profile_moves_a_project(shop: Path) -> None:
    # dbt-spark runs neither Python nor grants in such a session
    kept_out = ("--exclude", "tag:granted", "tag:python")
    statuses, _, rows = built(shop, list(ROWS), *kept_out)
    assert (set(statuses.values()), rows) == ({"success", "pass"}, ROWS)

    profile = shop / "profiles.yml"
    profile.write_text(profile.read_text().replace("type: spark", "type: headwaters"))
    uploaded = "select name, count(*) from shop.runs group by name"
    statuses, warnings, rows = built(shop, [*ROWS, *MORE, uploaded])
    assert set(statuses.values()) == {"success", "pass"}
    names = ["by_name", "large", "listed", "orders", "per_day", "sums"]
    assert rows == {
        **ROWS,
        **MORE,
        # of both runs, which its own model does not repeat or remove
        uploaded: [[name, "1" if name in names[:2] else "2"] for name in names],
    }
    assert [text for text in warnings if "HW_NO_GRANTS" in text] == warnings[:1]

    run(shop, "git", "checkout", "-qb", "larger")
    model = shop / "models" / "sums.sql"
    model.write_text(model.read_text().replace("sum(amount) as", "2 * sum(amount) as"))
    said = run(shop, sys.executable, "-m", "headwaters.cli", "review", "--clean")
    sums = "shop.sums (text): 0 added, 0 removed, 2 changed; 2 rows before, 2 after"
    assert sums in said.splitlines()
