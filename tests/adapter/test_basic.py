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
from dbt.tests.adapter.basic.test_incremental import (
    BaseIncremental,
    BaseIncrementalNotSchemaChange,
)
from dbt.tests.adapter.basic.test_snapshot_timestamp import BaseSnapshotTimestamp
from dbt.tests.util import AnyInteger

from .spark import Auto, classes


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
# The size of a table is in the catalog; dbt says that there are statistics.
SIZE: dict[str, dict[str, Any]] = {
    "bytes": {
        "id": "bytes",
        "label": "bytes",
        "value": AnyInteger(),
        "description": None,
        "include": True,
    },
    "has_stats": {**expected_catalog.no_stats()["has_stats"], "value": True},
}


class TestDocsGenerate(Types, BaseDocsGenerate):
    @pytest.fixture(scope="class")
    def expected_catalog(self, project: Any, profile_user: str) -> Any:
        return expected_catalog.base_expected_catalog(
            project,
            role=profile_user,
            model_stats=expected_catalog.no_stats(),
            seed_stats=SIZE,
            **TYPES,
        )


class TestDocsGenReferences(Types, BaseDocsGenReferences):
    """The published test; columns are counted from 0, as by dbt-spark."""

    @pytest.fixture(scope="class")
    def expected_catalog(self, project: Any, profile_user: str) -> Any:
        catalog = expected_catalog.expected_references_catalog(
            project,
            role=profile_user,
            model_stats=SIZE,
            view_summary_stats=expected_catalog.no_stats(),
            bigint_type="bigint",
            **TYPES,
        )
        for kind in ("nodes", "sources"):
            for one in catalog[kind].values():
                for column in one["columns"].values():
                    column["index"] = AnyInteger()
        return catalog


class TestIncrementalNotSchemaChange(BaseIncrementalNotSchemaChange):
    pass


class TestIncrementalNotSchemaChangeWithAuto(Auto, BaseIncrementalNotSchemaChange):
    """The model calls current_timestamp, which `auto` refuses by default."""

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"models": {"+allow_nondeterministic": ["current_timestamp"]}}


classes(
    __name__,
    "basic",
    auto=("TestIncremental",),
    without={
        "TestIncrementalBadStrategy": "An unknown strategy is refused while dbt parses the project,"
        " with its model and the nearest name, and not when its model runs.",
        "TestGetCatalogForSingleRelation": "dbt-spark does not offer the catalog of one relation;"
        " dbt uses it only with adapters that declare this capability.",
    },
)
