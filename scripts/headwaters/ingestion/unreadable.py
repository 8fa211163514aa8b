"""Files that cannot be read as a whole: damaged, gone, or not for this user.

Such a file must not stop the others. It is one row of quarantine: reason `malformed`, field
`_source_file`, its path as the record. Which files of a batch these are is written into the
checkpoint before bronze gets its part, so that a batch that runs again splits them as before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwaters.contract import Contract
from headwaters.sources.base import read_by_name

if TYPE_CHECKING:
    from headwaters.ingestion.run import Stream

FIELD = "_source_file"
# Rows of quarantine that stand for a whole file.
IS_FILE = f"reason = 'malformed' and field = '{FIELD}'"
GONE = "is no longer there"

# What another attempt may survive, and what is wrong with a contract instead of with a file.
_NOT_THE_FILE = re.compile(
    "Too many open files|No space left|File too large|OutOfMemory|heap space|Interrupted"
    "|Input/output error|Stale file handle|SparkContext|cancelled"
    "|CSV header does not conform|Number of column in CSV header"
)


def gone(stream: Stream, number: int) -> dict[str, str]:
    """The files of a batch that were removed before it was read, as URIs, and that."""
    if stream.contract.stream.source != "files":
        return {}
    files = stream.checkpoint.taken(number)
    return {file: GONE for file in files if not Path(file.removeprefix("file://")).exists()}


def find(
    spark: Any, stream: Stream, contract: Contract, number: int, known: Mapping[str, str]
) -> dict[str, str]:
    """The files of a batch that Spark cannot read, as URIs, and why; found by halves.

    Files that are `known` are left out. Empty where nothing is wrong with a file: what failed then
    failed for another reason.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if stream.contract.stream.source != "files":
        return {}
    found = {file: why for file, why in gone(stream, number).items() if file not in known}

    def search(files: Sequence[str]) -> None:
        try:
            for frame in read_by_name(spark, stream, contract, files):
                frame.write.format("noop").mode("overwrite").save()
        except (PySparkException, Py4JJavaError) as error:
            reason = cause(error)
            if _NOT_THE_FILE.search(reason):
                return
            if len(files) == 1:
                found[files[0]] = f"cannot be read: {_short(reason)}"
            else:
                search(files[: len(files) // 2])
                search(files[len(files) // 2 :])

    left = [file for file in stream.checkpoint.taken(number) if file not in {*known, *found}]
    if contract.stream.format == "parquet":  # halves of thousands of files would take an hour
        for file in filter(_bad_footer, left):
            search([file])
    if left and not found:
        search(left)
    return found


def _bad_footer(file: str) -> bool:
    """Whether a Parquet file has no footer, or one with a name twice; told in milliseconds."""
    from pyarrow import ArrowException, parquet

    try:
        names = [name.lower() for name in parquet.read_schema(file.removeprefix("file://")).names]
    except (ArrowException, OSError):
        return True
    return len(names) != len(set(names))


def cause(error: BaseException) -> str:
    """The innermost cause of an error of Spark."""
    java = getattr(error, "java_exception", None)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    return str(error if java is None else java.getMessage() or java.toString())


def _short(reason: str) -> str:
    text = " ".join(reason.split())
    return text if len(text) <= 200 else text[:200] + "…"


def rows(spark: Any, stream: Stream, contract: Contract, files: Mapping[str, str]) -> Any:
    """The files in the form that `records.parse` gives: records that are not good."""
    from pyspark.sql import functions as F

    from headwaters.formats.base import PLACE, problem_of

    named = [(file.removeprefix(f"file://{stream.lake}/"), why) for file, why in files.items()]
    frame = spark.createDataFrame(named, "_source_file string, why string")
    said = F.concat("why", F.lit(": land it again under another name"))
    return frame.select(
        *[F.lit(None).cast(c.data_type).alias(c.name) for c in contract.columns],
        "_source_file",
        F.lit(0).cast("bigint").alias(PLACE),
        F.col("_source_file").cast("binary").alias("_raw"),
        F.lit(None).cast("string").alias("_rescued"),
        F.lit(False).alias("_good"),
        problem_of("malformed", F.lit(FIELD), said).alias("_bad"),
    )
