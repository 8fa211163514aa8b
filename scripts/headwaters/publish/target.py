"""The common parts of the targets of publications."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from headwaters.publish.changes import PublishedTable

FIRST = "first publication"


@dataclass(frozen=True)
class Done:
    """The result of a publication: numbers of rows; `whole` is why it sent all rows."""

    version: int
    upserts: int = 0
    deletes: int = 0
    whole: str | None = None
    already: bool = False

    def __add__(self, other: Done) -> Done:
        """Combine two publications, `other` being the later one."""
        upserts, deletes = self.upserts + other.upserts, self.deletes + other.deletes
        return Done(other.version, upserts, deletes, other.whole)

    def __str__(self) -> str:
        """Return one line."""
        if self.already:
            return f"version {self.version} is published already"
        what = f"{self.upserts:,} rows upserted, {self.deletes:,} deleted"
        why = f"; the whole table: {self.whole}" if self.whole else ""
        return f"version {self.version}: {what}{why}"


@dataclass(frozen=True)
class TargetDifference:
    """A target compared with the published version: rows missing, changed, and superfluous."""

    version: int
    rows: int
    missing: int
    extra: int

    @property
    def equal(self) -> bool:
        """Return true if the target has exactly the rows of the table."""
        return not self.missing and not self.extra

    def __str__(self) -> str:
        """Return one line."""
        if self.equal:
            return f"version {self.version}: {self.rows:,} rows, all equal"
        return (
            f"version {self.version}: {self.rows:,} rows, of which {self.missing:,} are missing "
            f"or differ; {self.extra:,} are there that the table does not have"
        )


class Target(ABC):
    """A target of publications, which stores the published version."""

    @abstractmethod
    def publish(self, source: PublishedTable) -> Done:
        """Publish a table at its pinned version, all of it or nothing. Raises CodedError."""

    @abstractmethod
    def compare(self, source: PublishedTable) -> TargetDifference | None:
        """Compare with the table at the published version; return None if none is published."""
