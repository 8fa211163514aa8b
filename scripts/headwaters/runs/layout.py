"""The layout of a model's table without the cost of DESCRIBE DETAIL.

DESCRIBE DETAIL counts files, so Delta has to reconstruct the state of a version. After a commit it
is the most expensive statement of a small run, and a model needs none of its numbers. The table's
properties cost a tenth. The property `headwaters.layout` adds the rest, with the commit after which
it was read. It is valid while no later commit can have changed the layout. Nothing here runs a
statement.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from headwaters.platform.delta_version import FEATURE, OPERATIONS_KEEPING_LAYOUT, SPARK_ENGINE
from headwaters.tables.commits import Commit, as_mapping, as_names

NOTE = "headwaters.layout"

_LAYOUT = ("partitionColumns", "clusteringColumns", "description")


def layout_note(detail: Mapping[str, Any], seen: Mapping[str, int] | None = None) -> str:
    """Return the note for a row of DESCRIBE DETAIL that was read after the commit `seen`.

    None stands for the commit that creates the table with the note.
    """
    # a project may have quoted the names
    partitions, clustering = (
        [column.strip("`") for column in as_names(detail[name])] for name in _LAYOUT[:2]
    )
    noted = {"seen": seen, "layout": [partitions, clustering, detail["description"]]}
    return json.dumps(noted)


def noted_detail(properties: Mapping[str, str], commits: Sequence[Commit]) -> dict[str, Any] | None:
    """Return the part of DESCRIBE DETAIL that a model needs, from the note of its table.

    `commits` are the newest, newest first. Return None without a note, or if a later commit may
    have changed the layout, or if the noted commit is not among these.
    """
    note = as_mapping(properties.get(NOTE))
    if not note:
        return None
    for commit in commits:
        if _is_noted_in(commit, note, properties[NOTE]):
            detail = dict(zip(_LAYOUT, note["layout"], strict=True))
            features = [name for name in properties if name.startswith(FEATURE)]
            return detail | {
                "properties": dict(properties),
                "minReaderVersion": properties.get("delta.minReaderVersion"),
                "minWriterVersion": properties.get("delta.minWriterVersion"),
                "tableFeatures": [name.removeprefix(FEATURE) for name in features],
            }
        if not _keeps_layout(commit):
            return None
    return None


def _is_noted_in(commit: Commit, note: Mapping[str, Any], text: str) -> bool:
    if note["seen"] is not None:
        return commit.is_same(note["seen"])
    made = as_mapping(commit.parameters.get("properties"))
    return commit.operation.endswith("TABLE AS SELECT") and made.get(NOTE) == text


def _keeps_layout(commit: Commit) -> bool:
    comments = "comment" in as_mapping(commit.parameters.get("properties"))
    return (
        commit.operation in OPERATIONS_KEEPING_LAYOUT
        and commit.engine.startswith(SPARK_ENGINE)
        and not commit.replaces_all
        and commit.tells_properties
        and not comments
    )
