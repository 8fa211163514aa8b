"""Values of one type converted to the declared type, or null if the value would change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import cast

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

import headwaters.streams.contract as declared
from headwaters.streams.formats import texts


def fitted(column: declared.DeclaredColumn, value: Column, given: T.DataType) -> Column:
    """Return a value in the declared type, or null if it, or one inside it, does not fit.

    A value with structs has the fields that `by_name` gives it.
    """
    wanted = type_of(column)
    if not _has_parts(wanted):
        return _fitted(column.data_type, value, given.simpleString())
    found = value.try_cast(column.data_type)
    return F.when(~_loses(value, given, wanted), found) if _differ(given, wanted) else found


def _loses(value: Column, given: T.DataType, wanted: T.DataType) -> Column:
    """Return whether a value, or one inside it, does not fit the wanted type."""
    if not _differ(given, wanted):
        return F.lit(False)
    if isinstance(given, T.StructType) and isinstance(wanted, T.StructType):
        there = {field.name.lower(): field.dataType for field in given}
        both = [field for field in wanted if field.name.lower() in there]
        lost = [_loses(value.getField(f.name), there[f.name.lower()], f.dataType) for f in both]
        return reduce(Column.__or__, lost, F.lit(False))
    if isinstance(given, T.ArrayType) and isinstance(wanted, T.ArrayType):
        return _one_loses(value, given.elementType, wanted.elementType)
    if isinstance(given, T.MapType) and isinstance(wanted, T.MapType):
        keys = _one_loses(F.map_keys(value), given.keyType, wanted.keyType)
        return keys | _one_loses(F.map_values(value), given.valueType, wanted.valueType)
    if _has_parts(wanted):
        return F.lit(False)  # Spark has no cast and raises an error
    found = _fitted(wanted.simpleString(), value, given.simpleString())
    return value.isNotNull() & found.isNull()


def _one_loses(values: Column, given: T.DataType, wanted: T.DataType) -> Column:
    if not _differ(given, wanted):
        return F.lit(False)
    return F.coalesce(F.exists(values, lambda one: _loses(one, given, wanted)), F.lit(False))


def _differ(given: T.DataType, wanted: T.DataType) -> bool:
    return given.simpleString() != wanted.simpleString()


def _has_parts(kind: T.DataType) -> bool:
    return isinstance(kind, T.StructType | T.ArrayType | T.MapType)


# A value is converted within its family only. Spark would convert true to the number 1, and 1 to
# the first second of 1970.
_FAMILIES = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "float", "decimal"), "number"),
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz"), "moment"),
}
_ANYTHING = ("string", "variant")  # they have a form of each value


def _fitted(data_type: str, value: Column, kind: str) -> Column:
    """Return a value of type `kind` in the declared type, or null if it would be another value."""
    given, wanted = texts.kind(kind), texts.kind(data_type)
    if kind == data_type or wanted in _ANYTHING:
        return value.try_cast(data_type)
    if given in _ANYTHING:
        return _fitted_text(data_type, value.try_cast("string"))
    if _FAMILIES.get(given, given) != _FAMILIES.get(wanted, wanted):
        return F.lit(None).cast(data_type)
    found = value.try_cast(data_type)
    return F.when(_comes_back(found, value, kind, wanted), found)


def _comes_back(found: Column, value: Column, kind: str, wanted: str) -> Column:
    """Return whether a converted value is equal to the given one, in the given type."""
    if texts.kind(kind) != "float":
        same = found.try_cast(kind) == value
        # Spark makes the greatest bigint of 2^63, which a double may be instead of 2^63 - 1
        return same & (found < 2.0**63) if wanted == "float" and kind == "bigint" else same
    if wanted not in texts.WHOLE_NUMBERS:
        return found.try_cast(kind) == value
    as_double = value.try_cast("double")  # a float has no 2^31 - 1, which Spark makes of 2^31
    same = found.try_cast("double") == as_double
    return same & (as_double < 2.0**63) if wanted == "bigint" else same


def fitted_text(column: declared.DeclaredColumn, text: Column) -> Column:
    """Return the value of a text, by the patterns of `texts`; arrays, maps and structs are JSON."""
    if not _has_parts(type_of(column)):
        return _fitted_text(column.data_type, text)
    schema = f"`value` {column.data_type}, `_corrupt` string"
    record = F.concat(F.lit('{"value":'), text, F.lit("}"))
    row = F.from_json(record, schema, {"columnNameOfCorruptRecord": "_corrupt"})
    return F.when(is_one_value(text) & row.getField("_corrupt").isNull(), row.getField("value"))


def is_one_value(text: Column) -> Column:
    """Return whether a text is one value of JSON: Spark's parser stops at the end of the first.

    A bracket that ends the array here hides the second element.
    """
    elements = F.json_array_length(F.concat(F.lit("["), text, F.lit(",0]")))
    return elements.eqNullSafe(2)


def _fitted_text(data_type: str, text: Column) -> Column:
    kind = texts.kind(data_type)
    fitted, pattern = text.try_cast(data_type), texts.pattern(data_type)
    if pattern is None:
        return fitted
    fits = text.rlike(f"^(?:{pattern})$")
    if kind == "float":
        fits &= ~is_infinite(fitted) | text.rlike("(?i)inf")
    return F.when(fits, fitted)


def is_infinite(value: Column) -> Column:
    """Return whether a number is infinite, of either sign."""
    return F.abs(value) == F.lit(float("inf"))


def type_of(column: declared.DeclaredColumn) -> T.DataType:
    """Return the declared type."""
    return type_named(column.data_type)


def type_named(name: str) -> T.DataType:
    """Return the type of a name."""
    return cast(T.StructType, T.StructType.fromDDL(f"declared {name}"))[0].dataType


def has_floats(kind: T.DataType) -> bool:
    """Return true if a value of the type is a `float` or `double`, or may contain one."""
    if isinstance(kind, T.StructType):
        return any(has_floats(field.dataType) for field in kind)
    if isinstance(kind, T.ArrayType):
        return has_floats(kind.elementType)
    if isinstance(kind, T.MapType):
        return has_floats(kind.valueType)
    return isinstance(kind, T.FloatType | T.DoubleType)


def floats_within(kind: T.DataType, value: Column, is_one: Callable[[Column], Column]) -> Column:
    """Count the `float` and `double` values, in a value or inside it, that meet a condition."""
    if not has_floats(kind):
        return F.lit(0)
    if isinstance(kind, T.StructType):
        fields = (floats_within(f.dataType, value.getField(f.name), is_one) for f in kind)
        return reduce(Column.__add__, fields)
    if isinstance(kind, T.ArrayType | T.MapType):
        inner = kind.elementType if isinstance(kind, T.ArrayType) else kind.valueType
        elements = value if isinstance(kind, T.ArrayType) else F.map_values(value)
        each = F.transform(elements, lambda one: floats_within(inner, one, is_one))
        return F.coalesce(F.aggregate(each, F.lit(0), Column.__add__), F.lit(0))
    return F.coalesce(is_one(value).cast("int"), F.lit(0))


def numbers_within(kind: T.DataType, value: Column) -> Column:
    """Return the numbers among the variants in a value, as texts that Spark would write.

    The type has variants, and maps, arrays and structs of them, alone.
    """
    none = F.array().cast("array<string>")
    if isinstance(kind, T.StructType):
        fields = (numbers_within(f.dataType, value.getField(f.name)) for f in kind)
        return F.concat(*fields)
    if isinstance(kind, T.ArrayType | T.MapType):
        inner = kind.elementType if isinstance(kind, T.ArrayType) else kind.valueType
        elements = value if isinstance(kind, T.ArrayType) else F.map_values(value)
        each = F.transform(elements, lambda one: numbers_within(inner, one))
        return F.coalesce(F.flatten(each), none)
    name = F.schema_of_variant(value)
    whole, other = name == "BIGINT", name.rlike("^(?:DECIMAL|DOUBLE|FLOAT)")
    return (
        F.when(whole, F.array(value.try_cast("string")))
        .when(other, F.array(value.try_cast("double").cast("string")))
        .otherwise(none)
    )


def not_utf8(kind: T.DataType, value: Column, wanted: T.DataType) -> list[Column]:
    """Return the texts of a value, itself or inside it, that are not UTF-8.

    Each column is one such text or null. Keys of maps count as texts, and so do bytes if the
    declared type `wanted` makes them text.
    """
    if isinstance(kind, T.StructType):
        asked = {f.name.lower(): f.dataType for f in _fields(wanted)}
        return [
            text
            for field in kind
            for text in not_utf8(
                field.dataType,
                value.getField(field.name),
                asked.get(field.name.lower(), field.dataType),
            )
        ]
    if isinstance(kind, T.ArrayType):
        element = wanted.elementType if isinstance(wanted, T.ArrayType) else kind.elementType
        return _one_not_utf8(kind.elementType, value, element)
    if isinstance(kind, T.MapType):
        of = wanted if isinstance(wanted, T.MapType) else kind
        return [
            *_one_not_utf8(kind.keyType, F.map_keys(value), of.keyType),
            *_one_not_utf8(kind.valueType, F.map_values(value), of.valueType),
        ]
    if isinstance(kind, T.StringType) or (kind, wanted) == (T.BinaryType(), T.StringType()):
        return [F.when(~F.is_valid_utf8(value.cast("string")), value.cast("string"))]
    return []


def _fields(kind: T.DataType) -> list[T.StructField]:
    return kind.fields if isinstance(kind, T.StructType) else []


def _one_not_utf8(kind: T.DataType, values: Column, wanted: T.DataType) -> list[Column]:
    if not not_utf8(kind, F.lit(None), wanted):
        return []
    each = F.transform(values, lambda one: F.coalesce(*not_utf8(kind, one, wanted)))
    return [F.get(F.filter(each, Column.isNotNull), F.lit(0))]


def repeats_key(kind: T.DataType, value: Column) -> Column | None:
    """Return the condition that a map, in a value or inside it, has a key twice; None without maps.

    Spark keeps both, and answers with either of them.
    """
    if isinstance(kind, T.StructType):
        return _any(repeats_key(field.dataType, value.getField(field.name)) for field in kind)
    if isinstance(kind, T.ArrayType):
        return _one_is(repeats_key, kind.elementType, value)
    if not isinstance(kind, T.MapType):
        return None
    keys = F.map_keys(value)
    twice = F.coalesce(F.size(F.array_distinct(keys)) < F.size(keys), F.lit(False))
    return _any((twice, _one_is(repeats_key, kind.valueType, F.map_values(value))))


_YEARS = {
    "date": ("date'0001-01-01'", "date'9999-12-31'"),
    "timestamp": ("timestamp'0001-01-01 00:00:00Z'", "timestamp'9999-12-31 23:59:59.999999Z'"),
    "timestamp_ntz": (
        "timestamp_ntz'0001-01-01 00:00:00'",
        "timestamp_ntz'9999-12-31 23:59:59.999999'",
    ),
}


def outside_years(kind: T.DataType, value: Column) -> Column | None:
    """Return the condition that a value has a date or time outside of the years 1 to 9999.

    Most programs support these years alone. None for a type without dates and times.
    """
    if isinstance(kind, T.StructType):
        fields = (outside_years(field.dataType, value.getField(field.name)) for field in kind)
        return _any(fields)
    if isinstance(kind, T.ArrayType):
        return _one_is(outside_years, kind.elementType, value)
    if isinstance(kind, T.MapType):
        keys = _one_is(outside_years, kind.keyType, F.map_keys(value))
        return _any((keys, _one_is(outside_years, kind.valueType, F.map_values(value))))
    if (years := _YEARS.get(kind.simpleString())) is None:
        return None
    first, last = map(F.expr, years)
    return F.coalesce((value < first) | (value > last), F.lit(False))


def _one_is(
    condition: Callable[[T.DataType, Column], Column | None], kind: T.DataType, values: Column
) -> Column | None:
    """Return whether one of the values meets a condition; None if none of this type can."""
    if condition(kind, F.lit(None)) is None:
        return None
    found = F.exists(values, lambda one: cast(Column, condition(kind, one)))
    return F.coalesce(found, F.lit(False))


def _any(conditions: Iterable[Column | None]) -> Column | None:
    found = [condition for condition in conditions if condition is not None]
    return reduce(Column.__or__, found) if found else None


def by_name(
    column: declared.DeclaredColumn, value: Column, given: T.DataType, whole: bool = True
) -> Column:
    """Return a value whose structs have the declared fields, because a cast goes by position."""
    if texts.kind(column.data_type) not in ("struct", "array", "map"):
        return value
    return _fields_by_name(value, given, type_of(column), whole)


def with_fields(value: Column, given: T.DataType, wanted: T.DataType) -> Column:
    """Return a value of nested type whose structs have the fields of another type."""
    return _fields_by_name(value, given, wanted, whole=True)


def _fields_by_name(value: Column, given: T.DataType, wanted: T.DataType, whole: bool) -> Column:
    """Return the declared fields, or only the present ones under declared names unless `whole`."""
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
