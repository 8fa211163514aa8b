"""The metrics of the HTTP endpoint, at `/metrics`.

`headwaters report --serve` has the metrics of report/metrics.py, and `headwaters ingest
--metrics-port` those of streams/ingestion/metrics.py.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """The metrics of `headwaters serve` for Prometheus."""

    def __init__(self) -> None:
        """Register all metrics."""
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "headwaters_http_requests",
            "Requests answered, by stream and code.",
            ["stream", "code"],
            registry=registry,
        )
        self.records = Counter(
            "headwaters_http_records", "Records accepted.", ["stream"], registry=registry
        )
        self.refused = Counter(
            "headwaters_http_records_refused",
            "Records refused, by the first reason of each.",
            ["stream", "type"],
            registry=registry,
        )
        self.seconds = Histogram(
            "headwaters_http_request_seconds",
            "Time from the headers of a request to its answer.",
            ["stream"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.in_flight = Gauge(
            "headwaters_http_requests_in_flight", "Requests in flight.", registry=registry
        )
        self.bytes = Gauge(
            "headwaters_http_bytes_in_flight", "Bytes of their bodies.", registry=registry
        )
