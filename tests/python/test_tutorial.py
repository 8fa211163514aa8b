"""Test docs/tutorial.md: its commands, typed in order, print the lines that the page shows."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial.md"


@dataclass(frozen=True)
class Step:
    """The commands of a block, and the lines that the page shows of their output."""

    commands: str
    shown: tuple[str, ...]


def steps(page: str) -> list[Step]:
    """Return the blocks of commands; the next block of text, if any, is their output."""
    found = re.findall(r"^```(shell|text)\n(.*?)^```$", page, flags=re.S | re.M)
    made: list[Step] = []
    for language, text in found:
        if language == "shell":
            made.append(Step(text, ()))
        else:
            made[-1] = Step(made[-1].commands, tuple(text.splitlines()))
    return made


def missing(shown: tuple[str, ...], printed: str) -> str | None:
    """Return the first shown line that does not follow its predecessor in the output, or None.

    `…` stands for any text, and seconds may differ.
    """
    lines = iter(printed.splitlines())
    for line in shown:
        pattern = re.escape(line.rstrip()).replace("…", ".*")
        pattern = re.sub(r"in\\ \d+\\\.\d\\ s", r"in [\\d.]+ s", pattern)
        if not any(re.fullmatch(pattern, each.rstrip()) for each in lines):
            return line
    return None


def test_the_shown_lines_must_be_printed_in_their_order() -> None:
    printed = "note\na  10 rows in 31.4 s\nb: x y z\n"
    assert missing(("a  10 rows in 2.1 s", "b: … z"), printed) is None
    assert missing(("b: … z", "a  10 rows in 2.1 s"), printed) == "a  10 rows in 2.1 s"
    assert missing(("a  11 rows in 2.1 s",), printed) == "a  11 rows in 2.1 s"


@pytest.mark.slow
def test_the_commands_of_the_tutorial_print_what_it_shows(tmp_path: Path) -> None:
    others = ("HEADWATERS_", "DBT_", "SPARK_")  # Spark Connect, in a test, passes SPARK_… on
    kept = {k: v for k, v in os.environ.items() if not k.startswith(others)}
    variables = {
        **kept,
        "HOME": str(tmp_path),
        "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "scripts"),
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1",
    }

    def run(commands: str) -> str:
        script = f"cd ~/parcels 2> /dev/null || true\n{commands}"
        ran = subprocess.run(
            ["bash", "-ec", script],
            cwd=tmp_path,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        print(f"$ {commands}\n{ran.stdout}", flush=True)
        assert ran.returncode == 0, ran.stdout
        return ran.stdout

    try:
        for step in steps(PAGE.read_text()):
            assert missing(step.shown, run(step.commands)) is None
    finally:
        run("headwaters engine stop")  # in case that a step failed
