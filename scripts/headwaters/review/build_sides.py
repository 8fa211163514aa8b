"""Build both sides of a review from the same versions of the same inputs, and compare them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from dbt_common.exceptions import DbtRuntimeError

from headwaters.analysis import strategy_of
from headwaters.platform.errors import first_line
from headwaters.platform.review_schemas import Part
from headwaters.platform.sql import identifier, literal
from headwaters.platform.waiting import during
from headwaters.review import changes as changing
from headwaters.review import continued
from headwaters.review import difference as differing
from headwaters.review.build import (
    BUILD,
    BuildOutcome,
    Pinned,
    Schemas,
    Spark,
    clone_inputs,
    moved,
    pin,
    redirected,
    run,
)
from headwaters.review.changes import Changes, Side
from headwaters.review.continued import Begun, ProductionTable
from headwaters.review.costs import Past
from headwaters.review.facts import ComparedColumn, Difference, Effort, Finding, Stays
from headwaters.tables.commits import Commit

# If a larger share of a table's rows differs, the review does not patch a clone of the table.
_PATCHED = 0.5


@dataclass(frozen=True)
class Rows:
    """The rows of one table on both sides.

    `why_not` is the reason if they are not compared. `is_reordered` is true if the two sides have
    their columns in different orders.
    """

    columns: tuple[ComparedColumn, ...] = ()
    difference: Difference | None = None
    why_not: str | None = None
    is_reordered: bool = False


@dataclass
class Known:
    """The results so far, by ids of nodes.

    `notes` are lines for the reader. `problem` is the reason if no rows were compared. `moments`
    has the reason if differing rows are not due to the branch.
    """

    before: dict[str, BuildOutcome] = field(default_factory=dict)
    after: dict[str, BuildOutcome] = field(default_factory=dict)
    rows: dict[str, Rows] = field(default_factory=dict)
    tests: dict[str, list[Finding]] = field(default_factory=dict)
    stays: dict[str, Stays] = field(default_factory=dict)
    next_runs: dict[str, tuple[str, str]] = field(default_factory=dict)
    maintenance: dict[str, Finding] = field(default_factory=dict)
    next_measured: dict[str, Effort] = field(default_factory=dict)
    past: dict[str, Past] = field(default_factory=dict)
    pinned: Pinned = field(default_factory=lambda: Pinned({}, {}))
    uncloned: dict[str, str] = field(default_factory=dict)
    moments: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problem: str | None = None

    def note(self, code: str, text: str) -> None:
        """Add a note about something the review could not find out, and the remedy."""
        self.notes.append(f"[{code}] {text}")


@dataclass
class Half:
    """One side during the build: the schemas of its tables by node id, and the tables it began.

    `continued` has the ids of nodes whose run continued from a clone of production's table.
    """

    name: Literal["base", "head"]
    side: Side
    keys: tuple[str, ...]
    outcomes: dict[str, BuildOutcome]
    places: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    followed: frozenset[str] = frozenset()
    begun: dict[str, Begun] = field(default_factory=dict)
    continued: set[str] = field(default_factory=set)

    def table(self, key: str) -> str:
        """Return the qualified name of a node's table in the review."""
        return moved(self.side.table(key), self.places[key])

    @property
    def redirections(self) -> dict[str, str]:
        """Return the schemas that a run reads: the review's, and clones of all other tables."""
        read = {key: place for key, place in self.inputs.items() if key not in self.followed}
        return {**read, **self.places}

    @property
    def names(self) -> dict[str, str]:
        """Return the review's names of production's tables, by those tables' lower-case names."""
        return {
            self.side.table(key).lower(): moved(self.side.table(key), place)
            for key, place in self.redirections.items()
        }


class Both:
    """A builder of both sides, which compares each table once both sides have built it."""

    def __init__(
        self,
        spark: Spark,
        schemas: Schemas,
        sides: tuple[Side, Side],
        found: Changes,
        known: Known,
        largest: int,
    ) -> None:
        """Prepare a build. Tables of more than `largest` rows are compared by a sample."""
        self.spark, self.schemas, self.found, self.known = spark, schemas, found, known
        base, head = sides
        self.base = Half("base", base, found.built_before, known.before)
        self.head = Half("head", head, found.built, known.after)
        self.masked = changing.masked(base, head)
        self.largest = largest
        self.tables: dict[str, ProductionTable] = {}
        self.cloned: set[str] = set()
        self.commits: dict[str, Commit | None] = {}  # by cloned table

    def build(self) -> None:
        """Build the base, then the branch in two steps, and run the branch's tests."""
        self._pin()
        self.schemas.make(self.spark, self.schemas.records)
        for half in (self.base, self.head):
            self._clone_inputs(half)
        for table, why in self.known.uncloned.items():
            self.known.note(
                "HW_REVIEW_INPUT",
                f"{table} cannot be cloned, and is read as it is, at its newest version: {why}. "
                "Let the profile's user read its files, and create tables in review schemas",
            )
        self._run(self.base, self.base.keys)
        roots = [
            key
            for key in self.head.keys
            if not changing.tables_above(key, self.head.keys, self.head.side)
        ]
        self._run(self.head, roots)
        self._compare(roots)
        below = [key for key in self.head.keys if key not in roots]
        if below:
            for key in roots:
                self._patch(key)
            self._run(self.head, self._possible(below))
            self._compare(below)
        self._compare(self.base.keys)  # tables that the branch removed
        self._test()

    def _pin(self) -> None:
        """Pin the versions of all tables that the review reads but does not build."""
        for key in sorted({*self.base.keys, *self.head.keys}):
            node = self.base.side.nodes.get(key)
            if node and continued.can_continue(node):
                table = continued.table_of(self.spark, self.base.side.table(key))
                if table:
                    self.tables[key] = table
        applied: dict[str, list[Mapping[str, int]]] = {}
        for table in self.tables.values():
            for source, noted in table.inputs.items():
                applied.setdefault(source.lower(), []).append(noted)
        read = {
            half.side.table(key)
            for half in (self.base, self.head)
            for key in (*changing.inputs(half.keys, half.side), *self._tested_beside(half))
        }
        pinned = pin(self.spark, read, applied)
        for name, problem in pinned.problems.items():
            self.known.note(
                "HW_REVIEW_INPUT",
                f"{name} has no versions, and is read as it is: {problem.rstrip('.')}. "
                "Build production first, or make it a Delta table",
            )
        self.known.pinned = pinned

    def _tested_beside(self, half: Half) -> tuple[str, ...]:
        return changing.read_by_tests(half.keys, half.side) if half is self.head else ()

    def _clone_inputs(self, half: Half) -> None:
        """Clone the tables that a side reads but does not build; choose schemas for the rest."""
        manifest = half.side.manifest
        readers = changing.followers(half.keys, half.side)
        strategies = {
            parent: [strategy_of(half.side.nodes[key]["config"]) for key in keys]
            for parent, keys in readers.items()
        }
        half.followed = frozenset(
            parent
            for parent, all_of in strategies.items()
            # `history` needs the change feed of its inputs, and a clone does not have the earlier
            # feed
            if all(all_of) or any(one and one.keeps_past for one in all_of)
        )
        tested = self._tested_beside(half)
        wanted = {*(key for key in readers if key not in half.followed), *tested}
        nodes = {key: manifest.nodes.get(key) or manifest.sources[key] for key in sorted(wanted)}
        pinned = self.known.pinned
        # both sides share one clone of a table
        half.inputs = clone_inputs(
            self.spark, self.schemas, nodes, pinned, self.known.uncloned, self.cloned
        )
        for key in half.keys:
            half.places[key] = self.schemas.name(half.name, half.side.nodes[key]["schema"])
            self.schemas.make(self.spark, half.places[key])
        names = half.names
        for table in {source.lower() for one in self.tables.values() for source in one.inputs}:
            name, version = names.get(table), pinned.of(table)
            if not name or not version:
                continue
            if name not in self.commits:
                self.commits[name] = self.spark.newest(name)
            if commit := self.commits[name]:
                place = Begun(name, commit.version, commit.at, table, version["version"])
                half.begun[table] = place

    def _run(self, half: Half, keys: Sequence[str]) -> None:
        """Build nodes of a side, from clones of production's tables if their state is known."""
        for key in keys:
            own = self.found.changed.get(key)
            table = self.tables.get(key)
            is_checked = half is self.head and own is not None and own.enforced
            if table is None or half.side.table(key) != table.name:
                continue
            # Spark checks a contract only when a run builds the whole table
            if is_checked or not continued.can_continue(half.side.nodes[key]):
                continue
            state = continued.state_of(self.spark, table, half.names, half.begun)
            if state is not None:
                begun = continued.begin(self.spark, table, half.table(key), state)
                if begun:
                    half.begun[table.name.lower()] = begun
                    half.continued.add(key)
        manifest = redirected(half.side.manifest, half.redirections, self.schemas.records)
        pins = self.known.pinned.versions
        half.outcomes |= run(half.side.project, manifest, BUILD, keys, pins)

    def _possible(self, keys: Iterable[str]) -> list[str]:
        """Return the nodes that can be built. In a single invocation, dbt skips the others."""
        possible: list[str] = []
        for key in keys:
            lost = [
                parent
                for parent in sorted(changing.tables_above(key, self.head.keys, self.head.side))
                if parent not in possible and self._is_lost(parent)
            ]
            if lost:
                why = f"{self.head.side.table(lost[0])}, which it reads, is not built"
                self.head.outcomes[key] = BuildOutcome("skipped", why, 0.0, {})
            else:
                possible.append(key)
        return possible

    def _test(self) -> None:
        """Test the branch's tables, and drop the failures that the base has as well."""
        if not changing.tested(self.head.keys, self.head.side):
            return
        outcomes = self._tested(self.head, self.head.keys)
        manifest = self.head.side.manifest
        nodes: dict[str, Any] = {**manifest.nodes, **manifest.unit_tests}
        found = {
            key: outcome
            for key, outcome in outcomes.items()
            if outcome.status not in ("pass", "skipped", "success")
            # the build has already reported tables that failed
            and not any(self._is_lost(parent) for parent in nodes[key].depends_on.nodes)
        }
        failed = [key for key, outcome in found.items() if outcome.status != "warn"]
        known = self._tested(self.base, [key for key in failed if key in self.base.side.nodes])
        for key, outcome in found.items():
            node = nodes[key]
            before = known.get(key)
            was_so = before is not None and before.message == outcome.message
            text = f"{node.name}: {outcome.message or outcome.status}"
            text = f"fails in the base as well: {text}" if was_so else text
            fails = key in failed and not was_so
            finding = Finding("test", text, fails, node.original_file_path)
            for parent in node.depends_on.nodes:
                self.known.tests.setdefault(parent, []).append(finding)

    def _tested(self, half: Half, keys: Sequence[str]) -> dict[str, BuildOutcome]:
        """Run all tests of a side, or only those of some tables."""
        places = {**self.head.inputs, **half.inputs, **half.places}
        manifest = redirected(half.side.manifest, places, self.schemas.records)
        return run(half.side.project, manifest, ["test"], keys, self.known.pinned.versions)

    def _is_lost(self, key: str) -> bool:
        """Return true if the branch should have built this table and did not."""
        outcome = self.head.outcomes.get(key)
        return key in self.head.keys and (outcome is None or not outcome.is_built)

    # -- the difference -------------------------------------------------------------------------

    def _compare(self, keys: Iterable[str]) -> None:
        for key in keys:
            if key in self.known.rows or key not in self.found.order:
                continue
            number = f"{len(self.known.rows) + 1} of {len(self.found.order)}"
            try:
                with during(f"comparing {key.rpartition('.')[2]} ({number})"):
                    self.known.rows[key] = self._rows(key)
            except DbtRuntimeError as error:
                self.known.rows[key] = Rows(why_not=f"not compared: {first_line(error)}")

    def _rows(self, key: str) -> Rows:
        halves = [half for half in (self.base, self.head) if key in half.places]
        for half in halves:
            outcome = half.outcomes.get(key)
            if outcome is None or not outcome.is_built:
                side = "base" if half is self.base else "branch"
                what = (outcome and outcome.message) or "something that it reads is not built"
                return Rows(why_not=f"the {side} does not build it: {what}")
        if len(halves) == 1:
            return self._one_sided(halves[0], key)
        base, head = self.base.table(key), self.head.table(key)
        columns = self.spark.columns(base), self.spark.columns(head)
        nodes = [half.side.nodes[key] for half in halves]
        times = changing.of_a_run(nodes[1])
        before, after = (
            {name: kind for name, kind in one.items() if name.lower() not in times}
            for one in columns
        )
        pair = differing.Pair(base, head, before, after, self._key(head, key), self.masked)
        found, counts = self._difference(pair, key, changing.why_no_examples(*nodes))
        told = changing.columns(*columns, counts, self.masked)
        if changing.hooks_of(nodes[0]) != changing.hooks_of(nodes[1]):
            return Rows(told, why_not="its hooks differ, and a review runs none: run them by hand")
        common = {name.lower() for name in pair.common}
        order, other = ([n.lower() for n in one if n.lower() in common] for one in columns)
        return Rows(told, found, is_reordered=order != other)

    def _one_sided(self, half: Half, key: str) -> Rows:
        """Return the rows of a table that only one side has: all of them are added or removed."""
        table = half.table(key)
        columns = self.spark.columns(table)
        rows = self._counted(table)[0]
        is_added = half is self.head
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
        return Rows(changing.columns(*both, {}, self.masked), found)

    def _counted(self, *tables: str) -> list[int]:
        # one statement a table, because Delta then counts the rows from its log
        return [int(self.spark.rows(f"select count(*) from {table}")[0][0]) for table in tables]

    def _key(self, table: str, key: str) -> tuple[str, ...]:
        """Return the key of a table's rows: the declared one, or the one derived from the SQL."""
        node = self.head.side.nodes[key]
        strategy = strategy_of(node["config"])
        if declared := changing.key_of(node):
            return (*declared, *(strategy.further_keys if strategy else ()))
        return self.spark.derived_key(table) if strategy else ()

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
                none = {"added": 0, "removed": 0, "changed": 0}
                none |= {f"c{n}": 0 for n in range(len(pair.rest))}
                same, counts = differing.of_counts(pair, none, rows, pair.has_key, None)
                return replace(same, bytes_read=0), counts
            pair = compared
        else:
            read = self.size(pair.before, pair.after)
            pair = replace(pair, one_of=self._one_of(rows))
        by_key = pair.has_key
        if by_key and feed is None and not self._has_unique_keys(key):
            repeated = self.spark.rows(differing.repeated_keys_sql(pair))[0]
            by_key = not repeated["before"] and not repeated["after"]
        staged = self._staged(pair, key, by_key)
        counted = self.spark.rows(differing.counts_sql(pair, staged, by_key))[0].asDict()
        found, counts = differing.of_counts(pair, counted, rows, by_key, why_no_examples)
        if found.rows and why_no_examples is None:
            examples = [one.asDict() for one in self.spark.rows(self._shown(pair, staged, by_key))]
            found = replace(found, examples=differing.of_examples(pair, examples, by_key))
        return replace(found, bytes_read=read), counts

    def _shown(self, pair: differing.Pair, staged: str, by_key: bool) -> str:
        if not by_key:
            return differing.examples_of_multisets_sql(pair, staged)
        rows = self.spark.rows(differing.kinds_sql(pair, staged))
        kinds = [differing.Alike(str(row[0]), str(row[1]), int(row[2])) for row in rows]
        return differing.examples_by_key_sql(pair, staged, differing.telling(kinds))

    def sample(self, *tables: str) -> int:
        """Return n to compare one of n rows: 1 unless a table is too large."""
        return self._one_of(self._counted(*tables))

    def _one_of(self, rows: Sequence[int]) -> int:
        return max(1, math.ceil(max(rows) / self.largest))

    def _has_unique_keys(self, key: str) -> bool:
        """Return true if a headwaters strategy, which refuses repeated keys, built both tables."""
        nodes = (self.base.side.nodes[key], self.head.side.nodes[key])
        keys = {changing.key_of(node) for node in nodes}
        return len(keys) == 1 and all(map(continued.can_continue, nodes))

    def _feed(self, pair: differing.Pair, key: str) -> tuple[differing.Pair | None, int] | None:
        """Return a pair of the rows that the branch's clone changed, and their size in bytes.

        The pair is None if nothing changed the clone. The result is None if the feed does not
        describe the whole difference. Both sides must be clones of one version, and the base's must
        be unchanged.
        """
        name = self.base.side.table(key).lower()
        base, head = self.base.begun.get(name), self.head.begun.get(name)
        did = self.base.outcomes[key].did, self.head.outcomes[key].did
        if base is None or head is None or did[0] != "skip" or did[1] not in _FEEDS:
            return None
        if base.source_version != head.source_version or pair.columns_before != pair.columns_after:
            return None
        commits = [
            one
            for one in self.spark.history(pair.after, 100)
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

    def _aside(self, what: Part, key: str) -> tuple[str, str]:
        """Return a separate schema of the review for one purpose, and the node's table there."""
        schema = self.schemas.name(what, self.head.side.nodes[key]["schema"])
        self.schemas.make(self.spark, schema)
        return schema, moved(self.head.side.table(key), schema)

    def _staged(self, pair: differing.Pair, key: str, by_key: bool) -> str:
        """Create a staging table with the differing rows, and return its name."""
        _, staged = self._aside("difference", key)
        find = differing.differing_by_key_sql if by_key else differing.differing_multisets_sql
        self.spark.rows(f"create table {staged} using parquet as {find(pair)}")
        return staged

    def size(self, *tables: str) -> int | None:
        """Return the size of tables in bytes, or None if one is a view."""
        try:
            details = [self.spark.rows(f"describe detail {table}")[0] for table in tables]
            return sum(int(detail["sizeInBytes"]) for detail in details)
        except (DbtRuntimeError, TypeError):
            return None

    def _bytes_of_feed(self, table: str, version: int) -> int:
        """Return the size of the files with one commit's changes: change files or data files."""
        log = f"{self.spark.rows(f'describe detail {table}')[0]['location']}/_delta_log"
        path, size = (
            f"coalesce({', '.join(_ACTION.format(kind, name) for kind in _KINDS)})"
            for name in ("path", "size")
        )
        rows = self.spark.rows(
            "select is_change_file, sum(size) from (select distinct"
            f" {_ACTION.format('cdc', 'path')} is not null as is_change_file, {path} as path,"
            f" cast({size} as bigint) as size"
            f" from text.{identifier(f'{log}/{version:020}.json')}) group by is_change_file"
        )
        sizes = {bool(row[0]): int(row[1] or 0) for row in rows}
        return sizes.get(True) or sizes.get(False, 0)

    def _patch(self, key: str) -> None:
        """Apply the differing rows to a clone of production's table, if they are few.

        Tables downstream then process this difference instead of a replaced table.
        """
        rows, table = self.known.rows.get(key), self.tables.get(key)
        found = rows.difference if rows else None
        if table is None or found is None or rows is None or found.extent != "all":
            return
        half, name = self.head, table.name.lower()
        is_few = found.by_key and found.rows <= _PATCHED * found.rows_before
        same_columns = all(column.before == column.after for column in rows.columns)
        base = self.base.begun.get(name)
        did = half.outcomes[key].did
        if not is_few or not same_columns or did not in ("replace", "patch") or base is None:
            return
        if self.base.outcomes[key].did != "skip":
            return  # production's table no longer has the compared rows
        built = half.table(key)
        schema, place = self._aside("now", key)
        state = continued.notes_of(self.spark.properties(built))
        columns = self.spark.columns(built)
        pair = differing.Pair(self.base.table(key), built, columns, columns, self._key(built, key))
        _, staged = self._aside("difference", key)
        statement = differing.patch_sql(pair, place, staged) if found.rows else ""
        begun = continued.begin(self.spark, table, place, state, statement)
        if begun:
            half.begun[name] = begun
            half.places[key] = schema


_KINDS = ("cdc", "add", "remove")
_ACTION = "get_json_object(value, '$.{0}.{1}')"  # an action in a line of Delta's log
# Actions of a run whose changes the table's feed describes.
_FEEDS = ("skip", "append", "merge", "compare", "patch")
