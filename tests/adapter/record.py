"""The record of results of dbt's tests; `page.py` makes a page of it."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

Results = dict[str, dict[str, str]]


def read(file: Path) -> Results:
    """Return the results of a file, by test."""
    results: Results = json.loads(file.read_text()) if file.exists() else {}
    return results


def name_of(item: pytest.Item) -> str:
    """Return the name of a test in the record: its folder, class and function."""
    return item.nodeid.split("adapter/test_", 1)[1].replace(".py::", "::")


class Record:
    """A plugin of pytest that replaces the results of the tests that run."""

    def __init__(self, file: Path) -> None:
        """Add to the results in a file."""
        self._file = file

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Add the tests without a result."""
        known = read(self._file)
        for item in session.items:
            known.setdefault(name_of(item), {"result": "not run", "reason": ""})
        self._write(known)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note the outcome of a test, and that of its setup if it failed there."""
        report = yield
        if report.skipped:
            assert isinstance(report.longrepr, tuple)
            self._note(item, "not applicable", report.longrepr[2].removeprefix("Skipped: "))
        elif report.failed:
            self._note(item, "failed", message_of(report.longreprtext, report.capstdout))
        elif report.when == "call":
            self._note(item, "passed", "")
        return report

    def _note(self, item: pytest.Item, result: str, reason: str) -> None:
        self._write({**read(self._file), name_of(item): {"result": result, "reason": reason}})

    def _write(self, results: Results) -> None:
        self._file.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")


def message_of(error: str, output: str) -> str:
    """Return the first error of dbt if a command failed, or else the failed assertion."""
    lines = [line.removeprefix("E").strip() for line in error.splitlines() if line[:1] == "E"]
    if lines and "exit state did not match" not in lines[0]:
        return lines[0]
    return _first_error(re.sub(r"\x1b\[\S*?m", "", output).splitlines()) or "dbt failed"


def _first_error(output: Sequence[str]) -> str:
    """Return the line below `Failure in …`, without its time and the name of its node."""
    for number, line in enumerate(output):
        if re.search(r" Failure in ", line):
            for below in output[number + 1 :]:
                text = re.sub(r"^\d\d:\d\d:\d\d +", "", below).strip()
                if text and not re.match(r"\w+ Error in|.* failed, error:$", text):
                    return text
    return ""
