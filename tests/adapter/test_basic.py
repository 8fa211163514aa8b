"""Run the published tests of `basic`."""

from __future__ import annotations

import getpass
from typing import Any

import pytest
from dbt.tests.adapter.basic import expected_catalog
from dbt.tests.adapter.basic.test_base import BaseSimpleMaterializations
from dbt.tests.adapter.basic.test_docs_generate import BaseDocsGenerate, BaseDocsGenReferences
from dbt.tests.adapter.basic.test_ephemeral import BaseEphemeral
from dbt.tests.adapter.basic.test_generic_tests import BaseGenericTests
from dbt.tests.adapter.basic.test_incremental import BaseIncremental
from dbt.tests.adapter.basic.test_snapshot_timestamp import BaseSnapshotTimestamp

from .spark import classes


@pytest.mark.quick
class TestSimpleMaterializations(BaseSimpleMaterializations):
    pass


@pytest.mark.quick
class TestIncremental(BaseIncremental):
    pass


@pytest.mark.quick
class TestSnapshotTimestamp(BaseSnapshotTimestamp):
    pass


@pytest.mark.quick
class TestGenericTests(BaseGenericTests):
    pass


class TestEphemeral(BaseEphemeral):
    """The test counts the sources of the manifest, so its project has none of headwaters' own."""

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"name": "ephemeral", "sources": {"dbt_headwaters": {"+enabled": False}}}


class Types:
    """Spark's types and the owner of the tables: the user of the engine."""

    @pytest.fixture(scope="class")
    def profile_user(self) -> str:
        return getpass.getuser()


TYPES = {
    "id_type": "bigint",
    "text_type": "string",
    "time_type": "timestamp",
    "view_type": "view",
    "table_type": "table",
}


class TestDocsGenerate(Types, BaseDocsGenerate):
    @pytest.fixture(scope="class")
    def expected_catalog(self, project: Any, profile_user: str) -> Any:
        return expected_catalog.base_expected_catalog(
            project, role=profile_user, model_stats=expected_catalog.no_stats(), **TYPES
        )


class TestDocsGenReferences(Types, BaseDocsGenReferences):
    @pytest.fixture(scope="class")
    def expected_catalog(self, project: Any, profile_user: str) -> Any:
        return expected_catalog.expected_references_catalog(
            project,
            role=profile_user,
            model_stats=expected_catalog.no_stats(),
            bigint_type="bigint",
            **TYPES,
        )


classes(
    __name__,
    "basic",
    auto=("TestIncremental", "TestIncrementalNotSchemaChange"),
    without={
        "TestIncrementalBadStrategy": "An unknown strategy is refused while dbt parses the project,"
        " with its model and the nearest name, and not when its model runs.",
        "TestGetCatalogForSingleRelation": "dbt-spark does not offer the catalog of one relation;"
        " dbt uses it only with adapters that declare this capability.",
    },
)
