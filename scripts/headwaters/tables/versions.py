"""The version of a table that a user names by its number or by a time. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from headwaters.platform.errors import UserError
from headwaters.tables.commits import Commit, milliseconds

_TIME = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?Z?)?")


@dataclass(frozen=True)
class WantedVersion:
    """A version by its number, or the last one at a `moment` in milliseconds.

    `text` names it in errors.
    """

    operation: str
    text: str
    number: int | None = None
    moment: int | None = None

    def is_at(self, commit: Commit) -> bool:
        """Return true for the newest commit that made it, of commits newest first."""
        if self.moment is None:
            return commit.version == self.number
        return commit.at <= self.moment


@dataclass(frozen=True)
class FoundVersion:
    """A version in a table's history; a later VACUUM may have deleted files of it."""

    version: int
    is_vacuumed: bool


def wanted_version(operation: str, version: object, timestamp: object) -> WantedVersion:
    """Return the version that the arguments of an operation name.

    Raises:
        UserError: both arguments or neither are given, or one cannot be read.
    """
    if (version is None) == (timestamp is None):
        raise _wrong(operation, "name either a version or a timestamp.")
    if timestamp is not None:
        # without quotes, YAML parses a time, whose text is 2026-01-31 12:00:00+00:00
        written = str(timestamp).replace("+00:00", "Z")
        try:
            if not _TIME.fullmatch(written):
                raise ValueError
            moment = milliseconds(written.replace("Z", "").replace("T", " "))
        except ValueError:
            raise _wrong(
                operation,
                f"timestamp is '{timestamp}': write it as 2026-01-31 or 2026-01-31T12:00:00Z, in "
                "UTC.",
            ) from None
        return WantedVersion(operation, f"version of {timestamp}", moment=moment)
    if not isinstance(version, int) or isinstance(version, bool):
        raise _wrong(operation, f"version is '{version}', it must be a whole number.")
    return WantedVersion(operation, f"version {version}", number=version)


def found_version(
    wanted: WantedVersion, relation: object, commits: Sequence[Commit]
) -> FoundVersion:
    """Return the version in a table's history, whose commits are newest first.

    Raises:
        UserError: the history does not have it.
    """
    is_vacuumed = False
    for commit in commits:
        if wanted.is_at(commit):
            return FoundVersion(commit.version, is_vacuumed)
        is_vacuumed |= commit.operation == "VACUUM START"
    first, last = (f"{one.version} ({_utc(one.at)})" for one in (commits[-1], commits[0]))
    raise UserError(
        "HW_NO_SUCH_VERSION",
        f"{wanted.operation}: {relation} has no {wanted.text}; its history has versions {first} "
        f"to {last}. Nothing was changed.",
    )


def _wrong(operation: str, text: str) -> UserError:
    return UserError("HW_VERSION", f"{operation}: {text}")


def _utc(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
