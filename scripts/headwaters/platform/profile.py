"""The target of a project's profile, found, rendered and checked by dbt's own code.

An import of this imports dbt, which takes two seconds, so `platform.project` imports on demand.
"""

from __future__ import annotations

from pathlib import Path

from dbt.adapters.headwaters.connections import HeadwatersCredentials

from headwaters.platform import dbt_compat
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
    try:
        found = dbt_compat.rendered_target(root, folder, target)
        given = found.settings
        if given is None:
            raise UserError(
                "HW_PROFILE",
                f"{file} has no profile '{found.profile}', which {root}/dbt_project.yml names",
            )
        if given.get("type") != "headwaters":
            raise UserError(
                "HW_PROFILE",
                f"{file}: the target {found.name} of {found.profile} is of type "
                f"{given.get('type')}; headwaters works on targets of `type: headwaters`",
            )
        settings = {key: given[key] for key in given if key not in ("type", "threads")}
        settings = HeadwatersCredentials.translate_aliases(settings)
        HeadwatersCredentials.validate(settings)
        credentials: HeadwatersCredentials = HeadwatersCredentials.from_dict(settings)
    except dbt_compat.PROFILE_ERRORS as error:
        raise UserError("HW_PROFILE", f"{file}: {dbt_compat.text_of_error(error)}") from None
    credentials.settle(root)
    return found.name, credentials
