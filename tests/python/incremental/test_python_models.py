"""Test Python models: their rows, their tables' settings, and the lines of their errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from dbt.adapters.headwaters.python_models import view_of_model

from headwaters.platform.errors import UserError
from headwaters.tables.setting_conflicts import python_problems

Dbt = Callable[..., Any]
NewProject = Callable[[Mapping[str, str]], Path]


def test_a_setting_for_databricks_or_for_sql_is_refused_when_dbt_parses() -> None:
    refused = {
        "all_purpose_cluster": {"submission_method": "all_purpose_cluster"},
        "signed_sum": {"materialized": "incremental", "incremental_strategy": "signed_sum"},
    }
    for word, config in refused.items():
        found = list(python_problems({"language": "python", "config": config}))
        assert [(one.code, word in one.text) for one in found] == [("HW_PYTHON_MODEL", True)]
        assert not list(python_problems({"language": "sql", "config": config}))
    taken: list[dict[str, Any]] = [
        {},
        {"submission_method": "session"},
        {"submission_method": None},
        {"materialized": "incremental", "incremental_strategy": "auto"},
        {"materialized": "incremental", "incremental_strategy": "merge", "unique_key": "id"},
    ]
    for config in taken:
        assert not list(python_problems({"language": "python", "config": config}))


DBT_CODE = """
class dbtObj:
    def __init__(self, load):
        self.ref = load
"""


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["wanted = {}", "return wanted['id']"], "models/m.py:3): KeyError: 'id'"),
        (["return 1 +"], "models/m.py:2): SyntaxError: invalid syntax (m.py, line 2)"),
        (
            ["import no_such_package"],
            "models/m.py:2): ModuleNotFoundError: No module named 'no_such_package'. Install the"
            " package into dbt's environment",
        ),
        (
            ["return [1, 2]"],
            "models/m.py): model() returns list: return a DataFrame of Spark, pandas or"
            " pandas-on-Spark, or a table of Arrow",
        ),
        (["raise SystemExit('enough')"], "models/m.py:2): SystemExit: enough"),
    ],
)
def test_a_mistake_is_one_line_with_the_line_of_the_file(lines: list[str], problem: str) -> None:
    code = "\n    ".join(["def model(dbt, session):", *lines]) + DBT_CODE
    node = {"name": "m", "schema": "s", "alias": "m", "original_file_path": "models/m.py"}
    with pytest.raises(UserError) as raised:
        view_of_model(node, code, mock.Mock(spec=["table"]))
    assert str(raised.value) == f"[HW_PYTHON_MODEL] m ({problem}"


NUMBERS = "{{ config(materialized='table') }} select explode(sequence(1, 5)) as id"
MODELS = {
    "of_spark.py": """
def model(dbt, session):
    dbt.config(materialized="table", partition_by="id", tblproperties={"team": "river"})
    return dbt.ref("numbers").filter("id < 3").selectExpr("id", "id * 2 as twice")
""",
    "of_pandas.py": """
import pandas as pd

def model(dbt, session):
    dbt.config(materialized="table")
    return pd.DataFrame({"id": [1, 2], "name": ["a", "b"]})
""",
    "of_pandas_on_spark.py": """
def model(dbt, session):
    dbt.config(materialized="table")
    return dbt.ref("numbers").pandas_api().query("id > 3")
""",
    "of_arrow.py": """
import pyarrow

def model(dbt, session):
    dbt.config(materialized="table")
    return pyarrow.table({"id": [7]})
""",
    "merged.py": """
def model(dbt, session):
    dbt.config(
        materialized="incremental",
        incremental_strategy="merge",
        unique_key="id",
        grants={"select": ["ann"]},
    )
    rows = dbt.ref("numbers")
    return rows.filter("id > 5") if dbt.is_incremental else rows
""",
    "replaced.py": """
def model(dbt, session):
    dbt.config(materialized="incremental", incremental_strategy="auto")
    return dbt.ref("numbers").groupBy().count()
""",
    "numbers.sql": NUMBERS,
    "granted.sql": "{{ config(materialized='table', grants={'select': ['ann']}) }} select 1 as id",
    "below.sql": "{{ config(materialized='incremental', incremental_strategy='auto') }}"
    " select id, twice from {{ ref('of_spark') }}",
}


@pytest.mark.slow
def test_rows_of_python_become_tables(
    dbt: Dbt, new_project: NewProject, spark: Any, schema: str
) -> None:
    project = new_project({f"models/{name}": text for name, text in MODELS.items()})

    def rows(table: str) -> list[tuple[Any, ...]]:
        found = spark.sql(f"select * from {schema}.{table} order by all").collect()
        return [tuple(row) for row in found]

    answers = dbt("run", project_dir=project, schema=schema)
    assert len([text for text in answers.messages if "HW_NO_GRANTS" in text]) == 1
    assert rows("of_spark") == rows("below") == [(1, 2), (2, 4)]
    assert rows("of_pandas") == [(1, "a"), (2, "b")]
    assert rows("of_pandas_on_spark") == [(4,), (5,)]
    assert rows("of_arrow") == [(7,)]
    assert rows("merged") == [(1,), (2,), (3,), (4,), (5,)]
    assert rows("replaced") == [(5,)]
    detail = spark.sql(f"describe detail {schema}.of_spark").first()
    assert (detail.format, detail.partitionColumns) == ("delta", ["id"])
    assert detail.properties["team"] == "river"

    (project / "models/numbers.sql").write_text(NUMBERS.replace("1, 5", "2, 6"))
    dbt("run", project_dir=project, schema=schema)
    assert rows("merged") == [(1,), (2,), (3,), (4,), (5,), (6,)]
    assert rows("replaced") == [(5,)]
    assert rows("of_spark") == rows("below") == [(2, 4)]
