"""What a review found, as facts: `compare` and its neighbours fill them in, the pages show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# How a model was touched: `text` (its own tree differs), `upstream` (only what it reads), …
Cause = Literal["added", "removed", "text", "macro", "seed", "properties", "upstream"]
# What is known of a model's rows: `compared` by key or as multisets, of all or a `sample` of them.
Extent = Literal["all", "sample", "none"]


SQL_DIFFERS = "its SQL differs"  # of `what_changed`, where the difference is shown as well


@dataclass(frozen=True)
class Revision:
    """A commit of the project; `title` is the first line of its message."""

    commit: str
    branch: str
    title: str
    is_dirty: bool = False


@dataclass(frozen=True)
class Column:
    """A column on both sides; a type of None: it is not there. `changed`: rows it differs in."""

    name: str
    before: str | None
    after: str | None
    changed: int = 0
    is_masked: bool = False

    @property
    def differs(self) -> bool:
        """Whether values of it, its type or its being there differ."""
        return bool(self.changed) or self.before != self.after


@dataclass(frozen=True)
class Example:
    """One differing row. `before` and `after` have the columns that tell: values are text of at
    most 200 characters, and None where the column is masked."""

    change: Literal["added", "removed", "changed"]
    key: dict[str, str | None]
    before: dict[str, str | None]
    after: dict[str, str | None]


@dataclass(frozen=True)
class Difference:
    """The rows of one table under the base's text and under the branch's, over the same inputs.

    `by_key` is false where rows have no key: they are compared as multisets, and a changed row is
    one removed and one added. `rows_before` and `rows_after` count whole tables. `bytes_read`: the
    size of the files that were compared, None where it is not known.
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

    @property
    def rows(self) -> int:
        """Rows that differ."""
        return self.added + self.removed + self.changed


@dataclass(frozen=True)
class Stays:
    """Whether the branch's incremental runs leave what a full refresh leaves: one was made over
    production's last changes, and compared. `differing` is None where it could not be tried;
    `extent`: whether a sample of the rows was compared."""

    how: str
    differing: int | None
    changed_input_rows: int = 0
    extent: Extent = "all"


@dataclass(frozen=True)
class Effort:
    """What a run costs: seconds, bytes written and read; None where it is not known. `basis`: by
    what it is known."""

    seconds: float | None = None
    bytes_written: int | None = None
    bytes_read: int | None = None
    basis: str = ""


@dataclass(frozen=True)
class Cost:
    """What the one-off costs (`rebuild`, `patch`, `nothing`), and the next run: `seconds` and
    `bytes_written` of the one-off as the branch's build took them, None where they were not
    measured; `predicted` is None where there is no run to go by. `next_measured` is the run that
    was compared with a full refresh."""

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
    """A broken contract or policy, a failed test, a new finding of the linter."""

    kind: Literal["contract", "test", "lint", "property"]
    text: str
    fails: bool
    place: str = ""


@dataclass(frozen=True)
class ModelReview:
    """A reviewed table. `difference` is None if its rows were not compared, and `why_not` is the
    reason and the remedy. `not_compared`: a sentence for each change that no comparison covers."""

    unique_id: str
    name: str
    layer: str
    relation: str
    causes: tuple[Cause, ...]
    what_changed: tuple[str, ...]
    not_compared: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    difference: Difference | None = None
    why_not: str | None = None
    stays: Stays | None = None
    cost: Cost | None = None
    findings: tuple[Finding, ...] = ()
    diff_of_sql: str = ""
    pinned: dict[str, int] | None = None

    @property
    def table(self) -> str:
        """The table as people know it, with its schema or layer."""
        return self.relation or f"{self.layer}.{self.name}"

    @property
    def why_not_compared(self) -> str:
        """The reason alone, for where it is said already that rows were not compared."""
        return (self.why_not or "").removeprefix("not compared: ")

    @property
    def is_one_sided(self) -> bool:
        """Whether only the base or only the branch has the table."""
        return bool({"added", "removed"} & set(self.causes))

    @property
    def is_broken(self) -> bool:
        """Whether a contract, a policy, a test or the proof fails."""
        fails = any(one.fails for one in self.findings)
        return fails or bool(self.stays and self.stays.differing)


@dataclass(frozen=True)
class Edge:
    """One table reads another; ids are dbt's."""

    source: str
    target: str


@dataclass(frozen=True)
class Review:
    """One pull request. `models`: what changed and everything downstream, upstream first;
    `exposures`: names of what reads them; `not_compared`: a sentence for each change outside of
    tables, which no comparison covers; `notes`: what could not be said, and why."""

    base: Revision
    head: Revision
    models: tuple[ModelReview, ...]
    edges: tuple[Edge, ...] = ()
    exposures: tuple[str, ...] = ()
    not_compared: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
