"""Test that a file in another form than its contract's is one quarantined record."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ingestion import Ingester, audit, node

from headwaters.streams.contract import parse_contract
from headwaters.streams.formats import look
from headwaters.streams.formats.csv import Csv
from headwaters.streams.formats.registry import format_of

OBJECTS = [{"id": number, "text": "a\nb [ {"} for number in range(3)]
LARGE = [{"id": number, "text": "x" * 3000} for number in range(100)]
ARRAYS = {
    "smallest": '[\n{"sku": 7}\n]\n',
    "indented": json.dumps(OBJECTS, indent=2),
    "one line": json.dumps(OBJECTS),
    "an object a line": "[" + ",\n".join(map(json.dumps, OBJECTS)) + "]",
    "blank first": "\n  \n" + json.dumps(OBJECTS, indent=1),
    "large": json.dumps(LARGE),
    "large and indented": json.dumps(LARGE, indent=4),
    "a large element": json.dumps([{"text": "x" * 200_000}], indent=1),
    "empty": "[]",
    "with a byte order mark": "\ufeff" + json.dumps(OBJECTS),
    "single quotes": "[\n{'sku': 7}\n]",
}
INDENTED = {
    "one": json.dumps(OBJECTS[0], indent=2),
    "several": "\n".join(json.dumps(one, indent=2) for one in OBJECTS),
    "large": json.dumps({"items": LARGE}, indent=2),
    "first field beside the brace": '{"id": 1,\n "text": "x"}\n',
    "large beside the brace": '{"id": 1,\n' + json.dumps({"items": LARGE}, indent=2)[1:],
}
LINES = {
    "lines": "\n".join(map(json.dumps, OBJECTS)),
    "large lines": "\n".join(map(json.dumps, LARGE)),
    "a large line": json.dumps({"items": LARGE}),
    "concatenated": "".join(map(json.dumps, OBJECTS)),
    "a bad array among objects": '[1, 2]\n{"id": 1}\n',
    "a log line first": '[INFO] begin\n{"id": 1}\n',
    "a moment first": '[2026-01-01] begin\n{"id": 1}\n',
    "a cut line first": '{"id": 1,\n{"id": 2}\n{"id": 3}\n',
    "a cut text first": '{"id": "a\n{"id": 2}\n{"id": 3}\n',
    "an arrow first": '<- begin\n{"id": 1}\n',
    "blank": "\n\n",
    "nothing": "",
    "words": "one\ntwo\n",
}


def told(folder: Path, data: str | bytes, name: str = "a.json") -> str | None:
    file = folder / name
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    return look.other_form(file, look.json_lines)


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_is_told_from_lines(tmp_path: Path, name: str) -> None:
    said = told(tmp_path, ARRAYS[name])
    assert said is not None and said.startswith("looks like one JSON array, and a record of ")
    assert "format: raw" in said
    packed = gzip.compress(ARRAYS[name].encode())
    assert told(tmp_path, packed, "b.json.gz") == said
    assert str(told(tmp_path, packed, "c.json")).startswith("is compressed by gzip")


@pytest.mark.parametrize("name", INDENTED)
def test_indented_objects_are_told_from_lines(tmp_path: Path, name: str) -> None:
    assert str(told(tmp_path, INDENTED[name])).startswith("looks like indented JSON, ")


@pytest.mark.parametrize("name", LINES)
def test_lines_are_lines_whatever_they_hold(tmp_path: Path, name: str) -> None:
    assert told(tmp_path, LINES[name]) is None


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_are_named(tmp_path: Path, encoding: str) -> None:
    said = str(told(tmp_path, LINES["lines"].encode(encoding)))
    assert said.startswith("is UTF-32" if encoding == "utf-32" else "is UTF-16")


FIELDS = st.text(
    st.sampled_from('a",\n\r é') | st.characters(exclude_categories=["Cs"]), max_size=5
)


@given(
    rows=st.lists(st.tuples(FIELDS, FIELDS), max_size=5),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    inches=st.booleans(),
)
def test_a_file_with_closed_quotes_ends_outside_of_them(
    rows: list[tuple[str, str]], quoting: Any, inches: bool
) -> None:
    table = format_of(parse_contract(node({"a": "string", "b": "string"}, {"format": "csv"})))
    assert isinstance(table, Csv)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "a.csv"
        with file.open("w", newline="", encoding="utf-8") as opened:
            opened.write('a,b\n5" disk,x\n' if inches else "a,b\n")
            csv.writer(opened, quoting=quoting).writerows(rows)
        assert table.other_form(file) is None
        if inches:  # the number of quotes is even with one that is open
            return
        with file.open("a", newline="", encoding="utf-8") as opened:
            opened.write('c,"d\ne,f\n')
        assert str(table.other_form(file)).startswith("ends inside of quotes: the row in line ")


def sparse(file: Path, *ends: int) -> Path:
    """Write a file of zeros with line breaks at some places; it takes no room on the disk."""
    with file.open("wb") as opened:
        opened.write(b'{"id": 1}\n')
        for end in ends:
            opened.seek(end)
            opened.write(b"\n")
    return file


def test_a_line_that_memory_may_not_hold_is_told_without_reading_it(tmp_path: Path) -> None:
    half, gigabyte = look.LONGEST // 2, 2**30
    said = "has a line of more than 64 MB: land it as several records"
    for ends in [[2 * gigabyte], [half, 2 * half, 5 * half], [half + 10, 2 * gigabyte]]:
        assert look.long_line(sparse(tmp_path / "a.json", *ends)) == said
    for ends in [list(range(half // 2, 5 * half, half // 2)), [look.LONGEST - 2]]:
        assert look.long_line(sparse(tmp_path / "a.json", *ends)) is None
    file = sparse(tmp_path / "a.json", 2 * gigabyte)
    assert look.other_form(file, look.json_lines) == said
    assert str(look.too_large(file)).startswith("is larger than 512 MB, which is read into memory")


def test_a_file_of_another_form_is_one_row_of_quarantine_and_none_of_bronze(
    ingester: Ingester,
) -> None:
    lines, table = node({"id": "int"}), node({"id": "int"}, {"format": "csv"}, "tables")
    ingester.land("array.json", ARRAYS["smallest"])
    ingester.land("indented.json", INDENTED["several"])
    ingester.land("lines.json", '{"id": 1}', "[1]", '[{"id": 5}]', '\0\0\0\0*{"id": 6}')
    ingester.land("rows.csv", "id", "1", stream="tables")
    ingester.land("utf-16.csv", "id\n2".encode("utf-16"), stream="tables")
    ingester.land("parquet.csv", b"PAR1", stream="tables")
    first, second = ingester.run(lines, table)
    assert first == "orders  1 rows, 5 quarantined (malformed 3, malformed _source_file 2)"
    assert second == "tables  1 rows, 2 quarantined (malformed _source_file 2)"
    assert ingester.rows("orders", "id, _rescued") == [[1, None]]
    assert ingester.rows("tables", "id") == [[1]]
    found = {record: message for _, _, message, record in ingester.quarantine()}
    assert found["landing/orders/array.json"].startswith("looks like one JSON array, ")
    assert found["landing/orders/array.json"].endswith("; land it again under another name")
    assert found["landing/orders/indented.json"].startswith("looks like indented JSON, ")
    assert found["[1]"] == found['[{"id": 5}]']
    assert found["[1]"].startswith("is a JSON array, and not one object")
    assert found['\0\0\0\0*{"id": 6}'].startswith("begins with a zero byte, as what is sent with ")
    assert {
        record: message.split(":")[0] for _, _, message, record in ingester.quarantine("tables")
    } == {
        "landing/tables/parquet.csv": "is Parquet",
        "landing/tables/utf-16.csv": "is UTF-16LE",
    }
    assert audit(ingester, lines) == ["orders: 6 read = 1 bronze + 5 quarantined: right"]
    assert ingester.run(lines) == ["orders  nothing new"]
