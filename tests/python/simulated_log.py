"""Write the log of a large Delta table without its data, and count the work of reading it."""

from __future__ import annotations

import contextlib
import json
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

FIELDS = [{"name": f"c{n}", "type": "long", "nullable": True, "metadata": {}} for n in range(20)]
METADATA = {
    "id": "simulated",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": json.dumps({"type": "struct", "fields": FIELDS}),
    "partitionColumns": [],
    "configuration": {"delta.enableChangeDataFeed": "true"},
}
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 4}
ROWS, SIZE = 10_000, 128 * 1024 * 1024
_BATCH = 100_000


def write(table: Path, versions: int, files: int, kept: int, after: int = 5) -> None:
    """Write a log of so many versions and data files, of which the last `kept` are still there.

    The checkpoint is `after` versions before the newest one. Each commit adds a file.
    """
    log = table / "_delta_log"
    log.mkdir(parents=True)
    newest = versions - 1
    _write_checkpoint(log / f"{newest - after:020}.checkpoint.parquet", files - after)
    last = {"version": newest - after, "size": files - after + 2}
    (log / "_last_checkpoint").write_text(json.dumps(last))
    for version in range(versions - kept, versions):
        info = {
            "timestamp": 1_700_000_000_000 + version * 60_000,
            "operation": "WRITE",
            "operationParameters": {"mode": "Append", "partitionBy": "[]"},
            "operationMetrics": {"numFiles": "1", "numOutputRows": str(ROWS)},
            "engineInfo": "Apache-Spark/4.2.0 Delta-Lake/4.4.0",
            "isBlindAppend": True,
        }
        add = {"path": name(version), "size": SIZE, "dataChange": True, "stats": stats()}
        text = json.dumps({"commitInfo": info}) + "\n" + json.dumps({"add": add}) + "\n"
        (log / f"{version:020}.json").write_text(text)


def name(number: int) -> str:
    """Return the path of a data file, as long as those of Spark."""
    return f"part-00000-{number * 2_654_435_761 % 2**64:016x}-{number:016x}-c000.snappy.parquet"


def stats() -> str:
    """Return the statistics of a data file: its rows, and the bounds of one column."""
    return json.dumps({"numRecords": ROWS, "minValues": {"c0": 0}, "maxValues": {"c0": ROWS}})


def _write_checkpoint(file: Path, files: int) -> None:
    add = pa.struct(
        [
            ("path", pa.string()),
            ("size", pa.int64()),
            ("stats", pa.string()),
            ("dataChange", pa.bool_()),
            ("deletionVector", pa.struct([("storageType", pa.string()), ("offset", pa.int32())])),
        ]
    )
    text = pa.struct([("provider", pa.string()), ("options", pa.map_(pa.string(), pa.string()))])
    metadata = pa.struct(
        [
            ("id", pa.string()),
            ("format", text),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", pa.map_(pa.string(), pa.string())),
        ]
    )
    protocol = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])
    domain = pa.struct([("domain", pa.string()), ("configuration", pa.string())])
    schema = pa.schema(
        {"add": add, "metaData": metadata, "protocol": protocol, "domainMetadata": domain}
    )
    with parquet.ParquetWriter(file, schema, compression="snappy") as writer:
        first: list[dict[str, Any]] = [{"protocol": PROTOCOL}, {"metaData": METADATA}]
        writer.write_table(pa.Table.from_pylist(first, schema))
        shared = stats()
        for start in range(0, files, _BATCH):
            numbers = range(start, min(start + _BATCH, files))
            adds = [
                {"path": name(-number - 1), "size": SIZE, "stats": shared, "dataChange": True}
                for number in numbers
            ]
            rows = [{"add": one} for one in adds]
            writer.write_table(pa.Table.from_pylist(rows, schema))


@dataclass
class Work:
    """The work of a call: files opened, bytes read, CPU seconds, MiB of memory at most."""

    opened: int = 0
    read: int = 0
    cpu: float = 0.0
    peak: int = 0


_counting: list[tuple[str, Work]] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _counting and str(arguments[0]).startswith(_counting[0][0]):
        _counting[0][1].opened += 1


sys.addaudithook(_audit)


@contextlib.contextmanager
def counted(table: Path) -> Iterator[Work]:
    """Count the work on a table's files inside the block.

    Files that pyarrow opens are not counted as opened; their bytes are.
    """
    work, before, began = Work(), _read_so_far(), time.process_time()
    _counting.append((str(table), work))
    try:
        yield work
    finally:
        _counting.clear()
        work.read, work.cpu = _read_so_far() - before, time.process_time() - began
        work.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _read_so_far() -> int:
    counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counters["rchar"])
