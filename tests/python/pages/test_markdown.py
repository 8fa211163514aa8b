"""Test the comment: its text, that none of it is executed, and that it always fits."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from headwaters.report.pages.texts import clean
from headwaters.review.facts import ComparedColumn, Difference, Example, Finding, Review
from headwaters.review.markdown import LIMIT, MARK, code, render
from pages.examples import large, model, review, spend_examples, usual
from pages.hostile import FRAGMENTS, VALUES, full_of

# as GitHub reads it: CommonMark with HTML, tables and strikethrough
PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
TAGS = {"details", "summary", "code", "table", "thead", "tr", "th", "td", "br", "em"}


class Tags(HTMLParser):
    """The elements of a block of HTML, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[tuple[bool, str]] = []  # inside `code`
        self.attributes: list[object] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        self.texts.append((bool(self.tags) and self.tags[-1] == "code", data))


def shape(text: str) -> list[object]:
    """Return the parts of a comment; assert that texts outside of code are ours."""
    found: list[object] = []
    for token in PARSER.parse(text):
        found.append(token.type)
        if token.type == "html_block" and token.content.strip() != MARK:
            tags = Tags(token.content)
            assert {tag.strip("/") for tag in tags.tags} <= TAGS
            assert tags.attributes == []
            assert all(is_code or _ours(said) for is_code, said in tags.texts)
            found.append(tags.tags)
        for child in token.children or ():
            _assert_harmless(child)
    return found


def _assert_harmless(child: Token) -> None:
    assert child.type in ("text", "code_inline", "strong_open", "strong_close"), child
    assert child.type != "text" or _ours(child.content), child


def _ours(text: str) -> bool:
    """Return whether GitHub makes no mention, reference, image or link of a text."""
    return re.search(r"[@#:]\w|://|www|[<>\[\]`*_~]", text.replace("\n", " ")) is None


TAME = shape(render(full_of("tame")))


@settings(max_examples=100)
@given(value=VALUES)
@example(value="a" * 10_000_000)
@example(value="`" * 500)
@example(value="|" * 300)
@example(value=" ")
def test_no_value_changes_what_the_comment_consists_of(value: str) -> None:
    text = render(full_of(value))
    assert shape(text) == TAME
    assert len(text) < LIMIT


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_each_fragment_is_shown_as_it_is(fragment: str) -> None:
    text = render(full_of(f"x{fragment}y"))
    wanted = clean(f"x{fragment}y")
    blocks = [token for token in PARSER.parse(text) if token.type == "html_block"]
    in_html = [said for block in blocks for is_code, said in Tags(block.content).texts if is_code]
    assert wanted in in_html
    spans = [
        c.content for t in PARSER.parse(text) for c in t.children or () if c.type == "code_inline"
    ]
    assert wanted.replace("|", "\\x7c") in spans


@given(value=VALUES)
def test_a_code_span_has_exactly_its_text(value: str) -> None:
    (inline,) = [t for t in PARSER.parse(f"x {code(value)} y") if t.type == "inline"]
    assert [(c.type, c.content) for c in inline.children or ()] == [
        ("text", "x "),
        ("code_inline", clean(value)),
        ("text", " y"),
    ]


def test_nothing_invisible_is_left_in_a_value() -> None:
    assert clean("a\u202eb\x00c\nd\te\u200bf\x1b") == "a\\u202eb\\u0000c\\nd\\te\\u200bf\\u001b"
    assert clean("ab", 1) == "a…"
    assert clean("日本 שלום ä 🎉") == "日本 שלום ä 🎉"


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("delivered", "delivered ", ("delivered", "delivered␣")),
        ("a b", "a\u00a0b", ("a␣b", "a\\u00a0b")),
        ("caf\u00e9", "cafe\u0301", ("caf\\u00e9", "cafe\\u0301")),
        ("a  b", "a b", ("a␣␣b", "a␣b")),
        ("Zoë", "Zoe", ("Zoë", "Zoe")),
        ("", " ", ("", "␣")),
        ("x" * 150 + "1 end", "x" * 150 + "2", ("x" * 40 + "1 end", "x" * 40 + "2")),
    ],
)
def test_a_difference_can_be_seen(before: str, after: str, shown: tuple[str, str]) -> None:
    example = Example("changed", {"id": "1"}, {"v": before}, {"v": after}, {"v": 7})
    difference = Difference(9, 9, 0, 0, 1, True, "all", (example,))
    (row,) = [
        Tags(token.content).texts
        for token in PARSER.parse(render(review(model(difference=difference))))
        if token.type == "html_block" and "changed" in token.content
    ]
    values = [said for is_code, said in row if is_code]
    assert values[-4:] == ["v", shown[0], "v", shown[1]] or (values[-3:], shown[0]) == (
        ["v", "v", shown[1]],
        "",
    )
    left_out = 7 + (110 if len(before) > 120 else 0)
    assert sum(f"after {left_out} equal characters" in said for _, said in row) == 2


def test_numbers_of_a_table_that_shrinks_add_up() -> None:
    shrinks = model(difference=Difference(14_282, 503, 169, 13_948, 154, True, rounded=2))
    text = render(review(shrinks))
    assert (
        "</code>: 169 added, 13,948 removed, 154 changed; 14,282 rows before, 503 after</summary>"
        in text
    )
    assert (
        "- 2 rows differ only in the last digits of floating-point numbers: not counted\n" in text
    )


def test_one_problem_of_many_models_is_said_once() -> None:
    problem = Finding("test", "no table t", True, "models/a.sql")
    models = [model(name, findings=(replace(problem, place=f"{name}.sql"),)) for name in "abcdefg"]
    lines = [line for line in render(review(*models)).splitlines() if "no table t" in line]
    assert lines == [
        "- **test** `gold.a`, `gold.b`, `gold.c`, `gold.d`, `gold.e` and 2 more: `no table t`"
    ]


@settings(max_examples=8, deadline=None)
@given(
    models=st.integers(0, 80),
    rows=st.sampled_from([0, 1, 30]),
    columns=st.sampled_from([0, 2, 250]),
    width=st.sampled_from([1, 200]),
)
@example(models=1, rows=30, columns=250, width=3_400_000)
def test_the_comment_fits_whatever_the_size(
    models: int, rows: int, columns: int, width: int
) -> None:
    value = "é|`" * width
    one = model(
        columns=tuple(
            ComparedColumn(f"c{i}{value[:300]}", "int", "text", 1) for i in range(columns)
        ),
        difference=Difference(
            9,
            9,
            0,
            0,
            rows,
            True,
            "all",
            (Example("changed", {"k": value}, {"v": value}, {"v": "x"}),) * rows,
        ),
        findings=(Finding("contract", value, True, value),) * 60,
        diff_of_sql="\n".join([value[:500]] * 500),
    )
    notes = (value,) * 100
    assert len(render(review(*[one] * models, notes=notes, exposures=notes))) < LIMIT


def test_what_is_cut_is_said_with_the_place_where_it_is() -> None:
    models = [
        model(f"m{i}", difference=Difference(99, 99, 0, 0, 90, True, "all", spend_examples(90, i)))
        for i in range(300)
    ]
    last = render(review(*models), page="run-7/review.html").splitlines()[-1]
    assert re.fullmatch(
        r"Cut here, and whole in `run-7/review.html`: "
        r"(\d+ models of the table, )?(the details of \d+ models, )?examples of \d+ models\.",
        last,
    )
    assert "Cut here" not in render(review(model()))


def test_the_usual_comment() -> None:
    text = render(usual())
    lines = text.splitlines()
    assert lines[:2] == [
        MARK,
        "## ❌ breaks the contract of `gold.account_daily_spend`: `amount_eur` is `decimal(38,2)`, "
        "and the contract says `decimal(38,6)`",
    ]
    table = [line for line in lines if line.startswith("|")]
    assert table == [
        "| model | changed | rows | added | removed | changed rows | columns | one-off |",
        "|---|---|--:|--:|--:|--:|---|---|",
        "| `gold.account_daily_spend` | text | 14,282 | 8 | 8 | 296 | `amount_eur`, `fee`, "
        "`payer`, `booked_by` | rebuild |",
        "| `gold.account_monthly_statement` | upstream | 940 | 0 | 0 | 71 | `total_eur` | patch |",
        "| `gold.spend_forecast` | upstream | — | — | — | — | — | — |",
        "| `silver.silver_financial_transactions` | text | 19,300 | 0 | 0 | 0 | — | nothing |",
        "| `gold.merchant_activity` | upstream | 2,516 | 0 | 0 | 0 | — | — |",
    ]
    assert [line for line in lines if "predicted" in line][:2] == [
        "- one-off: rebuild (`a column is added`); predicted `no run to go by for its time, 215 kB "
        "written, 604 kB read, by the sizes of the table and of what it reads`, measured `3.8 s, "
        "218 kB written`",
        "- next run: `affected_keys, as before`; predicted `1.9 s, 12.0 kB written, by the median "
        "of its last 10 runs`, measured `2.4 s, 13.1 kB staged`",
    ]
    # if neither is known, the comment leaves it out
    assert lines.count("- next run: `affected_keys, as before`") == 1
    assert lines.count("- next run: `change_feed, as before`") == 1
    assert text.count("<details>") == 4  # the table says all of one of the five
    assert "<code>payer</code> <em>masked</em>" in text
    assert "<code>fee</code> <em>NULL</em>" in text
    assert html.escape("-        sum(round(") in text


def test_two_hundred_models_are_in_the_table() -> None:
    text = render(large())
    assert sum(line.startswith("| `") for line in text.splitlines()) == 200


def test_an_empty_review_is_one_line() -> None:
    assert render(Review(usual().base, usual().head, ())) == (
        f"{MARK}\n## ✅ no model changes\n\n"
        "`fx-rounding` `4be21c07aa` against `main` `09515e3f2b` · 0 models · 0.0 s\n\n"
    )
