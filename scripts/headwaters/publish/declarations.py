"""The publications of a project's exposures."""

from __future__ import annotations

import json
from collections.abc import Sequence

from headwaters.platform.errors import UserError
from headwaters.platform.manifest import invoke
from headwaters.platform.project import Project
from headwaters.tables.publications import Publication, declared, publications


def load_publications(
    project: Project, select: Sequence[str] = (), exclude: Sequence[str] = ()
) -> list[Publication]:
    """Return the publications of the selected exposures, by name; without a selection, all of them.

    A bare name of an exposure means that exposure. Raises UserError for a project that dbt cannot
    parse, also because of a wrong declaration, and for a selection that publishes nothing.
    """
    manifest = invoke(project, ["parse"])
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
        lines = invoke(project, arguments, manifest)
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
