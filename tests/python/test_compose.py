"""Compare compose.yaml and Dockerfile with the code: ports, versions, names, variables."""

from __future__ import annotations

import inspect
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import yaml
from typer.main import get_command

from headwaters.cli import app, serve
from headwaters.devkit.broker import _properties
from headwaters.devkit.objects import VERSION
from headwaters.platform.postgres import DATABASE, USER, VARIABLE
from headwaters.platform.spark_version import JAVA_PROVEN

ROOT = Path(__file__).resolve().parents[2]
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
VARIABLES = re.compile(r"env_var\('(\w+)'")
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_everything_listens_on_loopback_and_at_one_port() -> None:
    ports = [port for service in SERVICES.values() for port in service["ports"]]
    assert [re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port) is not None for port in ports] == [
        True
    ] * len(SERVICES)
    assert len(set(ports)) == len(ports)


def test_images_are_short_names_and_the_versions_those_of_development() -> None:
    images = {name: service["image"] for name, service in SERVICES.items()}
    first = re.search(r"^FROM (\S+)$", DOCKERFILE, flags=re.M)
    assert first
    for image in (*images.values(), first[1]):
        host, slash, _ = image.partition("/")
        assert not slash or not re.search(r"[.:]", host), image
    broker = re.search(r'name="kafka_2\.13" rev="([\d.]+)"', _module())
    assert broker and images["kafka"] == f"apache/kafka:{broker[1]}"
    python = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert first[1].startswith(f"python:{python.removeprefix('>=')}-")
    java = re.search(r"openjdk-(\d+)-jre", DOCKERFILE)
    assert java and int(java[1]) in JAVA_PROVEN


def test_the_object_store_is_the_one_of_the_tests() -> None:
    objects, published = SERVICES["objects"], SERVICES["objects"]["ports"][0].split(":")[-1]
    assert objects["image"] == f"versity/versitygw:{VERSION}"
    assert objects["environment"]["VGW_PORT"] == f":{published}"
    page = (ROOT / "docs" / "object-store.md").read_text()
    assert f"github.com/versity/versitygw/cmd/versitygw@{VERSION}\n" in page
    assert f"http://127.0.0.1:{published}`" in (ROOT / "docs" / "publishing.md").read_text()


def _module() -> str:
    return (ROOT / "scripts/headwaters/devkit/kafka-broker.xml").read_text()


def test_the_broker_has_the_settings_of_the_one_of_development() -> None:
    ours = dict(
        line.split("=", 1) for line in _properties(Path("/d"), 1, 2, {}).splitlines() if line
    )
    theirs = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): str(value)
        for name, value in SERVICES["kafka"]["environment"].items()
    }
    places = {"listeners", "advertised.listeners", "log.dirs", "controller.quorum.voters"}
    places |= {"listener.security.protocol.map"}
    assert {k: v for k, v in theirs.items() if k not in places}.items() <= ours.items()


def test_postgresql_is_the_one_that_publications_write_to() -> None:
    database, ours = SERVICES["postgres"]["environment"], SERVICES["headwaters"]["environment"]
    assert (database["POSTGRES_USER"], database["POSTGRES_DB"]) == (USER, DATABASE)
    password = database["POSTGRES_PASSWORD"]
    assert ours[VARIABLE] == f"postgresql://{USER}:{password}@postgres:5432/{DATABASE}"
    assert ours["KAFKA_BOOTSTRAP_SERVERS"] in SERVICES["kafka"]["environment"][
        "KAFKA_ADVERTISED_LISTENERS"
    ].replace("PLAINTEXT://", "")


def test_every_variable_is_one_that_the_project_reads() -> None:
    files = [*ROOT.glob("scripts/**/*.py"), *ROOT.glob("models/**/*.yml"), *ROOT.glob("profiles/*")]
    read = "\n".join(file.read_text() for file in files)
    named = set(SERVICES["headwaters"]["environment"]) - {"HEADWATERS_SERVE_KEYS"}
    assert {name for name in named if name not in read} == set()
    assert "--keys-from HEADWATERS_SERVE_KEYS" in SERVICES["headwaters"]["command"]


def test_every_stream_that_may_read_a_topic_does_and_no_topic_is_named_twice() -> None:
    """Check the topics of contracts: the HTTP endpoint creates them by these names."""
    ours, command = SERVICES["headwaters"]["environment"], SERVICES["headwaters"]["command"]
    tables = [
        table
        for file in ROOT.glob("models/bronze/*.yml")
        for source in yaml.safe_load(file.read_text()).get("sources", [])
        for table in source["tables"]
    ]
    streams = [table["config"]["meta"]["stream"] for table in tables]
    topics = {topic: stream for stream in streams for topic in stream.get("topics", [])}
    assert sorted(topics) == [
        *("click_events", "customer_changes", "financial_transactions", "insurance_claims"),
        *("order_changes", "product_changes"),
    ]
    read = {name for stream in topics.values() for name in VARIABLES.findall(stream["from"])}
    assert {name: ours.get(name) for name in read} == dict.fromkeys(read, "kafka")
    assert "--create-topics" in command.split()
    text = (ROOT / "compose.yaml").read_text()
    assert [topic for topic in topics if topic in text] == []


def test_no_secret_is_in_the_file() -> None:
    settings = [one for s in SERVICES.values() for one in (s.get("environment") or {}).items()]
    secret = [value for name, value in settings if re.search("PASSWORD|KEYS|SECRET", name)]
    assert [bool(re.fullmatch(r"\$\{[A-Z0-9_]+:\?\}", value)) for value in secret] == [True] * 3


def test_the_command_of_the_container_is_one_of_ours() -> None:
    words = shlex.split(SERVICES["headwaters"]["command"])
    command = get_command(app).commands[words[0]]  # type: ignore[attr-defined]  # a group
    context = command.make_context(words[0], words[1:])
    port = inspect.signature(serve).parameters["port"].default
    assert context.params["port"] == port
    assert SERVICES["headwaters"]["ports"] == [f"127.0.0.1:{port}:{port}"]
