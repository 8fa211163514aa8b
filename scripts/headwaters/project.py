"""Where things are: the project's root, its profile's target, the lake, and Spark's settings."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from headwaters.errors import UserError
from headwaters.lake import home

if TYPE_CHECKING:
    from dbt.adapters.headwaters.connections import HeadwatersCredentials


@dataclass(frozen=True)
class Project:
    """A dbt project with a target of `type: headwaters`; commands work from its root, as dbt does.

    `profiles_dir` is the folder of profiles.yml (default: DBT_PROFILES_DIR, the project's root
    where it has one, or ~/.dbt), `target` the profile's target (default: DBT_TARGET, or the one
    that the profile names).
    """

    root: Path
    profiles_dir: Path | None = None
    target: str | None = None

    @classmethod
    def find(cls, profiles_dir: Path | None = None, target: str | None = None) -> Project:
        """The nearest folder with a dbt_project.yml, from the current folder upwards.

        Raises UserError when there is none.
        """
        here = Path.cwd().resolve()
        named = profiles_dir or os.environ.get("DBT_PROFILES_DIR")  # of here, and not of the root
        for folder in (here, *here.parents):
            if (folder / "dbt_project.yml").is_file():
                return cls(folder, Path(named).resolve() if named else None, target)
        raise UserError(
            "HW_PROJECT",
            f"no dbt_project.yml in {here} or above it: run headwaters inside the project's folder",
        )

    @property
    def lake(self) -> Path:
        """The one folder that holds tables, metastore, checkpoints, landing files and logs."""
        return home(self.root / self._read[1].place)

    @property
    def place(self) -> Path:
        """The lake's path as the profile has it: relative to the project's root, or absolute."""
        return self._read[1].place

    @property
    def target_name(self) -> str:
        """The name of the target that is used."""
        return self._read[0]

    @property
    def credentials(self) -> HeadwatersCredentials:
        """The target's credentials, with every setting of its Spark."""
        return self._read[1]

    @property
    def warehouse(self) -> Path:
        """The root of the tables: `<warehouse>/<schema>.db/<table>`.

        Raises UserError where it is no folder of this machine.
        """
        of_the_lake = self.root / self._read[1].place / "warehouse"
        named = self._read[1].server_side_parameters.get("spark.sql.warehouse.dir", of_the_lake)
        parts = urlsplit(str(named))
        if parts.scheme not in ("", "file"):
            raise UserError(
                "HW_PROFILE",
                f"the target {self._read[0]} has its warehouse in {named}: streams are written to "
                "a local folder only",
            )
        folder = self.root / (unquote(parts.path) if parts.scheme else str(named))
        return self.lake / "warehouse" if folder == of_the_lake else folder

    @property
    def profiles_folder(self) -> Path:
        """The folder in which dbt finds profiles.yml."""
        if named := self.profiles_dir or os.environ.get("DBT_PROFILES_DIR"):
            return Path(named).absolute()
        return self.root if (self.root / "profiles.yml").exists() else Path.home() / ".dbt"

    @property
    def dbt_options(self) -> list[str]:
        """What dbt is told, so that it reads the same project and target."""
        target = ["--target", self.target] if self.target else []
        folders = ["--project-dir", str(self.root), "--profiles-dir", str(self.profiles_folder)]
        return [*folders, *target]

    def spark_settings(self) -> dict[str, str]:
        """The settings of a Spark inside the process, as `{"spark.…": "…"}`.

        Raises UserError where the target is a Spark elsewhere.
        """
        name, credentials = self._read
        settings = credentials.server_side_parameters
        if credentials.method != "session" or "spark.remote" in settings:
            raise UserError(
                "HW_PROFILE",
                f"the target {name} is a Spark elsewhere, and this command starts its own: choose "
                "another one with --target or DBT_TARGET",
            )
        return {key: str(value) for key, value in settings.items()}

    @cached_property
    def _read(self) -> tuple[str, HeadwatersCredentials]:
        """Name and credentials of the target."""
        # dbt takes two seconds to import, of which `--help` needs none
        from headwaters.profile import read_target

        target = self.target or os.environ.get("DBT_TARGET") or None
        return read_target(self.root, self.profiles_folder, target)
