"""Run the published tests of `constraints`."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.constraints import test_constraints as published

from .spark import classes


class Types:
    """Spark's types in contracts, and their names in messages."""

    @pytest.fixture
    def string_type(self) -> str:
        return "STRING"

    @pytest.fixture
    def data_types(self) -> list[list[str]]:
        return [
            ["1", "int", "INT"],
            ["'1'", "string", "STRING"],
            ["true", "boolean", "BOOLEAN"],
            ["array('1', '2', '3')", "array<string>", "ARRAY"],
            ["cast('2019-01-01' as timestamp)", "timestamp", "TIMESTAMP"],
            ["cast(1 as decimal(4, 2))", "decimal(4,2)", "DECIMAL"],
        ]


class TestTableConstraintsColumnsEqual(Types, published.BaseTableConstraintsColumnsEqual):
    pass


class TestViewConstraintsColumnsEqual(Types, published.BaseViewConstraintsColumnsEqual):
    pass


class TestIncrementalConstraintsColumnsEqual(
    Types, published.BaseIncrementalConstraintsColumnsEqual
):
    pass


class Refused:
    """Delta refuses the rows, and the table keeps those that it had."""

    @pytest.fixture(scope="class")
    def expected_error_messages(self) -> list[str]:
        return ["NULL"]


class TestConstraintsRollback(Refused, published.BaseConstraintsRollback):
    pass


class TestIncrementalConstraintsRollback(Refused, published.BaseIncrementalConstraintsRollback):
    pass


classes(
    __name__,
    "constraints",
    but=("BaseConstraintsColumnsEqual", "BaseContractSqlHeader"),
    auto=(
        "TestIncrementalConstraintsColumnsEqual",
        "TestIncrementalConstraintsRollback",
        "TestIncrementalContractSqlHeader",
        "TestIncrementalForeignKeyConstraint",
    ),
)
