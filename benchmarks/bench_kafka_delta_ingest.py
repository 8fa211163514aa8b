"""Kafka into Delta by two programs: kafka-delta-ingest (Rust), and `headwaters ingest`

Both read a topic of 2 million JSON records of about 200 bytes in 3 partitions, from their start as
a new process until every record is in the table or in that of the bad records. The first one adds
the offset to each row, headwaters its lineage. In `1 % malformed` every hundredth record ends after
100 bytes, and the topic has a twentieth of the records. `memory` is the largest resident memory of
all processes.

Two measurements follow: a record's time from its creation to the commit, while 1,000 records arrive
in a second, and a topic that is read while the program is killed ten times.

KAFKA_DELTA_INGEST is the path of the first program. Without it nothing runs, and the results of an
earlier run stay.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count, takewhile
from pathlib import Path
from typing import Any, Literal

import yaml

from benchmarks.runner import ROOT, Bench, cpu_of, dbt_project, descendants
from headwaters.devkit import broker as brokers
from headwaters.devkit.samples.send import make_topic, send
from headwaters.platform.json_lines import lines
from headwaters.platform.project import Project

NOTES = """
kafka-delta-ingest 0.4.0 was built from its source by `cargo build --release`, without a store's
feature and without link-time optimisation. It flushes each 10 s in the first two cases, each second
for the latency, and each 2 s while it is killed. With 1 s it did not finish the clean topic: a
commit took longer than that, so the next record was already due, and was written alone to a file.

A new process of headwaters takes about 20 s and 30 CPU seconds before its first batch; they are in
its figures. It then reads the clean topic faster, and with less CPU for both together: 31 CPU
seconds per million records against 38. One malformed record in a hundred costs it little: each
batch has one commit for its quarantine; kafka-delta-ingest commits each bad record by itself, and
reads 444 records a second instead of 40,000. A record of the right form whose amount is a text,
which is a row of quarantine here, ends its process.

kafka-delta-ingest is faster for few records: half of them are in the table after 0.5 s instead of
3.0 s, 95 % after 1.0 s instead of 6.2 s, and its process has a ninth of the memory. It writes a
file from its own buffer; each batch of headwaters is planned by Spark, which takes a second on this
machine, and reads the records again if one is bad. Less would need a writer outside of Spark, which
had to repeat the types, formats, evolution and lineage of ingestion.

Neither lost or repeated a record in ten kills. Other work ran at the same time, so their times
mean nothing.
"""

RECORDS = int(os.environ.get("HEADWATERS_BENCH_RECORDS", "2000000"))
SECONDS = int(os.environ.get("HEADWATERS_BENCH_SECONDS", "60"))  # of the latency's measurement
KILLS = int(os.environ.get("HEADWATERS_BENCH_KILLS", "10"))
RATE = 1000  # records per second of the latency's measurement
COLUMNS = {
    "id": "bigint",
    "created": "bigint",  # milliseconds since 1970
    "account_id": "string",
    "amount": "decimal(18, 2)",
    "currency": "string",
    "transaction_type": "string",
    "merchant_id": "string",
    "category": "string",
}
Tool = Literal["kafka-delta-ingest", "headwaters"]
TOOLS: tuple[Tool, ...] = ("kafka-delta-ingest", "headwaters")


@dataclass(frozen=True)
class Work:
    """A topic, its tool, the command that reads it, and the two tables that the command fills."""

    topic: str
    tool: Tool
    command: list[str]
    folder: Path
    table: Path
    bad: Path
    variables: dict[str, str]


def run(bench: Bench) -> None:
    """Run one broker, and a new process and table for each measurement."""
    program = os.environ.get("KAFKA_DELTA_INGEST")
    if not program:
        print("  not run: KAFKA_DELTA_INGEST is not set; earlier results stay", file=sys.stderr)
        return
    os.environ["HEADWATERS_LAKE"] = str(bench.work / "broker")
    project = Project(ROOT)
    broker = brokers.start(project)
    try:
        for topic, case, bad_every, number in (
            ("clean", "clean", 0, RECORDS),
            ("malformed", "1 % malformed", 100, RECORDS // 20),
        ):
            make_topic(broker.servers, topic, 3)
            send(broker.servers, topic, _records(bad_every, limit=number))
            for tool in TOOLS:
                work = _work(bench, program, broker.servers, topic, tool, 10)
                _whole(bench, case, work, number)
        for tool in TOOLS:
            _latency(
                bench, _work(bench, program, broker.servers, f"slow_{tool[0]}", tool, 1), broker
            )
        for tool in TOOLS:
            _kills(
                bench, _work(bench, program, broker.servers, f"killed_{tool[0]}", tool, 2), broker
            )
    finally:
        brokers.stop(project.local)


def _whole(bench: Bench, case: str, work: Work, number: int) -> None:
    """Measure one process from its start until it has written all records of the topic."""
    begun = time.monotonic()
    with _running(work) as process:
        while _rows(work.table) + _rows(work.bad) < number:
            assert process.poll() is None, _output(work)
            time.sleep(0.1)
        wall = time.monotonic() - begun
        pids = [process.pid, *descendants(process.pid)]
        cpu, memory = cpu_of(*pids), sum(map(_peak, pids))
    print(f"  {number / wall:,.0f} rows/s, {cpu / number * 1e6:.1f} CPU s per million rows")
    print(f"  {memory / 2**20:.0f} MB, {_rows(work.bad):,} bad")
    bench.record(case, work.tool, wall, cpu, rows=number, memory=memory)


def _latency(bench: Bench, work: Work, broker: Any) -> None:
    """Measure the times from a record's creation to its commit, at the median and at 95 %."""
    make_topic(broker.servers, work.topic, 3)
    send(broker.servers, work.topic, _records(0, limit=RATE))  # which starts the program's batches
    with _running(work) as process:
        _until(lambda: _rows(work.table) >= RATE, process, work)
        send(broker.servers, work.topic, _paced(_records(0, RATE, RATE * SECONDS), RATE))
        _until(lambda: _rows(work.table) >= RATE * (SECONDS + 1), process, work)
    times = list(_latencies(work.table, first=RATE))
    cuts = statistics.quantiles(times, n=20)
    case = f"latency at {RATE:,} records a second"
    bench.record(f"{case}, median", work.tool, cuts[9], rows=len(times))
    bench.record(f"{case}, 95 %", work.tool, cuts[18], rows=len(times))


def _kills(bench: Bench, work: Work, broker: Any) -> None:
    """Kill the program ten times while it writes, and count what it lost and repeated."""
    make_topic(broker.servers, work.topic, 3)
    chance, is_over, sent = random.Random(1), threading.Event(), [0]

    def produce() -> None:
        records = takewhile(lambda _: not is_over.is_set(), _records(0))
        sent[0] = send(broker.servers, work.topic, _paced(records, 5000))

    producer = threading.Thread(target=produce)
    producer.start()
    begun = time.monotonic()
    for _ in range(KILLS):
        before = _rows(work.table)
        with _running(work) as process:
            _until(partial(_has_more_rows, work.table, before), process, work)
            time.sleep(chance.uniform(0, 3))
    is_over.set()
    producer.join()
    with _running(work) as process:
        seen, since = -1, time.monotonic()
        while seen < sent[0] and time.monotonic() - since < 60 and process.poll() is None:
            if (rows := _rows(work.table)) != seen:
                seen, since = rows, time.monotonic()
            time.sleep(0.5)
    wall, counts = time.monotonic() - begun, _ids(work.table)
    lost, repeated = sent[0] - len(counts), sum(counts.values()) - len(counts)
    print(f"  {work.tool}: {sent[0]:,} sent, {lost:,} lost, {repeated:,} repeated")
    bench.record(f"{KILLS} kills: records lost", work.tool, wall, rows=lost)
    bench.record(f"{KILLS} kills: records repeated", work.tool, wall, rows=repeated)


def _work(bench: Bench, program: str, servers: str, topic: str, tool: Tool, latency: int) -> Work:
    """Return a command on a new table; kafka-delta-ingest flushes each `latency` seconds."""
    folder = bench.work / f"{topic}_{tool}"
    folder.mkdir()
    if tool == "headwaters":
        return _headwaters(folder, servers, topic)
    return _kafka_delta_ingest(folder, program, servers, topic, latency)


def _headwaters(folder: Path, servers: str, topic: str) -> Work:
    stream = {"from": "kafka", "topics": [topic], "servers": servers, "format": "json"}
    columns: list[dict[str, Any]] = [
        {"name": name, "data_type": kind} for name, kind in COLUMNS.items()
    ]
    columns[3]["constraints"] = [{"type": "not_null"}]
    table = {"name": topic, "config": {"meta": {"stream": stream}}, "columns": columns}
    sources = {"sources": [{"name": "bronze", "schema": "bronze", "tables": [table]}]}
    options = dbt_project(folder / "project", {"models/sources.yml": yaml.safe_dump(sources)})
    lake = folder / "lake"
    return Work(
        topic,
        "headwaters",
        [
            str(Path(sys.executable).parent / "headwaters"),
            *("ingest", "--every", "1s", "--profiles-dir", options[-1]),
        ],
        folder / "project",
        lake / "warehouse" / "bronze.db" / topic,
        lake / "warehouse" / "bronze.db" / f"{topic}_quarantine",
        {"HEADWATERS_LAKE": str(lake)},
    )


def _kafka_delta_ingest(folder: Path, program: str, servers: str, topic: str, latency: int) -> Work:
    """Make the two tables, as its documentation asks; `latency` are seconds between two flushes."""
    import pyarrow as pa
    from deltalake import DeltaTable, Schema

    kinds = {
        "bigint": pa.int64(),
        "string": pa.string(),
        "decimal(18, 2)": pa.decimal128(18, 2),
    }
    fields = [pa.field(name, kinds[kind]) for name, kind in COLUMNS.items()]
    fields.append(pa.field("kafka_offset", pa.int64()))
    table, bad = folder / "table", folder / "bad"
    DeltaTable.create(str(table), Schema.from_arrow(pa.schema(fields)))
    texts = [pa.field(name, pa.string()) for name in ("base64_bytes", "json_string", "error")]
    texts += [pa.field("timestamp", pa.timestamp("us", "UTC")), pa.field("date", pa.string())]
    DeltaTable.create(str(bad), Schema.from_arrow(pa.schema(texts)), partition_by=["date"])
    command = [
        *(program, "ingest", topic, str(table), "--kafka", servers),
        *("--consumer_group", folder.name, "--app_id", folder.name),
        *("--allowed_latency", str(latency), "--max_messages_per_batch", "50000"),
        *("--min_bytes_per_file", str(16 * 2**20), "--transform", "kafka_offset: kafka.offset"),
        *("--dlq_table_location", str(bad)),
        *("--dlq_transform", "date: substr(epoch_micros_to_iso8601(timestamp),`0`,`10`)"),
        *("--kafka_setting", "session.timeout.ms=6000"),
    ]
    return Work(topic, "kafka-delta-ingest", command, folder, table, bad, {"RUST_LOG": "error"})


@contextmanager
def _running(work: Work) -> Iterator[subprocess.Popen[bytes]]:
    """Start the command in a process group of its own, and kill the group at the end."""
    with (work.folder.parent / f"{work.folder.name}.log").open("ab") as output:
        process = subprocess.Popen(
            work.command,
            cwd=work.folder,
            env={**os.environ, **work.variables},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        below = descendants(process.pid)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for pid in below:  # a process of a group of its own
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def _until(done: Callable[[], bool], process: subprocess.Popen[bytes], work: Work) -> None:
    while not done():
        assert process.poll() is None, _output(work)
        time.sleep(0.2)


def _output(work: Work) -> str:
    return (work.folder.parent / f"{work.folder.name}.log").read_text(errors="replace")[-3000:]


def _commits(table: Path) -> list[Path]:
    return sorted((table / "_delta_log").glob("[0-9]*.json"))


_READ: dict[Path, int] = {}


def _rows(table: Path) -> int:
    """Return the rows that the table's commits have added so far; nothing here removes any."""
    total = 0
    for commit in _commits(table):
        if commit not in _READ:
            _READ[commit] = sum(json.loads(add["stats"])["numRecords"] for add in _added(commit))
        total += _READ[commit]
    return total


def _has_more_rows(table: Path, number: int) -> bool:
    return _rows(table) > number


def _added(commit: Path) -> list[dict[str, Any]]:
    """Return the files with new rows, and not those of a compaction."""
    actions = map(json.loads, lines(commit))
    return [one["add"] for one in actions if "add" in one and one["add"]["dataChange"]]


def _latencies(table: Path, first: int) -> Iterator[float]:
    """Yield the seconds from the creation of each record, from an id on, to its commit."""
    import pyarrow.parquet as pq

    for commit in _commits(table):
        committed = commit.stat().st_mtime
        for add in _added(commit):
            rows = pq.ParquetFile(table / add["path"]).read(["id", "created"]).to_pylist()
            yield from (committed - row["created"] / 1000 for row in rows if row["id"] >= first)


def _ids(table: Path) -> Counter[int]:
    """Return how often each record's id is in the table."""
    from deltalake import DeltaTable

    found = DeltaTable(str(table)).to_pyarrow_table(columns=["id"])
    return Counter(found.column("id").to_pylist())


def _peak(pid: int) -> int:
    """Return the largest resident memory of a process that runs, in bytes."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _paced(records: Iterator[tuple[None, str]], rate: int) -> Iterator[tuple[None, str]]:
    """Yield records at a rate per second; each is made when its turn comes."""
    begun = time.monotonic()
    for number in count():
        if number % 10 == 0:
            time.sleep(max(0.0, number / rate - (time.monotonic() - begun)))
        if (record := next(records, None)) is None:
            return
        yield record


def _records(bad_every: int, first: int = 0, limit: int = 2**62) -> Iterator[tuple[None, str]]:
    for number in range(first, first + limit):
        text = json.dumps(
            {
                "id": number,
                "created": time.time_ns() // 1_000_000,
                "account_id": f"A{number * 31 % 50_000:06d}",
                "amount": (number * 7919) % 50_000 / 100,
                "currency": ("EUR", "GBP", "USD")[number % 3],
                "transaction_type": ("debit", "credit")[number % 2],
                "merchant_id": f"M{number % 2000:05d}",
                "category": "groceries",
            }
        )
        yield None, text[:100] if bad_every and number % bad_every == 0 else text
