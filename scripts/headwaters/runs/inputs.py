"""The marked inputs of a model's SQL: markers are comments that input macros write.

`/* changes {"source": "silver.x", "version": 17, …} */ silver.x version as of 17` is the SQL of a
full refresh. It has everything that a run needs to know about the input. Compilation passes no
other state to execution.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

Spec = dict[str, Any]  # the content of a marker; `text` is the input's piece of SQL
Versions = Mapping[str, Mapping[str, Any]]  # by source: {source: {version, at}}

_MARKER = re.compile(r'/\* (\w+) (\{[^\n]*?"kind": "\1"[^\n]*?\}) \*/ ')
# The columns only: the images themselves are in the feed.
_IMAGE = (
    "'at', timestamp_millis(0), 'version', cast(0 as bigint), 'deleted', false, "
    "'until', cast(null as timestamp)"
)


def input_sql(spec: Mapping[str, Any]) -> str:
    """Return the rows of an input as a full refresh reads them."""
    version = spec.get("version")
    snapshot = f"{spec['source']}" + ("" if version is None else f" version as of {version}")
    if spec["kind"] == "signed":
        return f"(select *, 1 as _weight from {snapshot})"
    if spec["kind"] == "images":
        return f"(select *, named_struct({_IMAGE}) as _image from {snapshot})"
    return snapshot


def marked(spec: Mapping[str, Any]) -> str:
    """Return an input with its marker."""
    # a star in the content could end the comment
    content = json.dumps(spec, sort_keys=True).replace("*", "\\u002a")
    return f"/* {spec['kind']} {content} */ {input_sql(spec)}"


def inputs_of(sql: str) -> list[Spec]:
    """Return the marked inputs of a query, in the order of the text, each text once."""
    inputs: dict[str, Spec] = {}
    for match in _MARKER.finditer(sql):
        spec = json.loads(match[2])
        text = match[0] + input_sql(spec)
        inputs[text] = spec | {"text": text}
    return list(inputs.values())


def with_inputs(sql: str, replacements: Mapping[str, str]) -> str:
    """Return the query with the texts of inputs replaced."""
    for text, replacement in replacements.items():
        sql = sql.replace(text, replacement)
    return sql


def with_one_version_each(sql: str) -> str:
    """Return the query with one version of each source.

    A model may name a source twice, and another writer may commit while it compiles.
    """
    first: dict[str, Spec] = {}
    replacements = {}
    for spec in inputs_of(sql):
        pinned = first.setdefault(spec["source"], spec)
        if pinned["version"] != spec["version"]:
            replacements[spec["text"]] = _at(spec, pinned)
    return with_inputs(sql, replacements)


def at_versions(sql: str, versions: Versions) -> str:
    """Return the query with its inputs at other versions; an input that is not named gets none."""
    replacements = {
        spec["text"]: _at(
            spec, {"version": None, "at": None} | dict(versions.get(spec["source"], {}))
        )
        for spec in inputs_of(sql)
    }
    return with_inputs(sql, replacements).strip()


def without_versions(sql: str) -> str:
    """Return the query without versions: it identifies the model for any state of its inputs."""
    return at_versions(sql, {})


def _at(spec: Spec, version: Mapping[str, Any]) -> str:
    pinned = {name: value for name, value in spec.items() if name != "text"}
    return marked(pinned | {"version": version["version"], "at": version["at"]})


def without_rows(inputs: Iterable[Spec]) -> dict[str, str]:
    """Return replacements that give the inputs no rows."""
    return {spec["text"]: f"(select * from {input_sql(spec)} where false)" for spec in inputs}


def without_inputs(sql: str, inputs: Iterable[Spec]) -> str:
    """Return the query with its inputs blanked out."""
    return with_inputs(sql, {spec["text"]: " " for spec in inputs})


def versions_of(inputs: Iterable[Spec]) -> dict[str, dict[str, Any]]:
    """Return the versions of inputs in the form of a table's properties."""
    return {spec["source"]: {"version": spec["version"], "at": spec["at"]} for spec in inputs}


def followed(inputs: Iterable[Spec]) -> Spec:
    """Return the one input whose changes a strategy follows."""
    return next(spec for spec in inputs if spec["kind"] != "lookup")


def is_pinned(inputs: Iterable[Spec]) -> bool:
    """Return true if every input has a version; those of a sample or an empty run have none."""
    return all(spec["version"] is not None for spec in inputs)
