"""Test which parts of the Python may import which, without running anything."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from headwaters.streams.formats import declared as declared_formats
from headwaters.streams.formats import registry as formats
from headwaters.streams.sources import declared as declared_sources
from headwaters.streams.sources import registry as sources

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
MODULES = {
    ".".join(path.relative_to(SCRIPTS).with_suffix("").parts).removesuffix(".__init__"): path
    for path in (SCRIPTS / "headwaters").rglob("*.py")
}


def imports(module: str) -> set[str]:
    """Return the modules of headwaters that a module imports anywhere, even late or for types."""
    return set(_named(ast.parse(MODULES[module].read_text())))


def _named(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.level == 1:
                continue  # a module of the same folder
            assert node.level == 0, "imports of other folders name their module from the root"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if whole in MODULES or node.module in MODULES:
                    yield whole if whole in MODULES else node.module


def packages(module: str) -> Iterator[str]:
    """Return the external packages that a module imports when it is imported itself."""
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
    assert "headwaters.platform.errors" in GRAPH["headwaters.platform.project"]
    assert "headwaters.platform.atomic_write" in GRAPH["headwaters.platform.jars"]


# Each wing may import the wings of the rows below it, and itself.
ORDER = [
    {"cli"},
    {"devkit", "lint"},
    {"review"},
    {"report", "publish", "http", "query"},
    {"runs", "streams"},
    {"tables"},
    {"analysis"},
    {"platform"},
]


def wing(module: str) -> str:
    return f"{module}.".split(".")[1]


def test_wings_import_downward() -> None:
    floor = {name: index for index, row in enumerate(ORDER) for name in row}
    found = {(wing(module), wing(other)) for module in GRAPH for other in GRAPH[module]}
    upward = {(one, other) for one, other in found if one != other and floor[one] >= floor[other]}
    assert upward == set()


def test_the_package_has_wings_and_no_loose_modules() -> None:
    root = SCRIPTS / "headwaters"
    assert {path.stem for path in root.glob("*.py")} == {"__init__", "cli"}
    folders = {path.parent.name for path in root.glob("*/__init__.py")}
    assert folders | {"cli"} == set().union(*ORDER)


def test_a_name_of_a_class_exists_once() -> None:
    places: dict[str, list[str]] = {}
    for path in sorted(SCRIPTS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(str(path.relative_to(SCRIPTS)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_other_parts_and_tests_import_the_analysis_by_its_interface() -> None:
    root = SCRIPTS.parent
    others = [root / folder for folder in ("scripts", "tests", "benchmarks")]
    assert [
        f"{path.relative_to(root)} imports {name}"
        for path in sorted(path for folder in others for path in folder.rglob("*.py"))
        if "analysis" not in path.relative_to(root).parts
        for name in sorted(_named(ast.parse(path.read_text())))
        if inside(name, "headwaters.analysis") and name != "headwaters.analysis"
    ] == []


def test_the_tests_of_the_analysis_import_public_names() -> None:
    assert [
        f"{path.name} imports {alias.name}"
        for path in Path(__file__).with_name("analysis").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name.startswith("_")
    ] == []


def test_sql_is_parsed_by_the_analysis_and_conditions_of_records_by_the_endpoint() -> None:
    parsing = {module for module in MODULES if "sqlglot" in set(packages(module))}
    assert {wing(module) for module in parsing} == {"analysis", "http"}


def test_internals_of_dbt_are_used_in_one_place() -> None:
    """The adapter and the plugin implement dbt's classes; commands use `dbt_compat`."""
    found = {
        f"{module} imports {node.module}"
        for module, path in MODULES.items()
        if module != "headwaters.platform.dbt_compat"
        for node in _at_run_time(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module
        if node.module.split(".")[0] in ("dbt", "dbt_common")
        if not node.module.startswith(("dbt.adapters.headwaters", "dbt_common.exceptions"))
    }
    assert found == set()


def _at_run_time(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a module without those for type checkers."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield node
            yield from _at_run_time(node)


def test_the_wheel_has_every_package() -> None:
    settings = tomllib.loads((SCRIPTS.parent / "pyproject.toml").read_text())
    folders = {path.parent for path in (SCRIPTS / "headwaters").rglob("__init__.py")}
    found = {".".join(folder.relative_to(SCRIPTS).parts) for folder in folders}
    assert found == {one for one in settings["tool"]["setuptools"]["packages"] if one[:4] != "dbt."}


def test_set_up_runs_before_anything_is_installed() -> None:
    needed = {"headwaters.devkit.environment"}
    while more := {other for module in needed for other in GRAPH[module]} - needed:
        needed |= more
    assert needed == {
        "headwaters.platform.class_data",
        "headwaters.devkit.environment",
        "headwaters.platform.atomic_write",
        "headwaters.platform.errors",
        "headwaters.platform.hadoop_defaults",
        "headwaters.platform.jars",
        "headwaters.platform.processes",
        "headwaters.platform.spark_version",
        "headwaters.platform.waiting",
    }


def test_sources_know_neither_the_parsers_nor_ingestion() -> None:
    allowed = {
        "headwaters.streams.formats.base",  # the protocol, but no format that implements it
        "headwaters.streams.formats.declared",
    }
    packages = ("headwaters.streams.formats", "headwaters.streams.ingestion")
    found = violations(("headwaters.streams.sources",), packages)
    assert [line for line in found if line.split()[-1] not in allowed] == []


def test_formats_and_tables_know_no_source_and_no_stream() -> None:
    above = (
        "headwaters.streams.sources",
        "headwaters.streams.ingestion",
        "headwaters.streams.stream",
    )
    assert violations(("headwaters.streams.formats", "headwaters.tables.delta_tables"), above) == []


def test_dbt_reads_contracts_without_spark() -> None:
    needed = {"headwaters.streams.contract", "headwaters.streams.declared_tables"}
    while more := {other for module in needed for other in GRAPH[module]} - needed:
        needed |= more
    assert {"headwaters.streams.sources.declared", "headwaters.streams.formats.declared"} < needed
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
