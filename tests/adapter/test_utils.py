"""Run the published tests of `utils`."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.utils import test_timestamps
from dbt.tests.adapter.utils.data_types import test_type_float, test_type_int, test_type_numeric

from .spark import classes


def typed(csv: str, column: str, kind: str) -> dict[str, str]:
    """Return a seed whose column has the type that the macro names; 1 would be a bigint."""
    config = f"{{column_types: {{{column}: {kind}}}}}"
    return {
        "expected.csv": csv,
        "expected.yml": f"seeds: [{{name: expected, config: {config}}}]",
    }


class TestTypeFloat(test_type_float.BaseTypeFloat):
    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return typed(test_type_float.seeds__expected_csv, "float_col", "float")


class TestTypeInt(test_type_int.BaseTypeInt):
    @pytest.fixture(scope="class")
    def seeds(self) -> dict[str, str]:
        return typed(test_type_int.seeds__expected_csv, "int_col", "int")


class TestTypeNumeric(test_type_numeric.BaseTypeNumeric):
    def numeric_fixture_type(self) -> str:
        return "decimal(28,6)"


class TestCurrentTimestamps(test_timestamps.BaseCurrentTimestamps):
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        query = "select {{ current_timestamp() }} as current_timestamp"
        return {"get_current_timestamp.sql": query}

    @pytest.fixture(scope="class")
    def expected_schema(self) -> dict[str, Any]:
        return {"current_timestamp": "timestamp"}

    @pytest.fixture(scope="class")
    def expected_sql(self) -> str:
        return "select current_timestamp() as current_timestamp"


classes(
    __name__,
    "utils",
    but=("BaseUtils", "BaseArrayUtils", "BaseDataTypeMacro", "BaseCurrentTimestamp"),
    without={
        "TestCurrentTimestampAware": "A timestamp of Spark is a moment and has no zone, so Python"
        " gets one without a zone (TestCurrentTimestampNaive).",
        "TestEscapeSingleQuotesQuote": "A quote in a text of Spark is written with a backslash"
        " (TestEscapeSingleQuotesBackslash).",
    },
)
