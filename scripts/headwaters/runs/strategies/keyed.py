"""The recomputation of affected keys: the queries for them, and their storage in a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headwaters.runs import bounds as bounding
from headwaters.runs import client_rows as in_memory
from headwaters.runs.client_rows import ClientRows
from headwaters.runs.decisions import is_small_change, is_worth_storing
from headwaters.runs.model import names_in
from headwaters.runs.plan import Facts
from headwaters.runs.session import DbtColumn, ViewsInMemory
from headwaters.runs.strategies.base import Lost, Share, Strategy, named
from headwaters.runs.work import Work


class Keyed(Strategy):
    """A strategy that recomputes the rows of affected keys."""

    def affected_keys_sql(self, work: Work, sql: str) -> str:
        """Return the affected keys, from the change feeds."""
        raise NotImplementedError

    def affected_key_columns(self, work: Work) -> list[str]:
        """Return the columns of the affected keys."""
        raise NotImplementedError

    def known_keys(self, work: Work, sql: str) -> str:
        """Return the affected keys, without the change feeds if they are already known."""
        return work.plan.facts.known_keys or self.affected_keys_sql(work, sql)

    def recomputed_sql(
        self,
        work: Work,
        sql: str,
        key: Sequence[str],
        recomputed: str,
        columns: Sequence[DbtColumn],
        bounds: Sequence[Any],
    ) -> str:
        """Return the recomputed rows of the affected keys, compared with those of the target.

        `recomputed` may use `_touched`, the keys.
        """
        model, affected = self.model, self.known_keys(work, sql)
        touched = touched_rows(self.sql, key, bounds)
        if not model.keys:
            return str(
                self.sql(
                    "hw_recomputed_without_key_sql",
                    model.target,
                    affected,
                    touched,
                    recomputed,
                    columns,
                )
            )
        beside = model.beside_sql("_old._row")
        return str(
            self.sql(
                "hw_recomputed_sql", model.target, affected, touched, recomputed, model.keys, beside
            )
        )

    def share_changed(self, work: Work) -> Share | Lost:
        """Return the share of affected keys in the table. Runs a statement."""
        key = self.affected_key_columns(work)
        unique = names_in(self.config, "unique_key")
        rows_are_keys = sorted(map(str.lower, key)) == sorted(map(str.lower, unique))
        count = "count(*)" if rows_are_keys else f"approx_count_distinct(struct({named(key)}))"
        sql = self.sql(
            "hw_share_of_keys_sql",
            self.model.target,
            self.affected_keys_sql(work, self.model.sql),
            count,
        )
        reading = work.read(sql)
        if reading.gap:
            return Lost(reading.gap)
        row = reading.rows[0]
        return Share(int(row["touched"]), int(row["present"]), "affected keys", 0.3)

    def facts_of_keys(self, work: Work, others: Sequence[str] = ()) -> Facts:
        """Return the bounds of the affected keys, and the keys: literals if few, or stored.

        `others` select the keys' columns. Runs one statement, two if the keys are stored.
        """
        columns = self.affected_key_columns(work)
        list_rows = is_small_change(work.plan.rows)
        views = self.connection.views
        if list_rows and views:
            small = self._facts_of_few_keys(work, views, columns, others)
            if small:
                return small
        known = Facts() if list_rows else self._store_keys(work, Facts())
        if known.gap:
            return known
        held = self.sql("hw_type_of", f"select * from {self.model.target}")
        types = [f"{held} as held", f"{self.sql('hw_type_of', self.model.sql)} as given"]
        keys = known.known_keys or self.affected_keys_sql(work, self.model.sql)
        question = self.sql(
            "hw_affected_bounds_sql",
            self.model.target,
            keys,
            columns,
            list_rows,
            list(others),
            types,
        )
        reading = work.read(question)
        if reading.gap:
            return Facts(gap=reading.gap)
        row = reading.rows[0]
        same_types = int(row["types"]) == 1
        bounds = bounding.bounds_of(row, columns, list_rows) if same_types else []
        known = replace(known, bounds=bounds, same_columns=row["held"] == row["given"])
        if not known.known_keys:
            rows = bounding.listed(row) if list_rows else []
            known = replace(known, known_keys=bounding.keys_as_sql(rows, bounds))
        if not known.known_keys and is_worth_storing(work.plan.rows):
            # with the feeds in their present form: the statement may have found U+FFFD in them
            known = self._store_keys(work, known)
        return known

    def _facts_of_few_keys(
        self, work: Work, views: ViewsInMemory, columns: Sequence[str], others: Sequence[str]
    ) -> Facts | None:
        """Return the facts of keys that the client has. Runs one statement.

        Return None if the keys are too many, or cannot be written as literals.
        """
        target, model, type_of = self.model.target, self.model, views.type_of_query
        names = named(columns)
        keys = f"select {names} from (\n{self.affected_keys_sql(work, model.sql)}\n)"
        reading = work.read(keys, lambda sql: self.connection.client_rows(sql, set(columns)))
        if reading.gap:
            return Facts(gap=reading.gap)
        rows: ClientRows | None = reading.rows
        if rows is None:
            return None
        # the texts '9' and '10' have another order than the numbers
        sides = [f"select {names} from {target}", *others]
        if any(type_of(side) != rows.type_without([]) for side in sides):
            return None
        bounds = in_memory.bounds_of(rows, columns, has_rows=True)
        known_keys = bounding.keys_as_sql(in_memory.key_rows(rows, columns), bounds)
        if not known_keys and is_worth_storing(work.plan.rows):
            return None
        same = type_of(f"select * from {target}") == type_of(model.sql)
        return Facts(bounds=bounds, same_columns=same, known_keys=known_keys)

    def _store_keys(self, work: Work, known: Facts) -> Facts:
        stored = work.store("keys", self.affected_keys_sql(work, self.model.sql))
        keys = f"select * from {stored.relation}"
        return replace(known, gap=stored.gap, known_keys=keys, are_stored=True)


def touched_rows(sql: Any, key: Sequence[str], bounds: Sequence[Any]) -> str:
    """Return the restriction of `_target` to the affected keys: a join, unless bounds list them."""
    within = bounding.within_bounds(bounds, "_target")
    join = [] if bounding.lists_all(bounds) else key
    return str(sql("hw_touched_rows_sql", join, within))
