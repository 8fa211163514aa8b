"""Kafka ingestion: the same topic read to nowhere, parsed to nowhere, by a bare job, by ingest

2 million JSON records of about 200 bytes in 3 partitions; none is malformed in the case `clean`.
`bare` is the job that one would write by hand, without quarantine, lineage or rescue; `read` drops
the records as they come, `parse` drops them once they are columns; `ingest` is headwaters. Spark is
warm in all of them, and each reads everything from the start, in batches of 500,000.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.runner import ROOT, Bench, Clock, bytes_below, clock, descendants, median
from headwaters import kafka
from headwaters.contract import Contract, parse_contract
from headwaters.ingest import run as ingest
from headwaters.ingest import start_spark
from headwaters.project import Project

RECORDS = int(os.environ.get("HEADWATERS_BENCH_RECORDS", "2000000"))
BATCH = 500_000
TIMES = int(os.environ.get("HEADWATERS_BENCH_TIMES", "3"))
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
    """One broker, one Spark, two topics."""
    os.chdir(ROOT)
    os.environ["HEADWATERS_LAKE"] = str(bench.work)
    project = Project(ROOT)
    broker = kafka.start(project)
    spark = start_spark(project)
    jvm = descendants(os.getpid())
    try:
        for case, bad_every in (("clean", 0), ("one in 1,000 malformed", 1000)):
            topic = f"bench_{bad_every}"
            kafka.make_topic(broker.servers, topic, 3)
            kafka.send(broker.servers, topic, _records(bad_every))
            _case(bench, case, spark, project, broker.servers, topic, jvm)
    finally:
        spark.stop()
        kafka.stop(project.lake)


def _case(
    bench: Bench, case: str, spark: Any, project: Project, servers: str, topic: str, jvm: list[int]
) -> None:
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
        writer = writer.option("checkpointLocation", str(project.lake / "checks" / name))
        started = writer.start() if form == "noop" else writer.start(str(project.lake / name))
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
        written = bytes_below(project.lake / table) if table else None
        bench.record(case, variant, took.wall, took.cpu, rows=RECORDS, bytes_written=written)


def _records(bad_every: int) -> Iterator[tuple[None, str]]:
    for number in range(RECORDS):
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


def _contract(name: str, topic: str, servers: str) -> Contract:
    return parse_contract(
        {
            "original_file_path": __file__,
            "source_name": "bronze",
            "name": name,
            "identifier": name,
            "config": {
                "meta": {
                    "stream": {
                        "from": "kafka",
                        "topics": [topic],
                        "servers": servers,
                        "format": "json",
                        "batch": {"max_records": BATCH},
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
