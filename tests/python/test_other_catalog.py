"""Test sources in another catalog of the session: in SQL, in docs, and in lineage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.contracts.relation import RelationType
from dbt.adapters.headwaters.relation import HeadwatersRelation

from headwaters.report.lineage.tables import tables_of

URL = "jdbc:derby:memory:crm;create=true"
SETTINGS = {
    "spark.sql.catalog.crm": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
    "spark.sql.catalog.crm.url": URL,
    "spark.sql.catalog.crm.driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
}
SOURCES = """
sources:
  - name: crm
    database: crm
    schema: APP
    tables: [{name: CUSTOMERS, columns: [{name: id}, {name: name}]}]
"""


READ = "select id, name from {{ source('crm', 'CUSTOMERS') }}"


def test_a_relation_has_its_catalog_in_its_name() -> None:
    def rendered(database: str | None) -> str:
        made = HeadwatersRelation.create(
            database=database, schema="public", identifier="people", type=RelationType.Table
        )
        return made.render()

    assert [rendered(one) for one in ("crm", "spark_catalog", None, "")] == [
        "crm.public.people",
        "public.people",
        "public.people",
        "public.people",
    ]


def test_lineage_knows_the_catalog_of_a_source() -> None:
    source: Any = {
        "resource_type": "source",
        "source_name": "crm",
        "name": "customers",
        "identifier": "customers",
        "database": "crm",
        "schema": "public",
        "config": {},
        "columns": {"id": {}},
        "original_file_path": "models/crm.yml",
    }
    own = {**source, "database": None, "source_name": "own"}
    model = {
        **source,
        "resource_type": "model",
        "database": None,
        "alias": "both",
        "identifier": None,
        "columns": {},
        "compiled_code": "select a.id as one, b.id as other from crm.public.customers as a"
        " join public.customers as b on a.id = b.id",
        "depends_on": {"nodes": ["crm", "own"]},
    }
    tables = tables_of({"crm": source, "own": own, "both": model}, {}, {}, Path())
    relation = tables["public.both"].relation
    assert relation is not None
    values = {
        name: [str(of.table) for of, kind in origins.items() if kind == "value"]
        for name, origins in relation.columns.items()
    }
    assert values == {"one": ["crm.public.customers"], "other": ["public.customers"]}


@pytest.mark.slow
def test_a_source_of_another_catalog_is_read(
    dbt: Any, spark: Any, schema: str, new_project: Any, tmp_path: Path
) -> None:
    people = spark.createDataFrame([(1, "Ada"), (2, "Bob")], "id int, name string")
    driver = {"driver": SETTINGS["spark.sql.catalog.crm.driver"]}
    people.write.jdbc(URL, "CUSTOMERS", mode="overwrite", properties=driver)
    project = new_project(
        {
            "models/crm.yml": SOURCES,
            "models/whole.sql": "{{ config(materialized='table') }}\n" + READ,
            "models/seen.sql": "{{ config(materialized='view') }}\n" + READ,
        }
    )
    settings = project / "dbt_project.yml"
    sets = json.dumps([f"set `{name}`=`{value}`" for name, value in SETTINGS.items()])
    settings.write_text(f"{settings.read_text()}\non-run-start: {sets}\n")
    for rows in (["Ada", "Bob"], ["Ada", "Bob", "Cyd"]):
        dbt("run", project_dir=project, schema=schema)
        found = spark.sql(f"select name from {schema}.whole order by id").collect()
        assert [row[0] for row in found] == rows
        more = spark.createDataFrame([(3, "Cyd")], "id int, name string")
        more.write.jdbc(URL, "CUSTOMERS", mode="append", properties=driver)
    dbt("docs", "generate", project_dir=project, schema=schema, artifacts=True)
    catalog = json.loads((tmp_path / "target" / "catalog.json").read_text())
    (table,) = catalog["sources"].values()
    assert table["metadata"]["database"] == "crm"
    assert {name: column["type"] for name, column in table["columns"].items()} == {
        "id": "int",
        "name": "string",
    }
    (project / "models" / "kept.sql").write_text(
        "{{ config(materialized='incremental') }}\n" + READ
    )
    refused = dbt("run", "--select", "kept", project_dir=project, schema=schema, expect=False)
    message = refused.result.results[-1].message  # after that of the hook
    assert "HW_NOT_A_DELTA_TABLE" in message
    assert "crm.APP.CUSTOMERS is not a Delta table" in message
