"""From what a source delivers to rows of bronze and rows of quarantine.

A batch is split by one column, `_bad`: null for a good record, else a struct of reason, field and
message. Reasons: `malformed` (not a record of the format at all), `type` (a field does not fit its
data_type), `not_null` and `check` (a declared constraint is broken), `schema` (an unknown field
where the policy is `fail`). Everything here only builds expressions; nothing is read or written.
"""

from __future__ import annotations

from datetime import datetime
from functools import reduce

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

import headwaters.contract as declared
from headwaters.contract import Contract

REASONS = ("malformed", "type", "not_null", "check", "schema")
CORRUPT = "_corrupt"


def read_schema(contract: Contract) -> str:
    """The DDL that a reader of text is asked for."""
    columns = [f"`{column.name}` {column.data_type}" for column in contract.read_columns]
    return ", ".join([*columns, f"`{CORRUPT}` string"])


def parse_text(contract: Contract, raw: DataFrame) -> DataFrame:
    """As `parse`, for quarantined records of any format: `raw` has their text as `value`.

    A record of a Parquet file was kept as JSON.
    """
    if contract.stream.format != "csv":
        stream = contract.stream.model_copy(update={"format": "json"})
        return parse(contract.model_copy(update={"stream": stream}), raw)
    options = {k: v for k, v in contract.stream.options.items() if k != "header"}
    options["columnNameOfCorruptRecord"] = CORRUPT
    row = F.from_csv("value", read_schema(contract), options).alias("_row")
    return parse(contract, raw.select("*", row).select("*", "_row.*").drop("_row"))


def parse(contract: Contract, raw: DataFrame) -> DataFrame:
    """Columns of the contract, `_bad`, `_raw` and `_rescued` for each record that came in.

    `raw` has, besides the lineage that the source delivers: for JSON `value` (the record's text),
    for CSV the typed columns, for Parquet the columns as the files have them.
    """
    names = [column.name for column in contract.read_columns]
    # a replay brings the batch along
    origin = [*contract.origin, *(["_batch_id"] if "_batch_id" in raw.columns else [])]
    if contract.stream.format == "json":
        typed = raw.select(
            "*",
            F.from_json(
                "value",
                read_schema(contract),
                {**contract.stream.options, "columnNameOfCorruptRecord": CORRUPT},
            ).alias("_row"),
        ).select(
            *origin,
            F.col("value").alias("_raw"),
            *[F.col(f"_row.`{name}`").alias(name) for name in names],
            F.col(f"_row.{CORRUPT}").alias(CORRUPT),
            F.json_object_keys("value").alias("_keys"),
        )
    elif contract.stream.format == "csv":
        typed = raw.select(
            "*", (F.col("value") if "value" in raw.columns else F.col(CORRUPT)).alias("_raw")
        )
    else:
        unknown = [F.col(f"`{c}`") for c in raw.columns if c not in {*names, *contract.origin}]
        given = [F.col(f"`{name}`") for name in names if name in raw.columns]
        typed = raw.select(
            *contract.origin,
            *[_cast(column, raw) for column in contract.read_columns],
            F.to_json(F.struct(*given, *unknown)).alias("_raw"),
            (F.to_json(F.struct(*unknown)) if unknown else _null()).alias("_unknown"),
            F.coalesce(*_uncast(contract, raw), _no_problem()).alias("_uncast"),
        )
    for column in contract.computed_columns:
        value = F.expr(str(column.expression)).cast(column.data_type)
        typed = typed.withColumn(column.name, value)
    return typed.select(
        *[F.col(f"`{column.name}`") for column in contract.columns],
        *origin,
        F.col("_raw").cast("binary").alias("_raw"),
        _rescued(contract).alias("_rescued"),
        _bad(contract).alias("_bad"),
    )


def good_rows(
    contract: Contract, parsed: DataFrame, at: datetime, batch: int, counts: Observation
) -> DataFrame:
    """The rows of bronze in a parsed batch; `counts` gets the numbers of good and bad records."""
    rows = parsed.select("*", *_batch_columns(at, batch)).select(
        *[F.col(f"`{name}`").cast(kind).alias(name) for name, kind in contract.bronze_columns()],
        "_bad",
    )
    return _parsed_once(rows, counts).where("_bad is null").drop("_bad")


def bad_rows(
    contract: Contract, parsed: DataFrame, at: datetime, batch: int, counts: Observation
) -> DataFrame:
    """The rows of quarantine in a parsed batch; `counts` as in `good_rows`."""
    rows = _parsed_once(parsed.select("_raw", "_bad", *contract.origin), counts)
    rows = rows.where("_bad is not null").select(
        "*",
        "_bad.*",
        F.col("_raw").alias("record"),
        F.lit(contract.version).alias("contract"),
        *_batch_columns(at, batch),
    )
    return rows.select(
        *[F.col(f"`{name}`").cast(kind).alias(name) for name, kind in contract.quarantine_columns()]
    )


def _parsed_once(rows: DataFrame, counts: Observation) -> DataFrame:
    """An observation between parsing and what follows.

    Spark would otherwise push the filter on `_bad` below the parsing, and evaluate the parsing
    again for each column that the filter mentions.
    """
    by_reason = [F.count_if(F.col("_bad.reason") == reason).alias(reason) for reason in REASONS]
    return rows.observe(counts, F.count_if(F.col("_bad").isNull()).alias("good"), *by_reason)


def _batch_columns(at: datetime, batch: int) -> list[Column]:
    return [F.lit(at).alias("_ingested_at"), F.lit(batch).cast("bigint").alias("_batch_id")]


def _null() -> Column:
    return F.lit(None).cast("string")


def _rescued(contract: Contract) -> Column:
    if not contract.rescues:
        return _null()
    if contract.stream.format == "parquet":
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


def _cast(column: declared.Column, raw: DataFrame) -> Column:
    """A Parquet column in its declared type; null where the files do not have it."""
    value = F.col(f"`{column.name}`") if column.name in raw.columns else F.lit(None)
    return value.try_cast(column.data_type).alias(column.name)


def _uncast(contract: Contract, raw: DataFrame) -> list[Column]:
    """A problem for each Parquet column whose value does not fit its declared type."""
    return [
        F.when(
            F.col(f"`{column.name}`").isNotNull()
            & F.col(f"`{column.name}`").try_cast(column.data_type).isNull(),
            _type_problem(column, F.col(f"`{column.name}`").cast("string")),
        )
        for column in contract.read_columns
        if column.name in raw.columns
    ]


def _type_problem(column: declared.Column, text: Column) -> Column:
    shown = F.concat(F.lit("'"), F.substring(text, 1, 100), F.lit(f"' is not a {column.data_type}"))
    return _problem("type", F.lit(column.name), shown)


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _problem(reason: str, field: Column, message: Column) -> Column:
    return F.struct(F.lit(reason).alias("reason"), field.alias("field"), message.alias("message"))


def _bad(contract: Contract) -> Column:
    """The first thing that is wrong with a record, or null."""
    problems: list[Column] = []
    form = contract.stream.format
    if form == "parquet":
        problems.append(F.col("_uncast"))
    else:
        problems.append(F.when(F.col(CORRUPT).isNotNull(), _misfit(contract)))
    if form == "json":
        empty = _problem("malformed", _null(), F.lit("is empty"))
        problems.append(F.when(F.col("_keys").isNull(), empty))
        trailing = _problem("malformed", _null(), F.lit("more than one JSON object in a record"))
        problems.append(F.when(_goes_on_after_the_record(), trailing))
    if form == "json" and contract.stream.schema_policy == "fail":
        field = F.get(F.expr(_unknown_keys(contract)), F.lit(0))
        undeclared = _problem("schema", field, F.lit("is not declared"))
        problems.append(F.when(_has_unknown(contract), undeclared))
    for column in contract.columns:
        value, name = F.col(f"`{column.name}`"), F.lit(column.name)
        for rule in column.constraints:
            if rule.type == "not_null":
                problem = _problem("not_null", name, F.lit("is null"))
                problems.append(F.when(value.isNull(), problem))
            else:
                problem = _problem("check", name, F.lit(f"breaks {rule.expression}"))
                problems.append(F.when(F.expr(f"not ({rule.expression})"), problem))
    return F.coalesce(*problems, _no_problem())


def _goes_on_after_the_record() -> Column:
    """Whether text follows the JSON object: Spark's parser stops at its end and drops the rest.

    A record whose first `}` is its last character is cleared without parsing it again.
    """
    text = F.col("_raw")
    alone = F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))).eqNullSafe(1)
    return (F.instr(text, "}") != F.length(text)) & ~alone


def _misfit(contract: Contract) -> Column:
    """Why a record did not fit the columns: the first declared field that has text but no value."""
    columns = contract.read_columns
    strings = ", ".join(f"`{column.name}` string" for column in columns)
    if contract.stream.format == "json":
        fields = F.from_json("_raw", "map<string,string>")
        texts = [F.element_at(fields, F.lit(column.name)) for column in columns]
        whole = fields.isNotNull()
        malformed = "is not a JSON object"
    else:
        options = {k: v for k, v in contract.stream.options.items() if k != "header"}
        options["columnNameOfCorruptRecord"] = CORRUPT
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
    return F.coalesce(*misfits, _problem("malformed", _null(), F.lit(malformed)))
