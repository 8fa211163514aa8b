"""Test a review with an embedded Spark, in a separate lake."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import environment

from review.shop import Shop, facts
from review.test_review import counted

NORTH = "models/silver/north.sql"


@pytest.mark.slow
def test_an_embedded_spark_reviews_as_the_engine_does(
    new_project: Callable[[dict[str, str]], Path], tmp_path: Path
) -> None:
    shop = Shop(new_project({}), "alone", None)
    shop.found()
    text = (
        "{{ config(incremental_strategy='auto') }}\n"
        "select region, count(*) as customers from {{ ref('regions') }} group by region\n"
    )
    shop.commit({NORTH: text}, "regions and customers")
    run(shop, tmp_path, "dbt.cli.main", "build", "--select", "regions", "north")
    shop.branch("doubled", {NORTH: ("count(*)", "2 * count(*)")})
    said = run(shop, tmp_path, "headwaters.cli", "review", "--clean", "--out", str(tmp_path))
    # a seed has no changes to follow, so that the table has no derived key
    assert "2 rows are added, 2 are removed in alone_silver.north" in said.splitlines()
    found = facts(tmp_path)
    assert found["notes"] == []
    assert counted(found) == {"north": (("text",), (2, 2, 0))}
    assert [
        (one["change"], one["before"], one["after"])
        for one in found["models"]["north"]["difference"]["examples"]
    ] == [
        ("removed", {"region": "north", "customers": "1"}, {}),
        ("added", {}, {"region": "north", "customers": "2"}),
        ("removed", {"region": "south", "customers": "1"}, {}),
        ("added", {}, {"region": "south", "customers": "2"}),
    ]
    assert list((tmp_path / "lake" / "warehouse").glob("review_*")) == []


def run(shop: Shop, folder: Path, module: str, *arguments: str) -> str:
    """Run a command in a separate process, as users do."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments, "--target", "local"],
        cwd=shop.folder,
        env={
            **environment(folder / "lake"),
            "HEADWATERS_SCHEMA": shop.schema,
            "HEADWATERS_DRIVER_MEMORY": "1g",
            "DBT_PROFILES_DIR": "profiles",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
