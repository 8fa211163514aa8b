"""Prometheus metrics of a running `headwaters ingest`, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from headwaters.platform.errors import UserError
from headwaters.streams.stream import Stream


class StreamMetrics(Collector):
    """The counters of streams since they began, with the stream's name as label `stream`."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        """Collect metrics of these streams."""
        self.streams = streams

    def collect(self) -> Iterator[Metric]:
        """Yield all current metrics."""
        records = _counter("records", "Records read: rows of bronze and of quarantine.")
        rows = _counter("rows", "Rows written to bronze.")
        bad = _counter("quarantined", "Records put into quarantine.", "reason")
        batches = _counter("batches", "Batches done.")
        seconds = _counter("batch_seconds", "Time spent writing batches.")
        size = _gauge("bronze_bytes", "Size of bronze.")
        backlog = _gauge("backlog", "Files or records that no batch has taken yet.", "unit")
        waiting = _gauge("backlog_bytes", "Bytes of the files that no batch has taken yet.")
        failed = _gauge("failed", "1 while a stream is down after a failure.")
        for stream in self.streams:
            name = stream.contract.name
            found = stream.bad.copy()  # the stream's own thread continues to count
            records.add_metric([name], stream.rows + found.total())
            rows.add_metric([name], stream.rows)
            for reason, count in found.items():
                bad.add_metric([name, reason], count)
            batches.add_metric([name], stream.batches)
            seconds.add_metric([name], stream.seconds)
            size.add_metric([name], stream.bytes)
            if stream.pending:
                backlog.add_metric([name, stream.pending.unit], stream.pending.number)
            if stream.pending and stream.pending.size is not None:
                waiting.add_metric([name], stream.pending.size)
            failed.add_metric([name], stream.error is not None)
        yield from (records, rows, bad, batches, seconds, size, backlog, waiting, failed)


def _counter(name: str, what: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"headwaters_{name}", what, labels=["stream", *labels])


def _gauge(name: str, what: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"headwaters_{name}", what, labels=["stream", *labels])


@contextmanager
def serve(streams: Sequence[Stream], port: int) -> Iterator[int]:
    """Serve `/metrics` on 127.0.0.1 inside the context, and yield the port (0 = any).

    Raises UserError if the port is taken.
    """
    registry = CollectorRegistry()
    registry.register(StreamMetrics(streams))
    try:
        server, thread = start_http_server(port, "127.0.0.1", registry)
    except OSError:
        raise UserError("HW_PORT", f"port {port} is taken: choose another --metrics-port") from None
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
