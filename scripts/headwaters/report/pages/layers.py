"""A directed graph drawn in layers, from left to right, after Sugiyama and others (1981).

Each node stands right of its dependencies. Edges over several layers get a place in each of them.
Barycentres order the layers. The places in a layer are the closest to their neighbours' that do not
overlap (isotonic regression). Pure and deterministic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

_SWEEPS = 8
_LANE = 0.4  # the height of an edge that crosses a layer, as a share of a node's


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
    curves: Mapping[tuple[str, str], str]


@dataclass(frozen=True)
class _Place:
    """A node in its layer; `edge` if only an edge passes there."""

    layer: int
    name: str
    edge: tuple[str, str] | None = None


def draw(
    nodes: Sequence[str], edges: Sequence[tuple[str, str]], sizes: Sizes | None = None
) -> Drawing:
    """Draw a graph, without edges that close a cycle or lead to unknown nodes."""
    sizes = sizes or Sizes()
    known = dict.fromkeys(nodes)
    forward = [one for one in dict.fromkeys(edges) if one[0] in known and one[1] in known]
    layer_of, forward = _layers(list(known), forward)
    layers, routes = _places(layer_of, forward)
    neighbours: dict[_Place, list[_Place]] = defaultdict(list)
    for route in routes.values():
        for one, other in pairwise(route):
            neighbours[one].append(other)
            neighbours[other].append(one)
    _order(layers, neighbours)
    middles = _middles(layers, neighbours, sizes)
    top = min((m - sizes.height / 2 for p, m in middles.items()), default=0.0)
    step = sizes.width + sizes.between_layers
    found = {
        place.name: (place.layer * step, middle - sizes.height / 2 - top)
        for place, middle in middles.items()
        if place.edge is None
    }
    curves = {edge: _curve(route, middles, top, sizes) for edge, route in routes.items()}
    height = max((m + sizes.height / 2 - top for m in middles.values()), default=0.0)
    return Drawing(max(0.0, len(layers) * step - sizes.between_layers), height, found, curves)


def _layers(
    nodes: list[str], edges: list[tuple[str, str]]
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return the layer of each node, and the edges without those that close a cycle."""
    after: dict[str, list[str]] = defaultdict(list)
    before: dict[str, list[str]] = defaultdict(list)
    for source, target in edges:
        after[source].append(target)
        before[target].append(source)
    waits = {node: len(before[node]) for node in nodes}
    order: list[str] = []
    ready = [node for node in nodes if not waits[node]]
    rank: dict[str, int] = {}
    while len(order) < len(nodes):
        if not ready:  # a cycle: start at its first node
            ready = [next(node for node in nodes if node not in rank)]
        node = ready.pop(0)
        if node in rank:
            continue
        rank[node] = len(order)
        order.append(node)
        for target in after[node]:
            waits[target] -= 1
            if not waits[target]:
                ready.append(target)
    forward = [(source, target) for source, target in edges if rank[source] < rank[target]]
    layer = dict.fromkeys(nodes, 0)
    onward = set(forward)
    for node in order:
        for target in after[node]:
            if (node, target) in onward:
                layer[target] = max(layer[target], layer[node] + 1)
    for node in nodes:  # a node without dependencies moves next to its first reader
        readers = [layer[target] for target in after[node] if (node, target) in onward]
        if readers and not any((source, node) in onward for source in before[node]):
            layer[node] = min(readers) - 1
    return layer, forward


def _places(
    layer_of: Mapping[str, int], edges: Sequence[tuple[str, str]]
) -> tuple[list[list[_Place]], dict[tuple[str, str], list[_Place]]]:
    layers: list[list[_Place]] = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    for name, layer in layer_of.items():
        layers[layer].append(_Place(layer, name))
    routes = {}
    for source, target in edges:
        first, last = layer_of[source], layer_of[target]
        lanes = [_Place(layer, "", (source, target)) for layer in range(first + 1, last)]
        for lane in lanes:
            layers[lane.layer].append(lane)
        routes[source, target] = [_Place(first, source), *lanes, _Place(last, target)]
    return layers, routes


def _order(layers: list[list[_Place]], neighbours: Mapping[_Place, list[_Place]]) -> None:
    """Sort each layer by the mean place of the neighbours, to and fro, so that few edges cross."""
    at = {place: float(i) for layer in layers for i, place in enumerate(layer)}
    for sweep in range(_SWEEPS):
        side = -1 if sweep % 2 == 0 else 1
        for layer in layers if side < 0 else layers[::-1]:
            wanted = {}
            for place in layer:
                near = [at[n] for n in neighbours.get(place, ()) if n.layer == place.layer + side]
                wanted[place] = fmean(near) if near else at[place]
            layer.sort(key=wanted.__getitem__)
            at.update({place: float(i) for i, place in enumerate(layer)})


def _middles(
    layers: list[list[_Place]], neighbours: Mapping[_Place, list[_Place]], sizes: Sizes
) -> dict[_Place, float]:
    pitch = sizes.height + sizes.between_nodes

    def room(place: _Place) -> float:
        return pitch * (_LANE if place.edge else 1.0)

    middles: dict[_Place, float] = {}
    offsets: dict[_Place, float] = {}
    for layer in layers:
        offset = 0.0
        for place in layer:
            offsets[place] = middles[place] = offset + room(place) / 2
            offset += room(place)
        for place in layer:  # layers start with a common middle
            middles[place] -= offset / 2
    for sweep in range(_SWEEPS):
        for layer in layers if sweep % 2 == 0 else layers[::-1]:
            wanted = [
                fmean([middles[n] for n in neighbours[p]]) if p in neighbours else middles[p]
                for p in layer
            ]
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
    x, y = route[0].layer * step + sizes.width, middles[route[0]] - top
    parts = [f"M{x:.0f} {y:.1f}"]
    for place in route[1:]:
        left, middle = place.layer * step, middles[place] - top
        parts.append(
            f"C{x + bend:.0f} {y:.1f} {left - bend:.0f} {middle:.1f} {left:.0f} {middle:.1f}"
        )
        x, y = left, middle
        if place.edge:
            x = left + sizes.width
            parts.append(f"H{x:.0f}")
    return "".join(parts)
