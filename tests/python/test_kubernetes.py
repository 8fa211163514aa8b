"""Compare kubernetes.yaml with compose.yaml and with the code: services, settings, commands."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from unittest import mock

import yaml
from test_compose import (
    CLEAN,
    COMPOSE,
    IMAGES,
    PARTS,
    SERVICES,
    check_connect,
    check_daemons,
    commands_in,
    script,
    understood,
)

from headwaters.platform import hive_metastore
from headwaters.platform.hive_metastore import HiveDatabase
from headwaters.platform.object_store import LOG_STORE, OF_S3A
from headwaters.platform.project import Project
from headwaters.streams.ingestion.spark import spark_settings

ROOT = Path(__file__).resolve().parents[2]
OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all((ROOT / "kubernetes.yaml").read_text()))
SECRET = {
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "HEADWATERS_MASTER_SECRET"),
    *("HEADWATERS_METASTORE_PASSWORD", "HEADWATERS_SERVE_KEYS"),
}
FROM_BOTH = [{"configMapRef": {"name": "headwaters"}}, {"secretRef": {"name": "headwaters"}}]


def named(kind: str, name: str) -> dict[str, Any]:
    """Return an object of the file."""
    (found,) = (one for one in OBJECTS if (one["kind"], one["metadata"]["name"]) == (kind, name))
    return found


CONFIG: dict[str, str] = named("ConfigMap", "headwaters")["data"]


def pods() -> dict[str, dict[str, Any]]:
    """Return the specification of each object's pods, by its name."""
    found = {}
    for one in OBJECTS:
        spec = one.get("spec") or {}
        spec = spec.get("jobTemplate", {"spec": spec})["spec"]
        if "template" in spec:
            found[one["metadata"]["name"]] = spec["template"]["spec"]
    return found


def container(name: str, pod: str | None = None) -> dict[str, Any]:
    """Return a container of a pod."""
    (found,) = (one for one in pods()[pod or name]["containers"] if one["name"] == name)
    return dict(found)


def variables(name: str) -> dict[str, Any]:
    """Return the variables of a container: texts, or references to secrets and to its pod."""
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container(name)["env"]}


def test_it_has_the_services_of_compose_ingestion_and_a_job() -> None:
    names = {name: [one["name"] for one in pod["containers"]] for name, pod in pods().items()}
    assert names.pop("connect") == ["metastore", "connect"]
    assert names.pop("trino") == ["metastore", "trino"]
    assert names.pop("flink") == ["flink", "flink-tasks"]
    alone = [*("kafka", "postgres", "objects", "master", "worker"), *("headwaters", "ingestion")]
    assert names == {name: [name] for name in [*alone, "build"]}
    both = {one["name"] for pod in pods().values() for one in pod["containers"]}
    assert both - {"ingestion", "build"} == SERVICES.keys() - {"bucket"}
    for pod in pods().values():
        for one in [*pod["containers"], *pod.get("initContainers", ())]:
            name = one["name"].replace("bucket", "objects")
            assert one["image"] == IMAGES.get(name, "headwaters")


def test_what_is_optional_in_compose_has_no_pods() -> None:
    replicas = {
        one["metadata"]["name"]: one["spec"]["replicas"]
        for one in OBJECTS
        if one["kind"] == "Deployment"
    }
    assert {name for name, number in replicas.items() if not number} == {"trino", "flink"}
    assert replicas["worker"] == SERVICES["worker"]["deploy"]["replicas"]


def test_servers_have_the_settings_of_compose() -> None:
    places = {"KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS"}
    places.add("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP")
    for name in ("kafka", "postgres", "objects", "flink", "flink-tasks"):
        theirs = {key: str(value) for key, value in SERVICES[name]["environment"].items()}
        ours = {
            one["name"]: one.get("value")
            for one in container(name, name.removesuffix("-tasks"))["env"]
        }
        assert ours.keys() == theirs.keys()
        equal = [key for key in theirs if key not in places and "${" not in theirs[key]]
        if name == "objects":
            equal.remove("ROOT_ACCESS_KEY_ID")
        assert {key: ours[key] for key in equal} == {key: theirs[key] for key in equal}
    for name in PARTS["Flink"]:
        assert container(name, "flink")["args"] == [SERVICES[name]["command"]]
    (bucket,) = pods()["objects"]["initContainers"]
    assert bucket["command"] == SERVICES["bucket"]["entrypoint"]


def test_secrets_are_references_and_the_page_makes_each_key() -> None:
    text = (ROOT / "kubernetes.yaml").read_text()
    assert "kind: Secret" not in text
    keys = set()
    for pod in pods().values():
        for one in pod["containers"]:
            for variable in one.get("env", ()):
                if re.search("PASSWORD|KEY", variable["name"]):
                    reference = variable["valueFrom"]["secretKeyRef"]
                    assert reference["name"] == "headwaters", variable
                    keys.add(reference["key"])
            if one["image"] == "headwaters":
                assert one["envFrom"] == FROM_BOTH
    assert keys < SECRET
    page = (ROOT / "docs" / "kubernetes.md").read_text()
    assert set(re.findall(r"--from-literal=([\w-]+)=", page)) == SECRET
    assert not re.search("PASSWORD|SECRET|_KEY", " ".join(CONFIG))


def test_the_configuration_is_that_of_compose() -> None:
    theirs = SERVICES["headwaters"]["environment"]
    differ = {"HEADWATERS_MASTER", "HEADWATERS_CLUSTER"}
    assert theirs.keys() - CONFIG.keys() == SECRET | {"HEADWATERS_POSTGRES"}
    assert CONFIG.keys() <= theirs.keys()
    assert {name for name in CONFIG if CONFIG[name] != theirs[name]} == differ


def test_names_and_ports_of_servers_are_those_of_the_configuration() -> None:
    services = [one for one in OBJECTS if one["kind"] == "Service"]
    ports = {f"{one['metadata']['name']}:{one['spec']['ports'][0]['port']}" for one in services}
    assert all(one["spec"]["selector"]["app"] in pods() for one in services)
    assert CONFIG["KAFKA_BOOTSTRAP_SERVERS"] in ports
    assert CONFIG["AWS_ENDPOINT_URL"].removeprefix("http://") in ports
    assert CONFIG["HEADWATERS_MASTER"].removeprefix("spark://") in ports
    assert CONFIG["HEADWATERS_CLUSTER"].removeprefix("sc://") in ports
    metastore = hive_metastore.parse(CONFIG["HEADWATERS_METASTORE"], {})
    assert isinstance(metastore, HiveDatabase)
    assert f"{metastore.host}:{metastore.port}" in ports
    assert metastore.user == variables("postgres")["POSTGRES_USER"]


def test_only_pods_of_the_namespace_reach_the_pods() -> None:
    """Spark Connect, Kafka and Trino have no authentication there."""
    policy = named("NetworkPolicy", "headwaters")["spec"]
    assert policy == {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]}
    assert [one for one in OBJECTS if one["kind"] == "Service" and "type" in one["spec"]] == []


def test_spark_and_the_metastore_run_the_scripts_of_compose() -> None:
    for name, pod in (
        *(("master", "master"), ("worker", "worker"), ("connect", "connect")),
        *(("metastore", "connect"), ("metastore", "trino")),
    ):
        ours = container(name, pod)
        assert ours["command"] == SERVICES[name]["entrypoint"] == ["bash", "-c"]
        assert [one.rstrip() for one in ours["args"]] == [script(name).rstrip()]
    for name in ("master", "worker"):
        check_daemons(variables(name)["SPARK_DAEMON_JAVA_OPTS"])
    for name in ("master", "worker", "connect"):
        own_address = {"fieldRef": {"fieldPath": "status.podIP"}}
        assert variables(name)["SPARK_LOCAL_HOSTNAME"] == own_address
    (text,) = container("connect")["args"]
    check_connect(
        text, CONFIG | {"HEADWATERS_MASTER_SECRET": "s3cret"}, CONFIG["HEADWATERS_MASTER"]
    )


def test_trino_has_the_catalog_of_compose() -> None:
    ours = named("ConfigMap", "trino")["data"]
    theirs = COMPOSE["configs"]["trino-catalog"]["content"].replace("$$", "$")
    assert ours == {"delta.properties": theirs}
    assert container("trino")["volumeMounts"][0]["mountPath"] == "/etc/trino/catalog"


def test_commands_exist() -> None:
    for pod in pods().values():
        for one in pod["containers"]:
            if one["image"] != "headwaters" or one.get("command") == ["bash", "-c"]:
                continue
            words = one.get("command", one.get("args"))
            assert all(isinstance(word, str) for word in words), "Kubernetes takes no numbers"
            if one["name"] != "build":
                understood(words)
    assert container("build")["command"] == ["dbt", "build", "--target", "cluster"]
    assert " ".join(container("headwaters")["args"]) == SERVICES["headwaters"]["command"]


# -- ingestion -----------------------------------------------------------------------------------


def ingestion(folder: Path) -> dict[str, str]:
    """Return the settings of the Spark of ingestion, from the profile of the ConfigMap."""
    data = named("ConfigMap", "ingestion")["data"]
    (folder / "profiles.yml").write_text(data["profiles.yml"])
    pod = {"POD_IP": "10.1.2.3", "POD_NAME": "ingestion-x", "POD_NAMESPACE": "shop"}
    with mock.patch.dict(os.environ, {**CLEAN, **CONFIG, **pod}, clear=True):
        target = understood(container("ingestion")["args"])["target"]
        project = Project(ROOT, folder, target)
        assert str(project.lake) == CONFIG["HEADWATERS_LAKE"]
        with mock.patch("headwaters.platform.object_store.with_jars", lambda given, say: given):
            return spark_settings(project)


def test_ingestion_is_an_application_of_kubernetes_in_client_mode(tmp_path: Path) -> None:
    settings = ingestion(tmp_path)
    expected = {
        "spark.master": "k8s://https://kubernetes.default.svc",
        "spark.kubernetes.namespace": "shop",
        "spark.kubernetes.driver.pod.name": "ingestion-x",
        "spark.kubernetes.container.image": container("ingestion")["image"],
        "spark.driver.host": "10.1.2.3",
        "spark.authenticate": "true",
        OF_S3A: LOG_STORE,
        "spark.hadoop.fs.s3a.endpoint": CONFIG["AWS_ENDPOINT_URL"],
    }
    assert {name: settings.get(name) for name in expected} == expected
    assert "spark.submit.deployMode" not in settings
    assert "spark.driver.bindAddress" not in settings
    given = variables("ingestion")
    paths = {name: given[name]["fieldRef"]["fieldPath"] for name in given}
    assert paths == {
        "POD_IP": "status.podIP",
        "POD_NAME": "metadata.name",
        "POD_NAMESPACE": "metadata.namespace",
    }
    assert named("Deployment", "ingestion")["spec"]["strategy"] == {"type": "Recreate"}


def test_the_driver_may_start_executors() -> None:
    assert pods()["ingestion"]["serviceAccountName"] == "ingestion"
    binding = named("RoleBinding", "ingestion")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "ingestion"}]
    assert binding["roleRef"]["name"] == "ingestion"
    (rule,) = named("Role", "ingestion")["rules"]
    assert {"pods", "configmaps"} <= set(rule["resources"])
    assert {"create", "get", "list", "watch", "deletecollection"} <= set(rule["verbs"])
    others = {pod.get("serviceAccountName") for name, pod in pods().items() if name != "ingestion"}
    assert others == {None}


def test_executors_run_spark_of_the_project_image(tmp_path: Path) -> None:
    """The image's entry point is headwaters, so the template has the command of an executor."""
    file = ingestion(tmp_path)["spark.kubernetes.executor.podTemplateFile"]
    folder, _, name = file.rpartition("/")
    assert container("ingestion")["volumeMounts"] == [{"name": "profile", "mountPath": folder}]
    assert pods()["ingestion"]["volumes"] == [
        {"name": "profile", "configMap": {"name": "ingestion"}}
    ]
    template = yaml.safe_load(named("ConfigMap", "ingestion")["data"][name])
    (executor,) = template["spec"]["containers"]
    shell, option, text = executor["command"]
    assert (shell, option) == ("bash", "-c")
    assert "args" not in executor, "Spark adds its own behind them"
    backend = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
    words = text.replace("\\\n", " ").split(backend)[1].split()
    assert dict(zip(words[::2], words[1::2], strict=True)) == {
        "--driver-url": '"$SPARK_DRIVER_URL"',
        "--executor-id": '"$SPARK_EXECUTOR_ID"',
        "--cores": '"$SPARK_EXECUTOR_CORES"',
        "--app-id": '"$SPARK_APPLICATION_ID"',
        "--hostname": '"$SPARK_EXECUTOR_POD_IP"',
        "--resourceProfileId": '"$SPARK_RESOURCE_PROFILE_ID"',
        "--podName": '"$SPARK_EXECUTOR_POD_NAME"',
    }


def test_the_page_submits_a_command_of_ours() -> None:
    """Parse the `spark-submit` of docs/cluster.md, and the file that it submits."""
    page = (ROOT / "docs" / "cluster.md").read_text()
    (block,) = re.findall(r"```bash\n([^`]*?spark-submit --master[^`]*?)```", page)
    file, program = re.findall(r"cat > (\w+\.py) <<'END'\n(.*?)END\n", block, flags=re.S)[0]
    assert program.split() == ["from", "headwaters.cli", "import", "main", "main()"]
    assert file != "headwaters.py", "it would hide the package"
    (line,) = re.findall(r"^spark-submit (?:.*\\\n)*.*", block, flags=re.M)
    before, _, command = line.replace("\\\n", " ").partition(f" {file} ")
    options = re.findall(r"(--[\w-]+) (\"[^\"]*\"|\S+)", before)
    assert [name for name, _ in options] == ["--master", "--driver-memory", "--jars"]
    assert commands_in(dict(options)["--jars"].strip('"')) == [["store", "jars"]]
    params = understood(command.split())
    profile = yaml.safe_load((ROOT / "profiles" / "profiles.yml").read_text())["headwaters"]
    assert params["target"] in profile["outputs"]
