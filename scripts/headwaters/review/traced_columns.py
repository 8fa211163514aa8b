"""The columns that a review masks, and those with the time of a run, by their lineage. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from headwaters.analysis import ROWS, Origin, Token, tokens
from headwaters.platform.nodes import Node, table_name
from headwaters.platform.spark_version import BARE_FUNCTIONS, CHANGING_FUNCTIONS
from headwaters.report.lineage.graph import LineageGraph
from headwaters.report.lineage.tables import LineageTable, key_of, tables_of
from headwaters.review.sides import Side, parents_of, reached

Columns = Mapping[str, frozenset[str]]  # lower-case names by the ids of nodes
# A column that stands for what a function of the moment returns, and its table's declaration.
_MOMENT = Origin("hw_review.moments", "moment")
_MOMENTS: Node = {
    **{"resource_type": "source", "source_name": "hw_review", "name": "moments"},
    **{"schema": "hw_review", "identifier": "moments", "original_file_path": ""},
    **{"config": {}, "columns": {_MOMENT.name: {}}, "depends_on": {}},
}


def with_columns(
    side: Side, keys: Iterable[str], columns_of: Callable[[str], Mapping[str, object] | None]
) -> Side:
    """Return a side whose sources above these nodes have the columns of their tables.

    A source need not declare its columns, or not all of them. `columns_of` returns those of a
    table, or None if they are unknown.
    """
    known = (key for key in keys if key in side.nodes)
    above = reached(known, lambda key: filter(side.nodes.__contains__, parents_of(side.nodes[key])))
    nodes = dict(side.nodes)
    for key in sorted(above):
        node = nodes[key]
        is_declared = (node["config"].get("meta") or {}).get("stream")  # by its contract
        is_source = node["resource_type"] == "source"
        if is_source and not is_declared and (found := columns_of(table_name(node))):
            declared = {str(name).lower() for name in node["columns"]}
            more = [name for name in found if name.lower() not in declared]
            nodes[key] = {**node, "columns": {**node["columns"], **{name: {} for name in more}}}
    return replace(side, nodes=nodes)


class Masks:
    """The columns of each table that a review of two sides masks.

    Masked is a column that is declared as `pii`, one that is computed from such a column, and one
    with the name of a declared one: a table without a declaration may have the same values. If a
    table's SQL is not analysed, and it reads a masked column, all of its columns are masked.
    """

    def __init__(self, *sides: Side) -> None:
        """Trace the declared columns of both sides."""
        declared = [_declared(side) for side in sides]
        self._names = {column.name for some in declared for column in some}
        self._traced = [_traced(*pair) for pair in zip(sides, declared, strict=True)]

    def of(self, key: str) -> frozenset[str]:
        """Return a table's masked columns in lower case; `*` stands for all."""
        return frozenset(self._names.union(*(side.get(key, ()) for side in self._traced)))


def is_masked(name: str, masked: Collection[str]) -> bool:
    """Return true if a column is one of those masked."""
    return name.lower() in masked or ROWS in masked


def _declared(side: Side) -> set[Origin]:
    return {
        Origin(key_of(node), str(name).lower())
        for node in filter(_is_table, side.nodes.values())
        for name, column in (node.get("columns") or {}).items()
        if (column.get("meta") or (column.get("config") or {}).get("meta") or {}).get("pii")
    }


def _traced(side: Side, declared: Collection[Origin]) -> Columns:
    if not declared:
        return {}
    graph = _graph(side, side.nodes)
    unknown: dict[str, list[LineageTable]] = {}
    for table in graph.tables.values():
        if table.relation is None:
            for name in table.reads:
                unknown.setdefault(name, []).append(table)
    return _below(side, declared, graph, unknown)


def momentary_columns(side: Side) -> Columns:
    """Return the columns computed from a function of the moment, as `current_timestamp()`."""
    nodes = {key: _with_moments(node) for key, node in side.nodes.items()}
    if all(node is side.nodes[key] for key, node in nodes.items()):
        return {}
    return _below(side, [_MOMENT], _graph(side, {**nodes, "hw_moments": _MOMENTS}))


def _graph(side: Side, nodes: Mapping[str, Node]) -> LineageGraph:
    return LineageGraph(tables_of(nodes, {}, side.refused, side.root))


def _below(
    side: Side,
    start: Iterable[Origin],
    graph: LineageGraph,
    unknown: Mapping[str, Sequence[LineageTable]] = MappingProxyType({}),
) -> dict[str, frozenset[str]]:
    """Return the columns with values of others, those included, by the ids of their nodes.

    `unknown` are tables of unknown lineage, by each table that they read: `*` stands for all of
    their columns.
    """
    values: dict[Origin, set[Origin]] = {}
    for origin, column, kind in graph.edges:
        if kind == "value":
            values.setdefault(origin, set()).add(column)
            values.setdefault(Origin(origin.table, ROWS), set()).add(column)
    found: set[Origin] = set()
    fresh = set(start)
    while fresh:
        found |= fresh
        below = {other for column in fresh for other in values.get(column, ())}
        readers = (table for column in fresh for table in unknown.get(column.table, ()))
        fresh = (below | {Origin(table.key, ROWS) for table in readers}) - found
    names: dict[str, set[str]] = {}
    for column in found:
        names.setdefault(column.table, set()).add(column.name)
    keys = {key: key_of(node) for key, node in side.nodes.items() if _is_table(node)}
    return {key: frozenset(names[table]) for key, table in keys.items() if table in names}


def _is_table(node: Node) -> bool:
    return node["resource_type"] in ("model", "seed", "snapshot", "source")


def _with_moments(node: Node) -> Node:
    """Return a node whose SQL reads a column of `hw_moments` for each function of the moment."""
    sql = str(node.get("compiled_code") or "")
    if node["resource_type"] not in ("model", "snapshot") or not sql:
        return node
    read = list(tokens(sql))
    written = "".join(_without_calls(read))
    return node if written == sql else {**node, "compiled_code": written}


def _without_calls(read: Sequence[Token]) -> Iterator[str]:
    column = f"(select {_MOMENT.name} from {_MOMENT.table})"
    place = 0
    while place < len(read):
        word = read[place].word
        end = _end_of_call(read, place) if word in CHANGING_FUNCTIONS else None
        is_bare = word in BARE_FUNCTIONS - {"user"} and not _is_part_of_name(read, place)
        if end is None and not is_bare:
            yield read[place].text
            place += 1
        else:
            yield column
            place = place + 1 if end is None else end


def _end_of_call(read: Sequence[Token], place: int) -> int | None:
    """Return the place after the call of a function, or None if the name is not called."""
    depth = 0
    for after in range(place + 1, len(read)):
        text = read[after].text
        if not depth and text.strip() and text != "(":
            return None
        depth += {"(": 1, ")": -1}.get(text, 0)
        if text == ")" and not depth:
            return after + 1
    return None


def _is_part_of_name(read: Sequence[Token], place: int) -> bool:
    """Return true for a column or an alias of this name: `t.user`, `x as current_date`."""
    words = [token.text for token in read[:place] if token.text.strip()]
    before = words[-1].lower() if words else ""
    after = next((token.text for token in read[place + 1 :] if token.text.strip()), "")
    return before in (".", "as") or after == "."
