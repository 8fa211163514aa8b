"""Files that cannot be read as a whole: damaged, gone, or not for this user.

Such a file must not stop the others. It is one row of quarantine: reason `malformed`, field
`_source_file`, its path as the record. Which files of a batch these are is written into the
checkpoint before bronze gets its part, so that a batch that runs again splits them as before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from headwaters.spark_errors import innermost

FIELD = "_source_file"
# Rows of quarantine that stand for a whole file.
IS_FILE = f"reason = 'malformed' and field = '{FIELD}'"
GONE = "is no longer there"
AGAIN = "land it again under another name"

# What another attempt may survive, and what is wrong with a contract instead of with a file.
_NOT_THE_FILE = re.compile(
    "Too many open files|No space left|File too large|OutOfMemory|heap space|Interrupted"
    "|Input/output error|Stale file handle|SparkContext|cancelled"
    "|CSV header does not conform|Number of column in CSV header"
)


def find(
    read: Callable[[Sequence[str]], list[DataFrame]],
    files: Sequence[str],
    gone: Mapping[str, str],
    damaged: Callable[[str], bool],
) -> dict[str, str]:
    """Those of some files that cannot be read, and why; found by halves, besides those `gone`.

    `damaged` tells files that cannot be right in milliseconds: halves of thousands of files would
    take an hour.
    """
    found = dict(gone)

    def search(files: Sequence[str]) -> None:
        try:
            for frame in read(files):
                frame.write.format("noop").mode("overwrite").save()
        except (PySparkException, Py4JJavaError) as error:
            reason = innermost(error)
            if _NOT_THE_FILE.search(reason):
                return
            if len(files) == 1:
                found[files[0]] = f"cannot be read: {_short(reason)}: {AGAIN}"
            else:
                search(files[: len(files) // 2])
                search(files[len(files) // 2 :])

    for file in filter(damaged, files):
        search([file])
    if files and not found:
        search(files)
    return found


def _short(reason: str) -> str:
    text = " ".join(reason.split())
    return text if len(text) <= 200 else text[:200] + "…"
