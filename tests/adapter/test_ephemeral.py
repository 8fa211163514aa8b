"""Run the published tests of `ephemeral`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dbt.tests.adapter.ephemeral.test_ephemeral import BaseEphemeralNested
from dbt.tests.util import run_dbt

from .spark import classes


class TestEphemeralNested(BaseEphemeralNested):
    """The published test, with Spark's statement for a view."""

    def test_ephemeral_nested(self, project: Any) -> None:
        assert len(run_dbt(["run"])) == 2
        schema = project.test_schema
        written = Path("target/run/test/models/root_view.sql").read_text()
        assert "".join(written.split()) == "".join(
            f"create or replace view {schema}.root_view as"
            " with __dbt__cte__ephemeral_level_two as ("
            f"select * from {schema}.source_table"
            "), __dbt__cte__ephemeral as (select * from __dbt__cte__ephemeral_level_two)"
            "select * from __dbt__cte__ephemeral".split()
        )


classes(__name__, "ephemeral")
