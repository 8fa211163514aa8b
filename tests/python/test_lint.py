"""Test the linting of SQL that calls our macros, as docs/use-in-your-project.md describes it."""

from __future__ import annotations

import re
from pathlib import Path

import sqlfluff

ROOT = Path(__file__).resolve().parents[2]
[SETTINGS] = re.findall(
    r"```ini\n(.*?)```", (ROOT / "docs/use-in-your-project.md").read_text(), flags=re.DOTALL
)
MODEL = """\
{{ config(incremental_strategy='change_feed', unique_key='id') }}

SELECT
    {{ cents('clicks.price') }} AS price,
    {{ surrogate_key(['clicks.id', 'clicks.page']) }} AS id
FROM {{ changes(source('raw', 'clicks')) }} AS clicks
"""
CENTS = "{% macro cents(column) %}{{ column }} * 100{% endmacro %}\n"
LOUD = "{% macro changes(relation) %}not sql{% endmacro %}\n"


def lint(folder: Path, settings: str, macros: str) -> list[str]:
    """Return sqlfluff's findings for the model in a project that has nothing else."""
    (folder / "macros").mkdir(exist_ok=True)
    (folder / "macros" / "theirs.sql").write_text(macros)
    (folder / ".sqlfluff").write_text(settings)
    found = sqlfluff.lint(MODEL, config_path=str(folder / ".sqlfluff"))
    return [f"{one['code']}: {one['description']}" for one in found]


def test_a_project_of_somebody_else_is_linted(tmp_path: Path) -> None:
    assert lint(tmp_path, SETTINGS, CENTS) == []
    undefined = lint(tmp_path, SETTINGS, "")
    assert "TMP: Undefined jinja template variable: 'cents'" in undefined


def test_a_library_of_theirs_replaces_ours(tmp_path: Path) -> None:
    without = lint(tmp_path, f"{SETTINGS}library_path = macros\n", CENTS)
    assert "TMP: Undefined jinja template variable: 'changes'" in without


def test_a_macro_of_theirs_wins(tmp_path: Path) -> None:
    assert any(line.startswith("PRS") for line in lint(tmp_path, SETTINGS, CENTS + LOUD))


def test_a_library_of_theirs_can_have_ours(tmp_path: Path) -> None:
    library = tmp_path / "lint" / "shop"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text(
        "from headwaters.lint.headwaters_macros import *\n\n"
        "def cents(column):\n    return f'{column} * 100'\n"
    )
    assert lint(tmp_path, f"{SETTINGS}library_path = {library}\n", "") == []
