"""Where PostgreSQL is: the server that a variable of the environment names, or the lake's own.

A lake may have a server of its own: `<lake>/postgres/postgres.json` says where it listens and has
its password, for its owner alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from headwaters.errors import UserError
from headwaters.servers import Server

VARIABLE = "HEADWATERS_POSTGRES"
USER, DATABASE = "headwaters", "postgres"


@dataclass(frozen=True)
class Postgres(Server):
    """A running PostgreSQL."""

    password: str = field(default="", repr=False)

    @property
    def address(self) -> str:
        """Where it listens, as people may see it."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """What clients take, with the password."""
        return f"postgresql://{USER}:{self.password}@{self.address}/{DATABASE}"


def find(lake: Path) -> Postgres | None:
    """The server that runs on this lake, or None."""
    return Postgres.running(record(lake))


def record(lake: Path) -> Path:
    """The file that says where the server of a lake is."""
    return lake / "postgres" / "postgres.json"


def url(lake: Path, variable: str = VARIABLE) -> str:
    """The server to talk to: the one that the variable names, or else this lake's own.

    The lake's own stands for HEADWATERS_POSTGRES alone. Raises UserError when there is neither.
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
