"""The contents of dbt's manifest: streams and exposures, chosen with dbt's selection syntax."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwaters.platform.errors import UserError
from headwaters.platform.project import Project
from headwaters.platform.waiting import during

if TYPE_CHECKING:
    from dbt.contracts.graph.manifest import Manifest


NOT_READ = "dbt cannot read the project: "


@dataclass(frozen=True)
class Compiled:
    """The project's nodes and sources, models with their SQL; `refused` has reasons for none."""

    nodes: Mapping[str, Mapping[str, Any]]
    exposures: Mapping[str, Mapping[str, Any]]
    refused: Mapping[str, str]


def load_compiled(project: Project) -> Compiled:
    """Return the project with the SQL of its models for a full refresh. Starts no Spark.

    A model that queries Spark during compilation has no SQL here. Raises UserError for a project
    that dbt cannot parse.
    """
    return compiled(project, parse(project))


def parse(project: Project) -> Manifest:
    """Return the project's manifest. Raises UserError for a project that dbt cannot parse."""
    manifest: Manifest = invoke(project, ["parse"])
    return manifest


def selected(
    project: Project, manifest: Manifest, select: Sequence[str], exclude: Sequence[str] = ()
) -> set[str]:
    """Return the ids in dbt's selection. Raises UserError if dbt does not accept it."""
    arguments = ["ls", "--output", "json", "--output-keys", "unique_id"]
    arguments += ["--select", *select] if select else []
    arguments += ["--exclude", *exclude] if exclude else []
    return {json.loads(line)["unique_id"] for line in invoke(project, arguments, manifest)}


def compiled(project: Project, manifest: Manifest) -> Compiled:
    """Compile a parsed project's models; their SQL is also added to the manifest."""
    selectable = {
        key
        for key, node in manifest.nodes.items()
        if node.resource_type in ("model", "snapshot") and node.language == "sql"
    }
    refused: dict[str, str] = {}
    while left := [
        key for key in sorted(selectable - refused.keys()) if not _has_sql(manifest, key)
    ]:
        before = len(refused)
        refused |= _compile(project, manifest, left)
        if len(refused) == before:
            refused |= dict.fromkeys(
                (key for key in left if not _has_sql(manifest, key)), "dbt did not compile it"
            )
    tables = {**manifest.nodes, **manifest.sources}
    return Compiled(
        {key: node.to_dict() for key, node in tables.items() if node.config.enabled},
        {key: exposure.to_dict() for key, exposure in manifest.exposures.items()},
        refused,
    )


def _has_sql(manifest: Manifest, key: str) -> bool:
    return bool(getattr(manifest.nodes[key], "compiled", False))


def _compile(project: Project, manifest: Any, keys: Sequence[str]) -> dict[str, str]:
    """Compile nodes into the manifest up to the first failure; return the reasons by node."""
    failed: dict[str, str] = {}

    def listen(event: Any) -> None:
        if event.info.name == "NodeFinished" and event.data.run_result.status == "error":
            failed[event.data.node_info.unique_id] = event.data.run_result.message

    names = {key: ".".join(manifest.nodes[key].fqn) for key in keys}
    # without --fail-fast, dbt also ends at the first failure, but its threads do not; the temporary
    # folder keeps a user's own compiled files
    with tempfile.TemporaryDirectory() as folder:
        options = ["--no-introspect", "--no-populate-cache", "--full-refresh", "--fail-fast"]
        options += ["--indirect-selection", "empty", "--target-path", folder]
        selected = ["--select", *(f"fqn:{name}" for name in names.values())]
        with during("compiling the models"):
            run_dbt(project, ["compile", *options, *selected], manifest, listen)
    return {key: _why(text) for key, text in failed.items() if key in names}


def _why(text: str) -> str:
    """Return why dbt did not compile a model, in one line."""
    from headwaters.platform.dbt_compat import NO_CONNECTION

    if NO_CONNECTION in text:
        return "it asks Spark while dbt compiles it"
    return f"dbt cannot compile it: {' '.join(text.split())}"


def invoke(project: Project, arguments: Sequence[str], manifest: Any = None) -> Any:
    """Return the result of a dbt command. Raises UserError if dbt does not accept it."""
    with during("reading the project"):
        result = run_dbt(project, arguments, manifest)
    if not result.success:
        reason = " ".join(str(result.exception or "see the lines above").split())
        raise UserError("HW_PROJECT", f"{NOT_READ}{reason}")
    return result.result


def run_dbt(
    project: Project,
    arguments: Sequence[str],
    manifest: Any = None,
    listen: Callable[[Any], None] | None = None,
) -> Any:
    """Run dbt silently in this process, over a given or parsed manifest; return its result."""
    # dbt takes two seconds to import, and most commands do not need the manifest
    from headwaters.platform import dbt_compat

    options = ["--log-level", "none", *project.dbt_options]
    return dbt_compat.run([*arguments, *options], manifest, listen)
