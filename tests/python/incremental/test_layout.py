"""Test that a noted DESCRIBE DETAIL is valid until a commit may have changed the table."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from headwaters.runs.layout import NOTE, layout_note, noted_detail
from headwaters.tables.commits import Commit
from headwaters.tables.properties import is_redacted

SEEN = {"version": 7, "at": 700}
DETAIL: dict[str, Any] = {
    "partitionColumns": ["Day"],
    "clusteringColumns": None,
    "description": "One row a day.",
    "numFiles": 3,
}
OTHER = DETAIL | {"partitionColumns": []}
PROPERTIES = {
    NOTE: layout_note(DETAIL, SEEN),
    "delta.minReaderVersion": "3",
    "delta.minWriterVersion": "7",
    "delta.feature.deletionVectors": "supported",
    "headwaters.sql": "select 1",
}


def commit(number: int, operation: str, /, **parameters: Any) -> Commit:
    engine = "Apache-Spark/4.2.0 Delta-Lake/4.4.0"
    return Commit(number, 100 * number, operation, parameters, {}, engine)


BASE = commit(7, "CREATE OR REPLACE TABLE AS SELECT")
OWN = commit(8, "SET TBLPROPERTIES", properties='{"headwaters.pending": "null"}')


def test_commits_that_keep_it_leave_what_was_noted() -> None:
    commits = [
        commit(14, "VACUUM END"),
        commit(13, "OPTIMIZE"),
        commit(12, "MERGE", predicate="[]"),
        commit(11, "DELETE", predicate="[]"),
        commit(10, "WRITE", mode="Overwrite", replaceOnCond="a = b"),
        commit(9, "WRITE", mode="Append"),
        OWN,
        BASE,
    ]
    for reaching in (commits, commits[6:], commits[7:]):
        assert noted_detail(PROPERTIES, reaching) == {
            "partitionColumns": ["Day"],
            "clusteringColumns": [],
            "description": "One row a day.",
            "properties": PROPERTIES,
            "minReaderVersion": "3",
            "minWriterVersion": "7",
            "tableFeatures": ["deletionVectors"],
        }


@pytest.mark.parametrize(
    "changes",
    [
        commit(9, "CLUSTER BY"),
        commit(9, "RESTORE", version="3"),
        commit(9, "CLONE"),
        commit(9, "CREATE OR REPLACE TABLE AS SELECT"),
        commit(9, "WRITE", mode="Overwrite"),
        commit(9, "SET TABLE COMMENT"),
        commit(9, "SET TBLPROPERTIES", properties='{"comment": "Other."}'),
        commit(9, "SET TBLPROPERTIES"),  # as Trino's, which does not record its properties
        commit(9, "UNSET TBLPROPERTIES", properties='["comment"]'),
        commit(9, "something new"),
        replace(commit(9, "WRITE", mode="Append"), engine="delta-rs:1.0"),
    ],
    ids=lambda changes: changes.operation,
)
def test_a_commit_that_may_change_it_makes_it_asked_for(changes: Commit) -> None:
    assert noted_detail(PROPERTIES, [changes, OWN, BASE]) is None


def test_a_table_notes_it_with_the_commit_that_makes_it() -> None:
    properties = PROPERTIES | {NOTE: layout_note(DETAIL)}
    made = commit(7, "CREATE TABLE AS SELECT", properties=json.dumps({NOTE: properties[NOTE]}))
    noted = noted_detail(properties, [OWN, made])
    assert noted is not None and noted["partitionColumns"] == ["Day"]
    # a commit with properties of another table, or with none
    other = commit(7, "CREATE TABLE AS SELECT", properties=json.dumps({NOTE: layout_note(OTHER)}))
    for elsewhere in (other, BASE, commit(7, "CLONE", properties=made.parameters["properties"])):
        assert noted_detail(properties, [OWN, elsewhere]) is None


def test_it_is_asked_for_where_its_commit_is_not_there() -> None:
    assert noted_detail({}, [OWN, BASE]) is None
    assert noted_detail(PROPERTIES, [OWN]) is None
    of_a_clone = replace(BASE, at=9000)  # another table's commit of this version
    assert noted_detail(PROPERTIES, [OWN, of_a_clone]) is None


def test_a_value_that_spark_keeps_to_itself_is_told() -> None:
    assert is_redacted({"headwaters.sql": "*********(redacted)"})
    assert not is_redacted({"headwaters.sql": "select '*********(redacted)'"})
