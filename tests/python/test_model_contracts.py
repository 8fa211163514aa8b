"""Test that a model with a contract and without columns gets them as YAML to paste."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import yaml

from headwaters.tables.model_contracts import columns_to_paste, missing_columns


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


def test_a_run_warns_before_spark_starts() -> None:
    nodes = {
        node["unique_id"]: node
        for node in [
            model("daily", patch_path="shop://models/gold/all.yml"),
            model("other"),
            model("declared", columns={"id": {}}),
            model("free", config={"contract": {"enforced": False}}),
            model("seed", resource_type="seed"),
        ]
    }
    selected = [key for key in nodes if key != "model.shop.other"]
    assert missing_columns(nodes, selected) == [
        "[HW_NO_COLUMNS] models/gold/daily.sql has an enforced contract, and models/gold/all.yml "
        "declares no columns: its run will fail, and print them to paste"
    ]
