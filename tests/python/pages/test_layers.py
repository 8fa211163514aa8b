"""Test the drawing of a lineage: no overlaps, edges lead to the right, in any size."""

from __future__ import annotations

import random
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from headwaters.report.pages.layers import Drawing, Sizes, draw

SIZES = Sizes(width=100, height=20, between_layers=50, between_nodes=10)


def test_a_chain_with_a_shortcut() -> None:
    drawing = draw(["a", "b", "c"], [("a", "b"), ("b", "c"), ("a", "c")], SIZES)
    xs = {name: place[0] for name, place in drawing.nodes.items()}
    assert xs == {"a": 0, "b": 150, "c": 300}
    assert drawing.width == 400
    # the shortcut passes b in a straight line as long as b is wide
    assert "H250" in drawing.curves["a", "c"]
    assert drawing.curves["a", "b"].startswith("M100 ")


def test_a_source_stands_beside_its_first_reader() -> None:
    drawing = draw(["a", "b", "c", "late"], [("a", "b"), ("b", "c"), ("late", "c")], SIZES)
    assert drawing.nodes["late"][0] == drawing.nodes["b"][0]


def test_nothing_to_draw() -> None:
    assert draw([], []) == Drawing(0.0, 0.0, {}, {})


def test_unknown_ends_and_cycles_are_left_out() -> None:
    drawing = draw(["a", "b"], [("a", "b"), ("b", "a"), ("a", "a"), ("a", "x")], SIZES)
    assert list(drawing.curves) == [("a", "b")]


@given(st.integers(1, 30), st.integers(0, 60), st.randoms(use_true_random=False))
def test_nodes_never_overlap_and_edges_lead_to_the_right(
    nodes: int, edges: int, draw_from: random.Random
) -> None:
    names = [f"n{i}" for i in range(nodes)]
    pairs = [(draw_from.choice(names), draw_from.choice(names)) for _ in range(edges)]
    drawing = draw(names, pairs, SIZES)
    assert drawing.nodes.keys() == set(names)
    for (ax, ay), (bx, by) in combinations(drawing.nodes.values(), 2):
        assert ax != bx or abs(ay - by) >= SIZES.height + SIZES.between_nodes - 1e-6
    for source, target in drawing.curves:
        assert drawing.nodes[source][0] < drawing.nodes[target][0]
    for x, y in drawing.nodes.values():
        assert 0 <= x <= drawing.width - SIZES.width
        assert -1e-6 <= y <= drawing.height - SIZES.height + 1e-6
    assert draw(names, pairs, SIZES) == drawing
