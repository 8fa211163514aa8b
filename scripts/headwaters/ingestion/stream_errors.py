"""What an error of a stream says, in one line."""

from __future__ import annotations

import re
from urllib.parse import unquote

from headwaters.errors import UserError, WorkError
from headwaters.ingestion.stream import Stream
from headwaters.spark_errors import chain, conditions, innermost


def one_line(stream: Stream, error: BaseException) -> str:
    """The line of an error that matters: the innermost cause, and where the rest is."""
    if isinstance(error, UserError | WorkError):
        return str(error)
    found, said = conditions(error), "\n".join(chain(error))
    text = " ".join(innermost(error).split())
    if "KAFKA_DATA_LOSS" in found or "failOnDataLoss" in said:
        text = (
            "records were deleted from the topic (by its retention, or with the topic) before they "
            "were read; with `data_loss: skip` the stream continues after them. " + text
        )
    if found & {"DELTA_SOURCE_TABLE_IGNORE_CHANGES", "DELTA_SOURCE_IGNORE_DELETE"}:
        text = (
            "rows of its source were changed or deleted; `on_change: skip` leaves such commits "
            "out, `on_change: ignore` reads again what they wrote, and `from: delta_changes` reads "
            "each change. " + text
        )
    if file := re.search(r"reading file (file:\S+?)\.\s", said):
        text = re.sub("^file:/+", "/", unquote(file[1])) + f": {text}"
    shown = text if len(text) <= 400 else text[:400] + "…"
    return f"{shown or type(error).__name__} (more in {stream.lake / 'logs' / 'spark.log'})"
