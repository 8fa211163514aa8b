"""Test that every command works on names that are keywords or begin with digits.

Spark reads such names in quotes alone.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from processes import environment, printed

PROFILE = """
words:
  target: dev
  outputs:
    dev: {type: headwaters, schema: select, threads: 2}
"""
FILES = {
    "dbt_project.yml": """
name: words
version: 1.0.0
profile: words
flags: {send_anonymous_usage_stats: false}
seeds: {+tblproperties: {delta.enableChangeDataFeed: true}}
models: {+materialized: incremental, +incremental_strategy: auto}
""",
    "seeds/order.csv": "id,group,amount\n1,a,10\n2,b,20\n3,a,30\n",
    "seeds/order.yml": "seeds: [{name: order, columns: [{name: id, data_tests: [unique]}]}]\n",
    "models/from.sql": "{{ config(materialized='view') }}\nselect * from {{ ref('order') }}\n",
    "models/2fast.sql": """
select `group`, count(*) as `table`, sum(amount) as `end` from {{ ref('from') }} group by `group`
""",
    "models/2fast.yml": """
models:
  - name: 2fast
    description: Orders by group.
    columns: [{name: group, description: The group., data_tests: [unique, not_null]}]
""",
    "models/union.sql": "select `group`, `end` * 2 as `case` from {{ ref('2fast') }}\n",
    "snapshots/interval.yml": """
snapshots:
  - name: interval
    relation: ref('2fast')
    config: {strategy: check, unique_key: group, check_cols: [table], file_format: delta}
""",
}
SCHEMA = "`select`"


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """Return the project's folder."""
    for name, text in {**FILES, "profiles.yml": PROFILE}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def run(folder: Path, *command: str) -> str:
    """Run a command of dbt or headwaters in the project, as its user does."""
    variables = {**environment(folder / "lake"), "DBT_PROFILES_DIR": str(folder)}
    variables.pop("DBT_TARGET_PATH")  # commands look for dbt's files in the project
    module = {"dbt": "dbt.cli.main", "headwaters": "headwaters.cli"}[command[0]]
    return printed([sys.executable, "-m", module, *command[1:]], folder, variables)


def rows(folder: Path, sql: str) -> list[dict[str, object]]:
    lines = run(folder, "headwaters", "sql", sql, "--format", "json").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.slow
def test_every_command_quotes_names(words: Path) -> None:
    run(words, "dbt", "build")
    seed = words / "seeds" / "order.csv"
    seed.write_text(seed.read_text() + "4,c,40\n")
    said = run(words, "dbt", "build")
    assert "ERROR=0" in said
    assert rows(words, f"select * from {SCHEMA}.`union` order by `group`") == [
        {"group": "a", "case": 80},
        {"group": "b", "case": 40},
        {"group": "c", "case": 80},
    ]
    operations = {
        "explain_refresh": {"model": "2fast"},
        "maintain": {"select": "select.2fast"},
        "restore": {"table": "select.2fast", "version": 0},
        "rebuild": {"model": "2fast"},
    }
    for operation, given in operations.items():
        said = run(words, "dbt", "run-operation", operation, "--args", json.dumps(given))
        told = "1 tables, nothing to do" if operation == "maintain" else "select.2fast"
        assert told in said.replace("`", ""), operation
    run(words, "dbt", "docs", "generate")
    catalog = json.loads((words / "target" / "catalog.json").read_text())
    assert list(catalog["nodes"]["model.words.2fast"]["columns"]) == ["group", "table", "end"]
    assert "2fast" in run(words, "headwaters", "explain")
    lineage = run(words, "headwaters", "lineage", "union.case")
    assert "order (seed): amount" in lineage
    page = words / "page.html"
    run(words, "headwaters", "report", "--out", str(page))
    assert "select.2fast" in page.read_text()
