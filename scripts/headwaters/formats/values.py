"""Values of one type as values of the declared one: null where it would be another value."""

from __future__ import annotations

from typing import cast

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

import headwaters.contract as declared
from headwaters.formats import texts


def fitted(column: declared.Column, value: Column, kind: str) -> Column:
    """A value of some type in the declared one, or null where it is no such value."""
    found, wanted = value.try_cast(column.data_type), texts.kind(column.data_type)
    if kind == "string":
        return fitted_text(column, value)
    given = texts.kind(kind)
    if wanted == given:
        return found
    same = None
    if wanted == "float":
        same = ~is_infinite(found) | is_infinite(value.try_cast("double"))
    elif wanted in ("tinyint", "smallint", "int", "bigint", "boolean") or wanted == "date":
        same = found.try_cast(kind) == value
    elif wanted == "timestamp" and given != "date":
        same = F.abs(F.unix_seconds(found)) <= texts.NEWEST_SECOND
    return found if same is None else F.when(same, found)


def fitted_text(column: declared.Column, text: Column) -> Column:
    """The value of a text, by the patterns of `texts`."""
    kind = texts.kind(column.data_type)
    fitted, pattern = text.try_cast(column.data_type), texts.pattern(column.data_type)
    if pattern is None:
        return fitted
    fits = text.rlike(f"^(?:{pattern})$")
    if kind == "float":
        fits &= ~is_infinite(fitted) | text.rlike("(?i)inf")
    return F.when(fits, fitted)


def is_infinite(value: Column) -> Column:
    """Whether a number is infinite, of either sign."""
    return F.abs(value) == F.lit(float("inf"))


def by_name(
    column: declared.Column, value: Column, given: T.DataType, whole: bool = True
) -> Column:
    """A value whose structs have the fields that are declared: a cast goes by their position."""
    if texts.kind(column.data_type) not in ("struct", "array", "map"):
        return value
    wanted = cast(T.StructType, T.StructType.fromDDL(f"wanted {column.data_type}"))
    return _fields_by_name(value, given, wanted["wanted"].dataType, whole)


def _fields_by_name(value: Column, given: T.DataType, wanted: T.DataType, whole: bool) -> Column:
    """As declared, or, where it is not to be `whole`, the fields that are there, named so."""
    if isinstance(given, T.StructType) and isinstance(wanted, T.StructType):
        there = {field.name.lower(): field for field in given}
        asked = {field.name.lower(): field for field in wanted}
        fields = []
        for name in asked if whole else there:
            found, field = there.get(name), asked.get(name)
            if found and field:
                inner = value.getField(found.name)
                one = _fields_by_name(inner, found.dataType, field.dataType, whole)
            elif found:
                one = value.getField(found.name)
            else:
                one = F.lit(None).cast(asked[name].dataType)
            fields.append(one.alias((field or there[name]).name))
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(given, T.ArrayType) and isinstance(wanted, T.ArrayType):
        a, b = given.elementType, wanted.elementType
        return F.transform(value, lambda element: _fields_by_name(element, a, b, whole))
    if isinstance(given, T.MapType) and isinstance(wanted, T.MapType):
        a, b = given.valueType, wanted.valueType
        return F.transform_values(value, lambda _, each: _fields_by_name(each, a, b, whole))
    return value
