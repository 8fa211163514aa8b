"""A reader of the state of a lake: logs, checkpoints, records, dbt's files. Starts no Spark.

Each unreadable file becomes a line of `Lake.problems`, and the page shows the rest.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from deltalake.exceptions import DeltaError
from pyarrow import ArrowException

from headwaters.analysis import expectations_of
from headwaters.platform import lake as lakes
from headwaters.platform.errors import CodedError, UserError, WorkError
from headwaters.platform.nodes import Node, setting, table_name
from headwaters.platform.places import Place
from headwaters.platform.project import Project
from headwaters.platform.review_schemas import is_of_review
from headwaters.report import records, tables
from headwaters.report.declared import Declared, freshness_of, outcomes, settings
from headwaters.report.facts import (
    Backlog,
    Batch,
    ExpectationHistory,
    Freshness,
    Kind,
    Lake,
    ReportedModel,
    ReportedOutcome,
    ReportedStream,
    ReportedTable,
)
from headwaters.streams.contract import Contract
from headwaters.streams.ingestion.status import status
from headwaters.streams.stream import Stream
from headwaters.tables.delta_log import State, state
from headwaters.tables.named_tables import hidden_table_count, table_of_hidden
from headwaters.tables.table_folders import table_folders

MOST_BATCHES = 60
_JOURNAL = 2**20  # bytes at the end of ingestion's journal

T = TypeVar("T")
_EXPECTED = (
    CodedError,
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArrowException,
    DeltaError,
)


@dataclass
class Gatherer:
    """A reader of one lake. Later reads skip unchanged tables."""

    project: Project
    declared: Declared
    problems: list[str] = field(default_factory=list)
    _known: dict[tuple[str, Place], tuple[Any, Any]] = field(default_factory=dict)

    def lake(self, now: datetime | None = None) -> Lake:
        """Read the lake. Raises UserError if the profile names none."""
        now = now or datetime.now(UTC)
        self.problems = list(self.declared.problems)
        project, place = self.project, self.project.lake
        shown = str(place).removeprefix(f"{project.root}/")
        about = (str(settings(project).get("name")), project.target_name, shown, now)
        if not place.is_dir():
            text = f"there is no lake at {place} yet: `headwaters ingest` and `dbt run` make it"
            self.problems.append(str(UserError("HW_NO_LAKE", text)))
            return Lake(*about, problems=tuple(self.problems))
        if elsewhere := lakes.moved(place):
            self.problems.append(str(elsewhere))
        states = self._states()
        made = tuple(self._tables(states, now))
        return Lake(
            *about,
            streams=tuple(self._streams(states)),
            models=tuple(self._models(states)),
            tables=made,
            expectations=self._expectations(states),
            operations=self._ops(states, "operations", records.operations),
            freshness=tuple(self._freshness(made)),
            problems=tuple(dict.fromkeys(self.problems)),
            edges=self.declared.edges,
        )

    def _try(self, what: str, read: Callable[..., T], *arguments: Any) -> T | None:
        """Return the result of a reader. If it fails, note a problem and return None."""
        try:
            return read(*arguments)
        except _EXPECTED as error:
            self.problems.append(str(_coded(what, error)))
            return None

    def _once(self, what: str, place: Place, version: Any, read: Callable[[], T]) -> T:
        """Return the cached result for this version of a place, or read it."""
        known = self._known.get((what, place))
        if known is None or known[0] != version:
            known = version, read()
            self._known[what, place] = known
        found: T = known[1]
        return found

    # --- tables

    def _states(self) -> dict[str, tuple[Place, State]]:
        """Return all Delta tables of the warehouse and of local `location_root`s, by name."""
        found = {}
        for name, folder in (self._try("the warehouse", self._folders) or {}).items():
            if read := self._try(name, self._state, folder):
                found[name] = folder, read
        return found

    def _folders(self) -> dict[str, Place]:
        """Return folders that may be tables: in the warehouse and at each `location_root`."""

        def entries(schema: str, folder: Place) -> list[str]:
            return self._try(f"the schema {schema}", _names, folder) or []

        return table_folders(self.project.warehouse, self.declared.tables, entries)

    def _state(self, folder: Place) -> State | None:
        log = folder / "_delta_log"
        if not log.is_dir():
            return None
        files: Iterable[Place] = log.iterdir()
        commits = [one for one in files if one.suffix in (".json", ".parquet")]
        newest = max(commits, key=lambda one: one.name, default=None)
        version = newest and (newest.name, newest.stat().st_mtime_ns, len(commits))
        return self._once("state", folder, version, lambda: state(folder))

    def _tables(
        self, states: Mapping[str, tuple[Place, State]], now: datetime
    ) -> Iterator[ReportedTable]:
        paths = {str(folder): name for name, (folder, _) in states.items()}
        found = list(self._stream_positions(states))
        for name, (_, one) in states.items():
            found += self._try(name, tables.positions, name, one, paths) or []
        for name, (folder, one) in sorted(states.items()):
            if is_of_review(name.partition(".")[0]):
                continue  # a backup that expires, and belongs to no model
            owner, number = table_of_hidden(name) or (name, 0)
            needs, node = tables.needs_of(name, one, found), self.declared.tables.get(owner)
            its = states.get(owner) if number else None
            proof = its[1].properties.get("headwaters.proof") if its else None
            used = self._try(owner, hidden_table_count, proof)
            made = self._try(
                name, tables.table_of, name, str(folder), self._kind(name), one, node, needs, now
            )
            if made and used is not None and number > used:
                made = replace(made, due=(("drop", "no table uses this hidden table"),))
            if made:
                yield made

    def _stream_positions(
        self, states: Mapping[str, tuple[Place, State]]
    ) -> Iterator[tables.ReaderPosition]:
        """Yield the positions of streams that read tables of this lake."""
        for contract in self.declared.contracts:
            if contract.source.reads_table:
                stream = Stream.of(self.project, contract)
                at = self._try(contract.name, stream.checkpoint.delta_position)
                for name, (folder, _) in states.items():
                    if at and lakes.same(folder, stream.path):
                        yield tables.ReaderPosition(f"the stream {contract.name}", name, at[0] - 1)

    def _kind(self, name: str) -> Kind:
        node = self.declared.tables.get(name)
        if name.partition(".")[0] == self.declared.ops:
            return "ops"
        if table_of_hidden(name):
            return "hidden"
        if node is None:
            return "quarantine" if name.endswith("_quarantine") else "other"
        if node["resource_type"] == "source":
            return "stream" if setting(node["config"], "stream") else "other"
        return "seed" if node["resource_type"] == "seed" else "model"

    def _freshness(self, made: tuple[ReportedTable, ...]) -> Iterator[Freshness]:
        changed = {table.name: table.last_change for table in made}
        for name, node in sorted(self.declared.tables.items()):
            if node["resource_type"] == "source" and self._kind(name) != "ops":
                yield freshness_of(node, changed.get(name))

    # --- models

    def _models(self, states: Mapping[str, tuple[Place, State]]) -> Iterator[ReportedModel]:
        read = {name: one for name, (_, one) in states.items()}
        told: dict[str, ReportedOutcome] = (
            self._try("dbt's run_results.json", outcomes, self.project) or {}
        )
        for key, node in self.declared.nodes.items():
            if node["resource_type"] in ("model", "snapshot"):
                name = table_name(node).lower()
                reads = [one for one, reader in self.declared.edges if reader == name]
                model = self._try(name, tables.model_of, name, node, read, told.get(key), reads)
                if model:
                    yield model

    # --- streams

    def _streams(self, states: Mapping[str, tuple[Place, State]]) -> Iterator[ReportedStream]:
        batches = self._try("ingestion's journal", self._journal) or {}
        for contract in self.declared.contracts:
            if found := self._try(contract.name, self._stream, contract, states, batches):
                yield found

    def _stream(
        self,
        contract: Contract,
        states: Mapping[str, tuple[Place, State]],
        batches: Mapping[str, list[Batch]],
    ) -> ReportedStream:
        told = status(self.project, contract)
        pending = told.pending
        quarantine = states.get(f"{contract.full_name}_quarantine".lower())
        reasons: dict[str, int] | None = {}
        if quarantine:
            folder, its = quarantine
            # a commit is also one that `erase` or `replay` made to remove rows
            reasons = self._try(
                f"the quarantine of {contract.name}",
                self._once,
                "reasons",
                folder,
                (its.id, its.version),
                lambda: records.reasons(folder, [name for name, _ in its.columns]),
            )
        return ReportedStream(
            name=contract.name,
            table=contract.full_name.lower(),
            source=told.source,
            rows=told.rows,
            quarantine=reasons,
            backlog=Backlog(pending.number, pending.unit, pending.size) if pending else None,
            interrupted=told.interrupted,
            error=told.error,
            last_batch=told.last,
            batches=tuple(batches.get(contract.name, ())[-MOST_BATCHES:]),
            settled=told.settled,
            has_landed=told.has_landed,
            stale_rows=told.stale_rows,
        )

    def _journal(self) -> dict[str, list[Batch]]:
        """Return the newest batches of each stream from ingestion's journal."""
        file = self.project.local / "logs" / "ingest.jsonl"
        found: dict[str, list[Batch]] = defaultdict(list)
        if not file.exists():
            return found
        with file.open("rb") as journal:
            journal.seek(max(0, file.stat().st_size - _JOURNAL))
            lines = journal.read().split(b"\n")
        for line in lines:  # the first and the last line may be incomplete
            if b'"batch"' not in line:
                continue
            try:
                one = json.loads(line)
                bad = sum(one["quarantined"].values())
                batch = Batch(
                    datetime.fromisoformat(one["at"]), int(one["rows"]), bad, float(one["seconds"])
                )
            except (ValueError, LookupError, TypeError, AttributeError):
                continue
            found[str(one["stream"])].append(batch)
        return found

    # --- records

    def _ops(
        self,
        states: Mapping[str, tuple[Place, State]],
        table: str,
        read: Callable[[Place, list[str]], tuple[T, ...]],
    ) -> tuple[T, ...]:
        """Read a table of the schema `ops`, or return nothing if it does not exist."""
        name = f"{self.declared.ops}.{table}"
        if (found := states.get(name)) is None:
            return ()
        folder, its = found
        has = [name for name, _ in its.columns]
        version = its.id, its.version
        return self._try(name, self._once, table, folder, version, lambda: read(folder, has)) or ()

    def _expectations(
        self, states: Mapping[str, tuple[Place, State]]
    ) -> tuple[ExpectationHistory, ...]:
        """Return the evaluated expectations, and those declared that no run has evaluated."""
        found = self._ops(states, "expectations", records.expectations)
        evaluated = {(one.table, one.name) for one in found}
        declared = []
        for name, node in self.declared.tables.items():
            for rule in self._try(name, _rules, node) or ():
                if (name, rule.name) not in evaluated:
                    declared.append(
                        ExpectationHistory(name, rule.name, rule.expression, rule.on_failure)
                    )
        return tuple(sorted((*found, *declared), key=lambda one: (one.table, one.name)))


def _names(folder: Place) -> list[str]:
    inside: Iterable[Place] = folder.iterdir()
    return [one.name for one in inside]


def _rules(node: Node) -> list[Any]:
    return list(expectations_of(node["config"])) if node["resource_type"] == "model" else []


def _coded(what: str, error: Exception) -> CodedError:
    """Return a problem with its code."""
    if isinstance(error, CodedError):
        return error
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{what}: {error.filename} cannot be used: {error.strerror}"
        return WorkError("HW_FILE", text)
    said = " ".join(str(error).split())[:300] or type(error).__name__
    return WorkError("HW_REPORT", f"{what} cannot be read: {said}")
