"""Lineage as text and as a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from headwaters.analysis import ROWS, Origin, OriginKind
from headwaters.report.lineage.graph import Direction, Edge, LineageGraph
from headwaters.report.lineage.tables import LineageTable

# One line of a tree: columns of one table, reached in the same way.
_Group = tuple[OriginKind, str, tuple[Origin, ...]]


def text(
    graph: LineageGraph, table: LineageTable, column: str | None, directions: Sequence[Direction]
) -> str:
    """Return the lineage of a column as a tree, or of each column of a table to its neighbours."""
    if column is None:
        return "\n".join([f"{table.name} ({table.file})", *_columns(graph, table, directions)])
    start = Origin(table.key, column)
    lines = [f"{table.name}.{graph.spelled(start)} ({table.file})"]
    for direction in directions:
        branches = list(_Tree(graph, direction).below(table.key, (start,)))
        lines += ["", direction, *(f"  {line}" for line in branches or ["nothing"])]
    return "\n".join(lines)


def _columns(
    graph: LineageGraph, table: LineageTable, directions: Sequence[Direction]
) -> Iterator[str]:
    """Yield each column with its neighbours, and last the neighbours that all columns share."""
    for direction in directions:
        yield from ("", direction)
        rows = graph.step([Origin(table.key, ROWS)], direction)
        found = {
            name: {
                other: kind
                for other, kind in graph.step([Origin(table.key, name)], direction).items()
                if direction == "down" or kind == "value" or other not in rows
            }
            for name in table.columns
        }
        shown = {table.spelled(name): _groups(graph, near) for name, near in found.items()}
        if direction == "up":
            shown["every column"] = _groups(graph, rows)
        width = max(map(len, shown))
        for name, groups in shown.items():
            lines = [_line(graph, group, groups) for group in groups] or ["no column"]
            for number, line in enumerate(lines):
                yield f"  {name if number == 0 else '':{width}}  {line}"
        if direction == "up":
            yield from (f"  not analysed: {note}" for note in table.notes)
        yield from (f"  {line}" for line in _not_analysed(graph, table.key, direction))
        if direction == "down":
            yield from (f"  exposure {name}" for name in table.exposures)


class _Tree:
    """A tree of groups, each expanded at its first occurrence."""

    def __init__(self, graph: LineageGraph, direction: Direction) -> None:
        self._graph = graph
        self._direction: Direction = direction
        self._followed: set[tuple[Origin, ...]] = set()
        self._described: set[str] = set()

    def below(self, key: str, columns: tuple[Origin, ...]) -> Iterator[str]:
        """Yield the lines under a group of columns of a table."""
        self._followed.add(columns)
        groups = _groups(self._graph, self._graph.step(columns, self._direction))
        for group in groups:
            line = _line(self._graph, group, groups)
            if group[2] in self._followed:
                again = any(self._graph.step(group[2], self._direction))
                yield f"{line} (above)" if again else line
                continue
            yield line
            yield from (f"  {line}" for line in self.below(group[1], group[2]))
        if key not in self._described:
            self._described.add(key)
            table = self._graph.tables.get(key)
            if self._direction == "down":
                yield from (f"exposure {name}" for name in (table.exposures if table else ()))
            else:
                yield from (f"not analysed: {note}" for note in (table.notes if table else ()))
            yield from _not_analysed(self._graph, key, self._direction)


def _not_analysed(graph: LineageGraph, key: str, direction: Direction) -> Iterator[str]:
    for table in graph.not_analysed(key, direction):
        yield f"not analysed: {table.name} ({table.file}): {table.reason}"


def _groups(graph: LineageGraph, columns: Mapping[Origin, OriginKind]) -> list[_Group]:
    """Group columns by kind and table, values first; omit rows of a table with other columns."""
    found: dict[tuple[OriginKind, str], list[Origin]] = {}
    tables = {column.table for column in columns if column.name != ROWS}
    order = sorted(columns, key=lambda one: (columns[one] == "rows", graph.shown(one.table), one))
    for column in order:
        if column.name != ROWS or column.table not in tables:
            found.setdefault((columns[column], column.table), []).append(column)
    # origins of rows are followed together with the columns
    for column in columns:
        if column.name == ROWS and column.table in tables:
            group = found.get(("rows", column.table)) or found["value", column.table]
            group.append(column)
    return [(kind, table, tuple(group)) for (kind, table), group in found.items()]


def _line(graph: LineageGraph, group: _Group, beside: Sequence[_Group]) -> str:
    """Return the line of a group, given all groups of the same step."""
    kind, key, columns = group
    table = graph.tables.get(key)
    names = [graph.spelled(column) for column in columns if column.name != ROWS]
    all_names = {c.name for _, other, found in beside if other == key for c in found} - {ROWS}
    is_all = table is not None and all_names == set(table.columns) and len(names) > 1
    if not names:
        said = "its rows"
    elif is_all and len(names) == len(all_names):
        said = "every column"
    elif is_all and kind == "rows":
        said = "every other column"
    else:
        said = ", ".join(names)
    of = f" ({table.kind})" if table and table.kind != "model" else ""
    return f"{kind:5}  {graph.shown(key)}{of}: {said}"


def mermaid(
    graph: LineageGraph, table: LineageTable, column: str | None, directions: Sequence[Direction]
) -> str:
    """Return the same as a flowchart: solid arrows are values, dotted ones affect rows.

    An origin of a table's rows points to the table's node `rows`, and that to the columns.
    """
    starts = [Origin(table.key, name) for name in ([column] if column else table.columns)]
    edges: set[Edge] = set()
    below = {table.key}
    for direction in directions:
        reached = set(_reached(graph, starts, direction, follow=column is not None))
        edges |= reached
        below |= {edge[1].table for edge in reached if direction == "down"}
    # a column that affects the rows stands for the rows of its table
    by_columns = {(one.table, other) for one, other, _ in edges if one.name != ROWS}
    edges = {
        edge
        for edge in edges
        if edge[0].name != ROWS
        or edge[1].name != ROWS
        or (edge[0].table, edge[1]) not in by_columns
    }
    nodes = sorted({*starts, *(one for edge in edges for one in edge[:2])})
    names = {node: f"c{number}" for number, node in enumerate(nodes)}
    lines = ["flowchart LR"]
    for number, key in enumerate(dict.fromkeys(node.table for node in nodes)):
        lines.append(f'    subgraph t{number}["{_escaped(graph.shown(key))}"]')
        for node in nodes:
            if node.table == key:
                is_rows = node.name == ROWS
                label = "([rows])" if is_rows else f'["{_escaped(graph.spelled(node))}"]'
                lines.append(f"        {names[node]}{label}")
        lines.append("    end")
    for origin, other, kind in sorted(edges):
        arrow = "-->" if kind == "value" else "-.->"
        lines.append(f"    {names[origin]} {arrow} {names[other]}")
    if "down" in directions:
        tables = list(dict.fromkeys(node.table for node in nodes))
        lines += _exposures(graph, {key: n for n, key in enumerate(tables) if key in below})
    return "\n".join(lines)


def _exposures(graph: LineageGraph, tables: Mapping[str, int]) -> Iterator[str]:
    """Yield the exposures of these tables, each with its number."""
    shown = sorted(
        (name, number)
        for key, number in tables.items()
        if key in graph.tables
        for name in graph.tables[key].exposures
    )
    for number, name in enumerate(dict.fromkeys(name for name, _ in shown)):
        yield f'    e{number}[/"{_escaped(name)}"/]'
        yield from (f"    t{table} --> e{number}" for other, table in shown if other == name)


def _reached(
    graph: LineageGraph, starts: Iterable[Origin], direction: Direction, follow: bool
) -> Iterator[Edge]:
    """Yield the edges on the way up or down, or only those of the starts unless `follow`."""
    is_up = direction == "up"
    by_end: dict[Origin, list[tuple[Origin, Edge]]] = {}
    for edge in graph.edges:
        origin, column, _ = edge
        near, far = (column, origin) if is_up else (origin, column)
        by_end.setdefault(near, []).append((far, edge))
    waiting = list(starts)
    seen = set(waiting)
    while waiting:
        column = waiting.pop()
        for other, edge in by_end.get(column, []):
            yield edge
            # rows are a step within the table
            if other not in seen and (follow or other.table == column.table):
                seen.add(other)
                waiting.append(other)


def _escaped(name: str) -> str:
    return name.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
