"""Test the rules about commits: their effect on rows, and the ranges that a feed covers."""

from __future__ import annotations

import json
import re
import zipfile
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwaters.platform.jars import installed_pyspark
from headwaters.tables import commits as rules
from headwaters.tables.commits import Commit, Effect, Range

DAY = 86_400_000
FEED = "delta.enableChangeDataFeed"
SPARK = "Apache-Spark/4.2.0 Delta-Lake/4.4.0"


def commit(version: int, operation: str = "OPTIMIZE", **fields: Any) -> Commit:
    """Return a commit by Spark, a second after the one before."""
    known: dict[str, Any] = {"at": version * 1000, "parameters": {}, "metrics": {}}
    known |= {"engine": SPARK} | fields
    return Commit(version=version, operation=operation, **known)


def append(version: int, rows: int = 1) -> Commit:
    return commit(
        version, "WRITE", parameters={"mode": "Append"}, metrics={"numOutputRows": str(rows)}
    )


def delete(version: int, rows: int = 1, **fields: Any) -> Commit:
    return commit(version, "DELETE", metrics={"numDeletedRows": str(rows)}, **fields)


def merge(version: int, files: str, inserted: str = "0") -> Commit:
    """Return a merge that changed no row of the table and rewrote this many files."""
    counts = dict.fromkeys(["numTargetRowsUpdated", "numTargetRowsDeleted"], "0")
    metrics = {**counts, "numTargetRowsInserted": inserted, "numTargetFilesRemoved": files}
    return commit(version, "MERGE", metrics=metrics)


def vacuum(version: int, specified: object, **fields: Any) -> Commit:
    """Return a VACUUM on the eighth day, with a retention of one week."""
    parameters = {"specifiedRetentionMillis": specified, "defaultRetentionMillis": str(7 * DAY)}
    return commit(version, "VACUUM START", at=8 * DAY, parameters=parameters, **fields)


def properties(version: int, **values: str) -> Commit:
    names = {name.replace("__", "."): value for name, value in values.items()}
    return commit(version, "SET TBLPROPERTIES", parameters={"properties": json.dumps(names)})


def over(*newer: Commit, to: int | None = None) -> Range:
    """Return the commits of `t` after an append, its version 0."""
    known = [*sorted(newer, key=lambda each: -each.version), append(0)]
    last = known[0].version if to is None else to
    return rules.range_of("t", {"version": 0, "at": 0}, last, known)


def row(**fields: Any) -> dict[str, Any]:
    """Return a row of `describe history` as dbt returns it."""
    return {
        "version": 3,
        "timestamp": "2026-01-01 00:00:00",
        "operation": "WRITE",
        "operationParameters": '{"mode": "Append"}',
        "operationMetrics": '{"numOutputRows": "5"}',
        "isBlindAppend": True,
        "engineInfo": SPARK,
        "clusterId": None,
        "userMetadata": "signed",
    } | fields


def test_a_row_of_the_history_is_a_commit() -> None:
    written = Commit(
        version=3,
        at=1_767_225_600_000,
        operation="WRITE",
        parameters={"mode": "Append"},
        metrics={"numOutputRows": "5"},
        engine=SPARK,
        user_metadata="signed",
        is_blind_append=True,
    )
    nameless = Commit(3, 1_767_225_600_000, "", {}, {}, "", None, None)
    trino = dict.fromkeys(["operationMetrics", "engineInfo"]) | {"clusterId": "trino-476-a"}
    assert rules.commits_of([row()]) == [written]
    nothing = dict.fromkeys(
        (
            "operation",
            "operationParameters",
            "operationMetrics",
            "isBlindAppend",
            "engineInfo",
            "userMetadata",
        )
    )
    assert rules.commit_of(row(**nothing)) == nameless
    assert rules.commit_of(row(**trino)).engine == "trino-476-a"


EFFECTS = [
    (commit(1, "OPTIMIZE"), Effect(0, True)),
    (append(1, 5), Effect(5, True)),
    (
        commit(1, "STREAMING UPDATE", parameters={"outputMode": "Append"}),
        Effect(1, True, uncounted=True),
    ),
    (commit(1, "WRITE", is_blind_append=True), Effect(1, True, uncounted=True)),
    (commit(1, "WRITE", is_blind_append=False), Effect(1, False, uncounted=True)),
    (commit(1, "MERGE", metrics={"num_target_rows_updated": "1"}), Effect(1, False, True)),
    (commit(1, "DELETE"), Effect(1, False, uncounted=True)),
    (commit(1, "Empty Commit"), Effect(0, True)),
    (
        commit(
            1,
            "MERGE",
            metrics={
                "numTargetRowsInserted": "4",
                "numTargetRowsUpdated": "2",
                "numTargetRowsDeleted": "1",
            },
        ),
        Effect(7, False),
    ),
    (
        commit(1, "MERGE", metrics={"numTargetRowsInserted": "4", "numTargetRowsUpdated": "0"}),
        Effect(4, True),
    ),
    (delete(1, 3), Effect(3, False)),
    (commit(1, "UPDATE", metrics={"numUpdatedRows": "2"}), Effect(2, False)),
    (
        commit(
            1,
            "WRITE",
            parameters={"mode": "Overwrite", "predicate": "id = 1"},
            metrics={"numOutputRows": "9", "numCopiedRows": "7", "numDeletedRows": "3"},
        ),
        Effect(5, False),
    ),
    (commit(1, "RESTORE"), Effect(1, False, uncounted=True)),
    (commit(1, "a new one"), Effect(1, False, uncounted=True)),
    (commit(1, ""), Effect(1, False, uncounted=True)),
]


@pytest.mark.parametrize(("given_commit", "effect"), EFFECTS)
def test_what_a_commit_does_to_rows(given_commit: Commit, effect: Effect) -> None:
    assert given_commit.effect == effect


def test_a_range_adds_up_what_its_commits_did() -> None:
    assert over(append(1, 5), commit(2), delete(3, 2), append(4), to=3) == Range(
        "t", 0, 3, rows=7, commits=2, inserts_only=False
    )
    assert over(append(1, 5), commit(2, "ADD COLUMNS"), commit(3, "CHANGE COLUMN")) == Range(
        "t", 0, 3, 5, 1, append(1, 5), columns_added=True, columns_altered=True
    )
    replaced = commit(
        1,
        "CREATE OR REPLACE TABLE AS SELECT",
        parameters={"properties": json.dumps({FEED: "true"}), "partitionBy": "[]"},
    )
    created = commit(0, "CREATE TABLE", parameters={"partitionBy": "[]"})
    restored = commit(2, "RESTORE", parameters={"version": "1"})
    noted = {"version": 0, "at": 0}
    assert rules.range_of("t", noted, 2, [restored, replaced, created]) == Range(
        "t", 0, 2, rows=2, commits=2, inserts_only=False, replaced=(2, 1), uncounted=True
    )


DROPPED = commit(2, "DROP FEATURE", parameters={"featureName": "deletionVectors"})
DELTA_RS = "delta-rs:py-1.6.6"


@pytest.mark.parametrize(
    ("given_commit", "before"),
    [
        (vacuum(1, None), DAY),
        (vacuum(1, "0"), 8 * DAY),
        (vacuum(1, str(DAY)), DAY),  # Delta for Spark ignores the value of RETAIN, unless it is 0
        (vacuum(1, str(DAY), engine=DELTA_RS), 7 * DAY),
        (vacuum(1, str(9 * DAY), engine=DELTA_RS), DAY),
        (vacuum(1, "None", engine="trino-480-a"), DAY),
        (commit(1, "VACUUM START", at=8 * DAY), DAY),
    ],
)
def test_how_far_back_a_vacuum_deleted_files(given_commit: Commit, before: int) -> None:
    assert given_commit.vacuumed_before == before


DOUBT = (
    "t was changed by {} at version 1), whose change images need not be the rows that were there"
)


@pytest.mark.parametrize(
    ("given_commit", "gap", "doubt"),
    [
        (delete(1), None, None),
        (delete(1, engine=DELTA_RS), None, None),
        (delete(1, engine="trino-476-a"), None, DOUBT.format("trino-476-a (DELETE")),
        (delete(1, engine="another"), DOUBT.format("another (DELETE"), None),
        (delete(1, engine=""), DOUBT.format("an engine that does not say its name (DELETE"), None),
        (commit(1, "OPTIMIZE", engine="trino-476-a"), None, DOUBT.format("trino-476-a (OPTIMIZE")),
        (commit(1, "OPTIMIZE", engine="another"), DOUBT.format("another (OPTIMIZE"), None),
        (commit(1, "WRITE", engine="another", is_blind_append=True), None, None),
        (commit(1, "ADD COLUMNS", engine="another"), None, None),
    ],
)
def test_images_of_engines_that_were_not_compared_are_in_doubt(
    given_commit: Commit, gap: str | None, doubt: str | None
) -> None:
    seen = over(given_commit)
    assert (seen.gap, seen.doubt) == (gap, doubt)
    with_moment = {0: "struct<a:timestamp>", 1: "struct<a:timestamp>"}
    without = {0: "struct<a:int>", 1: "struct<a:int>"}
    assert seen.with_columns(with_moment).gap == (gap or doubt)
    assert seen.with_columns(without).gap == gap
    assert seen.with_columns({0: "struct<a:int>", 1: "struct<a:int,b:int>"}).gap == gap
    assert seen.needs_columns == (doubt is not None)


def test_the_feed_is_wrong_where_deletion_vectors_were_dropped_later() -> None:
    wrong = "the change feed of t is wrong before version 2, which dropped its deletion vectors"
    assert over(delete(1), DROPPED).gap == wrong
    assert over(delete(1), DROPPED, to=1).gap == wrong
    assert over(append(1), DROPPED, delete(3)).gap is None
    assert over(delete(1), commit(2, "DROP FEATURE")).gap is None


def test_what_a_commit_does_not_tell_is_asked_of_the_feed() -> None:
    assert over(commit(1, "SET TBLPROPERTIES")).uncounted
    assert not over(properties(1, comment="x")).uncounted
    unknown = over(commit(1, "a new one"))
    assert (unknown.uncounted, unknown.columns_added, unknown.columns_altered) == (True,) * 3
    assert over(commit(1, "ADD COLUMN", engine=DELTA_RS)) == Range("t", 0, 1, columns_added=True)
    counted = unknown.with_rows(0)
    assert (counted.rows, counted.uncounted) == (0, False)


GAPS = [
    ([properties(1, delta__enableChangeDataFeed="false")], "without its change data feed"),
    (
        [commit(1, "UNSET TBLPROPERTIES", parameters={"properties": f'["{FEED}"]'})],
        "without its change data feed",
    ),
    ([commit(1, "CREATE OR REPLACE TABLE AS SELECT")], "without its change data feed"),
    ([commit(1, "RENAME COLUMN")], "changed its columns (RENAME COLUMN at version 1)"),
    (
        [delete(1), commit(2, "VACUUM START", parameters={"specifiedRetentionMillis": "0"})],
        "the change files of t at version 1 were vacuumed",
    ),
    ([delete(1), commit(2, "VACUUM START", at=8 * DAY)], "version 1 were vacuumed"),
    ([delete(1), vacuum(2, str(6 * DAY), engine=DELTA_RS)], "version 1 were vacuumed"),
    ([append(1), commit(2), vacuum(3, "0")], "version 1 were vacuumed"),
    ([append(1), vacuum(2, None), commit(3), vacuum(4, "0")], "version 1 were vacuumed"),
    ([append(1), merge(2, "1"), vacuum(3, "0")], "version 1 were vacuumed"),
    ([merge(1, "0", inserted="1"), vacuum(2, "0")], "version 1 were vacuumed"),
]


@pytest.mark.parametrize(("newer", "words"), GAPS)
def test_what_a_feed_cannot_tell_is_a_gap(newer: list[Commit], words: str) -> None:
    assert words in str(over(*newer).gap)


def test_what_a_feed_can_tell_is_no_gap() -> None:
    for newer in (
        [properties(1, delta__enableChangeDataFeed="true")],
        [properties(1, comment="x")],
        [delete(1), commit(2, "VACUUM START")],
        [commit(1, "VACUUM START", at=8 * DAY), delete(2, at=9 * DAY)],
        [append(1), vacuum(2, "0")],  # no file has left the table
        [append(1), commit(2, at=9 * DAY), vacuum(3, "0")],  # but afterwards
        [commit(1), append(2), vacuum(3, "0")],
    ):
        assert over(*newer).gap is None


def test_another_table_or_a_history_too_short_is_a_gap() -> None:
    shorter = rules.range_of("t", {"version": 3, "at": 3000}, 2, [])
    assert str(shorter.gap).startswith("t is at version 2, behind the 3 that was read last")
    other = rules.range_of("t", {"version": 0, "at": 500}, 1, [append(1), append(0)])
    assert str(other.gap).startswith("t is another table than the one that was read last")
    lost = rules.range_of("t", {"version": 0, "at": 0}, 2, [append(2), append(1)])
    assert lost.gap == "the history of t from version 0 to 2 is no longer retained"


def test_columns_that_differ_are_a_gap() -> None:
    replaced = over(commit(1, "RESTORE"))
    assert replaced.needs_columns
    assert replaced.with_columns({0: "struct<a:int>", 1: "struct<a:int>"}) == replaced
    assert (
        replaced.with_columns({0: "struct<a:int>", 1: "struct<b:int>"}).gap
        == "t was replaced by a table of other columns"
    )
    altered = over(commit(1, "CHANGE COLUMN"))
    assert (
        altered.with_columns({0: "struct<a:int>", 1: "struct<a:bigint>"}).gap
        == "t changed the types or the order of its columns"
    )


def replaced(version: int, *columns: str, operation: str = "REPLACE TABLE AS SELECT") -> Commit:
    told = {"properties": json.dumps({FEED: "true"}), "partitionBy": json.dumps(columns)}
    return commit(version, operation, parameters=told)


def overwritten(version: int, *columns: str, **parameters: str) -> Commit:
    told = {"mode": "Overwrite", "partitionBy": json.dumps(columns), **parameters}
    return commit(version, "WRITE", parameters=told, metrics={"numOutputRows": "1"})


def restored(version: int, to: int | None) -> Commit:
    told = {} if to is None else {"version": str(to)}
    return commit(version, "RESTORE", parameters=told)


def mapped(version: int) -> Commit:
    told = {FEED: "true", "delta.columnMapping.mode": "name"}
    parameters = {"properties": json.dumps(told), "partitionBy": '["a"]'}
    return commit(version, "REPLACE TABLE AS SELECT", parameters=parameters)


MADE = replaced(0, "a", operation="CREATE TABLE")
KEEPS, MAY_CHANGE = {"canOverwriteSchema": "false"}, {"canOverwriteSchema": "true"}
OTHER_COLUMNS = "t was partitioned by other columns, or mapped otherwise"


@pytest.mark.parametrize(
    ("newer", "is_doubted"),
    [
        ([replaced(1, "A")], False),
        ([replaced(1)], True),
        ([replaced(1, "b")], True),
        ([replaced(1, "a", "b")], True),
        ([replaced(1, "b"), replaced(2, "a")], True),
        ([commit(1, "REPLACE TABLE", parameters={"properties": f'{{"{FEED}": "true"}}'})], True),
        ([overwritten(1, **KEEPS)], False),
        ([overwritten(1, **MAY_CHANGE)], True),
        ([overwritten(1, "a", **MAY_CHANGE)], False),
        ([overwritten(1, "a")], False),
        ([overwritten(1)], True),  # it may have kept them, which an older Delta does not record
        ([overwritten(1, predicate="a = 1")], False),
        ([append(1), restored(2, 0)], False),
        ([append(1), restored(2, None)], False),
        ([append(1), replaced(2), restored(3, 0)], True),
        ([append(1), replaced(2, "a"), restored(3, None)], False),
        ([append(1), replaced(2), restored(3, None)], True),
        ([append(1), commit(2, "CLONE")], True),
        ([append(1), commit(2, "a new one")], True),
        ([commit(1), replaced(2)], True),
        ([append(1), properties(2, delta__columnMapping__mode="name")], True),
        ([mapped(1)], True),
        ([mapped(1), replaced(2, "a")], True),
        ([commit(1)], False),
    ],
)
def test_a_feed_over_other_partition_columns_is_doubted(
    newer: list[Commit], is_doubted: bool
) -> None:
    history = [*newer[::-1], MADE]
    changes = rules.range_of("t", {"version": 0, "at": 0}, history[0].version, history)
    assert _doubt(changes) == (OTHER_COLUMNS if is_doubted else None)
    if is_doubted:
        assert changes.with_rows(1).gap == OTHER_COLUMNS
        assert first(*history) == history[0].version
    else:
        assert first(*history) == 0


def test_a_feed_is_wrong_before_the_partition_columns_changed() -> None:
    history = [replaced(3, "b"), append(2), commit(1), MADE]
    at = [{"version": version, "at": version * 1000} for version in range(4)]
    assert rules.range_of("t", at[0], 2, history).gap == OTHER_COLUMNS
    assert rules.range_of("t", at[0], 1, history) == Range("t", 0, 1)  # it changed no row
    assert rules.range_of("t", at[3], 3, history).gap is None
    history = [delete(5), append(4), *history]
    assert rules.range_of("t", at[3], 5, history).gap is None
    assert first(*history) == 3


@pytest.mark.parametrize("moving", ["DROP COLUMNS", "RENAME COLUMN"])
def test_a_restored_column_is_a_gap_even_without_rows(moving: str) -> None:
    history = [restored(4, 1), commit(3, "ADD COLUMNS"), commit(2, moving), append(1), MADE]
    at = {"version": 3, "at": 3000}
    assert rules.range_of("t", at, 4, history).gap == OTHER_COLUMNS
    recent = rules.range_of("t", at, 4, history[:2])
    assert (recent.gap, recent.needs_history) == (OTHER_COLUMNS, True)
    history[0] = restored(4, 3)
    assert rules.range_of("t", at, 4, history).with_rows(0).gap is None


def test_partition_columns_of_an_older_commit_are_asked_for() -> None:
    history = [replaced(9, "a"), append(8), append(7)]
    changes = rules.range_of("t", {"version": 8, "at": 8000}, 9, history)
    assert (_doubt(changes), changes.needs_history) == (OTHER_COLUMNS, True)
    whole = [*history, *(commit(version) for version in range(6, 0, -1)), MADE]
    changes = rules.range_of("t", {"version": 8, "at": 8000}, 9, whole)
    assert (_doubt(changes), changes.needs_history) == (None, False)


@pytest.mark.parametrize(
    "newer",
    [
        [commit(2, "RENAME COLUMN"), commit(3, "DROP COLUMNS"), commit(4, "ADD COLUMNS")],
        [properties(2, delta__columnMapping__mode="name"), commit(3, "RENAME COLUMN"), append(4)],
        [mapped(2)],
        [append(2), commit(3, "RENAME COLUMN"), restored(4, 1)],
    ],
)
def test_columns_that_move_leave_the_partition_columns(newer: list[Commit]) -> None:
    known = rules.partitionings([*newer[::-1], append(1), MADE])
    assert set(known.values()) == {("a",)}
    known = rules.partitionings([replaced(9, "b"), *newer[::-1], append(1), MADE])
    assert set(known.values()) == {("a",), ("b",)}


# Each operation of Delta 4.4 by its class. Also those that no SQL or API of Spark commits, or that
# would need a separate test: they may change anything.
DELTA_OPERATIONS = {
    "AddColumns": "ADD COLUMNS",
    "AddConstraint": "ADD CONSTRAINT",
    "AddDeletionVectorsTombstones": "Deletion Vector Tombstones",
    "ChangeColumn": "CHANGE COLUMN",
    "ChangeColumns": "CHANGE COLUMNS",
    "Clone": "CLONE",
    "ClusterBy": "CLUSTER BY",
    "ComputeStats": "COMPUTE STATS",
    "Convert": "CONVERT",
    "CreateTable": "CREATE TABLE",
    "Delete": "DELETE",
    "DomainMetadataCleanup": "DOMAIN METADATA CLEANUP",
    "DropColumns": "DROP COLUMNS",
    "DropConstraint": "DROP CONSTRAINT",
    "DropTableFeature": "DROP FEATURE",
    "EmptyCommit": "Empty Commit",
    "Merge": "MERGE",
    "Optimize": "OPTIMIZE",
    "OptimizeCheckpoint": "OPTIMIZE CHECKPOINT",
    "RenameColumn": "RENAME COLUMN",
    "Reorg": "REORG",
    "ReplaceColumns": "REPLACE COLUMNS",
    "ReplaceTable": "REPLACE TABLE",
    "Restore": "RESTORE",
    "RowTrackingBackfill": "ROW TRACKING BACKFILL",
    "RowTrackingUnBackfill": "ROW TRACKING UNBACKFILL",
    "SetTableProperties": "SET TBLPROPERTIES",
    "StreamingUpdate": "STREAMING UPDATE",
    "Truncate": "TRUNCATE",
    "UnsetTableProperties": "UNSET TBLPROPERTIES",
    "Update": "UPDATE",
    "UpgradeProtocol": "UPGRADE PROTOCOL",
    "VacuumEnd": "VACUUM END",
    "VacuumStart": "VACUUM START",
    "Write": "WRITE",
}
OF_UNKNOWN_EFFECT = {
    "ManualUpdate": "Manual Update",
    "RemoveColumnMapping": "REMOVE COLUMN MAPPING",
    "TestOperation": "TEST",
    "UpdateColumnMetadata": "UPDATE COLUMN METADATA",
    "UpdateSchema": "UPDATE SCHEMA",
    "UpgradeUniformProperties": "REORG TABLE UPGRADE UNIFORM",
}
NO_OPERATIONS = {
    *("MergePredicate", "Operation", "OperationWithPredicates", "OptimizeOrReorg"),
    "QualifiedColTypeWithPositionForLog",
}


def test_every_operation_of_delta_is_known_or_may_change_anything() -> None:
    [jar] = (installed_pyspark() / "jars").glob("delta-spark_*.jar")
    of_jar = re.compile(r"org/apache/spark/sql/delta/DeltaOperations\$(\w+)\$?\.class")
    with zipfile.ZipFile(jar) as content:
        classes = {found[1] for name in content.namelist() if (found := of_jar.fullmatch(name))}
    assert classes - NO_OPERATIONS == {*DELTA_OPERATIONS, *OF_UNKNOWN_EFFECT}
    assert all(commit(1, name).is_known for name in DELTA_OPERATIONS.values())
    assert not any(commit(1, name).is_known for name in OF_UNKNOWN_EFFECT.values())


def first(*newest_first: Commit, columns: dict[int, str] | None = None) -> int:
    to = newest_first[0].version
    columns = columns or dict.fromkeys(range(to + 1), "struct<a:int>")
    return rules.first_known("t", to, newest_first, columns).version


def test_the_feed_is_known_from_where_nothing_after_it_is_lost() -> None:
    feed_on = properties(1, delta__enableChangeDataFeed="true")
    vacuumed = vacuum(3, "0")
    restored = commit(2, "RESTORE", parameters={"version": "1"})
    assert first(delete(2), append(1), append(0)) == 0
    assert first(delete(2), feed_on, append(0)) == 1
    assert first(append(4), vacuumed, append(1), append(0)) == 0  # no file had left the table
    assert first(append(4), vacuumed, delete(2), append(1)) == 2
    assert first(delete(4, at=9 * DAY), vacuumed, append(1), append(0)) == 0
    assert first(append(4), commit(3, "VACUUM START"), delete(2), append(1)) == 1  # for a week
    assert rules.replacements([restored, append(1), append(0)], 2) == [2]
    fewer = {1: "struct<a:int,b:int>", 2: "struct<a:int>"}
    more = {1: "struct<a:int>", 2: "struct<a:int,b:int>"}
    assert first(restored, append(1), append(0), columns=fewer) == 2
    assert first(restored, append(1), append(0), columns=more) == 0


def test_the_feed_is_not_known_before_what_makes_it_wrong() -> None:
    assert first(append(3), DROPPED, delete(1), append(0)) == 1
    assert first(append(3), DROPPED, append(1), append(0)) == 0
    by_trino = delete(1, engine="trino-476-a")
    assert first(append(2), by_trino, append(0), columns={2: "struct<a:int>"}) == 0
    assert first(append(2), by_trino, append(0), columns={2: "struct<a:timestamp>"}) == 1
    assert first(append(2), delete(1, engine="another"), append(0)) == 1


@given(st.integers(1, 200), st.data())
def test_the_first_readable_version_is_found_by_few_questions(count: int, data: Any) -> None:
    versions = [7 * index for index in range(count)]
    least = data.draw(st.sampled_from(versions))
    asked: list[int] = []

    def is_readable(version: int) -> bool:
        asked.append(version)
        return bool(version >= least)

    assert rules.first_readable(versions, is_readable) == least
    assert len(asked) <= 9
    assert versions[-1] not in asked


OPERATIONS = ["WRITE", "DELETE", "MERGE", "OPTIMIZE", "RESTORE", "CLONE", "ADD COLUMNS"]
OPERATIONS += ["VACUUM START", "SET TBLPROPERTIES", "DROP FEATURE", ""]
HISTORIES = st.lists(
    st.tuples(
        st.sampled_from(OPERATIONS),
        st.sampled_from(
            [{}, {"mode": "Append"}, {"mode": "Overwrite"}, {"featureName": "deletionVectors"}]
        ),
        st.dictionaries(
            st.sampled_from(["numOutputRows", "numDeletedRows", "numTargetRowsUpdated"]),
            st.integers(0, 9).map(str),
        ),
        st.sampled_from([SPARK, DELTA_RS, "trino-476-a", ""]),
    ),
    max_size=8,
)


def made_of(history: list[tuple[Any, ...]]) -> list[Commit]:
    """Return a history after an append, newest first."""
    oldest_first = [append(0)]
    for version, (operation, parameters, metrics, engine) in enumerate(history, 1):
        said = {"parameters": parameters, "metrics": metrics, "engine": engine}
        oldest_first.append(commit(version, operation, **said))
    return oldest_first[::-1]


def _doubt(changes: Range) -> str | None:
    return changes.gap or changes.repartitioned


@given(HISTORIES, st.integers(0, 8))
def test_a_range_is_its_parts_together(history: list[tuple[Any, ...]], cut: int) -> None:
    newest_first = made_of(history)
    last = len(history)
    cut = min(cut, last)
    at = {each.version: {"version": each.version, "at": each.at} for each in newest_first}
    whole = rules.range_of("t", at[0], last, newest_first)
    before = rules.range_of("t", at[0], cut, newest_first)
    after = rules.range_of("t", at[cut], last, newest_first)
    assert whole.versions == before.versions + after.versions
    assert whole.rows == before.rows + after.rows
    assert whole.commits == before.commits + after.commits
    assert whole.inserts_only == (before.inserts_only and after.inserts_only)
    assert whole.replaced == after.replaced + before.replaced
    assert _doubt(whole) or not (_doubt(before) or _doubt(after))


@given(HISTORIES)
def test_from_the_first_known_commit_on_nothing_is_a_gap(history: list[tuple[Any, ...]]) -> None:
    newest_first = made_of(history)
    columns = dict.fromkeys(range(-1, len(history) + 1), "struct<a:int>")
    known = rules.first_known("t", len(history), newest_first, columns)
    noted = {"version": known.version, "at": known.at}
    assert _doubt(rules.range_of("t", noted, len(history), newest_first)) is None


@given(st.integers(0, 4_000_000_000_000))
def test_a_moment_is_read_in_utc(at: int) -> None:
    moment = datetime.fromtimestamp(at / 1000, UTC)
    assert rules.milliseconds(moment) == at
    assert rules.milliseconds(moment.replace(tzinfo=None).isoformat(" ")) == at


def test_a_mapping_is_one_or_json_of_one() -> None:
    assert rules.as_mapping({"a": 1}) == {"a": 1}
    assert rules.as_mapping('{"a": 1}') == {"a": 1}
    for nothing in (None, "", "[1]", "no json", 7):
        assert rules.as_mapping(nothing) == {}


@pytest.mark.parametrize(
    ("newer", "is_there"),
    [
        ([delete(1)], True),
        ([delete(1), commit(2, "VACUUM START")], True),  # retained for a week
        ([delete(1), vacuum(2, "0")], False),
        ([commit(1, "OPTIMIZE"), vacuum(2, "0")], False),
        ([append(1), vacuum(2, "0")], True),
        ([merge(1, "1"), vacuum(2, "0")], False),
        ([merge(1, "0"), vacuum(2, "0")], True),
        ([properties(1), vacuum(2, "0")], True),
        ([delete(1, at=9 * DAY), vacuum(2, "0")], True),  # afterwards
    ],
)
def test_a_version_is_there_unless_a_vacuum_deleted_what_left_the_table_after_it(
    newer: list[Commit], is_there: bool
) -> None:
    commits = [*reversed(newer), append(0)]
    assert rules.retains(commits, 0) is is_there
    assert rules.retains(commits, len(newer))
