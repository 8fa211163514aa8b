"""Drive a real headless browser in the tests of pages: the system's Chromium, by Playwright."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
MISSING = (
    "the tests of pages need Chromium: apt-get install chromium (Debian), or name an executable "
    "with HEADWATERS_CHROMIUM"
)


def find() -> str:
    """Return this machine's browser. As root on Debian, install it if it is missing.

    Raises RuntimeError with the package to install.
    """
    if named := os.environ.get("HEADWATERS_CHROMIUM"):
        return named
    if found := _installed():
        return found
    if os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
            subprocess.run(["apt-get", "-qq", *command], env=quiet, capture_output=True)
    if found := _installed():
        return found
    raise RuntimeError(MISSING)


def _installed() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def running() -> Iterator[Browser]:
    """Start a browser for the context."""
    with sync_playwright() as driver:
        # a container has no user namespaces for the sandbox; the pages are our own
        browser = driver.chromium.launch(executable_path=find(), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watched:
    """A page and its events: lines of the console, errors, and requests beyond its own file."""

    page: Page
    console: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @property
    def silent(self) -> bool:
        """Assert that the page printed, requested and raised nothing."""
        assert (self.console, self.errors, self.requests) == ([], [], [])
        return True


@contextmanager
def watched(
    browser: Browser, address: str, width: int = 1280, scheme: str = "light"
) -> Iterator[Watched]:
    """Open a page in a window of this width, watched from its first byte."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    found = Watched(context.new_page())
    found.page.on("console", lambda line: found.console.append(f"{line.type}: {line.text}"))
    found.page.on("pageerror", lambda error: found.errors.append(str(error)))
    found.page.on(
        "request",
        lambda request: (
            found.requests.append(request.url) if _foreign(request.url, address) else None
        ),
    )
    try:
        found.page.goto(address)
        yield found
    finally:
        context.close()


def check_fit(page: Page, width: int, scheme: str) -> None:
    """Assert that a page is as wide as its window, and has the colour of its scheme."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(250, 250, 248)", "dark": "rgb(21, 23, 26)"}[scheme]


def filtering(page: Page, selector: str, texts: list[str]) -> list[float]:
    """Return the milliseconds for filtering a page by each text: the least of five runs."""
    took: list[float] = page.evaluate(
        """([selector, texts]) => texts.map((text) => {
            const search = document.querySelector(selector), took = [];
            for (let time = 0; time < 5; time++) {
                search.value = "";
                search.dispatchEvent(new Event("input", { bubbles: true }));
                document.body.getBoundingClientRect();
                const began = performance.now();
                search.value = text;
                search.dispatchEvent(new Event("input", { bubbles: true }));
                document.body.getBoundingClientRect();
                took.push(performance.now() - began);
            }
            return Math.min(...took);
        })""",
        [selector, texts],
    )
    return took


def _foreign(url: str, address: str) -> bool:
    return url.partition("#")[0] != address.partition("#")[0] and not url.startswith("data:")


def written(folder: Path, html: str, name: str = "page.html") -> str:
    """Write a page into a folder and return its address."""
    file = folder / name
    file.write_text(html)
    return file.as_uri()
