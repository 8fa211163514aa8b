"""The types of settings: of headwaters' own, and of dbt's incremental models and snapshots.

A message of a type continues the name of its setting: `on_gap: must be …`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from headwaters.analysis import strategy_names
from headwaters.platform.names import misspelt
from headwaters.platform.spark_version import CHANGING_FUNCTIONS, STABLE_IN_QUERIES
from headwaters.platform.units import milliseconds_of

STOCK_STRATEGIES = ("append", "merge", "insert_overwrite", "microbatch")
FOLLOWING = tuple(strategy_names())
INCREMENTAL = (*STOCK_STRATEGIES, *FOLLOWING)

Part = Literal["run", "table"]


def declared(
    values: str = "",
    shown: str = "",
    part: Part = "run",
    *,
    of: Sequence[str] = (),
    default: Any = None,
) -> Any:
    """Declare a setting: its values and its default in the reference, as Markdown.

    `of` lists the strategies, and `snapshot`, in which it has a meaning; without them it has one
    everywhere.
    """
    extra: dict[str, Any] = {"shown": shown, "part": part, "of": list(of)}
    return Field(default=default, description=values, json_schema_extra=extra)


class Settings(BaseModel):
    """The settings of a node. An empty value counts as an absent one."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty_values(cls, values: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if not is_empty(value)}

    @classmethod
    def part_of(cls, name: str) -> str:
        """Return the part of the reference that has a setting."""
        return str(cls._declared(name).get("part"))

    @classmethod
    def shown(cls, name: str) -> str:
        """Return the default of a setting in the reference."""
        return str(cls._declared(name).get("shown", ""))

    @classmethod
    def owners(cls) -> dict[str, tuple[str, ...]]:
        """Return the strategies of each setting that has a meaning in some of them only."""
        found = {name: tuple(cls._declared(name).get("of", ())) for name in cls.model_fields}
        return {name: owners for name, owners in found.items() if owners}

    @classmethod
    def _declared(cls, name: str) -> dict[str, Any]:
        extra = cls.model_fields[name].json_schema_extra
        return extra if isinstance(extra, dict) else {}


def is_empty(value: Any) -> bool:
    """Return true if a value counts as an absent setting."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, list | tuple | Mapping) and not value)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, Mapping | list | tuple | set)


def _columns(value: Any) -> Any:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(map(_is_name, names)):
        raise ValueError("must be a column, or a list of columns")
    return tuple(names)


def _names(value: Any) -> Any:
    """Return the names without the backticks that dbt-spark requires."""
    names = tuple(name.strip() for name in _columns(value))
    for name in names:
        if "," in name and "`" not in name:
            raise ValueError(f"must be a list of columns: [{name}]")
    return tuple(map(_unquoted, names))


def _unquoted(name: str) -> str:
    is_quoted = len(name) > 2 and name[0] == name[-1] == "`"
    return name[1:-1].replace("``", "`") if is_quoted else name


def _column(value: Any) -> Any:
    if not _is_name(value):
        raise ValueError("must be a column")
    return value


def _functions(value: Any) -> Any:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(map(_is_name, names)):
        raise ValueError("must be a list of functions, such as [current_date]")
    for name in names:  # a name that resembles none is a function of the user
        if near := misspelt(name, sorted(CHANGING_FUNCTIONS | STABLE_IN_QUERIES)):
            raise ValueError(f"there is no function '{name}', did you mean '{near}'?")
    return tuple(names)


def _expressions(value: Any) -> Any:
    if not isinstance(value, Mapping) or not all(map(_is_scalar, value.values())):
        raise ValueError("must be a mapping of columns to expressions: {mean: total / rows}")
    return {str(name): str(expression) for name, expression in value.items()}


def _scalars(value: Any) -> Any:
    if not isinstance(value, Mapping) or not all(map(_is_scalar, value.values())):
        raise ValueError("must be a mapping of names to values")
    return dict(value)


def _mapping(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError("must be a mapping of names to values")
    return dict(value)


def _share(value: Any) -> Any:
    """Accept a number as text as well: Jinja returns text for an environment variable."""
    try:
        share = float(value) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        share = math.nan
    if isinstance(value, bool) or not 0 <= share < math.inf:
        raise ValueError("must be a share of the rows, 0.3 for 30 %")
    return share


def _rows(value: Any) -> Any:
    """Accept a whole number as text as well."""
    text = str(value).strip()
    if isinstance(value, bool) or not text.isdecimal():
        raise ValueError("must be a number of rows, such as 200000")
    return int(text)


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("must be a whole number, 0 or more")
    return value


def _switch(value: Any) -> Any:
    words = {"true": True, "false": False}
    found = words.get(value.strip().lower()) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise ValueError("must be true or false")
    return found


def _text(value: Any) -> Any:
    if isinstance(value, bool) or not _is_scalar(value):
        raise ValueError("must be a text")
    return str(value)


def _duration(value: Any) -> Any:
    if milliseconds_of(value) is None:
        raise ValueError("must be a length of time, such as 1 day or 6 hours")
    return str(value)


def _owner(value: Any) -> Any:
    """Accept any `meta` of a project: dbt's own pages put names, lists and mappings there."""
    if isinstance(value, Mapping):
        return str(value.get("name") or value.get("email") or "")
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _conditions(value: Any) -> Any:
    conditions = [value] if isinstance(value, str) else value
    if not isinstance(conditions, list | tuple) or not all(map(_is_name, conditions)):
        raise ValueError("must be a condition or a list of conditions")
    return tuple(conditions)


def _condition(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        raise ValueError("must be a condition in SQL, as a text")
    return value


def name_problem(name: Any) -> str | None:
    """Return why a name cannot be that of a schema or a table, which are not quoted, or None."""
    if is_empty(name) or re.fullmatch(r"[A-Za-z0-9_]+", str(name)):
        return None
    return f"'{name}' is no name that Spark reads: write letters from a to z, digits and _"


def _alias(value: Any) -> Any:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z_]\w*", value):
        raise ValueError("must be a name of letters, digits and underscores")
    return value


def _action(value: Any) -> Any:
    text = str(value).strip()
    if not re.fullmatch(r"(?is)delete|update\s+set\s+\S.*", text):
        raise ValueError("must be delete, or update set <column> = <expression>")
    return text


Action = Annotated[str, BeforeValidator(_action)]
Alias = Annotated[str, BeforeValidator(_alias)]
AnyMapping = Annotated[dict[str, Any], BeforeValidator(_mapping)]
ColumnName = Annotated[str, BeforeValidator(_column)]
Columns = Annotated[tuple[str, ...], BeforeValidator(_columns)]
Condition = Annotated[str, BeforeValidator(_condition)]
Conditions = Annotated[tuple[str, ...], BeforeValidator(_conditions)]
Duration = Annotated[str, BeforeValidator(_duration)]
Expressions = Annotated[dict[str, str], BeforeValidator(_expressions)]
Functions = Annotated[tuple[str, ...], BeforeValidator(_functions)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Number = Annotated[int, BeforeValidator(_number)]
Owner = Annotated[str, BeforeValidator(_owner)]
Rows = Annotated[int, BeforeValidator(_rows)]
Scalars = Annotated[dict[str, Any], BeforeValidator(_scalars)]
Share = Annotated[float, BeforeValidator(_share)]
Switch = Annotated[bool, BeforeValidator(_switch)]
Text = Annotated[str, BeforeValidator(_text)]
