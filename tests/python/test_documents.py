"""Test the records of whole files of JSON, and the forms and encodings that a look finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwaters.streams.formats import look
from headwaters.streams.formats.documents import Layout, records

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(max_examples=50)
@given(st.lists(VALUES, max_size=4), st.sampled_from([None, 2]), st.booleans())
def test_each_record_of_a_file_keeps_its_text(
    values: list[Any], indent: int | None, escaped: bool
) -> None:
    texts = [json.dumps(value, indent=indent, ensure_ascii=escaped) for value in values]
    wanted = [text.encode("utf-8", "surrogatepass") for text in texts]
    array = f"[{' , '.join(texts)} ]".encode("utf-8", "surrogatepass")
    in_a_row = "\n\x1e".join(texts).encode("utf-8", "surrogatepass")
    assert records(array, "array") == wanted
    assert records(in_a_row, "object") == wanted


@pytest.mark.parametrize(
    ("data", "layout", "found"),
    [
        (b'[{"a": 1.10},\n {"b":"\xff"} , 3]\n', "array", [b'{"a": 1.10}', b'{"b":"\xff"}', b"3"]),
        (b" [ ] ", "array", []),
        (b"", "array", []),
        (b"", "object", []),
        (b'{"a":1}', "array", [b'{"a":1}']),
        (b"[1", "array", [b"1", b"the array has no end"]),
        (b'[{"a":1},{"b"', "array", [b'{"a":1}', b'{"b"']),
        (b"[1] x", "array", [b"1", b"x"]),
        (b"[1] [2]", "array", [b"1", b"[2]"]),
        (b"[1,,2]", "array", [b"1", b",2]"]),
        (b"[1 2]", "array", [b"1", b"2]"]),
        (b'{"a":"\n"} x {"b":2}', "object", [b'{"a":"\n"}', b'x {"b":2}']),
        (b"[" * 100_000, "array", [b"[" * 99_999]),
        ('[{"é":1}]'.encode("utf-16"), "array", ['{"é":1}'.encode()]),
        ('[{"é":1}]'.encode("utf-16-be"), "array", ['{"é":1}'.encode()]),
        (b"\xff\xfe[\x00]", "array", [b"\xff\xfe[\x00]"]),
    ],
)
def test_text_that_is_no_record_is_one(data: bytes, layout: Layout, found: list[bytes]) -> None:
    assert records(data, layout) == found


@pytest.mark.parametrize(
    ("data", "layout", "problem"),
    [
        (b'[{"id":1}]', "array", None),
        (b'{"id":1}\n{"id":2}\n', "array", "looks like JSON objects without an array around them"),
        (b'{"id":1}\n{"id":2}\n', "object", None),
        (b'\n[{"id":1}]', "object", "looks like one JSON array: declare layout: array"),
        ("[1]".encode("utf-16-le"), "object", "looks like one JSON array: declare layout: array"),
        (b"<html>", "array", "looks like XML or HTML"),
        (b"PAR1", "array", "is Parquet"),
    ],
)
def test_a_file_of_another_layout_is_named(
    tmp_path: Path, data: bytes, layout: str, problem: str | None
) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(data)
    found = look.other_form(file, look.json_documents(layout), lines=False)
    assert found is None if problem is None else str(found).startswith(problem)


@pytest.mark.parametrize(
    ("data", "fitting"),
    [
        ("id\n".encode("utf-16-le"), {"utf-16le"}),
        ("id\n".encode("utf-16-be"), {"utf-16", "utf-16be"}),
        (b"\xff\xfe" + "id\n".encode("utf-16-le"), {"utf-16", "utf-16le"}),
        (b"\xfe\xff" + "id\n".encode("utf-16-be"), {"utf-16", "utf-16be"}),
        ("id\n".encode("utf-32"), {"utf-32"}),
        (b"id\n", {"utf-16", "utf-16le", "utf-16be", "utf-32", "utf-8"}),
    ],
)
def test_an_encoding_fits_the_first_bytes(data: bytes, fitting: set[str]) -> None:
    declared = ("utf-16", "utf-16le", "utf-16be", "utf-32", "utf-8")
    assert {name for name in declared if look.fits_encoding(name, data)} == fitting
    assert look.fits_encoding("Windows-1252", data)
