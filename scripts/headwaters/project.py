"""Where things are: the project's root, its lake folder, and the Spark settings of a dbt target."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from headwaters.errors import UserError
from headwaters.lake import home


@dataclass(frozen=True)
class Project:
    """A checkout of the project. Every command works from its root, as dbt does."""

    root: Path

    @classmethod
    def find(cls, start: Path | None = None) -> Project:
        """The nearest folder with a dbt_project.yml, from `start` (the current folder) upwards.

        Raises UserError when there is none.
        """
        here = (start or Path.cwd()).resolve()
        for folder in (here, *here.parents):
            if (folder / "dbt_project.yml").is_file():
                return cls(folder)
        raise UserError(
            "HW_PROJECT",
            f"no dbt_project.yml in {here} or above it: run headwaters inside the project's folder",
        )

    @property
    def lake(self) -> Path:
        """The one folder that holds tables, metastore, checkpoints, landing files and logs."""
        # set but empty is as good as not set: the checkout itself is never the lake
        return home(self.root / (os.environ.get("HEADWATERS_LAKE") or "lake"))

    @property
    def warehouse(self) -> Path:
        """The root of the tables: `<warehouse>/<schema>.db/<table>`."""
        return self.lake / "warehouse"

    @cached_property
    def profile(self) -> dict[str, Any]:
        """The project's profile as dbt renders it: `target` and `outputs`."""
        # dbt takes two seconds to import, and most commands do without the profile
        from dbt.config.renderer import ProfileRenderer
        from dbt_common.clients.system import load_file_contents
        from dbt_common.context import set_invocation_context
        from yaml import safe_load

        set_invocation_context(dict(os.environ))
        raw = safe_load(load_file_contents(str(self.root / "profiles" / "profiles.yml")))
        rendered: dict[str, Any] = ProfileRenderer({}).render_data(raw["headwaters"])
        return rendered

    def spark_settings(self, target: str = "local") -> dict[str, str]:
        """The Spark settings of a target of profiles.yml, as `{"spark.…": "…"}`.

        Raises UserError when profiles.yml has no such target.
        """
        outputs = self.profile["outputs"]
        if target not in outputs:
            raise UserError(
                "HW_PROJECT",
                f"profiles/profiles.yml has no target '{target}': it has {', '.join(outputs)}",
            )
        parameters = outputs[target].get("server_side_parameters", {})
        return {key: str(value) for key, value in parameters.items()}
