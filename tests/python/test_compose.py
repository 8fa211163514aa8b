"""Compare compose.yaml and Dockerfile with the code: services, versions, settings, variables."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any
from unittest import mock

import yaml
from typer.main import get_command

from headwaters.cli import app, serve
from headwaters.devkit import cluster, flink, objects, services, trino
from headwaters.devkit.broker import _properties
from headwaters.platform import hive_metastore, object_store, postgres
from headwaters.platform.cluster import Master
from headwaters.platform.hive_metastore import HiveDatabase, HiveService
from headwaters.platform.project import Project
from headwaters.platform.spark_version import JAVA_PROVEN

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
VARIABLES = re.compile(r"env_var\('(\w+)'")
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PAGE = (ROOT / "docs" / "platform.md").read_text()

# The containers of each service of `headwaters platform start`.
PARTS = {
    "PostgreSQL": {"postgres"},
    "S3": {"objects"},
    "metastore": {"metastore"},
    "Spark": {"master", "worker", "connect"},
    "Kafka": {"kafka"},
    "Trino": {"trino"},
    "Flink": {"flink", "flink-tasks"},
}
IMAGES = {
    "kafka": "apache/kafka:4.1.1",
    "postgres": "postgres:18",
    "objects": f"versity/versitygw:{objects.VERSION}",
    "trino": f"trinodb/trino:{trino.VERSION}",
    "flink": f"flink:{flink.VERSION}",
    "flink-tasks": f"flink:{flink.VERSION}",
}
KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
# The environment without the variables of a shell that uses a platform.
CLEAN = {n: v for n, v in os.environ.items() if not n.startswith(("AWS_", "DBT_", "HEADWATERS_"))}
# Those that run on the project's image.
OURS = {"master", "worker", "metastore", "connect", "headwaters"}
# Settings of a driver on this machine, which the containers do not need.
OF_THE_MACHINE = {
    "spark.app.name",
    "spark.driver.bindAddress",
    "spark.driver.extraJavaOptions",
    "spark.driver.host",
    "spark.driver.memory",
    "spark.hadoop.fs.permissions.umask-mode",
    "spark.hadoop.hive.warehouse.subdir.inherit.perms",
    "spark.ui.showConsoleProgress",
    "spark.sql.parquet.datetimeRebaseModeInWrite",
    "spark.sql.parquet.outputTimestampType",
}


def script(name: str) -> str:
    """Return the shell script of a service, as its shell gets it."""
    (text,) = SERVICES[name]["command"]
    return str(text).replace("$$", "$")


def expanded(text: str, variables: dict[str, str]) -> str:
    """Return a text with the values of variables."""
    return re.sub(r"\$([A-Z]\w+)", lambda found: variables[found[1]], text)


def connect_settings(text: str, variables: dict[str, str]) -> dict[str, str]:
    """Return the settings that the script of the Connect server writes."""
    (written,) = re.findall(r"<<END\n(.*?)\nEND\n", text, flags=re.S)
    lines = (line.split(" ", 1) for line in expanded(written, variables).splitlines())
    return {name: value for name, value in lines}


def platform_settings(master: Master, variables: dict[str, str]) -> dict[str, str]:
    """Return the settings of the Connect server of `headwaters platform start`."""
    with mock.patch.dict(os.environ, {**CLEAN, **variables}, clear=True):
        given = Project(ROOT, ROOT / "profiles", "local").spark_settings()
    del given[hive_metastore.SETTING]
    service = HiveService("127.0.0.1", hive_metastore.THRIFT_PORT).settings()
    given |= {f"spark.hadoop.{name}": value for name, value in service.items()}
    return cluster.application_settings(given, master, cluster.WORKERS)


def check_connect(text: str, variables: dict[str, str], master: str) -> None:
    """Compare the settings of a Connect server in a container with those of the platform."""
    ours = connect_settings(text, variables)
    assert ours.pop("spark.jars") == "$(headwaters store jars)"
    ours["spark.master"] = ours["spark.master"].replace(master, "spark://127.0.0.1:7077")
    expected = platform_settings(
        Master(1, 7077, 0, variables["HEADWATERS_MASTER_SECRET"]), variables
    )
    assert ours.pop("spark.driver.memory") == "2g"
    assert expected.keys() - ours.keys() == OF_THE_MACHINE
    assert ours == {name: value for name, value in expected.items() if name in ours}
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    assert f"exec spark-submit --class {server} --name connect" in text
    assert ours[object_store.WAREHOUSE] == services.WAREHOUSE


def check_daemons(options: str) -> None:
    """Compare the Java options of masters and workers with the settings of the platform's."""
    given = dict(word[2:].split("=", 1) for word in options.split() if word.startswith("-D"))
    theirs = cluster.daemon_settings(Path("/lake"), "s")
    assert given.items() <= theirs.items()
    assert theirs.keys() - given.keys() == {
        "spark.authenticate.secret",
        "spark.deploy.recoveryMode",
        "spark.deploy.recoveryDirectory",
        "spark.port.maxRetries",
    }


def test_it_has_the_services_of_the_platform() -> None:
    assert list(PARTS) == [service.name for service in services.ALL]
    assert set(SERVICES) == set().union(*PARTS.values()) | {"headwaters", "bucket"}
    required = [service.name for service in services.SERVICES]
    optional = set().union(*(parts for name, parts in PARTS.items() if name not in required))
    assert {name for name, service in SERVICES.items() if "profiles" in service} == optional
    assert SERVICES["worker"]["deploy"]["replicas"] == cluster.WORKERS


def test_everything_listens_on_loopback_and_at_one_port() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert [port for port in ports if not re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port)] == []
    assert len(set(ports)) == len(ports)
    shared = {service.get("network_mode") for service in SERVICES.values()}
    assert shared == {None, "service:master", "service:flink"}


def test_services_without_authentication_share_the_loopback_of_those_that_use_them() -> None:
    shared = {
        name
        for name, service in SERVICES.items()
        if service.get("network_mode") == "service:master"
    }
    assert shared == (OURS | {"trino"}) - {"master"}
    assert "127.0.0.1:9083:9083" not in SERVICES["master"]["ports"]


def test_images_are_short_names_and_the_versions_those_of_development() -> None:
    images = {name: service["image"] for name, service in SERVICES.items()}
    first = re.search(r"^FROM (\S+)$", DOCKERFILE, flags=re.M)
    assert first
    for image in (*images.values(), first[1]):
        host, slash, _ = image.partition("/")
        assert not slash or not re.search(r"[.:]", host), image
    assert images == IMAGES | {"bucket": IMAGES["objects"]} | dict.fromkeys(OURS, "headwaters")
    assert all(SERVICES[name]["build"] == "." for name in OURS)
    module = (ROOT / "scripts/headwaters/devkit/kafka-broker.xml").read_text()
    broker = re.search(r'name="kafka_2\.13" rev="([\d.]+)"', module)
    assert broker and images["kafka"] == f"apache/kafka:{broker[1]}"
    python = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert first[1].startswith(f"python:{python.removeprefix('>=')}-")
    java = re.search(r"openjdk-(\d+)-jre", DOCKERFILE)
    assert java and int(java[1]) in JAVA_PROVEN


def test_the_object_store_is_the_one_of_the_tests_and_has_the_bucket_of_the_lake() -> None:
    store, published = SERVICES["objects"], SERVICES["objects"]["ports"][0].split(":")[-1]
    assert store["environment"]["VGW_PORT"] == f":{published}"
    assert store["environment"]["VGW_REGION"] == objects.REGION
    assert SERVICES["bucket"]["entrypoint"] == ["mkdir", "-p", f"/data/{objects.BUCKET}"]
    assert store["command"] == "posix /data"
    page = (ROOT / "docs" / "object-store.md").read_text()
    assert f"github.com/versity/versitygw/cmd/versitygw@{objects.VERSION}\n" in page
    assert f"{published} the S3 store" in (ROOT / "docs" / "platform.md").read_text()


def test_the_lake_is_in_the_object_store() -> None:
    expected = objects.ObjectStore(1, 7070, "headwaters", "${HEADWATERS_S3_PASSWORD:?}")
    variables = {**expected.variables(), "AWS_ENDPOINT_URL": "http://objects:7070"}
    keys = {name: SERVICES["objects"]["environment"][f"ROOT_{name[4:]}"] for name in KEYS}
    assert keys == {name: variables[name] for name in KEYS}
    for name in ("metastore", "connect", "headwaters"):
        ours = SERVICES[name]["environment"]
        assert {key: ours[key] for key in variables} == variables
        assert ours["HEADWATERS_LAKE"] == services.LAKE
    assert {name: SERVICES["trino"]["environment"][name] for name in KEYS} == keys
    assert not [service for name in OURS if (service := SERVICES[name].get("volumes"))]


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


def test_postgresql_is_that_of_publications_and_of_the_metastore() -> None:
    database, ours = SERVICES["postgres"]["environment"], SERVICES["headwaters"]["environment"]
    user, password = database["POSTGRES_USER"], database["POSTGRES_PASSWORD"]
    assert (user, database["POSTGRES_DB"]) == (postgres.USER, postgres.DATABASE)
    address = f"postgresql://{user}:{password}@postgres:5432/{postgres.DATABASE}"
    assert ours[postgres.VARIABLE] == address
    named = hive_metastore.parse(ours[hive_metastore.VARIABLE], ours)
    assert named == HiveDatabase(
        "postgres", 5432, hive_metastore.DATABASE, postgres.USER, password=password
    )
    assert ours["KAFKA_BOOTSTRAP_SERVERS"] in SERVICES["kafka"]["environment"][
        "KAFKA_ADVERTISED_LISTENERS"
    ].replace("PLAINTEXT://", "")


def test_spark_has_the_settings_of_the_platform() -> None:
    connect = SERVICES["connect"]["environment"]
    check_connect(script("connect"), connect, connect["HEADWATERS_MASTER"])
    for name in ("master", "worker"):
        daemon = SERVICES[name]["environment"]
        check_daemons(daemon["SPARK_DAEMON_JAVA_OPTS"])
        assert f"exec spark-class org.apache.spark.deploy.{name}.{name.title()} " in script(name)
        assert 'echo "spark.authenticate.secret $HEADWATERS_MASTER_SECRET"' in script(name)
        assert "--properties-file /tmp/daemon.conf" in script(name)
    assert " --cores 1 " in script("worker")
    # Spark takes it for the memory of a Connect server
    assert "SPARK_DAEMON_MEMORY" not in connect


def test_the_targets_cluster_and_ingestion_find_the_cluster() -> None:
    ours, spark = SERVICES["headwaters"]["environment"], SERVICES["connect"]["environment"]
    for name in ("HEADWATERS_MASTER", "HEADWATERS_MASTER_SECRET"):
        assert ours[name] == spark[name] == SERVICES["master"]["environment"][name]
    token = spark["SPARK_CONNECT_AUTHENTICATE_TOKEN"]
    assert ours["HEADWATERS_CLUSTER"] == f"sc://localhost:15002/;token={token}"
    with mock.patch.dict(os.environ, {**CLEAN, **ours}, clear=True):
        ingestion = Project(ROOT, ROOT / "profiles", "ingestion").spark_settings()
        dbt = Project(ROOT, ROOT / "profiles", "cluster").credentials.server_side_parameters
    assert ingestion["spark.master"] == ours["HEADWATERS_MASTER"]
    assert ingestion["spark.authenticate"] == "true"
    assert ingestion["spark.driver.host"] == spark["SPARK_LOCAL_HOSTNAME"] == "127.0.0.1"
    assert dbt["spark.remote"] == ours["HEADWATERS_CLUSTER"]


def test_trino_has_the_catalog_of_the_platform() -> None:
    mounted = {one["target"]: one["source"] for one in SERVICES["trino"]["configs"]}
    texts = {name: one["content"].replace("$$", "$") for name, one in COMPOSE["configs"].items()}
    service = HiveService("127.0.0.1", hive_metastore.THRIFT_PORT)
    store = object_store.addresses(SERVICES["connect"]["environment"])
    theirs = trino.files(8090, Path("/data"), service.address, store)
    files = ("config.properties", f"catalog/{trino.CATALOG}.properties")
    assert {file: texts[mounted[f"/etc/trino/{file}"]] for file in files} == {
        file: theirs[file] for file in files
    }
    assert "127.0.0.1:8090:8090" in SERVICES["master"]["ports"]
    assert f"--port {service.port} " in script("metastore")


def test_flink_has_the_settings_of_the_platform() -> None:
    ours = yaml.safe_load(SERVICES["flink"]["environment"]["FLINK_PROPERTIES"])
    assert SERVICES["flink-tasks"]["environment"] == SERVICES["flink"]["environment"]
    theirs = flink.settings(Path("/lake"), 1, 2)
    assert {name: str(value).lower() for name, value in ours.items()}.items() <= theirs.items()
    commands = {name: SERVICES[name]["command"] for name in PARTS["Flink"]}
    assert commands == {"flink": "jobmanager", "flink-tasks": "taskmanager"}


def test_every_variable_is_one_that_the_project_reads() -> None:
    files = [*ROOT.glob("scripts/**/*.py"), *ROOT.glob("models/**/*.yml"), *ROOT.glob("profiles/*")]
    read = "\n".join(file.read_text() for file in files)
    named = {name for ours in OURS for name in SERVICES[ours]["environment"]}
    of_spark = {"SPARK_LOCAL_HOSTNAME", "SPARK_DAEMON_MEMORY", "SPARK_DAEMON_JAVA_OPTS"}
    assert [name for name in named - of_spark if not re.search(rf"\b{name}\b", read)] == []
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


def test_no_secret_is_in_the_file_and_the_page_sets_each() -> None:
    secrets = re.compile("PASSWORD|SECRET|TOKEN|KEYS")
    given = [pair for one in SERVICES.values() for pair in one.get("environment", {}).items()]
    values = {str(value) for name, value in given if secrets.search(name)}
    assert [value for value in values if not re.fullmatch(r"\$\{[A-Z0-9_]+:\?\}", value)] == []
    text = (ROOT / "compose.yaml").read_text()
    required = set(re.findall(r"\$\{([A-Z0-9_]+):\?\}", text))
    assert required == {
        *("HEADWATERS_POSTGRES_PASSWORD", "HEADWATERS_S3_PASSWORD", "HEADWATERS_SERVE_KEYS"),
        *("HEADWATERS_MASTER_SECRET", "HEADWATERS_CLUSTER_TOKEN"),
    }
    (section,) = re.findall(r"## The same with containers\n(.*)", PAGE, flags=re.S)
    assert set(re.findall(r"\b(HEADWATERS_\w+)=\$\(openssl", section)) == required


def understood(words: list[str]) -> dict[str, Any]:
    """Return the parameters of a headwaters command. Raises an error of click for a wrong one."""
    command = get_command(app)
    while hasattr(command, "commands"):
        command, words = command.commands[words[0]], words[1:]
    return command.make_context(command.name, list(words)).params


def commands_in(text: str) -> list[list[str]]:
    """Return the arguments of the headwaters commands in a script."""
    found = re.findall(r"(?:^|\()headwaters ([\w -]+)|&& headwaters ([\w -]+)", text, flags=re.M)
    return [shlex.split(one or other) for one, other in found]


def test_the_commands_of_the_containers_are_ours() -> None:
    params = understood(shlex.split(SERVICES["headwaters"]["command"]))
    port = inspect.signature(serve).parameters["port"].default
    assert params["port"] == port
    assert f"127.0.0.1:{port}:{port}" in SERVICES["master"]["ports"]
    scripts = {name: commands_in(script(name)) for name in OURS - {"headwaters"}}
    assert scripts == {
        "master": [],
        "worker": [],
        "metastore": [["metastore", "init"], ["metastore", "serve", "--port", "9083"]],
        "connect": [["store", "jars"]],
    }
    (fetched,) = re.findall(r"^RUN headwaters (.*?) \\$", DOCKERFILE, flags=re.M)
    for words in (*chain(*scripts.values()), shlex.split(fetched)):
        understood(words)
    assert re.search(r'^ENTRYPOINT \["headwaters"\]$', DOCKERFILE, flags=re.M)
