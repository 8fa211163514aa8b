"""`history`: SCD type 2. Every change image of the input is a period of validity.

The periods of the affected keys are recomputed from the images of the target's periods and the new
images. If no period follows another one immediately, that one ended with a deletion.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from headwaters.platform.errors import UserError
from headwaters.platform.sql import identifier, literal
from headwaters.runs.decisions import is_broadcast
from headwaters.runs.inputs import Spec, followed, inputs_of, with_inputs, without_inputs
from headwaters.runs.plan import Facts, Plan
from headwaters.runs.reactions import left_as_it_is
from headwaters.runs.session import DbtColumn
from headwaters.runs.strategies.base import Strategy, named
from headwaters.runs.strategies.change_feed import store_feed
from headwaters.runs.work import Work, lost
from headwaters.tables import commits as commits_
from headwaters.tables.commits import Commit, Range, as_mapping
from headwaters.tables.grouping import grouping_of


class History(Strategy):
    """Turn every change image into a period of validity."""

    def full_refresh_sql(self, sql: str, columns: Sequence[DbtColumn]) -> str:
        """Return the periods of all images that the feed retains. Runs statements."""
        spec = followed(inputs_of(sql))
        return self._periods_sql(with_inputs(sql, {spec["text"]: self._all_images(spec)}))

    def columns_of_full_refresh(self, sql: str) -> Sequence[DbtColumn]:
        """Return the columns of the whole table. Runs statements."""
        return self.connection.columns(self.full_refresh_sql(sql, []))

    def _periods_sql(self, sql: str) -> str:
        return str(self.sql("hw_periods_sql", sql, named(self.model.keys)))

    def change_set_sql(
        self, work: Work, sql: str, columns: Sequence[DbtColumn], bounds: Sequence[Any]
    ) -> str:
        """Return the recomputed periods of the affected keys, compared with those of the table."""
        spec, model = followed(work.plan.inputs), self.model
        images = self.changed_rows_sql(spec, work.range_of(spec["source"]))
        return str(
            self.sql(
                "hw_new_periods_sql",
                model.target,
                with_inputs(sql, {spec["text"]: images}),
                model.keys,
                is_broadcast(work.plan.rows),
                model.beside_sql("_old._row"),
            )
        )

    def changed_rows_sql(self, spec: Spec, changes: Range) -> str:
        """Return the images of the range."""
        feed = self.sql("hw_feed_of_range", spec["source"], changes)
        return str(self.sql("hw_images_sql", spec.get("column"), feed, changes.grouping))

    def _all_images(self, spec: Spec) -> str:
        """Return every image from the first version whose changes are still retained.

        They are the rows of that version, and the feed after it. A column that was added later is
        null in those rows.
        """
        first = self._first_known(spec)
        oldest = f"{spec['source']} version as of {first.version}"
        newest = f"{spec['source']} version as of {spec['version']}"
        known = {one.name.lower() for one in self.connection.columns(f"select * from {oldest}")}
        given = self.connection.columns(f"select * from {newest}")
        columns = []
        for column in given:
            name = identifier(column.name)
            absent = f"(select any_value({name}) from {newest} where false) as {name}"
            columns.append(name if column.name.lower() in known else absent)
        feed = None
        if first.version != spec["version"]:
            feed = self.sql("hw_feed_sql", spec["source"], first.version, spec["version"])
        rows = self.sql("hw_snapshot_and_feed_sql", oldest, columns, first, feed)
        grouping = grouping_of((column.name, column.dtype) for column in given)
        return str(self.sql("hw_images_sql", spec.get("column"), rows, grouping))

    def _first_known(self, spec: Spec) -> Commit:
        """Return the oldest commit after which the feed is complete.

        The commits and a trial read of the feed decide. Runs statements.
        """
        source, version = spec["source"], spec["version"]
        commits = self.connection.history(source, 100_000)
        further = [version] if any(one.has_milliseconds for one in commits) else []
        columns = self.sql(
            "hw_columns_around", source, commits_.replacements(commits, version), further
        )
        said = commits_.first_known(source, version, commits, columns)
        known = [one for one in commits if said.version <= one.version <= version]

        def is_readable(after: int) -> bool:
            feed = f"table_changes({literal(source)}, {after + 1}, {version})"
            return lost(self.connection, feed) is None

        first = commits_.first_readable(sorted(one.version for one in known), is_readable)
        return next(one for one in known if one.version == first)

    def state_properties(self, inputs: Sequence[Spec]) -> dict[str, str]:
        """Return the commit with which the table begins. Runs statements."""
        first = self._first_known(followed(inputs))
        return {"headwaters.begins": json.dumps({"version": first.version, "at": first.at})}

    def before_replace(self, plan: Plan) -> None:
        """Refuse, under `on_gap: fail`, a rebuild that would lose the oldest periods.

        That is a rebuild without a request of the user, after the feed has lost the commit with
        which the table begins.
        """
        properties = as_mapping(plan.detail["properties"]) if plan.detail else {}
        begins = json.loads(properties.get("headwaters.begins") or "null")
        if not begins or self.model.on_gap != "fail":
            return
        spec = followed(plan.inputs)
        first = self._first_known(spec)
        if not first.is_same(begins):
            raise UserError(
                "HW_LOST_PERIODS",
                f"{self.model.target} would be rebuilt ({plan.reason}) and lose periods: it "
                f"begins with version {begins['version']} of {spec['source']}, whose feed can be "
                f"read from version {first.version} on. {left_as_it_is(self.model)}",
            )

    def check(self, where: str, sql: str, inputs: Sequence[Spec]) -> None:
        """Refuse a model that does not select `_image`."""
        if not re.search(r"(?i)\b_image\b", without_inputs(sql, inputs)):
            raise UserError(
                "HW_NO_IMAGE",
                f"{where} does not select `_image`: the column of images() that says when each "
                "image became true has to be among those that the model selects.",
            )

    def facts(self, work: Work) -> Facts:
        """Compare the columns, and store the changed rows if they are many."""
        target = self.model.target
        columns = "* except (valid_from, valid_to, is_current)"
        held = self.sql("hw_type_of", f"select {columns} from {target}")
        given = self.sql("hw_type_of", f"select * except (_image) from (\n{self.model.sql}\n)")
        types = self.connection.fetch(f"select {held} as held, {given} as given")[0]
        return Facts(gap=store_feed(work), same_columns=types["held"] == types["given"])
