"""What dbt asks when it has read a project: whether its tables are declared as they can be.

dbt imports every module named `dbt_*` and starts the classes in its `plugins`, in each project of
the environment (https://github.com/dbt-labs/dbt-core: dbt/plugins/manager.py), so this one acts in
those of `type: headwaters` alone. Everything else is in dbt/adapters/headwaters.
"""

from __future__ import annotations

from collections.abc import Iterator

from dbt.contracts.graph.manifest import Manifest
from dbt.plugins.contracts import PluginArtifacts
from dbt.plugins.manager import dbtPlugin
from dbt_common.exceptions import CompilationError

from headwaters.platform.dbt_compat import (
    as_hook,
    explain_unknown_names,
    let_runs_name_missing_columns,
    name_models_with_wrong_config,
    only_reads_the_project,
)
from headwaters.platform.problems import Problem
from headwaters.streams import declared_tables
from headwaters.tables import checks
from headwaters.tables.unknown_names import explained


def every_problem(manifest: Manifest, with_contracts: bool = True) -> Iterator[Problem]:
    """Yield the problems of a manifest; none if the project uses another adapter.

    Those of contracts are for commands that only read the project. Others continue without the
    stream: runs warn of it, and ingestion reads the other streams.
    """
    if manifest.metadata.adapter_type != "headwaters":
        return
    yield from checks.every_problem(manifest)
    if with_contracts:
        yield from declared_tables.contract_problems(manifest.sources.values())


class Headwaters(dbtPlugin):
    """Checks what a project of `type: headwaters` declares."""

    @as_hook
    def get_manifest_artifacts(self, manifest: Manifest) -> PluginArtifacts:
        """Refuse what nodes declare wrongly; called by each command that writes the manifest."""
        if problems := checks.some(every_problem(manifest, only_reads_the_project())):
            raise CompilationError("\n".join(map(str, problems)))
        return {}


plugins = [Headwaters]
explain_unknown_names(explained)
name_models_with_wrong_config()
let_runs_name_missing_columns()
