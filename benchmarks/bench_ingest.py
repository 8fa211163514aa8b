"""Kafka ingestion: the same topic only read, only parsed, by a bare job, and by ingest

The topic has 2 million JSON records of about 200 bytes in 3 partitions; none is malformed in the
case `clean`. `bare` is a plain job without quarantine, lineage or rescue. `read` drops the records
on arrival, `parse` drops them once they are columns; `ingest` is headwaters. Spark is warm in all
of them, and each reads everything from the start, in batches of 500,000.

Two measurements of headwaters alone follow. The first is a record's time from its creation to
bronze, while records arrive at half of the rate that `ingest` reached. The second compares the last
of many small batches with the first, by time and by Spark's live heap.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import count, cycle, islice, pairwise
from typing import Any

from benchmarks.runner import ROOT, Bench, Clock, bytes_below, clock, descendants, median
from headwaters.devkit import broker as brokers
from headwaters.devkit.samples.send import make_topic, send
from headwaters.platform.checkpoint import Checkpoint
from headwaters.platform.json_lines import lines
from headwaters.platform.project import Project
from headwaters.streams.contract import Contract, parse_contract
from headwaters.streams.ingestion.run import run as ingest
from headwaters.streams.ingestion.spark import start_spark
from headwaters.streams.sources import kafka_client
from headwaters.tables.delta_log import commit_of

NOTES = """
Two runs and half a minute of latency (HEADWATERS_BENCH_TIMES=2 HEADWATERS_BENCH_SECONDS=30); the
200 small batches come from an earlier run. Of 40 small batches measured with this run, the first
four took 1.1 s each, the last four 1.6 s.

Goals: 0.9 of the bare job's rows a second, 95 % of the records in bronze within 3 s at half of the
rate, the last tenth of the batches at most 1.1 times the first, and constant memory. Ingestion
reaches 0.56 of the bare job if every record is good, and 0.38 if one in 1,000 is not; 95 % of the
records take 4.7 s.

A run just before reached 0.46 with good records only: Spark computed the repeated expressions in
the second part of an `and` for each record, even if the first part was false. Without that a
million records take 26 to 28 CPU seconds instead of 32; the bare job takes 13. The search for
faults in a record takes 5 of them, measured by leaving all of it out.

An earlier version shows the rest, by leaving out one part at a time (CPU of 500,000 records from
memory to Delta, 3.1 s for the bare job with the same lineage, 5.6 to 6.5 s for ingestion). Listing
the fields of a record reads its text a second time, for `_rescued` (0.7 s). The check for numbers
that would stall Spark takes 0.2 to 0.4 s, and the check that nothing follows the record 0.6 s, a
sixth of it now. One regular expression that clears flat records cost as much as these checks.

Good records were measured again on 30 November with the code of that day, two runs: ingestion took
32.9 s and 46 CPU seconds (33.3 s and 50 in the table), the bare job 20.4 s and 23.

A new process compiles first. Of runs over a million records, one in 1,000 malformed, one after the
other on a machine of about half the speed, the first took 178 CPU seconds, 97 of them in Java's
compiler, the second 85 (33), and the sixth 62 (7). The bare job took 22 there. A run that warmed up
four times, with good records, reached 0.52.

Quarantine reads again only the few records whose position the first pass marked. By samples of the
tasks that second pass takes a third of the time of the first: a fifth of it reads the topic, two
fifths parse the few records and find their faults, a sixth generates code. A batch of 200 records
takes 1.3 s instead of 2.0 s: a quarter went into building the same expressions again in Python,
another into Delta's count of its files. The rest is mostly Delta's own read of its log, which every
writer with `txnAppId` pays for.
"""

RECORDS = int(os.environ.get("HEADWATERS_BENCH_RECORDS", "2000000"))
BATCH = 500_000
TIMES = int(os.environ.get("HEADWATERS_BENCH_TIMES", "3"))
BATCHES = int(os.environ.get("HEADWATERS_BENCH_BATCHES", "500"))
SECONDS = int(os.environ.get("HEADWATERS_BENCH_SECONDS", "60"))  # of the latency's measurement
COLUMNS = {
    "transaction_id": "string",
    "timestamp": "timestamp",
    "account_id": "string",
    "amount": "decimal(18, 2)",
    "currency": "string",
    "transaction_type": "string",
    "merchant_id": "string",
    "category": "string",
}


def run(bench: Bench) -> None:
    """Run one broker, one Spark, two topics."""
    os.chdir(ROOT)
    os.environ["HEADWATERS_LAKE"] = str(bench.work)
    project = Project(ROOT)
    broker = brokers.start(project)
    spark = start_spark(project)
    jvm = descendants(os.getpid())
    try:
        for case, bad_every in (("clean", 0), ("one in 1,000 malformed", 1000)):
            topic = f"bench_{bad_every}"
            make_topic(broker.servers, topic, 3)
            send(broker.servers, topic, islice(_records(bad_every), RECORDS))
            rate = _case(bench, case, spark, project, broker.servers, topic, jvm)
        _latency(bench, spark, project, broker.servers, rate / 2)
        _small_batches(bench, spark, project, broker.servers)
    finally:
        spark.stop()
        brokers.stop(project.local)


def _case(
    bench: Bench, case: str, spark: Any, project: Project, servers: str, topic: str, jvm: list[int]
) -> float:
    """Record the four variants of a case; return the rows per second of the last, which is ours."""
    numbers = iter(range(1000))

    def timed(work: Callable[[str], Any]) -> Clock:
        def once() -> Clock:
            name = f"{topic}_{next(numbers)}"
            return clock(lambda: work(name), jvm)

        once()  # warms up
        return median(once, TIMES)

    def stream() -> Any:
        options = {"kafka.bootstrap.servers": servers, "subscribe": topic}
        options |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(BATCH)}
        return spark.readStream.format("kafka").options(**options).load()

    def to(frame: Any, name: str, form: str) -> Any:
        writer = frame.writeStream.format(form).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(project.local / "checks" / name))
        started = writer.start() if form == "noop" else writer.start(str(project.local / name))
        started.awaitTermination()

    def parsed() -> Any:
        from pyspark.sql import functions as F

        schema = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
        text = F.col("value").cast("string")
        return stream().select(F.from_json(text, schema).alias("r")).select("r.*")

    tables: dict[str, str] = {}

    def bare(name: str) -> None:
        tables["bare"] = name
        to(parsed(), name, "delta")

    def ours(name: str) -> None:
        tables["ingest"] = f"warehouse/bronze.db/{name}"
        ingest(project, [_contract(name, topic, servers)], spark)

    for variant, work in (
        ("bare", bare),
        ("read", lambda name: to(stream(), name, "noop")),
        ("parse", lambda name: to(parsed(), name, "noop")),
        ("ingest", ours),
    ):
        took = timed(work)
        table = tables.get(variant)
        written = bytes_below(project.local / table) if table else None
        bench.record(case, variant, took.wall, took.cpu, rows=RECORDS, bytes_written=written)
        per_million = took.cpu / RECORDS * 1e6
        print(f"  {RECORDS / took.wall:,.0f} rows/s, {per_million:.1f} CPU s per million rows")
    return RECORDS / took.wall


def _latency(bench: Bench, spark: Any, project: Project, servers: str, rate: float) -> None:
    """Measure the times from a record's creation to its commit, at the median and at 95 %."""
    topic = "bench_latency"
    make_topic(servers, topic, 3)
    warm = 5
    sent = int(rate * (SECONDS + warm))

    made = [(None, value.encode()) for _, value in islice(_records(0), 50_000)]

    def paced() -> Iterator[tuple[None, bytes]]:
        begun = time.monotonic()
        for number, record in enumerate(islice(cycle(made), sent)):
            if number % 100 == 0:
                time.sleep(max(0.0, number / rate - (time.monotonic() - begun)))
            yield record

    def produce() -> None:
        send(servers, topic, paced())
        checkpoint = Checkpoint(project.local / "checkpoints" / topic)
        while checkpoint.behind(kafka_client.ranges(servers, [topic])).number:
            time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGTERM)  # as a user ends `headwaters ingest`

    producer = threading.Thread(target=produce, daemon=True)
    producer.start()
    ingest(project, [_contract(topic, topic, servers)], spark, trigger=0.5)
    producer.join()
    table = project.warehouse / "bronze.db" / topic
    checkpoint = Checkpoint(project.local / "checkpoints" / topic)
    history = spark.sql(f"describe history delta.`{table}`").collect()
    times = {row["version"]: row["timestamp"] for row in history}
    commits = [
        (batch, times[version])
        for batch in range(checkpoint.committed + 1)
        if (version := commit_of(table, checkpoint.app_id, batch)) is not None
    ]
    rows = spark.read.format("delta").load(str(table))
    committed = spark.createDataFrame(commits, "_batch_id bigint, _committed timestamp")
    first = rows.selectExpr("min(unix_millis(_timestamp))").first()[0]
    (p50, p95) = (
        rows.join(committed, "_batch_id")
        .where(f"unix_millis(_timestamp) >= {first + warm * 1000}")
        .selectExpr(
            "percentile(unix_millis(_committed) - unix_millis(_timestamp), array(0.5, 0.95))"
        )
        .first()[0]
    )
    case = "latency at half of the rate"
    bench.record(case, "median", p50 / 1000, rows=sent)
    bench.record(case, "95 %", p95 / 1000, rows=sent)


def _small_batches(bench: Bench, spark: Any, project: Project, servers: str) -> None:
    """Land many batches of 200 records: measure the first and last tenth, and the heap."""
    topic, size, tenth = "bench_small", 200, BATCHES // 10
    make_topic(servers, topic, 1)
    contract = _contract(topic, topic, servers, size)
    log = project.local / "logs" / "ingest.jsonl"
    records = _records(0)
    case = f"{BATCHES} small batches"

    def ends() -> list[float]:
        """Return the end of each batch so far."""
        written = map(json.loads, lines(log))
        ours = (line for line in written if line["stream"] == topic and "batch" in line)
        return [datetime.fromisoformat(line["at"]).timestamp() for line in ours]

    for variant, number in (("first tenth", tenth), ("last tenth", BATCHES - tenth)):
        send(servers, topic, islice(records, number * size))
        ingest(project, [contract], spark)
        found = ends()[-tenth:]
        gaps = [after - before for before, after in pairwise(found)]
        jvm = spark._jvm.java.lang
        jvm.System.gc()
        runtime = jvm.Runtime.getRuntime()
        live = runtime.totalMemory() - runtime.freeMemory()
        bench.record(case, variant, statistics.median(gaps), rows=number * size, memory=live)


def _records(bad_every: int) -> Iterator[tuple[None, str]]:
    for number in count():
        seconds = number // 20
        amount: Any = (number * 7919) % 50_000 / 100
        if bad_every and number % bad_every == 0:
            amount = "FIVE HUNDRED"
        yield (
            None,
            json.dumps(
                {
                    "transaction_id": f"T{number:010d}",
                    "timestamp": f"2026-01-{1 + seconds // 86400:02d}T{seconds // 3600 % 24:02d}:"
                    f"{seconds // 60 % 60:02d}:{seconds % 60:02d}.{number % 20 * 50:03d}Z",
                    "account_id": f"A{number * 31 % 50_000:06d}",
                    "amount": amount,
                    "currency": ("EUR", "GBP", "USD")[number % 3],
                    "transaction_type": ("debit", "credit")[number % 2],
                    "merchant_id": f"M{number % 2000:05d}",
                    "category": "groceries",
                }
            ),
        )


def _contract(name: str, topic: str, servers: str, batch: int = BATCH) -> Contract:
    return parse_contract(
        {
            "original_file_path": __file__,
            "source_name": "bronze",
            "schema": "bronze",
            "name": name,
            "identifier": name,
            "config": {
                "meta": {
                    "stream": {
                        "from": "kafka",
                        "topics": [topic],
                        "servers": servers,
                        "format": "json",
                        "batch": {"max_records": batch},
                    }
                }
            },
            "columns": {
                column: {
                    "name": column,
                    "data_type": kind,
                    "constraints": [{"type": "not_null"}] if column == "amount" else [],
                }
                for column, kind in COLUMNS.items()
            },
        }
    )
