"""Test the reduction of a Spark error to one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwaters.platform import dbt_compat
from headwaters.platform.spark_errors import conditions, one_line

ROOT = Path(__file__).resolve().parents[2]
CLASSIC = """[TABLE_OR_VIEW_NOT_FOUND] There is no `a`. SQLSTATE: 42P01; line 1 pos 14;
'Project [*]
+- 'UnresolvedRelation [a], [], false
"""
JOB = """An error occurred while calling o53.sql.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 \
times, most recent failure: Lost task 0.0 in stage 1.0 (TID 1) (host executor driver): \
java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
Driver stacktrace:
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
"""
CONNECT = """(org.apache.spark.SparkException) Job aborted due to stage failure: Task 0 in stage \
9.0 failed 1 times, most recent failure: Lost task 0.0 in stage 9.0 (TID 9) (host executor \
driver): org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] row 0 SQLSTATE: P0001

JVM stacktrace:
org.apache.spark.SparkException
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:1)
"""
WRITE = """[TASK_WRITE_FAILED] Task failed while writing rows to file:/lake/a. SQLSTATE: 58030

JVM stacktrace:
org.apache.spark.SparkException
\tat org.apache.spark.scheduler.Task.run(Task.scala:1)
Caused by: org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] row 0 SQLSTATE: P0001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.raiseError(QueryExecutionErrors.scala:1)
"""
# What S3A says of a request that the store answers with 403.
DENIED = """An error occurred while calling o53.sql.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to \
s3a://b/lake/a. SQLSTATE: 58030
Caused by: java.nio.file.AccessDeniedException: lake/a/1.parquet: Writing Object on \
lake/a/1.parquet: software.amazon.awssdk.services.s3.model.S3Exception: Access Denied (Service: \
S3, Status Code: 403, Request ID: 1) (SDK Attempt Count: 1):AccessDenied
"""
DENIED_SCHEMA = """[UNEXPECTED] org.apache.hadoop.hive.ql.metadata.HiveException: MetaException(\
message:Got exception: java.nio.file.AccessDeniedException s3a://b/lake/a.db: PUT 0-byte object \
on s3a://b/lake/a.db: software.amazon.awssdk.services.s3.model.S3Exception: (Service: S3, Status \
Code: 403, Request ID: null):AccessDenied)
"""
DELTA = "org.apache.spark.sql.delta.stats.DeltaJobStatisticsTracker"
GRPC = """<_MultiThreadedRendezvous of RPC that terminated with:
\tstatus = StatusCode.UNAUTHENTICATED
\tdetails = "No authentication token provided"
\tdebug_error_string = "UNAUTHENTICATED:No authentication token provided"
>
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            CLASSIC,
            "[TABLE_OR_VIEW_NOT_FOUND] There is no `a`. SQLSTATE: 42P01; line 1 pos 14",
        ),
        (JOB, "No space left on device"),
        (
            "(java.lang.RuntimeException) Unable to instantiate org.apache.hadoop.hive.ql.metadata."
            "SessionHiveMetaStoreClient",
            "the Hive metastore of this Spark does not answer: start it again, for a service of "
            "this lake by `headwaters metastore serve` or `headwaters platform start`",
        ),
        (
            JOB.replace("IOException: No space left on device", f"ClassNotFoundException: {DELTA}"),
            f"[HW_EXECUTOR_JARS] an executor has no class {DELTA}: the Spark of a worker lacks jars"
            " that its driver has. Copy Delta's jars into its jars folder, or name them in "
            "spark.jars",
        ),
        (
            "[INTERNAL_ERROR] No active or default Spark session found SQLSTATE: XX000",
            "[HW_PURGE_ON_EXECUTORS] Delta removes deletion vectors (`reorg table … apply (purge)`)"
            " only where Spark's driver runs the tasks: do this by a target with spark.master: "
            "local[*] on the same lake and metastore",
        ),
        (CONNECT, "[USER_RAISED_EXCEPTION] row 0 SQLSTATE: P0001"),
        (
            DENIED,
            "[HW_STORE_READ_ONLY] these keys may not write to s3a://b/lake/a/1.parquet: permit it, "
            "or name another prefix (Access Denied)",
        ),
        (
            DENIED_SCHEMA,
            "[HW_STORE_READ_ONLY] these keys may not write to s3a://b/lake/a.db: permit it, or "
            "name another prefix (AccessDenied)",
        ),
        (
            "java.nio.file.AccessDeniedException: s3a://b/a: getFileStatus on s3a://b/a: "
            "software.amazon.awssdk.services.s3.model.S3Exception: (Service: S3, Status Code: 403):"
            "AccessDenied",
            "s3a://b/a: getFileStatus on s3a://b/a: software.amazon.awssdk.services.s3.model."
            "S3Exception: (Service: S3, Status Code: 403):AccessDenied",
        ),
        (GRPC, "No authentication token provided"),
        (WRITE, "[USER_RAISED_EXCEPTION] row 0 SQLSTATE: P0001"),
        ("java.net.ConnectException: Connection refused", "Connection refused"),
        (
            "[USER_RAISED_EXCEPTION] k has a value that Delta cannot keep in a partition column: x",
            "[HW_PARTITION_VALUE] [USER_RAISED_EXCEPTION] k has a value that Delta cannot keep in "
            "a partition column: x",
        ),
        (
            "[DELTA_CONCURRENT_APPEND.WITHOUT_HINT] Transaction conflict detected. SQLSTATE: 2D521",
            "[HW_CONCURRENT_RUN] another writer changed the table at the same time, so this "
            "statement wrote nothing: run it again [DELTA_CONCURRENT_APPEND]",
        ),
        ("", "RuntimeError"),
    ],
)
def test_the_line_is_what_happened(text: str, line: str) -> None:
    assert one_line(RuntimeError(text)) == line


def test_conditions_are_those_of_the_error_and_of_what_it_says() -> None:
    said = "[STREAM_FAILED] Query terminated: [DELTA_SOURCE_IGNORE_DELETE] Detected deleted data"
    assert conditions(RuntimeError(said)) == {"STREAM_FAILED", "DELTA_SOURCE_IGNORE_DELETE"}
    classed = "[KAFKA_DATA_LOSS.INITIAL_OFFSET_NOT_FOUND_FOR_PARTITION] Some data may be lost"
    assert "KAFKA_DATA_LOSS" in conditions(RuntimeError(classed))
    assert conditions(RuntimeError("nothing [of] Spark's")) == set()


def test_an_error_of_a_macro_is_one_line_below_one_heading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "dbt_project.yml": 'name: shop\nversion: "1.0"\nprofile: headwaters\n',
        "macros/inner.sql": (
            "{% macro inner() %}{{ hw_raise('HW_ARGUMENT', 'wrong thing') }}{% endmacro %}"
        ),
        "macros/outer.sql": "{% macro outer() %}{{ inner() }}{% endmacro %}",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    options = ["--no-use-colors", "--profiles-dir", str(ROOT / "profiles")]
    errors: list[str] = []

    def listen(event: Any) -> None:
        if event.info.level == "error":
            errors.append(event.info.msg)

    arguments = ["run-operation", "outer", *options]
    assert not dbt_compat.run(arguments, listen=listen).success
    assert errors == [
        "Encountered an error while running operation: Compilation Error\n"
        "  [HW_ARGUMENT] wrong thing"
    ]
