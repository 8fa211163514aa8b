"""Errors carry stable codes, and docs/errors.md explains each of them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_code_is_explained_and_no_other() -> None:
    macros = "\n".join(file.read_text() for file in ROOT.glob("macros/**/*.sql"))
    code = "\n".join(file.read_text() for file in ROOT.glob("scripts/**/*.py"))
    raised = {f"HW_{name}" for name in re.findall(r"hw_raise\(\s*'([A-Z_0-9]+)'", macros)}
    raised |= set(re.findall(r"\bHW_[A-Z_0-9]+\b", code)) | {"HW_NOT_UTF8"}
    explained = re.findall(r"`(HW_[A-Z_0-9]+)`", (ROOT / "docs" / "errors.md").read_text())
    assert sorted(explained) == sorted(raised)


def test_macros_raise_by_code_alone() -> None:
    raw = {
        str(file.relative_to(ROOT))
        for file in ROOT.glob("macros/**/*.sql")
        if "raise_compiler_error" in file.read_text()
    }
    assert raw == {"macros/sql/raise.sql"}
