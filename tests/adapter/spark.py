"""The texts of dbt's tests in Spark's dialect, and the classes of a folder of tests.

The tests are written for PostgreSQL; every adapter translates them.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import sqlglot
from sqlglot.errors import SqlglotError

_STRING = r"(?:varchar\(\d+\)|(?:character varying|varchar|text)\b)"
_CAST = r"('(?:[^']|'')*'|\b[\w.]+)::(double precision|\w+(?:\(\d+\))?|\{\{.*?\}\})"


def statements_for_spark(sql: str, schema: str) -> list[str]:
    """Translate statements that a test runs itself; leave one in Spark's own dialect."""
    sql = sql.replace("{database}.", "").replace("None.", "").replace("{schema}", schema)
    if "`" in sql or "{" in sql:
        return [sql]
    if re.match(r"\s*alter table \S+\s+add column", sql, flags=re.IGNORECASE):
        sql = re.sub(r" default ('.*?'|null)", "", sql, flags=re.IGNORECASE)  # no Delta default
    try:
        found = sqlglot.transpile(sql, read="postgres", write="spark")
    except SqlglotError:
        return [sql]
    return [one.replace("{", "{{").replace("}", "}}") for one in found if one]


def text_for_spark(name: str, text: str) -> str:
    """Translate a file of a project: casts, types, and the database, which Spark does not have."""
    if name.endswith((".csv", ".md", ".py")):
        return text
    text = re.sub(r"\{\{\s*target\.database\s*\}\}\.", "", text)
    text = text.replace('"GROUP"', "`GROUP`").replace('"from"', "`from`")
    text = text.replace("set session time zone", "set time zone")
    text = text.replace("current_setting('timezone')", "current_timezone()")
    text = re.sub(r"'(\d\d)/(\d\d)/(\d{4})'", r"'\3-\1-\2'", text)  # dates of Spark are ISO's
    text = re.sub(_CAST, r"cast(\1 as \2)", text).replace("double precision", "double")
    text = re.sub(rf"(cast\([^()]* as |data_type: ){_STRING}", r"\1string", text)
    return re.sub(r"(\w) text\b(?=\s*[,)])", r"\1 string", text)


def files_for_spark(files: Mapping[str, Any], strategy: str = "merge") -> dict[str, Any]:
    """Translate the files of a folder and those of its folders.

    `auto` takes its columns from the SQL and refuses `on_schema_change`, which is left out, unless
    dbt requires it for a contract.
    """
    has_contract = any("contract:" in str(value) for value in files.values())

    def translated(name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return files_for_spark(value, strategy)
        if not isinstance(value, str):
            return value
        if strategy == "auto" and not has_contract:
            value = re.sub(r",\s*on_schema_change\s*=\s*([\"'])\w+\1", "", value)
        return text_for_spark(name, value)

    return {name: translated(name, value) for name, value in files.items()}


class Auto:
    """A second run of a class: incremental models that name no strategy are `auto`."""

    @pytest.fixture(scope="class")
    def strategy(self) -> str:
        return "auto"


def published(folder: str, but: tuple[str, ...] = ()) -> Iterator[type]:
    """Yield the test classes of a folder of dbt.tests.adapter.

    `but` are those that only others extend, without values of their own.
    """
    package = importlib.import_module(f"dbt.tests.adapter.{folder}")
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        for name, value in vars(importlib.import_module(found.name)).items():
            is_own = isinstance(value, type) and value.__module__ == found.name
            if not is_own or name in but or name.startswith(("Test", "_")):
                continue
            if any(one.startswith("test_") for one in dir(value)):
                yield value


def classes(
    module: str,
    folder: str,
    but: tuple[str, ...] = (),
    auto: tuple[str, ...] = (),
    without: Mapping[str, str] | None = None,
) -> None:
    """Add to a module a class for each published class that it does not adapt itself.

    `BaseX` is `TestX` here. `auto` names the classes with incremental models, which run a second
    time. `without` has the classes and tests (`TestX.test_y`) that do not apply, with the reason.
    """
    here = sys.modules[module]
    adapted = {
        base for one in vars(here).values() if isinstance(one, type) for base in one.__mro__[1:]
    }
    for test in published(folder, but):
        name = "Test" + test.__name__.removeprefix("Base").removeprefix("Test")
        if test not in adapted:
            setattr(here, name, type(name, (test,), {"__module__": module}))
    for name in auto:
        again = f"{name}WithAuto"
        members = {"__module__": module}
        setattr(here, again, type(again, (Auto, getattr(here, name)), members))
    for name, reason in (without or {}).items():
        owner, _, one = name.partition(".")
        skip = pytest.mark.skip(reason=reason)
        if one:
            setattr(vars(here)[owner], one, skip(_copy(getattr(vars(here)[owner], one))))
        else:
            vars(here)[owner].pytestmark = [skip.mark]


def _copy(function: Any) -> Any:
    """Return a function that can be marked here without marking the published one."""

    @functools.wraps(function)
    def copied(*arguments: Any, **options: Any) -> Any:
        return function(*arguments, **options)

    return copied
