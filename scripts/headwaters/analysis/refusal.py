"""The reasons why a model is not proven."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

_WITHOUT_PROOF = (
    "Write it in another way, or say incremental_proof: sample, which tries a thousand rows in "
    "place of a proof"
)


# The codes of a query whose result may differ between runs over the same rows.
UNSTABLE = ("HW_NO_SUCH_FUNCTION", "HW_NONDETERMINISTIC")


@dataclass
class Refused(Exception):
    """A clause that no rule takes.

    `code` is a code of docs/errors.md, `clause` the SQL, and `line` its line in the compiled model.
    `reason` is the rule that it breaks, and `remedy` the change to make. Clause and line may be
    functions that only a message calls, because the analysis discards most refusals.
    """

    code: str
    clause: str | Callable[[], str]
    line: int | Callable[[], int | None] | None
    reason: str
    remedy: str = ""

    @property
    def is_unstable(self) -> bool:
        """Return true if the result of the query may differ between runs over the same rows."""
        return self.code in UNSTABLE

    @property
    def place(self) -> tuple[str, int | None]:
        """Return clause and line, calling them if they are functions."""
        clause = self.clause() if callable(self.clause) else self.clause
        return clause, self.line() if callable(self.line) else self.line

    @property
    def cause(self) -> str:
        """Return clause, place and reason as text."""
        clause, line = self.place
        place = f" (line {line} of the compiled SQL)" if line else ""
        return (f"`{clause}`{place}: " if clause else "") + self.reason

    def __str__(self) -> str:
        """Return clause, place, reason and remedy for a message."""
        remedy = self.remedy or (_WITHOUT_PROOF if self.code == "HW_NOT_UNDERSTOOD" else "")
        return f"{self.cause}." + (f" {remedy}." if remedy else "")


def unforeseen(error: Exception) -> Refused:
    """Return the refusal for an unforeseen error of the analysis, which proves nothing."""
    reason = f"its analysis failed, {type(error).__name__}: {error}"
    return Refused("HW_NOT_UNDERSTOOD", "", None, reason)
