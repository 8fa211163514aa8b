"""The common parts of the strategies, and their hooks.

A hook runs statements only if its docstring mentions them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from headwaters.platform.errors import UserError
from headwaters.platform.sql import identifier
from headwaters.runs.decisions import most_of_rows, way_of_ranges
from headwaters.runs.inputs import Spec, with_inputs
from headwaters.runs.model import Model
from headwaters.runs.plan import Facts, Plan
from headwaters.runs.session import DbtColumn, DbtRelation
from headwaters.runs.work import Work, drop_staging_table
from headwaters.tables.commits import Range

# All rows of a sample, and its halves.
HALVES = ("true", "_in_half", "not _in_half")


@dataclass(frozen=True)
class Share:
    """The share of a full refresh that an incremental run would repeat.

    `part` of `whole`, counted in `what`; above the share `above` a replacement costs less.
    """

    part: int
    whole: int
    what: str
    above: float


@dataclass(frozen=True)
class Lost:
    """The reason that the change feeds of a query cannot be read."""

    gap: str


@dataclass(frozen=True)
class Tried:
    """The rows of an input on which a model is tried, and the expression that halves them."""

    spec: Spec
    half: str


@dataclass(frozen=True)
class Look:
    """The inspection of a staging table: counts, and the places of its rows in the target.

    `distinct` counts keys. `misplaced` counts keys that look new within the bounds but are in the
    target beyond them. `nulls`: true for each key column with a null. `missing` counts rows without
    a key that the table should have had.
    """

    rows: int
    inserted: int
    updated: int
    deleted: int
    bytes: int
    stage_type: str | None
    target_type: str | None
    distinct: int = 0
    misplaced: int = 0
    nulls: Sequence[bool] = ()
    within: str = ""
    within_keys: str = ""
    missing: int = 0

    @property
    def same_columns(self) -> bool:
        """Return true if the staging table has the columns of the target."""
        return self.stage_type == self.target_type


class Strategy:
    """A way to maintain a model."""

    # The detection of repeated keys in a replacement: by a query before, within the writing
    # statement, or unnecessary, because there are none.
    repeated_keys: ClassVar[Literal["queried", "counted", "impossible"]] = "impossible"
    # The change set casts its columns to the table's types.
    needs_types: ClassVar[bool] = False
    # A few changed rows of the inputs usually make few changed rows of the table.
    has_small_change_sets: ClassVar[bool] = True
    # The table is searched for inserted rows only within the bounds of prune_by.
    prunes_inserts: ClassVar[bool] = False

    def __init__(self, model: Model) -> None:
        """Prepare to maintain a model."""
        self.model = model
        self.config, self.settings = model.config, model.settings
        self.sql = model.session.macros
        self.connection = model.session.connection

    def full_refresh_sql(self, sql: str, columns: Sequence[DbtColumn]) -> str:
        """Return the SQL of the whole table; `columns` are those of the model's SQL."""
        return sql

    def has_types_of(self, rows: str) -> bool:
        """Return true if the table has the columns of these rows. Runs a statement."""
        held = self.sql("hw_type_of", f"select * from {self.model.target}")
        given = self.sql("hw_type_of", rows)
        types = self.connection.fetch(f"select {held} as held, {given} as given")[0]
        return bool(types["held"] == types["given"])

    def columns_of_full_refresh(self, sql: str) -> Sequence[DbtColumn]:
        """Return the columns of the whole table. Runs a statement."""
        return self.connection.columns(sql)

    def change_set_sql(
        self, work: Work, sql: str, columns: Sequence[DbtColumn], bounds: Sequence[Any]
    ) -> str:
        """Return the changes of the run: the target's columns and `_operation`, one row a key.

        `_operation` is `insert`, `update` or `delete`; `columns` are the target's.
        """
        raise NotImplementedError

    def changed_rows_sql(self, spec: Spec, changes: Range) -> str:
        """Return every changed row of an input, to try the SQL on it."""
        return str(self.sql("hw_all_rows", changes, spec["source"]))

    def share_changed(self, work: Work) -> Share | Lost | None:
        """Return the share of changed rows in the table. Runs a statement."""
        return self.rows_changed(work, most_of_rows("inserts"))

    def rows_changed(self, work: Work, above: float) -> Share:
        """Return the share of changed rows in the table. Runs a statement."""
        rows = self.connection.fetch(f"select count(*) from {self.model.target}")[0][0]
        return Share(work.plan.rows, int(rows), "rows changed", above)

    def check(self, where: str, sql: str, inputs: Sequence[Spec]) -> None:
        """Refuse a model that the strategy cannot maintain, by its text."""

    def tried_rows(self, inputs: Sequence[Spec]) -> Tried | None:
        """Return the rows on which a model is tried before it builds its first table."""
        return None

    def differences_sql(
        self,
        sql: str,
        inputs: Sequence[Spec],
        spec: Spec,
        columns: Sequence[DbtColumn],
        sample: DbtRelation,
    ) -> str:
        """Return SQL of one row. Every value other than 0 and false is a reason to refuse."""
        sides = [self.side_sql(sql, inputs, spec, sample, rows) for rows in HALVES]
        compared = [identifier(column.name) for column in columns]
        return str(self.sql("hw_differences_of_halves_sql", sides, compared, False))

    def side_sql(
        self, sql: str, inputs: Sequence[Spec], spec: Spec, sample: DbtRelation, rows: str
    ) -> str:
        """Return the SQL over some rows of a sample."""
        return with_inputs(
            sql, {spec["text"]: f"(select * except (_in_half) from {sample} where {rows})"}
        )

    def difference_text(self, spec: Spec, name: str) -> str:
        """Return the reason in words."""
        raise NotImplementedError

    def facts(self, work: Work) -> Facts:
        """Gather and store the facts for the change set. May run statements.

        A strategy needs none if it neither compares whole rows with the table's nor unites them.
        The staging table then shows if the columns are the same.
        """
        return Facts()

    def inspect(self, stage: DbtRelation, look: Look) -> None:
        """Refuse a change set that may not be written. May run statements."""

    def before_replace(self, plan: Plan) -> None:
        """Refuse a replacement that loses rows. May run statements."""

    def named_columns(self, sql: str) -> Mapping[str, Sequence[str]]:
        """Return the columns that the SQL names for the engine, by their source."""
        return {}

    def state_properties(self, inputs: Sequence[Spec]) -> Mapping[str, str]:
        """Return further properties of the table's state. May run statements."""
        return {}

    def way(self, plan: Plan) -> str:
        """Return `inserts` if the inputs only have new rows, otherwise `changes`."""
        return way_of_ranges(plan.ranges.values())


def named(columns: Sequence[str], alias: str | None = None) -> str:
    """Return columns for a select list."""
    return ", ".join((f"{alias}." if alias else "") + identifier(column) for column in columns)


def raise_repeated_keys(model: Model, query: str, stage: DbtRelation | None) -> None:
    """Raise if the query finds a repeated key, before anything is written.

    Raises:
        UserError: a key is repeated. The table is unchanged.
    """
    session = model.session
    keys = model.row_keys if stage else model.keys
    rows = session.connection.fetch(session.macros("hw_examples_of_keys_sql", keys, query))
    if not rows:
        return
    if stage:
        drop_staging_table(session.connection, stage)
    examples = "; ".join(", ".join(map(str, row.values())) for row in rows)
    text = str(session.macros("hw_repeated_keys_text", str(model.target), keys))
    raise UserError("HW_REPEATED_KEYS", text.replace("%s", examples))
