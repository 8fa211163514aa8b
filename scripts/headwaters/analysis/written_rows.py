"""The SQL of the rows that a run writes: those that the expectations keep, in their stored form.

Delta writes partition values as text, and an empty text is NULL. Every comparison of the model's
rows with the table's needs this form, or it would not find them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headwaters.analysis.expectations import Expectation, expectations_of
from headwaters.platform.nodes import Config, as_tuple
from headwaters.platform.sql import ended, identifier, literal

_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_FORMAT = "'yyyy-MM-dd HH:mm:ss.SSSSSS'"
# The SQL of `as_stored` before and after the query.
_BEFORE, _AFTER = "select * from (\n", "\n) |> set "
# Types whose every value a partition keeps.
_KEPT_TYPES = "('boolean', 'tinyint', 'smallint', 'int', 'bigint', 'date')"


def is_met(rule: Expectation) -> str:
    """Return the condition that a row meets an expectation."""
    return f"coalesce({ended(rule.expression)}, false)"


def all_met(rules: Iterable[Expectation]) -> str:
    """Return the condition that a row meets all expectations, which is empty without one."""
    return " and ".join(map(is_met, rules))


def kept_if(config: Config) -> str:
    """Return the condition of the rows that no expectation drops, or an empty text."""
    return all_met(rule for rule in expectations_of(config) if rule.drops)


def kept_sql(sql: str, config: Config) -> str:
    """Return the SQL without the rows that an expectation drops, as with this filter in it."""
    condition = kept_if(config)
    return f"select * from (\n{sql}\n) where {condition}" if condition else sql


def as_stored(sql: str, partition_by: Any) -> str:
    """Return the SQL with its partition columns in their stored form.

    It refuses a value that a full refresh would read back as another one.
    """
    columns = [
        f"{name} = if({_is_kept(name)}, {stored_value(name)}, {_raised(column)})"
        for column, name in ((column, identifier(column)) for column in as_tuple(partition_by))
    ]
    return f"{_BEFORE}{sql}{_AFTER}{', '.join(columns)}" if columns else sql


def without_stored(sql: str) -> str | None:
    """Return the SQL before `as_stored` changed its partition columns, or None for another."""
    before, after, _ = sql.rpartition(_AFTER)
    return before.removeprefix(_BEFORE) if after and before.startswith(_BEFORE) else None


def stored_value(value: str) -> str:
    """Return the stored form of one value."""
    return f"if(cast({value} as string) in ('', '{_NULL_PARTITION}'), null, {value})"


def with_kept_partitions(sql: str, partition_by: Any) -> str:
    """Return the SQL with the refusal of `as_stored`, for rows that dbt's own statement writes.

    Types whose every value is kept cost nothing: Spark knows the type of a column before it reads
    rows.
    """
    conditions = []
    for column in as_tuple(partition_by):
        name = identifier(column.strip("`"))
        raised = _raised(column, f"the text {_NULL_PARTITION}, ")
        conditions.append(
            f"if(typeof({name}) in {_KEPT_TYPES} or {_is_kept(name)} and "
            f"coalesce(cast({name} as string) <> '{_NULL_PARTITION}', true), true, {raised})"
        )
    return f"select * from (\n{sql}\n) where {' and '.join(conditions)}"


def moment_as_text(value: str) -> str:
    """Return the text of a moment in UTC.

    A value of another type is allowed if its result is not used, since Spark checks types before it
    chooses.
    """
    options = f"'timeZone', 'UTC', 'timestampFormat', {_FORMAT}, 'timestampNTZFormat', {_FORMAT}"
    return f"get_json_object(to_json(named_struct('v', {value}), map({options})), '$.v')"


def _is_kept(value: str) -> str:
    """Return the condition that Spark parses a partition's text as the same value."""
    text = f"cast({value} as string)"
    parsed = moment_as_text(f"try_cast({text} as timestamp)")
    return (
        f"coalesce(is_valid_utf8({text}), true) and (typeof({value}) <> 'timestamp' or "
        f"{moment_as_text(value)} <=> {parsed})"
    )


def _raised(column: str, further: str = "") -> str:
    message = (
        f"{column} has a value that Delta cannot keep in a partition column: {further}bytes that "
        "are no UTF-8, or a moment in the hour that the session's time zone has twice. Partition "
        f"by another column, such as hex({column}) or a date, or use cluster_by."
    )
    return f"raise_error({literal(message)})"
