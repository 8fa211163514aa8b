"""Test rows grouped by columns that Spark cannot compare, and errors of lost feeds."""

from __future__ import annotations

import pytest

from headwaters.runs.work import NOT_UTF8, lost_feed
from headwaters.tables.grouping import Grouping, grouping_of

EXACT = (
    "map('timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSSXXX', "
    "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS', 'ignoreNullFields', 'false')"
)


def test_columns_that_spark_compares_need_no_grouping() -> None:
    assert grouping_of([("id", "int"), ("all", "struct<a:array<int>>")]) is None


def test_maps_are_grouped_by_the_order_of_their_entries_as_well() -> None:
    assert grouping_of([("id", "int"), ("all", "array<map<string,int>>")]) == Grouping(
        columns=("`id`", "any_value(`all`) as `all`"),
        keys=("`id`", f"to_json(`all`, {EXACT})"),
    )


def test_floating_point_numbers_are_grouped_by_their_sign_as_well() -> None:
    assert grouping_of([("x", "double"), ("all", "array<float>"), ("n", "int")]) == Grouping(
        columns=("any_value(`x`) as `x`", "any_value(`all`) as `all`", "`n`"),
        keys=("cast(`x` as string)", f"to_json(`all`, {EXACT})", "`n`"),
    )


def test_variants_are_grouped_by_their_json_and_schema() -> None:
    columns = [
        ("id", "int"),
        ("o`ne", "variant"),
        ("parts", "struct<a:int,b:variant>"),
        ("more", "map<int,variant>"),
    ]
    assert grouping_of(columns) == Grouping(
        columns=(
            "`id`",
            "any_value(`o``ne`) as `o``ne`",
            "any_value(`parts`) as `parts`",
            "any_value(`more`) as `more`",
        ),
        keys=(
            "`id`",
            "to_json(`o``ne`)",
            "schema_of_variant(`o``ne`)",
            f"to_json(`parts`, {EXACT})",
            "schema_of_variant(to_variant_object(`parts`))",
            f"to_json(`more`, {EXACT})",
        ),
    )


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("[DELTA_MISSING_CHANGE_DATA] Error getting change data", "it was off in between"),
        ("[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered", "files of it are missing or damaged"),
        ("java.io.FileNotFoundException: x.bin", "files of it are missing or damaged"),
        (
            "[DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA] Retrieving",
            "columns changed in between",
        ),
        ("[DELTA_VERSION_NOT_FOUND] Cannot time travel", "its commits are no longer retained"),
        ("[USER_RAISED_EXCEPTION] HW_NOT_UTF8", NOT_UTF8),
        ("[TABLE_OR_VIEW_NOT_FOUND] The table", None),
        ("no Spark listens at sc://localhost", None),
    ],
)
def test_errors_that_mean_that_a_feed_is_lost(text: str, cause: str | None) -> None:
    assert lost_feed(RuntimeError(text)) == cause


def test_the_error_behind_an_error_counts() -> None:
    try:
        try:
            raise ValueError("[FAILED_READ_FILE.FILE_NOT_EXIST] cdc-1.parquet")
        except ValueError:
            raise RuntimeError("[STAGE_MATERIALIZATION_MULTIPLE_FAILURES] Multiple") from None
    except RuntimeError as error:
        assert lost_feed(error) == "files of it are missing or damaged"
