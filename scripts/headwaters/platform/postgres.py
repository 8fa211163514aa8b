"""The address of PostgreSQL: from an environment variable, or the lake's local server.

A lake may have a local server: `<lake>/postgres/postgres.json` has its address and its password,
for its owner alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from headwaters.platform.errors import UserError
from headwaters.platform.servers import Server

VARIABLE = "HEADWATERS_POSTGRES"
USER, DATABASE = "headwaters", "postgres"


@dataclass(frozen=True)
class Postgres(Server):
    """A running PostgreSQL."""

    password: str = field(default="", repr=False)

    @property
    def address(self) -> str:
        """Return its address for display."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """Return the URL for clients, with the password."""
        return f"postgresql://{USER}:{self.password}@{self.address}/{DATABASE}"


def find(lake: Path) -> Postgres | None:
    """Return the server that runs on this lake, or None."""
    return Postgres.running(record(lake))


def record(lake: Path) -> Path:
    """Return the file with the address of a lake's server."""
    return lake / "postgres" / "postgres.json"


def url(lake: Path, variable: str = VARIABLE) -> str:
    """Return the server's URL: from the variable, or else this lake's local server.

    Only HEADWATERS_POSTGRES defaults to the local server. Raises UserError if there is neither.
    """
    if named := os.environ.get(variable):
        return named
    if variable == VARIABLE and (server := find(lake)):
        return server.url
    own = "run `headwaters postgres start`, or " if variable == VARIABLE else ""
    raise UserError(
        "HW_NO_POSTGRES",
        f"no PostgreSQL: {own}set {variable} to postgresql://user:password@host/database",
    )
