"""Run the published tests of `dbt_show`."""

from __future__ import annotations

from dbt.tests.adapter.dbt_show.test_dbt_show import BaseShowDoesNotHandleDoubleLimit

from .spark import classes


class TestShowDoesNotHandleDoubleLimit(BaseShowDoesNotHandleDoubleLimit):
    """Spark's error names the second `limit`."""

    DATABASE_ERROR_MESSAGE = "limit"


classes(__name__, "dbt_show")
