"""Test the kinds of columns that macros ask for."""

from __future__ import annotations

import pytest
from dbt.adapters.headwaters.columns import HeadwatersColumn

KINDS = ("is_string", "is_integer", "is_float", "is_numeric", "is_number")


@pytest.mark.parametrize(
    ("types", "kinds"),
    [
        (("string", "varchar(20)", "char(5)", "STRING"), {"is_string"}),
        (("tinyint", "smallint", "int", "bigint"), {"is_integer", "is_number"}),
        (("float", "double"), {"is_float", "is_number"}),
        (("decimal(9,2)", "decimal"), {"is_numeric", "is_number"}),
        (("date", "timestamp", "array<string>", "struct<a:int>", "interval day"), set()),
    ],
)
def test_columns_are_of_the_kind_of_their_spark_type(
    types: tuple[str, ...], kinds: set[str]
) -> None:
    for type_ in types:
        column = HeadwatersColumn("a", type_)
        assert {kind for kind in KINDS if getattr(column, kind)()} == kinds, type_
        # dbt would alter a text to varchar(256)
        assert column.expanded_data_type == column.data_type == type_
        assert not column.can_expand_to(HeadwatersColumn("a", "varchar(300)"))
