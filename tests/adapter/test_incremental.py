"""Run the published tests of `incremental`."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.incremental import test_incremental_microbatch as microbatch
from dbt.tests.adapter.incremental.test_incremental_on_schema_change import (
    BaseIncrementalOnSchemaChange,
)
from dbt.tests.adapter.incremental.test_incremental_predicates import BaseIncrementalPredicates
from dbt.tests.adapter.incremental.test_incremental_unique_id import BaseIncrementalUniqueKey
from dbt.tests.util import run_dbt

from .spark import classes

REPEATED = (
    "The rows of this model repeat its key. A run with `auto` leaves the rows of its SQL, so it"
    " refuses a key that does not tell them apart (HW_REPEATED_KEYS)."
)


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


class TestIncrementalUniqueKey(BaseIncrementalUniqueKey):
    """A key without its column fails in the first run already."""

    def fail_to_build_inc_missing_unique_key_column(self, incremental_model_name: str) -> Any:
        run_dbt(["seed", "--select", "seed", "--full-refresh"])
        run = ["run", "--select", incremental_model_name]
        [result] = run_dbt([*run, "--full-refresh"], expect_pass=False).results
        [again] = run_dbt(run, expect_pass=False).results
        assert again.message == result.message
        return result.status, result.message


class TestIncrementalOnSchemaChange(BaseIncrementalOnSchemaChange):
    """Delta drops columns from tables with column mapping."""

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        mapping = {"delta.columnMapping.mode": "name"}
        return {"models": {"+tblproperties": mapping, "+allow_protocol_upgrade": True}}


class TestMicrobatch(microbatch.BaseMicrobatch):
    """A batch replaces its period, and does not need `unique_key`, which it refuses."""

    @pytest.fixture(scope="class")
    def microbatch_model_sql(self) -> str:
        return str(microbatch._microbatch_model_sql).replace("unique_key='id', ", "")


classes(
    __name__,
    "incremental",
    auto=("TestIncrementalUniqueKey", "TestIncrementalOnSchemaChange"),
    without={
        "TestIncrementalOnSchemaChangeWithAuto": "A run with `auto` takes the columns of its SQL,"
        " so it refuses `on_schema_change`.",
        **{
            f"TestIncrementalUniqueKeyWithAuto.test__{name}": REPEATED
            for name in (
                "one_unique_key",
                "unary_unique_key_list",
                "duplicated_unary_unique_key_list",
                "trinary_unique_key_list",
            )
        },
    },
)
