"""The places of a project: its root, its profile's target, the lake, and Spark's settings."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from headwaters.platform import lake as lakes
from headwaters.platform import places
from headwaters.platform.errors import UserError
from headwaters.platform.places import Place, RemotePath

if TYPE_CHECKING:
    from dbt.adapters.headwaters.connections import HeadwatersCredentials


@dataclass(frozen=True)
class Project:
    """A dbt project with a target of `type: headwaters`; commands run from its root, like dbt.

    `profiles_dir` is the folder of profiles.yml (default: DBT_PROFILES_DIR, the project's root if
    it has one, or ~/.dbt). `target` is the profile's target (default: DBT_TARGET, or the profile's
    own).
    """

    root: Path
    profiles_dir: Path | None = None
    target: str | None = None

    @classmethod
    def find(cls, profiles_dir: Path | None = None, target: str | None = None) -> Project:
        """Return the nearest folder with a dbt_project.yml, from the current folder upwards.

        Raises UserError if there is none.
        """
        here = Path.cwd().resolve()
        named = profiles_dir or os.environ.get("DBT_PROFILES_DIR")  # relative to this folder
        for folder in (here, *here.parents):
            if (folder / "dbt_project.yml").is_file():
                return cls(folder, Path(named).resolve() if named else None, target)
        raise UserError(
            "HW_PROJECT",
            f"no dbt_project.yml in {here} or above it: run headwaters inside the project's folder",
        )

    @property
    def lake(self) -> Place:
        """Return the folder of tables, checkpoints and landing files, or its place in a store."""
        credentials = self._read[1]
        return credentials.home if credentials.is_remote else self.local

    @property
    def local(self) -> Path:
        """Return this machine's folder: logs, the embedded metastore, the engine and servers.

        It is the lake itself, unless that is in a store.
        """
        credentials = self._read[1]
        return (
            credentials.folder
            if credentials.is_remote
            else lakes.home(self.root / credentials.place)
        )

    def enter(self) -> None:
        """Create the lake, or check that it can be used: see platform.lake."""
        lake = self.lake
        if isinstance(lake, RemotePath):
            lakes.enter_store(lake, self.local)
        else:
            lakes.enter(lake)

    @property
    def place(self) -> Path:
        """Return that folder as in the profile: relative to the project's root, or absolute."""
        return self._read[1].place

    @property
    def target_name(self) -> str:
        """Return the name of the selected target."""
        return self._read[0]

    @property
    def credentials(self) -> HeadwatersCredentials:
        """Return the target's credentials, with every setting of its Spark."""
        return self._read[1]

    @property
    def warehouse(self) -> Place:
        """Return the root of the tables: `<warehouse>/<schema>.db/<table>`.

        Raises UserError if only Spark reads it.
        """
        lake, credentials = self.lake, self._read[1]
        named = credentials.server_side_parameters.get("spark.sql.warehouse.dir")
        if named is None:
            return lake / "warehouse"
        if places.is_remote(named):
            if not places.is_readable(named):
                raise UserError(
                    "HW_PROFILE",
                    f"the target {self.target_name} has its warehouse in {named}: streams and "
                    "commands without Spark need it in a folder, or in a store of "
                    f"{', '.join(places.SCHEMES)}",
                )
            return places.open_uri(named, credentials.server_side_parameters)
        parts = urlsplit(named)
        folder = self.root / (unquote(parts.path) if parts.scheme else named)
        of_the_lake = self.root / credentials.place / "warehouse"
        return lake / "warehouse" if folder == of_the_lake else folder

    @property
    def profiles_folder(self) -> Path:
        """Return dbt's folder of profiles.yml."""
        if named := self.profiles_dir or os.environ.get("DBT_PROFILES_DIR"):
            return Path(named).absolute()
        return self.root if (self.root / "profiles.yml").exists() else Path.home() / ".dbt"

    @property
    def dbt_options(self) -> list[str]:
        """Return the options that make dbt read the same project and target."""
        target = ["--target", self.target] if self.target else []
        folders = ["--project-dir", str(self.root), "--profiles-dir", str(self.profiles_folder)]
        return [*folders, *target]

    def spark_settings(self) -> dict[str, str]:
        """Return the settings of a Spark inside the process, as `{"spark.…": "…"}`.

        Raises UserError if the target is a remote Spark.
        """
        name, credentials = self._read
        settings = credentials.server_side_parameters
        if credentials.method != "session" or "spark.remote" in settings:
            from headwaters.platform.dbt_compat import targets_with_own_spark

            others = targets_with_own_spark(self.root, self.profiles_folder)
            remedy = (
                f"choose {' or '.join(f'--target {one}' for one in others)}"
                if others
                else "add a target with spark.master to the profile"
            )
            raise UserError(
                "HW_PROFILE",
                f"the target {name} is a Spark elsewhere, and this command is a Spark application "
                f"of its own: {remedy}",
            )
        return {key: str(value) for key, value in settings.items()}

    @cached_property
    def _read(self) -> tuple[str, HeadwatersCredentials]:
        """Return name and credentials of the target."""
        # dbt takes two seconds to import, and `--help` does not need it
        from headwaters.platform.profile import read_target

        target = self.target or os.environ.get("DBT_TARGET") or None
        return read_target(self.root, self.profiles_folder, target)
