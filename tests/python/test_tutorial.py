"""Test docs/tutorial.md: its commands, typed in order, print the lines that the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import ROOT
from typed_pages import Shell, missing

PAGE = ROOT / "docs" / "tutorial.md"


def test_the_shown_lines_must_be_printed_in_their_order() -> None:
    printed = "note\na  10 rows in 31.4 s\nb: x y z\n"
    assert missing(("a  10 rows in 2.1 s", "b: … z"), printed) is None
    assert missing(("b: … z", "a  10 rows in 2.1 s"), printed) == "a  10 rows in 2.1 s"
    assert missing(("a  11 rows in 2.1 s",), printed) == "a  11 rows in 2.1 s"


@pytest.mark.slow
def test_the_commands_of_the_tutorial_print_what_it_shows(tmp_path: Path) -> None:
    shell = Shell(tmp_path, "cd ~/parcels 2> /dev/null || true")
    try:
        shell.follow(PAGE.read_text())
    finally:
        shell.run("headwaters engine stop")  # in case that a step failed
