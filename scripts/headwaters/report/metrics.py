"""Prometheus metrics from the facts of a lake. A moment is seconds since 1970."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from headwaters.report.facts import Lake, Operation

# Values of labels, and the sample's value. None is unknown and gives no sample.
Sample = tuple[tuple[str, ...], float | None]


class LakeMetrics(Collector):
    """The metrics of a lake when it was last read."""

    def __init__(self, lake: Callable[[], Lake]) -> None:
        """Collect from the facts that `lake` returns."""
        self._lake = lake

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics that have samples."""
        lake = self._lake()
        for name, what, labels, samples in _metrics(lake):
            metric = GaugeMetricFamily(f"headwaters_{name}", what, labels=labels)
            for values, value in samples:
                if value is not None:
                    metric.add_metric(values, value)
            if metric.samples:
                yield metric


def exposition(lake: Callable[[], Lake]) -> bytes:
    """Return the metrics in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(LakeMetrics(lake))
    return generate_latest(registry)


def _metrics(lake: Lake) -> Iterator[tuple[str, str, tuple[str, ...], Iterable[Sample]]]:
    yield "report_timestamp_seconds", "When the lake was read.", (), [((), _at(lake.at))]
    yield "report_problems", "Things that could not be read.", (), [((), len(lake.problems))]
    yield from _streams(lake)
    yield from _models(lake)
    yield from _tables(lake)
    yield (
        "expectation_rows",
        "Rows of the last evaluation.",
        ("table", "expectation"),
        [((e.table, e.name), e.last.rows) for e in lake.expectations if e.last],
    )
    yield (
        "expectation_rows_broken",
        "Rows of the last evaluation that did not meet the expectation.",
        ("table", "expectation", "on_failure"),
        [((e.table, e.name, e.on_failure), e.last.broken) for e in lake.expectations if e.last],
    )
    yield (
        "operation_started_timestamp_seconds",
        "When the newest operation of a kind on a table began, by the state that it has now.",
        ("operation", "table", "state"),
        [((o.operation, o.table, o.state), _at(o.at)) for o in _newest_operations(lake)],
    )
    for name in ("warn_after", "error_after"):
        yield (
            f"source_{name}_seconds",
            f"The age of a source's rows at which dbt's freshness says {name.split('_')[0]}.",
            ("source",),
            [((f.table,), getattr(f, name)) for f in lake.freshness],
        )


def _newest_operations(lake: Lake) -> Iterable[Operation]:
    newest: dict[tuple[str, str], Operation] = {}
    for one in lake.operations:
        newest.setdefault((one.operation, one.table), one)
    return newest.values()


def _streams(lake: Lake) -> Iterator[tuple[str, str, tuple[str, ...], Iterable[Sample]]]:
    label = ("stream",)
    every = lake.streams
    yield "stream_rows", "Rows of bronze.", label, [((s.name,), s.rows) for s in every]
    yield (
        "stream_quarantined",
        "Records in quarantine.",
        ("stream", "reason"),
        [((s.name, reason), n) for s in every for reason, n in (s.quarantine or {}).items()],
    )
    waiting = [(s, s.backlog) for s in every if s.backlog]
    yield (
        "stream_backlog",
        "Files or records that no batch has taken yet.",
        ("stream", "unit"),
        [((s.name, backlog.unit), backlog.number) for s, backlog in waiting],
    )
    yield (
        "stream_backlog_bytes",
        "Bytes of what no batch has taken yet.",
        label,
        [((s.name,), backlog.bytes) for s, backlog in waiting],
    )
    yield (
        "stream_failed",
        "1 if the last run of a stream failed.",
        label,
        [((s.name,), float(s.error is not None)) for s in every],
    )
    yield (
        "stream_last_batch_timestamp_seconds",
        "When the last batch was done.",
        label,
        [((s.name,), _at(s.last_batch)) for s in every],
    )
    yield (
        "stream_batch_seconds",
        "Median length of the newest batches.",
        label,
        [((s.name,), s.latency) for s in every],
    )


def _models(lake: Lake) -> Iterator[tuple[str, str, tuple[str, ...], Iterable[Sample]]]:
    label = ("model",)
    every = lake.models
    ran = [(m, m.last) for m in every if m.last]
    yield (
        "model_last_run_timestamp_seconds",
        "When a run last changed rows, by its way of writing.",
        ("model", "way"),
        [((m.table, run.way), _at(run.at)) for m, run in ran],
    )
    yield (
        "model_last_run_rows",
        "Rows that the last run changed, at most.",
        label,
        [((m.table,), run.rows) for m, run in ran],
    )
    yield (
        "model_last_run_bytes",
        "Bytes that the last run wrote.",
        label,
        [((m.table,), run.bytes) for m, run in ran],
    )
    yield (
        "model_last_run_expected_bytes",
        "Bytes that earlier runs of the same way wrote for as many rows.",
        label,
        [((m.table,), run.expected_bytes) for m, run in ran],
    )
    yield (
        "model_failed",
        "1 where dbt's last invocation did not build the model.",
        label,
        [((m.table,), float(m.outcome.failed)) for m in every if m.outcome],
    )
    yield (
        "model_waiting_rows",
        "Changed rows of inputs that the model has not applied, at most.",
        label,
        [((m.table,), sum(one.rows for one in m.behind)) for m in every if m.is_built],
    )
    yield (
        "model_waiting_since_timestamp_seconds",
        "The oldest change of an input that the model has not applied.",
        label,
        [((m.table,), _at(m.waiting_since)) for m in every],
    )


def _tables(lake: Lake) -> Iterator[tuple[str, str, tuple[str, ...], Iterable[Sample]]]:
    label = ("table",)
    every = lake.tables
    for name, what in (
        ("rows", "Rows."),
        ("deleted_rows", "Rows that are only marked as deleted."),
        ("files", "Data files."),
        ("small_files", "Data files smaller than `small_file` of the policy."),
        ("bytes", "Size of the data files."),
        ("version", "The newest version."),
    ):
        yield f"table_{name}", what, label, [((t.name,), getattr(t, name)) for t in every]
    yield (
        "table_last_change_timestamp_seconds",
        "When rows last changed.",
        label,
        [((t.name,), _at(t.last_change)) for t in every],
    )
    yield (
        "table_maintenance_due",
        "1 for each step that the policy requires.",
        ("table", "step"),
        [((t.name, step), 1.0) for t in every for step, _ in t.due],
    )
    yield (
        "table_retention_seconds",
        "How long files stay after they left the table.",
        label,
        [((t.name,), t.retention) for t in every],
    )
    yield (
        "table_needed_since_timestamp_seconds",
        "The oldest change that a reader has not applied.",
        ("table", "reader"),
        [((t.name, need.reader), _at(need.since)) for t in every for need in t.needs],
    )


def _at(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
