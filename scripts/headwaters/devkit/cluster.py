"""The start and stop of a lake's cluster; `headwaters.platform.cluster` finds a running one.

Its processes are those of any standalone cluster, from the jars of pip's pyspark. They listen on
127.0.0.1, and require a secret that only the owner's files have.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from headwaters.devkit.servers import end, page, starting
from headwaters.platform import atomic_write, cluster, hive_metastore, metastore, object_store
from headwaters.platform import lake as lakes
from headwaters.platform.cluster import Master, folder, record
from headwaters.platform.engine import Engine
from headwaters.platform.errors import UserError, WorkError
from headwaters.platform.jars import installed_pyspark, spark_java
from headwaters.platform.project import Project
from headwaters.platform.servers import Server
from headwaters.platform.spark_driver import logging_to

Say = Callable[[str], None]

WORKERS = 2
# A process starts in three seconds on a quiet machine, the Connect server in fifteen.
PATIENCE = 180.0
# Variables of Spark that its processes keep; others would change their ports, memory or settings.
_KEPT = ("SPARK_DIST_CLASSPATH", "SPARK_LOCAL_DIRS")
_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1} %m%n%ex{short}
logger.deploy.name = org.apache.spark.deploy
logger.deploy.level = info
"""


def start(
    project: Project,
    say: Say,
    workers: int = WORKERS,
    settings: Mapping[str, str] | None = None,
    patience: float = PATIENCE,
) -> Engine:
    """Start the processes of this lake's cluster that do not run, and wait until they are ready.

    Returns the Spark Connect server, which has the Spark settings of the project's target, with
    `settings` on top. `say` prints a line for each process that was started. If one does not start,
    those started before it end again. Raises WorkError if a process ends or another one holds the
    embedded metastore.
    """
    if workers < 2:
        raise UserError(
            "HW_ARGUMENT",
            f"--workers {workers}: a cluster needs two or more, one of which is left for ingestion",
        )
    lake = project.local
    lakes.enter(lake)
    before = parts(lake)
    with ExitStack() as started:
        conf = write_conf(lake)
        master = cluster.master(lake)
        if master is None:
            master = started.enter_context(_master(lake, conf, patience, is_first=not before))
            say(f"master at {master.address}, its page at http://127.0.0.1:{master.page}")
        for number in range(1, workers + 1):
            if Server.running(record(lake, f"worker-{number}")) is None:
                started.enter_context(_worker(lake, conf, master, number, patience))
        registered = _await_workers(master, workers, patience)
        connect = cluster.find(lake)
        if connect is None:
            say(f"{registered} workers of one core")
            own = _settings(project, master, workers, settings or {})
            connect = started.enter_context(_connect(project, conf, own, patience))
            say(f"Spark Connect at {connect.address}: dbt build --target cluster")
    return connect


def stop(lake: Path) -> list[str]:
    """Stop the processes of this lake's cluster, the last started first; return their names."""
    running = parts(lake)
    for server in reversed(running.values()):
        end(server.pid)
    for file in folder(lake).glob("worker-*.json"):
        file.unlink()
    shutil.rmtree(folder(lake) / "recovery", ignore_errors=True)
    return list(running)


def parts(lake: Path) -> dict[str, Server]:
    """Return the running processes of a lake's cluster by name, in the order of their start."""
    files = [record(lake, "master"), *sorted(folder(lake).glob("worker-*.json"))]
    found = {file.stem: Server.running(file) for file in files}
    found["master"], found["connect"] = cluster.master(lake), cluster.find(lake)
    return {name: server for name, server in found.items() if server}


def missing(lake: Path) -> list[str]:
    """Return the processes of a lake's cluster that ended, or were never started."""
    files = folder(lake).glob("*.json")
    expected = {"master", "connect", *(file.stem for file in files)}
    return sorted(expected - parts(lake).keys())


def status(lake: Path) -> list[str]:
    """Return a line for each process that runs, in the order of the start."""
    lines = []
    for name, server in parts(lake).items():
        if isinstance(server, Master):
            state = _state(server)
            cores = f"{state['cores'] - state['coresused']} of {state['cores']} cores free"
            where = f"at {server.address}, {cores}, its page at http://127.0.0.1:{server.page}"
        elif isinstance(server, Engine):
            where = f"at {server.address}"
        else:
            where = f"with its page at http://127.0.0.1:{server.port}"
        lines.append(f"{name} {where}, process {server.pid}")
    return lines


def _state(master: Master) -> dict[str, Any]:
    """Return the state of the master: its workers, applications and cores."""
    nothing = {"aliveworkers": 0, "cores": 0, "coresused": 0, "activeapps": []}
    return {**nothing, **page(master.page, "/json/")}


# -- arguments and settings ----------------------------------------------------------------------


def write_conf(lake: Path) -> Path:
    """Write the configuration folder of the processes, and return it.

    A checkout's own (conf/spark) would start Java by a wrapper that changes its class path.
    """
    conf = folder(lake) / "conf"
    conf.mkdir(parents=True, exist_ok=True)
    conf.chmod(0o700)
    atomic_write.write(conf / "log4j2.properties", _LOGGING)
    return conf


def properties(settings: Mapping[str, str]) -> str:
    """Return settings in the format of Java's properties."""
    lines = []
    for name, value in settings.items():
        escaped = value.replace("\\", "\\\\").replace("\n", "\\n")
        lines.append(f"{name}={escaped}\n")
    return "".join(lines)


def daemon_settings(lake: Path, secret: str) -> dict[str, str]:
    """Return the settings of master and workers."""
    return {
        "spark.authenticate": "true",
        "spark.authenticate.secret": secret,
        "spark.network.crypto.enabled": "true",
        # a master that is started again knows its workers and applications
        "spark.deploy.recoveryMode": "FILESYSTEM",
        "spark.deploy.recoveryDirectory": str(folder(lake) / "recovery"),
        "spark.master.rest.enabled": "false",
        "spark.worker.cleanup.enabled": "true",
        "spark.ui.killEnabled": "false",
        # another port than the chosen one is a failed start
        "spark.port.maxRetries": "0",
    }


def application_settings(given: Mapping[str, str], master: Master, workers: int) -> dict[str, str]:
    """Return the settings of the Spark Connect server.

    It takes all cores but one: an application that gets no core waits for ever, without a word.
    """
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.cores.max": str(workers - 1),
        "spark.scheduler.mode": "FAIR",
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC",
        **{name: value for name, value in given.items() if name != "spark.master"},
        **master.settings(),
    }


def environment(conf: Path, variables: Mapping[str, str], memory: str = "") -> dict[str, str]:
    """Return the environment of a process. `memory` is that of a master or worker.

    Spark takes the same variable for the memory of a Connect server, over its settings.
    """
    kept = {
        name: value
        for name, value in variables.items()
        if not name.startswith("SPARK_") or name in _KEPT
    }
    kept |= {"SPARK_CONF_DIR": str(conf), "SPARK_LOCAL_IP": "127.0.0.1"}
    kept |= {"SPARK_HOME": str(installed_pyspark()), "SPARK_SCALA_VERSION": "2.13"}
    kept.setdefault("SPARK_LOCAL_DIRS", str(conf.parent / "local"))
    if memory:
        kept["SPARK_DAEMON_MEMORY"] = memory
        kept["SPARK_DAEMON_JAVA_OPTS"] = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    return kept


def _settings(
    project: Project, master: Master, workers: int, more: Mapping[str, str]
) -> dict[str, str]:
    settings = application_settings({**project.spark_settings(), **more}, master, workers)
    settings = object_store.with_jars(settings, lambda text: None)
    return logging_to(project.local / "logs", settings)


# -- the processes -------------------------------------------------------------------------------


@contextmanager
def _process(
    lake: Path,
    name: str,
    command: Callable[..., list[str]],
    variables: Mapping[str, str],
    patience: float,
    ports: int = 1,
    keeps: Collection[int] = (),
    cwd: Path | None = None,
) -> Any:
    """Start a process, on its former port if that is free. Yield its process number and port."""
    log = lake / "logs" / f"cluster-{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    before = Server.last(record(lake, name)) or Master.last(record(lake, name))
    before = before or Engine.last(record(lake, name))
    usual = before.port if before else 0
    with (
        log.open("wb") as output,
        starting(
            command,
            f"the cluster's {name}",
            output,
            patience,
            usual=usual,
            ports=ports,
            environment=variables,
            keeps=keeps,
            cwd=cwd,
        ) as found,
    ):
        yield found


@contextmanager
def _master(lake: Path, conf: Path, patience: float, is_first: bool) -> Any:
    spark_java()
    if is_first:  # what an earlier cluster knew is gone
        shutil.rmtree(folder(lake) / "recovery", ignore_errors=True)
    before = Master.last(record(lake, "master"))
    secret = before.secret if before else secrets.token_hex(32)
    file = conf / "daemon.conf"
    atomic_write.write_private(file, properties(daemon_settings(lake, secret)))
    chosen: list[int] = []

    def command(port: int, page: int) -> list[str]:
        chosen[:] = [page]
        options = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)]
        return [*_spark_class("master.Master"), *options, "--properties-file", str(file)]

    variables = environment(conf, os.environ, "256m")
    with _process(lake, "master", command, variables, patience, ports=2) as (pid, port):
        if before and not is_first and before.port != port:
            raise WorkError(
                "HW_PORT",
                f"the cluster's master had the port {before.port}, which another process has taken:"
                " `headwaters cluster stop`, and then start it again",
            )
        found = Master(pid, port, chosen[0], secret)
        found.remember(record(lake, "master"))
        yield found


@contextmanager
def _worker(lake: Path, conf: Path, master: Master, number: int, patience: float) -> Any:
    name = f"worker-{number}"

    def command(page: int) -> list[str]:
        options = ["--host", "127.0.0.1", "--webui-port", str(page), "--cores", "1"]
        options += ["--work-dir", str(folder(lake) / name)]
        options += ["--properties-file", str(conf / "daemon.conf"), master.address]
        return [*_spark_class("worker.Worker"), *options]

    with _process(lake, name, command, environment(conf, os.environ, "256m"), patience) as found:
        worker = Server(*found)
        worker.remember(record(lake, name))
        yield worker


def _spark_class(name: str) -> list[str]:
    return [str(installed_pyspark() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]


def _await_workers(master: Master, workers: int, patience: float) -> int:
    until = time.monotonic() + patience
    while (alive := int(_state(master)["aliveworkers"])) < workers:
        if time.monotonic() > until:
            raise WorkError(
                "HW_SERVER",
                f"{alive} of {workers} workers are registered after {patience:.0f} seconds: see "
                "lake/logs/cluster-worker-1.log",
            )
        time.sleep(0.2)
    return alive


@contextmanager
def _connect(project: Project, conf: Path, settings: dict[str, str], patience: float) -> Any:
    lake = project.local
    settings, outside = hive_metastore.enter(settings, lake, project.root)
    lock = None if outside else metastore.hold(lake, "headwaters cluster")
    before = Engine.last(record(lake, "connect"))
    token = before.token if before else secrets.token_urlsafe(32)
    file = conf / "connect.conf"  # arguments would be visible in the list of processes

    def command(port: int) -> list[str]:
        address = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
        }
        atomic_write.write_private(file, properties({**settings, **address}))
        server = "org.apache.spark.sql.connect.service.SparkConnectServer"
        submit = [str(installed_pyspark() / "bin" / "spark-submit"), "--class", server]
        return [*submit, "--name", "connect", "--properties-file", str(file), "spark-internal"]

    variables = environment(conf, os.environ)
    variables["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = token
    keeps = [lock] if lock is not None else []
    try:
        with _process(
            lake, "connect", command, variables, patience, keeps=keeps, cwd=project.root
        ) as (pid, port):
            if lock is not None:
                metastore.sign(lock, "headwaters cluster", pid)
            connect = Engine(pid, port, token, outside is not None)
            connect.remember(record(lake, "connect"))
            yield connect
    finally:
        if lock is not None:
            metastore.release(lake)
