"""Tables that are computed in full: replaced, compared, or from parts in hidden tables.

A query is cut (analysis.stages). Hidden tables have the parts that are local to a key, and are
maintained like tables of affected_keys. The rest is computed from them in full, and only differing
rows are written. The model's own state is like that of any other: its whole SQL, and the applied
versions of its inputs. A hidden table may therefore be older or newer than the model's, for example
after a killed run. A run first brings each to its pinned versions of the inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwaters.analysis import with_names
from headwaters.runs.hidden_tables import stage_model
from headwaters.runs.inputs import input_sql
from headwaters.runs.model import followed_sql
from headwaters.runs.plan import Facts
from headwaters.runs.session import DbtColumn
from headwaters.runs.strategies.base import Strategy
from headwaters.runs.work import Work


class Replaced(Strategy):
    """Replace the table when an input changed."""

    repeated_keys = "counted"


class Compared(Strategy):
    """Compute the whole table, and write the differing rows."""

    repeated_keys = "counted"
    has_small_change_sets = False

    def change_set_sql(
        self, work: Work, sql: str, columns: Sequence[DbtColumn], bounds: Sequence[Any]
    ) -> str:
        """Return the differences from the table."""
        return self.differences_from_table_sql(sql, columns)

    def differences_from_table_sql(self, rows: str, columns: Sequence[DbtColumn]) -> str:
        """Return the change set from the table's rows to these rows."""
        model = self.model
        if not model.keys:
            present = f"select * from {model.target}"
            return str(self.sql("hw_counted_change_set_sql", rows, present, columns))
        beside = model.beside_sql("_old._row")
        return str(self.sql("hw_compared_sql", model.target, rows, model.keys, beside))

    def facts(self, work: Work) -> Facts:
        """Compare the types of the columns. Runs a statement."""
        return Facts(same_columns=self.has_types_of(self.model.sql))


class Staged(Compared):
    """Compute the rest of the query from hidden tables, and write the differing rows."""

    def change_set_sql(
        self, work: Work, sql: str, columns: Sequence[DbtColumn], bounds: Sequence[Any]
    ) -> str:
        """Return the differences from the table."""
        return self.differences_from_table_sql(str(work.plan.facts.rest), columns)

    def share_changed(self, work: Work) -> None:
        """Return nothing: the table is compared with the rest after any number of changes."""

    def facts(self, work: Work) -> Facts:
        """Bring the hidden tables to the plan's versions. Runs the statements of a run for each."""
        model, stages, plan = self.model, self.config["stages"], work.plan
        texts = {}
        for number, stage in enumerate(stages["tables"], 1):
            part = stage_model(model, number, stage, plan.inputs)
            texts[f"hw_stage_{number}"] = f"{part.target} version as of {work.bring(part)}"
        by_source = {spec["source"]: spec for spec in plan.inputs}
        for name, source in stages["names"].items():
            texts[name] = input_sql(by_source[source])
        rest = followed_sql(model.session, with_names(stages["rest"], texts), self.config)
        return Facts(same_columns=self.has_types_of(rest), rest=rest)
