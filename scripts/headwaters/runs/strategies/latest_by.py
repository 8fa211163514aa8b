"""`change_feed` with `latest_by`: the greatest row of each key.

Inserted rows are compared with the table's. After updates and deletes the affected keys are
recomputed, because only the input has the next greatest row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headwaters.runs import bounds as bounding
from headwaters.runs.decisions import is_broadcast, most_of_rows
from headwaters.runs.inputs import followed, with_inputs
from headwaters.runs.model import names_in
from headwaters.runs.plan import Facts
from headwaters.runs.session import DbtColumn
from headwaters.runs.strategies.base import Share, named
from headwaters.runs.strategies.keyed import Keyed
from headwaters.runs.work import Work


class LatestBy(Keyed):
    """Keep the greatest row of each key."""

    prunes_inserts = True

    def full_refresh_sql(self, sql: str, columns: Sequence[DbtColumn]) -> str:
        """Return the greatest row of each key."""
        order = named(names_in(self.config, "latest_by"))
        return str(self.sql("hw_latest_rows_sql", sql, order, named(self.model.keys)))

    def change_set_sql(
        self, work: Work, sql: str, columns: Sequence[DbtColumn], bounds: Sequence[Any]
    ) -> str:
        """Return the greater rows, or the recomputed rows of the affected keys."""
        spec, keys = followed(work.plan.inputs), self.model.keys
        changes = work.range_of(spec["source"])
        if not changes.inserts_only:
            rows = self.full_refresh_sql(
                str(self.sql("hw_rows_of_touched_keys_sql", sql, keys)), []
            )
            # the columns of `prune_by` need not be the same in the target's row of a key
            return self.recomputed_sql(work, sql, keys, rows, columns, bounds[: len(keys)])
        inserted = with_inputs(
            sql, {spec["text"]: self.sql("hw_net_rows", changes, spec["source"], 1)}
        )
        model = self.model
        held = str(model.target)
        if is_broadcast(work.plan.rows):
            held = self.sql("hw_rows_of_few_keys_sql", held, "_winners", keys)
        order = names_in(self.config, "latest_by")
        return str(
            self.sql(
                "hw_newer_rows_sql",
                held,
                self.full_refresh_sql(inserted, []),
                keys,
                order,
                bounding.within_bounds(bounds, "_target"),
                model.beside_sql("_old._row"),
            )
        )

    def affected_keys_sql(self, work: Work, sql: str) -> str:
        """Return the keys of every changed row."""
        spec = followed(work.plan.inputs)
        images = self.sql("hw_all_rows", work.range_of(spec["source"]), spec["source"])
        rows = with_inputs(sql, {spec["text"]: images})
        return str(
            self.sql("hw_keys_of_changed_rows_sql", rows, named(self.affected_key_columns(work)))
        )

    def affected_key_columns(self, work: Work) -> list[str]:
        """Return the key, and the columns of `prune_by`, which it determines."""
        columns = list(self.model.keys)
        for column in names_in(self.config, "prune_by"):
            if column.lower() not in map(str.lower, columns):
                columns.append(column)
        return columns

    def share_changed(self, work: Work) -> Share:
        """Return the share of changed rows in the table. Runs a statement."""
        inserts = self.way(work.plan) == "inserts"
        return self.rows_changed(work, most_of_rows("inserts") if inserts else 0.05)

    def facts(self, work: Work) -> Facts:
        """Gather the facts of the affected keys."""
        return replace(self.facts_of_keys(work), of_rows=True)
