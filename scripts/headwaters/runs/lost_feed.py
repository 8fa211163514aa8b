"""The causes of errors that mean a lost change feed."""

from __future__ import annotations

import re

from headwaters.platform.delta_version import (
    COMMIT_INCOMPLETE,
    COMMITS_LOST,
    FEED_INCOMPATIBLE,
    FEED_OFF,
    FILES_LOST,
)

# The guard of the macro `hw_text_guard` found U+FFFD. Delta substitutes it for bytes that are not
# UTF-8, so that the keys would differ from the table's. The table may also contain it.
NOT_UTF8 = "it has U+FFFD in place of bytes that are not UTF-8"

# Each cause, with the errors of Delta, Spark and file systems that indicate it.
_CAUSES = (
    ("HW_NOT_UTF8", NOT_UTF8),
    (FEED_OFF, "it was off in between"),
    (FEED_INCOMPATIBLE, "columns changed in between"),
    (COMMITS_LOST, "its commits are no longer retained"),
    (COMMIT_INCOMPLETE, "a commit does not describe its files"),
    (FILES_LOST, "files of it are missing or damaged"),
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
