"""What the strategies have in common, and where each may differ: the hooks.

A hook runs no statement, unless it says so.
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
from headwaters.runs.session import Column, Relation
from headwaters.runs.work import Work
from headwaters.tables.commits import Range

# All rows of a sample, and its halves.
HALVES = ("true", "_in_half", "not _in_half")


@dataclass(frozen=True)
class Share:
    """How much of a full refresh an incremental run would do again.

    `part` of `whole`, of which `what` is the name; `above`: the share above which a replacement
    costs less.
    """

    part: int
    whole: int
    what: str
    above: float


@dataclass(frozen=True)
class Lost:
    """Why the change feeds of a question cannot be read."""

    gap: str


@dataclass(frozen=True)
class Tried:
    """The rows of an input that a model is tried with, and by what they are halved."""

    spec: Spec
    half: str


@dataclass(frozen=True)
class Look:
    """What a staging table has: counts, and where its rows are in the target.

    `distinct` keys; `misplaced`: keys that look new within the bounds and lie in the target beyond.
    `nulls`: for each key column, whether it is null somewhere. `missing`: rows without a key that
    the table should have had.
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
        """Whether the staging table has the columns of the target."""
        return self.stage_type == self.target_type


class Strategy:
    """How a model is maintained."""

    # How repeated keys are found when the table is replaced: by a query before, within the
    # statement that writes, or not at all, since there are none.
    repeated_keys: ClassVar[Literal["queried", "counted", "impossible"]] = "impossible"
    # The change set casts its columns to the table's types.
    needs_types: ClassVar[bool] = False
    # Rows that were only inserted are looked for in the table within the bounds of prune_by.
    prunes_inserts: ClassVar[bool] = False

    def __init__(self, model: Model) -> None:
        """Maintain a model."""
        self.model = model
        self.config = model.config
        self.sql = model.session.macros
        self.connection = model.session.connection

    def full_refresh_sql(self, sql: str, columns: Sequence[Column]) -> str:
        """Return the SQL of the whole table; `columns`: what the model's SQL gives."""
        return sql

    def columns_of_full_refresh(self, sql: str) -> Sequence[Column]:
        """Return the columns of the whole table. Runs a statement."""
        return self.connection.columns(sql)

    def change_set_sql(
        self, work: Work, sql: str, columns: Sequence[Column], bounds: Sequence[Any]
    ) -> str:
        """Return what the run changes: the target's columns and `_operation`, one row a key.

        `_operation` is `insert`, `update` or `delete`; `columns`: the target's.
        """
        raise NotImplementedError

    def changed_rows_sql(self, spec: Spec, changes: Range) -> str:
        """Return every changed row of an input, to try the SQL with."""
        return str(self.sql("hw_all_rows", changes, spec["source"]))

    def share_changed(self, work: Work) -> Share | Lost | None:
        """Return the changed rows among those of the table. Runs a statement."""
        return self.rows_changed(work, most_of_rows("inserts"))

    def rows_changed(self, work: Work, above: float) -> Share:
        """Return the changed rows among those of the table. Runs a statement."""
        rows = self.connection.fetch(f"select count(*) from {self.model.target}")[0][0]
        return Share(work.plan.rows, int(rows), "rows changed", above)

    def check(self, where: str, sql: str, inputs: Sequence[Spec]) -> None:
        """Refuse a model that the strategy cannot maintain, by its text."""

    def tried_rows(self, inputs: Sequence[Spec]) -> Tried | None:
        """Return the rows that a model is tried with before it builds its first table."""
        return None

    def differences_sql(
        self,
        sql: str,
        inputs: Sequence[Spec],
        spec: Spec,
        columns: Sequence[Column],
        sample: Relation,
    ) -> str:
        """Return SQL of one row.

        Of which every value that is not 0 or false is a reason to refuse.
        """
        sides = [self.side_sql(sql, inputs, spec, sample, rows) for rows in HALVES]
        compared = [identifier(column.name) for column in columns]
        return str(self.sql("hw_differences_of_halves_sql", sides, compared, False))

    def side_sql(
        self, sql: str, inputs: Sequence[Spec], spec: Spec, sample: Relation, rows: str
    ) -> str:
        """Return the SQL over some rows of a sample."""
        return with_inputs(
            sql, {spec["text"]: f"(select * except (_in_half) from {sample} where {rows})"}
        )

    def difference_text(self, spec: Spec, name: str) -> str:
        """Return the reason in words."""
        raise NotImplementedError

    def facts(self, work: Work) -> Facts:
        """Return, and store, what the change set needs. May run statements.

        Where rows are neither compared whole with the table's nor put under them, nothing has to be
        known: whether the columns are the same is seen in the staging table.
        """
        return Facts()

    def inspect(self, stage: Relation, look: Look) -> None:
        """Refuse what may not be written. May run statements."""

    def before_replace(self, plan: Plan) -> None:
        """Refuse a replacement that loses rows. May run statements."""

    def named_columns(self, sql: str) -> Mapping[str, Sequence[str]]:
        """Return columns that the SQL names for the engine, by what names them."""
        return {}

    def state_properties(self, inputs: Sequence[Spec]) -> Mapping[str, str]:
        """Return what else the table says of itself. May run statements."""
        return {}

    def way(self, plan: Plan) -> str:
        """Return `inserts` if the inputs only got new rows, otherwise `changes`."""
        return way_of_ranges(plan.ranges.values())


def named(columns: Sequence[str], alias: str | None = None) -> str:
    """Return columns for a select list."""
    return ", ".join((f"{alias}." if alias else "") + identifier(column) for column in columns)


def raise_repeated_keys(model: Model, query: str, stage: Relation | None) -> None:
    """Raise if the query finds a key that comes twice, before anything is written.

    Raises:
        UserError: a key comes twice. The table is unchanged.
    """
    session = model.session
    keys = model.row_keys if stage else model.keys
    rows = session.connection.fetch(session.macros("hw_examples_of_keys_sql", keys, query))
    if not rows:
        return
    if stage:
        session.connection.execute(f"drop table if exists {stage}")
    examples = "; ".join(", ".join(map(str, row.values())) for row in rows)
    text = str(session.macros("hw_repeated_keys_text", str(model.target), keys))
    raise UserError("HW_REPEATED_KEYS", text.replace("%s", examples))
