"""Make small dbt projects, and run dbt in this process; fixtures of any scope use them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run_dbt(
    folder: Path,
    *arguments: str,
    project_dir: Path = ROOT,
    schema: str | None = None,
    expect: bool | None = True,
    artifacts: bool = False,
) -> Any:
    """Return dbt's result object; fail the test if the outcome is not the expected one.

    dbt writes its files to `folder`. It writes artifacts, which cost a tenth of a second of each
    command, only on request.
    """
    from dbt.cli.main import dbtRunner

    messages: list[str] = []
    target = [] if "--target" in arguments else ["--target", "engine"]

    def listen(event: Any) -> None:
        if event.info.level in ("warn", "error"):
            messages.append(event.info.msg)

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project_dir)
        patch.setenv("DBT_TARGET_PATH", str(folder / "target"))
        patch.setenv("DBT_LOG_PATH", str(folder / "logs"))
        patch.setenv("DBT_WRITE_JSON", str(artifacts))
        if schema is not None:
            patch.setenv("HEADWATERS_SCHEMA", schema)
        result = dbtRunner(callbacks=[listen]).invoke(
            [
                "--no-use-colors",
                "--quiet",
                *arguments,
                *target,
                "--project-dir",
                str(project_dir),
                "--profiles-dir",
                str(ROOT / "profiles"),
            ]
        )
    result.messages = messages  # type: ignore[attr-defined]  # a field for the tests
    if expect is not None and result.success is not expect:
        pytest.fail(f"dbt {' '.join(arguments)}: {result.exception or ''}\n" + "\n".join(messages))
    return result


def make_project(parent: Path, files: Mapping[str, str]) -> Path:
    """Make a project with these files and this project's macros, profile and layer defaults."""
    folder = parent / f"project_{uuid.uuid4().hex[:6]}"
    folder.mkdir()
    (folder / "project_macros").symlink_to(ROOT / "project_macros")
    (folder / "profiles").symlink_to(ROOT / "profiles")
    settings = (ROOT / "dbt_project.yml").read_text()
    assert "ops_tests: true" in settings
    settings = settings.replace("ops_tests: true", "ops_tests: false")
    (folder / "dbt_project.yml").write_text(settings)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
