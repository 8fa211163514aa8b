"""Files of JSON that are one array, or objects over several lines: their records as texts.

Python's parser only finds the ends of the records, whose texts stay unchanged. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Literal

Layout = Literal["lines", "array", "object"]
_DECODER = json.JSONDecoder(strict=False)
_BLANK = re.compile(r"[\s\x1e]*")  # \x1e separates the records of a JSON text sequence


def records(data: bytes, layout: Layout) -> list[bytes]:
    """Return the records of a file, as UTF-8.

    If parsing fails, the rest of the file is the last record, and malformed.
    """
    encoding = json.detect_encoding(data)
    errors = "surrogateescape" if encoding.startswith("utf-8") else "surrogatepass"
    try:
        text = data.decode(encoding, errors)
    except UnicodeDecodeError:
        return [data]
    found = _elements(text) if layout == "array" else _values(text)
    return [record.encode("utf-8", errors) for record in found]


def _values(text: str) -> Iterator[str]:
    """Return the values of a text, one after the other."""
    at = _skip(text, 0)
    while at < len(text):
        end = _end(text, at) or len(text)
        yield text[at:end]
        at = _skip(text, end)


def _elements(text: str) -> Iterator[str]:
    """Return the elements of an array. Text that is not part of it is one more record."""
    at = _skip(text, 0)
    if text[at : at + 1] != "[":
        yield from filter(None, [text[at:]])
        return
    at = _skip(text, at + 1)
    while text[at : at + 1] != "]":
        if not (end := _end(text, at)):
            yield text[at:] or "the array has no end"
            return
        yield text[at:end]
        at = _skip(text, end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != "]":
            yield text[at:] or "the array has no end"
            return
    yield from filter(None, [text[at + 1 :].strip()])


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _end(text: str, at: int) -> int | None:
    """Return the end of the value at a position, or None without one."""
    try:
        return _DECODER.raw_decode(text, at)[1]
    except (json.JSONDecodeError, RecursionError):
        return None
