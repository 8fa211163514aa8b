"""The context that decides a model's rows besides its SQL and inputs: session and SQL functions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headwaters.analysis import called
from headwaters.platform.spark_version import SETTINGS_OF_RESULTS

_BUILT_BY = re.compile(r"/\* built by (\[.*\]) \*/\n")
# The settings of the model with which the text begins.
_OF_MODEL = ("its strategy", "unique_key", "latest_by")
_DEFAULT = "Spark's default"
_UNSTABLE = ("Create Time:", "Owner:", "Comment:")


def definitions(
    sql: str, known: Iterable[str], describe: Callable[[str], list[str]]
) -> dict[str, str]:
    """Return every SQL function or user-defined function that a model calls, with its definition.

    Functions that these functions call are included. Spark's built-in functions are not, because
    their definitions never change. `known` has the names of the others in the current schema.
    `describe` returns the lines of `describe function extended` for a name, or none if no such
    function exists.
    """
    unqualified = {name.split(".")[-1].lower() for name in known}
    found: dict[str, str] = {}
    waiting = called(sql)
    while waiting:
        name = waiting.pop()
        if name in found or ("." not in name and name.strip("`") not in unqualified):
            continue
        lines = describe(name)
        if not lines or any(line.startswith("Usage:") for line in lines):
            continue
        found[name] = "\n".join(line for line in lines if not line.startswith(_UNSTABLE))
        waiting += called(found[name].split("Body:")[-1])
    return dict(sorted(found.items()))


def changed_settings(built_by: str, would_be_built_by: str) -> list[str]:
    """Describe the strategy, key and session settings that differ between two `built_by` texts."""
    before, now = _head(built_by), _head(would_be_built_by)
    pairs = [
        (name, old, new)
        for name, old, new in zip(_OF_MODEL, before, now, strict=False)
        if isinstance(old, str | list) and type(old) is type(new)
    ]
    settings, others = _settings(before), _settings(now)
    if settings and others:
        pairs += [
            (name, settings.get(name, _DEFAULT), others.get(name, _DEFAULT))
            for name in sorted({*settings, *others})
            # texts of older releases lack settings that every text has now
            if (name in settings and name in others) or name not in SETTINGS_OF_RESULTS
        ]
    return [
        f"{name} was {_text(old)} and is {_text(new)}" for name, old, new in pairs if old != new
    ]


def noted_context(built_by: str) -> dict[str, dict[str, str]]:
    """Return the settings and functions in a `built_by` text; none if it has no such note."""
    head = _head(built_by)
    noted: dict[str, dict[str, str]] = head[-1] if head else {"settings": {}, "functions": {}}
    return noted


def _head(built_by: str) -> list[Any]:
    """Return the settings in the first line of a text, or none for a text of an older release."""
    head = _BUILT_BY.match(built_by)
    return list(json.loads(head[1])) if head else []


def _settings(head: Sequence[Any]) -> dict[str, str]:
    found: dict[str, str] = head[-1]["settings"] if head else {}
    return found


def _text(value: str | list[str]) -> str:
    return value if isinstance(value, str) else ", ".join(value) or "none"
