"""The options that commands share, in dbt's form, and the project that they select."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwaters.platform.project import Project

Target = Annotated[
    str | None,
    typer.Option("--target", "-t", help="Target of the profile [DBT_TARGET, or the profile's]."),
]
ProfilesDir = Annotated[
    Path | None,
    typer.Option(help="Folder of profiles.yml [DBT_PROFILES_DIR, the project's, or ~/.dbt]."),
]


def find_project(profiles_dir: Path | None = None, target: str | None = None) -> Project:
    """Return the project of the current folder. Print its root if that is a parent folder."""
    project = Project.find(profiles_dir, target)
    if project.root != Path.cwd().resolve():
        typer.echo(f"headwaters: works from {project.root}, the project's folder", err=True)
    return project
