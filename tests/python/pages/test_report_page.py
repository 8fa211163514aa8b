"""Test the page of a lake in a real browser."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from playwright.sync_api import Browser, expect
from report.examples import full_of, large, usual
from report.small import NOW

from headwaters.report.facts import Lake
from headwaters.report.page import render
from headwaters.report.pages import plots
from headwaters.report.pages.texts import clean
from headwaters.report.run import Site, serving
from pages.browser import check_fit, filtering, watched, written
from pages.hostile import FRAGMENTS, VALUES
from pages.outline import Outline

TAME = Outline(render(full_of("tame")))


@settings(max_examples=60, deadline=None)
@given(value=VALUES)
def test_no_value_changes_what_the_page_consists_of(value: str) -> None:
    found = Outline(render(full_of(value)))
    assert sorted(found.tags) == sorted(TAME.tags)
    assert found.risky == []


def test_a_page_forbids_what_it_does_not_need() -> None:
    for html, server in (
        (render(usual()), ""),
        (render(usual(), "a1b2"), "connect-src &#39;self&#39;; "),
    ):
        (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
        assert re.fullmatch(
            r"default-src &#39;none&#39;; style-src &#39;sha256-\S+&#39;; script-src "
            rf"&#39;sha256-\S+&#39;; {server}img-src data:; base-uri &#39;none&#39;; "
            r"form-action &#39;none&#39;",
            policy,
        )


def test_bars_are_as_high_as_their_values() -> None:
    assert plots.bars([1, 0, 2], height=20) == "M0 20v-10h3v10zM8 20v-20h3v20z"
    # values above zero are visible, and none is higher than the plot
    assert plots.bars([1, 2000], height=20, most=1000) == "M0 20v-1h3v1zM4 20v-20h3v20z"
    assert plots.bars([0, 0]) == plots.bars([]) == ""
    assert plots.ticks([None, 5], most=10) == "M3.5 10h4"


def test_places_on_an_axis_of_ages() -> None:
    assert [plots.on_log_axis(x, 1, 10_000) for x in (0.5, 1, 100, 10_000, 1e9)] == [
        0,
        0,
        0.5,
        1,
        1,
    ]


@pytest.mark.parametrize(
    ("first", "count", "begin"),
    [
        (datetime(2026, 11, 25, 11, 58, 30, tzinfo=UTC), 3, "2026-11-25T11:58:00+00:00"),
        (datetime(2026, 11, 24, 12, 0, tzinfo=UTC), 49, "2026-11-24T12:00:00+00:00"),
        (datetime(2026, 10, 20, 12, 0, tzinfo=UTC), 37, "2026-10-20T00:00:00+00:00"),
        (datetime(2026, 11, 25, 12, 0, tzinfo=UTC), 1, "2026-11-25T12:00:00+00:00"),
    ],
)
def test_time_is_cut_into_buckets_that_hold_all_of_it(
    first: datetime, count: int, begin: str
) -> None:
    begins = plots.buckets(first, NOW)
    assert (len(begins), begins[0].isoformat()) == (count, begin)
    assert (plots.bucket_of(first, begins), plots.bucket_of(NOW, begins)) == (0, count - 1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.slow
def test_the_page_is_silent_and_as_wide_as_its_window(
    browser: Browser, tmp_path: Path, width: int, scheme: str
) -> None:
    with watched(browser, written(tmp_path, render(usual())), width, scheme) as found:
        page = found.page
        assert page.title() == "4 things fail, 6 more to look at · headwaters report"
        check_fit(page, width, scheme)
        assert page.locator("#problems li").all_inner_texts() == list(usual().problems)
        headings = page.locator("h2").evaluate_all("all => all.map(e => e.id)")
        sections = ["activity", "lineage", "streams", "models", "tables"]
        assert headings == [*sections, "freshness", "expectations", "operations"]
        # each plot has a size, so it is visible
        for box in page.locator("main svg").evaluate_all(
            "all => all.map(e => e.getBoundingClientRect()).map(r => [r.width, r.height])"
        ):
            assert min(box) > 0 or width == 390  # the parts that a telephone leaves out
        assert found.silent


@pytest.mark.slow
def test_hostile_values_are_shown_and_nothing_runs(browser: Browser, tmp_path: Path) -> None:
    for index, value in enumerate([*FRAGMENTS, "x" * 1_000_000]):
        if index % 6 and len(value) < 9_999 and "<" not in value:
            continue  # each value needs a page, so only those with tags and some others
        address = written(tmp_path, render(full_of(f"a{value}b")), f"{index}.html")
        with watched(browser, address) as found:
            said = found.page.locator("#operation-table td[data-label=why]").text_content()
            assert said == clean(f"a{value}b", 300)
            assert found.page.evaluate("document.documentElement.scrollWidth") <= 1280
            assert found.silent


@pytest.mark.slow
def test_keys_alone_lead_through_the_page(browser: Browser, tmp_path: Path) -> None:
    with watched(browser, written(tmp_path, render(usual()))) as found:
        page, keys = found.page, found.page.keyboard
        focus = "document.activeElement.textContent.trim()"
        keys.press("Tab")
        assert page.evaluate(focus) == "Skip to the content"
        keys.press("Enter")
        keys.press("/")
        keys.type("gold")
        assert page.locator("#model-table tbody tr:visible th").all_inner_texts() == [
            "gold.spend\naffected_keys · payments"
        ]
        keys.press("Escape")
        assert page.locator("#model-table tbody tr:visible").count() == 2
        page.get_by_label("State of models").select_option("bad")
        assert page.locator("#model-table tbody tr:visible").count() == 1
        page.get_by_label("State of models").select_option("")
        # a table of the lineage leads to its row
        page.locator(".graph a").last.focus()
        keys.press("Enter")
        assert page.url.endswith("#m1")
        # sorted by a head of the table
        page.locator("#table-table th button", has_text="deleted").focus()
        keys.press("Enter")
        assert page.locator("#table-table tbody th").first.inner_text().startswith("silver.paid")
        assert found.silent


@pytest.mark.slow
def test_two_hundred_models_stay_quick(browser: Browser, tmp_path: Path) -> None:
    began = time.process_time()
    html = render(large())
    assert time.process_time() - began < 5
    assert len(html) < 3_000_000
    with watched(browser, written(tmp_path, html)) as found:
        page = found.page
        assert page.locator("#model-table tbody tr").count() == 200
        assert page.locator(".graph a").count() == 202  # and two streams
        took = filtering(
            page, "#models ~ .tools input", ["model_0", "gold model_11", "nothing of that kind", ""]
        )
        # 10 to 40 ms
        assert max(took) < 500, took
        page.get_by_label("Filter models").fill("model_007")
        assert page.locator("#model-table tbody tr:visible").count() == 1
        assert found.silent


@pytest.mark.slow
def test_a_lake_without_a_table_says_so(browser: Browser, tmp_path: Path) -> None:
    problem = "[HW_NO_LAKE] there is no lake at /l yet: `dbt run` makes it"
    with watched(
        browser, written(tmp_path, render(Lake("p", "t", "/l", NOW, problems=(problem,))))
    ) as found:
        assert found.page.locator("h1").inner_text() == "There is no table yet"
        assert found.page.locator("#problems li").all_inner_texts() == [problem]
        assert found.page.locator("section").count() == 0
        assert found.silent


@pytest.mark.slow
def test_a_served_page_becomes_current_and_keeps_what_was_chosen(browser: Browser) -> None:
    site = Site(usual())
    with serving(site, 0) as port, browser.new_context() as context:
        page = context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda line: errors.append(line.text))
        page.clock.install()
        page.goto(f"http://127.0.0.1:{port}/")
        page.get_by_label("Filter models").fill("gold")
        page.clock.run_for(10_000)  # nothing happens while a user types
        site.show(replace(usual(), problems=()))
        page.clock.run_for(10_000)
        assert page.locator("#problems").count() == 1
        page.get_by_label("Filter models").blur()
        page.clock.run_for(10_000)
        expect(page.locator("#problems")).to_have_count(0)
        expect(page.get_by_label("Filter models")).to_have_value("gold")
        assert page.locator("#model-table tbody tr:visible").count() == 1
        assert errors == []
