"""The queries of views under inputs, and their meaning in a run compared with Spark's.

Spark evaluates a view under stored settings of the session that created it. It casts the view's
columns to their types at that time, and finds functions in the view's schema. The query alone, in
the run's session, may give other rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headwaters.analysis import TypedColumn, called, prepared, relation_names, source_of
from headwaters.platform.spark_version import (
    ANSI_SETTING,
    SETTINGS_OF_EXECUTION,
    SETTINGS_OF_EXPRESSIONS,
    SETTINGS_OF_READER,
)

_BINARY = "UTF8_BINARY"


@dataclass(frozen=True)
class View:
    """A view as its query over `relations`, in the order of the text, or the `obstacle` to that.

    `settings`: those of the session that created it, as far as Spark stored them. `schema`: Spark
    looks here for functions that the view calls without a schema.
    """

    text: str
    relations: list[str]
    obstacle: str | None
    settings: Mapping[str, str]
    schema: str


def view(described: str) -> View:
    """Parse a view from the result of `describe extended … as json`."""
    known = json.loads(described)
    query = prepared(known.get("view_text") or "")
    read = relation_names(query)
    unknown = [name.parts[0] for name in read if len(name.parts) == 1]
    columns = [str(column["name"]) for column in known["columns"]]
    obstacle = None
    if not read or unknown:
        obstacle = f"reads {unknown[0]}, which has no schema" if unknown else "reads no table"
    elif known.get("view_query_output_columns") != columns:
        obstacle = "renames the columns of its query"
    elif (collation := known.get("collation", _BINARY)) != _BINARY:
        # it applies to literals and casts, but the query does not name it
        obstacle = f"has the default collation {collation}"
    # with schema evolution a view has all columns of its query, regardless of the stored ones
    evolves = known.get("view_schema_mode") == "EVOLUTION"
    names = "*" if evolves else ", ".join(f"`{name.replace('`', '``')}`" for name in columns)
    settings = known.get("view_creation_spark_configuration") or {}
    return View(
        f"(select {names} from (\n{query}\n))",
        [source_of(name) for name in read],
        obstacle,
        {ANSI_SETTING: "false", **settings},  # for a view that is older than the setting
        str(known.get("view_catalog_and_namespace", "")),
    )


def other_function(view: View, known: Iterable[str]) -> str | None:
    """Return a user function of another schema whose name the view calls, or None."""
    calls = called(view.text)
    for name in known:
        schema, _, function = name.replace("`", "").rpartition(".")
        if function.lower() in calls and schema != view.schema.replace("`", ""):
            return name
    return None


@dataclass(frozen=True)
class OtherSetting:
    """A setting that differs between a view and the run's session; None if the view stores none."""

    name: str
    of_view: str | None
    of_run: str

    def __str__(self) -> str:
        """Return a text such as `spark.sql.session.timeZone = Asia/Tokyo (UTC in the run)`."""
        of_view = "not set" if self.of_view is None else f"= {self.of_view}"
        return f"{self.name} {of_view} ({self.of_run} in the run)"


def other_settings(
    stored: Mapping[str, str], given: Mapping[str, str], ask: Callable[[str], str]
) -> list[OtherSetting]:
    """Return the settings under which a view and its query in the run may give different rows.

    `given` has the settings that the session sets; `ask` returns any other one.
    """
    found = []
    for name in sorted({*stored, *(name for name in given if name.startswith("spark.sql."))}):
        if name.startswith((*SETTINGS_OF_READER, *SETTINGS_OF_EXECUTION)):
            continue
        value = given[name] if name in given else ask(name)
        if name not in stored or _plain(stored[name]) != _plain(value):
            found.append(OtherSetting(name, stored.get(name), value))
    return found


def _plain(value: str) -> str:
    return value.lower() if value.lower() in ("true", "false") else value


def are_of_expressions(others: Iterable[OtherSetting]) -> bool:
    """Return true if the settings do not affect a query that only selects columns."""
    return all(one.name in SETTINGS_OF_EXPRESSIONS for one in others)


def has_casts(explained: str) -> bool:
    """Return true if Spark casts anything in a query, by the result of `explain extended`."""
    analyzed = explained.partition("== Analyzed Logical Plan ==")[2]
    analyzed, found, _ = analyzed.partition("== Optimized Logical Plan ==")
    return not found or re.search(r"cast\(", analyzed, re.IGNORECASE) is not None


def other_columns(columns: Sequence[TypedColumn]) -> str | None:
    """Describe the difference between a view's columns and those of its query, which come next."""
    half = len(columns) // 2
    pairs = [
        (f"{one.name} {one.dtype}", f"{two.name} {two.dtype}")
        for one, two in zip(columns[:half], columns[half:], strict=False)
    ]
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    if len(columns) % 2:
        return "more or fewer columns than its query gives today"
    return f"{differing[0][0]}, which its query gives as {differing[0][1]}" if differing else None
