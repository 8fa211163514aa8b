"""The `browser` fixture: one headless Chromium for all tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from pages.browser import running


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with running() as found:
        yield found
