"""Test that the commands, messages and models of README.md and the pages exist."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.text import Text
from test_project_rules import RULES, Manifest, parse

from headwaters.cli import ShowByDefault, app
from headwaters.platform.manifest import load_compiled
from headwaters.platform.project import Project
from headwaters.report.lineage.tables import tables_of

Dbt = Callable[..., Any]

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "data" / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    """Return the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), flags=re.S | re.M)


def commands(page: Path, program: str) -> list[list[str]]:
    """Return the arguments of each call of a program, in shell blocks and between backticks."""
    text = page.read_text()
    spoken = re.findall(rf"`({program} [^`\n]+)`", text)
    typed = [line for block in blocks(page, "shell") for line in block.splitlines()]
    lines = [line for line in [*spoken, *typed] if line.split()[:1] == [program]]
    words = (shlex.split(line, comments=True)[1:] for line in lines)
    # without what the shell does with the command
    return [[*takewhile(lambda word: word not in (">", "&", "|"), one)] for one in words]


def understands(command: Any, arguments: list[str]) -> None:
    """Parse the arguments as the command would, down to the last sub-command, without running it.

    The command is click's, or typer's copy of it.
    """
    rest = list(arguments)
    while hasattr(command, "commands"):
        if isinstance(command, ShowByDefault) and not {*rest[:1]} & {*command.commands}:
            rest = ["show", *rest]
        assert rest, f"{command.name} wants a sub-command"
        if rest[0] in {name for option in command.params for name in option.opts}:
            return
        assert rest[0] in command.commands, f"no command {rest[0]} in {arguments}"
        command = command.commands[rest.pop(0)]
    command.make_context(command.name, rest)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_headwaters_command_of_a_page_exists_with_its_options(page: Path) -> None:
    for arguments in commands(page, "headwaters"):
        understands(typer.main.get_command(app), arguments)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_dbt_command_of_a_page_exists_with_its_options(page: Path) -> None:
    from dbt.cli.main import cli

    for arguments in commands(page, "dbt"):
        understands(cli, arguments)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_make_target_of_a_page_exists(page: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    targets |= {
        f"bench-{file.stem.removeprefix('bench_').replace('_', '-')}"
        for file in (ROOT / "benchmarks").glob("bench_*.py")
    }
    named = {argument for arguments in commands(page, "make") for argument in arguments}
    assert {target for target in named if "=" not in target} <= targets


def installed_packages(text: str) -> list[str]:
    """Return the requirements of each `pip install` and `pip uninstall` of a text."""
    calls = re.findall(r"\bpip (?:un)?install ([^`\n#&;]+)", text)
    words = [word for call in calls for word in shlex.split(call.replace("(", " "))]
    return [word for word in words if not word.startswith("-")]


def test_pip_installs_locked_packages_and_headwaters_by_its_path() -> None:
    workflows = sorted(ROOT.glob(".github/workflows/*.yml"))
    files = [*PAGES, *workflows, ROOT / "Dockerfile", ROOT / "CONTRIBUTING.md"]
    named = {word for file in files for word in installed_packages(file.read_text())}
    wheel = "dbt_headwaters-0.1.0-py3-none-any.whl"
    headwaters = {"../headwaters", f"/opt/headwaters/{wheel}", f"./wheels/{wheel}"}
    assert headwaters <= {word.split("[")[0] for word in named}
    lock = (ROOT / "conf" / "requirements-dev.txt").read_text()
    locked = set(re.findall(r"^([\w.-]+)(?=\[|==)", lock, flags=re.M))
    assert {word for word in named if word.split("[")[0] not in headwaters | locked} <= {"sqlglotc"}


def helps(command: Any) -> Iterator[str]:
    """Yield the help of a command's options and arguments, and of those of its sub-commands."""
    for sub_command in getattr(command, "commands", {}).values():
        yield from helps(sub_command)
    yield from filter(None, (getattr(one, "help", None) for one in command.params))


def test_help_is_shown_whole() -> None:
    # rich takes lower-case text in brackets for markup, and leaves it out
    texts = list(helps(typer.main.get_command(app)))
    assert len(texts) > 60
    assert [text for text in texts if Text.from_markup(text).plain != text] == []


def test_run_kafka_builds_whatever_its_models_and_tests_need(dbt: Dbt, schema: str) -> None:
    told = subprocess.run(["make", "-n", "run-kafka"], cwd=ROOT, capture_output=True, text=True)
    (selected,) = re.findall(r"dbt build --select ([^;]*);", told.stdout)
    keys = ["--output", "json", "--output-keys", "unique_id", "depends_on"]
    listed = dbt("ls", "--select", *selected.split(), *keys, schema=schema).result
    built = {node["unique_id"]: node.get("depends_on", {}) for node in map(json.loads, listed)}
    needed = {name for wanted in built.values() for name in wanted.get("nodes", ())}
    assert len(built) > 70 and needed <= built.keys()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_links_to_exists(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    local = [link for link in links if not link.startswith("http")]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_the_messages_of_the_error_page_are_those_of_the_code() -> None:
    sources = [*ROOT.glob("scripts/**/*.py"), *ROOT.glob("macros/**/*.sql")]
    # A message may go on in the next literal: "a " \n "b"
    code = re.sub(r"""["']\s*~?\s*f?["']""", "", "\n".join(path.read_text() for path in sources))
    code = re.sub(r"\{\w+\}", "…", code)
    table = (ROOT / "docs" / "errors.md").read_text().split("\n## ")[1]
    messages = re.findall(r"^\| `(.+?)`(?: \(or `moved`\))? \|", table, flags=re.M)
    assert len(messages) > 20
    for message in messages:
        words = message.split()
        runs = [" ".join(words[start : start + 3]) for start in range(len(words) - 2)]
        assert any(run in code for run in runs), f"nothing says: {message}"


@pytest.fixture
def with_first_model(tmp_path: Path) -> Path:
    """Return this project with the model that the README's reader writes."""
    folder = tmp_path / "project"
    for name in ("models", "project_macros", "seeds", "tests", "profiles"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("python"))
    for name in ("dbt_project.yml", ".dbtignore"):
        shutil.copy(ROOT / name, folder)
    written = []
    for language, comment in (("sql", "--"), ("yaml", "#")):
        for block in blocks(ROOT / "README.md", language):
            first, _, text = block.partition("\n")
            if first.startswith(f"{comment} models/"):
                path = folder / first.removeprefix(comment).strip()
                assert not path.exists(), f"{path.name} is not the reader's first: it exists"
                path.write_text(text)
                written.append(path.name)
    assert written == ["category_daily_spend.sql", "category_daily_spend.yml"]
    return folder


def test_the_first_model_of_the_readme_has_the_columns_of_its_contract(
    with_first_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBT_TARGET_PATH", str(tmp_path / "target"))
    monkeypatch.setenv("DBT_LOG_PATH", str(tmp_path / "logs"))
    compiled = load_compiled(Project(with_first_model, ROOT / "profiles", "local"))
    assert compiled.refused == {}
    tables = tables_of(compiled.nodes, compiled.exposures, compiled.refused, with_first_model)
    (table,) = [table for table in tables.values() if table.name == "category_daily_spend"]
    assert table.relation is not None, table.reason
    assert list(table.declared) == list(table.relation.columns) != []


def test_the_first_model_of_the_readme_obeys_the_rules_of_the_project(
    with_first_model: Path, tmp_path: Path
) -> None:
    parse(with_first_model, tmp_path / "target")
    manifest = Manifest(tmp_path / "target")
    assert "category_daily_spend" in {node["name"] for node in manifest.models}
    problems = [problem for rule in RULES for problem in rule(manifest)]
    assert [problem for problem in problems if "category_daily_spend" in problem] == []


FOLDERS = ("conf", "docs", "macros", "models", "scripts", "tests")
FILES = [*ROOT.iterdir(), *(file for folder in FOLDERS for file in (ROOT / folder).rglob("*"))]


def recipes() -> dict[str, str]:
    """Return the recipes of CONTRIBUTING.md by their title."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    chapter = page.split("\n## Recipes\n")[1].split("\n## ")[0]
    return dict(re.findall(r"^### (.+?)\n(.+?)(?=^### |\Z)", chapter, flags=re.S | re.M))


def missing_files(recipe: str) -> Iterator[str]:
    """Yield the names of files in a recipe that no file has.

    The first cell of a row has whole paths; a name without a folder is in the folder of the one
    before. A text names a file by the end of its path. `<name>` is a name of the reader's.
    """
    for line in recipe.splitlines():
        cell, text = line.split(" | ", 1) if line.startswith("| ") else ("", line)
        folder = ""
        for name in re.findall(r"`([^`]+)`", cell):
            folder = name.rpartition("/")[0] if "/" in name else folder
            pattern = re.sub(
                r"<\w+>", "*", name if "/" in name or not folder else f"{folder}/{name}"
            )
            if not any(ROOT.glob(pattern)):
                yield name
        for name in re.findall(r"`([\w./]+\.(?:json|md|py|sql|txt|toml|xml|yml))`", text):
            if not any(str(file).endswith(f"/{name}") for file in FILES):
                yield name


@pytest.mark.parametrize("title", recipes())
def test_every_file_of_a_recipe_exists(title: str) -> None:
    assert list(missing_files(recipes()[title])) == []


def test_a_missing_file_of_a_recipe_is_found() -> None:
    rows = "| `scripts/headwaters/cli.py`, `no.py` | `sql/raise.sql`, `no.sql` |\n`docs/no.md`"
    assert list(missing_files(rows)) == ["no.py", "no.sql", "docs/no.md"]
    assert not list(missing_files("| `macros/repair/<name>.sql`, `conf/requirements*.txt` | |"))


@pytest.mark.slow
def test_the_first_model_of_the_readme_can_be_built(
    dbt: Dbt, schema: str, with_first_model: Path
) -> None:
    # Bronze is empty here, since the test only checks names, types and the model's contract.
    chosen = ["--select", "silver_financial_transactions", "category_daily_spend"]
    ran = dbt("run", *chosen, project_dir=with_first_model, schema=schema).result
    models = {r.node.name: str(r.status) for r in ran if r.node.resource_type == "model"}
    assert models == {"silver_financial_transactions": "success", "category_daily_spend": "success"}
