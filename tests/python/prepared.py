"""Prepare a process that processes.py forks: imports, and dbt's parsing of our macros.

dbt caches parsed texts, as in its own tests, so that a forked process parses only its project.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from dbt.cli.main import dbtRunner
from dbt_common.tests import enable_test_caching

import headwaters.cli
import headwaters.platform.profile

__all__ = ["headwaters"]

ROOT = Path(__file__).resolve().parents[2]


def prepare() -> None:
    """Parse an empty project."""
    enable_test_caching()
    before = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "dbt_project.yml").write_text("name: bare\nprofile: headwaters\n")
        places = ("--project-dir", folder, "--target-path", folder, "--log-path", folder)
        profiles = ("--profiles-dir", str(ROOT / "profiles"))
        parsed = dbtRunner().invoke(["--quiet", "parse", "--no-write-json", *places, *profiles])
    assert parsed.success, parsed.exception
    assert os.environ == before


prepare()
