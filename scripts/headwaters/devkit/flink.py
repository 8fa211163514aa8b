"""A Flink of one machine for development and tests: a job manager and a task manager.

Its jars are downloaded once into the user's cache. `<lake>/flink` has its settings and its logs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from headwaters.devkit.servers import end, page, starting
from headwaters.platform import atomic_write
from headwaters.platform import lake as lakes
from headwaters.platform.errors import WorkError
from headwaters.platform.jars import CachedJars, Say, cache_folder, find_java
from headwaters.platform.project import Project
from headwaters.platform.servers import Server, alive

VERSION = "2.2.1"
LOCK = Path(__file__).with_name("flink")
REQUIREMENTS = Path(__file__).with_name("flink-requirements.txt")
JOBS = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
TASKS = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
CLIENT = "org.apache.flink.table.client.SqlClient"
# Flink and its serializers reach into these packages of Java 17.
_OPENED = ("lang", "net", "io", "nio", "lang.reflect", "text", "time", "util", "util.concurrent")
_JAVA = [
    *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in _OPENED),
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "-XX:+UseSerialGC",
]


def record(lake: Path, part: str = "jobs") -> Path:
    """Return the file with the address of a process: `jobs` or `tasks`."""
    return lake / "flink" / f"{part}.json"


def find(lake: Path) -> Server | None:
    """Return the job manager that runs on this lake with its task manager, or None."""
    tasks = Server.running(record(lake, "tasks"))
    return Server.running(record(lake)) if tasks else None


def start(project: Project, say: Say, patience: float = 120.0) -> Server:
    """Start the Flink of this lake and wait until it has slots, or return the running one.

    Raises WorkError if its jars cannot be downloaded, or if a process ends while it starts.
    """
    lake = project.local
    lakes.enter(lake)
    if running := find(lake):
        return running
    stop(lake)  # one of its two processes may have ended alone
    home = program(say)
    folder = record(lake).parent
    until = time.monotonic() + patience
    with ExitStack() as started:

        def launched(part: str, main: str, ports: int) -> Server:
            return started.enter_context(_process(lake, home, part, main, ports, patience))

        jobs = launched("jobs", JOBS, 2)
        tasks = launched("tasks", TASKS, 1)
        while not page(jobs.port, "/overview").get("slots-total"):
            if time.monotonic() > until or not alive(tasks.pid):
                text = f"Flink has no slots for tasks: see {folder / 'tasks.log'}"
                raise WorkError("HW_SERVER", text)
            time.sleep(0.3)
    return jobs


def stop(lake: Path) -> bool:
    """Stop the processes of this lake's Flink and wait until they end; return false if none ran."""
    running = [Server.running(record(lake, part)) for part in ("tasks", "jobs")]
    for server in running:
        if server is not None:
            end(server.pid)
    return any(running)


@contextmanager
def _process(
    lake: Path, home: Path, part: str, main: str, ports: int, patience: float
) -> Iterator[Server]:
    """Start a process with its settings, and record it. It ends if the context raises."""
    folder = record(lake).parent
    conf = folder / part
    conf.mkdir(parents=True, exist_ok=True)
    atomic_write.write(conf / "log4j.properties", _LOGGING)
    before = Server.last(record(lake, part))
    jobs = json.loads((folder / "jobs" / "ports.json").read_text()) if part == "tasks" else []

    def command(*chosen: int) -> list[str]:
        given = (*jobs, *chosen)
        atomic_write.write(conf / "ports.json", json.dumps(chosen))
        atomic_write.write(conf / "config.yaml", yaml(settings(folder, *given)))
        return [*_java(conf), *_JAVA, "-cp", f"{home}/lib/*", main, "--configDir", str(conf)]

    with (
        (folder / f"{part}.log").open("wb") as output,
        starting(
            command,
            f"Flink ({part})",
            output,
            patience,
            usual=before.port if before else 0,
            ports=ports,
            cwd=folder,
            environment=_environment(conf),
        ) as found,
    ):
        server = Server(*found)
        server.remember(record(lake, part))
        yield server


def settings(folder: Path, rest: int, rpc: int, tasks: int = 0) -> dict[str, str]:
    """Return the settings of a Flink in a folder that listens at these ports of loopback."""
    return {
        "jobmanager.rpc.address": "127.0.0.1",
        "jobmanager.bind-host": "127.0.0.1",
        "jobmanager.rpc.port": str(rpc),
        "rest.address": "127.0.0.1",
        "rest.bind-address": "127.0.0.1",
        "rest.port": str(rest),
        "rest.bind-port": str(rest),
        "web.submit.enable": "false",
        "taskmanager.host": "127.0.0.1",
        "taskmanager.bind-host": "127.0.0.1",
        "taskmanager.rpc.port": str(tasks),
        "taskmanager.numberOfTaskSlots": "2",
        "taskmanager.cpu.cores": "2.0",
        "taskmanager.memory.framework.heap.size": "128m",
        "taskmanager.memory.framework.off-heap.size": "128m",
        "taskmanager.memory.task.heap.size": "384m",
        "taskmanager.memory.task.off-heap.size": "0m",
        "taskmanager.memory.network.min": "64m",
        "taskmanager.memory.network.max": "64m",
        "taskmanager.memory.managed.size": "128m",
        "taskmanager.memory.jvm-metaspace.size": "192m",
        "taskmanager.memory.jvm-overhead.min": "128m",
        "taskmanager.memory.jvm-overhead.max": "128m",
        "parallelism.default": "1",
        "io.tmp.dirs": str(folder / "tmp"),
    }


def yaml(found: Mapping[str, str]) -> str:
    """Return settings in the form of Flink's config.yaml."""
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in found.items())


def run_sql(lake: Path, statements: Sequence[str]) -> str:
    """Run SQL statements on the Flink of this lake, with its connector of Kafka; return the output.

    Raises WorkError if none runs there, or with Flink's message about a statement that failed.
    """
    found = find(lake)
    if found is None:
        raise WorkError(
            "HW_SERVER",
            "no Flink runs on this lake: start one with `headwaters platform start --with flink`",
        )
    home, conf = program(lambda text: None), record(lake).parent / "client"
    conf.mkdir(exist_ok=True)
    # the client listens, too: at a free port, unless `rest.bind-port` is set
    own = {"rest.address": "127.0.0.1", "rest.port": str(found.port), "execution.target": "remote"}
    atomic_write.write(conf / "config.yaml", yaml(own))
    atomic_write.write(conf / "log4j.properties", _LOGGING)
    jars = CachedJars(LOCK).fetch()
    (gateway,) = [jar for jar in jars if "gateway" in jar.name]
    (connector,) = [jar for jar in jars if "connector" in jar.name]
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write("".join(f"{statement};\n" for statement in (*_PLAIN, *statements)))
        script.flush()
        options = ["-f", script.name, "-j", str(connector), "-hist", str(conf / "history")]
        paths = f"{home}/lib/*:{home}/opt/*:{gateway}"
        ran = subprocess.run(
            [*_java(conf), *_JAVA, "-cp", paths, CLIENT, *options],
            env=_environment(conf),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    if ran.returncode or "[ERROR]" in ran.stdout:
        said = ran.stdout.rpartition("Reason:")[2] if "Reason:" in ran.stdout else ran.stderr
        lines = _COLOURS.sub("", said).strip().splitlines() or ["its client ended without a word"]
        raise WorkError("HW_SERVER", f"Flink: {lines[0]}")
    return ran.stdout


_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# Results are printed as rows of text, each once it changes.
_PLAIN = (
    "set 'sql-client.execution.result-mode' = 'tableau'",
    "set 'execution.runtime-mode' = 'streaming'",
    # thousands of changes of a count become a few
    "set 'table.exec.mini-batch.enabled' = 'true'",
    "set 'table.exec.mini-batch.allow-latency' = '5 s'",
    "set 'table.exec.mini-batch.size' = '100000'",
)


def last_row(output: str) -> list[str]:
    """Return the values of the last inserted or updated row in an output of `run_sql`."""
    rows = re.findall(r"^\| *\+[IU] \|(.*)\|$", output, flags=re.M)
    return [value.strip() for value in rows[-1].split("|")] if rows else []


def program(say: Say) -> Path:
    """Return the folder of Flink's jars, downloaded once for all checkouts.

    Raises WorkError if pip cannot download them, or if they have another hash.
    """
    folder = cache_folder() / f"flink-server-{VERSION}"
    if folder.is_dir():
        return folder
    say(f"fetching Flink {VERSION} (240 MB, once)")
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    options = ["--quiet", "--no-deps", "--no-binary", ":all:", "--require-hashes"]
    command = ["download", *options, "--dest", str(part), "-r", str(REQUIREMENTS)]
    ran = subprocess.run(
        [sys.executable, "-m", "pip", *command], capture_output=True, text=True, check=False
    )
    if ran.returncode:
        last = (ran.stderr.strip().splitlines() or ["pip ended without a word"])[-1]
        raise WorkError("HW_SERVER", f"Flink cannot be downloaded: {last}")
    (archive,) = part.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(part, filter="data")
    (made,) = part.glob("*/deps")
    made.replace(folder)
    shutil.rmtree(part)
    return folder


def _java(conf: Path) -> list[str]:
    log = f"-Dlog4j.configurationFile=file:{conf}/log4j.properties"
    return [str(find_java().path), "-Xmx512m", log]


def _environment(conf: Path) -> dict[str, str]:
    return {**os.environ, "FLINK_CONF_DIR": str(conf)}


_LOGGING = """\
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = Console
appender.console.name = Console
appender.console.type = CONSOLE
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss,SSS} %-5p %c{1} - %m%n
"""
