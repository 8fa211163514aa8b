"""Worlds for the tests of the incremental engine: see world.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from incremental.expected import EXPECTED
from incremental.world import World

# One model of every way to write a table.
MODELS = ["latest", "latest_pruned", "linear", "computed_key"]
MODELS += ["named", "people_totals", "sums", "tag_totals", "totals"]


@pytest.fixture(scope="session")
def worlds(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Yield the models of `project/` over new inputs."""
    yield from _made(spark, "world", tmp_path_factory.mktemp("incremental"), MODELS)


@pytest.fixture
def fresh_world(worlds: World) -> World:
    """Return the world, built over the first rows of its inputs."""
    if not worlds.right.issuperset(worlds.models) or len(worlds.story) > 1:
        worlds.reset()
    return worlds


@pytest.fixture(scope="session")
def autos(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Yield a world of models of plain SQL, all of them unbuilt."""
    models = [*(name for name in EXPECTED if name.startswith("auto_")), "high_or_low"]
    yield from _made(spark, "auto", tmp_path_factory.mktemp("auto"), models)


@pytest.fixture(scope="module")
def worlds_of_module(
    request: pytest.FixtureRequest, spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """Yield a world for the test module, with its MODELS and no others."""
    name = request.module.__name__.rpartition(".")[2]
    yield from _made(spark, name, tmp_path_factory.mktemp(name), request.module.MODELS)


def _made(spark: Any, name: str, folder: Path, models: Iterable[str]) -> Iterator[World]:
    made = World(spark, name, folder / "project", models)
    yield made
    for schema in (made.schema, made.inputs):
        spark.sql(f"drop schema if exists {schema} cascade")


@pytest.fixture
def small_world(worlds_of_module: World) -> World:
    """Return the module's world as the test before left it, its tables up to date."""
    return worlds_of_module.sound(worlds_of_module.models)
