"""Run the published tests of `simple_copy`."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.simple_copy.test_copy_uppercase import BaseSimpleCopyUppercase

from .spark import classes


class TestSimpleCopyUppercase(BaseSimpleCopyUppercase):
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, remote: str) -> dict[str, Any]:
        settings = {"spark.remote": remote, "spark.sql.sources.default": "delta"}
        return {"type": "headwaters", "threads": 4, "server_side_parameters": settings}


classes(
    __name__,
    "simple_copy",
    auto=("TestSimpleCopyBase",),
    without={
        "TestSimpleCopyBase.test_simple_copy_with_materialized_views": "A session of Spark has no"
        " materialized views.",
    },
)
