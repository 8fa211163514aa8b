"""Run the published tests of `ephemeral`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dbt.tests.adapter.ephemeral.test_ephemeral import BaseEphemeralMulti, BaseEphemeralNested
from dbt.tests.util import check_relations_equal, run_dbt

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


class TestEphemeralMulti(BaseEphemeralMulti):
    """The published test, with Spark's statement for a view."""

    def test_ephemeral_multi(self, project: Any) -> None:
        run_dbt(["seed"])
        assert len(run_dbt(["run"])) == 3
        for model in ("dependent", "double_dependent", "super_dependent"):
            check_relations_equal(project.adapter, ["seed", model])
        schema = project.test_schema
        written = Path("target/run/test/models/double_dependent.sql").read_text()
        assert "".join(written.split()) == "".join(
            f"create or replace view {schema}.double_dependent as"
            f" with __dbt__cte__base as (select * from {schema}.seed),"
            " __dbt__cte__base_copy as (select * from __dbt__cte__base)"
            "-- base_copy just pulls from base. Make sure the listed"
            "-- graph of CTEs all share the same dbt_cte__base cte"
            "select * from __dbt__cte__base where gender = 'Male'"
            "union all"
            " select * from __dbt__cte__base_copy where gender = 'Female'".split()
        )


classes(__name__, "ephemeral")
