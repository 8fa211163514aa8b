"""From what a source delivers to rows of bronze and rows of quarantine.

A batch is split by `_good`, which is quickly told; `_bad` costs more, and is asked for where
something is bad: null for a good record, else a struct of reason, field and message.
Reasons: `malformed` (not a record of the format at all), `type` (a field does not fit its
data_type), `not_null` and `check` (a declared constraint is broken), `schema` (an unknown field
where the policy is `fail`), `duplicate` and `late` (see `mark_repeated`). Everything here only
builds expressions; nothing is read or written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache, reduce
from typing import cast

from pyspark.sql import Column, DataFrame, Observation, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

import headwaters.contract as declared
from headwaters.contract import Contract
from headwaters.formats import texts

CORRUPT = "_corrupt"
# Fields of a row of CSV, beyond which Spark gives up its whole file: usually 20,480. Each file that
# is read costs a megabyte for these.
MAX_COLUMNS = "100000"
# of moments, Spark writes no more than milliseconds by itself
_WHOLE = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
EMPTY = "\x00\x00\x00"  # a field of CSV that is empty and quoted, while it is read


def read_schema(contract: Contract) -> str:
    """The DDL that a reader of text is asked for.

    Fields of CSV are read as text, since `texts` knows better than Spark what a value is. A tinyint
    of JSON is read as smallint: Spark takes 200 for -56.
    """
    columns = [f"`{c.name}` {_read_type(contract, c)}" for c in contract.read_columns]
    return ", ".join([*columns, f"`{CORRUPT}` string"])


def _read_type(contract: Contract, column: declared.Column) -> str:
    if contract.form == "csv":
        return "string"
    return re.sub(r"(?i)\b(?:tinyint|byte)\b(?!\s*:)", "smallint", column.data_type)


def parse_again(contract: Contract, rows: DataFrame) -> DataFrame:
    """As `parse`, for rows of quarantine; `_batch_id`, `_ingested_at` and `_reason` are kept.

    What has no text of its own (a row of a Parquet file) was kept as JSON.
    """
    kept = ("_batch_id", "_ingested_at", "_reason")
    bytes_ = contract.form in ("avro", "raw")
    value = F.col("record") if bytes_ else F.col("record").cast("string")
    rows = rows.withColumnRenamed("reason", "_reason")
    raw = rows.select(value.alias("value"), *contract.origin, *kept)
    if contract.form == "columns":
        return parse(contract, raw.withColumn("value", _as_declared(contract)), kept, "json")
    if contract.form == "csv":
        row = F.from_csv("_raw", read_schema(contract), csv_options(contract, header=False))
        raw = raw.withColumnRenamed("value", "_raw").select("*", row.alias("_row"))
        raw = raw.select("*", "_row.*").drop("_row")
        parsed = parse(contract, raw, kept)
        gone = problem_of("malformed", message=F.lit("was kept without its text"))
        without = F.col("_raw").isNull()
        split = {
            "_good": F.col("_good") & ~without,
            "_bad": F.when(without, gone).otherwise(F.col("_bad")),
        }
        return parsed.withColumns(split)
    return parse(contract, raw, kept)


def _as_declared(contract: Contract) -> Column:
    """A row that was kept as JSON, with the names of its fields as they are declared by now.

    Columns are told without regard to case, and fields of JSON are not.
    """
    names = {column.name.lower(): column.name for column in contract.read_columns}
    declared_as = F.create_map(*[F.lit(text) for pair in names.items() for text in pair])
    keys = F.json_object_keys("value")
    other = F.exists(keys, lambda key: F.element_at(declared_as, F.lower(key)) != key)
    renamed = F.transform_keys(
        F.from_json("value", "map<string,variant>"),
        lambda key, _: F.coalesce(F.element_at(declared_as, F.lower(key)), key),
    )
    return F.when(other, F.to_json(renamed)).otherwise(F.col("value"))


def parse(
    contract: Contract, raw: DataFrame, kept: Sequence[str] = (), form: str | None = None
) -> DataFrame:
    """Columns of the contract, `_good`, `_bad`, `_raw` and `_rescued` for each record that came in.

    `raw` has, besides the lineage that the source delivers and what is to be `kept`, by the
    contract's form: for JSON, Avro and raw `value` (the record's text or bytes), for CSV the
    columns of `read_schema` and, where it is known, the text as `_raw`, for columns what the source
    has.
    """
    form = form or contract.form
    origin = [*contract.origin, *kept]
    if form == "json":
        typed = _from_json(contract, raw, origin)
    elif form == "csv":
        typed = _from_csv(contract, raw, origin)
    elif form == "raw":
        (column,) = contract.read_columns
        value = F.col("value")
        typed = raw.select(
            *origin, value.alias("_raw"), value.cast(column.data_type).alias(column.name)
        )
    elif form == "avro":
        typed = _from_avro(contract, raw, origin)
    else:
        declared_as = {column.name.lower(): column.name for column in contract.read_columns}
        found = {declared_as.get(name.lower(), name): name for name in raw.columns}
        names = [column.name for column in contract.read_columns if column.name in found]
        names += sorted(name for name in found if name not in (*names, *origin))
        given = {name: F.col(f"`{found[name]}`") for name in names}
        types = {name: raw.schema[found[name]].dataType for name in names}
        columns = F.struct(*[_as_text(contract, n, given[n], types[n]) for n in names])
        text = F.to_json(columns, _WHOLE)
        typed = _from_columns(contract, raw, origin, given, text)
    for column in contract.computed_columns:
        value = F.expr(str(column.expression)).cast(column.data_type)
        typed = typed.withColumn(column.name, value)
    return typed.select(*_parsed_columns(contract, form, tuple(origin)))


@cache
def _parsed_columns(contract: Contract, form: str, origin: Sequence[str]) -> list[Column]:
    """What `parse` gives, of typed columns.

    Kept, as are others: each part of an expression is a call of the JVM, a thousand in all, which
    took longer than a small batch.
    """
    problems = _problems(contract, form)
    any_problem = reduce(Column.__or__, [F.coalesce(when, F.lit(False)) for when, _ in problems])
    first_problem = F.coalesce(*[F.when(when, what) for when, what in problems], _no_problem())
    return [
        *[F.col(f"`{column.name}`") for column in contract.columns],
        *map(F.col, origin),
        F.col("_raw").cast("binary").alias("_raw"),
        _rescued(contract, form).alias("_rescued"),
        (~any_problem).alias("_good"),
        first_problem.alias("_bad"),
    ]


def _from_json(contract: Contract, raw: DataFrame, origin: Sequence[str]) -> DataFrame:
    row, columns = _json_columns(contract, tuple(origin))
    return raw.select("*", row).select(*columns)


@cache
def _json_columns(contract: Contract, origin: Sequence[str]) -> tuple[Column, list[Column]]:
    text = F.col("value")
    row = F.from_json(
        F.when(_readable(contract, text), text), read_schema(contract), _json(contract)
    )
    read = {c.name: F.col(f"_row.`{c.name}`") for c in contract.read_columns}
    fitted = {
        c.name: read[c.name].try_cast(c.data_type)
        for c in contract.read_columns
        if _read_type(contract, c) != c.data_type
    }
    return row.alias("_row"), [
        *map(F.col, origin),
        text.alias("_raw"),
        F.col("_row").isNull().alias("_unread"),
        *[(read | fitted)[c.name].alias(c.name) for c in contract.read_columns],
        F.coalesce(*_uncast(contract, read, fitted), _no_problem()).alias("_uncast"),
        F.col(f"_row.{CORRUPT}").alias(CORRUPT),
        F.json_object_keys("value").alias("_keys"),
    ]


def _json(contract: Contract) -> dict[str, str]:
    options = contract.stream.options if contract.form == "json" else {}
    return options | {"columnNameOfCorruptRecord": CORRUPT}


def _strict_kinds(contract: Contract) -> list[str]:
    """The kinds of values of JSON of which Spark takes too many texts.

    It is strict itself where a format is declared.
    """
    formats = {"date": "dateFormat", "timestamp": "timestampFormat"}
    kinds = ("decimal", "date", "timestamp", "timestamp_ntz")
    return [kind for kind in kinds if formats.get(kind) not in _json(contract)]


def _suspicious(contract: Contract, text: Column) -> Column:
    """Whether a JSON record may hold a text that is no value of its type: asked of every record."""
    columns = [(column.name, column.data_type) for column in contract.read_columns]
    patterns = texts.in_json(columns, _strict_kinds(contract))
    return F.lit(True) if patterns is None else _any_of(text, patterns)


def _readable(contract: Contract, text: Column) -> Column:
    """Whether Spark may parse a JSON record, and then reads what it says."""
    close = ~_wild(contract, text) & _misread(contract, text).isNull()
    return ~_suspicious(contract, text) | close


def _misread(contract: Contract, text: Column) -> Column:
    """A problem for the first declared field whose text is no value of its type, or null.

    This parses a record of JSON a second time, its doubtful values as they are.
    """
    columns = cast(T.StructType, T.StructType.fromDDL(read_schema(contract)))
    kinds = _strict_kinds(contract)
    as_it_is = T.StructType([T.StructField(f.name, _variants(f.dataType, kinds)) for f in columns])
    row = F.from_json(text, as_it_is, _json(contract))
    problems = []
    for column in contract.read_columns:
        value, kind = row.getField(column.name), columns[column.name].dataType
        wrong = _is_misread(kind, value, kinds)
        if wrong is not None:
            said = F.coalesce(value.try_cast("string"), F.to_json(F.struct(value.alias("value"))))
            problems.append(F.when(wrong, _type_problem(column, said)))
    broken = problem_of("malformed", _null(), F.lit("is not a JSON object"))
    unreadable = F.when(row.getField(CORRUPT).isNotNull(), broken)
    return F.coalesce(*problems, unreadable, _no_problem())


def _variants(kind: T.DataType, kinds: Sequence[str]) -> T.DataType:
    """A type in which values of these kinds are variants."""
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(f.name, _variants(f.dataType, kinds)) for f in kind])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_variants(kind.elementType, kinds))
    if isinstance(kind, T.MapType):
        return T.MapType(kind.keyType, _variants(kind.valueType, kinds))
    return T.VariantType() if texts.kind(kind.simpleString()) in kinds else kind


def _is_misread(kind: T.DataType, value: Column, kinds: Sequence[str]) -> Column | None:
    """Whether a value, or one inside it, is a variant that is no value of its kind."""
    if isinstance(kind, T.StructType):
        fields = (_is_misread(f.dataType, value.getField(f.name), kinds) for f in kind)
        found = [field for field in fields if field is not None]
        return reduce(Column.__or__, found) if found else None
    if isinstance(kind, T.ArrayType | T.MapType):
        inner = kind.elementType if isinstance(kind, T.ArrayType) else kind.valueType
        elements = value if isinstance(kind, T.ArrayType) else F.map_values(value)
        if _is_misread(inner, F.lit(None), kinds) is None:
            return None
        return F.exists(elements, lambda one: _known(_is_misread(inner, one, kinds)))
    name = texts.kind(kind.simpleString())
    if name not in kinds:
        return None
    is_a, text = F.schema_of_variant(value), value.try_cast("string")
    wrong = (is_a == "STRING") & ~text.rlike(f"^(?:{texts.PATTERNS[name]})$")
    if name == "timestamp":
        wrong |= (is_a == "BIGINT") & (F.abs(value.try_cast("bigint")) > texts.NEWEST_SECOND)
    return F.coalesce(wrong, F.lit(False))


def _known(column: Column | None) -> Column:
    assert column is not None
    return column


def wild_numbers(contract: Contract) -> list[str]:
    """Patterns of numbers such as 1e100000000 in JSON where a decimal is declared.

    Spark spends minutes to hours to make a decimal of those few bytes, and the stream stands still.
    In a text, or a field that is not declared, the same characters do no harm. A pattern begins
    with the field's name, which Java looks for in strides, and not with the quote before it.
    """
    decimal = r"(?:decimal|dec|numeric)\b"
    named = rf"(?:`([^`]+)`|(\w+))\s*[:\s]\s*{decimal}"  # a field of a struct
    element = rf"(?:array\s*<|map\s*<.*,)\s*{decimal}"
    types = {column.name: column.data_type.strip() for column in contract.read_columns}
    names = [name for name, kind in types.items() if re.match(decimal, kind, re.I)]
    for kind in types.values():
        names += [quoted or plain for quoted, plain in re.findall(named, kind, re.I)]
    number = rf"[\"']?\s*[-+]?[0-9.,]++{texts.WILD}"
    patterns = [
        rf"{name}(?<=[\"']{name})[\"']\s*:\s*{number}"
        for name in map(re.escape, dict.fromkeys(names))
    ]
    if any(re.search(element, kind, re.I) for kind in types.values()):
        patterns += [rf"[:\[,]\s*[-+]?[0-9.]++{texts.WILD}", rf"[\"']\s*[-+]?[0-9.,]++{texts.WILD}"]
    return patterns


def _wild(contract: Contract, text: Column) -> Column:
    return _any_of(text, wild_numbers(contract))


def _any_of(text: Column, patterns: Sequence[str]) -> Column:
    found = [text.rlike(pattern) for pattern in patterns]
    return F.coalesce(reduce(Column.__or__, found), F.lit(False)) if found else F.lit(False)


def _cast(contract: Contract, column: declared.Column, value: Column, kind: str) -> Column:
    """A value of some type in the declared one, or null where it is no such value."""
    fitted, wanted = value.try_cast(column.data_type), texts.kind(column.data_type)
    if kind == "string":
        return _cast_text(contract, column, value)
    given = texts.kind(kind)
    if wanted == given:
        return fitted
    same = None
    if wanted == "float":
        same = ~_is_infinite(fitted) | _is_infinite(value.try_cast("double"))
    elif wanted in ("tinyint", "smallint", "int", "bigint", "boolean") or wanted == "date":
        same = fitted.try_cast(kind) == value
    elif wanted == "timestamp" and given != "date":
        same = F.abs(F.unix_seconds(fitted)) <= texts.NEWEST_SECOND
    return fitted if same is None else F.when(same, fitted)


def _cast_text(contract: Contract, column: declared.Column, text: Column) -> Column:
    kind, options = texts.kind(column.data_type), contract.stream.options
    if contract.form == "csv" and kind == "timestamp" and "timestampFormat" in options:
        return F.try_to_timestamp(text, F.lit(options["timestampFormat"]))
    if contract.form == "csv" and kind == "date" and "dateFormat" in options:
        return F.try_to_date(text, options["dateFormat"])
    fitted, pattern = text.try_cast(column.data_type), texts.pattern(column.data_type)
    if pattern is None:
        return fitted
    fits = text.rlike(f"^(?:{pattern})$")
    if kind == "float":
        fits &= ~_is_infinite(fitted) | text.rlike("(?i)inf")
    return F.when(fits, fitted)


def _is_infinite(value: Column) -> Column:
    return F.abs(value) == F.lit(float("inf"))


def csv_options(contract: Contract, header: bool = True) -> dict[str, str]:
    """The options with which CSV is read: as RFC 4180 has it, and what the contract says."""
    usual = {
        "header": "true",
        "enforceSchema": "false",
        "escape": contract.stream.options.get("quote", '"'),
        "multiLine": "true",  # a quoted field may hold line breaks
        "emptyValue": EMPTY,
        "columnNameOfCorruptRecord": CORRUPT,
        "maxColumns": MAX_COLUMNS,
    }
    options = usual | contract.stream.options
    return options if header else {k: v for k, v in options.items() if k != "header"}


def _from_csv(contract: Contract, raw: DataFrame, origin: Sequence[str]) -> DataFrame:
    """Rows of CSV, of which Spark keeps the text where it does not fit: else it is written anew."""
    names = [column.name for column in contract.read_columns]
    there = {name: F.col(f"`{name}`") for name in names}
    empty = {name: there[name] == EMPTY for name in names}
    given = {name: F.when(empty[name], F.lit("")).otherwise(there[name]) for name in names}
    if "_raw" in raw.columns:
        text = F.col("_raw")
    else:
        writing = csv_options(contract, header=False) | {
            "emptyValue": '""',
            "ignoreLeadingWhiteSpace": "false",
            "ignoreTrailingWhiteSpace": "false",
        }
        fields = F.struct(*[given[name].alias(name) for name in names])
        text = F.coalesce(CORRUPT, F.to_csv(fields, writing))
    filled = {name: F.when(~empty[name], there[name]) for name in names}
    typed = {
        c.name: given[c.name]
        if texts.kind(c.data_type) == "string"
        else _cast_text(contract, c, filled[c.name])
        for c in contract.read_columns
    }
    replaced = [F.contains(there[name], F.lit("\ufffd")) for name in (*names,)]
    replaced.append(F.contains(F.col(CORRUPT), F.lit("\ufffd")))
    return raw.select(
        *origin,
        CORRUPT,
        text.alias("_raw"),
        *[typed[name].alias(name) for name in names],
        reduce(Column.__or__, [F.coalesce(r, F.lit(False)) for r in replaced]).alias("_replaced"),
        F.coalesce(*_uncast(contract, filled, typed), _no_problem()).alias("_uncast"),
    )


def _from_avro(contract: Contract, raw: DataFrame, origin: Sequence[str]) -> DataFrame:
    """Records of one Avro schema, each without the header of a file.

    The schema is wrapped into a record of one field, which changes no byte: what does not fit is
    then null as a whole, where it would otherwise be a record of nulls.
    """
    from pyspark.sql.avro.functions import from_avro

    options = contract.stream.options
    payload = F.col("value")
    if options.get("confluent") == "true":  # a zero byte and the number of the schema come first
        payload = F.expr("substring(value, 6)")
    wrapped = (
        f'{{"type": "record", "name": "headwaters_record", "fields": '
        f'[{{"name": "record", "type": {options["avroSchema"]}}}]}}'
    )
    reading = {k: v for k, v in options.items() if k not in ("avroSchema", "confluent")}
    decoded = (
        raw.select(
            "*", from_avro(payload, wrapped, {**reading, "mode": "PERMISSIVE"}).alias("_avro")
        )
        .select("*", "_avro.record")
        .drop("_avro")
    )
    names = decoded.select("record.*").columns
    given = {name: F.col(f"record.`{name}`") for name in names}
    whole = F.col("record").isNotNull().alias("_whole")
    return _from_columns(contract, decoded, origin, given, F.col("value"), whole)


def _from_columns(
    contract: Contract,
    raw: DataFrame,
    origin: Sequence[str],
    given: Mapping[str, Column],
    text: Column,
    *more: Column,
) -> DataFrame:
    """Columns that have a type already, by name, in the types that the contract declares."""
    declared_names = {column.name for column in contract.read_columns}
    unknown = [value.alias(name) for name, value in given.items() if name not in declared_names]
    types = [field.dataType for field in raw.select(*given.values()).schema]
    type_of = dict(zip(given, types, strict=True))
    kind_of = {name: kind.simpleString() for name, kind in type_of.items()}
    typed = {
        c.name: _cast(contract, c, _by_name(c, given[c.name], type_of[c.name]), kind_of[c.name])
        for c in contract.read_columns
        if c.name in given
    }
    not_text = [
        F.when(~F.is_valid_utf8(value.cast("string")), _not_text(F.lit(name), value))
        for name, value in given.items()
        if kind_of[name] == "string"
        or (kind_of[name] == "binary" and _kind_of(contract, name) == "string")
    ]
    return raw.select(
        *origin,
        *[
            typed.get(c.name, F.lit(None).cast(c.data_type)).alias(c.name)
            for c in contract.read_columns
        ],
        text.alias("_raw"),
        (F.to_json(F.struct(*unknown), _WHOLE) if unknown else _null()).alias("_unknown"),
        F.coalesce(*not_text, *_uncast(contract, given, typed), _no_problem()).alias("_uncast"),
        *more,
    )


def _by_name(
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


def _as_text(contract: Contract, name: str, value: Column, given: T.DataType) -> Column:
    """A column as quarantine keeps it: all of it, with names as they are declared."""
    column = next((column for column in contract.read_columns if column.name == name), None)
    return (value if column is None else _by_name(column, value, given, whole=False)).alias(name)


def _kind_of(contract: Contract, name: str) -> str | None:
    return next((texts.kind(c.data_type) for c in contract.read_columns if c.name == name), None)


def _not_text(name: Column, value: Column) -> Column:
    """A problem that keeps the bytes of a field, since a record that is kept as JSON cannot."""
    said = F.concat(F.lit(f"{NOT_UTF8}: "), F.hex(value.cast("binary")))
    return problem_of("type", name, said)


def unknown_fields(parsed: DataFrame) -> list[str]:
    """The names of the fields in a parsed batch that are not columns, in order."""
    names = F.explode(F.expr("json_object_keys(_rescued)")).alias("name")
    found = parsed.where("_rescued is not null").select(names).distinct().collect()
    return sorted(row["name"] for row in found)


def newest_event(contract: Contract, rows: Column | None = None) -> Column:
    """The time of the newest event of a table's rows, in microseconds; not later than taken in.

    One record from the far future would otherwise make everything that follows late.
    """
    assert contract.stream.deduplicate
    time = F.col(f"`{contract.stream.deduplicate.event_time}`")
    taken = F.when(time.isNotNull(), F.least(time, F.col("_ingested_at")))  # least() skips nulls
    return F.unix_micros(F.max(taken if rows is None else F.when(rows, taken))).alias("newest")


def mark_repeated(
    contract: Contract, parsed: DataFrame, bronze: DataFrame, newest: int | None
) -> DataFrame:
    """A parsed batch in which good records that repeat a key are marked `duplicate`.

    The watermark is `newest` (microseconds) less the declared time. A record older than it is
    `late`, since nobody knows any more whether its key came before; of the others only the first of
    a key is good, over the batch and the rows of `bronze` that are not older. Without `newest`
    there is no watermark.
    """
    wanted = contract.stream.deduplicate
    assert wanted
    time, keys = F.col(f"`{wanted.event_time}`"), [f"`{key}`" for key in wanted.key]
    good, late = F.col("_good"), F.lit(False)
    if newest is not None:
        watermark = F.timestamp_micros(F.lit(newest - int(wanted.within * 1e6)))
        late = F.coalesce(time < watermark, F.lit(False))
        bronze = bronze.where((time >= watermark) | time.isNull())
    known = bronze.select(*keys).distinct().withColumn("_seen", F.lit(True))
    parsed = parsed.join(known, list(wanted.key), "left")
    # every run of the same batch must choose the same one; equal records are all the same
    places = [name for name in contract.origin if name not in ("_key", "_headers", "_timestamp")]
    order = Window.partitionBy(*keys, good & ~late).orderBy(time, *places, "_raw")
    complete = reduce(Column.__and__, [F.col(key).isNotNull() for key in keys])
    repeated = complete & (F.col("_seen").isNotNull() | (F.row_number().over(order) > 1))
    name = F.lit(", ".join(wanted.key))
    what = F.lit(f"is older than the newest event by more than {wanted.within:g} s")
    verdict = F.when(late, problem_of("late", F.lit(wanted.event_time), what)).when(
        repeated, problem_of("duplicate", name, F.lit("came before"))
    )
    return with_problem(parsed, verdict)


def with_problem(parsed: DataFrame, problem: Column) -> DataFrame:
    """What else may be wrong (or null), for records that are good so far."""
    return parsed.withColumns(
        {"_good": F.col("_good") & problem.isNull(), "_bad": F.coalesce("_bad", problem)}
    )


def good_rows(
    contract: Contract, parsed: DataFrame, at: datetime, batch: int, counts: Observation
) -> DataFrame:
    """The rows of bronze in a parsed batch.

    `counts` gets how many are `good`, how many `bad`, and the `places` of those, as `among` wants.
    """
    rows = parsed.select("*", *_batch_columns(at, batch)).select(
        *_cast_to(tuple(contract.bronze_columns())), "_good", PLACE
    )
    more = [F.bitmap_construct_agg(F.when(~F.col("_good"), F.col(PLACE))).alias("places")]
    if contract.stream.deduplicate:
        more.append(newest_event(contract, F.col("_good")))
    return _parsed_once(rows, counts, *more).where("_good").drop("_good", PLACE)


@cache
def _cast_to(columns: Sequence[tuple[str, str]]) -> list[Column]:
    return [F.col(f"`{name}`").cast(kind).alias(name) for name, kind in columns]


PLACE = "_place"
_PLACES = 2**15  # bits, of which `bitmap_construct_agg` makes one value


def with_place(raw: DataFrame) -> DataFrame:
    """Records with `_place`, one of 32,768 by their content: the same each time they are read."""
    hashed = [name for name, kind in raw.dtypes if not re.search("map<|variant", kind)]
    place = F.pmod(F.xxhash64(F.lit(0), *[F.col(f"`{name}`") for name in hashed]), F.lit(_PLACES))
    return raw.withColumn(PLACE, place)


def among(places: bytes) -> Column:
    """Whether a record's place is one of those in a bitmap: few records are parsed again then."""
    bits = bytes(byte >> bit & 1 for byte in places for bit in range(8))
    return F.substring(F.lit(bits), (F.col(PLACE) + 1).cast("int"), F.lit(1)) == F.lit(b"\1")


def bad_rows(contract: Contract, parsed: DataFrame, at: datetime, batch: int) -> DataFrame:
    """The rows of quarantine in a parsed batch."""
    rows = _parsed_once(parsed.select("_raw", "_good", "_bad", *contract.origin), Observation())
    rows = rows.where("not _good").select(
        "*",
        "_bad.*",
        F.col("_raw").alias("record"),
        F.lit(contract.version).alias("contract"),
        *_batch_columns(at, batch),
    )
    return rows.select(*_cast_to(tuple(contract.quarantine_columns())))


def _parsed_once(rows: DataFrame, counts: Observation, *more: Column) -> DataFrame:
    """An observation between parsing and what follows.

    Spark would otherwise push the filter on `_good` below the parsing, and parse again for each
    column that the filter mentions.
    """
    good = F.col("_good")
    number = (F.count_if(good).alias("good"), F.count_if(~good).alias("bad"))
    return rows.observe(counts, *number, *more)


def _batch_columns(at: datetime, batch: int) -> list[Column]:
    return [F.lit(at).alias("_ingested_at"), F.lit(batch).cast("bigint").alias("_batch_id")]


def _null() -> Column:
    return F.lit(None).cast("string")


def _rescued(contract: Contract, form: str) -> Column:
    if not contract.rescues:
        return _null()
    if form != "json":
        return F.when(F.col("_unknown") != "{}", F.col("_unknown"))
    kept = f"map_filter({_FIELDS}, (k, v) -> array_contains({_unknown_keys(contract)}, k))"
    return F.when(_has_unknown(contract), F.expr(f"to_json({kept})"))


# The fields of a JSON record as strings: a second parse, for the few records that need it
_FIELDS = "from_json(cast(_raw as string), 'map<string,string>')"


def _unknown_keys(contract: Contract) -> str:
    names = ", ".join(_literal(column.name) for column in contract.read_columns)
    return f"array_except(_keys, array({names}))"


def _has_unknown(contract: Contract) -> Column:
    """Whether a JSON record has undeclared fields; most records are cleared by counting alone."""
    known = [F.col(f"`{c.name}`").isNotNull().cast("int") for c in contract.read_columns]
    suspicious = F.size("_keys") > reduce(Column.__add__, known)
    return suspicious & (F.size(F.expr(_unknown_keys(contract))) > 0)


def _no_problem() -> Column:
    return F.lit(None).cast("struct<reason:string,field:string,message:string>")


def _uncast(
    contract: Contract, given: Mapping[str, Column], typed: Mapping[str, Column]
) -> list[Column]:
    """A problem for each column whose value does not fit its declared type."""
    return [
        F.when(
            given[column.name].isNotNull() & typed[column.name].isNull(),
            _type_problem(column, given[column.name].cast("string")),
        )
        for column in contract.read_columns
        if column.name in typed
    ]


def _type_problem(column: declared.Column, text: Column) -> Column:
    shown = F.concat(F.lit("'"), F.substring(text, 1, 100), F.lit(f"' is not a {column.data_type}"))
    return problem_of("type", F.lit(column.name), shown)


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def problem_of(reason: str, field: Column | None = None, message: Column | None = None) -> Column:
    """What is wrong with a record, as `_bad` holds it."""
    named = _null() if field is None else field
    said = _null() if message is None else message
    return F.struct(F.lit(reason).alias("reason"), named.alias("field"), said.alias("message"))


def _problems(contract: Contract, form: str) -> list[tuple[Column, Column]]:
    """What may be wrong with a record, in order: when it is, and what `_bad` says of it then."""
    problems: list[tuple[Column, Column]] = []

    def malformed(when: Column, message: str) -> None:
        problems.append((when, problem_of("malformed", _null(), F.lit(message))))

    raw = F.col("_raw")
    if form == "json":
        malformed(~F.is_valid_utf8(raw), NOT_UTF8)
        malformed(_half_a_surrogate(raw), "has half of a surrogate pair, which is no character")
        suspected = F.col("_unread") & _suspicious(contract, raw)
        wild = suspected & _wild(contract, raw)
        malformed(wild, "has a number with an exponent of five digits")
        problems.append((suspected & _misread(contract, raw).isNotNull(), _misread(contract, raw)))
    if form == "csv":
        malformed(F.col("_replaced"), f"{NOT_UTF8}: U+FFFD stands for them, the file has them")
    if form == "raw" and _kind_of(contract, contract.read_columns[0].name) == "string":
        malformed(~F.is_valid_utf8(F.col(f"`{contract.read_columns[0].name}`")), NOT_UTF8)
    if form in ("json", "csv"):
        problems.append((F.col(CORRUPT).isNotNull(), _misfit(contract, form)))
    if form == "json":
        malformed(F.col("_keys").isNull(), "is empty")
        malformed(_goes_on_after_the_record(), "more than one JSON object in a record")
        problems.append((F.col("_uncast").isNotNull(), F.col("_uncast")))
        problems += _changed_numbers(contract)
    if form == "avro":
        malformed(~F.col("_whole"), "is not a record of the Avro schema")
    if form in ("avro", "columns", "csv"):
        problems.append((F.col("_uncast").isNotNull(), F.col("_uncast")))
    if contract.stream.schema_policy == "fail" and form in ("json", "avro", "columns"):
        keys = _unknown_keys(contract) if form == "json" else "json_object_keys(_unknown)"
        undeclared = problem_of("schema", F.get(F.expr(keys), F.lit(0)), F.lit("is not declared"))
        there = _has_unknown(contract) if form == "json" else F.col("_unknown") != "{}"
        problems.append((there, undeclared))
    for column in contract.columns:
        value, name = F.col(f"`{column.name}`"), F.lit(column.name)
        for rule in column.constraints:
            if rule.type == "not_null":
                problems.append((value.isNull(), problem_of("not_null", name, F.lit("is null"))))
            else:
                problem = problem_of("check", name, F.lit(f"breaks {rule.expression}"))
                problems.append((F.expr(f"not ({rule.expression})"), problem))
    return problems or [(F.lit(False), _no_problem())]


NOT_UTF8 = "has bytes that are not UTF-8"


def _half_a_surrogate(text: Column) -> Column:
    r"""Whether JSON has a `\ud800` alone, which Spark turns into a question mark."""
    high, low = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    # a backslash that is written as two begins no escape
    alone = rf"(?<!\\)(?:\\\\)*+(?:{high}(?!{low})|(?<!{high}){low})"
    escaped = F.contains(text, F.lit(r"\ud")) | F.contains(text, F.lit(r"\uD"))
    return escaped & text.rlike(alone)


def _changed_numbers(contract: Contract) -> list[tuple[Column, Column]]:
    """Numbers of JSON that Spark turned into something else: infinity, or another text.

    Of 1.10, where text is declared, it makes `1.1`, of 12345678.5 `1.23456785E7`.
    """
    problems, raw = [], F.col("_raw")
    fields = F.from_json("_raw", "map<string,string>")
    for column in contract.read_columns:
        value, kind = F.col(f"`{column.name}`"), texts.kind(column.data_type)
        said = F.element_at(fields, F.lit(column.name))
        if kind == "float":
            when = _is_infinite(value) & ~said.rlike("^[-+]?[iI]")
            problems.append((when, _type_problem(column, said)))
        if kind == "string":
            number = r'^(?:-?[0-9]+\.[0-9]+(?:E-?[0-9]+)?|"-?Infinity")$'
            name = rf"[\"']{re.escape(column.name)}[\"']\s*:\s*"
            there = F.concat(F.lit(rf"{name}(?:[\"']|\Q"), value, F.lit(r"\E\s*[,}/])"))
            # strings of digits sort before those of letters, and that is soon told
            when = (value < ":") & value.rlike(number) & ~F.regexp_like(raw, there)
            changed = F.concat(F.lit("is a number whose text would change to "), value)
            problems.append((when, problem_of("type", F.lit(column.name), changed)))
    return problems


def _goes_on_after_the_record() -> Column:
    """Whether text follows the JSON object: Spark's parser stops at its end and drops the rest.

    A record whose only `}` is its last byte is cleared without parsing it again. (`instr`, which
    counts characters, takes six times as long as `contains`.)
    """
    text = F.col("_raw")
    before = F.substring(text.cast("binary"), F.lit(1), F.octet_length(text) - 1)
    alone = F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))).eqNullSafe(1)
    cleared = text.endswith("}") & ~F.contains(before.cast("string"), F.lit("}"))
    return ~cleared & ~alone


def _misfit(contract: Contract, form: str) -> Column:
    """Why a record did not fit the columns: the first declared field that has text but no value."""
    columns = contract.read_columns
    strings = ", ".join(f"`{column.name}` string" for column in columns)
    if form == "json":
        fields = F.from_json("_raw", "map<string,string>")
        texts = [F.element_at(fields, F.lit(column.name)) for column in columns]
        whole = fields.isNotNull()
        malformed = "is not a JSON object"
    else:
        options = csv_options(contract, header=False)
        fields = F.from_csv("_raw", f"{strings}, `{CORRUPT}` string", options)
        texts = [fields.getField(column.name) for column in columns]
        whole = fields.getField(CORRUPT).isNull()
        malformed = f"has not the {len(columns)} declared fields"
    misfits = [
        F.when(
            whole & text.isNotNull() & F.col(f"`{column.name}`").isNull(),
            _type_problem(column, text),
        )
        for column, text in zip(columns, texts, strict=True)
    ]
    return F.coalesce(*misfits, problem_of("malformed", _null(), F.lit(malformed)))
