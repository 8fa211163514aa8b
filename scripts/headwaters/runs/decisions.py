"""What the next run of a model does, and why: pure functions from facts to a decision.

headwaters.runs.planning gathers the facts, the cheap ones first, and asks after each group of them;
the first decision counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from headwaters.analysis.sql_text import without_format
from headwaters.runs.session_fingerprint import changed_settings
from headwaters.tables.commits import Range

# A small change needs no question: only what may be a large share of the work is compared with all
# of it.
FEW_ROWS = 10_000

# A stored part costs two statements: below, reading the change feed again costs less.
ROWS_WORTH_STORING = 1_000
MOST_ROWS_BROADCAST = 100_000

# An incremental run applies rows that were only inserted, or any changes. New rows are appended,
# which costs much less.
Way = Literal["inserts", "changes"]


@dataclass(frozen=True)
class Decision:
    """A decision to skip the run, to replace the table, or to apply the changes."""

    choice: Literal["skip", "replace", "incremental"]
    reason: str


def of_request(
    *, exists: bool, is_empty: bool, is_sample: bool, full_refresh: bool
) -> Decision | None:
    """What was asked for decides, whatever the table says."""
    if not exists:
        return Decision("replace", "first run")
    if is_empty:
        return Decision("skip", "no changes: --empty reads no rows")
    if is_sample:
        return Decision("replace", "a sample was asked for")
    if full_refresh:
        return Decision("replace", "full refresh asked for")
    return None


def of_state(
    *,
    inputs: Mapping[str, Any] | None,
    built_by: str | None,
    would_be_built_by: str,
    partitions: Sequence[str],
    clustering: Sequence[str],
    partition_by: Sequence[str],
    why_not: str | None = None,
) -> Decision | None:
    """Whether the table is one that this model's SQL and settings built.

    `inputs` are the applied versions that the table names; `partitions` and `clustering` its
    columns; `partition_by` the model's. A text that is only formatted in another way is the same.
    `why_not` is why the table cannot follow the change of its SQL, or None.
    """
    if inputs is None:
        return Decision("replace", "the table does not name the applied versions of its inputs")
    same = [name.lower() for name in partitions] == [name.lower() for name in partition_by]
    # a table that is clustered where the model says partitioned keeps what apply_tables gave it;
    # asked before the SQL, which partition columns are a part of
    if not same and not (partition_by and clustering):
        return Decision("replace", "the table is not partitioned as the model says")
    if built_by is None or without_format(built_by) != without_format(would_be_built_by):
        reasons = [why_not] if why_not else changed_settings(built_by or "", would_be_built_by)
        because = f"{'; '.join(reasons)}: " if reasons else ""
        return Decision(
            "replace", f"{because}the SQL and settings of the model are not what built the table"
        )
    return None


def of_changes(rows: int) -> Decision | None:
    """Without changed rows there is nothing to do."""
    return Decision("skip", "no changes") if rows == 0 else None


def way_of_ranges(ranges: Iterable[Range]) -> Way:
    """Return the way of an incremental run over these ranges."""
    return "inserts" if all(one.inserts_only for one in ranges) else "changes"


def most_of_rows(way: Way) -> float:
    """The share of a table's rows above which it costs less to replace them all.

    At 10 million rows, whether the changed ones lie in one place or all over the table.
    """
    return 0.4 if way == "inserts" else 0.08


def of_share(rows: int, share: Mapping[str, Any] | None, above: float | None) -> Decision:
    """Whether a replacement is cheaper: `share` is what the hook `share_changed` gives.

    `above`: the model's own `replace_above`, in place of the strategy's.
    """
    if share is not None:
        part, whole = share["part"], share["whole"]
        if part > whole * (share["above"] if above is None else above):
            percent = min(100 * part / max(whole, 1), 100)
            share_text = f"{percent:.1f}" if percent < 1 else f"{percent:.0f}"
            return Decision("replace", f"{share_text} % of the {share['what']}")
    return Decision("incremental", f"{rows} rows changed")


def is_small_change(rows: int) -> bool:
    """Whether the changed rows are few: their share is not asked for, and their keys are listed."""
    return rows <= FEW_ROWS


def is_worth_storing(rows: int) -> bool:
    """Whether what a change set of so many changed rows reads more than once is stored."""
    return rows > ROWS_WORTH_STORING


def is_broadcast(rows: int) -> bool:
    """Whether what the changed rows lead to, at most one thing a row, is sent everywhere in joins.

    Spark does not know how few rows a change feed has, and would sort the whole table by the key.
    """
    return rows <= MOST_ROWS_BROADCAST


def columns_read(source: str, inputs: Iterable[Mapping[str, Any]]) -> list[str]:
    """The columns of an affected() input that its changes are read for, in lower case.

    Keys, and what leads to them; the rest is read at the input's pinned version.
    """
    columns: list[str] = []
    for spec in inputs:
        if spec["source"] == source and spec["kind"] == "affected":
            columns += spec["on"] if spec.get("via") else spec["key"].values()
    return [column.lower() for column in columns]
