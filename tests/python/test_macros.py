"""Test the floors of macros: a helper has one home, and calls go down only. SQL is a template.

docs/architecture.md draws the floors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath

import pytest
from dbt_common.clients.jinja import get_environment
from jinja2 import nodes
from test_project_rules import parse

ROOT = Path(__file__).resolve().parents[2]
FLOORS = (
    *("sql", "delta", "operations", "table_properties", "maintenance", "quality"),
    *("incremental", "repair", "adapter"),
)
LONGEST_LINE, LONGEST_MACRO = 140, 40
STATEMENT = re.compile(
    r"\s*\(?(select|with|insert|merge|delete|update|create|alter|replace|drop|restore|describe|show"
    r"|optimize|reorg|vacuum|set|reset)\s"
)

Calls = Mapping[tuple[str, str], Iterable[tuple[str, str]]]


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Calls:
    """Return each macro and those that it calls, as pairs of file and name."""
    target = tmp_path_factory.mktemp("target")
    parse(ROOT, target)
    manifest = json.loads((target / "manifest.json").read_text())
    known = {
        key: (macro["original_file_path"], macro["name"])
        for key, macro in manifest["macros"].items()
        if macro["package_name"] in ("headwaters", "dbt_headwaters")
        and macro["original_file_path"].startswith("macros/")
    }
    return {
        known[key]: [known[to] for to in macro["depends_on"]["macros"] if to in known]
        for key, macro in manifest["macros"].items()
        if key in known
    }


def upward(calls: Calls) -> Iterator[str]:
    """Yield calls from a floor to one above it."""
    for (file, name), called in calls.items():
        for other, its in called:
            if FLOORS.index(floor(other)) > FLOORS.index(floor(file)):
                yield f"{name} ({floor(file)}) calls {its} ({floor(other)})"


def floor(file: str) -> str:
    return PurePosixPath(file).parts[1]


def circle(calls: Calls) -> list[str]:
    """Yield files that call each other in a circle."""
    files: dict[str, set[str]] = {}
    for (file, _), called in calls.items():
        files.setdefault(file, set()).update(other for other, _ in called if other != file)
    try:
        TopologicalSorter(files).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_calls_go_down_only(calls: Calls) -> None:
    assert {floor(file) for file, _ in calls} == set(FLOORS)
    assert list(upward(calls)) == []
    assert circle(calls) == []


def test_what_breaks_the_floors_is_found() -> None:
    a, b = ("macros/sql/a.sql", "a"), ("macros/delta/b.sql", "b")
    assert list(upward({a: [b], b: []})) == ["a (sql) calls b (delta)"]
    assert circle({a: [b], b: [a]})
    assert not circle({a: [], b: [a, b]})


def long_macros(text: str) -> Iterator[str]:
    """Yield the macros that are longer than a page, with their line counts."""
    pattern = r"\{%-?\s*(macro|materialization|test)\s+(\w+).*?\{%-?\s*end\1\s*-?%\}"
    for found in re.finditer(pattern, text, flags=re.S):
        lines = found.group().count("\n") + 1
        if lines > LONGEST_MACRO:
            yield f"{found.group(2)}: {lines} lines"


@pytest.mark.parametrize("file", sorted(ROOT.glob("macros/**/*.sql")), ids=lambda file: file.stem)
def test_macros_are_short(file: Path) -> None:
    text = file.read_text()
    assert list(long_macros(text)) == []
    assert [line for line in text.splitlines() if len(line) > LONGEST_LINE] == []


def test_a_long_macro_is_found() -> None:
    macro = "{% macro a() %}" + "\n" * LONGEST_MACRO + "{% endmacro %}"
    assert list(long_macros(macro)) == ["a: 41 lines"]
    assert not list(long_macros(macro.replace("\n", "", 1)))


def joined_statements(text: str) -> Iterator[tuple[str, int]]:
    """Yield statements that are joined with `~` over several lines: the macro, and the line."""
    for macro in get_environment(None).parse(text).find_all(nodes.Macro):
        for joined in macro.find_all(nodes.Concat):
            first = joined.nodes[0]
            if isinstance(first, nodes.Const) and STATEMENT.match(str(first.value)):
                lines = {node.lineno for node in joined.find_all(nodes.Node) if node.lineno}
                if len(lines) > 1:
                    yield macro.name.removeprefix("dbt_macro__"), min(lines)


@pytest.mark.parametrize("file", sorted(ROOT.glob("macros/**/*.sql")), ids=lambda file: file.stem)
def test_statements_are_templates(file: Path) -> None:
    assert list(joined_statements(file.read_text())) == []


def test_a_joined_statement_is_found() -> None:
    joined = "{% macro a(b) %}{%- set c = 'select ' ~ b\n ~ ' from t' -%}{% endmacro %}"
    assert list(joined_statements(joined)) == [("a", 1)]
    assert list(joined_statements(joined.replace("'select '", "'(select '"))) == [("a", 1)]
    assert not list(joined_statements(joined.replace("\n", "")))
    assert not list(joined_statements(joined.replace("'select '", "'selected: '")))
    assert not list(joined_statements("{% macro a(b) -%}\nselect {{ b }}\nfrom t\n{%- endmacro %}"))


MOST_METHODS = 30


def methods_called(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield each attribute of `adapter` that a macro uses, with the function called there."""
    tree = get_environment().parse(text)
    for found in tree.find_all(nodes.Getattr):
        if isinstance(found.node, nodes.Name) and found.node.name == "adapter":
            within = [part.attr for part in tree.find_all(nodes.Getattr) if part.node is found]
            yield found.attr, within[0] if within else None


def test_macros_call_few_methods_of_the_adapter_and_each_exists() -> None:
    from dbt.adapters.headwaters.impl import SUBJECTS, HeadwatersAdapter
    from dbt.adapters.headwaters.runs import Runs

    files = [
        file for folder in ("macros", "tests/generic") for file in (ROOT / folder).rglob("*.sql")
    ]
    used = {method for file in files for method in methods_called(file.read_text())}
    assert len({name for name, _ in used}) <= MOST_METHODS
    subjects = {**SUBJECTS, "runs": Runs}
    assert {name for name, _ in used} <= HeadwatersAdapter._available_
    assert set(subjects) <= {name for name, _ in used}
    assert [
        (name, function)
        for name, function in used
        if name in subjects and not callable(getattr(subjects[name], function or "", None))
    ] == []


def test_a_call_of_the_adapter_is_found() -> None:
    text = "{% macro a() %}{{ adapter.drift.drift_of(1) }}{{ adapter.quote('a') }}{% endmacro %}"
    assert set(methods_called(text)) == {("drift", "drift_of"), ("quote", None)}
