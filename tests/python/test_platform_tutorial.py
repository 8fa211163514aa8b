"""Test docs/platform-tutorial.md, with all servers of the platform: `make test-platform`."""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import ROOT
from s3_gateway import free_port
from trino_client import java_of_trino
from typed_pages import Shell

from headwaters.devkit import trino
from headwaters.platform.jars import cache_folder

PAGE = ROOT / "docs" / "platform-tutorial.md"
IN_PROJECT = "cd ~/shop 2> /dev/null && test -f lake/platform/platform.env && . $_ || true"


@pytest.mark.platform
def test_the_commands_of_the_platform_tutorial_print_what_it_shows(tmp_path: Path) -> None:
    java = java_of_trino()
    cache = str(cache_folder().parent)
    shell = Shell(tmp_path, IN_PROJECT, {trino.VARIABLE: java, "XDG_CACHE_HOME": cache})
    page = PAGE.read_text()
    assert "8088" in page
    try:
        shell.follow(page.replace("8088", str(free_port())))
    finally:
        shell.run("headwaters platform stop")  # in case that a step failed
