"""Outline a page's elements from its HTML, without a browser."""

from __future__ import annotations

import re
from html.parser import HTMLParser


class Outline(HTMLParser):
    """Elements with the attributes that may load or run something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.risky: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            loads = name in ("href", "src", "srcset", "action", "style") or name.startswith("on")
            if loads and not re.fullmatch(r"#\w+|data:,", value or ""):
                self.risky.append((name, value))
