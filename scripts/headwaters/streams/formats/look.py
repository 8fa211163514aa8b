"""A check of files' first bytes, which finds files of another form than declared.

Without it, each line of an indented array would be a record. Most would be malformed, and some,
such as a lone object, would become rows of bronze. It runs before a batch is read, without Spark.
"""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Callable
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast

from headwaters.platform.places import Place

FIRST, MOST = 4096, 64 * 1024  # bytes: enough for most files, and the limit for any file
LONGEST = 128 * 1024 * 1024  # bytes of a file whose lines are checked
LARGEST = 512 * 1024 * 1024  # bytes of a file that is read as a whole
MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_RAW = "or declare format: raw, which reads a file as one record"
_LINES = "and a record of format: json is a line"
_OTHER = {
    b"PAR1": "is Parquet: declare format: parquet",
    b"Obj\x01": "is Avro: declare format: avro",
    b"ORC": "is ORC: land it as Parquet, or as text",
    b"PK\x03\x04": "is a zip archive: land what is in it",
    b"\x1f\x8b": "is compressed by gzip: give it a name that ends with .gz",
    b"BZh": "is compressed by bzip2: give it a name that ends with .bz2",
    b"\x28\xb5\x2f\xfd": "is compressed by zstd: give it a name that ends with .zst",
}
_ARRAY = f"looks like one JSON array, {_LINES}: declare layout: array, {_RAW}"
_INDENTED = f"looks like indented JSON, {_LINES}: declare layout: object, {_RAW}"
_NO_ARRAY = "looks like JSON objects without an array around them: declare layout: lines or object"
_AN_ARRAY = "looks like one JSON array: declare layout: array"
_XML = f"looks like XML or HTML: land JSON, one object a line, {_RAW}"
_OPEN: dict[str, Callable[[Any], object]] = {".gz": gzip.open, ".bz2": bz2.open}
_UNKNOWN = (".zst", ".lz4", ".snappy", ".deflate", ".xz")  # the name hides the contents


def long_line(file: Place) -> str | None:
    """Return the problem of a file with a line that Spark's memory may not hold, or None.

    Only a large file is looked at, at a few places: each finds the next end of a line. A compressed
    file is not.
    """
    if file.suffix.lower() in (*_OPEN, *_UNKNOWN) or file.stat().st_size < LONGEST:
        return None
    with file.open("rb") as opened:
        for start in range(0, file.stat().st_size - LONGEST // 2, LONGEST // 2):
            opened.seek(start)
            for _ in range(LONGEST // 2 // MOST):
                piece = opened.read(MOST)
                if b"\n" in piece or b"\r" in piece or not piece:
                    break
            else:
                return f"has a line of more than {LONGEST >> 21} MB: land it as several records"
    return None


def too_large(file: Place) -> str | None:
    """Return the problem of a file that is larger than what is read as a whole, or None."""
    if not file.exists() or file.stat().st_size <= LARGEST:
        return None
    said = f"is larger than {LARGEST >> 20} MB, which is read into memory as a whole"
    return f"{said}: land it in parts, or as lines"


def hidden(file: Place) -> str | None:
    """Return the problem of a file whose name hides its contents, or None."""
    if file.suffix.lower() not in _UNKNOWN:
        return None
    return f"ends with {file.suffix}, which this stream cannot open: land it as .gz"


def other_form(
    file: Place, of_text: Callable[[bytes, bool], str | None], lines: bool = True
) -> str | None:
    """Return the actual form of a file that is not text, and the remedy; None if it is text.

    `of_text` gets the first bytes of text, and whether these are all of it. With `lines`, a line of
    JSON at the beginning is enough. For an unreadable file, Spark reports the error.
    """
    try:
        if hidden(file):
            return None
        if lines and (problem := long_line(file)):
            return problem
        with open_file(file) as opened:
            data = opened.read(FIRST)
            if found := _other_format(data):
                return found
            if lines and data[:1] == b"{" and data.partition(b"\n")[0].rstrip().endswith(b"}"):
                return None  # a line of JSON, like most files
            data += opened.read(MOST - len(data)) if len(data) == FIRST else b""
            return of_text(data, len(data) < MOST)
    except (OSError, EOFError, ValueError):
        return None


def open_file(file: Place) -> BufferedIOBase:
    """Open a file, decompressed by the ending of its name."""
    if unpack := _OPEN.get(file.suffix.lower()):
        return cast(BufferedIOBase, unpack(file if isinstance(file, Path) else file.open()))
    return file.open("rb")


def _other_format(data: bytes) -> str | None:
    return next((what for magic, what in _OTHER.items() if data.startswith(magic)), None)


def utf_16(data: bytes) -> str | None:
    """Return the encoding of UTF-16 or UTF-32 that the first bytes indicate, or None."""
    if data.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "UTF-32"
    half = len(data) // 2
    high, low = (data[at : half * 2 : 2].count(0) == half for at in (0, 1))
    if data.startswith(b"\xff\xfe") or (half and low and not high):
        return "UTF-16LE"
    return "UTF-16BE" if data.startswith(b"\xfe\xff") or (half and high and not low) else None


def fits_encoding(declared: str, data: bytes) -> bool:
    """Return true unless the first bytes indicate another encoding than the declared one."""
    found, declared = utf_16(data), declared.upper()
    if declared == "UTF-16":  # without a byte order mark, Java takes the big end first
        return found in (None, "UTF-16BE") or (found == "UTF-16LE" and data[:2] == b"\xff\xfe")
    return found is None or found == declared or not declared.startswith("UTF-")


def json_lines(data: bytes, is_all: bool) -> str | None:
    """Return the actual form of a text that is not lines of JSON, or None."""
    if encoding := utf_16(data):
        return f"is {encoding}, and JSON is read as UTF-8: land it as UTF-8"
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").lstrip()
    line, broken, after = text.partition("\n")
    if text.startswith("{"):
        return _INDENTED if _is_indented(text, line.strip(), bool(broken)) else None
    if text.startswith("["):
        return _ARRAY if _is_array(text, line, after, is_all) else None
    if text.startswith("<"):
        objects = (other.startswith("{") for other in map(str.lstrip, after.split("\n")))
        return None if any(objects) else _XML
    return None


def json_documents(layout: str) -> Callable[[bytes, bool], str | None]:
    """Return the function that returns the actual form of a text that has not this layout."""

    def of_text(data: bytes, _: bool) -> str | None:
        text = data.decode(json.detect_encoding(data), "replace").lstrip()
        if text.startswith("<"):
            return _XML
        if layout == "array":
            return _NO_ARRAY if text.startswith("{") else None
        return _AN_ARRAY if text.startswith("[") else None

    return of_text


def _is_indented(text: str, line: str, broken: bool) -> bool:
    """Return whether the first object of a text ends after the first line."""
    if not broken or line.endswith("}"):
        return False
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError as error:
        # parsing got past the second line; in lines of JSON, it cannot get past the first
        second = text.find("\n", text.find("\n") + 1)
        return line == "{" or 0 < second < error.pos
    except RecursionError:
        return False
    return isinstance(value, dict) and "\n" in text[:end]


def _is_array(text: str, line: str, after: str, is_all: bool) -> bool:
    """Return whether a text is one array, and not lines that start with an array."""
    if line.strip() == "[":
        return True
    try:
        whole = isinstance(json.loads(line), list)
    except (json.JSONDecodeError, RecursionError):
        whole = False
    if whole:
        return not after.strip()
    rest = text[1:].lstrip()
    try:
        _, end = json.JSONDecoder().raw_decode(rest)
    except (json.JSONDecodeError, RecursionError):
        return not is_all and rest[:1] in ("{", "[", '"')
    return rest[end:].lstrip()[:1] in (",", "]")
