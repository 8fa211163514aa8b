"""Why a model is not proven."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

_WITHOUT_PROOF = (
    "Write it in another way, or say incremental_proof: sample, which tries a thousand rows in "
    "place of a proof"
)


@dataclass
class Refused(Exception):
    """A clause that no rule takes.

    `code` is of docs/errors.md; `clause` the SQL; `line` counts in the compiled
    model; `reason` the rule that it does not meet, and `remedy` what to write. Clause and line may
    be functions, which a message calls: most refusals are of ways that were only tried.
    """

    code: str
    clause: str | Callable[[], str]
    line: int | Callable[[], int | None] | None
    reason: str
    remedy: str = ""

    @property
    def place(self) -> tuple[str, int | None]:
        """Clause and line, called where they are functions."""
        clause = self.clause() if callable(self.clause) else self.clause
        return clause, self.line() if callable(self.line) else self.line

    @property
    def cause(self) -> str:
        """Clause, place and reason."""
        clause, line = self.place
        place = f" (line {line} of the compiled SQL)" if line else ""
        return (f"`{clause}`{place}: " if clause else "") + self.reason

    def __str__(self) -> str:
        """For a message: clause, place, reason, remedy."""
        remedy = self.remedy or (_WITHOUT_PROOF if self.code == "HW_NOT_UNDERSTOOD" else "")
        return f"{self.cause}." + (f" {remedy}." if remedy else "")


def unforeseen(error: Exception) -> Refused:
    """What the analysis did not foresee proves nothing."""
    reason = f"its analysis failed, {type(error).__name__}: {error}"
    return Refused("HW_NOT_UNDERSTOOD", "", None, reason)
