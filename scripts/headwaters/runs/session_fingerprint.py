"""The context that decides a model's rows besides its SQL and inputs: session and SQL functions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable

from headwaters.analysis import called
from headwaters.platform.spark_version import SETTINGS_OF_RESULTS

_BUILT_BY = re.compile(r"/\* built by (\[.*\]) \*/\n")
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
    """Describe the session settings that differ between two texts of `built_by`."""
    before, now = _settings(built_by), _settings(would_be_built_by)
    return [
        f"{name} was {before[name]} and is {now[name]}"
        for name in SETTINGS_OF_RESULTS
        if name in before and name in now and before[name] != now[name]
    ]


def _settings(built_by: str) -> dict[str, str]:
    """Return the settings in a text, or none for a text of an older release."""
    head = _BUILT_BY.match(built_by)
    found: dict[str, str] = json.loads(head[1])[-1]["settings"] if head else {}
    return found
