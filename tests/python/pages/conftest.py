"""`browser`: one headless Chromium for all tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pages.browser import running
from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with running() as found:
        yield found
