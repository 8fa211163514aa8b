"""Build hostile values, and reviews full of them."""

from __future__ import annotations

from hypothesis import strategies as st

from headwaters.review.facts import (
    ComparedColumn,
    Cost,
    Difference,
    Edge,
    Effort,
    Example,
    Finding,
    Review,
    Revision,
    Stays,
)
from pages.examples import model, review

FRAGMENTS = [
    "|", "\\|", "`", "``", "```\n", "~~~", "\n\n# x\n", "\n---\n", "\r", "\u2028", "- ", "> ", "1.",
    "<script>alert(1)</script>", "</code>", "</td>", "</details>", "</script>", "<!--", "-->",
    "<img src=x onerror=alert(1)>", "[a](https://example.com)", "![a](https://example.com/a.png)",
    "https://example.com", "www.example.com", "a@example.com", "@octocat", "#12", "x/y#12",
    ":tada:",
    "\u202e", "\u2066", "\u200b", "\x00", "\x1b[31m", "&lt;", "&#64;", "{{ 7 * 7 }}", "{% raw %}",
    "$x$", "*a*", "_a_", "~~a~~", "ä", "שלום", "'", '"', "\\", "\\u003c", "javascript:alert(1)",
]  # fmt: skip

VALUES = st.one_of(
    st.sampled_from(FRAGMENTS),
    st.lists(st.sampled_from(FRAGMENTS), min_size=2, max_size=4).map("".join),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30),
)


def full_of(value: str, masked: bool = False) -> Review:
    """Return a review that has a value at every place that a value can reach."""
    columns = (
        ComparedColumn(value, value, "int", 1, masked),
        ComparedColumn(f"{value}2", "int", None, 0),
    )
    side: dict[str, str | None] = {value: value, "other": None}
    examples = (
        Example("changed", {value: value}, dict(side), {value: f"{value}3", "other": value}),
        Example("added", {value: value}, {}, dict(side)),
        Example("removed", {value: None}, dict(side), {}),
    )
    findings = (Finding("contract", value, True, value), Finding("lint", value, False, value))
    difference = Difference(10, 10, 1, 1, 1, True, "all", examples, value)
    hostile = model(
        value,
        unique_id=value,
        relation=value,
        layer=value,
        what_changed=(value,),
        columns=columns,
        difference=difference,
        why_not=value,
        stays=Stays(value, 1, 1),
        cost=Cost("patch", value, value, 1.0, 1, Effort(1.0, 1, 1, value)),
        findings=findings,
        diff_of_sql=f"{value}\n+{value}\n-{value}",
        pinned={value: 1},
    )
    one = Revision(value, value, value, True)
    edges = (Edge(value, value), Edge(f"{value}2", value))
    return review(hostile, base=one, head=one, edges=edges, exposures=(value,), notes=(value,))
