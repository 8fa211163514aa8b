"""Spark's errors for a person: one line, without plans, stacks and Java names.

A statement's error is shown by its own text, because Spark Connect delivers nothing else. A
stream's is shown by its innermost cause, because Spark wraps it in the state of the query.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from headwaters.platform.delta_version import (
    CONFLICT_CONDITION,
    METADATA_CHANGED,
    PURGE_ON_EXECUTORS,
)
from headwaters.platform.errors import CodedError, WorkError
from headwaters.platform.spark_version import NO_SUCH_TABLE, RAISED, WRAPPING_ERRORS
from headwaters.platform.store_check import StoreError, refusal

# If two runs of a model overlap, the later one drops the staging table of the other, which can no
# longer write. It also changes the table's metadata, so that a concurrent write fails.
_SUPERSEDED = re.compile(
    rf"\[(?:{'|'.join(map(re.escape, NO_SUCH_TABLE))})\].*__stage_\d{{12}}_"
    rf"|\[?{METADATA_CHANGED}\b"
)

# A text that a statement raises, with the code of its cause. Tables note the SQL that built them,
# so a code in the SQL itself would rebuild them.
_RAISED = (
    ("that Delta cannot keep in a partition column", "HW_PARTITION_VALUE"),
    (f"[{RAISED}] the seed ", "HW_SEED"),
)

# Classes of the jars that headwaters adds to a Spark. Without them, a driver could not plan.
_OF_JARS = re.compile(
    r"(?:ClassNotFoundException|NoClassDefFoundError): "
    r"((?:org\.apache\.spark\.sql\.delta|io\.delta|headwaters\.delta"
    r"|org\.apache\.hadoop\.fs\.s3a)\.[\w.$]+)"
)
# Java's error for a function of such a class, if the executor lacks the class.
_OF_FUNCTIONS = "cannot assign instance of java.lang.invoke.SerializedLambda to field"

# S3A's error of a write that the store refuses. The place is often a key without its bucket.
_DENIED = re.compile(
    r"AccessDeniedException:? (.+?): "
    r"(?:writing|put|initiate|upload|complet|delet|bulkdelete|mkdir|create|copy|rename)"
    r".*?S3Exception: (.*?) ?\(Service: S3, Status Code: 403.*:AccessDenied",
    flags=re.IGNORECASE,
)

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")


def one_line(error: BaseException) -> str:
    """Return the one-line error of a statement."""
    text = str(error)
    if _SUPERSEDED.search(text):
        return (
            "[HW_CONCURRENT_RUN] another run of the model, or an ALTER TABLE, came in between, so "
            "this run wrote nothing. Run one dbt at a time for a model, and run this one again."
        )
    if re.search(r"Unable to instantiate [\w.]*SessionHiveMetaStoreClient", text):
        return (
            "the Hive metastore of this Spark does not answer: start it again, for a service of "
            "this lake by `headwaters metastore serve` or `headwaters platform start`"
        )
    if missing := missing_on_executors(text):
        return f"[HW_EXECUTOR_JARS] {missing}"
    if denied := _denied_write(text):
        return str(denied)
    if PURGE_ON_EXECUTORS in text:
        return str(
            WorkError(
                "HW_PURGE_ON_EXECUTORS",
                "Delta removes deletion vectors (`reorg table … apply (purge)`) only where Spark's "
                "driver runs the tasks: do this by a target with spark.master: local[*] on the "
                "same lake and metastore",
            )
        )
    if conflict := re.search(CONFLICT_CONDITION, text):
        return (
            "[HW_CONCURRENT_RUN] another writer changed the table at the same time, so this "
            f"statement wrote nothing: run it again [{conflict[1]}]"
        )
    causes = re.findall(r"^Caused by: (?:[\w.$]+: )?(.+)$", text, flags=re.MULTILINE)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    line = lines[0]
    if line.startswith(WRAPPING_ERRORS) and len(lines) > 1:
        line = causes[-1] if causes else lines[1]
    if refused := re.search(r'^\s*details = "(.+)"$', text, flags=re.MULTILINE):
        return refused[1]  # gRPC's own error
    line = re.sub(r"^(?:: )?(?:\([\w.$]+\) |[\w.$]+(?:Exception|Error): )", "", line)
    # A failed job names its task's error last: "… (TID 3) (host executor driver): class: text"
    task = re.search(r"\(TID \d+\) \([^)]*\): (?:[\w.$]+: )?(.+)", line)
    line = (task.group(1) if task else line).rstrip(";")
    code = next((f"[{code}] " for words, code in _RAISED if words in line), "")
    return f"{code}{line}"


def _denied_write(text: str) -> CodedError | None:
    """Return the error of keys that a store does not let write, or None."""
    found = _DENIED.search(text)
    if found is None:
        return None
    place, first = found[1], re.escape(found[1].split("/")[0])
    bucket = re.search(rf"s3a://[^/\s]+/(?={first}/)", text)
    place = place if "://" in place or bucket is None else bucket[0] + place
    return refusal(place, StoreError("AccessDenied", found[2] or "AccessDenied"), is_write=True)


def missing_on_executors(text: str) -> str | None:
    """Return the problem of executors that lack jars which the driver has, or None."""
    found = _OF_JARS.search(text.replace("/", "."))
    if not found and _OF_FUNCTIONS not in text:
        return None
    lacks = f"an executor has no class {found[1]}: " if found else ""
    return (
        f"{lacks}the Spark of a worker lacks jars that its driver has. Copy Delta's jars into its "
        "jars folder, or name them in spark.jars"
    )


def is_unavailable(error: BaseException) -> bool:
    """Return true if a Spark Connect server was unreachable after all retries."""
    status = getattr(error, "getGrpcStatusCode", lambda: None)()
    return getattr(status, "name", None) == "UNAVAILABLE"


def innermost(error: BaseException) -> str:
    """Return all lines of an error's innermost cause."""
    causes = list(_java(error))
    return str(causes[-1].getMessage() or causes[-1].toString()) if causes else str(error)


def conditions(error: BaseException) -> set[str]:
    """Return the error conditions in an error and its causes, such as `A.B`.

    A condition with a part counts without it as well: `A.B` as `A`.
    """
    named = {name for message in chain(error) for name in _CONDITION.findall(message)}
    with contextlib.suppress(Exception):  # it queries Java, which may have ended
        if own := getattr(error, "getCondition", lambda: None)():
            named.add(own)
    return named | {name.split(".")[0] for name in named}


def chain(error: BaseException) -> list[str]:
    """Return the texts of an error and its causes, the innermost last."""
    return [str(error), *(str(java.getMessage()) for java in _java(error))]


def _java(error: BaseException) -> Iterator[Any]:
    """Yield the Java exceptions behind an error, the innermost last; Spark Connect has none."""
    java = getattr(error, "java_exception", None)
    while java is not None:
        yield java
        java = java.getCause()
