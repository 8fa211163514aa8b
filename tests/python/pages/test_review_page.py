"""Test the page of a review in a real browser."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from playwright.sync_api import Browser

from headwaters.report.pages.texts import clean
from headwaters.review.facts import ComparedColumn, Difference, Example, Finding, ModelReview
from headwaters.review.page import State, render, state_of
from pages.browser import Watched, check_fit, filtering, watched, written
from pages.examples import large, model, review, usual
from pages.hostile import FRAGMENTS, VALUES, full_of
from pages.outline import Outline

TAME = Outline(render(full_of("tame")))


@settings(max_examples=60, deadline=None)
@given(value=VALUES)
def test_no_value_changes_what_the_page_consists_of(value: str) -> None:
    found = Outline(render(full_of(value)))
    lines = len(full_of(value).models[0].diff_of_sql.split("\n"))
    spans = ["span"] * (lines - 3)  # one for each line of SQL
    assert sorted(found.tags) == sorted(TAME.tags + spans)
    assert found.risky == []


def test_the_page_forbids_everything_but_its_own_style_and_script() -> None:
    html = render(usual())
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert re.fullmatch(
        r"default-src &#39;none&#39;; style-src &#39;sha256-\S+&#39;; script-src "
        r"&#39;sha256-\S+&#39;; img-src data:; base-uri &#39;none&#39;; form-action &#39;none&#39;",
        policy,
    )


FAILS = Finding("test", "x", True)
DIFFERENCE = Difference(1, 1, 0, 0, 1, True)


@pytest.mark.parametrize(
    ("one", "state"),
    [
        (model(), "same"),
        (model(difference=DIFFERENCE), "differs"),
        (model(difference=DIFFERENCE, findings=(FAILS,)), "broken"),
        (model(columns=(ComparedColumn("a", None, "int"),)), "differs"),
        (model(causes=("added",), difference=None), "differs"),
        (model(difference=None), "quiet"),
        (model(difference=None, why_not="it is Python"), "unknown"),
    ],
)
def test_the_state_of_a_model(one: ModelReview, state: State) -> None:
    assert state_of(one) == state


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.slow
def test_the_page_is_silent_and_as_wide_as_its_window(
    browser: Browser, tmp_path: Path, width: int, scheme: str
) -> None:
    with watched(browser, written(tmp_path, render(usual())), width, scheme) as found:
        page = found.page
        assert found.silent
        assert page.title() == (
            "breaks the contract of gold.account_daily_spend: amount_eur is decimal(38,2), and the "
            "contract says decimal(38,6) · headwaters review"
        )
        check_fit(page, width, scheme)
        # failures are open, the rest is folded
        assert page.locator("details[open] summary b").all_inner_texts() == [
            "gold.account_daily_spend"
        ]


@pytest.mark.slow
def test_hostile_values_are_shown_and_nothing_runs(browser: Browser, tmp_path: Path) -> None:
    for index, value in enumerate([*FRAGMENTS, "x" * 10_000_000]):
        if index % 6 and len(value) < 9_999 and "<" not in value:
            continue  # each value needs a page, so only those with tags and some others
        address = written(tmp_path, render(full_of(f"a{value}b")), f"{index}.html")
        with watched(browser, address) as found:
            said = found.page.locator("#diff-rows tr").first.locator("del.val").first.text_content()
            assert said == clean(f"a{value}b")
            assert found.page.locator("#diff-rows tr").count() == 3
            assert found.silent


Values = dict[str, str | None]
LONG_NAME = "insurance_claim_status_history_of_holdout_prices"


@pytest.mark.slow
@pytest.mark.parametrize("width", [1000, 1280])
def test_names_and_keys_of_differing_rows_stay_on_one_line(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    keys: Values = {"order_id": "4711", "transaction_date": "2026-01-31", "currency": "EUR"}
    values: Values = {f"column_{n}": "a value of some words, " * 4 for n in range(3)}
    other: Values = {name: f"{value}and more" for name, value in values.items()}
    models = [
        model(name, difference=Difference(9, 9, 0, 0, 1, True, examples=(example,)))
        for name, example in (
            ("holdout_prices", Example("changed", keys, {"price": "1"}, {"price": "2"})),
            (LONG_NAME, Example("changed", keys, values, other)),
        )
    ]
    with watched(browser, written(tmp_path, render(review(*models))), width) as found:
        broken = found.page.evaluate(
            """() => [...document.querySelectorAll(
                "#diff-rows .name, #diff-rows .keys .col, #diff-rows .keys .val"
            )].filter((e) => {
                const lines = document.createRange();
                lines.selectNodeContents(e);
                return lines.getClientRects().length > 1;
            }).map((e) => e.textContent)"""
        )
        assert broken == []
        check_fit(found.page, width, "light")
        scrolls = "e => e.scrollWidth > e.clientWidth"
        assert not found.page.locator(".diffs").locator("..").evaluate(scrolls)


def test_the_page_has_numbers_that_add_up_and_differences_that_can_be_seen() -> None:
    example = Example("changed", {"id": "1"}, {"v": "x", "w": "a"}, {"v": "x ", "w": "a"}, {"v": 9})
    shrinks = Difference(14_282, 503, 169, 13_948, 154, True, examples=(example,))
    html = render(review(model(difference=shrinks)))
    assert "14,271 <small>14,282 rows before, 503 after</small>" in html
    assert "169 added, 13,948 removed, 154 changed" in html
    assert "; the same inputs on both sides" in html
    (data,) = re.findall(r'<script type="application/json" id="facts">(.*?)</script>', html)
    ((_, _, _, cells),) = json.loads(data)["rows"]
    assert cells == [
        ["v", "(9 equal characters) x", "(9 equal characters) x␣", True],
        ["w", "a", "a", False],
    ]


def test_the_page_says_of_the_inputs_nothing_where_nothing_was_computed() -> None:
    html = render(review(model(difference=None, causes=("properties",))))
    assert "same inputs" not in html and "same versions" not in html


@pytest.mark.slow
def test_null_masked_empty_and_absent_are_told_apart(browser: Browser, tmp_path: Path) -> None:
    columns = (ComparedColumn("secret", "string", "string", 1, is_masked=True),)
    example = Example(
        "changed",
        {"id": "1", "secret": None, "other": None},
        {"a": None, "b": "", "secret": None, "same": "NULL"},
        {"a": "NULL", "b": "masked", "secret": None, "same": "NULL", "new": "x"},
    )
    difference = Difference(1, 1, 0, 0, 1, True, "all", (example,))
    address = written(tmp_path, render(review(model(columns=columns, difference=difference))))
    with watched(browser, address) as found:
        pairs = found.page.locator("#diff-rows td[data-label=columns] .pair")
        parts = [
            [f"{p.evaluate('e => e.tagName + `.` + e.className')} {p.inner_text()}" for p in line]
            for line in [pair.locator(":scope > *").all()[1:] for pair in pairs.all()]
        ]
        assert parts == [
            ["DEL.none NULL", "INS.val NULL"],
            ["DEL.none empty", "INS.val masked"],
            ["SPAN.none masked"],
            ["SPAN.val NULL"],
            ["INS.val x"],
        ]
        keys = found.page.locator("#diff-rows td[data-label=key] .pair").all_inner_texts()
        assert [key.split("\n") for key in keys] == [
            ["id", "1"],
            ["secret", "masked"],
            ["other", "NULL"],
        ]
        assert found.silent


def rows_shown(found: Watched) -> str:
    return found.page.locator("#diff-count").inner_text()


@pytest.mark.slow
def test_keys_alone_lead_through_the_page(browser: Browser, tmp_path: Path) -> None:
    with watched(browser, written(tmp_path, render(usual()))) as found:
        keys = found.page.keyboard
        focus = "document.activeElement.textContent.trim()"
        keys.press("Tab")
        assert found.page.evaluate(focus) == "Skip to the content"
        keys.press("Enter")
        keys.press("/")
        keys.type("A001100")
        assert rows_shown(found) == "1 of 311"
        keys.press("Escape")
        assert rows_shown(found) == "311 of 311"
        # a table of the lineage leads to its details, and opens them
        found.page.locator(".graph a").first.focus()
        keys.press("Enter")
        opened = found.page.locator("details[open] summary b").all_inner_texts()
        assert opened == ["silver.silver_financial_transactions", "gold.account_daily_spend"]
        assert "silver_financial_transactions" in found.page.evaluate(focus)
        keys.press("Enter")
        assert found.page.locator("details[open]").count() == 1
        # sorted by a head of the table
        found.page.locator("#model-table th button", has_text="rows").focus()
        keys.press("Enter")
        names = found.page.locator("#model-table tbody th").all_inner_texts()
        assert names[0] == "silver.silver_financial_transactions"
        assert names[-1] == "gold.spend_forecast"
        assert found.silent


@pytest.mark.slow
def test_differences_are_filtered_by_model_change_and_column(
    browser: Browser, tmp_path: Path
) -> None:
    with watched(browser, written(tmp_path, render(usual()))) as found:
        page = found.page
        page.get_by_label("Change").select_option("added")
        assert rows_shown(found) == "8 of 311"
        page.get_by_label("Change").select_option("")
        page.get_by_label("Column", exact=True).select_option("fee")
        assert rows_shown(found) == "104 of 311"
        page.get_by_label("Column", exact=True).select_option("")
        page.locator("details[open] a[data-model]").click()
        assert rows_shown(found) == "240 of 311"
        assert page.get_by_label("Model", exact=True).evaluate(
            "e => e.selectedOptions[0].textContent"
        ) == ("gold.account_daily_spend (240)")
        assert found.silent


@pytest.mark.slow
def test_two_hundred_models_and_ten_thousand_rows_stay_quick(
    browser: Browser, tmp_path: Path
) -> None:
    began = time.monotonic()
    html = render(large())
    assert time.monotonic() - began < 5
    with watched(browser, written(tmp_path, html)) as found:
        page = found.page
        assert rows_shown(found) == "10,000 of 10,000"
        assert page.locator(".graph a").count() == 200
        assert page.locator("#model-table tbody tr").count() == 200
        took = filtering(page, "#search", ["chf", "a0012", "a0012 eur", "nothing of that kind", ""])
        # 20 to 60 ms
        assert max(took) < 500, took
        assert rows_shown(found) == "10,000 of 10,000"
        page.locator("#diff-more").click()
        assert page.locator("#diff-rows tr").count() == 200
        page.get_by_label("Filter models").fill("model_007")
        assert page.locator("#model-table tbody tr:visible").count() == 1
        assert found.silent


def test_data_in_the_page_is_json_that_cannot_end_its_element() -> None:
    html = render(full_of("</script><!--<script>"))
    (data,) = re.findall(r'<script type="application/json" id="facts">(.*?)</script>', html)
    assert json.loads(data)["models"] == ["</script><!--<script>"]
