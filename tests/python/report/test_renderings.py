"""Render the same facts as metrics, as events, and as findings that need attention."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwaters.platform.errors import WorkError
from headwaters.report.attention import Attention, attention
from headwaters.report.events import Sender, new_events
from headwaters.report.facts import Lake, TableChange
from headwaters.report.metrics import exposition
from headwaters.report.page import _figures
from report.examples import table, usual
from report.small import NOW, ago

METRICS = """
headwaters_report_timestamp_seconds 1.795608e+09
headwaters_report_problems 1.0
headwaters_stream_rows{stream="clicks"} 1015.0
headwaters_stream_rows{stream="orders"} 1015.0
headwaters_stream_quarantined{reason="type",stream="orders"} 12.0
headwaters_stream_quarantined{reason="malformed",stream="orders"} 5.0
headwaters_stream_backlog{stream="orders",unit="files"} 3.0
headwaters_stream_backlog_bytes{stream="orders"} 3.1e+06
headwaters_stream_failed{stream="clicks"} 1.0
headwaters_stream_failed{stream="orders"} 0.0
headwaters_stream_last_batch_timestamp_seconds{stream="orders"} 1.79559e+09
headwaters_stream_batch_seconds{stream="orders"} 3.0
headwaters_model_last_run_timestamp_seconds{model="silver.paid",way="merge"} 1.79559e+09
headwaters_model_last_run_rows{model="silver.paid"} 20.0
headwaters_model_last_run_bytes{model="silver.paid"} 900.0
headwaters_model_last_run_expected_bytes{model="silver.paid"} 450.0
headwaters_model_failed{model="silver.paid"} 0.0
headwaters_model_failed{model="gold.spend"} 1.0
headwaters_model_waiting_rows{model="silver.paid"} 35.0
headwaters_model_waiting_since_timestamp_seconds{model="silver.paid"} 1.7954352e+09
headwaters_table_rows{table="silver.paid"} 1020.0
headwaters_table_deleted_rows{table="silver.paid"} 180.0
headwaters_table_files{table="silver.paid"} 2.0
headwaters_table_small_files{table="silver.paid"} 2.0
headwaters_table_bytes{table="silver.paid"} 40900.0
headwaters_table_version{table="silver.paid"} 2.0
headwaters_table_last_change_timestamp_seconds{table="silver.paid"} 1.79559e+09
headwaters_table_maintenance_due{step="compact",table="silver.paid"} 1.0
headwaters_table_retention_seconds{table="silver.paid"} 604800.0
headwaters_table_needed_since_timestamp_seconds{reader="gold.spend",table="silver.paid"} 1.7948304e+09
headwaters_expectation_rows{expectation="positive",table="silver.paid"} 20.0
headwaters_expectation_rows_broken{expectation="positive",on_failure="warn",table="silver.paid"} 3.0
headwaters_operation_started_timestamp_seconds{operation="maintain",state="started",table="silver.paid"} 1.7955972e+09
headwaters_operation_started_timestamp_seconds{operation="restore",state="done",table="silver.paid"} 1.7955216e+09
headwaters_source_warn_after_seconds{source="bronze.clicks"} 3600.0
headwaters_source_warn_after_seconds{source="bronze.orders"} 3600.0
headwaters_source_error_after_seconds{source="bronze.clicks"} 86400.0
headwaters_source_error_after_seconds{source="bronze.orders"} 86400.0
"""  # noqa: E501 - as Prometheus has them


def one_table() -> Lake:
    """Return the usual lake with the table of a model alone."""
    lake = usual()
    return replace(lake, tables=lake.tables[1:2])


def test_the_metrics_of_a_lake() -> None:
    lines = exposition(one_table).decode().splitlines()
    assert [line for line in lines if not line.startswith("#")] == METRICS.split("\n")[1:-1]
    # each has its type and its help text
    families = [line.split()[2] for line in lines if line.startswith("# HELP")]
    assert len(families) == len(set(families)) == sum(one.startswith("# TYPE") for one in lines)


def test_labels_of_metrics_are_escaped() -> None:
    lake = replace(usual().streams[1], name='a"b\\c\nd')
    said = exposition(lambda: Lake("p", "t", "/l", NOW, streams=(lake,))).decode()
    assert 'headwaters_stream_rows{stream="a\\"b\\\\c\\nd"} 1015.0' in said


def test_what_needs_attention_the_gravest_first() -> None:
    assert attention(usual()) == [
        Attention("bad", "the stream clicks failed: [HW_BROKER_AWAY] no broker answers", "streams"),
        Attention("bad", "gold.spend failed: [HW_REPEATED_KEYS] two rows of a key", "models"),
        Attention("bad", "bronze.clicks is stale: it has no rows yet", "freshness"),
        Attention(
            "bad",
            "gold.spend needs changes of silver.paid made 9.0 d ago, longer ago than it retains "
            "files",
            "tables",
        ),
        Attention(
            "warn", "17 records of orders are in quarantine, 5 of 20 of the last batch", "streams"
        ),
        Attention(
            "warn",
            "silver.paid has not applied changes of bronze.orders, made 2.0 d ago",
            "models",
        ),
        Attention("warn", "bronze.orders is stale: its rows last changed 5.0 h ago", "freshness"),
        Attention(
            "warn", "3 of 20 rows did not meet positive of silver.paid (warn)", "expectations"
        ),
        Attention(
            "warn", "maintain of silver.paid began 3.0 h ago and has not ended", "operations"
        ),
        Attention(
            "warn",
            "silver.paid is due for maintenance: `dbt run-operation maintain`",
            "tables",
        ),
    ]
    assert attention(Lake("p", "t", "/l", NOW)) == []


def test_maintenance_of_the_tables_of_operations_needs_a_selection() -> None:
    due = (("compact", "30 files are small"),)
    tables = (table("ops.operations", kind="ops", due=due), table("gold.spend", due=due))
    said = [one.text for one in attention(Lake("p", "t", "/l", NOW, tables=tables))]
    assert said == [
        "gold.spend is due for maintenance: `dbt run-operation maintain`",
        "ops.operations is due for maintenance: "
        "`dbt run-operation maintain --args '{select: ops}'`",
    ]


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that OpenLineage's client writes to."""
    file = tmp_path / "events.jsonl"
    settings = {"type": "file", "log_file_path": str(file), "append": True}
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", json.dumps(settings))
    # the client's own facts about this machine's checkout
    monkeypatch.setenv("OPENLINEAGE__FACETS__SOURCE_CODE_LOCATION__DISABLED", "true")
    monkeypatch.chdir(tmp_path)
    return file


def told(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def without_schema(event: Any) -> Any:
    """Return an event without its schema addresses and the client's tag."""
    if isinstance(event, dict):
        own = ("_schemaURL", "schemaURL", "_producer", "tags")
        return {name: without_schema(one) for name, one in event.items() if name not in own}
    return [without_schema(one) for one in event] if isinstance(event, list) else event


def test_the_figures_of_the_page_count_what_failed() -> None:
    assert list(_figures(usual()))[:2] == [
        ("streams", "2", "1 failed"),
        ("models", "1", "of 2 built, 1 failed"),
    ]
    lake = usual()
    orders, paid = lake.streams[1:], lake.models[:1]
    assert list(_figures(replace(lake, streams=orders, models=paid)))[:2] == [
        ("streams", "1", "1 with a backlog"),
        ("models", "1", "of 1 built"),
    ]


def test_each_run_is_one_event(events: Path) -> None:
    sender = Sender()
    assert sender.is_configured
    lake = one_table()
    assert sender.send(lake) == 2
    failed, run = (without_schema(one) for one in told(events))
    columns = [
        {"name": "id", "type": "long", "fields": []},
        {"name": "tags", "type": '{"type":"array"}', "fields": []},
    ]
    place = "/lake/warehouse/silver.db/paid"
    link = {"namespace": "headwaters", "name": "silver.paid", "type": "TABLE"}
    kind = {"processingType": "BATCH", "integration": "HEADWATERS", "jobType": "JOB"}
    facets = {"jobType": kind, "ownership": {"owners": [{"name": "payments"}]}}
    if failed["eventType"] != "FAIL":
        failed, run = run, failed
    identity = run["run"].pop("runId")
    assert run == {
        "eventTime": ago(hours=5).isoformat(),
        "producer": "urn:headwaters",
        "eventType": "COMPLETE",
        "run": {"facets": {}},
        "job": {"namespace": "headwaters.shop.local", "name": "silver.paid", "facets": facets},
        "inputs": [],
        "outputs": [
            {
                "namespace": "file",
                "name": place,
                "facets": {
                    "schema": {"fields": columns},
                    "symlinks": {"identifiers": [link]},
                    "version": {"datasetVersion": "2"},
                },
                "outputFacets": {"outputStatistics": {"rowCount": 20, "size": 900}},
            }
        ],
    }
    assert failed["job"]["name"] == "gold.spend"
    message = {"message": "[HW_REPEATED_KEYS] two rows of a key", "programmingLanguage": "SQL"}
    assert failed["run"]["facets"] == {"errorMessage": message}
    # a sent event is not sent again; a new commit is sent, under its own name
    assert sender.send(lake) == 0
    paid = lake.tables[0]
    more = replace(paid, changes=(*paid.changes, TableChange(3, ago(hours=1), 7, 300)))
    assert sender.send(replace(lake, tables=(more,))) == 1
    again = told(events)[2]
    assert again["run"]["runId"] != identity
    assert again["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 7
    # another process gives the same run the same name
    (same,) = [e for e in new_events(lake, {}) if e.job.name == "silver.paid"]
    assert same.run.runId == identity


def test_an_event_names_what_the_run_read() -> None:
    found = new_events(usual(), {})
    assert [(e.job.name, e.eventType and e.eventType.value) for e in found] == [
        ("bronze.orders", "COMPLETE"),
        ("silver.paid", "COMPLETE"),
        ("gold.spend", "FAIL"),
    ]
    reads = [one.name for one in found[1].inputs or ()]
    assert reads == ["/lake/warehouse/bronze.db/orders"]


def test_events_that_are_not_taken_are_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "not there yet"
    settings = {"type": "file", "log_file_path": str(folder / "events.jsonl"), "append": True}
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", json.dumps(settings))
    monkeypatch.chdir(tmp_path)
    sender = Sender()
    with pytest.raises(WorkError, match=r"HW_OPENLINEAGE.*did not send"):
        sender.send(one_table())
    folder.mkdir()
    assert sender.send(one_table()) == 2


def test_nothing_is_sent_where_nothing_is_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert not Sender().is_configured
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    assert not Sender().is_configured
