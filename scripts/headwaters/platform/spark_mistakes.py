"""Spark's errors about the SQL of a model, as one line with the place in the model's file: pure.

The conditions and their texts are those of Spark 4.2. A condition that is not listed, and an error
of a statement that is not the model's, keep Spark's own line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from headwaters.platform import spark_version
from headwaters.platform.errors import CodedError, UserError, WorkError
from headwaters.platform.names import misspelt, nearest, or_nearest
from headwaters.platform.spark_errors import one_line

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] +(.+)")
_PLACE = re.compile(r"(?:\(|; ?|== SQL \()line (\d+),? pos(?:ition)? (\d+)")
# The classes of SQLSTATE that are about the text or the values of a query.
_OF_SQL = ("0A", "21", "22", "42", "54")
_STATE = re.compile(r"[ .]*\bSQLSTATE: (\w{5}).*")
# The marks and versions of inputs, which a run writes into lines of the SQL of a model.
_PIN = re.compile(r"/\* [a-z]+ \{.*?\} \*/ ?| version as of \d+")
# The words that a run writes into a line of SQL, except the alias of an input.
_ADDED = re.compile(rf"^\s*explain extended |{_PIN.pattern}")
_PIN_AND_NAME = re.compile(f"{_PIN.pattern}(?: as `[^`]+`)?")
_COMPILED_LINE = re.compile(r"line (\d+) of the compiled SQL")
_LONGEST = 60  # characters of a line of SQL in a message
_EVERY_FUNCTION = spark_version.STABLE_FUNCTIONS | spark_version.CHANGING_FUNCTIONS

_UNITS = {"second", "minute", "hour", "day", "week", "month", "quarter", "year"}
# Words of SQL that a slip may change; shorter ones resemble too many names.
_WORDS = (
    *("select", "distinct", "from", "where", "group", "having", "order", "qualify", "limit"),
    *("left", "right", "inner", "outer", "cross", "join", "union", "except", "intersect"),
    *("between", "partition", "case", "when", "then", "else", "with", "over", "using", "lateral"),
)

# Functions of other databases, with the expression of Spark that does the same.
_OF_OTHERS = {
    "array_length": "array_size(x)",
    "array_to_string": "array_join(x, ',')",
    "convert": "cast(x as type)",
    "datefromparts": "make_date(y, m, d)",
    "div0": "try_divide(a, b)",
    "format_date": "date_format(x, 'yyyy-MM-dd')",
    "generate_series": "sequence(a, b)",
    "getdate": "current_timestamp()",
    "group_concat": "listagg(x, ',')",
    "iff": "if(condition, a, b)",
    "json_extract": "get_json_object(x, '$.a')",
    "json_extract_path_text": "get_json_object(x, '$.a')",
    "json_extract_scalar": "get_json_object(x, '$.a')",
    "json_value": "get_json_object(x, '$.a')",
    "object_construct": "named_struct('a', x, 'b', y)",
    "on": "row_number() over (partition by …) in a CTE, and its first row",
    "parse_date": "to_date(x, 'yyyy-MM-dd')",
    "regexp_contains": "regexp_like(x, pattern)",
    "safe_cast": "try_cast(x as type)",
    "safe_divide": "try_divide(a, b)",
    "strftime": "date_format(x, 'yyyy-MM-dd')",
    "string_to_array": "split(x, ',')",
    "strpos": "instr(x, part)",
    "sysdate": "current_timestamp()",
    "timestamp_trunc": "date_trunc('day', x)",
    "to_json_string": "to_json(x)",
    "zeroifnull": "coalesce(x, 0)",
}
# The cause of a syntax error by the text at which Spark stops. Names, numbers and brackets follow
# a missing comma.
_STOPPED_AT = {
    "{": "the Jinja here was not rendered",
    "[": "quote a name in backquotes, not in brackets",
    "\u2018": "write straight quotes, '",
    "\u2019": "write straight quotes, '",
    "\u201c": "write straight quotes, '",
    "\u201d": "write straight quotes, '",
    "'": "a text has no closing quote",
    ";": "a model is one query without a semicolon",
    ")": "a bracket or a comma is too many",
    ",": "a comma is too many",
    "#": "a comment begins with `--`",
    "/": "a comment begins with `--`",
    "~": "write `x rlike 'pattern'`",
    "with": "WITH stands once: a comma separates the queries in it",
    "select": "a bracket before this SELECT is open, or `as (` is missing",
    "create": "a model is a query: dbt creates its table",
    "insert": "a model is a query: dbt writes its table",
    "where": "WHERE stands before GROUP BY, and once",
    "having": "HAVING stands after GROUP BY, and once",
    "from": "FROM stands once in a SELECT; a bracket may be open before it",
    "is": "compare with `=`; IS takes NULL, TRUE or FALSE",
    "end of input": "a bracket, a quote or END is missing",
}
# The cause by the line in lower case, up to the end of the word at which Spark stops.
_STOPPED_AFTER = (
    (r"select top \d", "write LIMIT at the end instead of TOP"),
    (r"\bnot null$", "write IS NOT NULL"),
    (r"\bcount distinct\b", "write count(distinct x)"),
    (r"\busing \w+$", "USING takes its columns in brackets"),
    (r"\* exclude\b", "write `* except (column)`"),
    (r"\blimit \d+ ?,$", "write LIMIT n OFFSET m"),
    (r"\bat( time( zone)?)?$", "write from_utc_timestamp(x, 'zone')"),
    (r"\b\w+\([^()]*\border$", "an aggregate takes no order: array_sort(array_agg(x)), or listagg"),
    (r'"[^"]*"$', "double quotes make a text: quote a name in backquotes"),
    (r"^select \*$", "remove the comma before this SELECT"),
    (r"(^|, *)from [\w`]+\.$", "remove the comma before FROM"),  # it was read as a column
)
_NO_END = re.compile(r"(\b(and|or|not|by|on|where|having)|,)$")


@dataclass(frozen=True)
class SqlText:
    """The SQL of a node: the path and text of its file, and the SQL that dbt compiled from it.

    A statement that a person types has no path. `before` counts the lines of the file before the
    text: dbt removes blank ones.
    """

    path: str
    raw: str
    compiled: str
    before: int = 0


@dataclass(frozen=True)
class _Error:
    """Spark's message without its condition and place, the line of SQL, and the model's SQL."""

    message: str
    line: str
    position: int
    compiled: str

    def part(self, pattern: str) -> str:
        """Return the first group of a pattern in the message, or an empty text."""
        found = re.search(pattern, self.message)
        return (found[1] or "").replace("`", "") if found else ""


def explained(text: str, statement: str, model: SqlText) -> str | None:
    """Return Spark's error about the SQL of a model as one line, or None for any other error.

    `text` is all of Spark's error, and `statement` the SQL that Spark ran.
    """
    found = _CONDITION.search(text)
    if found is None:
        return None
    condition, message = found[1], found[2]
    state = _STATE.search(message)
    mistake = MISTAKES.get(condition) or MISTAKES.get(condition.partition(".")[0])
    if mistake is None and state and state[1][:2] in _OF_SQL and "[HW_" not in text:
        mistake = "HW_SQL_REFUSED", _as_spark()
    plain = replace(model, compiled=_PIN.sub("", model.compiled))
    without_pins = _without_pins(statement, plain.compiled)
    # any statement of the run may meet it
    is_of_table = condition.startswith("DELTA_") or condition.endswith("_IN_TABLE_INSERT")
    if mistake is None or not (is_of_table or _is_of(without_pins, plain.compiled)):
        return None
    place = _PLACE.search(text)
    number, position = (int(place[1]), int(place[2])) if place else (0, 0)
    lines = statement.split("\n")
    line = lines[number - 1] if 0 < number <= len(lines) else ""
    if line and "== SQL (line" in text:
        position -= 1  # a query context counts from 1
    code, explain = mistake
    read, rest = (_ADDED.sub("", part) for part in (line[:position], line[position:]))
    error = _Error(_STATE.sub("", message), read + rest, len(read), plain.compiled)
    if condition == "TRAILING_COMMA_IN_SELECT":
        number = _line_of_comma(lines, number, position)
    where = _where(without_pins, number, error, plain)
    if state and state[1].startswith("22"):  # a review hides values between condition and state
        return f"[{code}] {where}[{condition}] {explain(error)} SQLSTATE: {state[1]}"
    return f"[{code}] {where}{explain(error)} [{condition}]"


def of_typed_sql(error: BaseException, sql: str, option: str = "") -> CodedError:
    """Return the error of SQL that a person typed, with the code HW_SQL.

    A mistake in it is a UserError, any other failure a WorkError. `option` begins the line.
    """
    mistake = explained(str(error), sql, SqlText("", sql, sql))
    if mistake:
        return UserError("HW_SQL", option + mistake.partition("] ")[2])
    return WorkError("HW_SQL", option + one_line(error))


def with_file_lines(text: str, model: SqlText) -> str:
    """Return a message about the compiled SQL of a model with the lines of the model's file."""

    def named(found: re.Match[str]) -> str:
        line = _line_of(model, int(found[1]))
        return f"{model.path}:{line}" if line else found[0]

    return _COMPILED_LINE.sub(named, text)


def _line_of(model: SqlText, line: int) -> int | None:
    """Return the line of a model's file that a line of its compiled SQL comes from, or None."""
    if model.path.endswith((".yml", ".yaml")):  # the SQL of a test is in the package
        return None
    found = line_in_file(model.raw, model.compiled, line)
    return found + model.before if found else None


def line_in_file(raw: str, compiled: str, line: int) -> int | None:
    """Return the line of a text that a line of its compiled SQL comes from, or None."""
    before = [each.strip() for each in raw.split("\n")]
    after = [each.strip() for each in compiled.split("\n")]
    for kind, i, i_end, j, j_end in SequenceMatcher(None, before, after, False).get_opcodes():
        if j <= line - 1 < j_end:
            is_line_by_line = i_end - i == j_end - j
            if kind == "equal" or (kind == "replace" and is_line_by_line):
                return i + (line - 1 - j) + 1
            return i + 1 if kind == "replace" else None
    return None


def _where(statement: str, number: int, error: _Error, model: SqlText) -> str:
    """Return the path of the model's file, with the line if it is known, and a colon."""
    compiled = _compiled_line(statement, number, model.compiled) or _line_of_name(error)
    line = _line_of(model, compiled) if compiled else None
    if not model.path:
        return f"line {line}: " if line and "\n" in model.compiled else ""
    return f"{model.path}:{line}: " if line else f"{model.path}: "


def _line_of_comma(lines: list[str], number: int, position: int) -> int:
    """Return the number of the line of the last comma before a place in a statement."""
    before = [*lines[: number - 1], lines[number - 1][:position]] if number else []
    commas = [i for i, line in enumerate(before, 1) if "," in line.partition("--")[0]]
    return commas[-1] if commas else number


def _line_of_name(error: _Error) -> int | None:
    """Return the only line of the compiled SQL that has the name in an error without a place."""
    name = error.part(r'expression "(\w+)"') or error.part(r"Window function (\w+) requires")
    lines = error.compiled.split("\n") if name else []
    found = [i for i, line in enumerate(lines, 1) if re.search(rf"(?i)\b{name}\b", line)]
    return found[0] if len(found) == 1 else None


def _compiled_line(statement: str, number: int, compiled: str) -> int | None:
    """Return the line of the compiled SQL that is a line of a statement, or None."""
    lines = statement.split("\n")
    if not 0 < number <= len(lines):
        return None
    sql = compiled.strip()
    start = statement.find(sql)
    if start >= 0 and number > statement[:start].count("\n"):
        line = number - statement[:start].count("\n")
        if line <= sql.count("\n") + 1:
            return line + compiled[: compiled.find(sql)].count("\n")
    text = lines[number - 1].strip()
    same = [i for i, line in enumerate(compiled.split("\n"), 1) if line.strip() == text]
    return same[0] if len(same) == 1 else None


def _without_pins(statement: str, compiled: str) -> str:
    """Return a statement without the marks, versions and names that a run gave to its inputs.

    A run names an input by its table if the model does not.
    """
    forms = [pin.sub("", statement) for pin in (_PIN, _PIN_AND_NAME)]
    return next((form for form in forms if compiled.strip() in form), forms[0])


def _is_of(statement: str, compiled: str) -> bool:
    """Return true if a statement has the SQL of a model, or at least half of its lines."""
    if compiled.strip() in statement:
        return bool(compiled.strip())
    own = {line.strip() for line in compiled.split("\n") if line.strip()}
    return 2 * len(own & {line.strip() for line in statement.split("\n")}) >= len(own) > 0


def _as_spark(remedy: str = "") -> Callable[[_Error], str]:
    return lambda error: f"{error.message.rstrip('.')}. {remedy}".strip()


def _column(error: _Error) -> str:
    name = error.part(r"with name (\S+) cannot be resolved")
    known = error.part(r"Did you mean one of the following\? \[(.*?)\]").split(", ")
    last = {each.rpartition(".")[2]: each for each in known if each}
    if "." not in name and name.lower() not in error.compiled.lower():
        return (
            f"partition_by, cluster_by or another setting names `{name}`, which is no column of "
            f"the model{or_nearest(name, last)}"
        )
    if name.lower() in _UNITS and re.search(rf"(?i)\(.*\b{name}\b", error.compiled):
        return f"`{name}` is a unit, or no column: write it first and in quotes, as in " + (
            f"`date_trunc('{name.lower()}', x)`"
        )
    if near := nearest(name.rpartition(".")[2], last):
        return f"there is no column `{name}`, did you mean `{last[near]}`?"
    if re.search(rf"(?i)\bas\s+`?{re.escape(name)}\b", error.compiled):
        return (
            f"`{name}` is an alias, which its own SELECT, WHERE and GROUP BY do not see here: "
            "repeat the expression, or name it in a CTE before"
        )
    if not last:
        return f"there is no column `{name}`, and no table to read it from: add FROM"
    return f"there is no column `{name}`; the nearest are {', '.join(sorted(last.values()))}"


def _extracted(error: _Error) -> str:
    """Explain `a.b` where `a` is a table with an alias of its name in the SELECT, and no `b`."""
    base, kind = error.part(r'from "(.+?)"'), error.part(r'but got "(.+?)"')
    field = re.search(rf"(?i)\b{re.escape(base)}\.(\w+)", error.line[error.position :])
    name = f"{base}.{field[1]}" if field else base
    return f"there is no column `{name}`, and the column `{base}`, of type {kind}, has no fields"


def _ambiguous(error: _Error) -> str:
    name = error.part(r"Reference (\S+) is ambiguous")
    several = error.part(r"could be: \[(.*?)\]").replace(", ", " or ")
    return f"`{name}` is a column of several tables: write {several}"


def _table(error: _Error) -> str:
    name = error.part(r"table or view (\S+) cannot be found")
    return (
        f"there is no table {name}: read a model by ref() and a source by source(), build models "
        "with `dbt build`, and fill streams with `headwaters ingest`"
    )


def _function(error: _Error) -> str:
    name = error.part(r"routine (\S+) on search path").rpartition(".")[2]
    if name.lower() in _OF_OTHERS:
        return f"Spark has no function `{name}`: write {_OF_OTHERS[name.lower()]}"
    if name.lower() in _EVERY_FUNCTION:
        return f"`{name}` is called as part of a table: a setting takes a column, not an expression"
    near = nearest(name, _EVERY_FUNCTION)
    hint = f", did you mean `{near}`?" if near else ": `show functions` lists those of Spark"
    return f"Spark has no function `{name}`{hint}"


def _table_function(error: _Error) -> str:
    name = error.part(r"resolve (\S+) to a table-valued function")
    return (
        f"Spark has no table function `{name}`: for the elements of an array write "
        "`lateral explode(x) as t(y)`"
    )


def _arguments(error: _Error) -> str:
    name = error.part(r"The (\S+) requires")
    if name == "isnull":
        return "`isnull` takes 1 argument: write coalesce(x, y)"
    wanted, given = error.part(r"requires (.+?) parameters"), error.part(r"actual number is (\d+)")
    number = f"{wanted} argument{'' if wanted == '1' else 's'}"
    return f"`{name}` takes {number}, not {given}"


def _syntax(error: _Error) -> str:
    text = error.message.rstrip(".")
    near = error.part(r"at or near '(.+?)'(?::|$|\.)") or error.part(r"at or near ([\w ]+)")
    line = error.line.strip()
    read = error.line[: error.position + len(near)].strip().lower()
    cause = None if "missing" in text else _cause_of(near.lower(), text, read)
    if len(line) > _LONGEST:
        start = max(0, error.position - _LONGEST // 2)
        line = f"…{error.line[start : start + _LONGEST].strip()}…"
    return f"{text}{f' in `{line}`' if line else ''}{f': {cause}' if cause else ''}"


def _cause_of(near: str, text: str, read: str) -> str:
    """Return the probable cause of a syntax error at a word.

    `read` is the line of the SQL up to this word, in lower case.
    """
    if "extra input" in text and ";" in read:
        return _STOPPED_AT[";"]
    if near == "end of input" and _NO_END.search(read):
        return "the text ends where a condition or a column is missing"
    causes = [cause for pattern, cause in _STOPPED_AFTER if re.search(pattern, read)]
    if cause := next(iter(causes), _STOPPED_AT.get(near)):
        return cause
    for word in reversed(re.findall(r"\w+", read)[-3:]):
        if meant := misspelt(word, _WORDS):
            return f"`{word}` may be a misspelt {meant.upper()}"
    if "extra input" in text:
        return "the query ended before it"
    before = read.removesuffix(near)
    if before.count("(") > before.count(")"):
        return "a `)`, a comma or an operator may be missing before it"
    return "a comma, an operator or END may be missing before it"


def _trailing_comma(error: _Error) -> str:
    return "remove the last comma before FROM"


def _ungrouped(error: _Error) -> str:
    name = error.part(r'expression "(.+?)" is based')
    return (
        f"`{name}` is neither grouped nor aggregated: add it to GROUP BY, or write "
        f"`any_value({name})`"
    )


def _without_group(error: _Error) -> str:
    return (
        "columns beside an aggregate need GROUP BY: group by every column of the SELECT that has "
        "no aggregate"
    )


def _where_condition(error: _Error) -> str:
    called = error.part(r"invalid expressions: (.+?)\.?$")
    return f"WHERE cannot have {called or 'an aggregate'}: compare it in HAVING, or after a CTE"


def _window_clause(error: _Error) -> str:
    clause = error.part(r"inside (\w+) clause") or "this"
    return f"{clause} cannot have a window function: select it in a CTE, and filter its column"


def _operands(error: _Error) -> str:
    hint = " Cast one side"
    if '"STRING"' in error.message:
        hint = " Join texts with `||`, or cast"
    elif day := re.search(r"(?<![\w'\-])\d{4}-\d{2}-\d{2}(?![\w'\-])", error.compiled):
        hint = f" Write date'{day[0]}'"
    elif date := _divided_date(error):
        hint = f" A date is written date'{date}'"
    elif re.search(r'"\(.* [+-] .*\)".*"(TIMESTAMP|DATE)"', error.message):
        hint = " Add an interval, as in `x + interval 1 day`, or cast one side"
    return f"{error.message.rstrip('.')}.{hint}"


def _divided_date(error: _Error) -> str:
    """Return the date that the SQL has as two divisions, `1/5/2026`, or an empty text."""
    code = re.sub(r"--.*", "", error.compiled)
    found = re.search(r"(?<![\w'\"/])(\d{1,2})/(\d{1,2})/(\d{4})(?![\w'\"/])", code)
    if not found or not re.search(r'"(TIMESTAMP|DATE)', error.message):
        return ""
    day, month, year = map(int, found.groups())
    if month > 12:
        day, month = month, day
    return f"{year}-{month:02}-{day:02}"


def _parameter(error: _Error) -> str:
    pattern = r'"\(.+ [+-] .+\)".* parameter requires the ".*(INTERVAL|TIMESTAMP)'
    is_interval = re.search(pattern, error.message)
    return _as_spark("Write `x - interval 5 days`" if is_interval else "")(error)


def _divided(error: _Error) -> str:
    return "Division by zero. `try_divide(a, b)` gives null."


def _cast(error: _Error) -> str:
    text = error.message.split(" because it is malformed")[0].split(" due to an overflow")[0]
    value, kind = error.part(r"The value '(.*?)' of"), error.part(r'cast to "(\w+)')
    remedy = "`try_cast` gives null instead."
    if kind in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
        remedy = f"`to_{kind.lower()}(x, 'dd/MM/yyyy')` reads other forms, and {remedy}"
    elif value and re.search(
        rf"(?i)\b(coalesce|ifnull|nvl|then|else)\b.*'{re.escape(value)}'", error.compiled
    ):
        remedy = f"The other values are of another type: write cast(x as string) beside '{value}'."
    return f"{text.rstrip('.')}. {remedy}"


def _column_name(error: _Error) -> str:
    return (
        "Delta stores no column whose name has a blank, a tab, a newline or one of `,;{}()=`: "
        "rename it by AS, or declare delta.columnMapping.mode: name in tblproperties"
    )


def _feature(error: _Error) -> str:
    name = error.part(r"feature\(s\): (\w+)") or "<feature>"
    return (
        f"the table that exists lacks Delta's feature {name}: declare delta.feature.{name}: "
        "supported in tblproperties, with allow_protocol_upgrade: true, or drop the table and run "
        "the model again"
    )


def _was_clustered(error: _Error) -> str:
    return (
        "the table is or was clustered, and Delta does not replace it by a partitioned one: "
        "declare cluster_by instead of partition_by, or drop the table and run the model again"
    )


def _constraint(error: _Error) -> str:
    """Name the constraint, but no values: a review shows the message."""
    name, rule = error.part(r"constraint (\S+) \("), error.part(r"constraint \S+ \((.*)\) violated")
    return (
        f"a row breaks the constraint {name} ({rule}), so nothing was written: correct the query, "
        f"whose rows of this kind are those `where not coalesce({rule}, false)`"
    )


def _overflow(error: _Error) -> str:
    message = re.sub(r" Use `try_cast`.*", "", error.message)
    return (
        f"{message.rstrip('.')}. Set on_schema_change: sync_all_columns, which widens the column, "
        "or cast it to the type of its table"
    )


def _not_stored(error: _Error) -> str:
    columns = error.part(r"data types: \[(.*?)\]\.?(?:$| You)") or error.message
    if "StringType(" in columns:
        remedy = "Give a text without its collation, as by `collate(a, 'UTF8_BINARY')`"
    else:
        remedy = (
            "Give an interval as a number, as by `timestampdiff(second, a, b)`, or as a text by "
            "`cast(… as string)`"
        )
    return f"Delta stores no column of this type: {columns}. {remedy}"


def _not_null(error: _Error) -> str:
    name = error.part(r"violated for column: (.+?)\.?$")
    return (
        f"column {name} must not be null, and a row has null, so nothing was written: correct the "
        f"query, whose rows of this kind are those `where {name} is null`"
    )


# The code and the text for each condition, or for all conditions of a family.
MISTAKES: Mapping[str, tuple[str, Callable[[_Error], str]]] = {
    "UNRESOLVED_COLUMN": ("HW_NO_SUCH_COLUMN", _column),
    "AMBIGUOUS_REFERENCE": ("HW_AMBIGUOUS_COLUMN", _ambiguous),
    "COLUMN_ALREADY_EXISTS": (
        "HW_AMBIGUOUS_COLUMN",
        _as_spark("Two columns of the result have this name: select one, or rename it by AS"),
    ),
    "FIELD_NOT_FOUND": ("HW_NO_SUCH_COLUMN", _as_spark()),
    "INVALID_EXTRACT_BASE_FIELD_TYPE": ("HW_NO_SUCH_COLUMN", _extracted),
    "TABLE_OR_VIEW_NOT_FOUND": ("HW_NO_SUCH_TABLE", _table),
    "UNRESOLVED_ROUTINE": ("HW_NO_SUCH_FUNCTION", _function),
    "WRONG_NUM_ARGS": ("HW_SQL_TYPE", _arguments),
    "PARSE_SYNTAX_ERROR": ("HW_SQL_SYNTAX", _syntax),
    "PARSE_EMPTY_STATEMENT": ("HW_SQL_SYNTAX", _as_spark()),
    "TRAILING_COMMA_IN_SELECT": ("HW_SQL_SYNTAX", _trailing_comma),
    "DUPLICATED_CTE_NAMES": ("HW_SQL_SYNTAX", _as_spark("Rename one of them")),
    "UNSUPPORTED_FEATURE.LATERAL_COLUMN_ALIAS_IN_WINDOW": (
        "HW_SQL_REFUSED",
        _as_spark("Repeat the expression, or name it in a CTE before"),
    ),
    "INVALID_SQL_SYNTAX": ("HW_SQL_SYNTAX", _as_spark()),
    "UNCLOSED_BRACKETED_COMMENT": ("HW_SQL_SYNTAX", _as_spark("Close it with `*/`")),
    "UNSUPPORTED_DATATYPE": (
        "HW_SQL_TYPE",
        _as_spark("Spark's types are string, int, bigint, double, decimal(p,s), date, timestamp …"),
    ),
    "DATATYPE_MISSING_SIZE": ("HW_SQL_TYPE", _as_spark("Or write string")),
    "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION": (
        "HW_SQL_TYPE",
        _as_spark("Write decimal(38, s) or less"),
    ),
    "UNRESOLVABLE_TABLE_VALUED_FUNCTION": ("HW_NO_SUCH_FUNCTION", _table_function),
    "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY": (
        "HW_SQL_REFUSED",
        lambda _: (
            "Spark cannot run this correlated subquery: join the table, and choose rows by "
            "row_number() in a CTE"
        ),
    ),
    "DATATYPE_MISMATCH.BINARY_OP_WRONG_TYPE": ("HW_SQL_TYPE", _operands),
    "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES": ("HW_SQL_TYPE", _operands),
    "DATATYPE_MISMATCH": ("HW_SQL_TYPE", _parameter),
    "INCOMPATIBLE_COLUMN_TYPE": ("HW_SQL_TYPE", _as_spark("Cast one of them")),
    "NUM_COLUMNS_MISMATCH": (
        "HW_SQL_TYPE",
        _as_spark("UNION matches columns by position: select the same ones in each part"),
    ),
    "MISSING_AGGREGATION": ("HW_SQL_GROUPING", _ungrouped),
    "MISSING_GROUP_BY": ("HW_SQL_GROUPING", _without_group),
    "GROUP_BY_POS_OUT_OF_RANGE": ("HW_SQL_GROUPING", _as_spark()),
    "GROUP_BY_POS_AGGREGATE": ("HW_SQL_GROUPING", _as_spark("Group by the other columns only")),
    "STAR_GROUP_BY_POS": ("HW_SQL_GROUPING", _as_spark("Name the columns")),
    "INVALID_WHERE_CONDITION": ("HW_SQL_GROUPING", _where_condition),
    "NESTED_AGGREGATE_FUNCTION": ("HW_SQL_GROUPING", _as_spark()),
    "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE": ("HW_SQL_GROUPING", _window_clause),
    "WINDOW_FUNCTION_WITHOUT_OVER_CLAUSE": (
        "HW_SQL_GROUPING",
        _as_spark("Add `over (partition by … order by …)`"),
    ),
    "WINDOW_FUNCTION_FRAME_NOT_ORDERED": (
        "HW_SQL_GROUPING",
        lambda error: (
            f"{error.part(r'Window function (.+?) requires')} needs an order: add ORDER BY in OVER"
        ),
    ),
    "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES": ("HW_COLUMN_NAME", _column_name),
    "DELTA_CLUSTERING_REPLACE_TABLE_WITH_PARTITIONED_TABLE": ("HW_CLUSTERED_TABLE", _was_clustered),
    "ALL_PARTITION_COLUMNS_NOT_ALLOWED": (
        "HW_SETTING",
        lambda _: "partition_by names every column of the model: leave one out",
    ),
    "UNSUPPORTED_FEATURE.PARTITION_WITH_NESTED_COLUMN_IS_UNSUPPORTED": (
        "HW_NO_SUCH_COLUMN",
        lambda error: (
            f"cluster_by names `{error.part(r'partitioning: (.+?) is missing')}`, which is no "
            "column of the model"
        ),
    ),
    "DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT": ("HW_PROTOCOL_UPGRADE", _feature),
    "DELTA_UNSUPPORTED_DATA_TYPES": ("HW_SQL_TYPE", _not_stored),
    "DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE": (
        "HW_SQL_TYPE",
        _as_spark("Cast it to a type, as in `cast(array() as array<string>)`"),
    ),
    "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES": ("HW_CONSTRAINT", _constraint),
    "DELTA_NOT_NULL_CONSTRAINT_VIOLATED": ("HW_CONSTRAINT", _not_null),
    "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE": ("HW_COLUMNS_DIFFER", _overflow),
    "CAST_OVERFLOW_IN_TABLE_INSERT": ("HW_COLUMNS_DIFFER", _overflow),
    "MALFORMED_CHARACTER_CODING": ("HW_SQL_VALUE", _as_spark()),
    "DATA_SOURCE_NOT_FOUND": (
        "HW_SETTING",
        _as_spark("Correct file_format, or add the jar of the format to spark.jars in the profile"),
    ),
    "CAST_INVALID_INPUT": ("HW_SQL_VALUE", _cast),
    "CANNOT_PARSE_TIMESTAMP": (
        "HW_SQL_VALUE",
        _as_spark("Correct the pattern; `try_to_timestamp` gives null"),
    ),
    "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_WEEK_BASED_PATTERN": (
        "HW_SQL_VALUE",
        lambda _: "A pattern has YYYY or DD. Write yyyy for the year and dd for the day.",
    ),
    "CAST_OVERFLOW": ("HW_SQL_VALUE", _cast),
    "DIVIDE_BY_ZERO": ("HW_SQL_VALUE", _divided),
    "INVALID_ARRAY_INDEX": ("HW_SQL_VALUE", _as_spark()),
    "INVALID_PARAMETER_VALUE.DATETIME_UNIT": (
        "HW_SQL_VALUE",
        lambda _: "Write the unit without quotes, as in `dateadd(day, 1, d)`.",
    ),
    "SCALAR_SUBQUERY_TOO_MANY_ROWS": (
        "HW_SQL_VALUE",
        _as_spark("Aggregate it, or join the table instead"),
    ),
}
