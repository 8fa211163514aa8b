"""Test the cluster's settings and state, and by `make test-platform` a cluster that runs."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from processes import environment

from headwaters.devkit import cluster
from headwaters.devkit.cluster import (
    application_settings,
    daemon_settings,
    missing,
    parts,
    properties,
    status,
    write_conf,
)
from headwaters.platform import cluster as clusters
from headwaters.platform import engine
from headwaters.platform.cluster import Master, record
from headwaters.platform.engine import Engine
from headwaters.platform.errors import UserError
from headwaters.platform.jars import installed_pyspark
from headwaters.platform.project import Project
from headwaters.platform.servers import Server, alive

MASTER = Master(1, 7077, 8080, "s3cret")


def test_the_connect_server_leaves_a_core_for_ingestion() -> None:
    given = {"spark.master": "local[*]", "spark.sql.warehouse.dir": "w", "spark.cores.max": "9"}
    assert application_settings(given, MASTER, 3) == {
        "spark.sql.catalogImplementation": "hive",
        "spark.cores.max": "9",
        "spark.scheduler.mode": "FAIR",
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC",
        "spark.sql.warehouse.dir": "w",
        "spark.master": "spark://127.0.0.1:7077",
        "spark.authenticate": "true",
        "spark.authenticate.secret": "s3cret",
        "spark.network.crypto.enabled": "true",
        "spark.executor.cores": "1",
    }
    assert application_settings({}, MASTER, 2)["spark.cores.max"] == "1"


def test_a_cluster_of_one_worker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--workers 1: a cluster needs two or more"):
        cluster.start(Project(tmp_path), print, workers=1)


def test_master_and_workers_authenticate_and_stay_at_their_ports(tmp_path: Path) -> None:
    settings = daemon_settings(tmp_path, "s3cret")
    assert settings == {
        "spark.authenticate": "true",
        "spark.authenticate.secret": "s3cret",
        "spark.network.crypto.enabled": "true",
        "spark.deploy.recoveryMode": "FILESYSTEM",
        "spark.deploy.recoveryDirectory": f"{tmp_path}/cluster/recovery",
        "spark.master.rest.enabled": "false",
        "spark.worker.cleanup.enabled": "true",
        "spark.ui.killEnabled": "false",
        "spark.port.maxRetries": "0",
    }


def test_the_memory_of_daemons_is_not_that_of_the_connect_server(tmp_path: Path) -> None:
    """The variables of the machine's own Spark do not reach the cluster, apart from two."""
    given = {
        "PATH": "/bin",
        "SPARK_DAEMON_MEMORY": "9g",
        "SPARK_CONF_DIR": "/etc/spark",
        "SPARK_REMOTE": "sc://elsewhere",
        "SPARK_DIST_CLASSPATH": "a.jar",
    }
    connect = cluster.environment(tmp_path / "conf", given)
    assert connect == {
        "PATH": "/bin",
        "SPARK_DIST_CLASSPATH": "a.jar",
        "SPARK_CONF_DIR": f"{tmp_path}/conf",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": connect["SPARK_HOME"],
        "SPARK_LOCAL_DIRS": f"{tmp_path}/local",
        "SPARK_SCALA_VERSION": "2.13",
    }
    daemon = cluster.environment(tmp_path / "conf", given, "256m")
    assert daemon == connect | {
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }


def test_settings_are_written_as_java_reads_them() -> None:
    assert properties({"spark.a": "x y", "spark.b": "C:\\d\nnext"}) == (
        "spark.a=x y\nspark.b=C:\\\\d\\nnext\n"
    )


def test_the_folder_of_settings_is_for_its_owner_alone(tmp_path: Path) -> None:
    conf = write_conf(tmp_path)
    assert stat.S_IMODE(conf.stat().st_mode) == 0o700
    assert [file.name for file in conf.iterdir()] == ["log4j2.properties"]


def test_a_stale_record_of_a_process_is_not_a_running_one(tmp_path: Path) -> None:
    assert (missing(tmp_path), status(tmp_path)) == (["connect", "master"], [])
    # this process runs and listens at no such port
    Master(os.getpid(), 1, 2, "s").remember(record(tmp_path, "master"))
    Server(os.getpid(), 1).remember(record(tmp_path, "worker-1"))
    Engine(os.getpid(), 1, "token").remember(record(tmp_path, "connect"))
    assert parts(tmp_path) == {}
    assert missing(tmp_path) == ["connect", "master", "worker-1"]
    assert cluster.stop(tmp_path) == []
    assert alive(os.getpid())


@pytest.mark.parametrize(
    ("remote", "command"),
    [
        ("sc://localhost:7001/;token=x", "`headwaters engine start`"),
        ("sc://localhost:7002/;token=x", "`headwaters cluster start`"),
        ("sc://localhost:7003/;token=x", "by the command of its cluster"),
        ("sc://elsewhere:7002/;token=x", "by the command of its cluster"),
        ("sc://elsewhere", "by the command of its cluster"),
        (None, "by the command of its cluster"),
    ],
)
def test_the_error_of_a_lost_server_names_its_own_command(
    remote: str | None, command: str, tmp_path: Path
) -> None:
    Engine(1, 7001).remember(engine.record(tmp_path))
    Engine(1, 7002).remember(record(tmp_path, "connect"))
    text = str(clusters.ended(remote, tmp_path))
    assert text.startswith("[HW_SPARK_ENDED] the Spark server no longer answers: ")
    assert text.endswith(f"Start it again: {command}. The next run resumes")


# -- a cluster that runs -------------------------------------------------------------------------

FILES = {
    "dbt_project.yml": "name: shop\nversion: 1.0.0\nprofile: shop\n",
    "profiles.yml": "shop:\n  target: dev\n  outputs:\n"
    "    dev: {type: headwaters, schema: gold, threads: 2}\n"
    "    cluster: {type: headwaters, schema: gold, threads: 2, server_side_parameters: "
    "{spark.remote: the cluster of this lake}}\n",
    "seeds/orders.csv": "id,customer,amount\n1,ann,10\n2,bob,30\n3,ann,20\n",
    "models/totals.sql": "{{ config(materialized='incremental', incremental_strategy='auto') }}\n"
    "select orders.customer, sum(orders.amount) as amount\n"
    "from {{ ref('orders') }} as orders group by orders.customer\n",
}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Path]:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    yield tmp_path
    cluster.stop(tmp_path / "lake")


def run(folder: Path, *words: str, code: int = 0) -> str:
    """Run a command in a project, and return what it prints."""
    command = ["-m", "headwaters.cli"] if words[0] == "headwaters" else ["-m", "dbt.cli.main"]
    variables = environment(folder / "lake") | {"HEADWATERS_DRIVER_MEMORY": "1g"}
    ran = subprocess.run(
        [sys.executable, *command, *words[1:]],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def pid(folder: Path, part: str) -> int:
    return int(json.loads(record(folder / "lake", part).read_text())["pid"])


BUILD = ("dbt", "build", "--target", "cluster")


@pytest.mark.platform
def test_a_project_is_built_on_a_cluster(shop: Path) -> None:
    started = run(shop, "headwaters", "cluster", "start").splitlines()
    assert [line.split(" at ")[0] for line in started] == [
        "master",
        "2 workers of one core",
        "Spark Connect",
    ]
    again = run(shop, "headwaters", "cluster", "start")
    assert again.startswith("nothing to do: the cluster runs, with Spark Connect at sc://")
    assert "PASS=2" in run(shop, *BUILD)
    assert "1 of 2 cores free" in run(shop, "headwaters", "cluster", "status")

    connect, master = clusters.find(shop / "lake"), clusters.master(shop / "lake")
    assert connect and master
    servers = parts(shop / "lake").values()
    commands = [Path(f"/proc/{one.pid}/cmdline").read_text() for one in servers]
    assert [line for line in commands if connect.token in line or master.secret in line] == []
    stopped = run(shop, "headwaters", "cluster", "stop")
    assert stopped == "stopped connect, worker-2, worker-1, master\n"
    assert [one for one in servers if alive(one.pid)] == []
    assert run(shop, "headwaters", "cluster", "status", code=1) == "no cluster runs here\n"


@pytest.mark.platform
def test_processes_of_a_cluster_that_are_killed_are_started_again(shop: Path) -> None:
    run(shop, "headwaters", "cluster", "start")
    os.kill(pid(shop, "connect"), signal.SIGKILL)
    said = run(shop, "headwaters", "cluster", "status", code=1)
    assert said.splitlines()[-1] == "connect does not run"
    refused = run(shop, *BUILD, code=2)
    assert "no cluster runs on this lake: start one with `headwaters cluster start`" in refused

    os.kill(pid(shop, "master"), signal.SIGKILL)
    os.kill(pid(shop, "worker-1"), signal.SIGKILL)
    started = run(shop, "headwaters", "cluster", "start").splitlines()
    assert [line.split(" at ")[0] for line in started][::2] == ["master", "Spark Connect"]
    assert "PASS=2" in run(shop, *BUILD)


@pytest.mark.platform
def test_workers_without_the_jars_are_named(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker's Spark is one that a stranger has installed, without Delta."""
    bare = shop / "spark"
    (bare / "jars").mkdir(parents=True)
    for jar in (installed_pyspark() / "jars").glob("*.jar"):
        if not jar.name.startswith("delta-"):
            (bare / "jars" / jar.name).symlink_to(jar)
    given = cluster.environment

    def environment_of(conf: Path, variables: Mapping[str, str], memory: str = "") -> Any:
        own = {"SPARK_HOME": str(bare)} if memory else {}
        return given(conf, variables, memory) | own

    monkeypatch.setattr(cluster, "environment", environment_of)
    cluster.start(Project(shop), print)
    said = run(shop, *BUILD, code=1)
    assert "[HW_EXECUTOR_JARS] the Spark of a worker lacks jars that its driver has" in said
    cluster.stop(shop / "lake")
    jars = [str(jar) for jar in (installed_pyspark() / "jars").glob("delta-*.jar")]
    cluster.start(Project(shop), print, settings={"spark.jars": ",".join(jars)})
    assert "PASS=2" in run(shop, *BUILD)
