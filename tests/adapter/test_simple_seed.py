"""Run the published tests of `simple_seed`."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.simple_seed import fixtures
from dbt.tests.adapter.simple_seed.test_seed_type_override import BaseSimpleSeedColumnOverride

from .spark import classes

CASCADE = (
    "`dbt seed --full-refresh` replaces the table in one commit, and drops no view that reads it."
)

TYPES = {"text": "string", "integer": "bigint", "timestamp without time zone": "timestamp"}


class TestSimpleSeedColumnOverride(BaseSimpleSeedColumnOverride):
    """Types as Spark names them; whole numbers of a seed are bigints."""

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        text = fixtures.properties__schema_yml
        for theirs, ours in TYPES.items():
            text = text.replace(f"type: {theirs}\n", f"type: {ours}\n")
        return {"schema.yml": text}

    @staticmethod
    def seed_enabled_types() -> dict[str, str]:
        return {"seed_id": "string", "birthday": "date"}

    @staticmethod
    def seed_tricky_types() -> dict[str, str]:
        return dict.fromkeys(("seed_id_str", "looks_like_a_bool", "looks_like_a_date"), "string")


classes(
    __name__,
    "simple_seed",
    without={
        "TestBasicSeedTests.test_simple_seed_full_refresh_flag": CASCADE,
        "TestSeedConfigFullRefreshOn": CASCADE,
    },
)
