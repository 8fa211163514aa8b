"""Origin lineage as a graph: neighbours above and below, and lookup by a user's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from headwaters.analysis import ROWS, Origin, OriginKind, joined_origins
from headwaters.platform.errors import UserError
from headwaters.platform.names import or_nearest
from headwaters.report.lineage.tables import LineageTable

Direction = Literal["up", "down"]
# An origin, the column computed from it, and how.
Edge = tuple[Origin, Origin, OriginKind]


@dataclass(frozen=True)
class LineageGraph:
    """The project's tables, by their keys."""

    tables: Mapping[str, LineageTable]

    # names

    def find(self, name: str) -> tuple[LineageTable, str | None]:
        """Return the table that a user names, or a table and its column in lower case.

        The name is dbt's, or has a schema. Raises UserError.
        """
        wanted = name.replace("`", "")
        if found := self._named(wanted):
            return self._analysed(found), None
        before, dot, last = wanted.rpartition(".")
        found = self._named(before) if dot else None
        if not found:
            names = [table.name for table in self.tables.values()]
            # in `sesions.revenue`, only the table is unknown
            unknown = before if dot and not self._schema(before) else wanted
            raise UserError(
                "HW_NO_SUCH_MODEL",
                f"lineage: no model, seed, snapshot or source is named '{unknown}'"
                f"{or_nearest(unknown, names)}",
            )
        column = last.lower()
        if column in found.columns or Origin(found.key, column) in self._readers:
            return found, column
        self._analysed(found)
        names = [found.spelled(column) for column in found.columns]
        raise UserError(
            "HW_NO_SUCH_COLUMN",
            f"lineage: {found.name} ({found.file}) has no column '{last}'{or_nearest(last, names)}",
        )

    def _named(self, name: str) -> LineageTable | None:
        wanted = name.lower()
        found = [
            table
            for table in self.tables.values()
            if wanted in (table.key, table.name.lower())
            or (table.kind == "source" and wanted == table.name.lower().split(".", 1)[1])
        ]
        exact = [table for table in found if table.kind != "source"] or found
        if len(exact) > 1:
            keys = ", ".join(sorted(table.key for table in exact))
            raise UserError(
                "HW_AMBIGUOUS_TABLE", f"lineage: several tables are named '{name}': write {keys}"
            )
        return exact[0] if exact else None

    def _schema(self, name: str) -> bool:
        return any(key.startswith(f"{name.lower()}.") for key in self.tables)

    def _analysed(self, table: LineageTable) -> LineageTable:
        if table.relation is None:
            raise UserError(
                "HW_NO_LINEAGE", f"lineage: {table.name} ({table.file}): {table.reason}"
            )
        return table

    def shown(self, key: str) -> str:
        """Return a table's display name: for an unknown table, its SQL name."""
        return self.tables[key].name if key in self.tables else key

    def spelled(self, column: Origin) -> str:
        """Return a column's display name."""
        table = self.tables.get(column.table)
        return table.spelled(column.name) if table else column.name

    # edges

    def step(self, columns: Iterable[Origin], direction: Direction) -> dict[Origin, OriginKind]:
        """Return the direct origins of these columns, or the columns computed from them."""
        found = joined_origins(
            *({other: kind} for one in columns for other, kind in self._at(one, direction))
        )
        if direction == "down":
            # an origin of a table's rows affects all of its columns
            for column in list(found):
                if column.name == ROWS:
                    for name in self.tables[column.table].columns:
                        found.setdefault(Origin(column.table, name), "rows")
        return found

    def _at(self, column: Origin, direction: Direction) -> list[tuple[Origin, OriginKind]]:
        if direction == "down":
            return self._readers.get(column, [])
        table = self.tables.get(column.table)
        if table is None or table.relation is None:
            return []
        own = table.relation.columns.get(column.name, {})
        return [*((other, "rows") for other in table.relation.rows), *own.items()]

    @cached_property
    def _readers(self) -> dict[Origin, list[tuple[Origin, OriginKind]]]:
        """Return the readers of each column; readers of its rows count for the table's rows."""
        found: dict[Origin, list[tuple[Origin, OriginKind]]] = {}
        for origin, column, kind in self.edges:
            if origin.table != column.table or origin.name != ROWS:
                found.setdefault(origin, []).append((column, kind))
        return found

    @cached_property
    def edges(self) -> list[Edge]:
        """Return all edges.

        An origin of a table's rows leads to the rows alone, and the rows lead to each of its
        columns.
        """
        found: list[Edge] = []
        for table in self.tables.values():
            if table.relation is None:
                continue
            rows = Origin(table.key, ROWS)
            found += [(origin, rows, "rows") for origin in table.relation.rows]
            for name, origins in table.relation.columns.items():
                column = Origin(table.key, name)
                found += [(origin, column, kind) for origin, kind in origins.items()]
                if table.relation.rows:
                    found.append((rows, column, "rows"))
        return found

    def not_analysed(self, key: str, direction: Direction) -> list[LineageTable]:
        """Return the table, or its readers, if their SQL is not analysed."""
        if direction == "up":
            found = [self.tables[key]] if key in self.tables else []
        else:
            found = [table for table in self.tables.values() if key in table.reads]
        return [table for table in found if table.relation is None]
