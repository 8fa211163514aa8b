"""Run the published tests of `dbt_clone`."""

from __future__ import annotations

from typing import Any

from dbt.tests.adapter.dbt_clone.test_dbt_clone import BaseCloneSameSourceAndTarget

from .spark import classes


class TestCloneSameSourceAndTarget(BaseCloneSameSourceAndTarget):
    def test_clone_same_source_and_target(self, project: Any, unique_schema: str) -> None:
        super().test_clone_same_source_and_target(project, unique_schema)
        rows = project.run_sql(f"select * from {unique_schema}_seeds.seed", fetch="all")
        assert len(rows) == 2


classes(
    __name__,
    "dbt_clone",
    without={
        "TestCloneNotPossible": "Delta clones tables, so dbt makes no views in their place.",
    },
)
