"""Compare kubernetes.yaml with compose.yaml and with the code: images, settings, commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from typer.main import get_command

from headwaters.cli import app
from headwaters.platform import hive_metastore
from headwaters.platform.hive_metastore import HiveDatabase

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all((ROOT / "kubernetes.yaml").read_text()))
CONFIG: dict[str, str] = next(one["data"] for one in OBJECTS if one["kind"] == "ConfigMap")


def pods() -> dict[str, dict[str, Any]]:
    """Return the specification of each object's pods, by its name."""
    found = {}
    for one in OBJECTS:
        spec = one.get("spec") or {}
        spec = spec.get("jobTemplate", {"spec": spec})["spec"]
        if "template" in spec:
            found[one["metadata"]["name"]] = spec["template"]["spec"]
    return found


def containers(name: str) -> list[dict[str, Any]]:
    pod = pods()[name]
    return [*pod.get("initContainers", ()), *pod["containers"]]


def variables(name: str) -> dict[str, Any]:
    """Return the variables of an object's container: texts, or references to secrets."""
    (container,) = pods()[name]["containers"]
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container["env"]}


def test_it_has_the_servers_of_compose_and_jobs_of_the_project() -> None:
    assert sorted(pods()) == ["build", "kafka", "metastore-init", "objects", "postgres"]
    ours = {name: {one["image"] for one in containers(name)} for name in pods()}
    theirs = {name: {service["image"]} for name, service in COMPOSE.items()}
    image = theirs.pop("headwaters")
    assert ours == theirs | {"build": image, "metastore-init": image}


def test_servers_have_the_settings_of_compose() -> None:
    places = {"KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS"}
    places.add("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP")
    for name in ("kafka", "postgres", "objects"):
        theirs = {key: str(value) for key, value in COMPOSE[name]["environment"].items()}
        ours = variables(name)
        assert ours.keys() == theirs.keys()
        equal = [key for key in theirs if key not in places and "${" not in theirs[key]]
        if name == "objects":
            equal.remove("ROOT_ACCESS_KEY_ID")
        assert {key: ours[key] for key in equal} == {key: theirs[key] for key in equal}


def test_secrets_are_references_and_one_secret_has_all() -> None:
    text = (ROOT / "kubernetes.yaml").read_text()
    assert "kind: Secret" not in text
    keys = set()
    for name in pods():
        for container in containers(name):
            for one in container.get("env", ()):
                if re.search("PASSWORD|KEY", one["name"]):
                    assert one["valueFrom"]["secretKeyRef"]["name"] == "headwaters", one
                    keys.add(one["valueFrom"]["secretKeyRef"]["key"])
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    assert set(re.findall(r"--from-literal=([\w-]+)=", page)) == keys
    assert not re.search("PASSWORD|KEY", " ".join(CONFIG))


def test_names_and_ports_of_servers_are_those_of_the_configuration() -> None:
    ports = {
        f"{one['metadata']['name']}:{one['spec']['ports'][0]['port']}"
        for one in OBJECTS
        if one["kind"] == "Service"
    }
    assert CONFIG["KAFKA_BOOTSTRAP_SERVERS"] in ports
    assert CONFIG["AWS_ENDPOINT_URL"].removeprefix("http://") in ports
    named = hive_metastore.parse(CONFIG["HEADWATERS_METASTORE"], {})
    assert isinstance(named, HiveDatabase)
    assert f"{named.host}:{named.port}" in ports
    assert named.user == variables("postgres")["POSTGRES_USER"]


def test_commands_exist() -> None:
    (container,) = containers("metastore-init")
    group = get_command(app).commands[container["args"][0]]  # type: ignore[attr-defined]
    assert container["args"][1] in group.commands
    (build,) = containers("build")
    assert build["command"] == ["dbt", "build"]
    first = re.search(r'^ENTRYPOINT \["headwaters"\]$', (ROOT / "Dockerfile").read_text(), re.M)
    assert first
