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

from pyspark.sql import Column, DataFrame, Observation, Window
from pyspark.sql import functions as F

import headwaters.contract as declared
from headwaters.contract import Contract

CORRUPT = "_corrupt"
# Fields of a row of CSV, beyond which Spark gives up its whole file: usually 20,480. Each file that
# is read costs a megabyte for these.
MAX_COLUMNS = "100000"


def read_schema(contract: Contract) -> str:
    """The DDL that a reader of text is asked for.

    Decimals of CSV are read as text: nothing can look for `wild_numbers` before.
    """
    text = contract.form == "csv"
    columns = [
        f"`{column.name}` {'string' if text and _is_decimal(column) else column.data_type}"
        for column in contract.read_columns
    ]
    return ", ".join([*columns, f"`{CORRUPT}` string"])


def _is_decimal(column: declared.Column) -> bool:
    return column.data_type.strip().lower().startswith("decimal")


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
        return parse(contract, raw, kept, "json")
    if contract.form == "csv":
        row = F.from_csv("_raw", read_schema(contract), _csv_options(contract))
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
        names = [column.name for column in contract.read_columns if column.name in raw.columns]
        names += [name for name in raw.columns if name not in (*names, *origin)]
        given = {name: F.col(f"`{name}`") for name in names}
        text = F.to_json(F.struct(*given.values()))
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
        F.when(~_wild(contract, text), text),
        read_schema(contract),
        {**_format_options(contract), "columnNameOfCorruptRecord": CORRUPT},
    )
    return row.alias("_row"), [
        *map(F.col, origin),
        text.alias("_raw"),
        F.col("_row").isNull().alias("_unread"),
        *[F.col(f"_row.`{c.name}`").alias(c.name) for c in contract.read_columns],
        F.col(f"_row.{CORRUPT}").alias(CORRUPT),
        F.json_object_keys("value").alias("_keys"),
    ]


def _format_options(contract: Contract) -> dict[str, str]:
    return contract.stream.options if contract.form == "json" else {}


# An exponent of five digits: of such a number, Spark would need minutes to hours for a decimal.
_WILD = "[eE][+-]?0*[1-9][0-9]{4}"


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
    number = rf"[\"']?\s*[-+]?[0-9.,]++{_WILD}"
    patterns = [
        rf"{name}(?<=[\"']{name})[\"']\s*:\s*{number}"
        for name in map(re.escape, dict.fromkeys(names))
    ]
    if any(re.search(element, kind, re.I) for kind in types.values()):
        patterns += [rf"[:\[,]\s*[-+]?[0-9.]++{_WILD}", rf"[\"']\s*[-+]?[0-9.,]++{_WILD}"]
    return patterns


def _wild(contract: Contract, text: Column) -> Column:
    found = [text.rlike(pattern) for pattern in wild_numbers(contract)]
    return F.coalesce(reduce(Column.__or__, found), F.lit(False)) if found else F.lit(False)


def _cast(column: declared.Column, value: Column, kind: str) -> Column:
    """A value of some type in the declared one, or null, as for text of `wild_numbers`."""
    cast = value.try_cast(column.data_type)
    if kind == "string" and _is_decimal(column):
        return F.when(~value.rlike(_WILD), cast)
    return cast


def _csv_options(contract: Contract) -> dict[str, str]:
    options = {k: v for k, v in contract.stream.options.items() if k != "header"}
    return options | {"columnNameOfCorruptRecord": CORRUPT, "maxColumns": MAX_COLUMNS}


def _from_csv(contract: Contract, raw: DataFrame, origin: Sequence[str]) -> DataFrame:
    """Rows of CSV, of which Spark keeps the text where it does not fit: else it is written anew."""
    if "_raw" in raw.columns:
        text = F.col("_raw")
    else:
        writing = {
            "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
            "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
            "ignoreLeadingWhiteSpace": "false",
            "ignoreTrailingWhiteSpace": "false",
        }
        fields = F.struct(*[F.col(f"`{column.name}`") for column in contract.read_columns])
        text = F.coalesce(CORRUPT, F.to_csv(fields, writing | _csv_options(contract)))
    given = {column.name: F.col(f"`{column.name}`") for column in contract.read_columns}
    decimals = {  # Spark's own reader of CSV understands 1,234.50 as well
        c.name: _cast(c, F.replace(given[c.name], F.lit(","), F.lit("")), "string")
        for c in contract.read_columns
        if _is_decimal(c)
    }
    return raw.select(
        *origin,
        CORRUPT,
        text.alias("_raw"),
        *[(given | decimals)[c.name].alias(c.name) for c in contract.read_columns],
        F.coalesce(*_uncast(contract, given, decimals), _no_problem()).alias("_uncast"),
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
    kinds = [kind for _, kind in raw.select(*given.values()).dtypes]
    kind_of = dict(zip(given, kinds, strict=True))
    typed = {
        c.name: _cast(c, given[c.name], kind_of[c.name])
        for c in contract.read_columns
        if c.name in given
    }
    return raw.select(
        *origin,
        *[
            typed.get(c.name, F.lit(None).cast(c.data_type)).alias(c.name)
            for c in contract.read_columns
        ],
        text.alias("_raw"),
        (F.to_json(F.struct(*unknown)) if unknown else _null()).alias("_unknown"),
        F.coalesce(*_uncast(contract, given, typed), _no_problem()).alias("_uncast"),
        *more,
    )


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

    if form == "json":
        wild = F.col("_unread") & _wild(contract, F.col("_raw"))
        malformed(wild, "has a number with an exponent of five digits")
    if form in ("json", "csv"):
        problems.append((F.col(CORRUPT).isNotNull(), _misfit(contract, form)))
    if form == "json":
        malformed(F.col("_keys").isNull(), "is empty")
        malformed(_goes_on_after_the_record(), "more than one JSON object in a record")
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
        fields = F.from_csv("_raw", f"{strings}, `{CORRUPT}` string", _csv_options(contract))
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
