"""The findings of the linter in changed files that the base does not have."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from headwaters.review.facts import Finding


@dataclass(frozen=True)
class Linted:
    """The new findings by file, or the `problem` that prevented them."""

    findings: Mapping[str, tuple[Finding, ...]]
    problem: str | None = None

    def of(self, file: str) -> tuple[Finding, ...]:
        """Return the new findings in one file."""
        return self.findings.get(file, ())


def new_findings(base: Path, head: Path, files: Sequence[str]) -> Linted:
    """Return sqlfluff's findings in the head's files that the base's files do not have."""
    there = [file for file in files if (head / file).is_file()]
    if not there:
        return Linted({})
    found = _lint(head, there)
    if isinstance(found, str):
        return Linted({}, f"the linter did not run: {found}")
    known = _lint(base, [file for file in there if (base / file).is_file()])
    return Linted(subtracted(found, {} if isinstance(known, str) else known))


def subtracted(
    found: Mapping[str, Sequence[tuple[str, int]]], known: Mapping[str, Sequence[tuple[str, int]]]
) -> dict[str, tuple[Finding, ...]]:
    """Return the findings, as text and line, that exceed those known of the same text and file."""
    made: dict[str, tuple[Finding, ...]] = {}
    for file, lines in found.items():
        left = Counter(text for text, _ in known.get(file, ()))
        fresh = []
        for text, line in lines:
            if left[text]:
                left[text] -= 1
            else:
                fresh.append(Finding("lint", text, fails=False, place=f"{file}:{line}"))
        if fresh:
            made[file] = tuple(fresh)
    return made


# The files of a project that configure sqlfluff, which lints nothing without a dialect.
_CONFIGURATIONS = (".sqlfluff", "pyproject.toml", "setup.cfg", "tox.ini", "pep8.ini")


def _configures(file: Path) -> bool:
    return file.is_file() and bool(re.search(r"^\[(tool\.)?sqlfluff", file.read_text(), re.M))


def _lint(root: Path, files: Sequence[str]) -> dict[str, list[tuple[str, int]]] | str:
    if not files:
        return {}
    if find_spec("sqlfluff") is None:
        is_used = any(map(_configures, (root / name for name in _CONFIGURATIONS)))
        return (
            "sqlfluff is not installed. Install it with `pip install sqlfluff`" if is_used else {}
        )
    done = subprocess.run(
        [sys.executable, "-m", "sqlfluff", "lint", "--format", "json", "--nocolor", *files],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if "No dialect was specified" in done.stdout + done.stderr:
        return {}  # the project does not use the linter
    try:
        answer = json.loads(done.stdout[done.stdout.index("[") :])
    except ValueError:
        said = (done.stderr or done.stdout).strip()
        return said.rpartition("\n")[2] or "sqlfluff said nothing"
    return {
        one["filepath"]: [
            (
                f"{v['code']} {v['description']}",
                int(v.get("start_line_no") or v.get("line_no") or 0),
            )
            for v in one["violations"]
        ]
        for one in answer
    }
