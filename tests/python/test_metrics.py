"""Test the metrics of a running ingestion over HTTP, and the live line of each stream."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from urllib.request import urlopen

import pytest
from ingestion import bare_project, node

from headwaters.platform.checkpoint import Pending
from headwaters.platform.errors import UserError
from headwaters.streams.contract import parse_contract
from headwaters.streams.ingestion.metrics import serve
from headwaters.streams.ingestion.progress import progress_of
from headwaters.streams.stream import Stream

METRICS = r"""
headwaters_records_total{stream="orders"} 12.0
headwaters_rows_total{stream="orders"} 9.0
headwaters_quarantined_total{reason="type \"odd\" name",stream="orders"} 3.0
headwaters_batches_total{stream="orders"} 2.0
headwaters_batch_seconds_total{stream="orders"} 1.5
headwaters_bronze_bytes{stream="orders"} 4096.0
headwaters_backlog{stream="orders",unit="files"} 2.0
headwaters_backlog_bytes{stream="orders"} 3.1e+06
headwaters_failed{stream="orders"} 0.0
"""


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    stream = Stream.of(bare_project(tmp_path), parse_contract(node({"id": "string"})))
    stream.batches, stream.rows, stream.bytes, stream.seconds = 2, 9, 4096, 1.5
    stream.bad = Counter({'type "odd" name': 3})
    stream.pending = Pending(2, "files", 3_100_000, unfinished=False)
    return stream


def test_metrics_are_what_prometheus_reads(stream: Stream) -> None:
    with serve([stream], 0) as port:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=")
            said = answer.read().decode()
        with pytest.raises(UserError, match=f"port {port} is taken: choose another --metrics-port"):
            serve([stream], port).__enter__()
    values = [line for line in said.splitlines() if not line.startswith("#")]
    assert values == METRICS.split("\n")[1:-1]


def test_the_live_line_says_what_was_done_what_waits_and_what_failed(stream: Stream) -> None:
    assert progress_of(stream) == "9 rows, 3 quarantined, 2 files, 3.1 MB behind"
    stream.pending, stream.bad = None, Counter()
    assert progress_of(stream) == "9 rows"
    stream.error = "no [such] broker"
    assert progress_of(stream) == r"[red]failed[/red]: no \[such] broker"
