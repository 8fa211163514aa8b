"""A directed graph drawn in layers, from left to right, after Sugiyama and others (1981).

Each node stands right of its dependencies. Edges over several layers get a place in each of them.
Barycentres order the layers. The places in a layer are the closest to their neighbours' that do not
overlap (isotonic regression). Pure and deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

import networkx as nx

_SWEEPS = 8
_LANE = 0.4  # the height of an edge that crosses a layer, as a share of a node's

Edge = tuple[str, str]
_Place = tuple[int, str | Edge]  # a layer, and the node there, or the edge that passes there


@dataclass(frozen=True)
class Sizes:
    """The width and height of a node, and the gaps between nodes, in pixels."""

    width: float = 190
    height: float = 40
    between_layers: float = 64
    between_nodes: float = 14


@dataclass(frozen=True)
class Drawing:
    """The upper left corners of the nodes, and a curve (SVG path) for each edge."""

    width: float
    height: float
    nodes: Mapping[str, tuple[float, float]]
    curves: Mapping[Edge, str]


def draw(nodes: Sequence[str], edges: Sequence[Edge], sizes: Sizes | None = None) -> Drawing:
    """Draw a graph, without edges that close a cycle or lead to unknown nodes."""
    sizes = sizes or Sizes()
    tables = _acyclic(nodes, edges)
    layer = _layers(tables)
    routes: dict[Edge, list[_Place]] = {
        (source, target): [
            (layer[source], source),
            *((between, (source, target)) for between in range(layer[source] + 1, layer[target])),
            (layer[target], target),
        ]
        for source, target in tables.edges
    }
    places = nx.DiGraph()
    places.add_nodes_from((layer[node], node) for node in tables)
    places.add_edges_from(pair for route in routes.values() for pair in pairwise(route))
    middles = _middles(places, _ordered(places), sizes)
    top = min(middles.values(), default=0.0) - sizes.height / 2
    bottom = max(middles.values(), default=0.0) + sizes.height / 2
    step = sizes.width + sizes.between_layers
    return Drawing(
        max(layer.values(), default=0) * step + sizes.width if layer else 0.0,
        bottom - top if layer else 0.0,
        {n: (layer[n] * step, middles[layer[n], n] - sizes.height / 2 - top) for n in tables},
        {edge: _curve(route, middles, top, sizes) for edge, route in routes.items()},
    )


def _acyclic(nodes: Sequence[str], edges: Sequence[Edge]) -> Any:
    graph = nx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(one for one in edges if one[0] in graph and one[1] in graph)
    with suppress(nx.NetworkXNoCycle):
        while True:
            graph.remove_edge(*nx.find_cycle(graph)[-1])
    return graph


def _layers(graph: Any) -> dict[str, int]:
    layer: dict[str, int] = {}
    for number, names in enumerate(nx.topological_generations(graph)):
        layer |= dict.fromkeys(names, number)
    for node in graph:  # a node without dependencies moves next to its first reader
        if graph.succ[node] and not graph.pred[node]:
            layer[node] = min(layer[reader] for reader in graph.succ[node]) - 1
    return layer


def _ordered(places: Any) -> list[list[_Place]]:
    """Sort each layer by the mean place of the neighbours, to and fro, so that few edges cross."""
    layers: list[list[_Place]] = [[] for _ in range(max((p[0] for p in places), default=-1) + 1)]
    for place in places:
        layers[place[0]].append(place)
    at = {place: number for layer in layers for number, place in enumerate(layer)}
    for sweep in range(_SWEEPS):
        near = places.pred if sweep % 2 == 0 else places.succ
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            wanted = {p: fmean([at[n] for n in near[p]] or [at[p]]) for p in layer}
            layer.sort(key=wanted.__getitem__)
            at |= {place: number for number, place in enumerate(layer)}
    return layers


def _middles(places: Any, layers: list[list[_Place]], sizes: Sizes) -> dict[_Place, float]:
    pitch = sizes.height + sizes.between_nodes
    offsets: dict[_Place, float] = {}
    middles: dict[_Place, float] = {}
    for layer in layers:
        bottom = 0.0
        for place in layer:
            room = pitch * (1.0 if isinstance(place[1], str) else _LANE)
            offsets[place] = bottom + room / 2
            bottom += room
        middles |= {place: offsets[place] - bottom / 2 for place in layer}  # a common middle
    for sweep in range(_SWEEPS):
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            near = ([*places.pred[place], *places.succ[place]] or [place] for place in layer)
            wanted = [fmean(middles[one] for one in some) for some in near]
            free = [want - offsets[place] for want, place in zip(wanted, layer, strict=True)]
            for place, base in zip(layer, _isotonic(free), strict=True):
                middles[place] = base + offsets[place]
    return middles


def _isotonic(values: Sequence[float]) -> list[float]:
    """Return the closest non-decreasing sequence: values that would fall share their mean."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (last, many), (first, few) = blocks.pop(), blocks.pop()
            blocks.append(((last * many + first * few) / (many + few), many + few))
    return [mean for mean, count in blocks for _ in range(count)]


def _curve(
    route: Sequence[_Place], middles: Mapping[_Place, float], top: float, sizes: Sizes
) -> str:
    """Return the curve from the first node to the last, straight across layers that it passes."""
    step, bend = sizes.width + sizes.between_layers, sizes.between_layers / 2
    x, y = route[0][0] * step + sizes.width, middles[route[0]] - top
    parts = [f"M{x:.0f} {y:.1f}"]
    for place in route[1:]:
        left, middle = place[0] * step, middles[place] - top
        parts.append(
            f"C{x + bend:.0f} {y:.1f} {left - bend:.0f} {middle:.1f} {left:.0f} {middle:.1f}"
        )
        x, y = left, middle
        if isinstance(place[1], tuple):
            x = left + sizes.width
            parts.append(f"H{x:.0f}")
    return "".join(parts)
