"""Compare the error conditions in the modules of versions with the lists of Spark and Delta."""

from __future__ import annotations

import ast
import json
import re
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwaters.platform import delta_version, spark_mistakes, spark_version
from headwaters.platform.delta_version import features_of_types
from headwaters.platform.jars import installed_pyspark

MODULES = (delta_version, spark_version, spark_mistakes)
ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"
LISTS = {
    "spark-common-utils_*.jar": "error/error-conditions.json",
    "spark-sql-kafka-*.jar": "error/kafka-error-conditions.json",
    "delta-spark_*.jar": "error/delta-error-classes.json",
}


@pytest.fixture(scope="module")
def conditions() -> set[str]:
    """Return the names of all error conditions of Spark and Delta, with those of their parts."""
    found: set[str] = set()
    for jar, member in LISTS.items():
        [path] = (installed_pyspark() / "jars").glob(jar)
        with zipfile.ZipFile(path) as archive:
            for name, condition in json.loads(archive.read(member)).items():
                parts = condition.get("subClass", {})
                found |= {name, *(f"{name}.{part}" for part in parts)}
    return found


def texts(value: object) -> Iterator[str]:
    """Yield a text, or the texts in a collection."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple | set):
        for part in value:
            yield from texts(part)


def test_the_named_error_conditions_exist(conditions: set[str]) -> None:
    named = {
        pattern
        for module in MODULES
        for value in (*vars(module).values(), set(spark_mistakes.MISTAKES))
        for text in texts(value)
        if re.match(r"[A-Z]{4,}_[A-Z]", text) and text != delta_version.DEFAULT
        for pattern in re.split(r"\|(?![^(]*\))", text)
        if not pattern.endswith("Exception")  # of Java
    }
    assert len(named) > 15
    assert [
        pattern
        for pattern in sorted(named)
        if not any(re.search(pattern, condition) for condition in conditions)
    ] == []


def test_no_other_module_names_an_error_condition(conditions: set[str]) -> None:
    named = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")
    found = {
        f"{path.relative_to(SCRIPTS)}: {name}"
        for path in SCRIPTS.rglob("*.py")
        if path not in {Path(str(module.__file__)) for module in MODULES}
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for name in named.findall(node.value)
        if name in conditions
    }
    assert found == set()


def test_the_page_about_upgrades_has_the_required_releases() -> None:
    rows = re.findall(r"^\| (.+?) \| (.+?) \|", (ROOT / "docs/upgrade.md").read_text(), flags=re.M)
    page = dict(rows)
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    releases = {
        name: re.split("[~=]=", next(line for line in required if line.startswith(name)))[1]
        for name in ("dbt-core", "dbt-spark", "pyspark", "delta-spark", "sqlglot")
    }
    assert {name: page[name] for name in releases} == {
        name: release.removesuffix(".0") if name == "dbt-core" else release
        for name, release in releases.items()
    }
    assert page["Java"] == " or ".join(map(str, spark_version.JAVA_PROVEN))


def test_types_whose_features_an_existing_table_must_have_first() -> None:
    assert features_of_types("`id` int, `variant` string") == {}
    assert features_of_types("`a` array<timestamp_ntz>, `b` VARIANT") == {
        "delta.feature.timestampNtz": "supported",
        "delta.feature.variantType": "supported",
    }
