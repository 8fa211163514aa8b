"""Run the published tests of `constraints`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from dbt.tests.adapter.constraints import test_constraints as published
from dbt.tests.util import read_file, run_dbt, write_file

from .spark import classes


class Types:
    """Spark's types in contracts, and their names in messages."""

    @pytest.fixture
    def string_type(self) -> str:
        return "string"

    @pytest.fixture
    def int_type(self) -> str:
        return "int"

    @pytest.fixture
    def data_types(self) -> list[list[str]]:
        return [
            ["1", "int", "int"],
            ["'1'", "string", "string"],
            ["true", "boolean", "boolean"],
            ["array('1', '2', '3')", "array<string>", "array<string>"],
            ["cast('2019-01-01' as timestamp)", "timestamp", "timestamp"],
            ["cast(1 as decimal(4, 2))", "decimal(4,2)", "decimal(4,2)"],
        ]


class TestTableConstraintsColumnsEqual(Types, published.BaseTableConstraintsColumnsEqual):
    pass


class TestViewConstraintsColumnsEqual(Types, published.BaseViewConstraintsColumnsEqual):
    pass


class TestIncrementalConstraintsColumnsEqual(
    Types, published.BaseIncrementalConstraintsColumnsEqual
):
    pass


class Stored:
    """Delta enforces checks and NOT NULL, as properties of the table, and no keys."""

    @pytest.fixture(scope="class")
    def expected_sql(self) -> set[str]:
        """Return the checks of the table."""
        return {"`id` is not null", "(id > 0)", "id >= 1"}

    def test__constraints_ddl(self, project: Any, expected_sql: Any) -> None:
        text = read_file("models", "constraints_schema.yml").format(schema=project.test_schema)
        write_file(text, "models", "constraints_schema.yml")
        run_dbt(["run", "-s", "+my_model"])
        table = f"{project.test_schema}.my_model"
        assert len(project.run_sql(f"select * from {table}", fetch="all")) == 1
        found = project.run_sql(f"show tblproperties {table}", fetch="all")
        checks = {value for name, value in found if name.startswith("delta.constraints.")}
        assert checks == expected_sql


class TestConstraintsRuntimeDdlEnforcement(Stored, published.BaseConstraintsRuntimeDdlEnforcement):
    pass


class TestIncrementalConstraintsRuntimeDdlEnforcement(
    Stored, published.BaseIncrementalConstraintsRuntimeDdlEnforcement
):
    pass


class TestModelConstraintsRuntimeEnforcement(
    Stored, published.BaseModelConstraintsRuntimeEnforcement
):
    def test__model_constraints_ddl(self, project: Any, expected_sql: Any) -> None:
        self.test__constraints_ddl(project, expected_sql)


class TestConstraintQuotedColumn(Stored, published.BaseConstraintQuotedColumn):
    @pytest.fixture(scope="class")
    def expected_sql(self) -> set[str]:
        return {"`id` is not null", "`from` is not null", "(`from` = 'blue')"}


class OneThread:
    """A header that changes the session needs a run with one thread."""

    @pytest.fixture(scope="class")
    def threads(self) -> int:
        return 1

    @pytest.fixture(scope="class", autouse=True)
    def reset(self, project: Any) -> Iterator[None]:
        yield
        project.run_sql("reset spark.sql.session.timeZone")


class TestTableContractSqlHeader(OneThread, published.BaseTableContractSqlHeader):
    pass


class TestIncrementalContractSqlHeader(OneThread, published.BaseIncrementalContractSqlHeader):
    pass


class Refused:
    """Delta refuses the rows, and the table keeps those that it had."""

    @pytest.fixture(scope="class")
    def expected_error_messages(self) -> list[str]:
        return ["HW_CONSTRAINT"]


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
    without=dict.fromkeys(
        (
            f"TestIncrementalConstraintsColumnsEqualWithAuto.test__constraints_{name}_data_types"
            for name in ("correct_column", "wrong_column")
        ),
        "The test replaces the file with the contract, and `auto` refuses `on_schema_change`"
        " without a contract.",
    ),
)
