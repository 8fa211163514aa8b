"""Files that cannot be read as a whole: damaged, gone, or without permission.

Such a file must not stop the others. It becomes one row of quarantine: reason `malformed`, field
`_source_file`, its path as the record. The checkpoint lists these files before the write to bronze,
so that a repeated batch splits its files in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from headwaters.platform.spark_errors import innermost

FIELD = "_source_file"
# Rows of quarantine that represent a whole file.
IS_FILE = f"reason = 'malformed' and field = '{FIELD}'"
GONE = "is no longer there"
AGAIN = "land it again under another name"
CHANGED = (
    "was written to while it was read, so rows may be missing: land these under another name, and "
    "give a file a name with a dot in front until it is complete"
)

# Errors that a retry may cure, and errors of a contract instead of a file.
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
    """Return the unreadable files with the reason, found by bisection, in addition to `gone`.

    `damaged` recognizes broken files in milliseconds: the bisection of thousands would take an
    hour.
    """
    found = dict(gone)

    def search(files: Sequence[str]) -> None:
        try:
            for frame in read(files):
                frame.write.format("noop").mode("overwrite").save()
        except (PySparkException, Py4JJavaError, OSError) as error:
            reason = str(error) if isinstance(error, OSError) else innermost(error)
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
