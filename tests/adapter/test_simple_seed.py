"""Run the published tests of `simple_seed`."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.simple_seed import fixtures
from dbt.tests.adapter.simple_seed.test_seed import BaseSeedSpecificFormats
from dbt.tests.adapter.simple_seed.test_seed_type_override import BaseSimpleSeedColumnOverride

from .spark import classes

CASCADE = (
    "`dbt seed --full-refresh` replaces the table in one commit, and drops no view that reads it."
)

TYPES = {
    "text": "string",
    "integer": "bigint",
    "timestamp without time zone": "timestamp",
    "date": "timestamp",
}


class TestSimpleSeedColumnOverride(BaseSimpleSeedColumnOverride):
    """Types as Spark names them; whole numbers of a seed are bigints.

    The birthdays have a time, so they are timestamps: a seed loses no part of a value.
    """

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        text = fixtures.properties__schema_yml
        for theirs, ours in TYPES.items():
            text = text.replace(f"type: {theirs}\n", f"type: {ours}\n")
        return {"schema.yml": text}

    @staticmethod
    def seed_enabled_types() -> dict[str, str]:
        return {"seed_id": "string", "birthday": "timestamp"}

    @staticmethod
    def seed_tricky_types() -> dict[str, str]:
        return dict.fromkeys(("seed_id_str", "looks_like_a_bool", "looks_like_a_date"), "string")


class TestSeedSpecificFormats(BaseSeedSpecificFormats):
    """The name of a table has no dots in Spark: such a seed has an alias."""

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"seeds": {"test": {"seed.with.dots": {"+alias": "seed_with_dots"}}}}


classes(
    __name__,
    "simple_seed",
    without={
        "TestSeedWithWrongDelimiter": "PostgreSQL refuses the column that a wrong delimiter makes;"
        " Delta stores a column whose name has `|`.",
        "TestBasicSeedTests.test_simple_seed_full_refresh_flag": CASCADE,
        "TestSeedConfigFullRefreshOn": CASCADE,
    },
)
