"""Projects on a platform that runs, and commands on it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from processes import environment

from headwaters.devkit import services
from headwaters.platform import cluster as clusters
from headwaters.platform.project import Project

SHOP = {
    "dbt_project.yml": "name: shop\nversion: 1.0.0\nprofile: shop\n",
    "profiles.yml": """
shop:
  target: dev
  outputs:
    dev: &dev {type: headwaters, schema: gold, threads: 2}
    cluster:
      <<: *dev
      server_side_parameters: {spark.remote: the cluster of this lake}
    ingestion:
      <<: *dev
      server_side_parameters:
        spark.master: "{{ env_var('HEADWATERS_MASTER', '') }}"
        spark.authenticate: "true"
        spark.authenticate.secret: "{{ env_var('HEADWATERS_MASTER_SECRET', '') }}"
        spark.network.crypto.enabled: "true"
        spark.driver.host: 127.0.0.1
        spark.driver.memory: 1g
        spark.cores.max: "1"
        spark.executor.memory: 800m
""",
}


def make(folder: Path, files: Mapping[str, str]) -> Path:
    """Write the shop, and further files, into a folder."""
    for name, text in {**SHOP, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def variables_of(lake: Path) -> dict[str, str]:
    """Return the variables that name the platform of a lake, as far as it runs."""
    env = services.file(lake)
    lines = env.read_text().splitlines() if env.exists() else []
    pairs = (line.removeprefix("export ").partition("=") for line in lines)
    return {name: value for name, _, value in pairs}


def session(lake: Path) -> Any:
    """Return a session on the cluster of a lake."""
    from pyspark.sql import SparkSession

    connect = clusters.find(lake)
    assert connect
    return SparkSession.builder.remote(connect.remote).create()


class Platform:
    """A project and its platform, which a test starts."""

    def __init__(self, folder: Path, files: Mapping[str, str], **variables: str) -> None:
        """Make the project in the folder; its commands have these further variables."""
        self.folder, self.more = make(folder, files), variables
        self.lake = services.home(Project(folder))

    def variables(self) -> dict[str, str]:
        """Return the environment of a command on the platform, as far as it runs."""
        own = {"HEADWATERS_DRIVER_MEMORY": "1g", **self.more}
        return environment(self.folder / "lake") | own | variables_of(self.lake)

    def start(self, *words: str, output: IO[str] | int = subprocess.PIPE) -> subprocess.Popen[str]:
        """Start a command, with its Java in the same group of processes."""
        program = "headwaters.cli" if words[0] == "headwaters" else "dbt.cli.main"
        return subprocess.Popen(
            [sys.executable, "-m", program, *words[1:]],
            cwd=self.folder,
            env=self.variables(),
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *words: str, code: int = 0) -> str:
        """Run a command, and return what it prints without its progress."""
        process = self.start(*words)
        printed, _ = process.communicate()
        assert process.returncode == code, printed
        return printed

    def spark(self) -> Any:
        """Return a session on the cluster."""
        return session(self.lake)
