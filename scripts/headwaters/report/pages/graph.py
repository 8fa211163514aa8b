"""The lineage of tables as a drawing: a box for each table, with two lines of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from headwaters.report.pages.layers import Drawing, Sizes, draw

SIZES = Sizes(width=228, height=42, between_layers=36, between_nodes=14)
SUB = 34  # characters that fit on the second line
_LABEL = 30


@dataclass(frozen=True)
class Box:
    """The content of a table's box. Without `href` it is not a link."""

    label: str
    sub: str
    title: str
    classes: str
    href: str | None


@dataclass(frozen=True)
class Node:
    """A box and its place in the drawing."""

    id: str
    x: float
    y: float
    box: Box


@dataclass(frozen=True)
class Graph:
    """The drawing of a lineage."""

    drawing: Drawing
    nodes: tuple[Node, ...]
    sizes: Sizes = SIZES


def graph(
    names: Iterable[str], edges: Sequence[tuple[str, str]], box: Callable[[str], Box]
) -> Graph:
    """Draw the lineage of these tables and of those at the ends of the edges (source, target)."""
    every = list(dict.fromkeys([*names, *(end for edge in edges for end in edge)]))
    drawing = draw(every, edges, SIZES)
    return Graph(drawing, tuple(Node(name, *drawing.nodes[name], box(name)) for name in every))


def clipped(name: str) -> str:
    """Shorten a name to the first line in its middle, because long names differ at their ends."""
    return name if len(name) <= _LABEL else f"{name[: _LABEL - 12]}…{name[-11:]}"
