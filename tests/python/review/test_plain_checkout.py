"""Test a review by the engine of the checkout's own lake, without variables that name either."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import QUICK_JAVA, ROOT, environment, printed

from review.shop import Shop, facts
from review.test_review import counted

KINDS = "models/kinds.sql"
FILES = {
    ".gitignore": "lake/\ntarget/\nlogs/\nreview/\n*.log\n.user.yml\n",
    KINDS: "{{ config(materialized='table') }}\nselect * from values (1, 'a'), (2, 'b') as (id, w)",
}


@pytest.mark.slow
def test_the_engine_of_the_checkout_reviews(
    new_project: Callable[[dict[str, str]], Path], tmp_path: Path
) -> None:
    shop = Shop(new_project({}), "shop", None)
    shop.git("init", "-q", "-b", "main")
    for name in ("user.email", "user.name"):
        shop.git("config", name, "shop@example.com")
    shop.commit(FILES, "kinds")
    run(shop, "headwaters.cli", "engine", "start")
    try:
        run(shop, "dbt.cli.main", "build")
        shop.branch("longer", {KINDS: ("(2, 'b')", "(2, 'c'), (3, 'd')")})
        said = run(shop, "headwaters.cli", "review", "--clean", "--out", str(tmp_path))
    finally:
        run(shop, "headwaters.cli", "engine", "stop")
    assert said.splitlines()[:2] == [
        "reviewing 1 of 1 tables",
        "2 rows are added, 1 is removed in shop.kinds",
    ]
    found = facts(tmp_path)
    assert (found["notes"], counted(found)) == ([], {"kinds": (("text",), (2, 1, 0))})


def run(shop: Shop, module: str, *arguments: str) -> str:
    """Run a command in the checkout with the target of the engine."""
    target = [] if arguments[0] == "engine" else ["--target", "engine"]
    variables = {
        **environment(),
        "PYTHONPATH": str(ROOT / "scripts"),
        "HEADWATERS_SCHEMA": "shop",
        "HEADWATERS_DRIVER_MEMORY": "1g",
        "HEADWATERS_JAVA_OPTIONS": QUICK_JAVA,
        "DBT_PROFILES_DIR": "profiles",
    }
    return printed([sys.executable, "-m", module, *arguments, *target], shop.folder, variables)
