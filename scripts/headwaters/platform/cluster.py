"""The cluster of a lake: a standalone Spark of several processes, on this machine.

A master, workers, and a Spark Connect server that is an application of it. `<lake>/cluster` has a
file for each process, with its port and, for the owner alone, its secret.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from headwaters.platform import engine
from headwaters.platform.engine import DEFAULT_PORT, Engine
from headwaters.platform.errors import WorkError
from headwaters.platform.servers import LOOPBACK, Server

# The `spark.remote` of the target `cluster`, unless the environment names another one.
OF_THIS_LAKE = "the cluster of this lake"


@dataclass(frozen=True)
class Master(Server):
    """A running master: the port of applications, that of its page, and their secret."""

    page: int = 0
    secret: str = field(default="", repr=False)

    @property
    def address(self) -> str:
        """Return the value of `spark.master`."""
        return f"spark://127.0.0.1:{self.port}"

    def settings(self) -> dict[str, str]:
        """Return the settings of an application of this cluster."""
        return {
            "spark.master": self.address,
            "spark.authenticate": "true",
            "spark.authenticate.secret": self.secret,
            "spark.network.crypto.enabled": "true",
            "spark.executor.cores": "1",
        }


def folder(lake: Path) -> Path:
    """Return the folder of a lake's cluster."""
    return lake / "cluster"


def record(lake: Path, part: str) -> Path:
    """Return the file of a process: `master`, `worker-1` …, or `connect`."""
    return folder(lake) / f"{part}.json"


def master(lake: Path) -> Master | None:
    """Return the running master of this lake, or None."""
    return Master.running(record(lake, "master"))


def workers(lake: Path) -> list[Server]:
    """Return the running workers of this lake."""
    found = map(Server.running, sorted(folder(lake).glob("worker-*.json")))
    return [worker for worker in found if worker]


def find(lake: Path) -> Engine | None:
    """Return the running Spark Connect server of this lake's cluster, or None."""
    return Engine.running(record(lake, "connect"))


def ended(remote: str | None, lake: Path) -> WorkError:
    """Return the error of a Spark server that no longer answers, with the command for its start."""
    url = urlsplit((remote or "").split(";")[0])
    own = [
        (Engine.last(engine.record(lake)), "`headwaters engine start`"),
        (Engine.last(record(lake, "connect")), "`headwaters cluster start`"),
    ]
    commands = [
        command
        for last, command in own
        if last and url.hostname in LOOPBACK and last.port == (url.port or DEFAULT_PORT)
    ]
    return WorkError(
        "HW_SPARK_ENDED",
        "the Spark server no longer answers: see its log, and whether the system ran out of memory."
        f" Start it again: {commands[0] if commands else 'by the command of its cluster'}. The next"
        " run resumes",
    )
