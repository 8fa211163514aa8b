"""Compare the rows of tables as Trino reads them with those of their logs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from headwaters.devkit import trino
from headwaters.platform.errors import UserError, WorkError, first_line
from headwaters.platform.project import Project
from headwaters.tables.delta_log import snapshot
from headwaters.tables.table_folders import table_folders

TABLES = (
    "select table_schema, table_name from information_schema.tables where table_type = 'BASE TABLE'"
    " and table_schema <> 'information_schema' order by 1, 2"
)


class TrinoError(Exception):
    """Trino's message about a statement that failed."""


@dataclass(frozen=True)
class ComparedTable:
    """The rows of a table by its log and by Trino, or the problem of reading it.

    `rows` is None if the files of the table have no statistics.
    """

    name: str
    rows: int | None = None
    in_trino: int | None = None
    problem: str | None = None

    @property
    def is_right(self) -> bool:
        """Return true if Trino reads the table, and the numbers are equal or one is unknown."""
        return self.problem is None and self.rows in (None, self.in_trino)

    def line(self, width: int) -> str:
        """Return the table's line of the output, with its name at this width."""
        if self.problem is not None:
            return f"{self.name:<{width}}  {self.problem}"
        compared = "its log has no count" if self.rows is None else f"its log has {self.rows:,}"
        if self.is_right and self.rows is not None:
            return f"{self.name:<{width}}  {self.in_trino:>9,} rows"
        return f"{self.name:<{width}}  {self.in_trino:>9,} rows, and {compared}"


def address(project: Project, server: str | None) -> str:
    """Return the address of a Trino: the named one, or that of this lake.

    Raises UserError if none runs on this lake.
    """
    if server is not None:
        return server.rstrip("/")
    found = trino.find(project.local)
    if found is None:
        raise UserError(
            "HW_ARGUMENT",
            "no Trino runs on this lake: start one with `headwaters platform start --with trino`, "
            "or name yours with --server",
        )
    return f"http://127.0.0.1:{found.port}"


def compare(project: Project, server: str, catalog: str) -> Iterator[ComparedTable]:
    """Yield each table of a catalog that is in the warehouse of the project, by its name.

    Raises WorkError if Trino does not answer or refuses the catalog, and UserError if the catalog
    has no table of the project.
    """
    folders = table_folders(project.warehouse, {})
    try:
        names = [".".join(row) for row in query(server, catalog, TABLES)]
    except TrinoError as error:
        raise WorkError("HW_SERVER", f"Trino at {server}: {first_line(error)}") from None
    states = {name: snapshot(folders[name]) for name in names if name in folders}
    if not any(states.values()):
        raise UserError(
            "HW_ARGUMENT",
            f"the catalog {catalog} of Trino at {server} has no table of {project.warehouse}: see "
            "the metastore that it names",
        )
    for name, state in states.items():
        if state is None:
            continue
        quoted = ".".join(f'"{part}"' for part in name.split("."))
        try:
            ((found,),) = query(server, catalog, f"select count(*) from {quoted}")
        except TrinoError as error:
            yield ComparedTable(name, problem=first_line(error))
        else:
            yield ComparedTable(name, state.rows, found)


def query(server: str, catalog: str, statement: str) -> list[tuple[Any, ...]]:
    """Run a statement, and return its rows.

    Raises TrinoError with Trino's message, and WorkError if Trino does not answer.
    """
    headers = {"X-Trino-User": "headwaters", "X-Trino-Catalog": catalog}
    request = Request(f"{server}/v1/statement", statement.encode(), headers)
    rows: list[tuple[Any, ...]] = []
    while True:
        try:
            with urlopen(request, timeout=300) as answer:
                page = json.load(answer)
        except (URLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise WorkError("HW_SERVER", f"no Trino answers at {server} ({reason})") from None
        if "error" in page:
            raise TrinoError(f"{page['error']['errorName']}: {page['error']['message']}")
        rows += map(tuple, page.get("data", ()))
        if "nextUri" not in page:
            return rows
        request = Request(page["nextUri"], headers=headers)
