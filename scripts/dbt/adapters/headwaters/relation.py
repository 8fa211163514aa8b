"""The relation that `ref()` and `source()` give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dbt.adapters.base.relation import EventTimeFilter
from dbt.adapters.contracts.relation import ComponentName
from dbt.adapters.spark.relation import SparkRelation

from headwaters.platform.nodes import is_other_catalog
from headwaters.platform.problems import Problem
from headwaters.platform.sql import accepted, literal

_TYPES = ("timestamp", "timestamp_ntz", "date")


@dataclass(frozen=True, eq=False, repr=False)
class HeadwatersRelation(SparkRelation):
    """A relation of dbt-spark that Delta's statements accept, and with a checked event time.

    Names that Delta's grammar reserves are quoted. A source may be in another catalog of the
    session, whose name is its `database`.

    dbt compares the column of the event time with a text. Spark would compare a number with NULL,
    and a text letter by letter, so that a batch or a sample would lack rows. Spark removes the
    check when it plans.
    """

    def __post_init__(self) -> None:
        """Accept a database, which dbt-spark refuses without a word of the source that has it."""

    def _render_iterator(self) -> Iterator[tuple[ComponentName | None, str | None]]:
        for key, part in super()._render_iterator():
            if key is ComponentName.Database and is_other_catalog(self.database):
                part = self.database
            yield key, accepted(part) if part else part

    def _render_event_time_filtered(self, event_time_filter: EventTimeFilter) -> str:
        condition = super()._render_event_time_filtered(event_time_filter)
        if not condition:
            return condition
        name = event_time_filter.field_name
        problem = Problem(
            "HW_NO_EVENT_TIME",
            f"{self.render()} has event_time: {name}, which is neither a timestamp nor a date. "
            "Declare a column that is one, or leave event_time out and filter in the SQL. Its "
            "type: ",
        )
        allowed = ", ".join(map(literal, _TYPES))
        failure = f"raise_error(concat({literal(str(problem))}, typeof({name})))"
        return f"if(typeof({name}) in ({allowed}), {condition}, {failure})"
