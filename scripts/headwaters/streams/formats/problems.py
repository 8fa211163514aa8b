"""The problems of a record in its column `_bad`, which is null for a good record.

Reasons: `malformed` (not a record of the format at all), `type` (a field does not fit its
data_type), `not_null` and `check` (a declared constraint is broken), `schema` (an unknown field
under the policy `fail`), `duplicate` and `late` (a key that repeats). This module only builds
expressions; it reads and writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

import headwaters.streams.contract as declared
from headwaters.platform.sql import ended
from headwaters.platform.text import with_article
from headwaters.streams.contract import Contract
from headwaters.streams.formats import texts
from headwaters.streams.formats.values import outside_years, repeats_key, type_of

# The condition of a problem, and the value of `_bad` for it.
Problem = tuple[Column, Column]


NOT_UTF8 = "has bytes that are not UTF-8"


def null() -> Column:
    """Return a null text."""
    return F.lit(None).cast("string")


def no_problem() -> Column:
    """Return the value of `_bad` for a good record."""
    return F.lit(None).cast("struct<reason:string,field:string,message:string>")


def problem_of(reason: str, field: Column | None = None, message: Column | None = None) -> Column:
    """Return the value of `_bad` for a problem."""
    named = null() if field is None else field
    said = null() if message is None else message
    return F.struct(F.lit(reason).alias("reason"), named.alias("field"), said.alias("message"))


def uncast(
    contract: Contract, given: Mapping[str, Column], typed: Mapping[str, Column]
) -> list[Column]:
    """Return a problem for each column whose value does not fit its declared type."""
    return [
        F.when(
            given[column.name].isNotNull() & typed[column.name].isNull(),
            type_problem(column, given[column.name].cast("string")),
        )
        for column in contract.read_columns
        if column.name in typed
    ]


def type_problem(column: declared.DeclaredColumn, text: Column) -> Column:
    """Return the problem of a text that is not a value of its column's type."""
    wanted = with_article(column.data_type)
    shown = F.concat(F.lit("'"), F.substring(text, 1, 100), F.lit(f"' is not {wanted}"))
    said = F.when(text.rlike(r"^\s*$"), F.lit(f"has no value, but needs {wanted}")).otherwise(shown)
    return problem_of("type", _named(column), said)


def cut_number(column: declared.DeclaredColumn) -> list[Problem]:
    """Return the problem of a computed value that a cast to whole numbers would change, if any.

    Spark reads 300 as the tinyint 44, and '1.5' as 1. It gives NULL for other texts.
    """
    if texts.kind(column.data_type) not in texts.WHOLE_NUMBERS:
        return []
    value = F.expr(str(column.expression))
    as_cast, as_it_is = (cast(column.data_type) for cast in (value.cast, value.try_cast))
    return [(as_cast.isNotNull() & as_it_is.isNull(), type_problem(column, value.cast("string")))]


def year_problem(column: declared.DeclaredColumn) -> list[Problem]:
    """Return the problem of a date or time that most programs cannot read; none for other types."""
    value = F.col(f"`{column.name}`")
    outside = outside_years(type_of(column), value)
    if outside is None:
        return []
    shown = F.substring(value.cast("string"), 1, 100)
    said = F.concat(F.lit("'"), shown, F.lit("' is outside of the years 1 to 9999"))
    return [(outside, problem_of("type", F.lit(column.name), said))]


def repeated_key(column: declared.DeclaredColumn, kind: T.DataType, value: Column) -> list[Problem]:
    """Return the problem of a map with a key twice; none for a type without maps."""
    twice = repeats_key(kind, value)
    if twice is None:
        return []
    said = F.lit("has a key twice in a map: send each key once")
    return [(twice, problem_of("type", _named(column), said))]


def _named(column: declared.DeclaredColumn) -> Column:
    """Return the name of a column, or of the field that an object of paths is read from."""
    return F.lit(column.name if column.stored else column.field)


def with_problem(parsed: DataFrame, problem: Column) -> DataFrame:
    """Add a possible problem (or null) to records that are good so far."""
    return parsed.withColumns(
        {"_good": F.col("_good") & problem.isNull(), "_bad": F.coalesce("_bad", problem)}
    )


def malformed(when: Column, message: str) -> Problem:
    """Return the problem of a record that does not match its format."""
    return when, problem_of("malformed", null(), F.lit(message))


def undeclared(there: Column, keys: str) -> Problem:
    """Return the problem of a record with undeclared fields, with the first one's name."""
    named = F.get(F.expr(keys), F.lit(0))
    return there, problem_of("schema", named, F.lit("is not declared"))


def broken_constraints(column: declared.DeclaredColumn) -> list[Problem]:
    """Return a problem for each declared constraint of a column."""
    problems = []
    value, name = F.col(f"`{column.name}`"), F.lit(column.name)
    for rule in column.constraints:
        if rule.type == "not_null":
            problems.append((value.isNull(), problem_of("not_null", name, F.lit("is null"))))
        else:
            problem = problem_of("check", name, F.lit(f"breaks {rule.expression}"))
            problems.append((F.expr(f"not ({ended(str(rule.expression))})"), problem))
    return problems


def misfit(contract: Contract, whole: Column, given: Sequence[Column], otherwise: str) -> Column:
    """Return the first declared field of a `whole` record that has a text but no value.

    Otherwise the record is malformed.
    """
    problems = [
        F.when(
            whole & text.isNotNull() & F.col(f"`{column.name}`").isNull(),
            type_problem(column, text),
        )
        for column, text in zip(contract.read_columns, given, strict=True)
    ]
    return F.coalesce(*problems, problem_of("malformed", null(), F.lit(otherwise)))
