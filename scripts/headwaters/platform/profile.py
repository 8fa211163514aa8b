"""The target of a project's profile, found, rendered and checked by dbt's own code.

An import of this imports dbt, which takes two seconds, so `platform.project` imports on demand.
"""

from __future__ import annotations

import os
from pathlib import Path

from dbt.adapters.headwaters.connections import HeadwatersCredentials
from dbt.config.profile import Profile, read_profile
from dbt.config.project import load_raw_project
from dbt.config.renderer import ProfileRenderer
from dbt_common.context import set_invocation_context
from dbt_common.dataclass_schema import ValidationError
from dbt_common.exceptions import DbtBaseException

from headwaters.platform.errors import UserError


def read_target(root: Path, folder: Path, target: str | None) -> tuple[str, HeadwatersCredentials]:
    """Return name and credentials of a target of the profile that the project in `root` names.

    `folder` has profiles.yml; `target` defaults to the profile's own. Raises UserError if the
    profile or target does not exist, or is of another type than `headwaters`.
    """
    file = folder / "profiles.yml"
    if not file.is_file():
        raise UserError(
            "HW_PROFILE",
            f"no profile for {root}: {file} does not exist; name its folder with --profiles-dir or "
            "DBT_PROFILES_DIR",
        )
    set_invocation_context(dict(os.environ))
    renderer = ProfileRenderer({})
    try:
        name = renderer.render_value(load_raw_project(str(root)).get("profile"))
        profile = read_profile(str(folder)).get(Profile.pick_profile_name(None, name))
        if not isinstance(profile, dict):
            raise UserError(
                "HW_PROFILE", f"{file} has no profile '{name}', which {root}/dbt_project.yml names"
            )
        chosen, given = Profile.render_profile(profile, name, target, renderer)
        if given.get("type") != "headwaters":
            raise UserError(
                "HW_PROFILE",
                f"{file}: the target {chosen} of {name} is of type {given.get('type')}; headwaters "
                "works on targets of `type: headwaters`",
            )
        settings = {key: given[key] for key in given if key not in ("type", "threads")}
        settings = HeadwatersCredentials.translate_aliases(settings)
        HeadwatersCredentials.validate(settings)
        credentials: HeadwatersCredentials = HeadwatersCredentials.from_dict(settings)
    except (DbtBaseException, ValidationError) as error:
        said = error.message if isinstance(error, ValidationError) else str(error)
        raise UserError("HW_PROFILE", f"{file}: {' '.join(said.split())}") from None
    credentials.settle(root)
    return chosen, credentials
