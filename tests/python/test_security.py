"""Test access to servers: this machine alone, and only with the token."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from ingestion import Ingester, modes, node, wait_for
from processes import environment, family

from headwaters.platform.engine import Engine
from headwaters.platform.errors import WorkError
from headwaters.platform.servers import listens

ROOT = Path(__file__).resolve().parents[2]
# A model without inputs cannot be `auto`, the default of this project.
APPEND = "{{ config(incremental_strategy='append') }} "


def listeners(pids: set[int]) -> dict[tuple[str, int], int]:
    """Return `{(address, port): pid}` of the TCP sockets that some processes listen on."""
    inodes = {}
    for pid in pids:
        with contextlib.suppress(FileNotFoundError):  # the process has ended in the meantime
            for file in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):  # closed in the meantime
                    target = str(file.readlink())
                    if target.startswith("socket:["):
                        inodes[target[8:-1]] = pid
    found = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:  # LISTEN
                address, port = fields[1].split(":")
                found[_address(address), int(port, 16)] = inodes[fields[9]]
    return found


def _address(text: str) -> str:
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    packed = b"".join(struct.pack("=I", word) for word in words)
    family = socket.AF_INET if len(packed) == 4 else socket.AF_INET6
    return socket.inet_ntop(family, packed)


def _loopback(text: str) -> bool:
    address = ip_address(text)
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def test_engine_broker_and_ingestion_listen_on_loopback_alone(
    engine: Engine, broker: str, ingester: Ingester
) -> None:
    ours = family(os.getpid())
    assert {engine.pid, ingester.process.pid} <= ours
    ingester.land("1.jsonl", '{"id": "a"}')
    with ingester.running(node({"id": "string"}), every=60) as metrics:
        wait_for(lambda: metrics().get('rows_total{stream="orders"}') == 1)
        found = listeners(family(os.getpid()))
    ports = {port for _, port in found}
    assert {engine.port, int(broker.rpartition(":")[2])} <= ports
    # the engine's RPC, blocks and gRPC; the broker and its controller; an embedded Spark's RPC and
    # blocks, its gateway to Python, and the metrics
    assert len(found) >= 9
    assert [place for place in found if not _loopback(place[0])] == []


@pytest.mark.parametrize("umask", ["", pytest.param("027", marks=pytest.mark.slow)])
def test_dbt_with_a_spark_of_its_own_is_for_its_owner_alone(
    umask: str, new_project: Callable[[dict[str, str]], Path], tmp_path: Path
) -> None:
    """Open the lake to others too: its contents are for the owner, or for a group."""
    folder, lake = (
        new_project({"models/silver/a.sql": APPEND + "select 1 as id"}),
        tmp_path / "lake",
    )
    lake.mkdir(0o755)  # as a mounted lake
    command = [sys.executable, "-m", "dbt.cli.main", "run", "--profiles-dir", "profiles"]
    command += ["--target-path", str(tmp_path / "target"), "--log-path", str(tmp_path / "dbt")]
    found: dict[tuple[str, int], int] = {}
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**environment(lake), "HEADWATERS_UMASK": umask},
        umask=0o022,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        while running.poll() is None:
            found |= listeners(family(running.pid))
            time.sleep(0.2)  # its ports stay open until it ends
        said = running.stdout.read() if running.stdout else ""
    assert running.returncode == 0, said
    # Spark's RPC and blocks, and its gateway to Python
    assert len(found) >= 3
    assert [place for place in found if not _loopback(place[0])] == []
    assert (lake / "warehouse/silver.db/a/_delta_log").is_dir()
    made = {path: mode for path, mode in modes(lake).items() if path != "lake"}
    assert {"lake/metastore", "lake/logs", "lake/warehouse/silver.db"} <= made.keys()
    open_to = 0o077 & ~int(umask or "077", 8)
    assert {path: oct(mode) for path, mode in made.items() if mode & 0o077 & ~open_to} == {}
    table = {mode & 0o077 for path, mode in made.items() if "/silver.db/a/" in path}
    assert table == ({0o040, 0o050} if umask else {0})


@pytest.mark.parametrize(
    ("more", "said"),
    [("", "No authentication token provided"), ("/;token=wrong", "Invalid authentication token")],
)
def test_the_engine_refuses_a_client_without_its_token(
    more: str, said: str, engine: Engine, tmp_path: Path
) -> None:
    client = (
        "import os, sys; from pathlib import Path\n"
        "from dbt.adapters.headwaters.session import session_of\n"
        "try:\n"
        "    spark = session_of({}, {'spark.remote': sys.argv[1]}, Path('lake'))\n"
        "    print(spark.sql('select 1').collect())\n"
        "except Exception as error: print(error)\n"
        "sys.stdout.flush(); os._exit(0)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", client, engine.address + more],
        env={**os.environ, "PYTHONPATH": str(ROOT / "scripts")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert said in ran.stdout, ran
    assert "[Row(" not in ran.stdout


def test_the_token_is_in_one_file_which_its_owner_alone_may_read(
    engine: Engine, lake: Path, dbt: Any, new_project: Any, schema: str, tmp_path: Path
) -> None:
    folder = new_project({"models/silver/a.sql": APPEND + "select 1 as id"})
    dbt("--debug", "run", project_dir=folder, schema=schema)
    secret = engine.token.encode()
    assert len(secret) > 40
    # files of an engine are for its owner alone, too
    of_engine = {name: modes(lake / name) for name in ("engine", "logs", "metastore", "warehouse")}
    assert all(f"{name}/" in str(found) for name, found in of_engine.items())
    others = {p: oct(m) for found in of_engine.values() for p, m in found.items() if m & 0o077}
    assert others == {}
    places = [*lake.rglob("*"), *tmp_path.rglob("*")]
    having = [path for path in places if path.is_file() and secret in path.read_bytes()]
    assert having == [lake / "engine" / "engine.json"]
    assert oct(having[0].stat().st_mode & 0o777) == oct(0o600)
    assert json.loads(having[0].read_text())["token"] == engine.token
    commands = [file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline") if _open(file)]
    assert len(commands) > 1 and not [line for line in commands if secret in line]
    assert engine.token not in repr(engine) + engine.address


def test_the_token_is_for_its_owner_alone_also_where_a_group_reads_the_lake(tmp_path: Path) -> None:
    before = os.umask(0o007)
    try:
        Engine(1, 2, "secret").remember(tmp_path / "engine.json")
    finally:
        os.umask(before)
    assert oct((tmp_path / "engine.json").stat().st_mode & 0o777) == oct(0o600)


def _open(file: Path) -> bool:
    try:
        file.read_bytes()
    except OSError:  # it has ended
        return False
    return True


def test_no_token_is_sent_while_another_listens_at_localhost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with contextlib.ExitStack() as held:
        try:
            other = held.enter_context(socket.socket(socket.AF_INET6))
            other.bind(("::1", 0))
        except OSError:  # without IPv6, ::1 cannot be bound, so another address stands for it
            other = held.enter_context(socket.socket())
            other.bind(("127.0.0.1", 0))
            address = {"::1": "127.0.0.1"}
            monkeypatch.setattr(
                "headwaters.platform.engine.listens", lambda p, h: listens(p, address[h])
            )
        engine = Engine(os.getpid(), other.getsockname()[1], "secret")
        assert engine.remote == f"sc://localhost:{engine.port}/;token=secret"
        other.listen()
        with pytest.raises(WorkError, match=rf"another process listens at \[::1\]:{engine.port}"):
            _ = engine.remote


def test_spark_asks_its_own_processes_for_a_secret(spark: Any) -> None:
    assert spark.conf.get("spark.authenticate") == "true"
