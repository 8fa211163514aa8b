"""Test that a `ref()` or `source()` of an unknown name is one line with the nearest name."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from projects import run_dbt

from headwaters.platform.dbt_compat import UnknownName
from headwaters.tables.unknown_names import explained

MANIFEST: Any = SimpleNamespace(
    metadata=SimpleNamespace(adapter_type="headwaters"),
    nodes={"model.shop.parcels_now": SimpleNamespace(name="parcels_now")},
    sources={"source.shop.bronze.parcels": SimpleNamespace(source_name="bronze", name="parcels")},
)


@pytest.mark.parametrize(
    ("unknown", "line"),
    [
        (
            ("ref", "parcel_now"),
            "[HW_NO_SUCH_MODEL] models/m.sql:3: ref('parcel_now'): there is no such model, seed or "
            "snapshot, did you mean 'parcels_now'?",
        ),
        (
            ("source", "bronce.parcels"),
            "[HW_NO_SUCH_TABLE] models/m.sql:5: source('bronce', 'parcels'): there is no such "
            "source table, did you mean 'bronze.parcels'?",
        ),
        (
            ("ref", "zz"),
            "[HW_NO_SUCH_MODEL] models/m.sql: ref('zz'): there is no such model, seed or snapshot: "
            "`dbt ls` lists all names",
        ),
    ],
)
def test_the_line_names_the_place_and_the_nearest_name(
    unknown: tuple[Any, str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sql = "\n\nselect * from {{ ref('parcel_now') }}\nunion all\nfrom {{ source('x', 'parcels') }}"
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "m.sql").write_text(sql)
    assert explained(MANIFEST, UnknownName("models/m.sql", *unknown)) == line


def test_projects_of_other_adapters_keep_dbt_s_message() -> None:
    other: Any = SimpleNamespace(metadata=SimpleNamespace(adapter_type="duckdb"))
    assert explained(other, UnknownName("m.sql", "ref", "x")) is None


@pytest.mark.parametrize("sql", ["{{ ref('readings_lastest') }}", "{{ source('a', 'b') }}"])
def test_dbt_parse_prints_it(sql: str, tmp_path: Path) -> None:
    project = 'name: shop\nversion: "1.0"\nprofile: headwaters\n'
    (tmp_path / "dbt_project.yml").write_text(project)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "readings_latest.sql").write_text("select 1 as id")
    (tmp_path / "models" / "wrong.sql").write_text(f"select * from {sql}")
    result = run_dbt(tmp_path, "parse", project_dir=tmp_path, expect=False)
    code = "HW_NO_SUCH_MODEL" if "ref" in sql else "HW_NO_SUCH_TABLE"
    assert f"[{code}] models/wrong.sql:1: " in str(result.exception)


def test_a_config_that_dbt_refuses_is_one_line_with_its_model(tmp_path: Path) -> None:
    project = 'name: shop\nversion: "1.0"\nprofile: headwaters\n'
    (tmp_path / "dbt_project.yml").write_text(project)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "m.sql").write_text("{{ config(materialized='incremental') }} select 1")
    contract = "models: [{name: m, config: {contract: {enforced: true}}, columns: []}]"
    (tmp_path / "models" / "m.yml").write_text(contract)
    result = run_dbt(tmp_path, "parse", project_dir=tmp_path, expect=False)
    assert str(result.exception).splitlines() == [
        "Compilation Error",
        "  m (models/m.sql): Invalid value for on_schema_change: ignore. Models materialized as "
        "incremental with contracts enabled must set on_schema_change to 'append_new_columns' or "
        "'fail'",
    ]
