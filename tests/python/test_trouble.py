"""Test commands in trouble: one line, an exit code, and nothing half-written."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from dbt.adapters.headwaters.session import session_of
from ingestion import bare_project, wait_for
from processes import environment, family, run_command

from headwaters.devkit import engine as engines
from headwaters.devkit import servers
from headwaters.platform import metastore
from headwaters.platform.errors import WorkError
from headwaters.platform.project import Project
from headwaters.platform.servers import alive
from headwaters.tables.delta_log import snapshot

ROOT = Path(__file__).resolve().parents[2]
HEADWATERS = [sys.executable, "-m", "headwaters.cli"]
DBT = [sys.executable, "-m", "dbt.cli.main", "--no-use-colors"]
SHOW = [*DBT, "show", "--inline", "select 1", "--no-populate-cache", "--profiles-dir", "profiles"]
LONG = "select sum(id % 7) as s from range(10000000000000)"
SHOW_FOR_EVER = [LONG if part == "select 1" else part for part in SHOW]


# Past this size a write fails, as on a full disk. A shell sets it, not `preexec_fn`: gRPC's threads
# in this process do not survive its fork.
FULL_DISK = """trap '' XFSZ; ulimit -f "$0"; exec "$@\""""


def run(
    command: list[str], lake: Path, cwd: Path = ROOT, largest_file: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command with a limit of `largest_file` KiB for every file."""
    limited = [] if largest_file is None else ["bash", "-c", FULL_DISK, str(largest_file)]
    return subprocess.run(
        [*limited, *command],
        cwd=cwd,
        env=environment(lake),
        capture_output=True,
        text=True,
        timeout=120,
    )


def refused(command: list[str], lake: Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a command that ends before it starts a Spark."""
    program: Literal["dbt", "headwaters"] = "headwaters" if command[:3] == HEADWATERS else "dbt"
    return run_command(program, command[3:], environment(lake), cwd)


@pytest.fixture
def small(new_project: Callable[[dict[str, str]], Path]) -> Path:
    """Return a project that dbt parses quickly."""
    return new_project({})


def test_a_command_outside_the_project_says_where_to_run_it(tmp_path: Path) -> None:
    ran = refused([*HEADWATERS, "summary"], tmp_path / "lake", cwd=tmp_path)
    assert ran.returncode == 2
    assert ran.stderr == (
        f"headwaters: [HW_PROJECT] no dbt_project.yml in {tmp_path} or above it: "
        "run headwaters inside the project's folder\n"
    )


def test_missing_data_is_one_line(tmp_path: Path) -> None:
    bare_project(tmp_path)
    ran = refused([*HEADWATERS, "land"], tmp_path / "lake", cwd=tmp_path)
    assert ran.returncode == 2
    assert ran.stderr == (
        f"headwaters: [HW_NO_SAMPLES] {tmp_path}/data/covid_nyt holds no data: "
        "restore it from the repository (git checkout -- data)\n"
    )


def test_a_full_disk_lands_whole_files_only_and_the_next_run_the_rest(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    ran = run([*HEADWATERS, "land"], lake, largest_file=200)
    assert ran.returncode == 1
    assert ran.stderr.startswith(
        f"headwaters: [HW_FILE] cannot land {lake}/landing/county_cases/part-"
    )
    assert ran.stderr.count("\n") == 1
    assert [path.name for path in lake.rglob("*") if path.name.endswith((".part", ".tmp"))] == []
    assert run([*HEADWATERS, "land"], lake).returncode == 0
    originals = {path.name: path.stat().st_size for path in (ROOT / "data/covid_nyt").iterdir()}
    landed = {path.name: path.stat().st_size for path in (lake / "landing/county_cases").iterdir()}
    assert landed == originals


FILLED = {
    "models/silver/fed.sql": "{{ config(incremental_strategy='append') }}\n"
    "select id, concat_ws('', transform(sequence(1, 60), n -> sha2(cast(id * n as string), 512)))"
    " as text from range({{ var('rows') }})",
    "models/silver/copied.sql": "{{ config(incremental_strategy='affected_keys', unique_key='id')"
    " }}\nselect id, count(*) as n, max(text) as text"
    " from {{ affected(ref('fed'), key='id') }} group by id",
    "models/silver/copied.yml": "models: [{name: copied, data_tests: [equals_full_refresh]}]",
}


@pytest.mark.slow
def test_a_full_disk_leaves_a_table_as_it_was_and_the_next_run_completes_it(
    tmp_path: Path, new_project: Callable[[dict[str, str]], Path]
) -> None:
    folder, lake = new_project(FILLED), tmp_path / "lake"

    def dbt(
        rows: int, *arguments: str, largest_file: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        command = [*DBT, *arguments, "--profiles-dir", "profiles", "--vars", f"{{rows: {rows}}}"]
        return run(command, lake, cwd=folder, largest_file=largest_file)

    assert dbt(10, "run").returncode == 0
    assert dbt(3000, "run", "--select", "fed").returncode == 0
    full = dbt(0, "run", "--select", "copied", largest_file=4_000)
    assert full.returncode == 1
    assert "File too large" in full.stdout
    assert "Traceback" not in full.stdout + full.stderr
    assert not re.search(r"^\s+at [\w.$]+\(", full.stdout + full.stderr, flags=re.MULTILINE)
    table = lake / "warehouse" / "silver.db" / "copied"
    state = snapshot(table)
    assert state is not None and state.rows == 10
    ran = dbt(0, "build", "--select", "copied")
    assert ran.returncode == 0, ran.stdout
    assert re.search(r"append: 2990 inserted|merge: 2990 inserted", ran.stdout)
    state = snapshot(table)
    assert state is not None and state.rows == 3000
    # a failed `create table as select` of Spark leaves an empty folder, and no table
    assert list((lake / "warehouse" / "silver.db").glob("*__stage_*/**/*")) == []


def test_a_second_owner_of_the_metastore_is_told_who_has_it(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    held = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import pathlib, sys, time; from headwaters.platform import metastore;"
            "metastore.hold(pathlib.Path(sys.argv[1]), 'dbt'); print('held', flush=True);"
            "time.sleep(600)",
            str(lake),
        ],
        env=environment(lake),
        stdout=subprocess.PIPE,
    )
    try:
        assert held.stdout is not None
        assert held.stdout.readline() == b"held\n"
        with pytest.raises(WorkError) as caught:
            metastore.hold(lake, "dbt")
        assert str(caught.value) == (
            f"[HW_METASTORE_IN_USE] the metastore in {lake} is in use by dbt (process {held.pid}): "
            "wait until it has ended, or share one Spark (`headwaters engine start`, --target "
            "engine)"
        )
        ran = refused([*HEADWATERS, "engine", "start"], lake)
        assert (ran.returncode, ran.stderr) == (1, f"headwaters: {caught.value}\n")
    finally:
        held.kill()
        held.wait()
    metastore.hold(lake, "dbt")  # kill -9 has freed it
    metastore.release(lake)


LISTENS = (
    "import socket, sys, time; server = socket.create_server(('127.0.0.1', int(sys.argv[1])));"
    "time.sleep(600)"
)


def test_the_metastore_of_an_engine_is_free_for_an_embedded_dbt_once_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Start a process instead of Spark that does nothing but listen."""
    monkeypatch.setenv("HEADWATERS_LAKE", str(tmp_path))
    command = [sys.executable, "-c", LISTENS]
    monkeypatch.setattr(engines, "_command", lambda *given: [*command, str(given[1])])
    running = engines.start(Project(ROOT), port=0)
    try:
        with pytest.raises(WorkError) as caught:
            metastore.hold(tmp_path, "dbt")
        assert str(caught.value) == (
            f"[HW_METASTORE_IN_USE] the metastore in {tmp_path} is in use by headwaters engine "
            f"(process {running.pid}): use it with --target engine, or end it with `headwaters "
            "engine stop`"
        )
    finally:
        assert engines.stop(Project(ROOT)) == running
    metastore.hold(tmp_path, "dbt")
    metastore.release(tmp_path)


def test_a_second_embedded_dbt_is_refused_in_one_line(tmp_path: Path, small: Path) -> None:
    lake = tmp_path / "lake"
    metastore.hold(lake, "headwaters engine")
    try:
        ran = refused(SHOW, lake, cwd=small)
    finally:
        metastore.release(lake)
    said = [line.strip() for line in ran.stdout.splitlines() if "metastore" in line]
    assert ran.returncode != 0
    owned = (
        f"[HW_METASTORE_IN_USE] the metastore in {lake} is in use by headwaters engine (process "
    )
    assert said[0].startswith(owned)
    assert "Caused by" not in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stdout + ran.stderr


def test_dbt_without_java_is_one_line(
    tmp_path: Path, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    ran = refused(SHOW, tmp_path / "lake", cwd=small)
    assert ran.returncode != 0
    assert "JAVA_HOME is /nowhere, but there is no bin/java in it: install Java 17" in ran.stdout
    assert "Traceback" not in ran.stdout + ran.stderr


@pytest.mark.slow
def test_dbt_whose_java_is_killed_is_one_line(tmp_path: Path, small: Path) -> None:
    # 20 seconds later the query runs
    lake = tmp_path / "lake"
    ran = run_until_java_is_killed(SHOW_FOR_EVER, lake, small, lambda p: javas(p) != [], 20)
    assert ran.returncode == 2
    said = ran.stdout + ran.stderr
    assert said.count("[HW_SPARK_ENDED] Spark's Java ended (killed by signal 9): ") == 1
    assert "Traceback" not in said


@pytest.mark.slow
def test_dbt_whose_engine_is_killed_is_one_line_within_a_minute(
    tmp_path: Path, small: Path
) -> None:
    lake = tmp_path / "lake"
    assert run([*HEADWATERS, "engine", "start", "--port", "0"], lake).returncode == 0
    pid = json.loads((lake / "engine" / "engine.json").read_text())["pid"]
    command = [*SHOW_FOR_EVER, "--target", "engine"]
    try:
        ran = run_until_java_is_killed(command, lake, small, bool, 20, lambda _: [pid])
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert ran.returncode == 2
    said = ran.stdout + ran.stderr
    assert said.count("[HW_SPARK_ENDED] the Spark server no longer answers: ") == 1
    assert "Traceback" not in said
    assert "RETRIES" not in said


@pytest.mark.slow
def test_ingestion_whose_java_is_killed_is_one_line_and_the_next_run_resumes(
    tmp_path: Path,
) -> None:
    lake, selected = tmp_path / "lake", ["--select", "source:bronze.click_events"]
    table = lake / "warehouse" / "bronze.db" / "click_events"
    assert run([*HEADWATERS, "land"], lake).returncode == 0
    ran = run_until_java_is_killed(
        [*HEADWATERS, "ingest", "--every", "500ms", *selected],
        lake,
        ROOT,
        lambda pid: (found := snapshot(table)) is not None and bool(found.rows),
    )
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].startswith(
        "headwaters: [HW_SPARK_ENDED] Spark's Java ended (killed by signal 9): "
    )
    assert "Traceback" not in ran.stderr
    assert run([*HEADWATERS, "ingest", "--once", *selected], lake).returncode == 0
    assert run([*HEADWATERS, "audit", *selected], lake).stdout.endswith("+ 0 quarantined: right\n")


def run_until_java_is_killed(
    command: list[str],
    lake: Path,
    cwd: Path,
    is_ready: Callable[[int], bool],
    seconds: float = 0,
    java_of: Callable[[int], list[int]] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command and kill its Java by SIGKILL, as a system that is out of memory does.

    The test waits until `is_ready` is true of the command's process. `seconds` later it kills Java:
    the processes below the command, or those that `java_of` returns.
    """
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=environment(lake),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            wait_for(lambda: is_ready(running.pid), patience=60)
            time.sleep(seconds)
            assert running.poll() is None
            for one in (java_of or javas)(running.pid):
                os.kill(one, signal.SIGKILL)
            out, errors = running.communicate(timeout=60)
        finally:
            running.kill()  # it has ended, or never does
    return subprocess.CompletedProcess(command, running.returncode, out, errors)


def javas(pid: int) -> list[int]:
    """Return the Java processes below a process."""
    found = []
    for one in family(pid):
        with contextlib.suppress(OSError):  # it has ended
            if Path(f"/proc/{one}/comm").read_text() == "java\n":
                found.append(one)
    return found


def test_dbt_without_an_engine_says_how_to_start_one(tmp_path: Path, small: Path) -> None:
    ran = refused([*SHOW, "--target", "engine"], tmp_path / "lake", cwd=small)
    assert ran.returncode != 0
    assert "no engine runs on this lake: start one with `headwaters engine start`" in ran.stdout


@pytest.mark.parametrize(
    ("remote", "said"),
    [
        ("sc://127.0.0.1:1/;token=x", "[HW_NO_SPARK] no Spark listens at sc://127.0.0.1:1/"),
        ("", "[HW_ENVIRONMENT] --target cluster needs the address of its Spark Connect server: "),
    ],
)
def test_a_server_that_is_not_there_is_named_without_its_token(remote: str, said: str) -> None:
    with pytest.raises(WorkError) as caught:
        session_of({}, {"spark.remote": remote}, Path("lake"))
    assert str(caught.value).startswith(said)
    assert "token" not in str(caught.value)


def test_ctrl_c_while_the_engine_starts_leaves_nothing_behind(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    starting = subprocess.Popen(
        [*HEADWATERS, "engine", "start"],
        cwd=ROOT,
        env=environment(lake),
        stderr=subprocess.PIPE,
        text=True,
    )
    lock = lake / "metastore.lock"
    while not (lock.exists() and "engine" in lock.read_text() and (lake / "logs").exists()):
        assert starting.poll() is None
        time.sleep(0.05)
    starting.send_signal(signal.SIGINT)
    _, said = starting.communicate(timeout=60)
    # the program exits with 130, or the signal ends it earlier: a shell reports 130 for both
    assert starting.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in said
    metastore.hold(lake, "this test")  # a server that still ran would hold the lock
    metastore.release(lake)
    shutil.rmtree(lake)


def test_ctrl_c_before_a_server_is_known_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    start = subprocess.Popen

    def interrupted(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(start(*args, **options))
        os.kill(os.getpid(), signal.SIGINT)
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with (
        pytest.raises(KeyboardInterrupt),
        (tmp_path / "log").open("wb") as log,
        servers.starting(lambda port: ["sleep", "60"], "a server", log, 5),
    ):
        raise AssertionError("it was given before it listened")
    assert [alive(process.pid) for process in started] == [False]


BAD_PORT = "is not a port: choose one from 1 to 65535, or 0 for any"
OUT_OF_TIME = (
    "[HW_ARGUMENT] --start, --rows and --rate lead to times outside of the years 1 to 9999: "
    "choose others"
)


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("engine start --port 99999", 2, f"[HW_PORT] --port 99999 {BAD_PORT}"),
        ("engine start --port -1", 2, f"[HW_PORT] --port -1 {BAD_PORT}"),
        ("kafka start --port 99999", 2, f"[HW_PORT] --port 99999 {BAD_PORT}"),
        ("ingest --metrics-port 70000", 2, f"[HW_PORT] --metrics-port 70000 {BAD_PORT}"),
        ("simulate finance --start 9999-12-31T00:00:00Z", 2, OUT_OF_TIME),
        (
            "simulate finance --start 0001-01-01T00:00:00+10:00",
            2,
            "[HW_ARGUMENT] --start wants a moment such as 2026-01-01T00:00:00Z: "
            "'0001-01-01T00:00:00+10:00' is none",
        ),
        pytest.param(
            "simulate finance --rows 10 --to-kafka",
            1,
            "[HW_BROKER_AWAY] the Kafka broker 127.0.0.1:1 does not answer: Failed to get "
            "metadata: Local: Broker transport failure",
            marks=pytest.mark.slow,  # ten seconds of waiting
        ),
    ],
)
def test_what_cannot_be_is_one_line(
    command: str, code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    ran = refused([*HEADWATERS, *command.split()], tmp_path / "lake")
    assert (ran.returncode, ran.stderr, ran.stdout) == (code, f"headwaters: {said}\n", "")


WRITERS = ["land", "simulate finance", "ingest --once", "engine start", "kafka start"]
WRITERS += ["postgres start"]


# each command and each trouble once in `make test`, all pairs in `make test-slow`
TROUBLES = ["a file", "below a file", "read-only"]
PAIRS = [
    pytest.param(
        trouble,
        command,
        marks=[] if place % len(TROUBLES) == TROUBLES.index(trouble) else pytest.mark.slow,
    )
    for place, command in enumerate(WRITERS)
    for trouble in TROUBLES
]


@pytest.mark.parametrize(("trouble", "command"), PAIRS)
def test_a_lake_that_cannot_be_written_is_one_line(
    trouble: str, command: str, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    if trouble == "a file":
        lake.touch()
        reason = "File exists"
    elif trouble == "below a file":
        lake.touch()
        lake, reason = lake / "below", "Not a directory"
    else:  # the kernel's own, which refuses files even from root
        lake, reason = Path("/sys"), "it is read-only, or another user's|Permission denied"
    ran = refused([*HEADWATERS, *command.split()], lake)
    said = (
        rf"headwaters: \[HW_LAKE_UNWRITABLE\] the lake {lake} cannot be written \(({reason})\): "
        r"name another folder with HEADWATERS_LAKE, or see to this one\n"
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert re.fullmatch(said, ran.stderr), ran.stderr


def test_a_part_of_the_lake_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    for part in ("checkpoints", "logs", "engine", "kafka", "postgres"):
        (tmp_path / "lake" / part).touch()
    servers = (("engine start", "logs"), ("kafka start", "kafka"), ("postgres start", "postgres"))
    for command, part in servers:
        ran = refused([*HEADWATERS, *command.split()], tmp_path / "lake")
        said = f"headwaters: [HW_FILE] {tmp_path}/lake/{part} cannot be used: File exists\n"
        assert (ran.returncode, ran.stderr) == (2, said), ran


@pytest.mark.parametrize("command", [["engine", "start"], ["setup"]])
def test_java_says_what_it_does_not_understand(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xwater")
    ran = refused([*HEADWATERS, *command], tmp_path / "lake")
    assert ran.returncode == 2
    assert re.fullmatch(
        r"headwaters: \[HW_NO_JAVA\] \S+/java does not run with JAVA_TOOL_OPTIONS=-Xwater: "
        r"Unrecognized option: -Xwater\n",
        ran.stderr,
    ), ran
