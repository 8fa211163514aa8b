"""The frozen plan of a run: facts and a decision. A step that learns more makes a new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from headwaters.runs.decisions import Decision, Size
from headwaters.runs.inputs import Spec
from headwaters.runs.recovery import Inputs
from headwaters.runs.session import DbtRelation
from headwaters.tables.commits import Range

if TYPE_CHECKING:
    from headwaters.analysis import Patch

Choice = Literal["skip", "replace", "incremental"]


@dataclass(frozen=True)
class Facts:
    """The facts that a run gathers before it stages the change set.

    `gap`: the reason that the change feeds cannot be read. `bounds`: those of the affected rows in
    the target. The next three are SQL that reads no change feed. `known_keys` gives the affected
    keys, `sums` the sums of changed rows, and `rest` the rows of a model with hidden tables.
    `of_rows`: the keys and sums come from rows of this SQL, and another SQL might not give them.
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

    - `ranges`, `lookups`: the changes of each followed input and each lookup since its applied
      version
    - `holds`: the applied versions
    - `columns`: digests of the inputs' columns
    - `interrupted`: a run that did not end
    - `seen`: the newest commit of the target
    - `same_sql`: the model's SQL built the table, over the same columns
    - `patch`: converts the table to the model's SQL
    - `is_patched`: an interrupted run has applied the patch
    - `is_requested`: `refresh: strict` allows the decision
    - `size`: the table's, or None if the run does not know it
    - `remedy`: avoids a replacement that was not requested
    - `compares`: the run computes the whole table, and writes the rows that differ from it
    - `built_by`: the new text that builds the table once this run has written, if it changes
    - `stored`: the tables with parts that the run stored
    """

    inputs: list[Spec]
    choice: Choice = "replace"
    reason: str = ""
    is_requested: bool = False
    remedy: str = ""
    compares: bool = False
    size: Size | None = None
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
    stored: tuple[DbtRelation, ...] = ()

    def decided(self, decision: Decision) -> Plan:
        """Return the plan with a decision."""
        return replace(
            self,
            choice=decision.choice,
            reason=decision.reason,
            is_requested=decision.is_requested,
            remedy=decision.remedy,
            compares=decision.compares,
        )

    def replacing(self, reason: str, remedy: str = "") -> Plan:
        """Return the plan with a replacement, its reason, and a way to avoid it."""
        return self.decided(Decision("replace", reason, remedy=remedy))
