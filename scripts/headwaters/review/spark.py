"""Statements in dbt's own session, with errors that a public comment may show."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from dbt.adapters.headwaters.session import rows_of
from dbt_common.exceptions import DbtRuntimeError

from headwaters.platform.errors import UserError, first_line
from headwaters.platform.project import Project
from headwaters.platform.sql import quoted_table
from headwaters.tables.commits import Commit, commits_of, retains

COMMITS = 1000  # the review reads this many commits of a table's history


class Spark:
    """A runner of statements in dbt's own session."""

    def __init__(self, project: Project) -> None:
        """Open the session of a project's target. Raises UserError if the target has no session."""
        credentials = project.credentials
        if credentials.method != "session":
            raise UserError(
                "HW_PROFILE",
                f"a review works on targets of method session, not {credentials.method}",
            )
        self._settings = dict(credentials.server_side_parameters)
        self._lake = credentials.folder
        self._root = project.root

    @property
    def is_remote(self) -> bool:
        """Return true if the Spark is another process."""
        return "spark.remote" in self._settings

    def rows(self, sql: str) -> list[Any]:
        """Return the rows of a statement. Raises DbtRuntimeError with a one-line message."""
        with contextlib.chdir(self._root):  # embedded Spark uses the current folder
            try:
                return rows_of(self._settings, self._lake, sql)
            except DbtRuntimeError as error:
                raise DbtRuntimeError(without_values(first_line(error))) from None

    def tried(self, sql: str) -> str | None:
        """Run a statement and return None, or the one-line error if it fails."""
        try:
            self.rows(sql)
        except DbtRuntimeError as error:
            return first_line(error)
        return None

    def history(self, table: str, limit: int) -> list[Commit]:
        """Return the newest commits of a table, newest first. Raises DbtRuntimeError."""
        rows = self.rows(f"describe history {quoted_table(table)} limit {limit}")
        return commits_of(row.asDict() for row in rows)

    def newest(self, table: str) -> Commit | None:
        """Return the newest commit of a table, or None if no such Delta table exists."""
        try:
            return self.history(table, 1)[0]
        except (DbtRuntimeError, IndexError):
            return None

    def reads(self, table: str, noted: Mapping[str, int], commits: Sequence[Commit]) -> bool:
        """Return true if a noted commit is one of the newest, and its rows can still be read.

        Of files that another program deleted, the check notices only the first one missing.
        """
        if commits[0].is_same(noted):
            return True
        if not any(commit.is_same(noted) for commit in commits):
            return False
        version = noted["version"]
        if not retains(commits, version):
            return False
        return self.tried(f"select 1 from {table} version as of {version} limit 1") is None

    def columns(self, table: str) -> dict[str, str]:
        """Return the columns and their types, in order. Raises DbtRuntimeError."""
        found: dict[str, str] = {}
        for row in self.rows(f"describe table {table}"):
            if not row[1]:  # an empty row ends the columns; the next section has a header
                break
            found.setdefault(row[0], row[1])
        return found

    def properties(self, table: str) -> dict[str, str]:
        """Return the properties of a table."""
        return {row[0]: row[1] for row in self.rows(f"show tblproperties {table}")}

    def derivation(self, table: str) -> dict[str, Any] | None:
        """Return the derivation of the SQL that built a table, or None if it notes none."""
        try:
            noted = json.loads(self.properties(table).get("headwaters.proof") or "null")
        except (DbtRuntimeError, ValueError):
            return None
        return noted if isinstance(noted, dict) else None

    def derived_key(self, table: str) -> tuple[str, ...]:
        """Return the key derived from the SQL that built a table, or an empty tuple."""
        return tuple((self.derivation(table) or {}).get("unique_key") or ())


def without_values(message: str) -> str:
    """Return an error message without values of rows, which a public comment must not show.

    Error conditions of SQL classes 22 (data exception) and 23 (violated constraint), and errors
    that SQL itself raises, contain values of rows. All other conditions describe statements.
    """
    said = _REPEATED.sub(r"\1 some keys\2", message)
    if said != message:
        return said
    return _OF_ROWS.sub(
        r"[\1] in a row (SQLSTATE \2; the rest of the message may have values)", message
    )


_REPEATED = re.compile(r"(gives more than one row for) .*(\. The table was left as it is)")
_OF_ROWS = re.compile(r"\[([A-Z][\w.]+)\].*SQLSTATE: ((?:22|23|P0)\w{3})", re.DOTALL)
