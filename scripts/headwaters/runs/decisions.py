"""The decisions about the next run of a model, and their reasons: pure functions over facts.

headwaters.runs.planning gathers the facts, the cheap ones first, and consults a function after each
group of them. The first decision counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from headwaters.analysis import without_format
from headwaters.platform.delta_version import has_replace_on
from headwaters.runs.session_fingerprint import changed_settings
from headwaters.tables.commits import Range
from headwaters.tables.settings import ModelSettings

# A small change needs no query. Only a change that may be a large share of the work is compared
# with the whole.
FEW_ROWS = 10_000

# A stored part costs two statements. Below this limit, reading the change feed again costs less.
ROWS_WORTH_STORING = 1_000
MOST_ROWS_BROADCAST = 100_000

# Above this share of differing rows, a replacement costs less than a comparison: it writes the rows
# once, and its followers are replaced either way.
MOST_DIFFERING = 0.3

# Below this number of rows in a table and its inputs, and of bytes in the table, a run computes the
# table in full. Finding and applying changes costs as much CPU: docs/benchmarks.md.
MOST_ROWS_WHOLE = 2_000_000
MOST_BYTES_WHOLE = 128 * 1024 * 1024

# A merge's change files are cheaper to read, which counts if many models read them.
MOST_FOLLOWERS = 3

# The reason of a run whose SQL or settings differ, alone or after a more exact one.
OTHER_SQL = "the SQL and settings of the model are not what built the table"

# A model with one of these settings has chosen between replacing its table and applying changes.
_CHOOSES = ("refresh", "replace_above", "apply_by", "on_gap", "on_foreign_write")

# An incremental run applies only inserted rows, or any changes. It appends new rows, which costs
# much less.
Way = Literal["inserts", "changes"]

# The setting `refresh`: replace the table, do so with a warning, or fail.
Refresh = Literal["auto", "incremental", "strict"]


@dataclass(frozen=True)
class Size:
    """The rows of a table, and the rows of each of its inputs.

    Both may have become fewer. `differed`: the share of the table's rows that differed in the last
    comparison with the whole result, or None. `bytes`: those that the last replacement wrote, or 0
    if they are not known.
    """

    inputs: Mapping[str, int]
    rows: int
    differed: float | None = None
    bytes: int = 0

    @classmethod
    def parse(cls, text: str | None) -> Size | None:
        """Parse a table property. Return None if it is absent or damaged."""
        try:
            size = cls(**json.loads(text)) if text else None
            return size if size and size.read + size.rows >= 0 else None
        except (ValueError, TypeError, AttributeError):
            return None

    def __str__(self) -> str:
        """Return the text of the table property."""
        return json.dumps(asdict(self))

    @property
    def read(self) -> int:
        """Return the rows of all inputs."""
        return sum(self.inputs.values())

    def is_below(self, limit: int) -> bool:
        """Return true if the table and its inputs have fewer rows."""
        return self.read + self.rows < limit

    def after(self, changes: Iterable[Range]) -> Size:
        """Return the size after these changes of inputs, at most.

        An input that was replaced has only the rows that were written since.
        """
        inputs = dict(self.inputs)
        for one in changes:
            before = 0 if one.replaced else inputs.get(one.source, 0)
            inputs[one.source] = before + one.rows
        return replace(self, inputs=inputs)


@dataclass(frozen=True)
class Decision:
    """A decision to skip the run, to replace the table, or to apply the changes.

    `is_requested`: the user requested the replacement, the table does not exist yet, or it is
    small, so that `refresh: strict` allows the decision. `remedy`
    avoids a replacement that was not requested. `compares`: the run computes the whole table, and
    writes the rows that differ from it.
    """

    choice: Literal["skip", "replace", "incremental"]
    reason: str
    is_requested: bool = False
    remedy: str = ""
    compares: bool = False


def of_request(
    *, exists: bool, is_empty: bool, is_sample: bool, full_refresh: bool
) -> Decision | None:
    """Decide by the request alone, regardless of the table's state."""
    if not exists:
        return Decision("replace", "first run", is_requested=True)
    if is_empty:
        return Decision("skip", "no changes: --empty reads no rows")
    if is_sample:
        return Decision("replace", "a sample was asked for", is_requested=True)
    if full_refresh:
        return Decision("replace", "full refresh asked for", is_requested=True)
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
    """Decide by the table's state: this model's SQL and settings must have built it.

    `inputs` has the applied versions that the table names, `partitions` and `clustering` its
    columns, `partition_by` the model's. Formatting alone does not change a text. `why_not` is the
    reason that the table cannot follow the change of its SQL, or None.
    """
    if inputs is None:
        return Decision("replace", "the table does not name the applied versions of its inputs")
    same = [name.lower() for name in partitions] == [name.lower() for name in partition_by]
    # a clustered table of a model with partitions keeps the layout that apply_tables gave it;
    # checked before the SQL, which includes the partition columns
    if not same and not (partition_by and clustering):
        return Decision("replace", "the table is not partitioned as the model says")
    if built_by is None or without_format(built_by) != without_format(would_be_built_by):
        if why_not:
            return Decision("replace", f"changed SQL: {why_not}")
        settings = changed_settings(built_by or "", would_be_built_by)
        return Decision(
            "replace", f"changed settings: {'; '.join(settings)}" if settings else OTHER_SQL
        )
    return None


def of_changes(rows: int) -> Decision | None:
    """Decide to skip the run if no rows changed."""
    return Decision("skip", "no changes") if rows == 0 else None


def way_of_ranges(ranges: Iterable[Range]) -> Way:
    """Return the way of an incremental run over these ranges."""
    return "inserts" if all(one.inserts_only for one in ranges) else "changes"


def most_of_rows(way: Way) -> float:
    """Return the share of a table's rows above which a replacement of all rows costs less.

    Measured at 10 million rows, with the changed ones in one place or all over the table.
    """
    return 0.4 if way == "inserts" else 0.08


def of_share(rows: int, share: Mapping[str, Any] | None, above: float | None) -> Decision:
    """Decide if a replacement is cheaper: `share` is the result of the hook `share_changed`.

    `above`: the model's own `replace_above`, which overrides the strategy's.
    """
    if share is not None:
        part, whole = share["part"], share["whole"]
        if part > whole * (share["above"] if above is None else above):
            percent = min(100 * part / max(whole, 1), 100)
            share_text = f"{percent:.1f}" if percent < 1 else f"{percent:.0f}"
            return Decision(
                "replace",
                f"{share_text} % of the {share['what']}",
                remedy="replace_above: 1 applies changes of any size",
            )
    return Decision("incremental", f"{rows} rows changed")


def of_refresh(refresh: Refresh, *, is_requested: bool) -> Literal["allowed", "warned", "refused"]:
    """Return the reaction of a run to the replacement of its table, by the setting `refresh`."""
    if is_requested or refresh == "auto":
        return "allowed"
    return "warned" if refresh == "incremental" else "refused"


def may_compare(strategy: str, settings: ModelSettings, has_expectations: bool) -> bool:
    """Return true if a comparison with the whole result leaves the table of a full refresh.

    A history keeps rows that its inputs lost. Models with `allow_nondeterministic`, or with
    `on_lookup_change: ignore`, keep rows as an earlier run wrote them. Expectations count the rows
    that a full refresh drops.
    """
    return strategy in _COMPARABLE and not settings.keeps_results and not has_expectations


# Equal rows of these strategies are the same rows for an incremental run as well.
_COMPARABLE = ("change_feed", "affected_keys", "led_keys", "replace")


def instead_of_replacing(decision: Decision, size: Size | None) -> Decision:
    """Return a comparison instead of a replacement, for a table that other models follow.

    They would read every row of the replacement as deleted and inserted.
    """
    if size and size.differed is not None and size.differed > MOST_DIFFERING:
        return decision
    return replace(decision, choice="incremental", compares=True)


def limit_of_whole(settings: ModelSettings, size: Size | None, *, is_auto: bool) -> int:
    """Return the limit of `of_size`: the model's own, or the default.

    The default applies to `auto` without a setting that chooses the way of a run, and to tables of
    few bytes.
    """
    if settings.whole_below is not None:
        return settings.whole_below
    chooses = any(getattr(settings, name) is not None for name in _CHOOSES)
    is_wide = size is not None and size.bytes >= MOST_BYTES_WHOLE
    return MOST_ROWS_WHOLE if is_auto and not chooses and not is_wide else 0


def may_be_whole(strategy: str, settings: ModelSettings, has_expectations: bool) -> bool:
    """Return true if a run may compute a small table in full: see `may_compare`."""
    comparable = "replace" if strategy == "staged" else strategy
    return may_compare(comparable, settings, has_expectations)


def of_size(size: Size, limit: int) -> Decision | None:
    """Decide to replace a small table, by one statement."""
    if not size.is_below(limit):
        return None
    reason = f"computed in full from {size.read} rows"
    return Decision("replace", reason, is_requested=True)


def is_small_change(rows: int) -> bool:
    """Return true if the changed rows are few: a run lists their keys and skips the share query."""
    return rows <= FEW_ROWS


def is_worth_storing(rows: int) -> bool:
    """Return true if a run should store the parts of a change set that it reads more than once."""
    return rows > ROWS_WORTH_STORING


def is_broadcast(rows: int) -> bool:
    """Return true if joins should broadcast the results of the changed rows, one at most for each.

    Spark does not know how few rows a change feed has, and would sort the whole table by the key.
    """
    return rows <= MOST_ROWS_BROADCAST


def columns_read(source: str, inputs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the columns of an affected() input whose changes a run reads, in lower case.

    They are the keys, and the columns that lead to them. The run reads the rest at the pinned
    version.
    """
    columns: list[str] = []
    for spec in inputs:
        if spec["source"] == source and spec["kind"] == "affected":
            columns += spec["on"] if spec.get("via") else spec["key"].values()
    return [column.lower() for column in columns]


@dataclass(frozen=True)
class Write:
    """The chosen statement; `reason`: why it is a merge."""

    way: Literal["insert", "replace", "merge"]
    reason: str = ""


def way_of_writing(
    look: Mapping[str, Any], apply_by: str | None, engine: str, followers: int
) -> Write:
    """Choose the statement for a change set, by the inspection of its staging table.

    A merge reads every column of each file that may have a changed row. An insert with the option
    `replaceOn` finds the old rows by the columns of its condition alone, and is one commit as well.
    If it marks old rows by deletion vectors, it writes no change files, so each reader of the
    change data feed computes them: docs/decisions/0019-replace-by-keys.md and
    0037-deleted-keys-from-the-change-set.md.

    `apply_by` is the model's setting. `engine` wrote the table's newest commit, and writes this
    one. `followers`: the number of models that read this commit in the change data feed.
    """
    if look["rows"] == look["inserted"]:
        return Write("insert")
    if apply_by == "merge":
        return Write("merge", "as apply_by says")
    if not has_replace_on(engine):
        return Write("merge", f"{engine or 'the engine'} is not known to replace by keys")
    if followers > MOST_FOLLOWERS:
        return Write("merge", f"{followers} models follow the table")
    if look["deleted"] == look["rows"]:
        return Write("merge", "rows are only deleted")
    return Write("replace")
