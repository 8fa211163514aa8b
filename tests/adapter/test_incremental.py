"""Run the published tests of `incremental`."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.incremental.test_incremental_predicates import BaseIncrementalPredicates

from .spark import classes


class TestIncrementalPredicates(BaseIncrementalPredicates):
    """Predicates of a merge: dbt-spark has no `delete+insert`."""

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"models": {"+incremental_predicates": ["dbt_internal_dest.id != 2"]}}


class TestPredicates(BaseIncrementalPredicates):
    """The same under their former name."""

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"models": {"+predicates": ["dbt_internal_dest.id != 2"]}}


classes(
    __name__,
    "incremental",
    auto=("TestIncrementalUniqueKey", "TestIncrementalOnSchemaChange"),
)
