"""The plan of a run: facts and a decision. Frozen; a step that learns more makes another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from headwaters.runs.decisions import Decision
from headwaters.runs.inputs import Spec
from headwaters.runs.recovery import Inputs
from headwaters.runs.session import Relation
from headwaters.tables.commits import Range

if TYPE_CHECKING:
    from headwaters.analysis import Patch

Choice = Literal["skip", "replace", "incremental"]


@dataclass(frozen=True)
class Facts:
    """What a run learns before it stages the change set.

    `gap`: why the change feeds cannot be read. `bounds` of the affected rows in the target.
    `known_keys`: SQL of the affected keys that reads no change feed; `sums`, of the sums of changed
    rows; `rest`, of the rows of a model with hidden tables. `of_rows`: the keys and sums are of
    rows that the SQL gives, which another SQL might not give.
    """

    gap: str | None = None
    same_columns: bool = True
    bounds: Sequence[Any] = ()
    known_keys: str | None = None
    are_stored: bool = False
    sums: str | None = None
    rest: str | None = None
    of_rows: bool = False


@dataclass(frozen=True)
class Plan:
    """The plan of a run.

    `ranges`: what happened to each followed input since its applied version, `lookups` the same of
    lookups. `holds`: the applied versions. `same_sql`: the model's SQL built the table, over the
    same columns. `columns`: digests of the inputs' columns. `interrupted`: a run that did not end.
    `seen`: the newest commit of the target. `patch` makes the table that of the model's SQL;
    `is_patched`: an interrupted run did so. `built_by`: what the table is the result of once this
    run has written, if that changes. `stored`: tables that the run stored parts in.
    """

    inputs: list[Spec]
    choice: Choice = "replace"
    reason: str = ""
    ranges: Mapping[str, Range] = field(default_factory=dict)
    lookups: Mapping[str, Range] = field(default_factory=dict)
    holds: Inputs | None = None
    rows: int = 0
    columns: Mapping[str, str] = field(default_factory=dict)
    interrupted: str | None = None
    foreign: str | None = None
    seen: Mapping[str, int] | None = None
    commits: int = 0
    detail: Mapping[str, Any] | None = None
    proof: str | None = None
    same_sql: bool = False
    patch: Patch | None = None
    is_patched: bool = False
    built_by: str | None = None
    facts: Facts = field(default_factory=Facts)
    stored: tuple[Relation, ...] = ()

    def decided(self, decision: Decision) -> Plan:
        """Return the plan with a decision."""
        return replace(self, choice=decision.choice, reason=decision.reason)

    def replacing(self, reason: str) -> Plan:
        """Return the plan with a replacement for a reason."""
        return replace(self, choice="replace", reason=reason)
