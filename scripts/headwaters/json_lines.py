"""Files of JSON lines, as Delta's log and Structured Streaming's checkpoint are."""

from __future__ import annotations

from pathlib import Path


def lines(file: Path) -> list[str]:
    """The lines of a file, without those that are empty; the encoding is UTF-8 everywhere.

    `str.splitlines` also ends a line at U+0085, U+2028 and others, which JSON may hold unescaped.
    """
    return [line for line in file.read_bytes().decode().split("\n") if line]
