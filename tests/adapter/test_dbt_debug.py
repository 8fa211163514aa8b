"""Run the published tests of `dbt_debug`."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.dbt_debug import test_dbt_debug as published

from .spark import classes

USERS = "A session of Spark has no user and no password: a token in the address is its only secret."


class TestDebugPostgres(published.BaseDebugPostgres):
    @pytest.fixture(scope="class")
    def dbt_profile_data(self, unique_schema: str, dbt_profile_target: dict[str, Any]) -> Any:
        target = {**dbt_profile_target, "schema": unique_schema}
        return {"test": {"outputs": {"default": target, "none_target": None}, "target": "default"}}


classes(
    __name__,
    "dbt_debug",
    without={"TestDebugPostgres.test_nopass": USERS, "TestDebugPostgres.test_wronguser": USERS},
)
