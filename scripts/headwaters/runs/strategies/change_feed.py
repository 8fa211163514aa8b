"""`change_feed`: each row of the followed input makes separate rows of the model.

The table gains the result of the SQL over inserted rows, and loses that over deleted rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwaters.runs.decisions import is_worth_storing, most_of_rows, way_of_ranges
from headwaters.runs.inputs import Spec, followed, with_inputs
from headwaters.runs.plan import Facts
from headwaters.runs.session import DbtColumn
from headwaters.runs.strategies.base import Share, Strategy, Tried
from headwaters.runs.work import Work


class ChangeFeed(Strategy):
    """Apply the SQL to net inserted and net deleted rows."""

    repeated_keys = "queried"
    prunes_inserts = True

    def change_set_sql(
        self, work: Work, sql: str, columns: Sequence[DbtColumn], bounds: Sequence[Any]
    ) -> str:
        """Return the rows that the table gains and loses."""
        spec = followed(work.plan.inputs)
        changes, model = work.range_of(spec["source"]), self.model
        inserted = with_inputs(sql, {spec["text"]: self._net_rows(work, spec, 1)})
        if changes.inserts_only:
            return str(self.sql("hw_inserted_rows_sql", inserted, model.beside_sql()))
        deleted = with_inputs(sql, {spec["text"]: self._net_rows(work, spec, -1)})
        if not model.keys:
            return str(
                self.sql("hw_difference_without_key_sql", model.target, inserted, deleted, columns)
            )
        beside = model.beside_sql("_old._row")
        return str(self.sql("hw_difference_sql", inserted, deleted, model.keys, beside))

    def _net_rows(self, work: Work, spec: Spec, sign: int) -> str:
        return str(self.sql("hw_net_rows", work.range_of(spec["source"]), spec["source"], sign))

    def share_changed(self, work: Work) -> Share:
        """Return the share of changed rows in the table. Runs a statement."""
        return self.rows_changed(work, most_of_rows(way_of_ranges(work.plan.ranges.values())))

    def facts(self, work: Work) -> Facts:
        """Compare the columns if those of the input changed; store the changed rows if many.

        Rows of other types, such as a struct with one more field, cannot be compared.
        """
        changes = work.range_of(followed(work.plan.inputs)["source"])
        may_differ = changes.columns_added or changes.columns_altered or bool(changes.replaced)
        if may_differ and not self.has_types_of(self.model.sql):
            return Facts(same_columns=False)
        return Facts(gap=store_feed(work))

    def tried_rows(self, inputs: Sequence[Spec]) -> Tried | None:
        """Return rows of the followed input."""
        spec = followed(inputs)
        if self.settings.allow_nondeterministic or spec["version"] is None:
            return None
        return Tried(spec, "monotonically_increasing_id()")

    def difference_text(self, spec: Spec, name: str) -> str:
        """Return the error of a row that depends on more than one row of the input."""
        return (
            f"{self.model.target} gives other rows for {spec['source']} as a whole than for one "
            "half of its rows and the other: a row of its result depends on more than one row of "
            "the input, or on none, as in an outer join that keeps all rows of a lookup. Use "
            "affected_keys, which recomputes whole keys."
        )


def store_feed(work: Work) -> str | None:
    """Store more than a few changed rows, in the form of the change feed. Return a gap, if any.

    The change set reads them twice, for the new rows and for the old ones.
    """
    source = followed(work.plan.inputs)["source"]
    changes = work.range_of(source)
    if changes.inserts_only or changes.at_hand or not is_worth_storing(changes.rows):
        return None
    stored = work.store("feed", f"select * from {work.feed(source)}")
    if not stored.gap:
        work.with_range(source, work.range_of(source).with_rows_at_hand(str(stored.relation)))
    return stored.gap
