"""The marked inputs of a model's SQL: markers are comments that input macros write.

`/* changes {"source": "silver.x", "version": 17, …} */ silver.x version as of 17` is the SQL of a
full refresh, and holds all that a run has to know of the input. No other state passes from
compilation to execution.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

Spec = dict[str, Any]  # the content of a marker, with `text`, the piece of SQL that is the input
Versions = Mapping[str, Mapping[str, Any]]  # of inputs: {source: {version, at}}

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

    A model may name a source twice, and somebody may commit while it compiles.
    """
    first: dict[str, Spec] = {}
    replacements = {}
    for spec in inputs_of(sql):
        pinned = first.setdefault(spec["source"], spec)
        if pinned["version"] != spec["version"]:
            replacements[spec["text"]] = _at(spec, pinned)
    return with_inputs(sql, replacements)


def at_versions(sql: str, versions: Versions) -> str:
    """Return the query with its inputs at other versions, of those that are not named at none."""
    replacements = {
        spec["text"]: _at(
            spec, {"version": None, "at": None} | dict(versions.get(spec["source"], {}))
        )
        for spec in inputs_of(sql)
    }
    return with_inputs(sql, replacements).strip()


def without_versions(sql: str) -> str:
    """Return the query without versions: it is the model, whatever its inputs have."""
    return at_versions(sql, {})


def _at(spec: Spec, version: Mapping[str, Any]) -> str:
    pinned = {name: value for name, value in spec.items() if name != "text"}
    return marked(pinned | {"version": version["version"], "at": version["at"]})


def without_rows(inputs: Iterable[Spec]) -> dict[str, str]:
    """Return replacements for inputs by inputs that have no rows."""
    return {spec["text"]: f"(select * from {input_sql(spec)} where false)" for spec in inputs}


def without_inputs(sql: str, inputs: Iterable[Spec]) -> str:
    """Return the query with blanks in place of its inputs."""
    return with_inputs(sql, {spec["text"]: " " for spec in inputs})


def versions_of(inputs: Iterable[Spec]) -> dict[str, dict[str, Any]]:
    """Return the versions of inputs as a table's properties have them."""
    return {spec["source"]: {"version": spec["version"], "at": spec["at"]} for spec in inputs}


def followed(inputs: Iterable[Spec]) -> Spec:
    """Return the one input whose changes a strategy follows."""
    return next(spec for spec in inputs if spec["kind"] != "lookup")


def is_pinned(inputs: Iterable[Spec]) -> bool:
    """Whether every input has a version; those of a sample and of an empty run have none."""
    return all(spec["version"] is not None for spec in inputs)
