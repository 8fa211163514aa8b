"""Macros of a project that would override one of dbt's, which nothing calls here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from headwaters.platform.problems import Problem

# The folders of dbt's and dbt-spark's macros for their materialization `incremental`.
_REPLACED = {
    "dbt": "macros/materializations/models/incremental/",
    "dbt_spark": "macros/materializations/incremental/",
}
# Those that other macros call, and that of this package.
_CALLED = frozenset({"diff_column_data_types", "diff_columns", "get_quoted_csv", "is_incremental"})


def override_problems(macros: Iterable[Any], project: str) -> Iterator[Problem]:
    """Yield the macros of the root project that replace a statement of dbt's strategies."""
    macros = list(macros)
    unused = {
        _base(macro.name)
        for macro in macros
        if macro.original_file_path.startswith(_REPLACED.get(macro.package_name, "\0"))
        and not macro.name.startswith("materialization_")
    } - _CALLED
    for macro in macros:
        if macro.package_name == project and _base(macro.name) in unused:
            text = (
                f"{macro.name} overrides a macro that no strategy calls here: remove it, and use "
                "the settings of the strategy, or a materialization of your own"
            )
            yield Problem("HW_UNUSED_MACRO", text).at(macro.original_file_path)


def _base(name: str) -> str:
    return re.sub(r"^(?:default|spark|headwaters)__", "", name)
