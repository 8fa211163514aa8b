"""The contracts of a project's streams."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

from headwaters.platform.errors import UserError
from headwaters.platform.manifest import invoke
from headwaters.platform.project import Project
from headwaters.streams.contract import Contract, parse_contract


def load_contracts(
    project: Project, select: Sequence[str] = (), exclude: Sequence[str] = ()
) -> tuple[list[Contract], list[UserError]]:
    """Return the contracts of the selected streams, by name, and the problems of the broken ones.

    Without a selection, these are all streams. A broken contract does not stop the other streams.

    The syntax is dbt's: `source:bronze.click_events`, `tag:nightly`, `+account_daily_spend` for
    every stream upstream of a model. A bare name of a stream means that stream. Raises UserError
    for a project that dbt cannot parse, or a selection without streams, or without a right one.
    """
    manifest = invoke(project, ["parse"])
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
        lines = invoke(project, arguments, manifest)
        chosen &= {json.loads(line)["unique_id"] for line in lines}
    if not chosen:
        wanted = " ".join(select) or "this project"
        known = ", ".join(sorted(node["name"] for node in nodes.values())) or "none"
        raise UserError(
            "HW_NO_SUCH_STREAM", f"no stream in {wanted} (the streams of this project: {known})"
        )
    contracts, refused = [], []
    for key in sorted(chosen):
        try:
            contracts.append(parse_contract(nodes[key]))
        except UserError as error:
            refused.append(error)
    if not contracts:
        raise refused[0]
    contracts.sort(key=lambda contract: contract.name)
    for one, other in pairwise(contracts):
        if one.name == other.name:
            raise UserError(
                "HW_CONTRACT",
                f"{one.full_name} ({one.file}) and {other.full_name} ({other.file}) are streams of "
                "one name, by which their checkpoints are known: rename one, and keep its table's "
                "name with `identifier`",
            )
    return contracts, refused
