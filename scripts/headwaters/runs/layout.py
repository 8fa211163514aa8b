"""What DESCRIBE DETAIL says of a model's table, without asking it.

DESCRIBE DETAIL counts files, for which Delta reconstructs the state of a version: after each commit
that is the dearest statement of a small run, and a model needs none of the numbers. The properties
cost a tenth. What they lack, `headwaters.layout` notes with the commit that it was read after; it
counts as long as no later commit can have changed it. Nothing here runs a statement.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from headwaters.tables.commits import Commit, as_mapping, as_names

NOTE = "headwaters.layout"

# Spark writes it in place of a value in which its settings suspect a secret.
_REDACTED = "*********(redacted)"

_LAYOUT = ("partitionColumns", "clusteringColumns", "description")
_FEATURE = "delta.feature."

# Of Spark's commits, those that leave partitioning, clustering and the comment as they are.
_KEEPS_LAYOUT = {
    *("WRITE", "MERGE", "DELETE", "UPDATE", "OPTIMIZE", "VACUUM START", "VACUUM END"),
    *("SET TBLPROPERTIES", "ADD CONSTRAINT", "DROP CONSTRAINT"),
    *("ADD COLUMNS", "CHANGE COLUMN", "CHANGE COLUMNS"),
}


def is_redacted(properties: Mapping[str, str]) -> bool:
    """Whether SHOW TBLPROPERTIES kept a value of ours to itself."""
    return any(value == _REDACTED for value in properties.values())


def layout_note(detail: Mapping[str, Any], seen: Mapping[str, int] | None = None) -> str:
    """What to note of a row of DESCRIBE DETAIL that was read after the commit `seen`.

    None stands for the commit that makes the table, and has the note.
    """
    # a project may have quoted the names itself
    partitions, clustering = (
        [column.strip("`") for column in as_names(detail[name])] for name in _LAYOUT[:2]
    )
    noted = {"seen": seen, "layout": [partitions, clustering, detail["description"]]}
    return json.dumps(noted)


def noted_detail(properties: Mapping[str, str], commits: Sequence[Commit]) -> dict[str, Any] | None:
    """The row of DESCRIBE DETAIL as far as a model needs it, from what its table notes.

    `commits` are the newest, newest first. None where nothing is noted, or a commit since then, or
    one that is not among these, may have changed it.
    """
    note = as_mapping(properties.get(NOTE))
    if not note:
        return None
    for commit in commits:
        if _is_noted_in(commit, note, properties[NOTE]):
            detail = dict(zip(_LAYOUT, note["layout"], strict=True))
            features = [name for name in properties if name.startswith(_FEATURE)]
            return detail | {
                "properties": dict(properties),
                "minReaderVersion": properties.get("delta.minReaderVersion"),
                "minWriterVersion": properties.get("delta.minWriterVersion"),
                "tableFeatures": [name.removeprefix(_FEATURE) for name in features],
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
        commit.operation in _KEEPS_LAYOUT
        and commit.engine.startswith("Apache-Spark/")
        and not commit.replaces_all
        and commit.tells_properties
        and not comments
    )
