"""What an error of a stream says, in one line."""

from __future__ import annotations

import re
from urllib.parse import unquote

from headwaters.errors import UserError, WorkError
from headwaters.ingestion.stream import Stream


def one_line(stream: Stream, error: BaseException) -> str:
    """The line of an error that matters: the innermost cause, and where the rest is."""
    if isinstance(error, UserError | WorkError):
        return str(error)
    java = getattr(error, "java_exception", None)
    chain = str(error)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
        chain += str(java.getMessage())
    text = " ".join(str(error if java is None else java.getMessage()).split())
    if "failOnDataLoss" in chain or "KAFKA_DATA_LOSS" in chain:
        text = (
            "records were deleted from the topic (by its retention, or with the topic) before they "
            "were read; with `data_loss: skip` the stream goes on after them. " + text
        )
    if "DELTA_SOURCE_TABLE_IGNORE_CHANGES" in text or "DELTA_SOURCE_IGNORE_DELETE" in text:
        text = (
            "rows of its source were changed or deleted; `on_change: skip` leaves such commits "
            "out, `on_change: ignore` reads again what they wrote, and `from: delta_changes` reads "
            "each change. " + text
        )
    if file := re.search(r"reading file (file:\S+?)\.\s", chain):
        text = re.sub("^file:/+", "/", unquote(file[1])) + f": {text}"
    shown = text if len(text) <= 400 else text[:400] + "…"
    return f"{shown or type(error).__name__} (more in {stream.lake / 'logs' / 'spark.log'})"
