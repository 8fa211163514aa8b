"""Test that a model with a contract and without columns gets them as YAML to paste."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml
from projects import run_dbt

from headwaters.tables.model_contracts import columns_to_paste, missing_columns, untyped_columns


def model(name: str, **more: Any) -> dict[str, Any]:
    config = {"contract": {"enforced": True}}
    return {
        **{"unique_id": f"model.shop.{name}", "name": name, "resource_type": "model"},
        **{"original_file_path": f"models/gold/{name}.sql", "config": config, "columns": {}},
        **more,
    }


def test_the_columns_are_yaml_with_names_and_types() -> None:
    types = {"depot": "string", "weight kg": "decimal(18,2)", "at": "struct<a:int,b:map<int,int>>"}
    columns = [SimpleNamespace(name=name, data_type=kind) for name, kind in types.items()]
    first, _, pasted = str(columns_to_paste(model("daily"), columns)).partition("\n")
    assert first == (
        "[HW_NO_COLUMNS] models/gold/daily.sql has an enforced contract, and no columns: paste "
        "this into models/gold/daily.yml, and describe the columns"
    )
    [entry] = yaml.safe_load(pasted)["models"]
    assert entry["name"] == "daily"
    assert {it["name"]: it["data_type"] for it in entry["columns"]} == types


def test_a_model_with_an_entry_gets_the_columns_of_that_entry() -> None:
    node = model("daily", patch_path="shop://models/gold/all.yml")
    problem = columns_to_paste(node, [SimpleNamespace(name="id", data_type="int")])
    assert str(problem) == (
        "[HW_NO_COLUMNS] models/gold/daily.sql has an enforced contract, and no columns: paste "
        "this into its entry in models/gold/all.yml, and describe the columns\n"
        "    columns:\n"
        "      - {name: id, data_type: int}"
    )


def test_columns_without_a_type_are_named() -> None:
    columns = {
        "id": {"name": "id", "data_type": "int"},
        "weight kg": {"name": "weight kg", "data_typ": "int"},
        "at": {"name": "at", "data_type": None},
    }
    node = model("daily", patch_path="shop://models/gold/all.yml", columns=columns)
    line = (
        "[HW_NO_COLUMNS] models/gold/all.yml: daily has an enforced contract, and no data_type "
        "(there is data_typ) of weight kg, at: write one for each, as in "
        '{name: "weight kg", data_type: string}'
    )
    free = {**node, "unique_id": "model.shop.free", "config": {}}
    nodes = {it["unique_id"]: it for it in (node, free)}
    assert list(map(str, untyped_columns(node))) == missing_columns(nodes, nodes) == [line]
    assert missing_columns(nodes, []) == []
    assert untyped_columns(model("typed", columns={"id": columns["id"]})) == []


def test_a_run_warns_before_spark_starts() -> None:
    nodes = {
        node["unique_id"]: node
        for node in [
            model("daily", patch_path="shop://models/gold/all.yml"),
            model("other"),
            model("declared", columns={"id": {"name": "id", "data_type": "int"}}),
            model("free", config={"contract": {"enforced": False}}),
            model("seed", resource_type="seed"),
        ]
    }
    selected = [key for key in nodes if key != "model.shop.other"]
    assert missing_columns(nodes, selected) == [
        "[HW_NO_COLUMNS] models/gold/daily.sql has an enforced contract, and models/gold/all.yml "
        "declares no columns: its run will fail, and print them to paste"
    ]


def test_dbt_parses_an_entry_without_columns_and_names_the_file_of_a_wrong_default(
    tmp_path: Path,
) -> None:
    project: dict[str, Any] = {
        **{"name": "shop", "version": "1.0.0", "profile": "headwaters"},
        "models": {
            "+materialized": "incremental",
            "+incremental_strategy": "auto",
            "+contract": {"enforced": True},
        },
    }
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "daily.sql").write_text("select 1 as id")
    (tmp_path / "models" / "all.yml").write_text(
        "models: [{name: daily, description: The parcels of each day.}]"
    )
    (tmp_path / "dbt_project.yml").write_text(json.dumps(project))
    refused = run_dbt(tmp_path, "parse", project_dir=tmp_path, expect=False)
    assert str(refused.exception) == (
        "Compilation Error\n  dbt_project.yml, for models/daily.sql: Invalid value for "
        "on_schema_change: ignore. Models materialized as incremental with contracts enabled must "
        "set on_schema_change to 'append_new_columns' or 'fail'"
    )
    project["models"]["+on_schema_change"] = "append_new_columns"
    (tmp_path / "dbt_project.yml").write_text(json.dumps(project))
    manifest = run_dbt(tmp_path, "parse", project_dir=tmp_path).result
    nodes = {key: node.to_dict() for key, node in manifest.nodes.items()}
    assert missing_columns(nodes, nodes) == [
        "[HW_NO_COLUMNS] models/daily.sql has an enforced contract, and models/all.yml declares "
        "no columns: its run will fail, and print them to paste"
    ]
    entry = {"name": "daily", "columns": [{"name": "id", "data_typ": "int"}]}
    (tmp_path / "models" / "all.yml").write_text(json.dumps({"models": [entry]}))
    manifest = run_dbt(tmp_path, "parse", project_dir=tmp_path).result
    nodes = {key: node.to_dict() for key, node in manifest.nodes.items()}
    assert missing_columns(nodes, nodes) == [
        "[HW_NO_COLUMNS] models/all.yml: daily has an enforced contract, and no data_type (there "
        "is data_typ) of id: write one for each, as in {name: id, data_type: string}"
    ]
