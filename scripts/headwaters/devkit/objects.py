"""A local S3 store for development and tests: Versity S3 Gateway, which Go builds once.

`<lake>/objects/objects.json` has its address and its keys; a bucket is a folder beside it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headwaters.devkit.servers import end, starting
from headwaters.platform import lake as lakes
from headwaters.platform.errors import UserError, WorkError
from headwaters.platform.jars import cache_folder
from headwaters.platform.project import Project
from headwaters.platform.servers import Server

VERSION = "v1.8.0"
PACKAGE = f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"
REGION = "us-east-1"
BUCKET = "lake"


@dataclass(frozen=True)
class ObjectStore(Server):
    """A running S3 store with one bucket."""

    access: str = ""
    secret: str = field(default="", repr=False)

    @property
    def address(self) -> str:
        """Return its address."""
        return f"http://127.0.0.1:{self.port}"

    def variables(self) -> dict[str, str]:
        """Return the environment of a process that uses the store."""
        return {
            "AWS_ENDPOINT_URL": self.address,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": self.access,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_EC2_METADATA_DISABLED": "true",
        }


def find(lake: Path) -> ObjectStore | None:
    """Return the store that runs on this lake, or None."""
    return ObjectStore.running(record(lake))


def record(lake: Path) -> Path:
    """Return the file with the address of a lake's store."""
    return lake / "objects" / "objects.json"


def start(
    project: Project, say: Callable[[str], None], port: int | None = None, patience: float = 30.0
) -> ObjectStore:
    """Start the store of this lake and wait until it listens, or return the running one.

    A restarted store keeps its port, its keys and its data. Raises UserError without Go, and
    WorkError if the program cannot be built, or ends while it starts.
    """
    lakes.enter(project.local)
    if running := find(project.local):
        return running
    gateway = program(say)
    folder = record(project.local).parent
    (folder / "data" / BUCKET).mkdir(parents=True, exist_ok=True)
    before = ObjectStore.last(record(project.local))
    access = before.access if before else secrets.token_hex(10)
    secret = before.secret if before else secrets.token_hex(20)
    variables = {
        **os.environ,
        "ROOT_ACCESS_KEY_ID": access,
        "ROOT_SECRET_ACCESS_KEY": secret,
        "VGW_REGION": REGION,
    }
    with (
        (folder / "objects.log").open("wb") as output,
        starting(
            lambda free: command(gateway, free, folder / "data"),
            "the S3 store",
            output,
            patience,
            before.port if port is None and before else port,
            environment=variables,
        ) as (pid, chosen),
    ):
        store = ObjectStore(pid, chosen, access, secret)
        store.remember(record(project.local))
    return store


def stop(lake: Path) -> ObjectStore | None:
    """Stop the store of this lake and wait until it ends; None if none runs. Data is kept."""
    store = find(lake)
    if store is not None:
        end(store.pid)
    return store


def command(gateway: Path, port: int, folder: Path) -> list[str]:
    """Return the command of a store at a port, with a bucket for each folder."""
    return [str(gateway), "--port", f"127.0.0.1:{port}", "--quiet", "posix", str(folder)]


def program(say: Callable[[str], None]) -> Path:
    """Return the store's program, built once for all checkouts.

    Raises UserError without Go, and WorkError if it cannot be built.
    """
    built = cache_folder() / f"versitygw-{VERSION}" / "versitygw"
    if built.is_file():
        return built
    go = shutil.which("go")
    if go is None:
        raise UserError(
            "HW_SERVER",
            "the S3 store is built by Go, which is not on PATH: install Go 1.25 or newer, or put "
            f"a versitygw {VERSION} at {built}",
        )
    say(f"building the S3 store with Go (minutes, once): {PACKAGE}")
    variables = {**os.environ, "GOBIN": str(built.parent)}
    ran = subprocess.run(
        [go, "install", PACKAGE], env=variables, capture_output=True, text=True, check=False
    )
    if ran.returncode or not built.is_file():
        reason = (ran.stderr.strip().splitlines() or [f"exit code {ran.returncode}"])[-1]
        raise WorkError("HW_SERVER", f"the S3 store could not be built: {reason}")
    return built
