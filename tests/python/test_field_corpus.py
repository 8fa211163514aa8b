"""Test a corpus of small files and events as many programs write them, in one ingestion.

`tests/data/field/` has texts: a stream with its columns, and for each file the rows of bronze that
are right and the beginning of the reason for each refused record. `PROGRAMS` and `WORKBOOKS` have
the files that other programs write in the test, `CHANGES` those of a real PostgreSQL. No record may
become another value without a word.
"""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

import pyarrow as pa
import pytest
import yaml
from field_postgres import CHANGES
from field_programs import PROGRAMS
from field_workbooks import WORKBOOKS
from ingestion import Ingester, Node, node

CORPUS = Path(__file__).resolve().parents[1] / "data" / "field"


@dataclass(frozen=True)
class Landed:
    """A file of one stream, and what ingestion must make of it."""

    stream: str
    title: str
    name: str
    content: bytes | Callable[[Path], object]
    rows: list[list[Any]]
    refused: list[str]

    @property
    def place(self) -> str:
        return f"landing/{self.stream}/{self.name}"


PACKERS: Mapping[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bz2": bz2.compress,
    "zstd": pa.Codec("zstd").compress,
}


def content(file: Mapping[str, Any]) -> bytes:
    """Return the bytes of a file of the corpus: one text, or the members of an archive."""
    texts = file.get("texts") or [file["text"]]
    parts = [text.encode(file.get("encoding", "utf-8")) for text in texts]
    if packed := file.get("packed"):
        parts = [bytes(PACKERS[packed](part)) for part in parts]
    whole = b"".join(parts)
    return whole[: file.get("cut", len(whole))]


def declared(stream: Mapping[str, Any]) -> Node:
    """Return the source of a stream of the corpus."""
    columns = {
        n: c if isinstance(c, dict) else {"data_type": c} for n, c in stream["columns"].items()
    }
    types = {name: column["data_type"] for name, column in columns.items()}
    found = node(types, stream.get("declared"), stream["stream"], None, stream.get("computed"))
    for name, column in columns.items():
        if "from" in column:
            found["columns"][name]["config"]["meta"]["from"] = column["from"]
        if "check" in column:
            check = {"type": "check", "expression": column["check"]}
            found["columns"][name]["constraints"] = [check]
    return found


STREAMS: list[Mapping[str, Any]] = [
    *(
        stream
        for file in sorted(CORPUS.glob("*.yml"))
        for stream in yaml.safe_load(file.read_text())
    ),
    *PROGRAMS,
    *CHANGES,
    *WORKBOOKS,
]


STOPPED = [stream for stream in STREAMS if "stops" in stream]


def landed_files() -> list[Landed]:
    found = []
    for stream in STREAMS:
        ending = "." + stream.get("declared", {}).get("format", "json")
        for number, (title, file) in enumerate(stream["files"].items()):
            written = file["write"] if "write" in file else content(file)
            name = f"{number}{file.get('ending', ending)}"
            right = file["rows"], file.get("refused", [])
            found.append(Landed(stream["stream"], title, name, written, *right))
    return found


FILES = landed_files()
READ = [file for file in FILES if file.stream not in {stream["stream"] for stream in STOPPED}]


@dataclass(frozen=True)
class Results:
    """The rows and the reasons of every file, by its path in the lake."""

    rows: Mapping[str, list[list[Any]]]
    refused: Mapping[str, list[str]]
    failed: list[str]


@pytest.fixture(scope="module")
def results(worker: Popen[str], tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Ingest the whole corpus once."""
    ingester = Ingester(worker, tmp_path_factory.mktemp("corpus") / "the läke")
    for file in FILES:
        path = ingester.land(file.name, stream=file.stream)
        if callable(file.content):
            file.content(path)
        else:
            path.write_bytes(file.content)
    printed = ingester.run(*map(declared, STREAMS), code=1)
    failed = [line for line in printed if "failed" in line]
    assert [line.split()[0] for line in failed] == [stream["stream"] for stream in STOPPED], failed
    rows: dict[str, list[list[Any]]] = {}
    refused: dict[str, list[str]] = {}
    for stream in STREAMS:
        if stream in STOPPED:
            continue
        select = stream.get("select") or ", ".join(stream["columns"])
        name = stream["stream"]
        for place, *row in ingester.rows(name, f"_source_file, {select}", "_source_file"):
            rows.setdefault(place, []).append(row)
        for place, message in ingester.rows(f"{name}_quarantine", "_source_file, message"):
            refused.setdefault(place, []).append(message)
    return Results(rows, refused, failed)


@pytest.mark.slow  # 370 files by one ingestion take some minutes
@pytest.mark.parametrize("file", READ, ids=lambda file: f"{file.stream}: {file.title}")
def test_a_file_of_the_corpus_is_right_or_refused_by_name(results: Results, file: Landed) -> None:
    def text(rows: list[list[Any]]) -> list[str]:
        return sorted(json.dumps(row, ensure_ascii=False, default=str) for row in rows)

    left = list(results.refused.get(file.place, []))
    missing = []
    for reason in file.refused:
        found = next((message for message in left if message.startswith(reason)), None)
        missing.append(reason) if found is None else left.remove(found)
    assert text(results.rows.get(file.place, [])) == text(file.rows), (missing, left)
    assert (missing, left) == ([], [])


@pytest.mark.slow
@pytest.mark.parametrize("stream", STOPPED, ids=lambda stream: next(iter(stream["files"])))
def test_a_file_with_another_header_stops_its_stream(
    results: Results, stream: Mapping[str, Any]
) -> None:
    (line,) = [line for line in results.failed if line.startswith(stream["stream"])]
    assert stream["stops"] in line


def test_the_corpus_has_at_least_150_files() -> None:
    assert len(FILES) >= 150
