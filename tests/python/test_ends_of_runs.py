"""Test the work of the adapter at both ends of a run, and the results of the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

FILES = {
    "models/bronze/bronze.yml": """
sources:
  - name: raw
    schema: "{{ target.schema }}_raw"
    tables:
      - name: clicks
        config:
          meta:
            stream: {from: files, path: landing/clicks, format: json}
        columns: [{name: id, data_type: int}]
""",
    "models/clicked.sql": "{{ config(materialized='incremental') }}\n"
    "select id from {{ source('raw', 'clicks') }}",
    "models/failing.sql": "{{ config(materialized='table', schema='other') }}\n"
    "-- depends_on: {{ ref('clicked') }}\n"
    "select raise_error('no') as id",
    "macros/hooks.sql": "{% macro note(text) %}{% if execute %}{{ print(text) }}{% endif %}"
    "select 1{% endmacro %}",
}
HOOKS = "on-run-start: [\"{{ note('begin') }}\"]\non-run-end: [\"{{ note('end') }}\"]\n"
ORPHAN, RECENT = "killed__stage_202001010000_0123abcd", "running__stage_299901010000_0123abcd"


def test_results_are_the_users_nodes_and_both_ends_do_their_work(
    dbt: Callable[..., Any],
    spark: Any,
    schema: str,
    new_project: Callable[[dict[str, str]], Path],
    capfd: Any,
) -> None:
    project = new_project(FILES)
    settings = (project / "dbt_project.yml").read_text()
    paths = "macro-paths: [project_macros]"
    assert paths in settings
    settings = settings.replace(paths, "macro-paths: [project_macros, macros]")
    (project / "dbt_project.yml").write_text(settings + HOOKS)
    schemas = (schema, f"{schema}_other")
    for name in schemas:
        spark.sql(f"create schema {name}")
        for table in (ORPHAN, RECENT):
            spark.sql(f"create table {name}.{table} (id int) using delta")

    def tables(name: str) -> set[str]:
        return {row["tableName"] for row in spark.sql(f"show tables in {name}").collect()}

    ran = dbt("run", project_dir=project, schema=schema, expect=False, artifacts=True)
    assert [(one.node.name, one.status) for one in ran.result.results] == [
        ("headwaters-on-run-start-0", "success"),
        ("clicked", "success"),
        ("failing", "error"),
        ("headwaters-on-run-end-0", "success"),
    ]
    printed = capfd.readouterr().out.splitlines()
    assert [line for line in printed if line in ("begin", "end")] == ["begin", "end"]
    assert tables(f"{schema}_raw") == {"clicks", "clicks_quarantine"}
    assert tables(schema) == {RECENT, "clicked"}
    assert tables(f"{schema}_other") == {RECENT}  # also that of a model that failed

    # a variable of the package switches off both ends
    spark.sql(f"create table {schema}.{ORPHAN} (id int) using delta")
    spark.sql(f"drop table {schema}_raw.clicks_quarantine")
    off = "vars: {dbt_headwaters: {headwaters_hooks: false}}"
    switch = "vars:\n  ops_tests: false\n"
    comment = "  # The tests of headwaters' own tables, the sources of models/ops.\n"
    settings = settings.replace(comment, "")
    assert switch in settings
    (project / "dbt_project.yml").write_text(settings.replace(switch, f"{off}\n"))
    dbt("run", "--select", "clicked", project_dir=project, schema=schema)
    assert tables(schema) == {ORPHAN, RECENT, "clicked"}
    assert tables(f"{schema}_raw") == {"clicks"}
