"""Test that a bad file, name or time never keeps other files' records from bronze."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ingestion import Ingester, audit, node, wait_for

from headwaters.platform.checkpoint import landed
from headwaters.platform.errors import WorkError

PARQUET = node({"id": "int", "note": "string"}, {"format": "parquet"})


def whole_files(ingester: Ingester) -> list[list[Any]]:
    """Return record and message of each row of quarantine that stands for a file."""
    rows = ingester.quarantine()
    assert {(reason, field) for reason, field, _, _ in rows} <= {("malformed", "_source_file")}
    return [[record.removeprefix("landing/orders/"), message] for _, _, message, record in rows]


def write(file: Path, ids: list[int], **columns: list[Any]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int32()), **columns}), file)
    return file


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:100])


def damage_pages(file: Path) -> None:
    data = bytearray(file.read_bytes())
    for place in range(4, 60):
        data[place] ^= 0x5A
    file.write_bytes(data)


def test_a_file_that_cannot_be_read_is_a_row_of_quarantine_and_the_others_go_to_bronze(
    ingester: Ingester,
) -> None:
    folder = ingester.lake / "landing" / "orders"
    write(folder / "good.parquet", [1])
    write(folder / "_metadata", [1])
    cut(write(folder / "cut [1].parquet", [2]))
    noise = random.Random(1)
    texts = [noise.randbytes(10).hex() for _ in range(5000)]
    damage_pages(write(folder / "pages.parquet", list(range(5000)), note=texts))
    write(folder / "twice.parquet", [4], ID=[4])
    (line,) = ingester.run(PARQUET)
    assert line == "orders  1 rows, 3 quarantined (malformed _source_file 3)"
    assert ingester.rows("orders", "id") == [[1]]
    (first, cut_said), (second, _), (third, twice_said) = whole_files(ingester)
    assert [first, second, third] == ["cut [1].parquet", "pages.parquet", "twice.parquet"]
    assert cut_said.startswith("cannot be read: ") and "is not a Parquet file" in cut_said
    assert cut_said.endswith(": land it again under another name")
    assert "id" in twice_said
    (folder / "cut [1].parquet").unlink()  # as a person would
    write(folder / "later.parquet", [5])
    assert ingester.run(PARQUET) == ["orders  1 rows"]
    assert ingester.run(PARQUET) == ["orders  nothing new"]
    assert ingester.rows("orders", "id") == [[1], [5]]
    assert audit(ingester, PARQUET)[0].endswith(": right")
    request = {"lake": str(ingester.lake), "replay": [PARQUET], "dry_run": False}
    assert ingester.ask(**request) == {"orders": [0, {"malformed _source_file": 3}]}

    strict = node({"id": "int", "note": "string"}, {"format": "parquet", "bad_records": "fail"})
    write(folder / "last.parquet", [6])
    cut(write(folder / "strict.parquet", [7]))
    (line,) = ingester.run(strict, code=1)
    assert line.startswith(
        "orders  failed: [HW_BAD_RECORD] landing/orders/strict.parquet cannot be read: "
    )
    assert line.endswith("; nothing of its batch is kept")


def test_a_file_that_grows_while_it_is_read_is_told(ingester: Ingester) -> None:
    declared, file = node({"id": "int"}), ingester.land("a.jsonl", '{"id": 1}')
    ingester.land("b.jsonl", '{"id": 2}')
    pause = ingester.lake.with_name("pause")
    with ingester.running(declared, every=0.3, pause_before=str(pause)) as metrics:
        wait_for(pause.exists)
        with file.open("a") as opened:
            opened.write('{"id": 3}\n')
        pause.unlink()
        wait_for(lambda: metrics().get('batches_total{stream="orders"}') == 1)
    assert ingester.rows("orders", "id") in ([[1], [2]], [[1], [2], [3]])
    ((reason, field, message, record),) = ingester.quarantine()
    assert (reason, field, record) == ("malformed", None, "landing/orders/a.jsonl")
    assert message.startswith("was written to while it was read, so rows may be missing: land ")
    assert ingester.run(declared) == ["orders  nothing new"]


def test_csv_is_replayed_by_the_columns_with_which_it_was_kept(ingester: Ingester) -> None:
    names = ["id", "a", "b"]
    check = {"id": [{"type": "check", "expression": "id > 1"}]}

    def stream(*columns: str, rules: Any = None) -> dict[str, Any]:
        types = {name: "int" if name == "id" else "string" for name in columns}
        return node(types, {"format": "csv"}, rules=rules)

    folder = ingester.lake / "landing" / "orders"
    folder.mkdir(parents=True)
    (folder / "1.csv").write_text("id,a,b\n1,a1,b1\n2,a2,b2\n")
    ingester.run(stream(*names, rules=check))
    (folder / "2.csv").write_text("id,b,a\n0,b0,a0\n3,b3,a3\n")
    ingester.run(stream("id", "b", "a", rules=check))
    request = {"lake": str(ingester.lake), "dry_run": False}
    more = stream("id", "b", "a", "c")
    assert ingester.ask(**request, replay=[more]) == {"orders": [0, {"malformed": 2}]}
    assert ingester.ask(**request, replay=[stream("id", "b", "a")]) == {"orders": [2, {}]}
    assert ingester.rows("orders", "id, a, b", order="id") == [
        [number, f"a{number}", f"b{number}"] for number in range(4)
    ]


def test_bytes_and_short_numbers_come_back_from_quarantine(ingester: Ingester) -> None:
    columns = {"id": "int", "word": "string", "number": "double"}
    check = {"id": [{"type": "check", "expression": "id = 0"}]}
    strict, loose = (node(columns, {"format": "parquet"}, rules=of) for of in (check, None))
    (ingester.lake / "landing" / "orders").mkdir(parents=True)
    table = pa.table(
        {
            "id": pa.array([1], pa.int32()),
            "word": pa.array([b"x"]),
            "number": pa.array([0.1], pa.float32()),
        }
    )
    pq.write_table(table, ingester.lake / "landing" / "orders" / "a.parquet")
    assert ingester.run(strict) == ["orders  0 rows, 1 quarantined (check id 1)"]
    request = {"lake": str(ingester.lake), "replay": [loose], "dry_run": False}
    assert ingester.ask(**request) == {"orders": [1, {}]}
    assert ingester.rows("orders", "id, word, number") == [[1, "x", 0.10000000149011612]]


def test_a_value_that_a_type_changes_is_not_replayed_into_it(ingester: Ingester) -> None:
    given: dict[str, tuple[pa.DataType, str, Any, Any]] = {
        "at": (pa.int64(), "timestamp", None, 1_770_091_506),
        "amount": (pa.float64(), "decimal(10, 2)", 19.99, 0.505),
        "ratio": (pa.int64(), "double", 2**53, 2**53 + 1),
        "share": (
            pa.decimal128(20, 2),
            "double",
            Decimal("0.10"),
            Decimal("123456789012345678.91"),
        ),
        "ok": (pa.int64(), "boolean", None, 1),
        "whole": (pa.bool_(), "int", None, True),
    }
    rows: list[dict[str, Any]] = [{name: one[2] for name, one in given.items()}]
    rows += [{name: one[3]} for name, one in given.items()]
    table = {name: pa.array([row.get(name) for row in rows], one[0]) for name, one in given.items()}
    folder = ingester.lake / "landing" / "orders"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"id": range(len(rows)), **table}), folder / "a.parquet")
    columns = {name: one[1] for name, one in given.items()}

    def stream(**more: Any) -> dict[str, Any]:
        return node({"id": "int", **columns}, {"format": "parquet"}, **more)

    ingester.run(stream(rules={"id": [{"type": "check", "expression": "id <> 0"}]}))
    assert ingester.rows("orders", "id") == []
    refused = {f"type {name}": 1 for name in given}
    request = {"lake": str(ingester.lake), "replay": [stream()], "dry_run": False}
    assert ingester.ask(**request) == {"orders": [1, refused]}
    row = [[0, None, "19.99", 2.0**53, 0.1, None, None]]
    assert ingester.rows("orders", ", ".join(["id", *given])) == row


@pytest.mark.slow
@pytest.mark.parametrize("point", ["orders", "orders_quarantine"])
def test_files_are_read_once_whatever_becomes_of_them_after_a_kill(
    ingester: Ingester, point: str
) -> None:
    folder = ingester.lake / "landing" / "orders"
    write(folder / "good.parquet", [1])
    write(folder / "removed.parquet", [2])
    cut(write(folder / "repaired.parquet", [3]))
    (line,) = ingester.run(PARQUET, code=1, die_before=point)
    assert "failed" in line
    (folder / "removed.parquet").unlink()
    write(folder / "repaired.parquet", [3])
    write(folder / "later.parquet", [4])
    ingester.run(PARQUET)
    removed = "is no longer there: land it again under another name"
    if point == "orders":  # the batch wrote nothing, so the next one reads the present file
        assert ingester.rows("orders", "id") == [[1], [3], [4]]
        assert whole_files(ingester) == [["removed.parquet", removed]]
    else:  # bronze has the readable records, and quarantine gets the rest
        assert ingester.rows("orders", "id") == [[1], [2], [4]]
        found = whole_files(ingester)
        assert [name for name, _ in found] == ["removed.parquet", "repaired.parquet"]
        assert "is not a Parquet file" in found[1][1]
    assert ingester.run(PARQUET) == ["orders  nothing new"]


@pytest.mark.slow
def test_text_in_files_with_odd_names_times_and_contents_is_read_or_named(
    ingester: Ingester,
) -> None:
    lines = node({"id": "string"})
    times = {"1904.jsonl": -2_082_844_800, "2300.jsonl": 10_413_792_000, "now.jsonl": None}
    for name, time in times.items():
        file = ingester.land(name, json.dumps({"id": name}))
        if time is not None:
            os.utime(file, (time, time))
    for name in ("2026-11-23T10:00:00.jsonl", "_a=b.jsonl", "a:b/c:d.jsonl", "_tmp.jsonl"):
        ingester.land(name, json.dumps({"id": name}))
    noise = random.Random(1).randbytes(50_000)
    ingester.land("cut.jsonl.gz").write_bytes(gzip.compress(noise)[:25_000])
    linked = ingester.lake / "elsewhere"
    linked.mkdir()
    (linked / "linked.jsonl").write_text(json.dumps({"id": "linked"}) + "\n")
    (ingester.lake / "landing" / "orders" / "link").symlink_to(linked)
    ingester.run(lines)
    expected = [*times, "2026-11-23T10:00:00.jsonl", "_a=b.jsonl", "a:b/c:d.jsonl"]
    expected += ["linked"]
    assert ingester.rows("orders", "id") == sorted([name] for name in expected)
    ((name, said),) = whole_files(ingester)
    assert (name, said.split(":")[0]) == ("cut.jsonl.gz", "cannot be read")
    assert ingester.run(lines) == ["orders  nothing new"]
    # without a damaged file next to it, which would make Spark read all others by name
    ingester.land("2026-11-24T10:00:00.jsonl", json.dumps({"id": "later"}))
    assert ingester.run(lines) == ["orders  1 rows"]


@pytest.mark.slow
def test_a_row_of_very_many_fields_is_malformed_and_its_neighbours_are_read(
    ingester: Ingester,
) -> None:
    stream = node({"id": "int", "note": "string"}, {"format": "csv"})
    ingester.land("wide.csv", "id,note", "1,a", "," * 30_000, "2,b")
    ingester.land("wider.csv", "id,note", "3,c", "," * 300_000, "4,d")
    ingester.land("good.csv", "id,note", "5,e")
    ingester.run(stream)
    assert ingester.rows("orders", "id, note") == [[1, "a"], [2, "b"], [5, "e"]]
    found = ingester.rows(
        "orders_quarantine", "reason, field, length(record), _source_file", "_source_file"
    )
    path = "landing/orders/wider.csv"
    assert found == [
        ["malformed", None, 30_000, "landing/orders/wide.csv"],
        ["malformed", "_source_file", len(path), path],
    ]
    assert ingester.run(stream) == ["orders  nothing new"]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder that every user may read, unlike those of pytest."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_folder_that_may_not_be_read_is_named_and_links_are_followed(open_folder: Path) -> None:
    folder = open_folder / "landing"
    for name in ("a.jsonl", ".hidden/x", "_tmp/x", "_metadata.json", "deep/_x=1/b", "c._COPYING_"):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (open_folder / "other").mkdir()
    (open_folder / "other" / "o").touch()
    (folder / "link").symlink_to(open_folder / "other")
    (folder / "deep" / "around").symlink_to(folder)
    (folder / "broken").symlink_to(open_folder / "nowhere")
    names = [str(file).removeprefix(f"{folder}/") for file in landed(folder)]
    assert names == ["a.jsonl", "deep/_x=1/b", "link/o"]
    # other users may read the rest, under any umask
    for found in (folder, *(place for place in folder.rglob("*") if place.is_dir())):
        found.chmod(0o755)
    private = folder / "private"
    private.mkdir(mode=0o000)
    root = os.geteuid() == 0  # may read everything
    try:
        if root:
            os.seteuid(65534)
        with pytest.raises(WorkError, match=f"{private} cannot be read .Permission denied.: let"):
            landed(folder)
    finally:
        if root:
            os.seteuid(0)
        private.chmod(0o700)


def test_a_name_that_is_not_utf_8_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    (tmp_path / os.fsdecode(b"lat\xe9.jsonl")).touch()
    with pytest.raises(WorkError, match=r"lat\\xe9.jsonl: the name is not UTF-8, and Spark would"):
        landed(tmp_path)
