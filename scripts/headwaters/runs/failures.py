"""The causes of errors that mean a lost change feed."""

from __future__ import annotations

import re

# The guard of the macro `hw_text_guard` found U+FFFD. Delta substitutes it for bytes that are not
# UTF-8, so that the keys would differ from the table's. The table may also contain it.
NOT_UTF8 = "it has U+FFFD in place of bytes that are not UTF-8"

# Each cause, with the errors of Delta, Spark and file systems that indicate it.
_CAUSES = (
    ("HW_NOT_UTF8", NOT_UTF8),
    (r"DELTA_MISSING_CHANGE_DATA", "it was off in between"),
    (r"DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_\w+", "columns changed in between"),
    (
        r"DELTA_(?:LOG_FILE_NOT_FOUND|TRUNCATED_TRANSACTION_LOG|VERSIONS?_NOT_\w+"
        r"|STATE_RECOVER_ERROR|CDC_START_VERSION_AFTER_LATEST|INVALID_CDC_RANGE)",
        "its commits are no longer retained",
    ),
    (r"DELTA_REMOVE_FILE_CDC_MISSING_EXTENDED_METADATA", "a commit does not describe its files"),
    (
        r"FAILED_READ_FILE|DELTA_FILE_NOT_FOUND|DELTA_FILE_OR_DIR_NOT_FOUND|CANNOT_READ_FILE_FOOTER"
        r"|DELTA_DELETION_VECTOR_\w+_MISMATCH|FileNotFoundException|NoSuchFileException",
        "files of it are missing or damaged",
    ),
)


def lost_feed(error: BaseException) -> str | None:
    """Return the reason that a change feed cannot be read, by an error and its causes, or None."""
    text = "\n".join(_texts(error))
    for pattern, cause in _CAUSES:
        if re.search(rf"\b(?:{pattern})\b", text):
            return cause
    return None


def _texts(error: BaseException | None) -> list[str]:
    texts: list[str] = []
    while error is not None and len(texts) < 20:
        texts.append(str(error))
        error = error.__cause__ or error.__context__
    return texts
