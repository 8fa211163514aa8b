"""Run the published tests of `simple_snapshot`."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Any

from dbt.tests.adapter.simple_snapshot import fixtures
from dbt.tests.adapter.simple_snapshot.test_various_configs import BaseSnapshotDbtValidToCurrent
from dbt.tests.util import check_relations_equal, run_dbt

from .spark import classes


class TestSnapshotDbtValidToCurrent(BaseSnapshotDbtValidToCurrent):
    """The published test finds rows by their places in a table, and this one by their ids."""

    def test_valid_to_current(self, project: Any) -> None:
        project.run_sql(fixtures.create_seed_sql)
        project.run_sql(fixtures.create_snapshot_expected_sql)
        project.run_sql(fixtures.seed_insert_sql)
        project.run_sql(fixtures.populate_snapshot_expected_valid_to_current_sql)

        def ends() -> dict[int, list[datetime]]:
            """Return the ends of the periods of each id."""
            sql = "select id, test_valid_to from snapshot_actual order by test_valid_to"
            found = defaultdict(list)
            for number, end in project.run_sql(
                sql.replace("from ", f"from {project.test_schema}."), fetch="all"
            ):
                found[number].append(end)
            return dict(found)

        current = datetime(2099, 12, 31)
        assert len(run_dbt(["snapshot"])) == 1
        assert ends() == {number: [current] for number in range(1, 21)}
        project.run_sql(fixtures.invalidate_sql)
        project.run_sql(fixtures.update_with_current_sql)
        assert len(run_dbt(["snapshot"])) == 1
        after = ends()
        assert after[1] == [current]
        assert after[10] == [datetime(2016, 8, 20, 16, 44, 49), current]
        assert {number for number, found in after.items() if len(found) == 2} == {*range(10, 21)}
        check_relations_equal(project.adapter, ["snapshot_actual", "snapshot_expected"])


classes(__name__, "simple_snapshot")
