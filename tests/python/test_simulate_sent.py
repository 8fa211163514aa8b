"""Test that simulated streams are equal in files, in topics and over HTTP."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml
from ingestion import ROOT, Ingester, node, topic_stream
from serving import served
from topics import messages
from typer.testing import CliRunner

from headwaters import cli
from headwaters.devkit.samples import retail, simulate
from headwaters.devkit.samples.clicks import COLUMNS, ClicksConfig, clicks, records
from headwaters.devkit.samples.send import Record, send
from headwaters.http.run import ServeOptions, endpoints_of
from headwaters.platform.project import Project
from headwaters.streams.ingestion.contracts import load_contracts

FINANCE = simulate.FinanceConfig(rows=200, claims=20, malformed=0.0)
RETAIL = retail.RetailConfig(customers=20, products=5, orders=30)
CLICKS = ClicksConfig(visits=20)
COMMANDS = (
    "finance --rows 200 --claims 20 --malformed 0",
    "retail --customers 20 --products 5 --orders 30",
    "clicks --visits 20",
)


def simulated() -> dict[str, list[Record]]:
    """Return keys and values of the records that the commands send, by stream."""
    return {
        **{name: [(r.key, r.value) for r in of(FINANCE)] for name, of in simulate.STREAMS.items()},
        **{
            name: [(e.key, e.value) for e in retail.events(RETAIL, name)] for name in retail.STREAMS
        },
        "click_events": list(records(CLICKS)),
    }


def said(*options: str) -> list[str]:
    """Return the output of the commands."""
    lines = []
    for command in COMMANDS:
        done = CliRunner().invoke(cli.app, ["simulate", *command.split(), *options])
        assert done.exit_code == 0, done.output
        lines += done.stdout.splitlines()
    return lines


def test_every_simulated_stream_goes_to_its_topic_and_through_the_endpoint(
    broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATERS_LAKE", str(tmp_path / "lake"))
    project, sent = Project(ROOT), simulated()
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", broker)
    for domain in ("FINANCE", "RETAIL", "CLICKS"):
        monkeypatch.setenv(f"HEADWATERS_{domain}_FROM", "kafka")
    assert said("--to-kafka") == [f"{name}: {len(of)} records sent" for name, of in sent.items()]
    assert said("--to-kafka") == [f"{name}: nothing new" for name in sent]
    contracts = load_contracts(project, list(sent))[0]
    values = {name: [one for _, one in of if one is not None] for name, of in sent.items()}
    with served(endpoints_of(project, contracts, ServeOptions(), 1)) as client:
        assert said("--to-http", str(client.base_url)) == [
            f"{name}: {len(of)} accepted, 0 refused" for name, of in values.items()
        ]
    for name, of in sent.items():
        found = Counter((key, value) for _, _, key, value in messages(broker, name))
        assert found == Counter(of) + Counter((None, value) for value in values[name])


@pytest.mark.slow
def test_clicks_are_the_same_rows_from_files_and_from_a_topic(
    ingester: Ingester, broker: str, topic: str
) -> None:
    source = yaml.safe_load((ROOT / "models/bronze/click_events.yml").read_text())["sources"][0]
    declared = source["tables"][0]["columns"]
    columns = {one["name"]: one["data_type"] for one in declared}
    rules = {one["name"]: one.get("constraints", []) for one in declared}
    from_topic = topic_stream(broker, topic)["config"]["meta"]["stream"]
    ingester.land("1.csv", ",".join(COLUMNS), *clicks(CLICKS), stream="files")
    send(broker, topic, records(CLICKS))
    ingester.run(
        node(columns, {"format": "csv"}, "files", rules),
        node(columns, from_topic, "topic", rules),
    )
    listed = ", ".join(columns)
    found = ingester.rows("files", listed)
    assert len(found) == len(list(clicks(CLICKS)))
    assert ingester.rows("topic", listed) == found
