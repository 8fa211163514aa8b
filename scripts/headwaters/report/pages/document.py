"""One self-contained HTML page: a template, its data as JSON, one style and one script.

The page loads nothing and runs only its own script: its Content-Security-Policy names style and
script by their hashes and forbids everything else. Values reach the page through Jinja's escaping,
or as JSON that the script puts into text nodes.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from headwaters.report.pages import texts

_HERE = Path(__file__).parent
_FOLDERS = [_HERE, _HERE.parent, _HERE.parents[1] / "review"]


def document(
    template: str, scripts: Sequence[str] = (), connects: bool = False, **facts: Any
) -> str:
    """Render the page of a template, with the shared script and others after it.

    With `connects`, its script may send requests to the page's server.
    """
    style = _read("page.css")
    script = "\n".join(_read(name) for name in ("page.js", *scripts))
    return (
        _environment()
        .get_template(template)
        .render(
            policy=policy(style, script, connects),
            style=Markup(style),
            script=Markup(script),
            **facts,
        )
    )


def policy(style: str, script: str, connects: bool = False) -> str:
    """Return the Content-Security-Policy of a page with this style and this script alone."""
    server = "connect-src 'self'; " if connects else ""
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        f"{server}img-src data:; base-uri 'none'; form-action 'none'"
    )


def json_for_script(value: Any) -> Markup:
    """Return JSON for an element `script`: nothing in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _read(name: str) -> str:
    return next(f / name for f in _FOLDERS if (f / name).exists()).read_text().strip()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDERS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        clean=texts.clean,
        count=texts.number,
        size=texts.size,
        duration=texts.duration,
        moment=texts.moment,
        json=json_for_script,
    )
    environment.globals["ago"] = texts.ago
    return environment
