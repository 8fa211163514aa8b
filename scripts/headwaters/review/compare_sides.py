"""The difference of both sides, table by table, once both have built it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dbt_common.exceptions import DbtRuntimeError

from headwaters.analysis import strategy_of
from headwaters.platform.errors import first_line
from headwaters.platform.sql import identifier, literal, quoted_table
from headwaters.platform.waiting import during
from headwaters.review import changes as changing
from headwaters.review import continued
from headwaters.review import difference as differing
from headwaters.review.build_sides import BothSides, BuiltSide
from headwaters.review.facts import ComparedColumn, Difference
from headwaters.review.spark import Spark
from headwaters.review.traced_columns import Masks, momentary_columns, with_columns

# If a larger share of a table's rows differs, the review does not patch a clone of the table.
_PATCHED = 0.5


@dataclass(frozen=True)
class Rows:
    """The rows of one table on both sides.

    `why_not` is the reason if they are not compared. `is_reordered` is true if the two sides have
    their columns in different orders. `momentary` are columns that are not compared, because each
    run gives them other values.
    """

    columns: tuple[ComparedColumn, ...] = ()
    difference: Difference | None = None
    why_not: str | None = None
    is_reordered: bool = False
    momentary: tuple[str, ...] = ()


class Comparison:
    """A comparison of both sides; `rows` has its results so far, by node id."""

    def __init__(self, sides: BothSides, largest: int) -> None:
        """Prepare a comparison. Tables of more than `largest` rows are compared by a sample."""
        self.sides, self.largest = sides, largest
        traced = [
            with_columns(half.side, half.keys, self._columns_of)
            for half in (sides.base, sides.head)
        ]
        self.masks = Masks(*traced)
        self.moments = [momentary_columns(side) for side in traced]
        self.rows: dict[str, Rows] = {}

    def _columns_of(self, table: str) -> dict[str, str] | None:
        try:
            return self.sides.spark.columns(quoted_table(table))
        except DbtRuntimeError:
            return None

    def compare(self, keys: Iterable[str]) -> None:
        """Compare tables that both sides have built, or that only one side has."""
        for key in keys:
            if key in self.rows or key not in self.sides.changes.order:
                continue
            number = f"{len(self.rows) + 1} of {len(self.sides.changes.order)}"
            try:
                with during(f"comparing {key.rpartition('.')[2]} ({number})"):
                    self.rows[key] = self._rows(key)
            except DbtRuntimeError as error:
                self.rows[key] = Rows(why_not=f"not compared: {first_line(error)}")

    def _rows(self, key: str) -> Rows:
        halves = [half for half in (self.sides.base, self.sides.head) if key in half.places]
        for half in halves:
            outcome = half.outcomes.get(key)
            if outcome is None or not outcome.is_built:
                side = "base" if half is self.sides.base else "branch"
                what = (outcome and outcome.message) or "something that it reads is not built"
                return Rows(why_not=f"the {side} does not build it: {what}")
        if len(halves) == 1:
            return self._one_sided(halves[0], key)
        base, head = self.sides.base.table(key), self.sides.head.table(key)
        columns = self.sides.spark.columns(base), self.sides.spark.columns(head)
        nodes = [half.side.nodes[key] for half in halves]
        masked = self.masks.of(key)
        # a column of the moment on one side alone is a change of the branch
        moments = frozenset.intersection(*(side.get(key, frozenset()) for side in self.moments))
        times = changing.of_a_run(nodes[1]) | moments
        before, after = (
            {name: kind for name, kind in one.items() if name.lower() not in times}
            for one in columns
        )
        if not before and not after:
            return Rows(
                changing.columns(*columns, {}, masked),
                why_not="not compared: all its columns have the time or chance of its run",
            )
        pair = differing.Pair(base, head, before, after, self._key(head, key), masked)
        found, counts = self._difference(pair, key, changing.why_no_examples(*nodes))
        told = changing.columns(*columns, counts, masked)
        if changing.hooks_of(nodes[0]) != changing.hooks_of(nodes[1]):
            return Rows(told, why_not="its hooks differ, and a review runs none: run them by hand")
        common = {name.lower() for name in pair.common}
        order, other = ([n.lower() for n in one if n.lower() in common] for one in columns)
        momentary = tuple(name for name in columns[1] if name.lower() in moments)
        return Rows(told, found, is_reordered=order != other, momentary=momentary)

    def _one_sided(self, half: BuiltSide, key: str) -> Rows:
        """Return the rows of a table that only one side has: all of them are added or removed."""
        table = half.table(key)
        columns = self.sides.spark.columns(table)
        rows = self._counted(table)[0]
        is_added = half is self.sides.head
        found = Difference(
            rows_before=0 if is_added else rows,
            rows_after=rows if is_added else 0,
            added=rows if is_added else 0,
            removed=0 if is_added else rows,
            changed=0,
            by_key=False,
            why_no_examples="the whole table is " + ("added" if is_added else "removed"),
        )
        both = ({}, columns) if is_added else (columns, {})
        return Rows(changing.columns(*both, {}, self.masks.of(key)), found)

    def _counted(self, *tables: str) -> list[int]:
        # one statement a table, because Delta then counts the rows from its log
        return [
            int(self.sides.spark.rows(f"select count(*) from {table}")[0][0]) for table in tables
        ]

    def _key(self, table: str, key: str) -> tuple[str, ...]:
        """Return the key of a table's rows: the declared one, or the one derived from the SQL."""
        node = self.sides.head.side.nodes[key]
        strategy = strategy_of(node["config"])
        if declared := changing.key_of(node):
            return (*declared, *(strategy.further_keys if strategy else ()))
        return self.sides.spark.derived_key(table) if strategy else ()

    def _difference(
        self, pair: differing.Pair, key: str, why_no_examples: str | None
    ) -> tuple[Difference, dict[str, int]]:
        """Return the difference of two tables, and the number of differing rows by column."""
        rows = self._counted(pair.before, pair.after)
        read: int | None
        feed = self._feed(pair, key)
        if feed is not None:
            compared, read = feed
            if compared is None:
                none = dict.fromkeys(("added", "removed", "changed", "rounded"), 0)
                none |= {f"c{n}": 0 for n in range(len(pair.rest))}
                same, counts = differing.of_counts(pair, none, rows, pair.has_key, None)
                return replace(same, bytes_read=0), counts
            pair = compared
        else:
            read = size_of(self.sides.spark, pair.before, pair.after)
            pair = replace(pair, one_of=self._one_of(rows))
        by_key = pair.has_key
        if by_key and feed is None and not self._has_unique_keys(key):
            repeated = self.sides.spark.rows(differing.repeated_keys_sql(pair))[0]
            by_key = not repeated["before"] and not repeated["after"]
        staged = self._staged(pair, key, by_key)
        counted = self.sides.spark.rows(differing.counts_sql(pair, staged, by_key))[0].asDict()
        found, counts = differing.of_counts(pair, counted, rows, by_key, why_no_examples)
        if found.rows and why_no_examples is None:
            examples = [
                one.asDict() for one in self.sides.spark.rows(self._shown(pair, staged, by_key))
            ]
            found = replace(found, examples=differing.of_examples(pair, examples, by_key))
        return replace(found, bytes_read=read), counts

    def _shown(self, pair: differing.Pair, staged: str, by_key: bool) -> str:
        if not by_key:
            return differing.examples_of_multisets_sql(pair, staged)
        rows = self.sides.spark.rows(differing.kinds_sql(pair, staged))
        kinds = [differing.Alike(str(row[0]), str(row[1]), int(row[2])) for row in rows]
        return differing.examples_by_key_sql(pair, staged, differing.telling(kinds))

    def sample(self, *tables: str) -> int:
        """Return n to compare one of n rows: 1 unless a table is too large."""
        return self._one_of(self._counted(*tables))

    def _one_of(self, rows: Sequence[int]) -> int:
        return max(1, math.ceil(max(rows) / self.largest))

    def _has_unique_keys(self, key: str) -> bool:
        """Return true if a headwaters strategy, which refuses repeated keys, built both tables."""
        nodes = (self.sides.base.side.nodes[key], self.sides.head.side.nodes[key])
        keys = {changing.key_of(node) for node in nodes}
        return len(keys) == 1 and all(map(continued.can_continue, nodes))

    def _feed(self, pair: differing.Pair, key: str) -> tuple[differing.Pair | None, int] | None:
        """Return a pair of the rows that the branch's clone changed, and their size in bytes.

        The pair is None if nothing changed the clone. The result is None if the feed does not
        describe the whole difference. Both sides must be clones of one version, and the base's must
        be unchanged.
        """
        name = self.sides.base.side.table(key).lower()
        base, head = self.sides.base.begun.get(name), self.sides.head.begun.get(name)
        did = self.sides.base.outcomes[key].did, self.sides.head.outcomes[key].did
        if base is None or head is None or did[0] != "skip" or did[1] not in _FEEDS:
            return None
        if base.source_version != head.source_version or pair.columns_before != pair.columns_after:
            return None
        commits = [
            one
            for one in self.sides.spark.history(pair.after, 100)
            if one.version > head.version and one.effect.rows
        ]
        if not commits:
            return None, 0
        if len(commits) > 1 or commits[0].replaces_all:
            return None
        version = commits[0].version
        feed = f"table_changes({literal(pair.after)}, {version}, {version})"
        names = ", ".join(map(identifier, pair.columns_after))
        before, after = (
            f"(select {names} from {feed} where _change_type in ('{one}', '{other}'))"
            for one, other in (("delete", "update_preimage"), ("insert", "update_postimage"))
        )
        return replace(pair, before=before, after=after), self._bytes_of_feed(pair.after, version)

    def _staged(self, pair: differing.Pair, key: str, by_key: bool) -> str:
        """Create a staging table with the differing rows, and return its name."""
        _, staged = self.sides.aside("difference", key)
        find = differing.differing_by_key_sql if by_key else differing.differing_multisets_sql
        self.sides.spark.rows(f"create table {staged} using parquet as {find(pair)}")
        return staged

    def _bytes_of_feed(self, table: str, version: int) -> int:
        """Return the size of the files with one commit's changes: change files or data files."""
        detail = self.sides.spark.rows(f"describe detail {quoted_table(table)}")[0]
        log = f"{detail['location']}/_delta_log"
        path, size = (
            f"coalesce({', '.join(_ACTION.format(kind, name) for kind in _KINDS)})"
            for name in ("path", "size")
        )
        rows = self.sides.spark.rows(
            "select is_change_file, sum(size) from (select distinct"
            f" {_ACTION.format('cdc', 'path')} is not null as is_change_file, {path} as path,"
            f" cast({size} as bigint) as size"
            f" from text.{identifier(f'{log}/{version:020}.json')}) group by is_change_file"
        )
        sizes = {bool(row[0]): int(row[1] or 0) for row in rows}
        return sizes.get(True) or sizes.get(False, 0)

    def patch(self, key: str) -> None:
        """Apply the differing rows to a clone of production's table, if they are few.

        Tables downstream then process this difference instead of a replaced table.
        """
        rows, table = self.rows.get(key), self.sides.tables.get(key)
        found = rows.difference if rows else None
        if table is None or found is None or rows is None or found.extent != "all":
            return
        half, name = self.sides.head, table.name.lower()
        is_few = found.by_key and found.rows + found.rounded <= _PATCHED * found.rows_before
        same_columns = all(column.before == column.after for column in rows.columns)
        base = self.sides.base.begun.get(name)
        did = half.outcomes[key].did
        if not is_few or not same_columns or did not in ("replace", "patch") or base is None:
            return
        if self.sides.base.outcomes[key].did != "skip":
            return  # production's table no longer has the compared rows
        built = half.table(key)
        schema, place = self.sides.aside("now", key)
        state = continued.notes_of(self.sides.spark.properties(built))
        columns = self.sides.spark.columns(built)
        pair = differing.Pair(
            self.sides.base.table(key), built, columns, columns, self._key(built, key)
        )
        _, staged = self.sides.aside("difference", key)
        statement = differing.patch_sql(pair, place, staged) if found.rows or found.rounded else ""
        begun = continued.begin(self.sides.spark, table, place, state, statement)
        if begun:
            half.begun[name] = begun
            half.places[key] = schema


def size_of(spark: Spark, *tables: str) -> int | None:
    """Return the size of tables in bytes, or None if one is a view."""
    try:
        details = [spark.rows(f"describe detail {quoted_table(table)}")[0] for table in tables]
        return sum(int(detail["sizeInBytes"]) for detail in details)
    except (DbtRuntimeError, TypeError):
        return None


_KINDS = ("cdc", "add", "remove")
_ACTION = "get_json_object(value, '$.{0}.{1}')"  # an action in a line of Delta's log
# Actions of a run whose changes the table's feed describes.
_FEEDS = ("skip", "append", "merge", "compare", "patch")
