"""Settings of dbt's own incremental strategies, checked when dbt parses.

The strategies are `append`, `merge`, `insert_overwrite` and `microbatch`; docs/models.md lists
their settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from headwaters.analysis.strategies import strategy_of
from headwaters.platform.names import not_allowed
from headwaters.platform.nodes import Config, as_tuple, setting
from headwaters.platform.problems import Problem
from headwaters.tables.settings import is_empty

DESTINATION, SOURCE = "DBT_INTERNAL_DEST", "DBT_INTERNAL_SOURCE"
# The similarity of a misspelt name to a setting; other keys belong to the project.
_ALIKE = 0.85


def _names(value: Any) -> Any:
    """Return the names without the backticks that dbt-spark requires."""
    if isinstance(value, Mapping):
        raise PydanticCustomError("mapping", "is a mapping; write one name or a list of names")
    names = as_tuple(value) if isinstance(value, str | list | tuple) else (value,)
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise PydanticCustomError("names", "must be one name or a list of names")
    return tuple(_unquoted(name.strip()) for name in names)


def _unquoted(name: str) -> str:
    is_quoted = len(name) > 2 and name[0] == name[-1] == "`"
    return name[1:-1].replace("``", "`") if is_quoted else name


def _conditions(value: Any) -> Any:
    conditions = as_tuple(value) if isinstance(value, str | list | tuple) else (value,)
    if not all(isinstance(condition, str) and condition.strip() for condition in conditions):
        raise PydanticCustomError("conditions", "must be a condition or a list of conditions")
    return tuple(conditions)


def _condition(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        raise PydanticCustomError("condition", "must be a condition in SQL, as a text")
    return value


def _alias(value: Any) -> Any:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_]\w*", value):
        raise PydanticCustomError("alias", "must be a name of letters, digits and underscores")
    return value


def _switch(value: Any) -> Any:
    if not isinstance(value, bool):
        raise PydanticCustomError("switch", "must be true or false")
    return value


def _action(value: Any) -> Any:
    text = str(value).strip()
    if not re.fullmatch(r"(?is)delete|update\s+set\s+\S.*", text):
        raise PydanticCustomError("action", "must be delete, or update set <column> = <expression>")
    return text


Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Conditions = Annotated[tuple[str, ...], BeforeValidator(_conditions)]
Condition = Annotated[str | None, BeforeValidator(_condition)]
Alias = Annotated[str, BeforeValidator(_alias)]
Switch = Annotated[bool, BeforeValidator(_switch)]


class StockSettings(BaseModel):
    """The settings of one incremental model; an empty value is the default."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    unique_key: Names = ()
    on_schema_change: Literal["ignore", "fail", "append_new_columns", "sync_all_columns"] = "ignore"
    incremental_predicates: Conditions = ()
    merge_update_columns: Names = ()
    merge_exclude_columns: Names = ()
    target_alias: Alias = DESTINATION
    source_alias: Alias = SOURCE
    skip_matched_step: Switch = False
    skip_not_matched_step: Switch = False
    merge_with_schema_evolution: Switch = False
    matched_condition: Condition = None
    delete_condition: Condition = None
    not_matched_condition: Condition = None
    not_matched_by_source_condition: Condition = None
    not_matched_by_source_action: Annotated[str | None, BeforeValidator(_action)] = None

    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty_values(cls, values: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if not is_empty(value)}


# Settings that a merge has and the other strategies do not.
_OF_MERGE = [
    name for name in StockSettings.model_fields if name not in ("unique_key", "on_schema_change")
]
# dbt's settings of an incremental model that it reads itself.
_OF_DBT = ["incremental_strategy", "event_time", "batch_size", "begin", "lookback"]
_OF_DBT += ["concurrent_batches", "partition_by", "file_format"]
# Names that exist and resemble one of the settings.
_OTHERS = {"cluster_by", "clustered_by", "predicates"}


def stock_settings(config: Config) -> StockSettings:
    """Return the settings of a node. Raises ValidationError if `stock_problems` yields any."""
    names = StockSettings.model_fields
    given = {name: setting(config, name) for name in names}
    if is_empty(given["incremental_predicates"]):
        given["incremental_predicates"] = setting(config, "predicates")
    return StockSettings.model_validate(given)


def stock_problems(config: Config) -> Iterator[Problem]:
    """Yield the problems of the settings of an incremental model."""
    if config.get("materialized") != "incremental":
        return
    yield from _misspelt(config)
    if strategy_of(config):
        return
    try:
        settings = stock_settings(config)
    except ValidationError as error:
        yield from _explained(error)
        return
    strategy = config.get("incremental_strategy") or "append"
    given = [name for name in _OF_MERGE if getattr(settings, name) != _default(name)]
    if strategy in ("append", "insert_overwrite", "microbatch"):
        for name in given:
            yield _problem(f"{name} belongs to merge and does nothing with {strategy}: remove it.")
    elif strategy == "merge":
        yield from _contradictions(settings)


def _contradictions(settings: StockSettings) -> Iterator[Problem]:
    if settings.merge_update_columns and settings.merge_exclude_columns:
        yield _problem("merge_update_columns and merge_exclude_columns exclude each other.")
    for name in ("matched_condition", "merge_update_columns", "merge_exclude_columns"):
        if settings.skip_matched_step and getattr(settings, name):
            yield _problem(f"{name} does nothing with skip_matched_step: remove one.")
    if settings.skip_not_matched_step and settings.not_matched_condition:
        yield _problem("not_matched_condition does nothing with skip_not_matched_step: remove one.")
    if settings.not_matched_by_source_condition and not settings.not_matched_by_source_action:
        yield _problem(
            "not_matched_by_source_condition does nothing without not_matched_by_source_action: "
            "delete, or update set <column> = <expression>."
        )
    if settings.source_alias.lower() == settings.target_alias.lower():
        yield _problem(f"source_alias and target_alias are both {settings.source_alias}.")
    by_key = ("matched_condition", "delete_condition", "not_matched_by_source_action")
    for name in by_key:
        if not settings.unique_key and getattr(settings, name):
            yield _problem(
                f"{name} needs a unique_key: without one no row of the table is matched."
            )


def _misspelt(config: Config) -> Iterator[Problem]:
    """Yield a problem for each key that resembles a setting but is none."""
    known = [*StockSettings.model_fields, *_OF_DBT]
    for key in config:
        name = str(key).lower()
        if name in known or name in _OTHERS:
            if name != key:
                yield _problem(f"'{key}' is not a setting; write {name}.")
            continue
        if near := get_close_matches(name, known, n=1, cutoff=_ALIKE):
            yield _problem(f"'{key}' is not a setting, did you mean '{near[0]}'?")


def _default(name: str) -> Any:
    return StockSettings.model_fields[name].default


def _explained(error: ValidationError) -> Iterator[Problem]:
    for problem in error.errors():
        name = str(problem["loc"][0])
        if problem["type"] == "literal_error":
            allowed = re.findall(r"'([^']*)'", str(problem["ctx"]["expected"]))
            yield _problem(f"{name}: {not_allowed(problem['input'], allowed, 'allowed')}.")
        else:
            yield _problem(f"{name} {problem['msg']} (given: {problem['input']!r}).")


def _problem(text: str) -> Problem:
    return Problem("HW_SETTING", text)
