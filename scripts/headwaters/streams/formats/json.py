"""Lines of JSON: one object a record."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, reduce
from typing import cast
from urllib.parse import quote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

import headwaters.streams.contract as declared
from headwaters.platform import places
from headwaters.platform.places import Place
from headwaters.platform.sql import identifier, literal
from headwaters.streams.contract import Contract
from headwaters.streams.formats import look, texts
from headwaters.streams.formats.base import (
    CORRUPT,
    KEPT,
    FileFormat,
    as_kept,
    has_text,
    patterns,
)
from headwaters.streams.formats.documents import Layout, records
from headwaters.streams.formats.problems import (
    NOT_UTF8,
    Problem,
    malformed,
    misfit,
    no_problem,
    null,
    problem_of,
    repeated_key,
    type_problem,
    uncast,
    undeclared,
)
from headwaters.streams.formats.schema_registry import unframed
from headwaters.streams.formats.unavailable import NAME, is_unavailable, without_placeholders
from headwaters.streams.formats.values import (
    fitted,
    floats_within,
    has_floats,
    is_infinite,
    is_one_value,
    numbers_within,
    type_named,
    type_of,
    with_fields,
)

IS_ARRAY = "is a JSON array, and not one object: send one object a record"
IS_FRAMED = (
    "begins with a zero byte, as what is sent with a schema registry does: five bytes before the "
    "record. Declare registry: confluent for a topic, or format: raw and read substring(…, 6)"
)


IS_NOT_A_NUMBER = (
    "has NaN or Infinity outside of quotes, which is not JSON: send it in quotes for a float or "
    "double, or null"
)
IS_MARKED = "begins with a byte order mark, which only a file may: send records without one"
_NOT_NUMBERS = r"[:\[,]\s*[-+]?(?:NaN|INF|Infinity)\s*[,\]}]"


class Json(FileFormat):
    """Records of JSON, from lines of files, whole files or messages."""

    def __init__(self, contract: Contract) -> None:
        """Create the format of a contract; a file that is not lines is read by its name."""
        super().__init__(contract)
        if contract.stream.layout != "lines":
            self.by_name, self.file_column = True, "_file"

    def files(
        self, spark: SparkSession, files: Sequence[Place], options: Mapping[str, str]
    ) -> list[DataFrame]:
        """Return the lines that are not empty, or the records of whole files."""
        if self.by_name:
            rows = [row for file in files for row in _documents(file, self.contract.stream.layout)]
            found = spark.createDataFrame(rows, "value binary, _file string", verifySchema=False)
            return [found.withColumn("value", F.col("value").cast("string"))]
        reader = spark.read.option("recursiveFileLookup", "true").options(**options)
        return [reader.text(patterns(files)).where(has_text(F.col("value")))]

    def other_form(self, file: Place) -> str | None:
        """Return the form of a file of another layout, such as an array, or None."""
        if not self.by_name:
            return look.other_form(file, look.json_lines)
        of_text = look.json_documents(self.contract.stream.layout)
        problem = look.hidden(file) or look.too_large(file)
        return problem or look.other_form(file, of_text, lines=False)

    def of_message(self, value: Column) -> Column:
        """Return its text, without the bytes of a schema registry if the contract has one."""
        bare = unframed(value) if self.contract.stream.registry else value
        return bare.cast("string")

    def parse(self, raw: DataFrame, kept: Sequence[str] = ()) -> DataFrame:
        """Parse records. A change's missing values are null, and a column names them."""
        if self.contract.placeholder is None:
            return super().parse(raw, kept)
        row = F.from_json("value", "map<string,string>")
        event = raw.withColumn("_received", F.col("value"))
        event = without_placeholders(self.contract, event, row)
        return as_received(self.contract, super().parse(event, [*kept, "_received", NAME]), kept)

    def typed(self, raw: DataFrame, origin: Sequence[str]) -> DataFrame:
        """Return the fields of each object, and the set of those present."""
        row, columns = _json_columns(self.contract, tuple(origin))
        return raw.select("*", row).select(*columns)

    def problems(self) -> list[Problem]:
        """Return the problems: bytes, texts and numbers that Spark misreads, changes or refuses."""
        problems = [*self.misfits(), *changed_numbers(self.contract)]
        if self.contract.stream.schema_policy == "fail":
            problems.append(undeclared(has_unknown(self.contract), unknown_keys(self.contract)))
        return problems

    def misfits(self) -> list[Problem]:
        """Return the problems of the record's form, and of values that do not fit their types."""
        contract, raw = self.contract, F.col("_raw")
        suspected = F.col("_unread") & _suspicious(contract, raw)
        misread = suspected & _misread(contract, raw).isNotNull()
        wild = suspected & _wild(contract, raw)
        half = _half_a_surrogate(raw)
        return [
            malformed(raw.startswith("\0"), IS_FRAMED),
            malformed(~F.is_valid_utf8(raw), NOT_UTF8),
            malformed(half, "has half of a surrogate pair, which is no character"),
            malformed(F.col("_keys").isNull() & F.ltrim(raw).startswith("["), IS_ARRAY),
            malformed(raw.startswith("\ufeff"), IS_MARKED),
            malformed(F.col("_keys").isNull() & has_not_a_number("_raw"), IS_NOT_A_NUMBER),
            malformed(wild, "has a number with an exponent of five digits"),
            (misread, _misread(contract, raw)),
            (F.col(CORRUPT).isNotNull(), _misfit(contract)),
            malformed(F.col("_keys").isNull(), "is empty"),
            malformed(_goes_on_after_the_record(), "more than one JSON object in a record"),
            (_repeats_a_key(contract), _repeated_key()),
            *_repeats_within(contract),
            *_repeated_keys(contract),
            (F.col("_uncast").isNotNull(), F.col("_uncast")),
            *_infinite_numbers(contract),
        ]

    def lacks(self, name: str) -> Column | None:
        """Return whether its change event has a placeholder."""
        return is_unavailable(name) if name in self.contract.maybe_unavailable() else None

    def rescued(self) -> Column:
        """Return undeclared fields from a second parse, which few records need."""
        return F.when(has_unknown(self.contract), _unknown_fields(self.contract))

    def parse_again(self, rows: DataFrame) -> DataFrame:
        """Parse rows of quarantine from their texts."""
        text = F.col("record").cast("string")
        return self.parse(as_kept(self.contract, rows, text), KEPT)


def _documents(file: Place, layout: Layout) -> Iterator[tuple[bytes, str]]:
    """Return the records of a file, each with the file's URI as Spark writes it.

    Raises OSError for an unreadable file.
    """
    try:
        with look.open_file(file) as opened:
            data = opened.read()
    except (EOFError, zlib.error) as error:
        raise OSError(str(error)) from None
    uri = quote(places.uri(file), safe="/:")
    return ((record, uri) for record in records(data, layout))


def as_received(contract: Contract, parsed: DataFrame, kept: Sequence[str]) -> DataFrame:
    """Return changes with the original `_raw`, and without values computed from missing ones."""
    maybe = contract.maybe_unavailable()
    columns = []
    for column in contract.stored_columns:
        value = F.col(f"`{column.name}`")
        if column.expression is not None and column.name in maybe:
            value = F.when(~is_unavailable(column.name), value).alias(column.name)
        columns.append(value)
    return parsed.select(
        *columns,
        *map(F.col, [*contract.origin, *kept]),
        F.col("_received").cast("binary").alias("_raw"),
        *("_rescued", "_good", "_bad", NAME),
    )


def _read_schema(contract: Contract) -> str:
    columns = [f"{identifier(c.field)} {_read_type(c)}" for c in contract.read_columns]
    return ", ".join([*columns, f"`{CORRUPT}` string"])


def _by_column(contract: Contract, row: Column) -> Column:
    """Return a row with the names of the columns instead of the record's fields.

    A cast goes by position, so names that differ only in case remain apart.
    """
    if all(column.read_from is None for column in contract.read_columns):
        return row
    names = [f"`{column.name}`: {_read_type(column)}" for column in contract.read_columns]
    return row.cast(f"struct<{', '.join([*names, f'`{CORRUPT}`: string'])}>")


def _read_type(column: declared.DeclaredColumn) -> str:
    """Return the type to read: smallint for a tinyint, because Spark reads 200 as -56."""
    return re.sub(r"\btinyint\b(?!`?:)", "smallint", column.data_type)


@cache
def _json_columns(contract: Contract, origin: Sequence[str]) -> tuple[Column, list[Column]]:
    text = F.col("value")
    row = F.from_json(
        F.when(_readable(contract, text), text), _read_schema(contract), _json(contract)
    )
    read = {c.name: F.col(f"_row.`{c.name}`") for c in contract.read_columns}
    typed = {
        c.name: fitted(c, read[c.name], type_named(_read_type(c)))
        for c in contract.read_columns
        if _read_type(c) != c.data_type
    }
    return _by_column(contract, row).alias("_row"), [
        *map(F.col, origin),
        text.alias("_raw"),
        F.col("_row").isNull().alias("_unread"),
        *[(read | typed)[c.name].alias(c.name) for c in contract.read_columns],
        F.coalesce(*uncast(contract, read, typed), no_problem()).alias("_uncast"),
        F.col(f"_row.{CORRUPT}").alias(CORRUPT),
        _keys(contract).alias("_keys"),
    ]


def _keys(contract: Contract) -> Column:
    """Return the names of a record's fields; null unless it is a JSON object."""
    keys = F.json_object_keys("value")
    if contract.stream.options.get("allowComments") != "true":
        return keys
    # Spark's function has no options, and its reader of JSON accepts NaN
    fields = F.map_keys(F.from_json("value", "map<string,string>", _json(contract)))
    return F.coalesce(keys, F.when(~has_not_a_number("value"), fields))


def _json(contract: Contract) -> dict[str, str]:
    options = contract.stream.options if contract.form == "json" else {}
    return options | {"columnNameOfCorruptRecord": CORRUPT}


def _strict_kinds(contract: Contract) -> list[str]:
    """Return the kinds of JSON values that Spark reads from too many texts.

    If a format is declared, Spark itself is strict.
    """
    formats = {"date": "dateFormat", "timestamp": "timestampFormat"}
    kinds = ("decimal", "date", "timestamp", "timestamp_ntz")
    return [kind for kind in kinds if formats.get(kind) not in _json(contract)]


def _suspicious(contract: Contract, text: Column) -> Column:
    """Return whether a record may contain a text that is not of its type; runs on every record."""
    columns = [(column.field, column.data_type) for column in contract.read_columns]
    patterns = texts.in_json(columns, _strict_kinds(contract))
    return F.lit(True) if patterns is None else _any_of(text, patterns)


def _readable(contract: Contract, text: Column) -> Column:
    """Return whether Spark can parse a JSON record, and reads its actual values."""
    close = ~_wild(contract, text) & _misread(contract, text).isNull()
    return ~_suspicious(contract, text) | close


def _misread(contract: Contract, text: Column) -> Column:
    """Return the problem of the first declared field whose text is not of its type, or null.

    This parses a record of JSON a second time, with its doubtful values unconverted.
    """
    columns = cast(T.StructType, T.StructType.fromDDL(_read_schema(contract)))
    kinds = _strict_kinds(contract)
    as_it_is = T.StructType([T.StructField(f.name, _variants(f.dataType, kinds)) for f in columns])
    names = [*(column.name for column in contract.read_columns), CORRUPT]
    types = [T.StructField(n, f.dataType) for n, f in zip(names, as_it_is, strict=True)]
    row = F.from_json(text, as_it_is, _json(contract)).cast(T.StructType(types))
    problems = []
    for column, declared_as in zip(contract.read_columns, columns, strict=False):
        value, kind = row.getField(column.name), declared_as.dataType
        wrong = _is_misread(kind, value, kinds)
        if wrong is not None:
            said = F.coalesce(value.try_cast("string"), F.to_json(F.struct(value.alias("value"))))
            problems.append(F.when(wrong, type_problem(column, said)))
    broken = problem_of("malformed", null(), F.lit("is not a JSON object"))
    unreadable = F.when(row.getField(CORRUPT).isNotNull(), broken)
    return F.coalesce(*problems, unreadable, no_problem())


def _variants(kind: T.DataType, kinds: Sequence[str]) -> T.DataType:
    """Return a type with variants for values of these kinds."""
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(f.name, _variants(f.dataType, kinds)) for f in kind])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_variants(kind.elementType, kinds))
    if isinstance(kind, T.MapType):
        return T.MapType(kind.keyType, _variants(kind.valueType, kinds))
    return T.VariantType() if texts.kind(kind.simpleString()) in kinds else kind


def _is_misread(kind: T.DataType, value: Column, kinds: Sequence[str]) -> Column | None:
    """Return whether a value, or one inside it, is a variant that is not of its kind."""
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
        newest = texts.NEWEST_SECOND
        wrong |= (is_a == "BIGINT") & ~value.try_cast("bigint").between(-newest, newest)
    return F.coalesce(wrong, F.lit(False))


def _known(column: Column | None) -> Column:
    assert column is not None
    return column


def _wild(contract: Contract, text: Column) -> Column:
    return _any_of(text, texts.wild_numbers((c.field, c.data_type) for c in contract.read_columns))


def _any_of(text: Column, patterns: Sequence[str]) -> Column:
    found = [text.rlike(pattern) for pattern in patterns]
    return F.coalesce(reduce(Column.__or__, found), F.lit(False)) if found else F.lit(False)


def _fields(contract: Contract) -> Column:
    """Return the fields of a JSON record as texts: a second parse, which few records need."""
    text = F.col("_raw").cast("string")
    return F.from_json(text, "map<string,string>", _json(contract))


def unknown_keys(contract: Contract) -> str:
    """Return an expression for the names of the undeclared fields."""
    names = ", ".join(literal(column.field) for column in contract.read_columns)
    return f"array_except(_keys, array({names}))"


def _unknown_fields(contract: Contract) -> Column:
    """Return the undeclared fields, as JSON."""
    unknown = F.expr(unknown_keys(contract))
    named = F.map_filter(_fields(contract), lambda name, _: F.array_contains(unknown, name))
    return F.to_json(named)


def has_unknown(contract: Contract) -> Column:
    """Return whether a JSON record has undeclared fields."""
    return _has_more_keys(contract) & (F.size(F.expr(unknown_keys(contract))) > 0)


def _has_more_keys(contract: Contract) -> Column:
    """Return whether a record has more keys than values; this count clears most records."""
    known = [F.col(f"`{c.name}`").isNotNull().cast("int") for c in contract.read_columns]
    return F.size("_keys") > reduce(Column.__add__, known)


def _repeats_a_key(contract: Contract) -> Column:
    """Return whether a record repeats a field name; Spark would take the last value."""
    return _has_more_keys(contract) & (F.size(F.array_distinct("_keys")) < F.size("_keys"))


def _repeats_within(contract: Contract) -> list[Problem]:
    """Return the problem of a name that an object inside a record repeats, if any are declared.

    Spark takes the last value, and refuses the record as a variant. It also refuses there what
    only its reader of JSON allows: quotes of the other kind, comments, and NaN.
    """
    types = (type_of(column).simpleString() for column in contract.read_columns)
    if not any("struct<" in one or "map<" in one for one in types):
        return []
    allowed = _outside_of_texts("_raw").rlike(r"'|/\*|//|#")
    refused = F.try_parse_json("_raw").isNull() & ~allowed
    return [malformed(refused, "has an object that repeats a name")]


def _repeated_keys(contract: Contract) -> list[Problem]:
    """Return the problems of maps with a key twice, in records that `_repeats_within` spares."""
    columns = contract.read_columns
    return [one for c in columns for one in repeated_key(c, type_of(c), F.col(f"`{c.name}`"))]


def _repeated_key() -> Column:
    first = "get(filter(_keys, (k, i) -> array_position(_keys, k) <= i), 0)"
    return problem_of("malformed", F.expr(first), F.lit("is there more than once"))


def _half_a_surrogate(text: Column) -> Column:
    r"""Return whether JSON has a `\ud800` alone, which Spark turns into a question mark."""
    escaped = F.contains(text, F.lit(r"\ud")) | F.contains(text, F.lit(r"\uD"))
    return escaped & text.rlike(texts.HALF_A_SURROGATE)


def _infinite_numbers(contract: Contract) -> list[Problem]:
    """Return numbers of JSON that Spark changed to infinity."""
    fields = _fields(contract)
    return [
        (
            _overflows(contract, column),
            type_problem(column, F.element_at(fields, F.lit(column.field))),
        )
        for column in contract.read_columns
        if has_floats(type_of(column))
    ]


def changed_numbers(contract: Contract) -> list[Problem]:
    """Return numbers of JSON that Spark changed on their way to text.

    If text is declared, it reads 1.10 as `1.1` and 12345678.5 as `1.23456785E7`.
    """
    problems, raw = [], F.col("_raw")
    for column in contract.read_columns:
        value, kind = F.col(f"`{column.name}`"), texts.kind(column.data_type)
        if kind == "string":
            number = r'^(?:-?[0-9]+\.[0-9]+(?:E-?[0-9]+)?|"-?Infinity")$'
            name = rf"{texts.field(column.field)}\s*:\s*"
            there = F.concat(F.lit(rf"{name}(?:[\"']|\Q"), value, F.lit(r"\E\s*[,}/])"))
            # a cheap test: strings of digits sort before strings of letters
            may = (value < ":") & value.rlike(number)
            changed = F.concat(F.lit("is a number whose text would change to "), value)
            problem = problem_of("type", F.lit(column.name), changed)
            zero = (value == "0") & raw.rlike(rf"{name}-0\s*[,}}]")
            # a match may also be the field of an object or a part of a text
            once = F.regexp_count(raw, F.lit(name)) == 1
            problems += [(may & ~F.regexp_like(raw, there), problem), (zero & once, problem)]
            text = F.to_json(F.struct(value.alias("value")))
            problems += _number_as_text(contract, column, text, (may | zero) & ~once)
        inside = value if kind == "string" else _parts_as_json(column, T.StringType())
        if inside is not None:
            # `{` sorts after letters, and `[` before lower-case ones
            nested = inside.startswith("{") | inside.startswith("[")
            problems.append(number_within(nested, inside, F.lit(column.name)))
            if kind != "string":
                zero = F.contains(inside, F.lit('"0"')) & raw.rlike(r"[:\[,]\s*-0\s*[,}\]]")
                may = inside.rlike(f'"(?:{texts.NUMBER}|-?Infinity)"') | zero
                problems += _number_as_text(contract, column, inside, may)
        variants = _parts_as_json(column, T.VariantType())
        if variants is not None:
            problems.append(number_within(value.isNotNull(), variants, F.lit(column.name)))
    text, there = _unknown_fields(contract), has_unknown(contract)
    named = F.get(F.expr(unknown_keys(contract)), F.lit(0))
    return [*problems, number_within(there, text, named)]


def _parts_as_json(column: declared.DeclaredColumn, leaf: T.DataType) -> Column | None:
    """Return the parts of a value that are of a type, as JSON; None if it has none.

    Other parts are numbers of a numeric column, which hold the nearest value of their type.
    """
    kind = type_of(column)
    if (parts := _parts(kind, leaf, leaf)) is None:
        return None
    value = with_fields(F.col(f"`{column.name}`"), kind, parts)
    return F.to_json(F.struct(value.alias("value")))


def _overflows(contract: Contract, column: declared.DeclaredColumn) -> Column:
    """Return whether a number, in a value or inside it, became infinity.

    A text may contain `Infinity`. The few records with one are parsed a second time with all values
    as texts, because a decimal could take hours. In texts, Spark puts an overflowed number into
    quotes.
    """
    kind = type_of(column)
    infinite = floats_within(kind, F.col(f"`{column.name}`"), is_infinite)
    written = T.StructType([T.StructField(column.field, _texts(kind))])
    value = F.from_json("_raw", written, _json(contract)).getField(column.field)
    said = floats_within(kind, value, lambda text: text.rlike("^[-+]?[iI]"))
    return F.when(infinite > 0, infinite != said).otherwise(False)


def _texts(kind: T.DataType) -> T.DataType:
    """Return a type with texts for all values."""
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(f.name, _texts(f.dataType)) for f in kind])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_texts(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(kind.keyType, _texts(kind.valueType))
    return T.StringType()


def number_within(when: Column, text: Column, field: Column) -> Problem:
    """Return the problem of a number in an object or array that Spark changed on its way to text.

    The number goes through a double: 1.10 becomes 1.1, which is equal, and 20 digits become 17.
    """
    written = F.regexp_extract_all(text, F.lit(texts.NUMBER), F.lit(0))

    def digits(number: Column) -> Column:
        """Return the digits without sign, point, exponent, and zeros at both ends."""
        plain = F.regexp_replace(F.regexp_replace(number, "[eE].*|[-.]", ""), "^0+|0+$", "")
        return F.when(number.endswith("Infinity"), number).otherwise(plain)

    def is_lost(number: Column) -> Column:
        there = F.array_contains(written, _as_double(number))
        infinite = _as_double(number).endswith("Infinity") & F.contains(text, F.lit("Infinity"))
        return (digits(_as_double(number)) != digits(number)) & (there | infinite)

    has_numbers = text.rlike(rf"{texts.NUMBER}|Infinity")
    return _changed_number(when & has_numbers, is_lost, field)


def _number_as_text(
    contract: Contract, column: declared.DeclaredColumn, text: Column, may: Column
) -> list[Problem]:
    """Return the problem of a number that became a text with other digits, in a value or inside it.

    `text` is the value as JSON; `may` is a cheap test for such a text. A record with the number
    1.50 and the string `1.5` is right: the few records with both are parsed a second time, to see
    whether a number is where text is declared. The number 1.5 there and 1.50 elsewhere are not told
    apart: such a record has the problem, too.
    """
    if (kind := _parts(type_of(column), T.StringType(), T.VariantType())) is None:
        return []
    fields = [T.StructField(column.field, kind), T.StructField(CORRUPT, T.StringType())]
    raw = F.col("_raw").cast("string")  # in a lambda, Spark finds the bytes of this name
    row = F.from_json(raw, T.StructType(fields), _json(contract))
    numbers = numbers_within(kind, row.getField(column.field))
    unread = row.getField(CORRUPT).isNotNull()

    def is_lost(number: Column) -> Column:
        kept = F.when(number == "-0", "0").otherwise(_as_double(number))
        quote = F.when(kept.endswith("Infinity"), r"\"").otherwise('"')  # it is text with quotes
        there = F.contains(text, F.concat(quote, kept, quote))
        # in this order: without such a text, the record is not parsed
        is_number = F.coalesce(unread | F.array_contains(numbers, kept), F.lit(True))
        return (kept != number) & there & is_number

    return [_changed_number(may, is_lost, F.lit(column.name))]


def _parts(kind: T.DataType, leaf: T.DataType, becomes: T.DataType) -> T.DataType | None:
    """Return a type without values of other types than `leaf`, which becomes another type.

    None if it has no such value.
    """
    if isinstance(kind, T.StructType):
        parts = [(field.name, _parts(field.dataType, leaf, becomes)) for field in kind]
        fields = [T.StructField(name, part) for name, part in parts if part is not None]
        return T.StructType(fields) if fields else None
    if isinstance(kind, T.ArrayType):
        element = _parts(kind.elementType, leaf, becomes)
        return None if element is None else T.ArrayType(element)
    if isinstance(kind, T.MapType):
        value = _parts(kind.valueType, leaf, becomes)
        return None if value is None else T.MapType(kind.keyType, value)
    return becomes if isinstance(kind, type(leaf)) else None


def _changed_number(
    when: Column, is_lost: Callable[[Column], Column], field: Column
) -> tuple[Column, Column]:
    """Return the problem of the first number of a record that meets a condition."""
    given = F.regexp_extract_all(_outside_of_texts("_raw"), F.lit(texts.CHANGEABLE), F.lit(0))
    lost = F.filter(given, is_lost)
    first = F.substring(F.get(lost, F.lit(0)), 1, 100)
    said = F.concat(F.lit("has the number "), first, F.lit(", which would change"))
    return when & (F.size(lost) > 0), problem_of("type", field, said)


def _outside_of_texts(record: str) -> Column:
    """Return a record with empty texts."""
    return F.regexp_replace(record, texts.TEXT, '""')


def has_not_a_number(record: str) -> Column:
    """Return whether a record has a word that Spark reads as a number, and JSON does not have."""
    return F.coalesce(_outside_of_texts(record).rlike(_NOT_NUMBERS), F.lit(False))


def _as_double(number: Column) -> Column:
    return number.try_cast("double").cast("string")


def _goes_on_after_the_record() -> Column:
    """Return whether text follows the JSON object: Spark's parser stops at its end.

    A record with a single `}`, as its last byte, needs no second parse. (`instr`, which counts
    characters, takes six times as long as `contains`.)
    """
    text = F.col("_raw")
    before = F.substring(text.cast("binary"), F.lit(1), F.octet_length(text) - 1)
    cleared = text.endswith("}") & ~F.contains(before.cast("string"), F.lit("}"))
    return ~cleared & ~is_one_value(text)


def _misfit(contract: Contract) -> Column:
    """Return why a record does not fit: its first declared field with a text but no value."""
    fields = _fields(contract)
    texts = [F.element_at(fields, F.lit(column.field)) for column in contract.read_columns]
    unfit = misfit(contract, fields.isNotNull(), texts, "is not a JSON object")
    within = problem_of("type", null(), F.lit("a value in an object or array has another type"))
    is_object = fields.isNotNull() & (unfit.getField("reason") == "malformed")
    return F.when(is_object, within).otherwise(unfit)
