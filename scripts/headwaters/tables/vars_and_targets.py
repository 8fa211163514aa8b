"""Declared names outside of nodes: `vars` of a project, and keys of a profile's target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headwaters.platform.names import did_you_mean, misspelt
from headwaters.platform.problems import Problem
from headwaters.tables.setting_types import is_empty, name_problem

# The variables that headwaters reads, each with the type of its values.
VARIABLES: dict[str, type] = {
    "headwaters_hooks": bool,
    "headwaters_pins": dict,
    "headwaters_review": bool,
    "ops_schema": str,
    "ops_tests": bool,
}
_EXPECTED = {bool: "true or false", dict: "a mapping", str: "a text"}
_PREFIX = "headwaters_"


def variable_problems(
    declared: Mapping[str, Any],
    given: Mapping[str, Any],
) -> Iterator[Problem]:
    """Yield the problems of variables in `dbt_project.yml` and in `--vars`."""
    for where, variables in (("dbt_project.yml", declared), ("--vars", given)):
        for name, value in variables.items():
            yield from (one.at(f"{where}: vars") for one in _variable_problems(name, value))


def _variable_problems(name: str, value: Any) -> Iterator[Problem]:
    kind = VARIABLES.get(name)
    if kind is not None:
        if not isinstance(value, kind):
            text = f"{name} is '{value}': write {_EXPECTED[kind]}"
            yield Problem("HW_SETTING", text)
    elif misspelt(name, VARIABLES) or str(name).startswith(_PREFIX):
        hint = did_you_mean(name, VARIABLES, _PREFIX) or f": there are {', '.join(VARIABLES)}"
        yield Problem("HW_UNKNOWN_SETTING", f"there is no variable '{name}'{hint}")


def output_problems(output: Mapping[str, Any], keys: Iterable[str]) -> Iterator[Problem]:
    """Yield the problems of a target of `type: headwaters`; `keys` are those of its class."""
    for name in output:
        if key := misspelt(name, [*keys, "threads"]):
            text = f"there is no key '{name}', did you mean '{key}'?"
            yield Problem("HW_UNKNOWN_SETTING", text)
    if problem := name_problem(output.get("schema")):
        yield Problem("HW_SETTING", f"schema: {problem}")
    lake, parameters = output.get("lake"), output.get("server_side_parameters")
    if not is_empty(lake) and not isinstance(lake, str):
        yield Problem("HW_SETTING", f"lake is '{lake}': write the path of a folder")
    if not is_empty(parameters) and not isinstance(parameters, Mapping):
        text = f"server_side_parameters is '{parameters}': write a mapping of Spark's settings"
        yield Problem("HW_SETTING", text)
