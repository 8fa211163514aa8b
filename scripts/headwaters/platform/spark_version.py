"""The facts that depend on the version of Spark.

Function names and groups are those of `ExpressionInfo.getGroup` in Spark's registries;
tests/python/analysis/test_functions_on_spark.py compares them. The analysis does not understand a
function outside of these lists, which therefore proves nothing. CONTRIBUTING has the recipe for a
new version.
"""

from __future__ import annotations

from collections.abc import Sequence

# The versions of Spark and of Java with which all tests pass.
SPARK_PROVEN = "4.2"
JAVA_PROVEN = (17, 21)


def names(*texts: str) -> frozenset[str]:
    """Return the words of the texts."""
    return frozenset(" ".join(texts).split())


# The result depends on the arguments alone, or on the session's settings, which are recorded.
ROW_FUNCTIONS = names(
    "array array_append array_compact array_contains array_distinct array_except array_insert",
    "array_intersect array_join array_max array_min array_position array_prepend array_remove",
    "array_repeat array_size array_union arrays_overlap arrays_zip flatten get sequence slice",
    "sort_array from_avro to_avro schema_of_avro bit_count bit_get getbit shiftleft shiftright",
    "shiftrightunsigned cardinality concat element_at reverse size try_element_at coalesce if",
    "ifnull nanvl nullif nullifzero nvl nvl2 when zeroifnull bigint binary boolean cast date",
    "decimal double float int smallint string time timestamp tinyint from_csv schema_of_csv to_csv",
    "add_months convert_timezone current_timezone date_add date_diff date_format",
    "date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname",
    "dayofmonth dayofweek dayofyear extract from_unixtime from_utc_timestamp hour last_day",
    "make_date make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz",
    "make_timestamp_ntz make_ym_interval minute month monthname months_between next_day quarter",
    "second time_bucket time_diff time_from_micros time_from_millis time_from_seconds",
    "time_to_micros time_to_millis time_to_seconds time_trunc timestamp_micros timestamp_millis",
    "timestamp_seconds to_date to_time to_timestamp to_timestamp_ltz to_timestamp_ntz",
    "to_unix_timestamp to_utc_timestamp trunc try_make_interval try_make_timestamp",
    "try_make_timestamp_ltz try_make_timestamp_ntz try_to_date try_to_time try_to_timestamp",
    "timestampadd timestampdiff",
    "unix_date unix_micros unix_millis unix_seconds unix_timestamp weekday weekofyear year crc32",
    "hash md5 sha sha1 sha2 xxhash64 from_json get_json_object json_array_length json_object_keys",
    "schema_of_json to_json aggregate array_sort exists filter forall map_filter map_zip_with",
    "reduce transform transform_keys transform_values zip_with map map_concat map_contains_key",
    "map_entries map_from_arrays map_from_entries map_keys map_values str_to_map abs acos acosh",
    "asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh cot csc degrees div e",
    "exp expm1 factorial floor greatest hex hypot least ln log log10 log1p log2 mod negative pi",
    "pmod positive pow power radians rint round sec sign signum sin sinh sqrt tan tanh try_add",
    "try_divide try_mod try_multiply try_subtract unhex width_bucket aes_decrypt try_aes_decrypt",
    "assert_true raise_error bitmap_bit_position bitmap_bucket_number bitmap_count typeof",
    "equal_null ilike isnan isnotnull isnull like regexp regexp_like rlike ascii base64 bit_length",
    "btrim char char_length character_length chr collate collation concat_ws contains decode elt",
    "encode endswith find_in_set format_number format_string initcap instr is_valid_utf8 lcase",
    "left len length levenshtein locate lower lpad ltrim luhn_check make_valid_utf8 mask",
    "octet_length overlay position printf quote regexp_count regexp_extract regexp_extract_all",
    "regexp_instr regexp_replace regexp_substr repeat replace right rpad rtrim sentences soundex",
    "space split split_part startswith substr substring substring_index to_binary to_char",
    "to_number to_varchar translate trim try_to_binary try_to_number try_validate_utf8 ucase",
    "unbase64 upper validate_utf8 named_struct struct parse_url try_parse_url try_url_decode",
    "url_decode url_encode is_valid_variant is_variant_null parse_json schema_of_variant",
    "to_variant_object try_parse_json try_variant_get variant_get from_xml schema_of_xml to_xml",
    "xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short",
    "xpath_string window window_time",
)
# Functions of groups of rows, or of sketches of them, which only a table computed whole may use.
SKETCH_FUNCTIONS = names(
    "session_window approx_top_k approx_top_k_accumulate approx_top_k_combine",
    "approx_top_k_estimate count_min_sketch hll_sketch_agg hll_sketch_estimate hll_union",
    "hll_union_agg",
)
# Functions whose first argument is a unit, not a column.
FUNCTIONS_BY_UNIT = names("date_add date_diff dateadd datediff timestampadd timestampdiff")
TIME_UNITS = names(
    "year quarter month week day dayofyear hour minute second millisecond microsecond years",
    "quarters months weeks days hours minutes seconds milliseconds microseconds",
)
# Functions that make several rows of one.
GENERATORS = names(
    "explode explode_outer inline inline_outer posexplode posexplode_outer stack json_tuple",
    "variant_explode variant_explode_outer",
)
# One result for several rows, in any order. `ORDERED_AGGREGATES` depend on the order.
AGGREGATES = names(
    "any approx_count_distinct avg bit_and bit_or bit_xor bitmap_construct_agg",
    "bitmap_or_agg bool_and bool_or corr count count_if covar_pop covar_samp every kurtosis max",
    "mean median min percentile percentile_cont percentile_disc regr_avgx",
    "regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness",
    "some std stddev stddev_pop stddev_samp sum var_pop var_samp variance",
    "bitmap_and_agg grouping grouping_id",
)
ORDERED_AGGREGATES = names(
    "any_value approx_percentile array_agg collect_list collect_set first first_value",
    "histogram_numeric last last_value listagg max_by min_by mode percentile_approx string_agg",
    # the order decides if an intermediate sum overflows
    "try_avg try_sum",
)
ANY_AGGREGATES = AGGREGATES | ORDERED_AGGREGATES
# Row functions that remove the effect of the order.
ORDERING_FUNCTIONS = names("array_sort sort_array array_max array_min array_size size cardinality")
# Functions that return a value of their first argument; LAG and LEAD also have a default.
CHOOSING_FUNCTIONS = names(
    "any_value first first_value lag last last_value lead max max_by min min_by nth_value",
)
# Window functions that return the same for rows that tie.
PEER_FUNCTIONS = names("cume_dist dense_rank percent_rank rank")
ORDERED_WINDOW_FUNCTIONS = names("lag lead nth_value ntile row_number")
WINDOW_FUNCTIONS = ANY_AGGREGATES | PEER_FUNCTIONS | ORDERED_WINDOW_FUNCTIONS
# The same result for the same rows on any day, apart from the order of rows that tie.
STABLE_FUNCTIONS = ROW_FUNCTIONS | SKETCH_FUNCTIONS | GENERATORS | WINDOW_FUNCTIONS
# Functions that a FROM clause may call.
TABLE_FUNCTIONS = GENERATORS | {"range"}
STABLE_IN_QUERIES = STABLE_FUNCTIONS | TABLE_FUNCTIONS
# Calls, some of them of Delta, that read a table by a text.
READING_FUNCTIONS = names("identifier table_changes table_changes_by_path")
# The result differs by day, by run, or by the place of the row.
CHANGING_FUNCTIONS = names(
    "aes_encrypt curdate current_catalog current_database current_date",
    "current_path current_schema current_time current_timestamp current_user",
    "input_file_block_length input_file_block_start input_file_name java_method localtimestamp",
    "monotonically_increasing_id now rand randn random randstr reflect session_user shuffle",
    "spark_partition_id try_reflect uniform user uuid version",
)
# Functions that Spark calls without brackets, unless a column has the name.
BARE_FUNCTIONS = names(
    "current_catalog current_database current_date current_schema current_time current_timestamp",
    "current_user localtimestamp session_user user",
)
# First parts of dotted names that are session variables, not columns.
VARIABLE_PREFIXES = names("session system")


def is_moment(name: str, arguments: Sequence[object]) -> bool:
    """Return true if a function returns the time of the run, as `unix_timestamp()` does."""
    return name == "unix_timestamp" and not arguments


ANSI_SETTING = "spark.sql.ansi.enabled"
# Settings of a Spark session that change the result of the same SQL.
SETTINGS_OF_RESULTS = (
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.decimalOperations.allowPrecisionLoss",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.session.timeZone",
)

# Settings that Spark takes from the session that reads a view, because no view stores them
# (CapturesConfig), and `spark.sql.catalog`.
SETTINGS_OF_READER = (
    "spark.sql.adaptive.",
    "spark.sql.catalog.",
    "spark.sql.codegen.",
    "spark.sql.execution.",
    "spark.sql.hive.convert",
    "spark.sql.maven.additionalRemoteRepositories",
    "spark.sql.optimizer.",
    "spark.sql.shuffle.",
    "spark.sql.view.maxNestedViewDepth",
)
# Settings for planning, execution, listing and display. Spark reads them for the whole query, which
# already includes the view, so those of the session apply. Static settings are the same in all
# sessions.
SETTINGS_OF_EXECUTION = (
    "spark.databricks.",
    "spark.sql.artifact.",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.broadcast",
    "spark.sql.cache.",
    "spark.sql.catalogImplementation",
    "spark.sql.cbo.",
    "spark.sql.connect.",
    "spark.sql.debug",
    "spark.sql.event.",
    "spark.sql.extensions",
    "spark.sql.files.",
    "spark.sql.filesourceTableRelationCacheSize",
    "spark.sql.globalTempDatabase",
    "spark.sql.hive.metastore.",
    "spark.sql.hive.thriftServer.",
    "spark.sql.inMemoryColumnarStorage.",
    "spark.sql.join.",
    "spark.sql.legacy.sessionInitWithConfigDefaults",
    "spark.sql.maxPlanStringLength",
    "spark.sql.metadataCacheTTLSeconds",
    "spark.sql.parquet.",
    "spark.sql.queryExecutionListeners",
    "spark.sql.redaction.",
    "spark.sql.repl.",
    "spark.sql.sources.parallelPartitionDiscovery.",
    "spark.sql.sources.partitionOverwriteMode",
    "spark.sql.sources.schemaStringLengthThreshold",
    "spark.sql.statistics.",
    "spark.sql.storeAssignmentPolicy",
    "spark.sql.streaming.",
    "spark.sql.thriftServer.",
    "spark.sql.thriftserver.",
    "spark.sql.ui.",
    "spark.sql.warehouse.dir",
)
# Settings that decide how values are read from files.
SETTINGS_OF_FILES = (
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
    "spark.sql.parquet.binaryAsString",
    "spark.sql.parquet.datetimeRebaseModeInRead",
    "spark.sql.parquet.int96AsTimestamp",
    "spark.sql.parquet.int96RebaseModeInRead",
    "spark.sql.parquet.int96TimestampConversion",
)


def decides_rows(setting: str) -> bool:
    """Return true unless a setting is known not to change the rows of a query."""
    if setting in (*SETTINGS_OF_RESULTS, *SETTINGS_OF_FILES):
        return True
    of_execution = (*SETTINGS_OF_READER, *SETTINGS_OF_EXECUTION)
    return setting.startswith("spark.sql.") and not setting.startswith(of_execution)


# Settings that affect only casts, functions and operators.
SETTINGS_OF_EXPRESSIONS = {
    ANSI_SETTING,
    "spark.sql.decimalOperations.allowPrecisionLoss",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.session.timeZone",
}

# The settings with which Spark reads other encodings, and Parquet files with nanoseconds.
READ_MORE = {
    "spark.sql.legacy.javaCharsets": "true",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
}
# The text encodings that Spark then reads, by names that Python also knows.
ENCODINGS = (
    "utf-8", "utf-16", "utf-16be", "utf-16le", "utf-32", "us-ascii",
    *(f"iso-8859-{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 15)),
    *(f"windows-{number}" for number in range(1250, 1259)),
    "ibm437", "ibm850", "ibm852", "ibm855", "ibm857", "ibm862", "ibm866", "koi8-r", "koi8-u",
    "shift_jis", "ms932", "euc-jp", "iso-2022-jp", "gb2312", "gbk", "gb18030", "big5",
    "euc-kr", "tis-620",
)  # fmt: skip

# Spark's substitute for a value that its settings suspect to be a secret.
REDACTED = "*********(redacted)"
# The metadata of a column in which Spark stores its type `char` or `varchar`.
CHAR_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
# Spark rounds the negative of a decimal to this number of digits.
NEGATED_DIGITS = 34

# Error conditions.
NO_SUCH_TABLE = ("TABLE_OR_VIEW_NOT_FOUND", "PATH_NOT_FOUND", "FAILED_READ_FILE.FILE_NOT_EXIST")
# The message for a name without a table, with the name.
UNKNOWN_TABLE = r"\[TABLE_OR_VIEW_NOT_FOUND\] The table or view (\S+) cannot be found"
# The conditions of SHOW GRANTS and GRANT in a Spark without permissions.
NO_GRANTS = ("PARSE_SYNTAX_ERROR", "INVALID_STATEMENT_OR_CLAUSE")
VIEW_INSTEAD_OF_TABLE = "EXPECT_TABLE_NOT_VIEW"
OFFSETS_LOST = "KAFKA_DATA_LOSS"
# Their first lines report only a failure; the cause has the reason.
WRAPPING_ERRORS = ("An error occurred while calling", "[TASK_WRITE_FAILED]")
# A failure that a statement raises by raise_error().
RAISED = "USER_RAISED_EXCEPTION"


# Keywords that a parser of SQL refuses as the name of a schema or a table without quotes, where
# Spark accepts them.
QUOTED_NAMES = names(
    "alter and as between cluster create cross describe distinct distribute drop else except fetch",
    "for from glob grant group having ilike inner insert intersect into join lateral like limit",
    "minus not notnull offset on or order outer partitioned_by qualify regexp returning revoke",
    "rlike rollback select serdeproperties sort table tablesample then uncache union using values",
    "when where window with xor",
)
