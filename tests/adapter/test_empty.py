"""Run the published tests of `empty`."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.tests.adapter.empty import _models
from dbt.tests.adapter.empty.test_empty import MetadataWithEmptyFlag

from .spark import classes


class TestMetadataWithEmptyFlag(MetadataWithEmptyFlag):
    """The published test, with Spark's type of texts, and a seed whose columns Delta can drop.

    `persist_docs` has no key `relations`.
    """

    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        names = (
            *("control", "get_columns_in_relation", "alter_column_type", "alter_relation_comment"),
            *("alter_column_comment", "alter_relation_add_remove_columns", "truncate_relation"),
        )
        texts = {
            f"{name}.sql": getattr(_models, name.upper()).replace('"varchar"', '"string"')
            for name in names
        }
        comment = texts["alter_relation_comment.sql"]
        texts["alter_relation_comment.sql"] = comment.replace('"relations"', '"relation"')
        return {"schema.yml": _models.SCHEMA, **texts}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        mapping = {"delta.columnMapping.mode": "name"}
        return {"seeds": {"+tblproperties": mapping, "+allow_protocol_upgrade": True}}


SEEDS = "dbt 1.11 loads seeds whole with `--empty`; `dbt seed` has the option from dbt 1.12 on."

classes(
    __name__,
    "empty",
    without={
        "TestEmptySeedFlag.test_seed_empty_creates_table_with_zero_rows": SEEDS,
        "TestEmptySeedFlag.test_seed_empty_preserves_column_types": SEEDS,
        "TestEmptySeedFlag.test_build_empty_with_seed": SEEDS,
    },
)
