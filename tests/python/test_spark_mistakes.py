"""Test the lines that common mistakes in a model's SQL give: code, place, cause and remedy.

`spark_texts.json` has each mistake with Spark's own text; a slow test records that Spark still
prints it.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from headwaters.platform.spark_errors import one_line
from headwaters.platform.spark_mistakes import (
    SqlText,
    explained,
    line_in_file,
    with_file_lines,
)

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).with_name("spark_texts.json")
TEXTS: dict[str, dict[str, str]] = json.loads(FILE.read_text())
# The model has two lines before its SQL, of which dbt leaves one.
CONFIG = "{{ config(materialized='table') }}\n\n"
LINES = {
    "typo": (
        "[HW_NO_SUCH_COLUMN] m.sql:5: there is no column `wieght_kg`, did you mean "
        "`weight_kg`? [UNRESOLVED_COLUMN.WITH_SUGGESTION]"
    ),
    "typo_table": (
        "[HW_NO_SUCH_COLUMN] m.sql:4: there is no column `p.wieght_kg`, did you mean "
        "`p.weight_kg`? [UNRESOLVED_COLUMN.WITH_SUGGESTION]"
    ),
    "alias_in_where": (
        "[HW_NO_SUCH_COLUMN] m.sql:5: `double_kg` is an alias, which its own SELECT, "
        "WHERE and GROUP BY do not see here: repeat the expression, or name it in a CTE "
        "before [UNRESOLVED_COLUMN.WITH_SUGGESTION]"
    ),
    "missing_from": (
        "[HW_NO_SUCH_COLUMN] m.sql:4: there is no column `status`, and no table to read "
        "it from: add FROM [UNRESOLVED_COLUMN.WITHOUT_SUGGESTION]"
    ),
    "order_by_unknown": (
        "[HW_NO_SUCH_COLUMN] m.sql:3: there is no column `nope`; the nearest are depot "
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION]"
    ),
    "struct_field": "[HW_NO_SUCH_COLUMN] m.sql: No such struct field `b` in `a`. [FIELD_NOT_FOUND]",
    "alias_of_a_table": (
        "[HW_NO_SUCH_COLUMN] m.sql:6: there is no column `parcels.wieght_kg`, and the column "
        "`parcels`, of type BIGINT, has no fields [INVALID_EXTRACT_BASE_FIELD_TYPE]"
    ),
    "missing_bracket": (
        "[HW_SQL_SYNTAX] m.sql:4: Syntax error at or near 'as' in `sum(weight_kg * (1 + 2) as kg`: "
        "a `)`, a comma or an operator may be missing before it [PARSE_SYNTAX_ERROR]"
    ),
    "missing_comma_call": (
        "[HW_SQL_SYNTAX] m.sql:6: Syntax error at or near '(' in `upper(status) "
        "lower(status)`: a comma, an operator or END may be missing before it "
        "[PARSE_SYNTAX_ERROR]"
    ),
    "missing_comma_alias": (
        "[HW_SQL_SYNTAX] m.sql:5: Syntax error at or near '*' in `weight_kg * 2 as w`: a "
        "comma, an operator or END may be missing before it [PARSE_SYNTAX_ERROR]"
    ),
    "trailing_comma": (
        "[HW_SQL_SYNTAX] m.sql:5: remove the last comma before FROM [TRAILING_COMMA_IN_SELECT]"
    ),
    "trailing_comma_cte": (
        "[HW_SQL_SYNTAX] m.sql:4: Syntax error at or near '*' in `select * from a`: "
        "remove the comma before this SELECT [PARSE_SYNTAX_ERROR]"
    ),
    "unclosed_string": (
        "[HW_SQL_SYNTAX] m.sql:3: Syntax error at or near ''' in `select 'abc from "
        "parcels`: a text has no closing quote [PARSE_SYNTAX_ERROR]"
    ),
    "unclosed_paren": (
        "[HW_SQL_SYNTAX] m.sql:3: Syntax error at or near 'from': missing ')' in `select "
        "upper(depot from parcels` [PARSE_SYNTAX_ERROR]"
    ),
    "missing_end": (
        "[HW_SQL_SYNTAX] m.sql:3: Syntax error at or near 'depot' in `select case when "
        "depot = 'a' then 1 from parcels`: a comma, an operator or END may be missing "
        "before it [PARSE_SYNTAX_ERROR]"
    ),
    "curly_quotes": (
        "[HW_SQL_SYNTAX] m.sql:3: Syntax error at or near '\u2018' in `…\"depot\" = 'Lyon' and "
        "status = \u2018sent\u2019…`: write straight quotes, ' [PARSE_SYNTAX_ERROR]"
    ),
    "brackets": (
        "[HW_SQL_SYNTAX] m.sql:3: Syntax error at or near '[' in `select [depot] from "
        "parcels`: quote a name in backquotes, not in brackets [PARSE_SYNTAX_ERROR]"
    ),
    "top": (
        "[HW_SQL_SYNTAX] m.sql:3: Syntax error at or near '10' in `select top 10 * from "
        "parcels`: write LIMIT at the end instead of TOP [PARSE_SYNTAX_ERROR]"
    ),
    "is_text": (
        "[HW_SQL_SYNTAX] m.sql:3: Syntax error at or near 'is' in `…where depot = NULL "
        "and status is 'sent'…`: compare with `=`; IS takes NULL, TRUE or FALSE "
        "[PARSE_SYNTAX_ERROR]"
    ),
    "from_twice": (
        "[HW_SQL_SYNTAX] m.sql:3: Syntax error at or near 'depots': extra input 'depots' "
        "in `select depot from parcels from depots`: the query ended before it "
        "[PARSE_SYNTAX_ERROR]"
    ),
    "semicolon": (
        "[HW_SQL_SYNTAX] m.sql:3: Syntax error at or near 'select': extra input 'select' "
        "in `select 1; select 2`: a model is one query without a semicolon [PARSE_SYNTAX_ERROR]"
    ),
    "where_after_group": (
        "[HW_SQL_SYNTAX] m.sql:3: Syntax error at or near 'where' in `…) from parcels "
        "group by depot where depot = 'a'…`: WHERE stands before GROUP BY, and once "
        "[PARSE_SYNTAX_ERROR]"
    ),
    "unrendered": (
        "[HW_SQL_SYNTAX] m.sql:3: Syntax error at or near '{' in `select * from {{ "
        "ref('x') }}`: the Jinja here was not rendered [PARSE_SYNTAX_ERROR]"
    ),
    "cte_twice": (
        "[HW_SQL_SYNTAX] m.sql:3: CTE definition can't have duplicate names: `a`. Rename "
        "one of them [DUPLICATED_CTE_NAMES]"
    ),
    "empty_in": (
        "[HW_SQL_SYNTAX] m.sql:3: Invalid SQL syntax: IN predicate requires at least one "
        "value. Empty IN clauses like 'IN ()' are not allowed. Consider using 'WHERE "
        "FALSE' if you need an always-false condition, or provide at least one value in "
        "the IN list. [INVALID_SQL_SYNTAX.EMPTY_IN_PREDICATE]"
    ),
    "ambiguous": (
        "[HW_AMBIGUOUS_COLUMN] m.sql:5: `depot` is a column of several tables: write "
        "depots.depot or parcels.depot [AMBIGUOUS_REFERENCE]"
    ),
    "column_twice": (
        "[HW_AMBIGUOUS_COLUMN] m.sql: The column `depot` already exists. Choose another "
        "name or rename the existing column. Two columns of the result have this name: "
        "select one, or rename it by AS [COLUMN_ALREADY_EXISTS]"
    ),
    "missing_table": (
        "[HW_NO_SUCH_TABLE] m.sql:3: there is no table parcel: read a model by ref() and "
        "a source by source(), build models with `dbt build`, and fill streams with "
        "`headwaters ingest` [TABLE_OR_VIEW_NOT_FOUND]"
    ),
    "unknown_function": (
        "[HW_NO_SUCH_FUNCTION] m.sql:4: Spark has no function `nvl3`, did you mean "
        "`nvl`? [UNRESOLVED_ROUTINE]"
    ),
    "convert": (
        "[HW_NO_SUCH_FUNCTION] m.sql:3: Spark has no function `convert`: write cast(x as "
        "type) [UNRESOLVED_ROUTINE]"
    ),
    "distinct_on": (
        "[HW_NO_SUCH_FUNCTION] m.sql:3: Spark has no function `on`: write row_number() "
        "over (partition by …) in a CTE, and its first row [UNRESOLVED_ROUTINE]"
    ),
    "wrong_num_args": (
        "[HW_SQL_TYPE] m.sql:3: `upper` takes 1 argument, not 2 [WRONG_NUM_ARGS.WITHOUT_SUGGESTION]"
    ),
    "isnull": (
        "[HW_SQL_TYPE] m.sql:3: `isnull` takes 1 argument: write coalesce(x, y) "
        "[WRONG_NUM_ARGS.WITHOUT_SUGGESTION]"
    ),
    "date_and_number": (
        '[HW_SQL_TYPE] m.sql:3: Cannot resolve "(updated_at = 5)" due to data type '
        "mismatch: the left and right operands of the binary operator have incompatible "
        'types ("TIMESTAMP" and "INT"). Cast one side '
        "[DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES]"
    ),
    "plus_for_texts": (
        '[HW_SQL_TYPE] m.sql:3: Cannot resolve "(a + depot)" due to data type mismatch: '
        'the binary operator requires the input type ("NUMERIC" or "INTERVAL DAY TO '
        'SECOND" or "INTERVAL YEAR TO MONTH" or "INTERVAL"), not "STRING". Join texts '
        "with `||`, or cast [DATATYPE_MISMATCH.BINARY_OP_WRONG_TYPE]"
    ),
    "other_type": (
        '[HW_SQL_TYPE] m.sql:3: Unsupported data type "NUMBER". Spark\'s types are '
        "string, int, bigint, double, decimal(p,s), date, timestamp … "
        "[UNSUPPORTED_DATATYPE]"
    ),
    "union_columns": (
        "[HW_SQL_TYPE] m.sql:3: UNION can only be performed on inputs with the same "
        "number of columns, but the first input has 1 columns and the second input has 2 "
        "columns. UNION matches columns by position: select the same ones in each part "
        "[NUM_COLUMNS_MISMATCH]"
    ),
    "union_types": (
        "[HW_SQL_TYPE] m.sql:3: UNION can only be performed on tables with compatible "
        'column types. The first column of the second table is "ARRAY<INT>" type which '
        'is not compatible with "STRING" at the same column of the first table. Cast one '
        "of them [INCOMPATIBLE_COLUMN_TYPE]"
    ),
    "group_by": (
        "[HW_SQL_GROUPING] m.sql:5: `status` is neither grouped nor aggregated: add it "
        "to GROUP BY, or write `any_value(status)` [MISSING_AGGREGATION]"
    ),
    "without_group_by": (
        "[HW_SQL_GROUPING] m.sql:3: columns beside an aggregate need GROUP BY: group by "
        "every column of the SELECT that has no aggregate [MISSING_GROUP_BY]"
    ),
    "aggregate_in_where": (
        "[HW_SQL_GROUPING] m.sql:3: WHERE cannot have count(1): compare it in HAVING, or "
        "after a CTE [INVALID_WHERE_CONDITION]"
    ),
    "window_in_where": (
        "[HW_SQL_GROUPING] m.sql: WHERE cannot have a window function: select it in a "
        "CTE, and filter its column [WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE]"
    ),
    "rank_no_order": (
        "[HW_SQL_GROUPING] m.sql:3: row_number needs an order: add ORDER BY in OVER "
        "[WINDOW_FUNCTION_FRAME_NOT_ORDERED]"
    ),
    "lag_no_over": (
        '[HW_SQL_GROUPING] m.sql:3: Window function "lag(depot, 1, NULL)" requires an '
        "OVER clause. Add `over (partition by … order by …)` "
        "[WINDOW_FUNCTION_WITHOUT_OVER_CLAUSE]"
    ),
    "division": (
        "[HW_SQL_VALUE] m.sql:3: [DIVIDE_BY_ZERO] Division by zero. `try_divide(a, b)` "
        "gives null. SQLSTATE: 22012"
    ),
    "cast": (
        "[HW_SQL_VALUE] m.sql:3: [CAST_INVALID_INPUT] The value 'Lyon' of the type "
        '"STRING" cannot be cast to "INT". `try_cast` gives null instead. SQLSTATE: 22018'
    ),
    "overflow": (
        '[HW_SQL_VALUE] m.sql: [CAST_OVERFLOW] The value 300 of the type "INT" cannot be '
        'cast to "TINYINT". `try_cast` gives null instead. SQLSTATE: 22003'
    ),
    "quoted_unit": (
        "[HW_SQL_VALUE] m.sql:3: [INVALID_PARAMETER_VALUE.DATETIME_UNIT] Write the unit "
        "without quotes, as in `dateadd(day, 1, d)`. SQLSTATE: 22023"
    ),
    "scalar_many": (
        "[HW_SQL_VALUE] m.sql:3: More than one row returned by a subquery used as an "
        "expression. Aggregate it, or join the table instead "
        "[SCALAR_SUBQUERY_TOO_MANY_ROWS]"
    ),
    "column_name": (
        "[HW_COLUMN_NAME] m.sql: Delta stores no column whose name has a blank, a tab, a newline "
        "or one of `,;{}()=`: rename it by AS, or declare delta.columnMapping.mode: name in "
        "tblproperties [DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES]"
    ),
    "every_partition": (
        "[HW_SETTING] m.sql: partition_by names every column of the model: leave one out "
        "[ALL_PARTITION_COLUMNS_NOT_ALLOWED]"
    ),
    "no_cluster_column": (
        "[HW_NO_SUCH_COLUMN] m.sql: cluster_by names `gg`, which is no column of the model "
        "[UNSUPPORTED_FEATURE.PARTITION_WITH_NESTED_COLUMN_IS_UNSUPPORTED]"
    ),
}


@pytest.mark.parametrize("mistake", LINES)
def test_a_mistake_names_its_place_and_remedy(mistake: str) -> None:
    sql, text = TEXTS[mistake]["sql"], TEXTS[mistake]["text"]
    model = SqlText("m.sql", f"{CONFIG}{sql}\n", f"\n\n{sql}")
    assert explained(text, sql, model) == LINES[mistake]
    # dbt-spark creates a table by a statement around the same SQL
    around = f"create or replace table `silver`.`m`\n  using delta as\n{sql}\n"
    shifted = re.sub(
        r"line (\d+)(,?) pos", lambda found: f"line {int(found[1]) + 2}{found[2]} pos", text
    )
    assert explained(shifted, around, model) == LINES[mistake]


def test_a_mistake_is_found_where_a_run_names_and_pins_an_input() -> None:
    model = SqlText("m.sql", "x", "select id, v from s.t having v > 1")
    text = (
        "[MISSING_GROUP_BY] The query does not include a GROUP BY clause. SQLSTATE: 42803; line 1 "
        "pos 0"
    )
    pinned = 'select id, v from /* lookup {"at": 1} */ s.t version as of 1 as `t` having v > 1'
    expected = (
        "[HW_SQL_GROUPING] m.sql:1: columns beside an aggregate need GROUP BY: group by every "
        "column of the SELECT that has no aggregate [MISSING_GROUP_BY]"
    )
    assert explained(text, pinned, model) == expected
    own_name = SqlText("m.sql", "x", "select id, v from s.t as `t` having v > 1")
    assert explained(text, pinned, own_name) == expected


@pytest.mark.parametrize(
    ("written", "date"),
    [
        ("01/05/2026", "2026-05-01"),
        ("5/31/2026", "2026-05-31"),
        ("5 -- 01/05/2026", ""),
        ("5 or note = '01/05/2026'", ""),
    ],
)
def test_a_date_that_divides_numbers_is_written_as_a_date(written: str, date: str) -> None:
    sql = f"select * from parcels where updated_at >= {written}"
    mismatch = (
        'Cannot resolve "(updated_at >= ((1 / 5) / 2026))" due to data type mismatch: the left and '
        "right operands of the binary operator have incompatible types "
        '("TIMESTAMP" and "DOUBLE").'
    )
    text = f"[DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES] {mismatch} SQLSTATE: 42K09; line 1 pos 28"
    hint = f"A date is written date'{date}'" if date else "Cast one side"
    assert explained(text, sql, SqlText("m.sql", sql, sql)) == (
        f"[HW_SQL_TYPE] m.sql:1: {mismatch} {hint} [DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES]"
    )


@pytest.mark.parametrize(
    ("expression", "wanted", "given", "remedy"),
    [
        (
            "(at - 5)",
            '"(TIMESTAMP OR TIMESTAMP WITHOUT TIME ZONE)"',
            '"5" has the type "INT"',
            " Write `x - interval 5 days`",
        ),
        ("substring(at, 1, at)", '"INT"', '"at" has the type "TIMESTAMP"', ""),
    ],
)
def test_a_number_beside_a_timestamp_is_an_interval(
    expression: str, wanted: str, given: str, remedy: str
) -> None:
    sql = f"select {expression} as before from parcels"
    mismatch = (
        f'Cannot resolve "{expression}" due to data type mismatch: The second parameter requires '
        f"the {wanted} type, however {given}."
    )
    condition = "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE"
    text = f"[{condition}] {mismatch} SQLSTATE: 42K09; line 1 pos 7"
    assert explained(text, sql, SqlText("m.sql", sql, sql)) == (
        f"[HW_SQL_TYPE] m.sql:1: {mismatch}{remedy} [{condition}]"
    )


def test_a_trailing_comma_before_a_pinned_input_is_told_in_the_words_of_the_model() -> None:
    sql = "select\n    id,\nfrom s.t"
    model = SqlText("m.sql", sql, sql)
    mark = '/* whole {"version": 8} */'
    pinned = f"explain extended select\n    id,\nfrom {mark} s.t version as of 8 as `t`"
    position = pinned.split("\n")[2].index(".t")
    text = (
        "[PARSE_SYNTAX_ERROR] Syntax error at or near '.'. SQLSTATE: 42601 "
        f"(line 3, pos {position})"
    )
    assert explained(text, pinned, model) == (
        "[HW_SQL_SYNTAX] m.sql:3: Syntax error at or near '.' in `from s.t as `t``: remove the "
        "comma before FROM [PARSE_SYNTAX_ERROR]"
    )


def test_a_feature_that_a_table_lacks_is_told_for_any_statement() -> None:
    text = (
        "[DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT] Your table schema requires manually enablement "
        "of the following table feature(s): timestampNtz."
    )
    sql = "select 1 as a"
    assert explained(text, "replace table m as select 1", SqlText("m.sql", sql, sql)) == (
        "[HW_PROTOCOL_UPGRADE] m.sql: the table that exists lacks Delta's feature timestampNtz: "
        "declare delta.feature.timestampNtz: supported in tblproperties, with "
        "allow_protocol_upgrade: true, or drop the table and run the model again "
        "[DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT]"
    )


def test_a_partition_column_that_the_model_lacks_is_told_as_a_setting() -> None:
    sql = "select 1 as a, 2 as g"
    text = (
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name "
        "`gg` cannot be resolved. Did you mean one of the following? [`g`, `a`]. SQLSTATE: 42703"
    )
    statement = f"create table m using delta partitioned by (gg) as\n{sql}"
    assert explained(text, statement, SqlText("m.sql", sql, sql)) == (
        "[HW_NO_SUCH_COLUMN] m.sql: partition_by, cluster_by or another setting names `gg`, which "
        "is no column of the model, did you mean 'g' [UNRESOLVED_COLUMN.WITH_SUGGESTION]"
    )


def test_a_clustered_table_is_not_replaced_by_a_partitioned_one() -> None:
    condition = "DELTA_CLUSTERING_REPLACE_TABLE_WITH_PARTITIONED_TABLE"
    text = (
        f"[{condition}] Replacing a clustered Delta table with a partitioned table is not allowed."
    )
    sql = "select grp, n from t"
    ran = f"create or replace table m using delta partitioned by (grp) as\n{sql}"
    assert explained(text, ran, SqlText("m.sql", sql, sql)) == (
        "[HW_CLUSTERED_TABLE] m.sql: the table is or was clustered, and Delta does not replace it "
        "by a partitioned one: declare cluster_by instead of partition_by, or drop the table and "
        f"run the model again [{condition}]"
    )


def test_each_mistake_has_a_line() -> None:
    assert LINES.keys() == TEXTS.keys()


def test_a_row_that_breaks_a_constraint_is_told_without_its_values() -> None:
    model = SqlText("m.sql", "select v from t", "select v from t")
    check = (
        "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint v_known (v IN ('a')) violated by "
        "row with values:\n - v : secret\nSQLSTATE: 23001"
    )
    assert explained(check, "insert into m", model) == (
        "[HW_CONSTRAINT] m.sql: a row breaks the constraint v_known (v IN ('a')), so nothing was "
        "written: correct the query, whose rows of this kind are those `where not coalesce(v IN "
        "('a'), false)` [DELTA_VIOLATE_CONSTRAINT_WITH_VALUES]"
    )
    null = (
        "[DELTA_NOT_NULL_CONSTRAINT_VIOLATED] NOT NULL constraint violated for column: v.\n "
        "SQLSTATE: 23502"
    )
    assert explained(null, "insert into m", model) == (
        "[HW_CONSTRAINT] m.sql: column v must not be null, and a row has null, so nothing was "
        "written: correct the query, whose rows of this kind are those `where v is null` "
        "[DELTA_NOT_NULL_CONSTRAINT_VIOLATED]"
    )


@pytest.mark.parametrize(
    ("sql", "column", "remedy"),
    [
        (
            "select b - a as gap from t",
            "gap: DayTimeIntervalType(0,3)",
            "Give an interval as a number, as by `timestampdiff(second, a, b)`, or as a text by "
            "`cast(… as string)`",
        ),
        (
            "select a collate utf8_lcase as code from t",
            "code: StringType(UTF8_LCASE)",
            "Give a text without its collation, as by `collate(a, 'UTF8_BINARY')`",
        ),
    ],
)
def test_a_type_that_delta_does_not_store_has_a_remedy(sql: str, column: str, remedy: str) -> None:
    text = (
        f"[DELTA_UNSUPPORTED_DATA_TYPES] Found columns using unsupported data types: [{column}]. "
        "You can set 'x' to 'false' to disable the type check."
    )
    assert explained(text, "create table m", SqlText("m.sql", sql, sql)) == (
        f"[HW_SQL_TYPE] m.sql: Delta stores no column of this type: {column}. {remedy} "
        "[DELTA_UNSUPPORTED_DATA_TYPES]"
    )


def test_a_value_that_its_table_does_not_hold_has_a_remedy() -> None:
    model = SqlText("m.sql", "select 1 as v", "select 1 as v")
    text = (
        '[CAST_OVERFLOW_IN_TABLE_INSERT] Fail to assign a value of "BIGINT" type to the "INT" type '
        "column or variable `v` due to an overflow. Use `try_cast` on the input value to tolerate "
        "overflow and return NULL instead. SQLSTATE: 22003"
    )
    assert explained(text, "insert into m by name select v from stage", model) == (
        "[HW_COLUMNS_DIFFER] m.sql: [CAST_OVERFLOW_IN_TABLE_INSERT] Fail to assign a value of "
        '"BIGINT" type to the "INT" type column or variable `v` due to an overflow. Set '
        "on_schema_change: sync_all_columns, which widens the column, or cast it to the type of "
        "its table SQLSTATE: 22003"
    )


def test_any_refusal_of_a_query_has_a_code() -> None:
    model = SqlText("m.sql", "select ln('x') as a", "select ln('x') as a")
    ran = f"create or replace table m as {model.compiled}"
    for state, code in {"0A000": "[HW_SQL_REFUSED] m.sql: No. [SOME.WORD]", "KD001": None}.items():
        assert explained(f"[SOME.WORD] No. SQLSTATE: {state}", ran, model) == code
    own = "[USER_RAISED_EXCEPTION] [HW_REPEATED_KEYS] No. SQLSTATE: 21000"
    assert explained(own, ran, model) is None


def test_statements_of_our_own_keep_spark_s_text() -> None:
    text = TEXTS["missing_table"]["text"]
    model = SqlText("m.sql", "select 1", "select 1")
    assert explained(text, "describe history parcel", model) is None
    assert explained("[DELTA_CONCURRENT_APPEND] Files were added.", "select 1", model) is None
    assert explained("Connection refused", "select 1", model) is None
    assert explained(text, "create table a", SqlText("seed.csv", "", "")) is None


def test_a_statement_that_changed_the_model_s_sql_keeps_its_place() -> None:
    sql = "select\n    parcel_id,\n    wieght_kg\nfrom `silver`.`parcels`"
    ran = sql.replace("`silver`.`parcels`", "(select * from `silver`.`parcels` version as of 3)")
    text = TEXTS["typo"]["text"].replace("line 3 pos 4", "line 4 pos 4")
    raw = "select\n    parcel_id,\n    wieght_kg\nfrom {{ ref('parcels') }}"
    line = explained(text, f"select * from (\n{ran}\n) limit 0", SqlText("m.sql", raw, sql))
    assert line is not None and line.startswith("[HW_NO_SUCH_COLUMN] m.sql:3: ")


def test_lines_before_the_sql_of_a_node_count() -> None:
    sql, text = TEXTS["typo"]["sql"], TEXTS["typo"]["text"]
    line = explained(text, sql, SqlText("m.sql", sql, sql, before=2))
    assert line is not None and line.startswith("[HW_NO_SUCH_COLUMN] m.sql:5: ")


def test_a_model_of_one_line_is_known_by_its_sql_without_versions() -> None:
    sql = "select depot, wieght_kg from silver.parcels"
    mark = '/* changes {"at": 17, "kind": "changes", "source": "silver.parcels", "version": 3} */'
    ran = f"select * from (\n{sql.replace('from ', f'from {mark} ')} version as of 3\n) limit 0"
    text = TEXTS["typo"]["text"].replace("line 3 pos 4", "line 2 pos 14")
    line = explained(text, ran, SqlText("m.sql", sql, sql))
    assert line is not None and line.startswith("[HW_NO_SUCH_COLUMN] m.sql:1: ")


def test_a_statement_without_a_file_names_lines_if_it_has_several() -> None:
    text = TEXTS["typo"]["text"]
    for number, where in ((1, ""), (3, "line 3: ")):
        sql = "select" + "\n" * (number - 1) + " wieght_kg"
        line = explained(text.replace("line 3", f"line {number}"), sql, SqlText("", sql, sql)) or ""
        assert line.startswith(f"[HW_NO_SUCH_COLUMN] {where}there is no column `wieght_kg`, did")


def test_lines_of_a_file_are_found_around_jinja() -> None:
    raw = [
        "{% set columns = ['a', 'b'] %}",
        "select",
        "{% for column in columns %}",
        "    {{ column }},",
        "{% endfor %}",
        "    c",
        "from {{ ref('x') }}",
    ]
    compiled = ["", "select", "", "    a,", "", "    b,", "", "    c", "from `s`.`x`"]
    lines = [
        line_in_file("\n".join(raw), "\n".join(compiled), number)
        for number in range(1, len(compiled) + 1)
    ]
    assert (lines[1], lines[7], lines[8]) == (2, 6, 7)
    assert set(lines[3:6:2]) <= {3, 4, 5, None}


@pytest.mark.slow
def test_spark_still_prints_these_texts(spark: Any, set_spark: Callable[[str, str], None]) -> None:
    set_spark("spark.sql.ansi.enabled", "true")
    rows = {
        "parcels": "'p1' as parcel_id, 'Lyon' as depot, cast(1.5 as decimal(8,2)) as weight_kg,"
        " 'sent' as status, timestamp'2026-01-01' as updated_at",
        "depots": "'Lyon' as depot, 'FR' as country, 'x' as note",
    }

    def printed(sql: str) -> str:
        try:
            spark.sql(sql).collect()
        except Exception as error:
            return one_line(error)
        return "no error"

    for name, columns in rows.items():
        spark.sql(f"create or replace temporary view {name} as select {columns}")
    try:
        answers = {name: printed(mistake["sql"]) for name, mistake in TEXTS.items()}
    finally:
        for name in rows:
            spark.sql(f"drop view if exists {name}")
    expected = {name: one_line(RuntimeError(it["text"])) for name, it in TEXTS.items()}
    conditions = {
        name: (text.split("]")[0], expected[name].split("]")[0]) for name, text in answers.items()
    }
    assert {name: pair for name, pair in conditions.items() if pair[0] != pair[1]} == {}


def test_the_adapter_notes_the_sql_of_the_node_that_a_thread_runs() -> None:
    from dbt.adapters.headwaters.connections import current
    from dbt.adapters.headwaters.impl import HeadwatersAdapter
    from dbt.adapters.headwaters.session import StatementError, short_errors

    adapter: Any = object.__new__(HeadwatersAdapter)
    sql, text = TEXTS["typo"]["sql"], TEXTS["typo"]["text"]
    node = SimpleNamespace(
        original_file_path="m.sql", raw_code=sql, compiled_code=sql, resource_type="test"
    )
    config: Any = SimpleNamespace(model=node)
    seen: list[str] = []

    def fail() -> None:
        with pytest.raises(StatementError) as raised, short_errors(StatementError, ROOT, sql):
            raise AnalysisException(text)
        seen.append(str(raised.value).splitlines()[0])

    before = adapter.pre_model_hook(config)
    fail()
    other = threading.Thread(target=fail)
    other.start()
    other.join()
    adapter.post_model_hook(config, before)
    fail()
    assert current.sql is None
    assert seen[0].startswith("[HW_NO_SUCH_COLUMN] m.sql:3: ")
    assert [line.partition(" ")[0] for line in seen[1:]] == [
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION]",
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION]",
    ]


def test_a_refusal_names_the_line_of_the_file() -> None:
    raw = "{{\n  config(unique_key='id')\n}}\n\nselect\n  id,\n  rand() as r\nfrom {{ ref('a') }}"
    model = SqlText("m.sql", raw, "\n\nselect\n  id,\n  rand() as r\nfrom main.a")
    refused = "main.m: `rand()` (line 5 of the compiled SQL): its result changes"
    assert with_file_lines(refused, model) == "main.m: `rand()` (m.sql:7): its result changes"
    by_macro = "`x` (line 2 of the compiled SQL): no"
    made = SqlText("m.sql", "{{ all() }}", "select 1\nunion all\nselect 2")
    assert with_file_lines(by_macro, made) == "`x` (m.sql:1): no"
