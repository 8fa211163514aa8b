"""Test that errors carry stable codes, and that docs/errors.md explains each of them."""

from __future__ import annotations

import ast
import importlib.metadata
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from headwaters.cli import app
from headwaters.platform.errors import CodedError, UserError, WorkError
from headwaters.streams.ingestion import reconcile
from headwaters.streams.ingestion import replay as replays

ROOT = Path(__file__).resolve().parents[2]
TREES = {
    str(file.relative_to(ROOT)): ast.parse(file.read_text())
    for file in sorted(ROOT.glob("scripts/**/*.py"))
}
TEMPLATES = [*ROOT.glob("macros/**/*.sql"), *ROOT.glob("tests/generic/*.sql")]
CODE = re.compile(r"HW_[A-Z_0-9]+")


def coded_errors() -> set[str]:
    """Return the names of the classes of errors that have a code."""
    names = {CodedError.__name__}
    bases = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    while more := {name for name, of in bases.items() if of & names} - names:
        names |= more
    return names


def made() -> Iterator[tuple[str, ast.Call]]:
    """Yield the place and the call of each such error."""
    names = coded_errors()
    for file, tree in TREES.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else None
            if (function.id if isinstance(function, ast.Name) else name) in names:
                yield f"{file}:{node.lineno}", node


def code_of(call: ast.Call) -> str | None:
    """Return the first argument of a call, if it is a code and a second one follows."""
    first = call.args[0] if len(call.args) == 2 else None
    code = first.value if isinstance(first, ast.Constant) else None
    return code if isinstance(code, str) and CODE.fullmatch(code) else None


def codes_in_python() -> set[str]:
    """Return every string in the code that is a code, including those of `Problem`s."""
    return {
        node.value
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and CODE.fullmatch(node.value)
    }


def test_every_error_of_a_command_has_a_code() -> None:
    calls = list(made())
    assert {"UserError", "WorkError", "SourceReplaced"} < coded_errors()
    assert len(calls) > 100
    assert [place for place, call in calls if code_of(call) is None] == []


def test_an_error_shows_its_code_as_those_of_macros_do() -> None:
    assert str(UserError("HW_ARGUMENT", "--once ends")) == "[HW_ARGUMENT] --once ends"
    assert str(WorkError("HW_FILE", "no space")) == "[HW_FILE] no space"


USER, WORK = UserError("HW_CONTRACT", "wrong"), WorkError("HW_STREAM_FAILED", "failed")


@pytest.mark.parametrize(
    ("errors", "code"),
    [((), 0), ((WORK,), 1), ((USER,), 2), ((WORK, USER), 2), ((USER, WORK), 2)],
)
@pytest.mark.parametrize("command", ["audit", "replay"])
def test_a_mistake_of_the_user_ends_with_2_and_a_failure_with_1(
    monkeypatch: pytest.MonkeyPatch, command: str, errors: tuple[CodedError, ...], code: int
) -> None:
    found = {f"s{number}": error for number, error in enumerate(errors)}
    contracts = [SimpleNamespace(name=name) for name in found]
    monkeypatch.setattr("headwaters.cli._contracts", lambda *_: (None, contracts, 0))
    monkeypatch.setattr(reconcile, "settled_records", lambda *_: 0)
    monkeypatch.setattr(reconcile, "audit", lambda *_, **__: found)
    monkeypatch.setattr(replays, "replay", lambda *_, **__: found)
    done = CliRunner().invoke(app, [command])
    assert done.exit_code == code, done.output


def test_every_code_is_explained_and_no_other() -> None:
    macros = "\n".join(file.read_text() for file in TEMPLATES)
    raised = codes_in_python() | set(re.findall(r"hw_raise\(\s*'(HW_[A-Z_0-9]+)'", macros))
    explained = re.findall(r"`(HW_[A-Z_0-9]+)`", (ROOT / "docs" / "errors.md").read_text())
    assert sorted(explained) == sorted(raised)


def test_macros_raise_by_code_alone() -> None:
    calls = [
        call for file in TEMPLATES for call in re.findall(r"hw_raise\(\s*(\S+)", file.read_text())
    ]
    assert len(calls) > 40
    assert [call for call in calls if not re.match(r"'HW_[A-Z_0-9]+'", call)] == ["code,"]
    raw = {
        str(file.relative_to(ROOT))
        for file in TEMPLATES
        if re.search(r"raise_compiler_error|adapter\.refusals", file.read_text())
    }
    assert raw == {"macros/sql/raise.sql"}


def test_the_installed_releases_are_printed() -> None:
    shown = CliRunner().invoke(app, ["--version"])
    names = ("dbt-headwaters", "dbt-core", "dbt-spark", "pyspark", "delta-spark")
    releases = [f"{name} {importlib.metadata.version(name)}" for name in names]
    assert (shown.exit_code, shown.output.splitlines()) == (0, releases)
