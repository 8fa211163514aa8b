"""Run the published tests of `caching`."""

from __future__ import annotations

from typing import Any

from dbt.tests.adapter.caching import test_caching as published
from dbt.tests.util import run_dbt

from .spark import classes


class Cached:
    """The published check, without the database, which Spark does not have."""

    def run_and_inspect_cache(self, project: Any, run_args: list[str] | None = None) -> None:
        found = []
        for _ in range(2):
            run_dbt(run_args)
            [relation] = project.adapter.cache.relations
            found.append((relation.schema.lower(), relation.identifier.lower()))
        assert found == [(project.test_schema, "model")] * 2


class TestCachingLowercaseModel(Cached, published.BaseCachingLowercaseModel):
    pass


class TestCachingUppercaseModel(Cached, published.BaseCachingUppercaseModel):
    pass


class TestCachingSelectedSchemaOnly(Cached, published.BaseCachingSelectedSchemaOnly):
    pass


class TestNoPopulateCache(Cached, published.BaseNoPopulateCache):
    pass


classes(__name__, "caching", but=("BaseCachingTest",))
