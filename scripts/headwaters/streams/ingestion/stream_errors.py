"""An error of a stream, with its code and in one line."""

from __future__ import annotations

import re
from urllib.parse import unquote

from headwaters.platform.delta_version import LOG_DAMAGED, SOURCE_CHANGED
from headwaters.platform.errors import CodedError, WorkError
from headwaters.platform.spark_errors import chain, conditions, innermost, missing_on_executors
from headwaters.platform.spark_version import OFFSETS_LOST
from headwaters.streams.stream import Stream


def coded(stream: Stream, error: BaseException) -> CodedError:
    """Return the error for display: Spark's innermost cause, and the place of the details."""
    if isinstance(error, CodedError):
        return error
    found, said = conditions(error), "\n".join(chain(error))
    text = " ".join(innermost(error).split()) or type(error).__name__

    def shown(line: str) -> str:
        line = line if len(line) <= 400 else line[:400] + "…"
        return f"{line} (more in {stream.local / 'logs' / 'spark.log'})"

    if missing := missing_on_executors(said):
        return WorkError("HW_EXECUTOR_JARS", shown(missing))
    if OFFSETS_LOST in found or "failOnDataLoss" in said:
        line = (
            "records were deleted from the topic (by its retention, or with the topic) before they "
            "were read; with `data_loss: skip` the stream continues after them. " + text
        )
        return WorkError("HW_OFFSETS_LOST", shown(line))
    if found & SOURCE_CHANGED:
        line = (
            "rows of its source were changed or deleted; `on_change: skip` leaves such commits "
            "out, `on_change: ignore` reads again what they wrote, and `from: delta_changes` reads "
            "each change. " + text
        )
        return WorkError("HW_SOURCE_CHANGED", shown(line))
    file = re.search(r"reading file (file:\S+?)\.\s", said)
    if found & LOG_DAMAGED or (file and "/_delta_log/" in file[1]):
        line = (
            "the log of a Delta table is damaged: put its _delta_log back from a copy, "
            "as it was. Nothing was read. "
        )
        return WorkError("HW_TABLE_DAMAGED", shown(line + text))
    if file:
        path = re.sub("^file:/+", "/", unquote(file[1]))
        return WorkError("HW_INPUT_UNREADABLE", shown(f"{path}: {text}"))
    return WorkError("HW_STREAM_FAILED", shown(text))
