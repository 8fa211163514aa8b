"""Which part of the Python may know which: read from the imports, without running anything."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from headwaters.formats import declared as declared_formats
from headwaters.formats import registry as formats
from headwaters.sources import declared as declared_sources
from headwaters.sources import registry as sources

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
MODULES = {
    ".".join(path.relative_to(SCRIPTS).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (SCRIPTS / "headwaters").rglob("*.py")
}


def imports(module: str) -> set[str]:
    """The modules of headwaters that a module imports anywhere, also late or for types alone."""
    return set(_named(ast.parse(MODULES[module].read_text())))


def _named(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, "imports name their module from the root"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in MODULES or node.module in MODULES:
                    yield whole if whole in MODULES else node.module


def packages(module: str) -> Iterator[str]:
    """The packages of others that a module imports when it is imported itself."""
    for node in ast.parse(MODULES[module].read_text()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]


SPARK = {"pyspark", "py4j", "delta", "pyarrow", "confluent_kafka"}
GRAPH = {module: imports(module) for module in MODULES}


def inside(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def violations(of: tuple[str, ...], forbidden: tuple[str, ...]) -> list[str]:
    return sorted(
        f"{module} imports {other}"
        for module in GRAPH
        if inside(module, *of)
        for other in GRAPH[module]
        if inside(other, *forbidden)
    )


def test_the_graph_is_read() -> None:
    assert "headwaters.errors" in GRAPH["headwaters.project"]
    assert "headwaters.drafts" in GRAPH["headwaters.jars"]


def test_the_product_imports_neither_the_development_kit_nor_the_demonstration() -> None:
    kit = ("headwaters.dev", "headwaters.demo")
    # the command line alone registers their commands
    product = {module for module in GRAPH if not inside(module, *kit, "headwaters.cli")}
    assert [line for line in violations(("headwaters",), kit) if line.split()[0] in product] == []


def test_the_development_kit_does_not_import_the_demonstration() -> None:
    assert violations(("headwaters.dev",), ("headwaters.demo",)) == []


def test_other_parts_import_the_analysis_by_its_interface() -> None:
    public = {"headwaters.analysis", "headwaters.analysis.functions"}
    others = {name: found for name, found in GRAPH.items() if not inside(name, *public)}
    for path in (SCRIPTS / "dbt").rglob("*.py"):
        others[str(path)] = set(_named(ast.parse(path.read_text())))
    assert [
        f"{module} imports {name}"
        for module, found in sorted(others.items())
        for name in sorted(found)
        if inside(name, "headwaters.analysis") and name not in public
    ] == []


def test_the_wheel_has_every_package() -> None:
    settings = tomllib.loads((SCRIPTS.parent / "pyproject.toml").read_text())
    folders = {path.parent for path in (SCRIPTS / "headwaters").rglob("__init__.py")}
    found = {".".join(folder.relative_to(SCRIPTS).parts) for folder in folders}
    assert found == {one for one in settings["tool"]["setuptools"]["packages"] if one[:4] != "dbt."}


def test_set_up_runs_before_anything_is_installed() -> None:
    needed = {"headwaters.dev.environment"}
    while more := {other for module in needed for other in GRAPH[module]} - needed:
        needed |= more
    assert needed == {
        "headwaters.class_data",
        "headwaters.dev.environment",
        "headwaters.drafts",
        "headwaters.errors",
        "headwaters.jars",
        "headwaters.processes",
    }


def test_sources_know_neither_the_parsers_nor_ingestion() -> None:
    allowed = {
        "headwaters.formats.base",  # the protocol, and no format that implements it
        "headwaters.formats.declared",
    }
    packages = ("headwaters.formats", "headwaters.ingestion")
    found = violations(("headwaters.sources",), packages)
    assert [line for line in found if line.split()[-1] not in allowed] == []


def test_formats_and_tables_know_no_source_and_no_stream() -> None:
    above = ("headwaters.sources", "headwaters.ingestion", "headwaters.stream")
    assert violations(("headwaters.formats", "headwaters.tables"), above) == []


def test_dbt_reads_contracts_without_spark() -> None:
    needed = {"headwaters.contract", "headwaters.declared.streams"}
    while more := {other for module in needed for other in GRAPH[module]} - needed:
        needed |= more
    assert {"headwaters.sources.declared", "headwaters.formats.declared"} < needed
    assert [module for module in sorted(needed) if set(packages(module)) & SPARK] == []


def test_each_source_and_format_that_can_be_declared_has_a_class() -> None:
    assert list(sources.SOURCES) == list(declared_sources.SOURCES)
    carriers = {name: one.carriers for name, one in declared_formats.FORMATS.items()}
    assert {name: tuple(classes) for name, classes in formats.FORMATS.items()} == carriers


def test_no_module_imports_itself_by_way_of_others() -> None:
    left = {module: set(others) for module, others in GRAPH.items()}
    while free := {module for module, others in left.items() if not others & left.keys()}:
        left = {module: others for module, others in left.items() if module not in free}
    assert left == {}
