"""Files of JSON lines, the format of Delta's log and Structured Streaming's checkpoint."""

from __future__ import annotations

from headwaters.platform.places import Place


def lines(file: Place) -> list[str]:
    """Return the lines of a UTF-8 file, without empty ones.

    `str.splitlines` also ends a line at U+0085, U+2028 and others, which JSON may contain
    unescaped.
    """
    return [line for line in file.read_bytes().decode().split("\n") if line]
