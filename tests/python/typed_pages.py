"""Type the commands of a page of the documentation, and compare what they print."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from processes import ROOT


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


@dataclass(frozen=True)
class Shell:
    """A shell with an empty home folder and this checkout's commands.

    Each text of commands begins with `before`. `more` are further variables.
    """

    home: Path
    before: str
    more: Mapping[str, str] = field(default_factory=dict)

    def run(self, commands: str) -> str:
        """Run commands, which must succeed, and return what they print."""
        others = ("HEADWATERS_", "DBT_", "SPARK_")  # Spark Connect, in a test, passes SPARK_… on
        kept = {k: v for k, v in os.environ.items() if not k.startswith(others)}
        variables = {
            **kept,
            "HOME": str(self.home),
            "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "scripts"),
            "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1",
            **self.more,
        }
        with (self.home / "output").open("w+") as output:  # a server left behind holds no pipe
            ran = subprocess.run(
                ["bash", "-ec", f"{self.before}\n{commands}"],
                cwd=self.home,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
            output.seek(0)
            printed = output.read()
        print(f"$ {commands}\n{printed}", flush=True)
        assert ran.returncode == 0, printed
        return printed

    def follow(self, page: str) -> None:
        """Run the commands of a page, which have to print the lines below each block."""
        for step in steps(page):
            assert missing(step.shown, self.run(step.commands)) is None
