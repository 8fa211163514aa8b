"""The contents of dbt's manifest: streams and exposures, chosen with dbt's selection syntax."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from headwaters.contract import Contract, parse_contract
from headwaters.declared.publications import Publication, declared, publications
from headwaters.errors import UserError
from headwaters.project import Project

if TYPE_CHECKING:
    from dbt.contracts.graph.manifest import Manifest


def load_contracts(
    project: Project, select: Sequence[str] = (), exclude: Sequence[str] = ()
) -> list[Contract]:
    """Return the contracts of the selected streams, by name; without a selection, all of them.

    The syntax is dbt's: `source:bronze.click_events`, `tag:nightly`, `+account_daily_spend` for
    every stream upstream of a model. A bare name of a stream means that stream. Raises UserError
    for a project that dbt cannot parse, a broken contract, or a selection without streams.
    """
    manifest = _invoke(project, ["parse"])
    nodes = {
        key: source.to_dict()
        for key, source in manifest.sources.items()
        if source.config.meta.get("stream") is not None and source.config.enabled
    }
    chosen = set(nodes)
    if select or exclude:
        names = {
            node["name"]: f"source:{node['source_name']}.{node['name']}" for node in nodes.values()
        }
        arguments = ["ls", "--resource-types", "source", "--output", "json"]
        arguments += ["--output-keys", "unique_id"]
        if select:
            arguments += ["--select", *(names.get(item, item) for item in select)]
        if exclude:
            arguments += ["--exclude", *(names.get(item, item) for item in exclude)]
        lines = _invoke(project, arguments, manifest)
        chosen &= {json.loads(line)["unique_id"] for line in lines}
    if not chosen:
        wanted = " ".join(select) or "this project"
        known = ", ".join(sorted(node["name"] for node in nodes.values())) or "none"
        raise UserError(
            "HW_NO_SUCH_STREAM", f"no stream in {wanted} (the streams of this project: {known})"
        )
    contracts = sorted((parse_contract(nodes[key]) for key in chosen), key=lambda c: c.name)
    for one, other in pairwise(contracts):
        if one.name == other.name:
            raise UserError(
                "HW_CONTRACT",
                f"{one.full_name} ({one.file}) and {other.full_name} ({other.file}) are streams of "
                "one name, by which their checkpoints are known: rename one, and keep its table's "
                "name with `identifier`",
            )
    return contracts


def load_publications(
    project: Project, select: Sequence[str] = (), exclude: Sequence[str] = ()
) -> list[Publication]:
    """Return the publications of the selected exposures, by name; without a selection, all of them.

    A bare name of an exposure means that exposure. Raises UserError for a project that dbt cannot
    parse, also because of a wrong declaration, and for a selection that publishes nothing.
    """
    manifest = _invoke(project, ["parse"])
    exposures = {
        key: exposure.to_dict()
        for key, exposure in manifest.exposures.items()
        if exposure.config.enabled and declared(exposure.to_dict())
    }
    chosen = set(exposures)
    if select or exclude:
        names = {one["name"]: f"exposure:{one['name']}" for one in exposures.values()}
        arguments = ["ls", "--resource-types", "exposure", "--output", "json"]
        arguments += ["--output-keys", "unique_id"]
        for option, words in (("--select", select), ("--exclude", exclude)):
            if words:
                arguments += [option, *(names.get(word, word) for word in words)]
        lines = _invoke(project, arguments, manifest)
        chosen &= {json.loads(line)["unique_id"] for line in lines}
    nodes = {key: node.to_dict() for key, node in manifest.nodes.items()}
    found = [
        one
        for key in sorted(chosen)
        for one in publications(exposures[key], nodes)
        if isinstance(one, Publication)
    ]
    if not found:
        wanted = " ".join(select) or "this project"
        known = ", ".join(sorted(one["name"] for one in exposures.values())) or "none"
        raise UserError(
            "HW_NO_SUCH_PUBLICATION",
            f"{wanted} publishes nothing (exposures with `publish`: {known})",
        )
    return found


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
    manifest: Manifest = _invoke(project, ["parse"])
    return manifest


def selected(project: Project, manifest: Manifest, select: Sequence[str]) -> set[str]:
    """Return the ids in dbt's selection. Raises UserError if dbt does not accept it."""
    arguments = ["ls", "--output", "json", "--output-keys", "unique_id", "--select", *select]
    return {json.loads(line)["unique_id"] for line in _invoke(project, arguments, manifest)}


def copied(manifest: Manifest) -> Manifest:
    """Return a copy of a manifest, for a dbt that changes it."""
    return deepcopy(manifest)  # dbt's own method fails on disabled nodes


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
        run_dbt(project, ["compile", *options, *selected], manifest, listen)
    return {key: _why(text) for key, text in failed.items() if key in names}


def _why(text: str) -> str:
    """Return why dbt did not compile a model, in one line."""
    if "connection never acquired" in text:
        return "it asks Spark while dbt compiles it"
    return f"dbt cannot compile it: {' '.join(text.split())}"


def _invoke(project: Project, arguments: Sequence[str], manifest: Any = None) -> Any:
    result = run_dbt(project, arguments, manifest)
    if not result.success:
        reason = " ".join(str(result.exception or "see the lines above").split())
        raise UserError("HW_PROJECT", f"dbt cannot read the project: {reason}")
    return result.result


def run_dbt(
    project: Project,
    arguments: Sequence[str],
    manifest: Any = None,
    listen: Callable[[Any], None] | None = None,
) -> Any:
    """Run dbt silently in this process, over a given or parsed manifest; return its result."""
    # dbt takes two seconds to import, and most commands do not need the manifest
    from dbt.cli.main import dbtRunner

    options = ["--log-level", "none", *project.dbt_options]
    runner = dbtRunner(manifest=manifest, callbacks=[listen] if listen else [])
    return runner.invoke([*arguments, *options])
