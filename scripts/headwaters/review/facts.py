"""The facts of a review: `compare` and its neighbours produce them, the pages show them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from headwaters.report.pages.texts import number

# The cause of a review: `text` (the model's own SQL differs), `upstream` (only its inputs do), …
Cause = Literal["added", "removed", "text", "macro", "seed", "properties", "upstream"]
# The part of a model's rows that was compared, by key or as multisets.
Extent = Literal["all", "sample", "none"]


SQL_DIFFERS = "its SQL differs"  # in `what_changed`; the page then shows the difference


@dataclass(frozen=True)
class Revision:
    """A commit of the project; `title` is the first line of its message."""

    commit: str
    branch: str
    title: str
    is_dirty: bool = False


@dataclass(frozen=True)
class ComparedColumn:
    """A column on both sides; type None means missing. `changed` counts the rows it differs in."""

    name: str
    before: str | None
    after: str | None
    changed: int = 0
    is_masked: bool = False

    @property
    def differs(self) -> bool:
        """Return true if the column's values, its type or its presence differ."""
        return bool(self.changed) or self.before != self.after


@dataclass(frozen=True)
class Example:
    """A differing row, as `before` and `after` with the columns that matter.

    Values are text of at most 200 characters, and None if the column is masked. `skipped` has the
    number of characters left out of both values of a column, because both begin with them.
    """

    change: Literal["added", "removed", "changed"]
    key: dict[str, str | None]
    before: dict[str, str | None]
    after: dict[str, str | None]
    skipped: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """The rows of one table under the base's SQL and the branch's, over the same inputs.

    If rows have no key, `by_key` is false: they are compared as multisets, and a changed row counts
    as one removed and one added. `rows_before` and `rows_after` count whole tables. `rounded` rows
    differ only in the last digits of floating-point numbers, and count as equal. `bytes_read` is
    the size of the compared files, or None if unknown.
    """

    rows_before: int
    rows_after: int
    added: int
    removed: int
    changed: int
    by_key: bool
    extent: Extent = "all"
    examples: tuple[Example, ...] = ()
    why_no_examples: str | None = None
    bytes_read: int | None = None
    rounded: int = 0

    @property
    def rows(self) -> int:
        """Return the number of rows that differ."""
        return self.added + self.removed + self.changed


@dataclass(frozen=True)
class Stays:
    """A check that the branch's incremental runs leave the rows of a full refresh.

    The review runs the branch over production's last changes and compares the result. `differing`
    is None if it could not run; `extent` is the part of the rows that was compared.
    """

    how: str
    differing: int | None
    changed_input_rows: int = 0
    extent: Extent = "all"

    @property
    def result(self) -> str:
        """Return the result for readers; `how` is its reason."""
        if self.differing is None:
            return "incremental run"
        rows = number(self.changed_input_rows, "changed input row")
        sample = " in a sample" if self.extent == "sample" else ""
        differ = f"{number(self.differing, 'row')} differ{sample} from"
        result = differ if self.differing else f"equal{sample} to"
        return f"incremental run over {rows}: {result} a full refresh"


@dataclass(frozen=True)
class Effort:
    """The cost of a run: seconds, bytes written and read, None if unknown. `basis` explains it."""

    seconds: float | None = None
    bytes_written: int | None = None
    bytes_read: int | None = None
    basis: str = ""


@dataclass(frozen=True)
class Cost:
    """The costs of the one-off (`rebuild`, `patch`, `nothing`) and of the next run.

    `seconds` and `bytes_written` are those of the one-off in the branch's build, None if not
    measured. `predicted` is None if no earlier run allows a prediction. `next_measured` is the run
    that was compared with a full refresh.
    """

    one_off: Literal["rebuild", "patch", "nothing"]
    one_off_reason: str
    next_run: str
    seconds: float | None = None
    bytes_written: int | None = None
    predicted: Effort | None = None
    next_predicted: Effort | None = None
    next_measured: Effort | None = None


@dataclass(frozen=True)
class Finding:
    """A broken contract or policy, a failed test, a new finding of the linter.

    `build`: a model that does not build. `maintenance`: one that its runs no longer maintain
    incrementally.
    """

    kind: Literal["contract", "build", "test", "lint", "property", "maintenance"]
    text: str
    fails: bool
    place: str = ""


@dataclass(frozen=True)
class ModelReview:
    """A reviewed table.

    `difference` is None if its rows were not compared; `why_not` then has the reason and the
    remedy. `not_compared` has a sentence for each change that no comparison covers.
    """

    unique_id: str
    name: str
    layer: str
    relation: str
    causes: tuple[Cause, ...]
    what_changed: tuple[str, ...]
    not_compared: tuple[str, ...] = ()
    columns: tuple[ComparedColumn, ...] = ()
    difference: Difference | None = None
    why_not: str | None = None
    stays: Stays | None = None
    cost: Cost | None = None
    findings: tuple[Finding, ...] = ()
    diff_of_sql: str = ""
    pinned: dict[str, int] | None = None

    @property
    def table(self) -> str:
        """Return the table's name for readers, with its schema or layer."""
        return self.relation or f"{self.layer}.{self.name}"

    @property
    def why_not_compared(self) -> str:
        """Return the reason alone, for texts that already say that rows were not compared."""
        return (self.why_not or "").removeprefix("not compared: ")

    @property
    def is_one_sided(self) -> bool:
        """Return true if only the base or only the branch has the table."""
        return bool({"added", "removed"} & set(self.causes))

    @property
    def is_broken(self) -> bool:
        """Return true if a contract, a policy, a test or the proof fails."""
        fails = any(one.fails for one in self.findings)
        return fails or bool(self.stays and self.stays.differing)


@dataclass(frozen=True)
class Edge:
    """A table that reads another; ids are dbt's."""

    source: str
    target: str


@dataclass(frozen=True)
class Review:
    """The review of one pull request.

    `models` are the changed ones and everything downstream, upstream first. `exposures` are names
    of their readers. `not_compared` has a sentence for each change outside of tables, which no
    comparison covers. `notes` are questions left open, each with the reason. `does_not_parse` is
    dbt's reason if it refuses the branch's project.
    """

    base: Revision
    head: Revision
    models: tuple[ModelReview, ...]
    edges: tuple[Edge, ...] = ()
    exposures: tuple[str, ...] = ()
    not_compared: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    does_not_parse: str = ""
