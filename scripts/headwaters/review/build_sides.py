"""Build both sides of a review from the same versions of the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from headwaters.analysis import strategy_of
from headwaters.platform.review_schemas import Part
from headwaters.review import continued
from headwaters.review.changes import Changes
from headwaters.review.continued import Begun, ProductionTable
from headwaters.review.dbt_runs import BUILD, BuildOutcome, moved, redirected, run
from headwaters.review.inputs import Pinned, clone_inputs, pin
from headwaters.review.schemas import Schemas
from headwaters.review.sides import Side, followers, inputs, read_by_tests, tables_above
from headwaters.review.spark import Spark
from headwaters.tables.commits import Commit

Note = Callable[[str, str], None]  # a code, and a text


@dataclass
class BuiltSide:
    """One side during the build: the schemas of its tables by node id, and the tables it began.

    `continued` has the ids of nodes whose run continued from a clone of production's table.
    """

    name: Literal["base", "head"]
    side: Side
    keys: tuple[str, ...]
    outcomes: dict[str, BuildOutcome] = field(default_factory=dict)
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


class BothSides:
    """A builder of both sides: it pins and clones their inputs, and runs dbt.

    `changes` are the changes of the branch. `tables` are production's tables that runs can
    continue, by node id.
    """

    def __init__(
        self,
        spark: Spark,
        schemas: Schemas,
        sides: tuple[Side, Side],
        changes: Changes,
        note: Note,
    ) -> None:
        """Prepare a build; `note` takes what the reader has to know."""
        self.spark, self.schemas, self.changes, self._note = spark, schemas, changes, note
        base, head = sides
        self.base = BuiltSide("base", base, changes.built_before)
        self.head = BuiltSide("head", head, changes.built)
        self.tables: dict[str, ProductionTable] = {}
        self.pinned = Pinned({}, {})
        self._cloned: set[str] = set()
        self._commits: dict[str, Commit | None] = {}  # by cloned table

    def pin_inputs(self) -> Pinned:
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
            for key in (*inputs(half.keys, half.side), *self._tested_beside(half))
        }
        pinned = pin(self.spark, read, applied)
        for name, problem in pinned.problems.items():
            self._note(
                "HW_REVIEW_INPUT",
                f"{name} has no versions, and is read as it is: {problem.rstrip('.')}. "
                "Build production first, or make it a Delta table",
            )
        self.pinned = pinned
        return pinned

    def _tested_beside(self, half: BuiltSide) -> tuple[str, ...]:
        return read_by_tests(half.keys, half.side) if half is self.head else ()

    def prepare_inputs(self) -> None:
        """Clone the tables that the sides read but do not build."""
        self.schemas.make(self.spark, self.schemas.records)
        uncloned: dict[str, str] = {}
        for half in (self.base, self.head):
            self._clone_inputs(half, uncloned)
        for table, why in uncloned.items():
            self._note(
                "HW_REVIEW_INPUT",
                f"{table} cannot be cloned, and is read as it is, at its newest version: {why}. "
                "Let the profile's user read its files, and create tables in review schemas",
            )

    def _clone_inputs(self, half: BuiltSide, uncloned: dict[str, str]) -> None:
        """Clone the tables that a side reads but does not build; choose schemas for the rest."""
        manifest = half.side.manifest
        readers = followers(half.keys, half.side)
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
        pinned = self.pinned
        # both sides share one clone of a table
        half.inputs = clone_inputs(self.spark, self.schemas, nodes, pinned, uncloned, self._cloned)
        for key in half.keys:
            half.places[key] = self.schemas.name(half.name, half.side.nodes[key]["schema"])
            self.schemas.make(self.spark, half.places[key])
        names = half.names
        for table in {source.lower() for one in self.tables.values() for source in one.inputs}:
            name, version = names.get(table), pinned.of(table)
            if not name or not version:
                continue
            if name not in self._commits:
                self._commits[name] = self.spark.newest(name)
            if commit := self._commits[name]:
                place = Begun(name, commit.version, commit.at, table, version["version"])
                half.begun[table] = place

    def build(self, half: BuiltSide, keys: Sequence[str]) -> None:
        """Build nodes of a side, from clones of production's tables if their state is known."""
        for key in keys:
            own = self.changes.changed.get(key)
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
        pins = self.pinned.versions
        half.outcomes |= run(
            f"building {half.name}", half.side.project, manifest, BUILD, keys, pins
        )

    @property
    def roots(self) -> list[str]:
        """Return the branch's nodes that read no other table of the branch."""
        head = self.head
        return [key for key in head.keys if not tables_above(key, head.keys, head.side)]

    def possible(self, keys: Iterable[str]) -> list[str]:
        """Return the nodes that can be built. In a single invocation, dbt skips the others."""
        possible: list[str] = []
        for key in keys:
            lost = [
                parent
                for parent in sorted(tables_above(key, self.head.keys, self.head.side))
                if parent not in possible and self.is_lost(parent)
            ]
            if lost:
                why = f"{self.head.side.table(lost[0])}, which it reads, is not built"
                self.head.outcomes[key] = BuildOutcome("skipped", why, 0.0, {})
            else:
                possible.append(key)
        return possible

    def is_lost(self, key: str) -> bool:
        """Return true if the branch should have built this table and did not."""
        outcome = self.head.outcomes.get(key)
        return key in self.head.keys and (outcome is None or not outcome.is_built)

    def aside(self, what: Part, key: str) -> tuple[str, str]:
        """Return a separate schema of the review for one purpose, and the node's table there."""
        schema = self.schemas.name(what, self.head.side.nodes[key]["schema"])
        self.schemas.make(self.spark, schema)
        return schema, moved(self.head.side.table(key), schema)
